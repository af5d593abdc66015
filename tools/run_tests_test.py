"""The runner against programs that pass, fail, die, hang and are not there: its closing line and exit code must tell.

Then the division into jobs, their schedule, and what the runner prints.
"""

import contextlib
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

import run_tests
import suites
from suites import Job

ROOT = pathlib.Path(__file__).parent.parent
RUNNER = pathlib.Path(__file__).parent / "run_tests.py"
REPORT = """cat > "${GTEST_OUTPUT#xml:}" <<END
<testsuites>%s</testsuites>
END
"""
PASSED = '<testcase name="a" status="run" result="completed"/>'
FAILED = '<testcase name="b" status="run" result="completed"><failure message="1 is not 2"/></testcase>'
SKIPPED = '<testcase name="c" status="run" result="skipped"><skipped/></testcase>'
DISABLED = '<testcase name="d" status="notrun" result="suppressed"/>'


def run(root, programs, properties="", flags=()):
    """Makes a build directory as CTest would find it, and runs the programs registered in it."""
    register(root, programs, properties)
    ran = subprocess.run([sys.executable, RUNNER, root, *flags, *programs], capture_output=True, text=True)
    return ran.returncode, ran.stdout.splitlines()[-1], ran.stdout


def register(root, programs, properties=""):
    registered = []
    for name, script in programs.items():
        if script is not None:
            (root / name).write_text("#!/bin/bash\n" + script)
            (root / name).chmod(0o755)
        registered.append(f'add_test({name} "{root / name}")\n{properties.format(name=name)}\n')
    (root / "CTestTestfile.cmake").write_text("".join(registered))


def test_single_cases_are_counted_over_all_programs(tmp_path):
    code, closing, _ = run(tmp_path, {"a_tests": REPORT % (PASSED * 3 + SKIPPED + DISABLED), "b_tests": REPORT % PASSED})

    assert (code, closing) == (0, "4 passed, 0 failed")


def test_a_program_that_is_no_test_program_counts_once(tmp_path):
    code, closing, _ = run(tmp_path, {"sim_short": "exit 0"})

    assert (code, closing) == (0, "1 passed, 0 failed")


def test_a_failed_case_is_counted_and_its_output_shown(tmp_path):
    code, closing, printed = run(tmp_path, {"a_tests": REPORT % (PASSED + FAILED) + "echo expected 1, got 2; exit 1"})

    assert (code, closing) == (1, "1 passed, 1 failed")
    assert "expected 1, got 2" in printed


@pytest.mark.parametrize("why, script", [
    ("exit code 3", "exit 3"),
    ("exit code 3", REPORT % "" + "exit 3"),
    ("signal SIGABRT", "kill -ABRT $$"),
    ("reported no test case", "exit 0"),
    ("reported no test case", REPORT % ""),
    ("reported no test case", REPORT % DISABLED),
    ("cannot be read", REPORT % "<testcase"),
    ("run_tests.py failed", REPORT % PASSED.replace("/>", ' time="soon"/>')),
    ("there is no program to run", None),
])
def test_what_cannot_be_counted_is_a_failure(tmp_path, why, script):
    code, closing, printed = run(tmp_path, {"a_tests": script, "b_tests": REPORT % PASSED})

    assert (code, closing) == (1, "1 passed, 1 failed")
    assert why in printed


def test_a_program_that_died_after_its_report_is_a_failure(tmp_path):
    code, closing, _ = run(tmp_path, {"a_tests": REPORT % PASSED + "kill -SEGV $$"})

    assert (code, closing) == (1, "1 passed, 1 failed")


def test_a_program_that_hangs_is_ended_and_is_a_failure(tmp_path):
    code, closing, printed = run(tmp_path, {"a_tests": "sleep 100"}, "set_tests_properties({name} PROPERTIES TIMEOUT 1)")

    assert (code, closing) == (1, "0 passed, 1 failed")
    assert "no result after 1" in printed


def test_a_property_that_would_turn_the_result_around_is_a_failure(tmp_path):
    programs = {"a_tests": REPORT % PASSED}
    code, closing, printed = run(tmp_path, programs, "set_tests_properties({name} PROPERTIES WILL_FAIL TRUE)")

    assert (code, closing) == (1, "0 passed, 1 failed")
    assert "does not know the test property WILL_FAIL" in printed


def test_an_unknown_suite_is_a_failure(tmp_path):
    run(tmp_path, {"a_tests": REPORT % PASSED})
    ran = subprocess.run([sys.executable, RUNNER, tmp_path, "a_tests", "nonsense"], capture_output=True, text=True)

    assert ran.returncode == 1
    assert ran.stdout.splitlines()[-1] == "1 passed, 1 failed"
    assert "no suite has this name; the suites are: a_tests " in ran.stdout


def test_a_build_directory_without_tests_is_a_failure(tmp_path):
    ran = subprocess.run([sys.executable, RUNNER, tmp_path, "ctest"], capture_output=True, text=True)

    assert ran.returncode == 1
    assert "is it built?" in ran.stdout


@pytest.mark.parametrize("flag", ["--nonsense", "--slowest=many", "-x"])
def test_an_unknown_flag_is_refused_before_anything_runs(tmp_path, flag):
    register(tmp_path, {"a_tests": f"touch {tmp_path}/ran"})
    ran = subprocess.run([sys.executable, RUNNER, tmp_path, flag, "a_tests"], capture_output=True, text=True)

    assert ran.returncode == 2
    assert f"unknown flag {flag}; there is --slowest [N]" in ran.stderr
    assert not (tmp_path / "ran").exists()


# ---- jobs ---------------------------------------------------------------------------------------------------------


def test_every_pytest_file_is_in_one_suite():
    files = [job.command[len(suites.PYTEST)] for suite in suites.own_suites() for job in suite.jobs
             if "pytest" in job.command and not job.environment and not job.part.endswith((":2", ":3", ":4", ":alone"))]

    found = [str(path.relative_to(ROOT)) for folder in ("tests/test_*.py", "tools/*_test.py") for path in ROOT.glob(folder)]
    assert sorted(files) == sorted(found)


def test_costs_and_parts_are_of_jobs_that_exist():
    own = suites.own_suites()
    names = {job.name for suite in own for job in suite.jobs}
    black_box = {suite.name for suite in own} - {"gateway"}  # A test program has this name too.

    assert {name for name in suites.COSTS if name.split("/")[0] in black_box} <= names
    assert all(0 < cores <= 2 and seconds > 0 for seconds, cores in suites.COSTS.values())
    files = {name.split("/")[-1].split(":")[0] for name in names}
    assert {name for name in suites.PARTS if name.startswith("test_")} <= files


def test_a_divided_program_runs_each_case_once(monkeypatch):
    monkeypatch.setattr(suites, "PARTS", {"a": 3})
    jobs = suites.divided(Job("a", command=["a_tests"], must_report=True))

    assert [job.name for job in jobs] == ["a/1", "a/2", "a/3"]
    assert [job.environment for job in jobs] == [{"GTEST_TOTAL_SHARDS": "3", "GTEST_SHARD_INDEX": str(i)} for i in range(3)]
    assert [job.name for job in suites.divided(Job("sim_short", command=["sim_main"]))] == ["sim_short"]


def test_the_parts_of_a_pytest_file_are_the_file():
    def collected(*words):
        done = subprocess.run([*suites.PYTEST, "--collect-only", "tests/test_verify_cli.py", *words], cwd=ROOT, text=True,
                              capture_output=True)
        return [line for line in done.stdout.splitlines() if "::" in line]

    whole, parts = collected(), [collected(f"--part={number}/3") for number in (1, 2, 3)]
    assert len(whole) > 3 and all(parts)
    assert sorted(sum(parts, [])) == sorted(whole)


def test_tests_that_run_alone_run_once():
    def collected(job):
        done = subprocess.run([*job.command, "--collect-only"], cwd=ROOT, text=True, capture_output=True)
        return {line for line in done.stdout.splitlines() if "::" in line}

    suite = suites.black_box("shim_program", ["tests/test_shim.py"])
    alone, beside = (next(job for job in suite.jobs if job.alone is wanted) for wanted in (True, False))
    whole = collected(Job("whole", command=[*suites.PYTEST, "tests/test_shim.py"]))
    assert collected(alone) and all("fork_bomb" in name for name in collected(alone))
    assert collected(beside) == whole - collected(alone)


def test_the_cases_of_all_jobs_of_a_suite_are_one_line(tmp_path, monkeypatch, capsys):
    register(tmp_path, {"a_tests": REPORT % PASSED})
    monkeypatch.setattr(suites, "PARTS", {"a_tests": 2})
    whole = [suite for suite in suites.cmake_suites(tmp_path) if suite.name == "a_tests"]
    ran = run_tests.Run(whole, run_tests.Times(tmp_path / "none"), tmp_path)
    ran.to_its_end()

    lines = [line for line in capsys.readouterr().out.splitlines() if "a_tests" in line]
    assert len(lines) == 1 and "2 passed, 0 failed" in lines[0] and lines[0].endswith("s in 2 jobs")


# ---- schedule -----------------------------------------------------------------------------------------------------


def job(name, seconds, cores, alone=False):
    suites.COSTS[name] = (seconds, cores)
    return Job(name, alone=alone)


@pytest.fixture
def costs(monkeypatch):
    monkeypatch.setattr(suites, "COSTS", {})


def pick(waiting, running):
    return run_tests.next_job(waiting, running, load_max=2, at_once_max=4)


def test_jobs_that_wait_run_beside_one_that_computes(costs):
    waits, computes, both = [job(f"w{i}", 10, 0.1) for i in range(5)], job("c", 10, 1), job("b", 10, 2)

    assert pick([both, *waits], [computes]) is waits[0], "two cores do not fit beside one"
    assert pick(waits[2:], [computes, *waits[:2]]) is waits[2]
    assert pick(waits[3:], [computes, *waits[:3]]) is None, "four are enough for the memory"
    assert pick([computes], [job("c2", 1, 1), job("c3", 1, 1)]) is None, "both cores are busy"
    assert pick([both], []) is both
    assert pick([job("huge", 1, 16)], []), "a job that fits nowhere runs by itself"


def test_a_job_that_runs_alone_has_no_neighbour(costs):
    alone, other = job("alone", 10, 0.1, alone=True), job("other", 10, 0.1)

    assert pick([alone, other], [job("c", 1, 0.1)]) is other
    assert pick([other], [alone]) is None
    assert pick([alone], []) is alone


def test_the_time_left_is_that_of_the_schedule(costs):
    jobs = [job(f"c{i}", 10, 1) for i in range(4)] + [job("w", 25, 0)]

    def left(waiting, running=()):
        return run_tests.seconds_left(waiting, running, lambda job: job.cost[0], pick)

    assert left(jobs) == 25
    assert left(jobs[:4]) == 20
    assert left([], [(jobs[0], 4), (jobs[1], 100)]) == 6
    assert left([]) == 0


def test_the_longest_job_starts_first_by_the_times_of_the_last_run(tmp_path):
    programs = {name: f"echo {name} >> {tmp_path}/order" for name in "abc"}
    properties = "set_tests_properties({name} PROPERTIES RUN_SERIAL TRUE)"
    (tmp_path / "test_times.json").write_text(json.dumps({"a": {"seconds": 1}, "b": {"seconds": 50}, "c": {"seconds": 7}}))
    run(tmp_path, programs, properties)

    assert (tmp_path / "order").read_text().split() == ["b", "c", "a"]
    kept = json.loads((tmp_path / "test_times.json").read_text())
    assert set(kept) == set("abc") and all(one["seconds"] < 1 for one in kept.values())


def test_a_broken_file_of_times_is_ignored(tmp_path):
    for broken in ("{", "[1]", '{"a": {"seconds": "soon"}}'):
        (tmp_path / "test_times.json").write_text(broken)
        assert run(tmp_path, {"a": "exit 0"})[:2] == (0, "1 passed, 0 failed")


# ---- what it prints -----------------------------------------------------------------------------------------------


def timed(name, seconds):
    return f'<testcase classname="Case" name="{name}" status="run" result="completed" time="{seconds}"/>'


def test_the_slowest_cases_are_listed_before_the_closing_line(tmp_path):
    programs = {"a_tests": REPORT % (timed("quick", 0.01) + timed("slow", 9.5)), "b_tests": REPORT % timed("middle", 3)}
    code, closing, printed = run(tmp_path, programs, flags=["--slowest", "2"])

    assert (code, closing) == (0, "3 passed, 0 failed")
    assert re.search(r"The 2 slowest of 3 test cases:\n +9.50 s  a_tests: Case.slow\n +3.00 s  b_tests: Case.middle\n", printed)
    assert "Case.quick" not in printed
    assert "Case.quick" in run(tmp_path, programs, flags=["--slowest"])[2]
    assert "slowest" not in run(tmp_path, programs)[2]


def test_without_a_terminal_there_is_a_line_per_suite(tmp_path):
    _, _, printed = run(tmp_path, {"a_tests": REPORT % PASSED, "b_tests": REPORT % FAILED + "exit 1"})

    assert re.search(r"^2 suites in 2 jobs on \d+ cores, about [12]0 s$", printed, re.M)
    assert re.search(r"^ok      a_tests +1 passed, 0 failed +\d+\.\d s$", printed, re.M)
    assert re.search(r"^FAILED  b_tests +0 passed, 1 failed +\d+\.\d s$", printed, re.M)
    assert "\r" not in printed and "\033" not in printed


def test_a_terminal_has_a_line_of_progress(tmp_path):
    register(tmp_path, {"a_tests": REPORT % PASSED, "b_tests": "sleep 0.5\n" + REPORT % PASSED})
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, RUNNER, tmp_path, "a_tests", "b_tests"], stdout=theirs,
                               env={**os.environ, "COLUMNS": "200"})
    os.close(theirs)
    printed = b""
    with contextlib.suppress(OSError):  # The end of a terminal is an error.
        while piece := os.read(ours, 1 << 16):
            printed += piece
    os.close(ours)

    assert process.wait() == 0
    text = printed.decode()
    assert re.search(r"\r\033\[K0 s: 0 of 2 jobs done, about \d+ s left; running a_tests", text)
    assert re.search(r"1 of 2 jobs done, about \d+ s left; running b_tests", text)
    assert text.splitlines()[-1] == "2 passed, 0 failed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_process(tmp_path, number):
    register(tmp_path, {"a_tests": f"sleep 100 & echo $! > {tmp_path}/a_tests.pid; wait"})
    process = subprocess.Popen([sys.executable, RUNNER, tmp_path, "a_tests"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    pid = tmp_path / "a_tests.pid"
    deadline = time.monotonic() + 20
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)

    assert process.communicate(timeout=20)[1].strip() == "interrupted"
    assert process.returncode == 1
    deadline = time.monotonic() + 5  # SIGKILL is sent, and the process may still be on its way out.
    while not gone(pid.read_text().strip()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def gone(pid):
    """Whether the process has ended. Its entry may stay until its parent asks for it."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True
