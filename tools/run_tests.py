#!/usr/bin/python3
"""Runs all tests, or only the suites named, and ends with one line: `N passed, N failed`.

    tools/run_tests.py BUILD_DIR [--slowest [N]] [suite...]

tools/suites.py lists the suites and divides them into jobs. The runner starts the longest jobs first, and as many at once
as the cores can take. It counts single test cases, read from the reports that GoogleTest, pytest and Vitest write. A
program that writes no report counts as one case, by its exit code. Everything that cannot be counted is a failure: a
missing program, a program that died or timed out, and a test program whose report is missing or empty.

--slowest lists the N slowest test cases (default 30). BUILD_DIR/test_times.json keeps the time of each job, for the
order and the estimate of the next run.

INTERLOCK_LONG=1 runs the long form of the black-box tests: more of everything, all of it also on PostgreSQL, and on the
newest PostgreSQL, which npm brings.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

from suites import LONG, Job, Suite, all_suites

OUTPUT_LINES_MAX = 400
SLOWEST = 30
CORES = len(os.sched_getaffinity(0))
# The sum of the jobs' cores that may run at once. Above CORES, because a job's use of the CPU is uneven.
LOAD_MAX = 1.15 * CORES
AT_ONCE_MAX = 6 * CORES  # For the memory: some jobs start a browser or a database.


@dataclasses.dataclass
class Case:
    name: str
    seconds: float
    result: str  # "passed", "failed" or "skipped".


@dataclasses.dataclass
class Outcome:
    cases: list = dataclasses.field(default_factory=list)
    text: str = ""  # The reason of the failure, and what the program printed.
    seconds: float = 0
    cpu_seconds: float = 0

    def count(self, result):
        return sum(case.result == result for case in self.cases)


def main():
    build_dir, slowest, wanted = parse(sys.argv[1:])
    # A shell's & and nohup make a process ignore signals. The tests of signals must not inherit that.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_DFL)
    suites = selected(all_suites(build_dir), wanted)
    times = Times(pathlib.Path(build_dir) / ("test_times_long.json" if LONG else "test_times.json"))
    with tempfile.TemporaryDirectory() as reports:
        run = Run(suites, times, pathlib.Path(reports))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: run.interrupt())
        run.to_its_end()
    times.keep()
    run.print_failures()
    if slowest:
        run.print_slowest(slowest)
    print(f"{run.count('passed')} passed, {run.count('failed')} failed", flush=True)
    sys.exit(1 if run.count("failed") else 0)


def parse(words):
    """The build directory, the number of slowest cases to list, and the names of the suites."""
    slowest, names, words = 0, [], list(words)
    while words:
        word = words.pop(0)
        if word == "--slowest":
            slowest = int(words.pop(0)) if words and words[0].isdigit() else SLOWEST
        elif word.startswith("--slowest=") and word.removeprefix("--slowest=").isdigit():
            slowest = int(word.removeprefix("--slowest="))
        elif word in ("-h", "--help"):
            print(__doc__)
            sys.exit(0)
        elif word.startswith("-"):
            print(f"run_tests: unknown flag {word}; there is --slowest [N], and names of suites", file=sys.stderr)
            sys.exit(2)
        else:
            names.append(word)
    if not names:
        sys.exit(__doc__)
    return names[0], slowest, names[1:]


def selected(suites, wanted):
    """The suites with these names, or all if there are no names."""
    known = sorted({suite.name for suite in suites})
    unknown = [name for name in dict.fromkeys(wanted) if name not in known]
    refused = [Suite(name, [Job(name, problem=f"no suite has this name; the suites are: {' '.join(known)}")])
               for name in unknown]
    return [suite for suite in suites if suite.name in wanted or not wanted] + refused


class Times:
    """Seconds that each job took in the last run, from a file."""

    def __init__(self, path):
        self.path, self.found = path, {}
        with contextlib.suppress(OSError, ValueError, TypeError):
            self.found = dict(json.loads(path.read_text()))

    def seconds(self, job):
        """Estimate for a job: its last run, or the table of suites.py."""
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return float(self.found[job.name]["seconds"])
        return job.cost[0]

    def note(self, job, outcome):
        self.found[job.name] = {"seconds": round(outcome.seconds, 2), "cpu_seconds": round(outcome.cpu_seconds, 2)}

    def keep(self):
        with contextlib.suppress(OSError):  # A build directory that cannot be written does not fail the tests.
            self.path.write_text(json.dumps(self.found, indent=1, sort_keys=True) + "\n")


def next_job(waiting, running, load_max=LOAD_MAX, at_once_max=AT_ONCE_MAX):
    """The first job of `waiting` that may start beside `running`, or None. A job that fits nowhere runs by itself."""
    load = sum(job.cost[1] for job in running)
    for job in waiting:
        if not running:
            return job
        if job.alone or any(other.alone for other in running) or len(running) >= at_once_max:
            continue
        if load + job.cost[1] <= load_max:
            return job
    return None


def seconds_left(waiting, running, seconds_of, pick=next_job):
    """Estimate of the time to the end. `running`: pairs of a job and the seconds it has run so far."""
    waiting, now = list(waiting), 0.0
    ends = [(max(seconds_of(job) - run_for, 0), job) for job, run_for in running]
    while waiting or ends:
        while job := pick(waiting, [each for _, each in ends]):
            waiting.remove(job)
            ends.append((now + seconds_of(job), job))
        first = min(ends, key=lambda end: end[0])
        now = max(now, first[0])
        ends.remove(first)
    return now


class Run:
    """Starts the jobs, counts their cases and prints one line per suite."""

    def __init__(self, suites, times, reports):
        self.suites, self.times, self.reports = suites, times, reports
        jobs = [job for suite in suites for job in suite.jobs]
        self.all_jobs = len(jobs)
        self.waiting = sorted(jobs, key=times.seconds, reverse=True)
        self.running = []  # Pairs of a job and its process.
        self.ended = queue.SimpleQueue()  # Triples of a job, its process or None, and its outcome. None: interrupted.
        self.outcomes = {}  # By id of the job.
        self.begun = time.monotonic()
        self.line = ProgressLine()

    def to_its_end(self):
        self.line.say(f"{len(self.suites)} suites in {self.all_jobs} jobs on {CORES} cores, about {self.left()}")
        while self.waiting or self.running:
            while job := next_job(self.waiting, [each for each, _ in self.running]):
                self.waiting.remove(job)
                self.start(job)
            self.show_progress()
            with contextlib.suppress(queue.Empty):
                if (ended := self.ended.get(timeout=1)) is None:
                    self.kill()
                    sys.exit("interrupted")
                self.take(*ended)
        self.line.say(f"all jobs done after {minutes(time.monotonic() - self.begun)}")

    def start(self, job):
        """Starts the process, and waits for it in a thread."""
        report = self.reports / f"{len(self.outcomes) + len(self.running)}-{job.name.replace('/', '_')}.xml"
        process = problem = None
        output = tempfile.TemporaryFile()
        try:
            if job.command:
                process = start_process(job, report, output)
        except OSError as error:
            problem = str(error)
        self.running.append((job, process))
        waiter = threading.Thread(target=self.wait, args=(job, process, problem, report, output), daemon=True)
        waiter.start()

    def wait(self, job, process, problem, report, output):
        try:
            if process is None:
                outcome = Outcome([Case(job.name, 0, "failed")], problem or job.problem)
            else:
                code, cpu_seconds = wait_for(process, job.timeout_seconds)
                seconds = time.monotonic() - process.begun
                output.seek(0)
                outcome = judge(job, code, report, output.read().decode(errors="replace"), seconds)
                outcome.seconds, outcome.cpu_seconds = seconds, cpu_seconds
            output.close()
        except Exception as error:  # Or the loop would wait for this job for ever.
            outcome = Outcome([Case(job.name, 0, "failed")], f"run_tests.py failed: {error!r}")
        self.ended.put((job, process, outcome))

    def take(self, job, process, outcome):
        self.running.remove((job, process))
        self.outcomes[id(job)] = outcome
        if process is not None:
            self.times.note(job, outcome)
        for suite in self.suites:
            if any(each is job for each in suite.jobs) and all(id(each) in self.outcomes for each in suite.jobs):
                self.print_suite(suite)

    def interrupt(self):
        """Called by a signal. The loop ends the jobs, because the signal may come while one of them is being started."""
        self.ended.put(None)

    def kill(self):
        for _, process in self.running:
            if process is not None:
                kill_group(process)
        deadline = time.monotonic() + 5  # The reports are removed next, so the jobs have to be gone.
        with contextlib.suppress(queue.Empty):
            for _ in list(self.running):
                self.ended.get(timeout=max(deadline - time.monotonic(), 0.01))
        self.line.clear()

    def print_suite(self, suite):
        outcomes = [self.outcomes[id(job)] for job in suite.jobs]
        passed, failed, skipped = (sum(outcome.count(result) for outcome in outcomes)
                                   for result in ("passed", "failed", "skipped"))
        seconds = sum(outcome.seconds for outcome in outcomes)
        self.line.say(f"{'FAILED' if failed else 'ok':6}  {suite.name:24} {passed:5} passed, {failed} failed"
                      f"{f', {skipped} skipped' if skipped else ''}  {seconds:6.1f} s"
                      f"{f' in {len(suite.jobs)} jobs' if len(suite.jobs) > 1 else ''}")

    def show_progress(self):
        self.line.show(f"{minutes(time.monotonic() - self.begun)}: {len(self.outcomes)} of {self.all_jobs} jobs done, about "
                       f"{self.left()} left; running {', '.join(job.name for job, _ in self.running)}")

    def left(self):
        now = time.monotonic()
        started = [(job, now - process.begun if process else 0) for job, process in self.running]
        return minutes(seconds_left(self.waiting, started, self.times.seconds))

    def count(self, result):
        return sum(outcome.count(result) for outcome in self.outcomes.values())

    def print_failures(self):
        for suite in self.suites:
            for job in suite.jobs:
                if (outcome := self.outcomes[id(job)]).count("failed"):
                    print(f"\n---- {job.name}: {' '.join(job.command)[:400]}\n{outcome.text}")

    def print_slowest(self, number):
        cases = [(case.seconds, suite.name, case.name) for suite in self.suites for job in suite.jobs
                 for case in self.outcomes[id(job)].cases]
        cases.sort(reverse=True)
        print(f"\nThe {min(number, len(cases))} slowest of {len(cases)} test cases:")
        for seconds, suite, name in cases[:number]:
            print(f"{seconds:8.2f} s  {suite}: {name}")
        print()


def start_process(job, report, output):
    command, environment = job.command, {**os.environ, **job.environment}
    if job.report_flag:
        command = [*command, f"{job.report_flag}={report}"]
    else:
        environment |= {"GTEST_OUTPUT": f"xml:{report}", "GTEST_BRIEF": "1"}
    # A session of its own, so that a timeout also ends the children of the program.
    process = subprocess.Popen(command, cwd=job.directory, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT, start_new_session=True)
    process.begun = time.monotonic()
    return process


def wait_for(process, timeout_seconds):
    """The exit code, or a sentence if there is none, and the CPU seconds of the process and its children."""
    expired = threading.Event()

    def expire():
        expired.set()
        kill_group(process)

    timer = threading.Timer(timeout_seconds, expire)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = code = os.waitstatus_to_exitcode(status)
    if expired.is_set():
        code = f"no result after {timeout_seconds} s"
    elif code < 0:
        code = f"signal {signal.Signals(-code).name}"
    return code, usage.ru_utime + usage.ru_stime


def kill_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def judge(job, code, report, printed, seconds):
    """The outcome of a job that ended with `code`."""
    outcome = read_cases(report) if report.exists() else Outcome()
    reported = outcome.count("passed") + outcome.count("failed")
    why = ""
    if code != 0 and not outcome.count("failed"):
        why = f"exit code {code}" if isinstance(code, int) else code
    elif code == 0 and job.must_report and reported == 0:
        why = "it ended well, but reported no test case"
    elif code == 0 and reported == 0:
        outcome.cases.append(Case(job.name, seconds, "passed"))
    if why:
        outcome.cases.append(Case(job.name, seconds, "failed"))
    outcome.text = "\n".join([*(outcome.text or why).splitlines(), *printed.splitlines()[-OUTPUT_LINES_MAX:]])
    return outcome


def read_cases(report):
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except xml.etree.ElementTree.ParseError as error:
        return Outcome([Case(report.stem, 0, "failed")], f"its report cannot be read: {error}")
    return Outcome([Case(".".join(filter(None, (case.get("classname"), case.get("name")))), float(case.get("time", 0)),
                         result_of(case)) for case in cases])


def result_of(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    return "passed"


class ProgressLine:
    """On a terminal, the last line, written again and again. Elsewhere only the lines that stay."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()

    def show(self, text):
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[:width]}", end="", flush=True)

    def clear(self):
        if self.terminal:
            print("\r\033[K", end="", flush=True)

    def say(self, text):
        self.clear()
        print(text, flush=True)


def minutes(seconds):
    seconds = round(seconds)
    return f"{seconds} s" if seconds < 100 else f"{seconds // 60} min {seconds % 60:02} s"


if __name__ == "__main__":
    main()
