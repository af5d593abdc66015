#!/usr/bin/python3
"""Try to break Interlock on new seeds, for as long as told, and record the result in bench/CAMPAIGNS.md.

    ./dev campaign [MINUTES] [--only PARTS] [--server PRESET] [--sim-commands N] [--images N] [--kills N]
                   [--programs DIR]

  MINUTES           how long the campaign runs (default 60)
  --only PARTS      run only these parts, separated by commas: sim, images, kills, fuzz, races
  --server PRESET   the build of the server that races test: release (default), asan or tsan. Each report of a sanitizer
                    about one of its processes fails the test
  --sim-commands N  run until the simulator has carried out at least N commands
  --images N        run until at least N power-loss images are checked
  --kills N         run until at least N processes are killed and checked
  --programs DIR    build nothing; use the programs in DIR/release, DIR/fuzz and DIR/PRESET

The campaign builds the programs of its parts and runs the parts in turn, in rounds:

  sim     the simulator: whole stories of clients, faults and restarts
  images  power-loss images of the store
  kills   kill -9 of a real process under load, at random moments and at single system calls
  fuzz    each fuzzer in fuzz/
  races   tests/test_races_http.py against the server; one round is one run of that file

Each turn takes at most 60 s. A short campaign has shorter turns, so that it reaches every part. When the time is up, the
campaign ends after the turn under way. Images, kills and races have a shortest turn of up to half a minute on a slow
machine, so a campaign of less than 3 minutes may take longer than told.

With --sim-commands, --images or --kills, these totals end the campaign and MINUTES does not. A part that has reached its
total pauses. Parts without a total keep taking turns until the last total is reached.

Seeds are new in each campaign: the first one is drawn from the system's randomness, and each part counts up from it. A
finding ends the campaign. It is printed with the command that replays it. Stories and images are replayed bit for bit.
A fuzzer's finding is replayed from the input that it saved. A replay of a kill or a race uses the same random numbers,
but the system schedules the threads anew, so it may take several tries.

The campaign ends by adding one line to bench/CAMPAIGNS.md, also after SIGINT, SIGTERM or SIGHUP. Exit codes: 0 without
findings, 1 with findings or if the campaign could not continue, 2 for wrong arguments, 130 after a signal.
"""

import argparse
import base64
import contextlib
import dataclasses
import errno
import fcntl
import math
import os
import pathlib
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import build
from build import about, count, duration, say_error, shown
from run_tests import ProgressLine
from suites import PYTEST

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "bench" / "CAMPAIGNS.md"
HEADING = """# Campaigns

`./dev campaign` adds one line here each time it ends. `./dev campaign --help` explains the parts.

- *date* is in UTC. *commit* has a `+` if `src`, `sim` or `crash` had uncommitted changes, and a `?` if the campaign was
  given its programs instead of building them.
- *seeds* are the seeds that the parts used. Each part counts up from the first one, which is drawn at random.
- The counts are what was carried out and checked. A part that was not selected has a `-`.
- *race rounds* name the build of the server if it is not `release`.
- *findings* is 0, or the number of findings, each with the command that replays it. The reason is added if a campaign
  ended early.

| date | commit | seeds | simulated commands | images | kills | fuzzer executions | race rounds | findings |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
MINUTES = 60.0
TURN_SECONDS_MAX = 60
TURN_SECONDS_MIN = 2         # In the first round, which reaches every part.
NEXT_TURN_SECONDS_MIN = 15   # In later rounds. With less time left, the campaign ends.
HANG_SECONDS = 600           # Beyond its turn. A program that takes longer is a finding.
STOP_SECONDS = 20            # From the signal that stops a program to SIGKILL.
SEED_MAX = 2_000_000_000     # Of the first seed. libFuzzer reads a seed as a 32-bit int.
FREE_NEEDED = 1 << 30        # Bytes. Kills and races leave files in the temporary directory while they run.
FREE_FULL = 64 << 20         # A program that fails with less free most likely failed because of it.
OUTPUT_LINES = 40            # Of a program with findings, printed.
FINDINGS_RECORDED = 5
SERVERS = ("release", "asan", "tsan")
TEXT_MAX = 160               # Of one finding in the record.
INPUT_MAX = 90               # Bytes of a fuzzer's input that are recorded beside the file name.
SYMBOLIZER = "/usr/bin/llvm-symbolizer-19"
INTERRUPTED = 130


class Stop(Exception):
    """The campaign cannot continue: what failed, why, and what to do."""


@dataclasses.dataclass
class Finding:
    part: str
    text: str
    replay: str


@dataclasses.dataclass
class Ran:
    """A program that has ended."""
    command: list
    code: int         # Negative: the number of the signal that ended it.
    text: str         # All that it printed.
    seconds: float
    problem: str      # Why it counts as failed although it printed no violation; empty if it does not.
    complete: bool    # False if the campaign stopped it because of a signal.


# The parts. A part knows its programs, how to run them for some seconds, and how to read what they print.

class Part:
    name = ""
    targets = ()     # (preset, target)
    goal_option = ""

    def __init__(self, campaign):
        self.campaign = campaign
        self.done = 0         # In the unit of its column.
        self.seeds_used = 0
        self.turns = 0
        self.goal = 0         # 0: none.
        self.notes = ""       # What the last turn did.

    @classmethod
    def needed(cls, _options):
        """(preset, target) of each program."""
        return cls.targets

    def cell(self):
        """Its column in the record."""
        return f"{self.done:,}"

    def seed(self):
        return self.campaign.first_seed + self.seeds_used

    def goal_reached(self):
        return self.done >= self.goal

    def left(self):
        """What is left to the goal, or no limit."""
        return self.goal - self.done if self.goal else math.inf

    def turn(self, seconds):
        raise NotImplementedError

    def find(self, text, replay):
        self.campaign.findings.append(Finding(self.name, text, replay))

    def check(self, ran, replay, counted):
        """Adds a finding if the program failed and none of what it printed was recognised as one."""
        if ran.problem:
            self.find(ran.problem, replay)
        elif not counted and ran.complete:
            self.find(f"{pathlib.Path(ran.command[0]).name} printed no result", replay)


class Sim(Part):
    name, targets, goal_option = "sim", (("release", "sim_main"),), "sim_commands"

    def turn(self, seconds):
        words = ["--from", str(self.seed()), "--seconds", f"{seconds:.0f}", "--threads", str(cores())]
        if self.goal:
            words += ["--commands-total", str(self.left())]
        # A simulator that hangs prints the seeds of its stories on SIGABRT.
        ran = self.campaign.execute([self.campaign.program("release", "sim_main"), *words], seconds,
                                    stop_signal=signal.SIGABRT)
        counted = re.search(r"^(\d+) stories, (\d+) commands in ", ran.text, re.M)
        stories, commands = map(int, counted.groups()) if counted else (0, 0)
        replays = dict(re.findall(r"to see it again: (\./dev sim --seed (\d+).*)", ran.text))
        known = {seed: f"seed {seed}: {number} violations, {first.strip()}" for seed, number, first in
                 re.findall(r"^seed (\d+): (\d+) violations\n(.*)", ran.text, re.M)}
        for replay, seed in replays.items():
            self.find(known.get(seed, f"seed {seed} or one that ran beside it: {ran.problem or 'it died'}"), replay)
        if not replays:
            self.check(ran, shlex.join(["./dev", "sim", *words]), counted)
        self.done += commands
        self.seeds_used += max([stories, *(int(seed) - self.seed() + 1 for seed in replays.values())])
        self.notes = f"{stories:,} stories, {commands:,} commands"


class Batches(Part):
    """A part whose program takes a number instead of a time. The pace of one batch gives the size of the next."""
    batch_first = batch_min = 0
    pace = 0.0

    def turn(self, seconds):
        begun, before = time.monotonic(), self.done
        while True:
            left = seconds - (time.monotonic() - begun)
            size = self.pace * left if self.pace else min(self.batch_first, self.batch_first * left / TURN_SECONDS_MAX * 2)
            done_before, batch_begun = self.done, time.monotonic()
            self.batch(round(max(min(size, self.left()), self.batch_min)), max(left, TURN_SECONDS_MIN))
            self.pace = (self.done - done_before) / max(time.monotonic() - batch_begun, 0.01)
            over = time.monotonic() - begun > seconds * 0.75
            if over or self.campaign.over() or self.goal and self.goal_reached() or self.done == done_before:
                break
        self.notes = f"{self.done - before:,} {self.name}"

    def batch(self, size, seconds):
        raise NotImplementedError

    def crash(self, words, seconds, row):
        """Runs crash_main. Returns the rows that match `row`, after it looked for findings."""
        words = [self.name, *words, "--seed", str(self.seed())]
        replay = shlex.join(["./dev", "crash", *words])
        ran = self.campaign.execute([self.campaign.program("release", "crash_main"), *words], seconds)
        rows = re.findall(row, ran.text, re.M)
        known, violated = len(self.campaign.findings), False
        for line in ran.text.splitlines():
            if control := re.match(r"NOT NOTICED +(.*?) {2,}", line):
                self.find(f"the checker did not notice what was broken {control[1]}", replay)
            if re.match(r"\S", line):
                violated = "VIOLATED" in line
            elif violated and (example := re.match(r"    (\S.*)", line)):
                again = re.search(r"; again: (--replay \d+:\d+)", line)
                self.find(example[1].replace(again[0], "") if again else example[1],
                          f"./dev crash {again[1]}" if again else replay)
        if len(self.campaign.findings) == known:
            self.check(ran, replay, rows)
        return rows


class Images(Batches):
    name, targets, goal_option = "images", (("release", "crash_main"),), "images"
    # A history has about 3,000 images, and a batch ends in the middle of its last histories.
    batch_first, batch_min = 2_000, 500

    def batch(self, size, seconds):
        # --short shortens the controls only, because the number of images is given.
        rows = self.crash(["--short", "--images", str(size), "--threads", str(cores())], seconds,
                          r"^(?:ok|\d+ VIOLATED) +power lost +(\d+) images at \d+ points of (\d+) histories$")
        self.done += sum(int(images) for images, _ in rows)
        self.seeds_used += max([1, *(int(histories) for _, histories in rows)])


class Kills(Batches):
    name, targets, goal_option = "kills", (("release", "crash_main"),), "kills"
    batch_first, batch_min = 20, 8

    def batch(self, size, seconds):
        # With strace, crash_main kills as many again at single system calls.
        rows = self.crash(["--kills", str(math.ceil(size / 2))], seconds,
                          r"^(?:ok|\d+ VIOLATED) +kill -9.*? {2,}(\d+) kills$")
        self.done += sum(map(int, rows))
        self.seeds_used += 1


class Fuzz(Part):
    name = "fuzz"

    @classmethod
    def needed(cls, _options):
        return tuple(("fuzz", path.stem) for path in sorted((ROOT / "fuzz").glob("fuzz_*.cc")))

    def turn(self, seconds):
        before, fuzzers = self.done, [target for _, target in self.needed(self.campaign.options)]
        for fuzzer in fuzzers:
            self.fuzz(fuzzer, max(1, round(seconds / len(fuzzers))))
            if self.campaign.over():
                break
        self.notes = f"{self.done - before:,} executions of {count(len(fuzzers), 'fuzzer')}"

    def fuzz(self, fuzzer, seconds):
        program = self.campaign.program("fuzz", fuzzer)
        directory, name = pathlib.Path(program).parent, fuzzer.removeprefix("fuzz_")
        corpus = directory / "corpus" / name  # Shared with ./dev fuzz.
        corpus.mkdir(parents=True, exist_ok=True)
        ran = self.campaign.execute(
            [program, f"-max_total_time={seconds}", f"-seed={self.seed()}", "-max_len=8192", "-timeout=10",
             "-print_final_stats=1", "-dict=fuzz/words.dict", f"-artifact_prefix={shown(directory)}/found_{name}_",
             shown(corpus), f"fuzz/seeds/{name}"], seconds,
            ASAN_SYMBOLIZER_PATH=SYMBOLIZER, UBSAN_OPTIONS="print_stacktrace=1")
        executed = re.search(r"^stat::number_of_executed_units: +(\d+)", ran.text, re.M)
        saved = re.search(r"Test unit written to (.*)", ran.text) if ran.code != 0 and ran.complete else None
        if saved:
            summary = re.search(r"^SUMMARY: (.*)", ran.text, re.M) or re.search(r"ERROR: (.*)", ran.text)
            self.find(f"{fuzzer}: {summary[1] if summary else ran.problem}{self.content(ROOT / saved[1])}",
                      shlex.join([program, saved[1]]))
        else:
            self.check(ran, shlex.join(map(str, ran.command)), executed)
        self.done += int(executed[1]) if executed else 0
        self.seeds_used += 1

    @staticmethod
    def content(path):
        """A short input as text, because ./dev clean removes the file."""
        with contextlib.suppress(OSError):
            data = path.read_bytes()
            return f" (input in base64: {base64.b64encode(data).decode()})" if len(data) <= INPUT_MAX else ""
        return ""


class Races(Part):
    name = "races"
    seeds_per_round = 3  # The file derives so many from INTERLOCK_SEED.
    file = "tests/test_races_http.py"

    @classmethod
    def needed(cls, options):
        return ((options.server, "interlock"),)

    def cell(self):
        server = self.campaign.options.server
        return super().cell() + (f" ({server})" if server != "release" else "")

    def turn(self, seconds):
        server = self.campaign.options.server
        binary = self.campaign.program(server, "interlock")
        ran = self.campaign.execute([*PYTEST, self.file], seconds, INTERLOCK_SEED=str(self.seed()),
                                    INTERLOCK_BINARY=str((ROOT / binary).resolve()),
                                    COLUMNS="200")  # pytest shortens the reasons to the width.
        passed = re.search(r"(\d+) passed", ran.text)
        tested = f"INTERLOCK_BINARY={shlex.quote(binary)} " if server != "release" else ""
        again = f"{tested}INTERLOCK_SEED={self.seed()} {shlex.join(PYTEST)}"
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)(?: - (.*))?$", ran.text, re.M) if ran.complete else []
        for test, why in failed:
            self.find(f"{test.split('::')[-1]}: {why or 'failed'}", f"{again} {shlex.quote(test)}")
        if not failed:
            self.check(ran, f"{again} {self.file}", passed)
        self.done += ran.complete and bool(passed)
        self.seeds_used += self.seeds_per_round
        self.notes = f"{passed[1] if passed else 0} tests passed"


PARTS = {part.name: part for part in (Sim, Images, Kills, Fuzz, Races)}


# The campaign.

class Campaign:
    def __init__(self, options, commit):
        self.options, self.commit, self.label = options, commit, options.label
        self.first_seed = 1 + secrets.randbelow(SEED_MAX)
        self.parts = [PARTS[name](self) for name in options.only]
        for part in self.parts:
            part.goal = getattr(options, part.goal_option, 0) if part.goal_option else 0
        self.goals = any(part.goal for part in self.parts)
        self.findings, self.problem, self.signal = [], "", 0
        self.line = ProgressLine()
        self.begun = time.monotonic()
        self.round, self.current, self.outputs = 0, "", 0
        self.scratch = None

    def run(self):
        """Returns an exit code, after adding a line to the record."""
        before = {each: signal.signal(each, self.on_signal) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="campaign-"))
            self.line.say(f"{self.label}: {self.plan()}")
            while not self.over() and self.run_round():
                pass
        except Stop as stop:
            self.problem = str(stop)
        except OSError as error:
            self.problem = explain(error)
        finally:
            self.line.clear()
            code = self.finish()
            for each, handler in before.items():
                signal.signal(each, handler)
        return code

    def plan(self):
        names = ", ".join(part.name for part in self.parts)
        until = duration(self.options.minutes * 60)
        if self.goals:
            until = "until " + ", ".join(f"{part.goal:,} {'commands' if part.name == 'sim' else part.name}"
                                         for part in self.parts if part.goal)
        return f"{names} in turn, {until}; seeds from {self.first_seed}, drawn from the system's randomness"

    def over(self):
        return bool(self.findings or self.signal or self.problem)

    def seconds_left(self):
        return self.begun + self.options.minutes * 60 - time.monotonic()

    def run_round(self):
        """One turn for each part. False if it was the last round."""
        self.round += 1
        for number, part in enumerate(self.parts):
            seconds = TURN_SECONDS_MAX
            if not self.goals:
                seconds = min(seconds, self.seconds_left() / (len(self.parts) - number))
                if self.round > 1 and seconds < NEXT_TURN_SECONDS_MIN:
                    return False
            elif part.goal and part.goal_reached():
                continue
            self.take_turn(part, max(seconds, TURN_SECONDS_MIN))
            if self.over():
                return False
        return not self.goals or not all(part.goal_reached() for part in self.parts)

    def take_turn(self, part, seconds):
        check_space(self.scratch, FREE_NEEDED)
        begun, known = time.monotonic(), len(self.findings)
        self.current = part.name
        part.turn(seconds)
        part.turns += 1
        if len(self.findings) > known and free_bytes(self.scratch) < FREE_FULL:
            # A full disk is no violation, but the replay settles it.
            failed, self.findings[known:] = self.findings[known:], []
            raise Stop(f"{part.name} failed while the disk was full ({failed[0].text}); free at least 1 GiB and replay: "
                       f"{failed[0].replay}")
        word = "FAILED" if len(self.findings) > known else "ended" if self.signal else "ok"
        self.line.say(f"{word:6}  round {self.round}: {part.name:7} {part.notes:45} {time.monotonic() - begun:6.1f} s; "
                      f"{self.time_left()}")

    def time_left(self):
        if not self.goals:
            return f"{about(max(self.seconds_left(), 0))} left"
        rounds = []
        for part in self.parts:
            if part.goal and not part.goal_reached():
                if not part.done:
                    return "time left not known yet"
                rounds.append((part.goal - part.done) / (part.done / max(part.turns, 1)))  # Also within the first turn.
        return f"{about(max(rounds, default=0) * (time.monotonic() - self.begun) / self.round)} left"

    def on_signal(self, number, _frame):
        self.signal = self.signal or number

    def program(self, preset, name):
        path = self.options.programs / preset / name
        if not os.access(path, os.X_OK):
            raise Stop(f"there is no program {shown(path)}; repeat ./dev campaign, which builds it")
        return shown(path)

    def execute(self, command, seconds, stop_signal=signal.SIGINT, **environment):
        """Runs a program to its end, or until a signal or HANG_SECONDS beyond its turn end it."""
        self.outputs += 1
        path = self.scratch / f"output-{self.outputs}-{self.current}.txt"
        with open(path, "w+", errors="replace") as output:
            begun = time.monotonic()
            try:
                # A session of its own: Ctrl-C comes to this process, and no child of the program outlives it.
                process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TMPDIR": str(self.scratch), **environment},
                                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                           start_new_session=True)
            except OSError as error:
                raise Stop(f"cannot start {command[0]}: {error.strerror}; repeat ./dev campaign, which builds it") from None
            hung = False
            while not self.signal and not hung and not wait_for(process, 1.0):
                self.line.show(f"{self.label}: round {self.round}, {self.current}, {duration(time.monotonic() - begun)} of "
                               f"about {duration(seconds)}; {self.time_left()}")
                hung = time.monotonic() - begun > seconds + HANG_SECONDS
            if not wait_for(process, 0):
                process.send_signal(stop_signal if hung else signal.SIGINT)
                wait_for(process, STOP_SECONDS)
            # The process is not reaped yet, so that its id cannot be another's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            output.seek(0)
            text = output.read()
        complete = not self.signal
        problem = f"no result after {duration(time.monotonic() - begun)}" if hung else failure(command, code, text)
        ran = Ran(command, code, text, time.monotonic() - begun, problem if complete else "", complete)
        if not ran.problem:
            path.unlink()
        else:
            self.line.clear()
            lines = text.splitlines()
            print("\n".join([f"---- {shlex.join(map(str, command))}", *lines[-OUTPUT_LINES:]]))
            if len(lines) > OUTPUT_LINES:
                print(f"---- {len(lines) - OUTPUT_LINES} more lines are in {path}")
        return ran

    def finish(self):
        """Prints the result, records it, and returns the exit code."""
        for finding in self.findings:
            print(f"finding: {finding.part}: {finding.text}\n  replay: {finding.replay}")
        if self.problem:
            say_error(f"the campaign ended early: {self.problem}")
        elif self.signal:
            say_error(f"the campaign was interrupted by {signal.Signals(self.signal).name}; the turn under way is counted "
                      "only as far as its program had printed a result")
        if self.scratch and self.findings:
            print(f"files of the programs are kept in {self.scratch}")
        elif self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
        recorded = self.record(self.row())
        print(f"{self.label}: {count(len(self.findings), 'finding')} in {duration(time.monotonic() - self.begun)}; "
              f"{', '.join(f'{part.name} {part.done:,}' for part in self.parts)}", flush=True)
        if self.findings or self.problem or not recorded:
            return 1
        return INTERRUPTED if self.signal else 0

    def row(self):
        counts = {part.name: part.cell() for part in self.parts}
        last = self.first_seed + max([1, *(part.seeds_used for part in self.parts)]) - 1
        cells = [time.strftime("%Y-%m-%d", time.gmtime()), self.commit, f"{self.first_seed} to {last}",
                 *(counts.get(name, "-") for name in PARTS), self.findings_cell()]
        return f"| {' | '.join(cells)} |\n"

    def findings_cell(self):
        listed = [f"{finding.part}: {self.plain(finding.text)}, replay: `{finding.replay}`"
                  for finding in self.findings[:FINDINGS_RECORDED]]
        text = str(len(self.findings)) + (f": {'; '.join(listed)}" if listed else "")
        if len(self.findings) > FINDINGS_RECORDED:
            text += f"; and {len(self.findings) - FINDINGS_RECORDED} more"
        if self.problem:
            text += f"; ended early: {self.plain(self.problem, 4 * TEXT_MAX)}"
        elif self.signal:
            text += f"; interrupted by {signal.Signals(self.signal).name}"
        return text

    def plain(self, text, length=TEXT_MAX):
        """Text that fits into a cell of a table and names no directory of this machine."""
        text = text.replace(str(self.scratch), "TMPDIR").replace(f"{ROOT}/", "")
        text = " ".join(text.replace("|", "/").replace("`", "'").split())
        # The input of a fuzzer is of use only as a whole.
        return text if len(text) <= length or "base64" in text else text[:length - 1] + "…"

    @staticmethod
    def record(row):
        """False if the row could not be written. It is printed then."""
        try:
            append(RECORD, row)
            return True
        except OSError as error:
            say_error(f"cannot write {shown(RECORD)}: {error.strerror}; add this line to it:")
            print(row, end="", flush=True)
            return False


def append(path, row):
    """Adds a whole row or nothing."""
    with open(path, "ab+", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # Two campaigns may end together.
        size = file.seek(0, os.SEEK_END)
        text = row
        if size == 0:
            text = HEADING + row
        elif file.seek(size - 1) >= 0 and file.read(1) != b"\n":
            text = "\n" + row
        data = text.encode()
        try:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with contextlib.suppress(OSError):
                os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(size)
            raise


def wait_for(process, seconds):
    """True if the process ended within this time. It stays to be reaped."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def failure(command, code, text):
    """Why a program failed, in a sentence, or nothing."""
    if code == 0:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip() and "to see it again" not in line]
    how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
    name = pathlib.Path(command[-1] if "pytest" in command else command[0]).name
    return f"{name} ended with {how}{f': {lines[-1]}' if lines else ''}"


def cores():
    return min(len(os.sched_getaffinity(0)), 64)


def free_bytes(directory):
    return shutil.disk_usage(directory).free


def check_space(directory, needed):
    if (free := free_bytes(directory)) < needed:
        raise Stop(f"the disk of {directory.parent} has {free / (1 << 30):.1f} GiB free and the campaign needs about "
                   f"{needed / (1 << 30):.0f} GiB; free some space, or set TMPDIR to a directory that has it")


def explain(error):
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {error.filename or tempfile.gettempdir()}; free at least 1 GiB and repeat ./dev campaign"
    return f"{error.filename or 'a file'}: {error.strerror}"


# Before the campaign.

class Parser(argparse.ArgumentParser):
    def error(self, message):
        message = re.sub(r"^argument \S+: ", "", message)
        say_error(f"campaign: {message}; nothing was run; ./dev campaign --help lists the arguments")
        sys.exit(2)

    def print_help(self, file=None):
        print(__doc__.strip(), file=file)


def parse(words):
    def number(kind, name):
        def read(text):
            with contextlib.suppress(ValueError, OverflowError):
                if math.isfinite(value := kind(text)) and value > 0:
                    return value
            noun = "a whole number above 0" if kind is int else "a positive number"
            raise argparse.ArgumentTypeError(f"{name} must be {noun}, not '{text}'")
        return read

    def names(text):
        wanted = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in wanted if name not in PARTS]:
            raise argparse.ArgumentTypeError(f"unknown part '{unknown[0]}'; the parts are {', '.join(PARTS)}")
        if not wanted:
            raise argparse.ArgumentTypeError(f"--only names no part; the parts are {', '.join(PARTS)}")
        return [name for name in PARTS if name in wanted]

    def server(text):
        if text not in SERVERS:
            raise argparse.ArgumentTypeError(f"unknown server '{text}'; the servers are {', '.join(SERVERS)}")
        return text

    parser = Parser(prog="./dev campaign", allow_abbrev=False)
    parser.add_argument("minutes", nargs="?", type=number(float, "MINUTES"))
    parser.add_argument("--only", type=names, default=list(PARTS))
    for part in PARTS.values():
        if part.goal_option:
            option = "--" + part.goal_option.replace("_", "-")
            parser.add_argument(option, type=number(int, option), default=0)
    parser.add_argument("--server", type=server, default="release")
    parser.add_argument("--programs", type=pathlib.Path)
    # For ./dev: the names of its steps, and a check of the arguments before it installs anything.
    parser.add_argument("--label", default="campaign")
    parser.add_argument("--build-label", default="build")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(words)
    for part in PARTS.values():
        if part.goal_option and getattr(options, part.goal_option) and part.name not in options.only:
            parser.error(f"--{part.goal_option.replace('_', '-')} needs the part {part.name}, which --only leaves out")
    if options.server != "release" and "races" not in options.only:
        parser.error("--server needs the part races, which --only leaves out")
    return options


def build_programs(options):
    """Returns an exit code."""
    wanted = [target for name in options.only for target in PARTS[name].needed(options)]
    for preset in dict.fromkeys(preset for preset, _ in wanted):
        targets = list(dict.fromkeys(target for of, target in wanted if of == preset))
        if targets and (code := build.run(preset, targets, options.build_label)):
            return code
    return 0


def commit_text(built):
    def git(*words):
        with contextlib.suppress(OSError):
            ran = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, errors="replace")
            return ran.stdout.strip() if ran.returncode == 0 else None
        return None

    commit = git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return "unknown"
    return commit + ("+" if git("status", "--porcelain", "--", "src", "sim", "crash") else "") + ("" if built else "?")


def check_record():
    """Before hours are spent on a result that cannot be written."""
    try:
        if RECORD.exists():
            open(RECORD, "ab").close()
        elif not os.access(RECORD.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise Stop(f"cannot write {shown(RECORD)}: {error.strerror}; nothing was run; make it a file that this user can "
                   "write") from None


def main(words):
    options = parse(words)
    if options.check:
        return 0
    try:
        check_record()
        if options.programs is None and (code := build_programs(options)):
            say_error("campaign: the programs were not built; nothing was run")
            return code
        built, options.programs = options.programs is None, options.programs or ROOT / "build"
        campaign = Campaign(options, commit_text(built))
        for part in campaign.parts:
            for preset, target in part.needed(options):
                campaign.program(preset, target)
    except Stop as stop:
        say_error(f"campaign: {stop}")
        return 1
    if campaign.goals and options.minutes:
        print(f"{options.label}: totals are given, so MINUTES does not end the campaign")
    options.minutes = options.minutes or MINUTES
    return campaign.run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
