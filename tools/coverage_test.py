"""tools/coverage.py with stubs for the build, the tests and llvm-cov, and the flags of its preset with the compiler."""

import importlib.util
import json
import pathlib
import shlex
import signal
import subprocess
import sys

import pytest

TOOLS = pathlib.Path(__file__).parent
CTEST = """add_test([=[base]=] "{0}/base_tests")
set_tests_properties([=[base]=] PROPERTIES  _BACKTRACE_TRIPLES "x;1;add_test;")
add_test([=[store_tests]=] "/usr/bin/python3" "/tools/with_postgres.py" "--" "{0}/store_tests")
"""


class Lab:
    """A module whose ROOT is a temporary directory. `lines` is what llvm-cov reports: path to (lines, covered)."""

    def __init__(self, root, monkeypatch):
        self.root, self.directory = root, root / "build/coverage"
        (self.directory / "fuzz").mkdir(parents=True)
        (self.directory / "profiles").mkdir()
        (self.directory / "CTestTestfile.cmake").write_text(CTEST.format(self.directory) + 'subdirs("fuzz")\n')
        (self.directory / "fuzz/CTestTestfile.cmake").write_text(f'add_test(fuzz_seeds "{self.directory}/fuzz_tests")\n')
        for program in ("base_tests", "store_tests", "fuzz_tests", "interlock"):
            (self.directory / program).write_text("")
        self.lines, self.built, self.ran, self.llvm = {}, [], [], []
        self.build_code = self.test_code = 0

        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        monkeypatch.syspath_prepend(str(TOOLS))
        spec = importlib.util.spec_from_file_location("coverage_under_test", TOOLS / "coverage.py")
        self.module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, self.module)
        spec.loader.exec_module(self.module)
        self.module.ROOT = root
        monkeypatch.setattr(self.module.build, "ROOT", root)
        monkeypatch.setattr(self.module.build, "run", self.build)
        monkeypatch.setattr(self.module.suites, "all_suites", lambda _directory: [
            self.module.suites.Suite(name, []) for name in ("tidy", "format", "tools", "tests", "base")])
        monkeypatch.setattr(self.module.subprocess, "run", self.run)

    def build(self, preset, targets, _label):
        self.built.append((preset, *targets))
        return self.build_code if targets != ["build.ninja"] else 0

    def run(self, command, env=None, **_options):
        if command[0] == sys.executable:
            self.ran.append((command[1:], env))
            (self.directory / "profiles/1.profraw").write_text("")
            return subprocess.CompletedProcess(command, self.test_code)
        self.llvm.append(command)
        files = [{"filename": str(self.root / path), "summary": {"lines": {"count": lines, "covered": covered}}}
                 for path, (lines, covered) in self.lines.items()]
        return subprocess.CompletedProcess(command, 0, json.dumps({"data": [{"files": files}]}), "")


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return Lab(tmp_path, monkeypatch)


def good_lines():
    return {f"src/{folder}/a.cc": (100, 98) for folder in ("base", "core", "engine", "store", "verify")}


def test_lines_are_summed_per_folder_without_tests_and_goals_are_judged(lab, capsys):
    lab.lines = good_lines() | {"src/base/b.h": (100, 95), "src/base/b_test.cc": (500, 0), "src/core/core_test_support.h": (9, 0),
                                "src/store/store_conformance.h": (9, 0), "sim/sim.cc": (900, 0), "src/api/latest.cc": (50, 40)}

    assert lab.module.main([]) == 1

    said = capsys.readouterr().out
    assert "base              200        7   96.5 %   97 %  MISSED\n" in said
    assert "core              100        2   98.0 %   97 %  met\n" in said
    assert "api                50       10   80.0 %\n" in said
    assert "everything        650       25   96.1 %   92 %  met\n" in said


def test_all_goals_met_is_code_0_and_files_with_the_most_missing_lines_come_first(lab, capsys):
    lab.lines = good_lines() | {"src/api/a.cc": (40, 30), "src/api/full.cc": (10, 10)}

    assert lab.module.main(["--files", "2"]) == 0

    said = capsys.readouterr().out
    assert said.endswith("The 2 files with the most lines that no test runs:\n"
                         "      10 of    40   src/api/a.cc\n       2 of   100   src/base/a.cc\n")


def test_a_share_just_below_its_goal_is_missed_and_not_rounded_up(lab, capsys):
    lab.lines = good_lines() | {"src/base/a.cc": (10_000, 9_699)}

    assert lab.module.main([]) == 1
    assert "  96.9 %   97 %  MISSED" in capsys.readouterr().out


def test_a_folder_with_a_goal_and_without_lines_is_missed(lab, capsys):
    lab.lines = {path: lines for path, lines in good_lines().items() if "verify" not in path}

    assert lab.module.main([]) == 1
    assert "97 %  MISSED: no program has lines of it" in capsys.readouterr().out


def test_everything_is_held_to_its_own_goal(lab, capsys):
    lab.lines = good_lines() | {"src/server/a.cc": (1_000, 100)}

    assert lab.module.main([]) == 1
    assert "92 %  MISSED" in capsys.readouterr().out


def test_named_suites_are_built_and_run_alone_and_only_their_folders_are_judged(lab, capsys):
    lab.lines = {"src/base/a.cc": (100, 99), "src/core/a.cc": (100, 1)}

    assert lab.module.main(["base", "store_tests", "fuzz_seeds"]) == 0

    assert lab.built == [("coverage", "build.ninja"), ("coverage", "base_tests", "store_tests", "fuzz_tests")]
    assert lab.ran[0][0][1:] == [str(lab.directory), "base", "store_tests", "fuzz_seeds"]
    said = capsys.readouterr().out
    assert "97 %  met" in said and said.count("not judged: only some suites ran") == 2


def test_a_black_box_suite_runs_the_program_of_this_build(lab):
    lab.lines = good_lines()

    assert lab.module.main(["tests"]) == 0

    assert lab.built[1] == ("coverage", "interlock")
    assert lab.ran[0][1]["INTERLOCK_BINARY"] == str(lab.directory / "interlock")


def test_a_whole_run_leaves_out_suites_without_code_and_counts_from_zero(lab):
    (lab.directory / "profiles/old.profraw").write_text("")
    lab.lines = good_lines()

    assert lab.module.main([]) == 0

    assert lab.ran[0][0][2:] == ["tests", "base"]
    assert [pathlib.Path(word).name for word in lab.llvm[0] if word.endswith("profraw")] == ["1.profraw"]
    assert set(lab.built[1]) == {"coverage", "base_tests", "store_tests", "fuzz_tests", "interlock"}


def test_a_failed_test_is_code_1_after_the_report(lab, capsys):
    lab.lines, lab.test_code = good_lines(), 1

    assert lab.module.main([]) == 1
    captured = capsys.readouterr()
    assert "everything" in captured.out and "tests failed" in captured.err


def test_a_failed_build_runs_no_test(lab, capsys):
    lab.build_code = 1

    assert lab.module.main([]) == 1
    assert lab.ran == [] and "no test was run" in capsys.readouterr().err


def test_an_unknown_suite_is_named_before_anything_is_built(lab, capsys):
    assert lab.module.main(["luck"]) == 1
    assert "no suite has the name luck; the suites are: base " in capsys.readouterr().err and len(lab.built) == 1


def test_without_counts_it_says_what_to_do(lab, capsys):
    assert lab.module.main(["--no-run"]) == 1
    assert "there are no counts in build/coverage/profiles; run the tests first: ./dev coverage" in capsys.readouterr().err
    assert lab.built == []


def test_the_flags_of_the_preset_count_lines_of_a_process_that_is_killed(tmp_path):
    presets = json.loads((TOOLS.parent / "CMakePresets.json").read_text())["configurePresets"]
    flags = next(preset for preset in presets if preset["name"] == "coverage")["cacheVariables"]["CMAKE_CXX_FLAGS"]
    (tmp_path / "a.cc").write_text("#include <csignal>\nint main(int count, char**) {\n  if (count > 1)\n    raise(SIGKILL);\n"
                                   "  return 0;\n}\n")
    flags = shlex.split(flags.replace("${sourceDir}", str(tmp_path)))
    subprocess.run(["clang++-19", *flags, "-fuse-ld=lld-19", "a.cc", "-o", "a"], cwd=tmp_path, check=True)

    assert subprocess.run([tmp_path / "a", "x"], cwd=tmp_path).returncode == -signal.SIGKILL
    assert subprocess.run([tmp_path / "a"], cwd=tmp_path, env={}).returncode == 0

    raw = list((tmp_path / "build/coverage/profiles").glob("*.profraw"))
    assert len(raw) == 1, "all processes of a program share a file"
    subprocess.run(["llvm-profdata-19", "merge", "-sparse", "-o", "merged", raw[0]], cwd=tmp_path, check=True)
    shown = subprocess.run(["llvm-cov-19", "show", "-instr-profile=merged", "a"], cwd=tmp_path, check=True, text=True,
                           capture_output=True).stdout
    assert [line.split("|")[1].strip() for line in shown.splitlines()[:4]] == ["", "2", "2", "1"], shown
