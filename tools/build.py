#!/usr/bin/python3
"""Configure and build one preset, with progress, a time estimate and short errors.

    tools/build.py [--label TEXT] PRESET [TARGET...]    # the default target is all
    tools/build.py --known PRESET                       # only check that the preset exists

The build directory is build/PRESET. Its build.log has the whole output of the last build. A lock keeps two builds out of
one directory, because ninja has none. A directory that CMake cannot continue from is configured from scratch.
"""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GIB = 1 << 30
FREE_FIRST_BUILD = 3 * GIB  # A full release build takes 1.6 GiB, and the compiler cache takes some more.
FREE_NEXT_BUILD = GIB // 2
FREE_FULL = GIB // 100      # With less, a failed step most likely failed because of it.
ERROR_LINES_MAX = 40
# Seconds per step while all cores are busy, for steps that .ninja_log does not know.
STEP_SECONDS = (("Unity/", 20.0), (".pch", 6.0), ("_test.cc.o", 2.5), (".o", 3.3), (".a", 0.1), ("page", 8.0), ("", 0.3))
PRIOR_SHARE = 0.1           # Weight of the estimate beside the observed pace, as a share of the whole build.
LINE_EVERY_SECONDS = 30     # Without a terminal: one line per 30 s, or per 10 % if those are at least 5 s apart.
LINE_EVERY_PERCENT = 10
LINE_SECONDS_MIN = 5
STOP_SECONDS = 20           # How long ninja may take to stop its compilers.
MARK = "\x1f"               # Around ninja's counters, because compilers do not print it.
INTERRUPTED = 130


class Failure(Exception):
    """What failed, why, and what to do."""


class Interrupted(Exception):
    """SIGINT, SIGTERM or SIGHUP."""


def main(words):
    label, only_check = "build", False
    while words and words[0].startswith("--"):
        option = words.pop(0)
        if option == "--known":
            only_check = True
        elif option == "--label" and words:
            label = words.pop(0)
        else:
            sys.exit(__doc__)
    if not words:
        sys.exit(__doc__)
    return run(words[0], words[1:], label, only_check)


def run(preset, targets=(), label="build", only_check=False):
    """Returns an exit code, after saying what failed."""
    try:
        check_preset(preset)
        if not only_check:
            build(preset, list(targets) or ["all"], label)
        return 0
    except Failure as failure:
        say_error(str(failure))
        return 1
    except Interrupted as interrupted:
        say_error(f"interrupted{interrupted}; the finished steps are kept, and the same command continues from there")
        return INTERRUPTED
    except OSError as error:
        say_error(explain(error))
        return 1


def build(preset, targets, label="build"):
    directory = ROOT / "build" / preset
    progress = Progress(f"{label} {preset}")
    directory.mkdir(parents=True, exist_ok=True)
    with catch_signals(), lock(directory, progress) as lock_file:
        check_space(directory)
        (directory / "build.log").write_text("")  # Also finds out whether the directory can be written.
        drop_broken_records(directory, progress)
        configure(preset, directory, progress)
        code, output = run_ninja(directory, targets, progress, lock_file)
        if code != 0:
            progress.clear()
            raise Failure(failure_text(output, code, preset, directory, targets))
        progress.end()


# Checks before the build.

def presets():
    """Name to preset, with what it inherits."""
    listed = {entry["name"]: entry for entry in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]}

    def whole(entry):
        parents = entry.get("inherits", [])
        result = {"cacheVariables": {}}
        for name in reversed([parents] if isinstance(parents, str) else parents):
            parent = whole(listed[name])
            result = {**result, **parent, "cacheVariables": {**result["cacheVariables"], **parent["cacheVariables"]}}
        return {**result, **entry, "cacheVariables": {**result["cacheVariables"], **entry.get("cacheVariables", {})}}

    return {name: whole(entry) for name, entry in listed.items() if not entry.get("hidden")}


def check_preset(preset):
    known = presets()
    if preset not in known:
        raise Failure(f"unknown preset '{preset}'; known presets: {', '.join(known)}")


def check_space(directory):
    free = shutil.disk_usage(directory).free
    needed = FREE_NEXT_BUILD if (directory / ".ninja_log").exists() else FREE_FIRST_BUILD
    if free < needed:
        raise Failure(f"the disk of {shown(directory)} has {free / GIB:.1f} GiB free and the build needs about "
                      f"{needed / GIB:.1f} GiB; nothing was built; free some space and repeat the command")


@contextlib.contextmanager
def lock(directory, progress):
    """ninja inherits the lock, so that it lasts as long as a compiler of this build does."""
    with open(directory.parent / f".{directory.name}.lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            progress.note(f"waiting for process {file.read().strip() or 'unknown'}, which builds in {shown(directory)}")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield file


@contextlib.contextmanager
def catch_signals():
    def stop(number, _frame):
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)  # One is enough: stopping goes on undisturbed.
        raise Interrupted

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


# Configuring.

def configure(preset, directory, progress):
    under_way = directory / ".configuring"  # Only a configure that was killed leaves it behind.
    command = ["cmake", "--preset", preset]
    if reason := why_not_continue(preset, directory, under_way):
        progress.note(f"{reason}; configuring {shown(directory)} from scratch")
        command.append("--fresh")
    under_way.touch()
    code, text = execute(command)
    if code >= 0:
        under_way.unlink()
    log = directory / "configure.log"
    log.write_text(text)
    if code != 0:
        how = f"cmake ended with exit code {code}" if code > 0 else f"cmake was ended by signal {-code}"
        raise Failure(f"configuring failed: {how}\n{excerpt(cmake_errors(text), log)}{disk_full(text, directory)}\n"
                      f"repeat: {shlex.join(command[:3])}")


def cmake_errors(text):
    """CMake's output without the progress messages."""
    return re.sub(r'^(?:-- .*|See also .*|Preset CMake variables:|  \w+(?::\w+)?=".*")\n', "", text, flags=re.M) or text


def why_not_continue(preset, directory, under_way):
    """Why CMake cannot continue from what is in the directory, or nothing."""
    cache = directory / "CMakeCache.txt"
    if under_way.exists():
        return "an earlier configure was killed"
    if not cache.exists():
        return None
    values = dict(re.findall(r"^([^#/\s:][^:\n]*):[A-Z]+=(.*)$", cache.read_text(errors="replace"), re.M))
    if not {"CMAKE_HOME_DIRECTORY", "CMAKE_CACHEFILE_DIR", "CMAKE_GENERATOR"} <= set(values):
        return "CMakeCache.txt is incomplete"
    for name, path in (("CMAKE_HOME_DIRECTORY", ROOT), ("CMAKE_CACHEFILE_DIR", directory)):
        if os.path.realpath(values[name]) != os.path.realpath(path):
            return f"{shown(directory)} was made for {values[name]}"
    wanted = presets()[preset]
    if values["CMAKE_GENERATOR"] != wanted.get("generator", values["CMAKE_GENERATOR"]):
        return f"{shown(directory)} was made with {values['CMAKE_GENERATOR']}"
    compiler = wanted["cacheVariables"].get("CMAKE_CXX_COMPILER")
    found = values.get("CMAKE_CXX_COMPILER", "")
    if compiler and os.path.basename(found) != os.path.basename(compiler):
        return f"{shown(directory)} was made with the compiler {found or 'none'}"
    return None


def drop_broken_records(directory, progress):
    """ninja, or CMake with it, stops at records that are not its own, for instance after a power loss."""
    for name, signature in ((".ninja_log", b"# ninja log v"), (".ninja_deps", b"# ninjadeps\n")):
        record = directory / name
        if record.exists() and not record.read_bytes().startswith(signature):
            record.unlink()
            progress.note(f"{shown(record)} is damaged, so the steps it recorded run again")


def environment():
    # ccache works with precompiled headers only with this. No compilation here depends on the time of day.
    values = {"CCACHE_SLOPPINESS": "pch_defines,time_macros", **os.environ}
    values.setdefault("INTERLOCK_COMPILER_LAUNCHER", "ccache" if shutil.which("ccache") else "")
    return values


def execute(command):
    try:
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    except FileNotFoundError:
        raise Failure(f"there is no {command[0]}; './dev build' installs it on Debian 12") from None
    try:
        text = process.communicate()[0]
    except Interrupted:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, text


# Running ninja.

class Output:
    """Reads ninja's output line by line."""

    def __init__(self, on_step=lambda done, total, text: None):
        self.on_step = on_step
        self.failed = []    # [outputs, command, lines] of each failed step.
        self.messages = []  # What ninja says itself.
        self.done = self.total = 0
        self.record = None

    def line(self, line):
        """Returns the line as it goes to the log."""
        if line.startswith(MARK):
            done_of_total, text = line[1:].split(MARK, 1)
            self.record = None
            if not text.startswith(("Re-checking globbed directories", "Re-running CMake")):  # These have a count of their own.
                self.done, self.total = map(int, done_of_total.split("/"))
                self.on_step(self.done, self.total, text)
            return f"[{done_of_total}] {text}"
        if line.startswith("FAILED: "):
            self.record = [line[len("FAILED: "):].strip(), None, []]
            self.failed.append(self.record)
        elif line.startswith("ninja: "):
            self.messages.append(line[len("ninja: "):])
            self.record = None
        elif self.record and self.record[1] is None:
            self.record[1] = line
        elif self.record:
            self.record[2].append(line)
        return line


def run_ninja(directory, targets, progress, lock_file):
    command = ["ninja", "-C", str(directory)]
    progress.begin(Estimate(planned_steps(directory, targets), jobs()))
    output = Output(progress.step)
    ninja_environment = {**environment(), "NINJA_STATUS": f"{MARK}%f/%t{MARK}"}
    try:
        # Its own session: a terminal's Ctrl-C comes to this process, which passes it on and waits.
        process = subprocess.Popen([*command, *targets], env=ninja_environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                   pass_fds=[lock_file.fileno()])
    except FileNotFoundError:
        raise Failure("there is no ninja; './dev build' installs it on Debian 12") from None
    with open(directory / "build.log", "a", errors="replace") as log:
        try:
            for line in lines_of(process.stdout, progress.tick):
                keep(log, output.line(line))
            return process.wait(), output
        except BaseException as error:
            stop(process)
            progress.clear()
            if isinstance(error, Interrupted) and output.total:
                raise Interrupted(f" after {output.done} of {output.total} steps") from None
            raise


def lines_of(stream, tick):
    rest = b""
    while True:
        if not select.select([stream], [], [], 1.0)[0]:
            tick()
            continue
        data = os.read(stream.fileno(), 1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace") for line in lines)
        if not data:
            if rest:
                yield rest.decode(errors="replace")
            return


def keep(log, line):
    with contextlib.suppress(OSError):  # A full disk is reported by the step that needs it.
        log.write(line + "\n")
        log.flush()


def stop(process):
    """ninja passes SIGINT on to its compilers, waits for them, and removes what they left unfinished."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# Time.

def jobs():
    """As many steps as ninja runs at once."""
    cores = len(os.sched_getaffinity(0))
    return 2 if cores < 2 else 3 if cores == 2 else cores + 2


def planned_steps(directory, targets):
    """Output to expected seconds, for every step that ninja is about to run."""
    known = durations(directory / ".ninja_log")
    try:
        with tempfile.TemporaryDirectory() as temporary:
            # Under its own name ninja would stop after a dry run of CMake.
            plan = pathlib.Path(temporary) / "plan.ninja"
            plan.symlink_to(directory / "build.ninja")
            listed = subprocess.run(["ninja", "-C", directory, "-n", "-f", plan, *targets], capture_output=True, text=True,
                                    errors="replace", env={**os.environ, "NINJA_STATUS": MARK})
    except OSError:
        return {}
    names = [step_name(line[1:]) for line in listed.stdout.splitlines() if line.startswith(MARK)]
    return {name: known.get(name) or built_in_seconds(name) for name in names}


def durations(log):
    """Output to the longest time recorded: the shorter ones were found in the compiler cache."""
    result = {}
    with contextlib.suppress(OSError):
        for line in log.read_text(errors="replace").splitlines():
            fields = line.split("\t")
            if len(fields) == 5 and fields[0].isdigit() and fields[1].isdigit():
                result[fields[3]] = max(result.get(fields[3], 0), (int(fields[1]) - int(fields[0])) / 1000)
    return result


def step_name(text):
    """The output, as CMake's descriptions name it. A description of another form stands for itself."""
    match = re.match(r"(?:Building \w+ object|Linking \w+ (?:executable|(?:static|shared) library)|Generating) ([^,]+)", text)
    return match[1] if match else text


def built_in_seconds(name):
    return next(seconds for part, seconds in STEP_SECONDS if part in name)


class Estimate:
    """Time left: the expected time of the remaining steps, corrected by the pace of those that are done."""

    def __init__(self, seconds, at_once):
        self.left = dict(seconds)
        self.at_once = min(at_once, max(1, len(seconds)))
        self.total = sum(seconds.values())
        self.done = 0.0

    def finish(self, name):
        self.done += self.left.pop(name, 0.0)

    def share(self):
        return self.done / self.total if self.total else 0.0

    def remaining(self, elapsed):
        prior = max(self.total * PRIOR_SHARE, 1.0)
        pace = (elapsed * self.at_once + prior) / (self.done + prior)
        return max(0.0, (self.total - self.done) * pace / self.at_once)


def duration(seconds):
    seconds = round(seconds)
    if seconds < 60:
        return f"{max(1, seconds)} s"
    if seconds < 600:
        return f"{seconds // 60} min {seconds % 60} s" if seconds % 60 else f"{seconds // 60} min"
    return f"{round(seconds / 60)} min"


def about(seconds):
    """Rounded as an estimate is: to 5 s below a minute, to half a minute below ten, to minutes above."""
    if seconds < 3:
        return "a few seconds"
    unit = 5 if seconds < 60 else 30 if seconds < 600 else 60
    return f"about {duration(max(unit, round(seconds / unit) * unit))}"


class Progress:
    """One line that is rewritten on a terminal, a plain line now and then elsewhere."""

    def __init__(self, label, stream=None, terminal=None, clock=time.monotonic):
        self.label = label
        self.stream = stream or sys.stdout
        self.terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb" if terminal is None else terminal
        self.clock = clock
        self.estimate = Estimate({}, 1)
        self.started = self.last_line = clock()
        self.last_percent = 0
        self.steps_done = self.steps_total = 0
        self.current = ""

    def note(self, text):
        self.clear()
        self._write(f"{self.label}: {text}\n")

    def begin(self, estimate):
        self.estimate = estimate
        self.started = self.last_line = self.clock()
        if estimate.left and not self.terminal:
            self._write(f"{self.label}: {count(len(estimate.left), 'step')}, {about(estimate.remaining(0))}\n")
        self.tick()

    def step(self, done, total, text):
        self.steps_done, self.steps_total = done, total
        name = step_name(text)
        self.estimate.finish(name)
        self.current = re.sub(r"^.*?CMakeFiles/[^/]+\.dir/|\.o$", "", name)
        self.tick()

    def tick(self):
        if not self.estimate.left:
            return
        now, percent = self.clock(), int(self.estimate.share() * 100)
        text = (f"{self.label}: {self.steps_done} of {self.steps_total or len(self.estimate.left)} steps, {percent} %, "
                f"{about(self.estimate.remaining(now - self.started))} left")
        if self.terminal:
            width = shutil.get_terminal_size().columns
            self._write(f"\r{f'{text}  {self.current}'[:width - 1]}\x1b[K")
            return
        since = now - self.last_line
        if since >= LINE_EVERY_SECONDS or since >= LINE_SECONDS_MIN and percent >= self.last_percent + LINE_EVERY_PERCENT:
            self.last_line, self.last_percent = now, percent
            self._write(text + "\n")

    def end(self):
        self.clear()
        if self.steps_done:
            self._write(f"{self.label}: {count(self.steps_done, 'step')} in {duration(self.clock() - self.started)}\n")
        else:
            self._write(f"{self.label}: up to date\n")

    def clear(self):
        if self.terminal:
            self._write("\r\x1b[K")

    def _write(self, text):
        self.stream.write(text)
        self.stream.flush()


# Errors.

def failure_text(output, code, preset, directory, targets):
    log = directory / "build.log"
    if not output.failed:
        said = "; ".join(text.removeprefix("error: ").removeprefix("fatal: ") for text in output.messages
                         if not text.startswith("Entering directory"))
        repeat = shlex.join(["ninja", "-C", shown(directory), *targets])
        return f"the build failed: ninja: {said or f'exit code {code}'}{disk_full(said, directory)}\nrepeat: {repeat}"
    names, command, lines = output.failed[0]
    first = names.split()[0] if names else "a step"
    text = "\n".join(lines)
    more = ""
    if len(output.failed) > 1:
        more = f"\nalso failed: {', '.join(each[0].split()[0] for each in output.failed[1:4])}"
    repeat = ["cmake", "--preset", preset] if first == "build.ninja" else ["ninja", "-C", shown(directory), first]
    said = excerpt(text, log) or f"  no output of: {command}"
    return f"the build failed at {first}\n{said}{disk_full(text, directory)}{more}\nrepeat: {shlex.join(repeat)}"


def excerpt(text, log):
    """The first errors, and where the rest is."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if len(lines) > ERROR_LINES_MAX:
        first = next((number for number, line in enumerate(lines) if re.search(r"\b(?:error|Error|ERROR)\b", line)), 0)
        first = max(0, min(first - 5, len(lines) - ERROR_LINES_MAX))
        total, lines = len(lines), lines[first:first + ERROR_LINES_MAX]
        lines.append(f"({total - ERROR_LINES_MAX} more lines in {shown(log)})")
    return "\n".join(f"  {line}" for line in lines)


def disk_full(text, directory):
    """A sentence if the disk is the reason. CMake and ninja do not always say so themselves."""
    named = re.search(r"No space left on device|ENOSPC|Disk quota exceeded", text)
    if not named and shutil.disk_usage(directory).free >= FREE_FULL:
        return ""
    return f"\nthe disk is full: {free_text(directory)}; free at least {FREE_NEXT_BUILD / GIB:.1f} GiB and repeat the command"


def free_text(path):
    try:
        return f"{shutil.disk_usage(path).free / GIB:.1f} GiB free in {shown(path)}"
    except OSError:
        return f"no space in {shown(path)}"


def explain(error):
    path = shown(error.filename) if error.filename else "build"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full: {free_text(ROOT)}; free at least {FREE_NEXT_BUILD / GIB:.1f} GiB and repeat the command"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (f"cannot write {path}: {error.strerror}; nothing was built; make it writable for this user, "
                "or use a copy of the checkout that is")
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return f"cannot write {path}: a file is in the way of the build directory; remove it and repeat the command"
    return f"cannot build: {path}: {error.strerror}"


def count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shown(path):
    path = pathlib.Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def say_error(text):
    sys.stdout.flush()
    print(f"dev: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
