#!/usr/bin/python3
"""Runs every test there is and ends with one line: `N passed, N failed`.

    tools/run_tests.py BUILD_DIR [suite...]

A suite is one program: tidy, clang-format, a folder of pytest files, or a test that CMake registered (add_test). What is
counted is single test cases, read from the reports that GoogleTest and pytest write. A program that writes no report
counts as one case, by its exit code. What cannot be counted is a failure: a missing program, one that died or ran out
of time, and a test program whose report is missing or empty.

With INTERLOCK_LONG=1 the black-box tests take their time: more of everything, all of it also on PostgreSQL, and on the
newest PostgreSQL, which npm brings.
"""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
LONG = os.environ.get("INTERLOCK_LONG") == "1"
TIMEOUT_SECONDS = 3600 if LONG else 600
# The black-box tests of several nodes, and those that are also run with a node on PostgreSQL instead of the embedded store.
NODES = ["tests/test_several_nodes.py", "tests/test_nodes_and_postgres.py"]
SHIM = ["tests/test_shim.py", "tests/test_shim_foreground.py"]
RUNS = [f"tests/test_runs_{name}.py" for name in ("real", "faults", "crowd", "worktrees", "foreground", "schedules")]
GATEWAY = ["tests/test_gateway.py", "tests/test_gateway_rules.py", "tests/test_gateway_upstreams.py"]
STORM = ["tests/test_gateway_storm.py"]
CLIENTS = ["tests/test_gateway_clients.py"]  # Programs from npm, which have to be waited for the first time.
PAGE = ["tests/test_page.py", "tests/test_page_screens.py"]  # In a browser.
ON_POSTGRES = [f"tests/test_{name}.py" for name in ("api_money", "api_sessions", "api_runs", "api_auth", "incidents",
                                                    "races_http", "orgs")]
ON_POSTGRES_LONG = [*ON_POSTGRES, *GATEWAY, *STORM, "tests/test_api_system.py", "tests/test_api_nonsense.py",
                    "tests/test_page_host.py"]
OUTPUT_LINES_MAX = 400
AT_ONCE = 2

running = set()  # The process groups of the suites now under way, to take along when interrupted.


@dataclasses.dataclass
class Suite:
    name: str
    command: list
    directory: str = str(ROOT)
    environment: dict = dataclasses.field(default_factory=dict)
    timeout_seconds: float = TIMEOUT_SECONDS
    alone: bool = False  # Heavy enough to disturb, or be disturbed by, a neighbour.
    must_report: bool = False
    problem: str = "there is no program to run"  # What is said when there is no command.


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    text: str = ""  # Why it failed, and what the program printed.


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    # Whoever starts this behind a shell's & or nohup hands ignored signals on, and the tests of signals would inherit them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_DFL)
    suites = own_suites() + cmake_suites(sys.argv[1])
    if wanted := set(sys.argv[2:]):
        if unknown := wanted - {suite.name for suite in suites}:
            suites += [Suite(name, [], problem="no suite has this name") for name in unknown]
        suites = [suite for suite in suites if suite.name in wanted]

    with tempfile.TemporaryDirectory() as reports, concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            outcomes = list(pool.map(lambda suite: run(suite, reports), [suite for suite in suites if not suite.alone]))
            outcomes += [run(suite, reports) for suite in suites if suite.alone]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(running):
                os.killpg(group, signal.SIGKILL)
            sys.exit("interrupted")

    failed = sum(outcome.failed for outcome in outcomes)
    for outcome in outcomes:
        if outcome.failed:
            print(outcome.text)
    print(f"{sum(outcome.passed for outcome in outcomes)} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


def own_suites():
    sources = [str(path.relative_to(ROOT)) for folder in ("src", "sim", "crash", "bench", "examples", "tests")
               for path in sorted((ROOT / folder).rglob("*")) if path.suffix in (".h", ".cc")]
    suites = [
        Suite("tidy", [PYTHON, "tools/tidy.py"]),
        Suite("format", ["clang-format-19", "--dry-run", "-Werror", *sources] if sources else []),
        Suite("tools", [*PYTEST, "tools"], must_report=True),
        # These mostly wait, and not for each other.
        black_box("tests", ["tests", *(f"--ignore={path}" for path in (*NODES, *SHIM, *RUNS, *GATEWAY, *STORM, *CLIENTS, *PAGE))],
                  alone=False),
        black_box("runs", RUNS, alone=False),
        black_box("gateway", GATEWAY, alone=False),
        black_box("gateway_storm", STORM, alone=False),
        black_box("several_nodes", NODES),
        black_box("shim_program", SHIM),
        black_box("page", PAGE),
        black_box("gateway_clients", CLIENTS),
        black_box("tests_on_postgres", ON_POSTGRES_LONG if LONG else ON_POSTGRES, INTERLOCK_TEST_STORE="postgres"),
    ]
    if LONG:
        # Without those that need a standby: npm's package cannot make one.
        suites.append(black_box("tests_on_postgres_18", [*ON_POSTGRES_LONG, "tests/test_several_nodes.py"],
                                INTERLOCK_TEST_STORE="postgres", INTERLOCK_TEST_POSTGRES="18"))
    return suites


def black_box(name, words, alone=True, **environment):
    return Suite(name, [*PYTEST, *words], environment=environment, alone=alone, must_report=True)


def cmake_suites(build_dir):
    listed = subprocess.run(["ctest", "--test-dir", build_dir, "--show-only=json-v1"], capture_output=True, text=True)
    tests = json.loads(listed.stdout)["tests"] if listed.returncode == 0 else []
    if not tests:
        return [Suite("ctest", [], problem=f"{build_dir} has no tests: is it built?")]
    return [cmake_suite(test) for test in tests]


def cmake_suite(test):
    command = test.get("command", [])  # Absent when the program was not built.
    # Not only the first word: a program that needs a database is run by one that starts it.
    suite = Suite(test["name"], command, must_report=any(word.endswith("_tests") for word in command))
    for entry in test.get("properties", []):
        name, value = entry["name"], entry["value"]
        if name == "WORKING_DIRECTORY":
            suite.directory = value
        elif name == "ENVIRONMENT":
            suite.environment = dict(pair.split("=", 1) for pair in value)
        elif name == "TIMEOUT":
            suite.timeout_seconds = value
        elif name == "RUN_SERIAL":
            suite.alone = bool(value)
        elif name not in ("LABELS", "PROCESSORS", "COST"):
            # WILL_FAIL and its like turn a result around: better no result than a wrong one.
            return Suite(suite.name, [], problem=f"run_tests.py does not know the test property {name}")
    return suite


def run(suite, reports):
    start = time.monotonic()
    outcome = run_and_count(suite, pathlib.Path(reports) / f"{suite.name.replace('/', '_')}.xml")
    skipped = f", {outcome.skipped} skipped" if outcome.skipped else ""
    print(f"{'FAILED' if outcome.failed else 'ok':6}  {suite.name:24} {outcome.passed:5} passed, {outcome.failed} failed{skipped}"
          f"  {time.monotonic() - start:6.1f} s", flush=True)
    outcome.text = f"\n---- {suite.name}: {' '.join(suite.command)[:400]}\n{outcome.text}"
    return outcome


def run_and_count(suite, report):
    if not suite.command:
        return Outcome(failed=1, text=suite.problem)
    command, environment = suite.command, {**os.environ, **suite.environment}
    if "pytest" in command:
        command = [*command, f"--junitxml={report}"]
    else:
        environment |= {"GTEST_OUTPUT": f"xml:{report}", "GTEST_BRIEF": "1"}
    code, printed = execute(command, suite, environment)

    outcome = count(report) if report.exists() else Outcome()
    reported = outcome.passed + outcome.failed
    if code != 0 and outcome.failed == 0:
        outcome.failed, outcome.text = 1, f"exit code {code}" if isinstance(code, int) else code
    elif code == 0 and suite.must_report and reported == 0:
        outcome.failed, outcome.text = 1, "it ended well, but reported no test case"
    elif code == 0 and reported == 0:
        outcome.passed = 1
    outcome.text = "\n".join([*outcome.text.splitlines(), *printed.splitlines()[-OUTPUT_LINES_MAX:]])
    return outcome


def execute(command, suite, environment):
    """Returns the exit code, or words for why there is none, and everything printed."""
    with tempfile.TemporaryFile() as output:
        try:
            # A session of its own, so that a program that hangs goes together with the children it started.
            process = subprocess.Popen(command, cwd=suite.directory, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            return str(error), ""
        running.add(process.pid)
        try:
            code = process.wait(suite.timeout_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = f"no result after {suite.timeout_seconds} s"
        finally:
            running.discard(process.pid)
        if isinstance(code, int) and code < 0:
            code = f"signal {signal.Signals(-code).name}"
        output.seek(0)
        return code, output.read().decode(errors="replace")


def count(report):
    try:
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    except xml.etree.ElementTree.ParseError as error:
        return Outcome(failed=1, text=f"its report cannot be read: {error}")
    outcome = Outcome()
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            outcome.skipped += 1
        else:
            outcome.passed += 1
    return outcome


if __name__ == "__main__":
    main()
