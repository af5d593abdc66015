"""The runner against programs that pass, fail, die, hang and are not there: its closing line and exit code must tell."""

import pathlib
import subprocess
import sys

import pytest

RUNNER = pathlib.Path(__file__).parent / "run_tests.py"
REPORT = """cat > "${GTEST_OUTPUT#xml:}" <<END
<testsuites>%s</testsuites>
END
"""
PASSED = '<testcase name="a" status="run" result="completed"/>'
FAILED = '<testcase name="b" status="run" result="completed"><failure message="1 is not 2"/></testcase>'
SKIPPED = '<testcase name="c" status="run" result="skipped"><skipped/></testcase>'
DISABLED = '<testcase name="d" status="notrun" result="suppressed"/>'


def run(root, programs, properties=""):
    """Makes a build directory as CTest would find it, and runs the programs registered in it."""
    registered = []
    for name, script in programs.items():
        if script is not None:
            (root / name).write_text("#!/bin/bash\n" + script)
            (root / name).chmod(0o755)
        registered.append(f'add_test({name} "{root / name}")\n{properties.format(name=name)}\n')
    (root / "CTestTestfile.cmake").write_text("".join(registered))
    ran = subprocess.run([sys.executable, RUNNER, root, *programs], capture_output=True, text=True)
    return ran.returncode, ran.stdout.splitlines()[-1], ran.stdout


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


def test_a_build_directory_without_tests_is_a_failure(tmp_path):
    ran = subprocess.run([sys.executable, RUNNER, tmp_path, "ctest"], capture_output=True, text=True)

    assert ran.returncode == 1
    assert "is it built?" in ran.stdout
