#!/usr/bin/python3
"""Show the share of the lines of src/ that the tests run, per folder.

    ./dev coverage [suite...] [--files N] [--html DIR] [--no-run]

  suite...    run only these suites of ./dev test (default: all that run code of src/)
  --files N   list the N files with the most lines that no test runs (default 15)
  --html DIR  write the sources with the count of each line to DIR
  --no-run    build and run nothing; report on the counts of the last run

The build directory is build/coverage (preset coverage). Programs count into build/coverage/profiles while they run, so
the counts of a server survive kill -9. Each program has one file there, to which all its processes add.

A folder without goal counts in the line "everything". With suites, only folders whose own suite is named are held to
their goals. Files that only tests include do not count. The shim program is not instrumented: lines of src/shim count
where another program runs them.

Exit codes: 0 if all goals are met, 1 if one is missed, a test fails or the build fails, 2 for wrong arguments.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

import build
import suites
from build import count, shown

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRESET = "coverage"
FILES = 15
GOALS = {"base": 97, "core": 97, "engine": 97, "store": 97, "verify": 97}  # Percent of the lines.
GOAL_OF_ALL = 92
WITHOUT_CODE = ("tidy", "format", "tools")  # Suites that run nothing of src/.
TEST_FILE = re.compile(r"(^|_)test(_|\.)|conformance\.h$|_support\.h$|^sample_rows\.h$|failing_vfs\.h$")


class Trouble(Exception):
    """What failed, why, and what to do."""


@dataclasses.dataclass
class Lines:
    all: int = 0
    covered: int = 0

    def add(self, other):
        self.all += other.all
        self.covered += other.covered

    @property
    def missing(self):
        return self.all - self.covered

    @property
    def percent(self):
        return 100 * self.covered / self.all if self.all else 100.0


def main(words):
    options = parse(words)
    directory = ROOT / "build" / PRESET
    try:
        if not options.no_run and (code := build.run(PRESET, ["build.ninja"], options.label)):
            return code
        targets = targets_of(directory, options.suites)
        tests_failed = not options.no_run and build_and_run(directory, targets, options)
        files = read_counts(directory, targets)
        missed = print_folders(files, options.suites)
        print_files(files, options.files)
        if options.html:
            write_html(directory, targets, options.html)
    except Trouble as trouble:
        build.say_error(str(trouble))
        return 1
    if tests_failed:
        build.say_error("coverage: tests failed, so lines may be missing")
    return 1 if missed or tests_failed else 0


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev coverage", usage="%(prog)s [suite...] [--files N] [--html DIR] [--no-run]",
                                     description="Show the share of the lines of src/ that the tests run, per folder.")
    parser.add_argument("suites", nargs="*", metavar="suite",
                        help="run only these suites of ./dev test (default: all that run code of src/)")
    parser.add_argument("--files", type=int, default=FILES, metavar="N",
                        help=f"list the N files with the most lines that no test runs (default {FILES})")
    parser.add_argument("--html", metavar="DIR", help="write the sources with the count of each line to DIR")
    parser.add_argument("--no-run", action="store_true",
                        help="build and run nothing; report on the counts of the last run")
    parser.add_argument("--label", default="build", help=argparse.SUPPRESS)
    return parser.parse_args(words)


# What is built and run.

def cmake_tests(directory):
    """Suite to the programs of its command. Read from CMake's files, because ctest leaves out what is not built."""
    tests = {}
    for path in sorted(directory.rglob("CTestTestfile.cmake")):
        for name, command in re.findall(r"^add_test\((?:\[=*\[)?([^\]\s]+)(?:\]=*\])? (.*)\)$", path.read_text(), re.M):
            programs = [pathlib.Path(word) for word in re.findall(r'"([^"]*)"', command)]
            tests[name] = [program.name for program in programs if program.parent == directory]
    return tests


def targets_of(directory, wanted):
    """The programs that the suites need, or all programs that suites run."""
    tests = cmake_tests(directory)
    black_box = [suite.name for suite in suites.own_suites() if suite.name not in WITHOUT_CODE]
    if not tests:
        raise Trouble(f"coverage: there is no build in {shown(directory)}; repeat ./dev coverage without --no-run")
    targets = []
    for name in wanted or [*tests, *black_box]:
        if name not in tests and name not in black_box:
            raise Trouble(f"coverage: no suite has the name {name}; the suites are: {' '.join(sorted([*tests, *black_box]))}")
        targets += tests.get(name, ["interlock"])
    return list(dict.fromkeys(targets))


def build_and_run(directory, targets, options):
    """Whether a test failed."""
    if build.run(PRESET, targets, options.label):
        raise Trouble("coverage: the programs were not built; no test was run")
    profiles = directory / "profiles"
    profiles.mkdir(exist_ok=True)
    for path in profiles.glob("*.profraw"):
        path.unlink()
    names = options.suites or [suite.name for suite in suites.all_suites(str(directory)) if suite.name not in WITHOUT_CODE]
    environment = {**os.environ, "INTERLOCK_BINARY": str(directory / "interlock"),
                   "INTERLOCK_SHIM": str(directory / "interlock-shim")}
    environment.pop("LLVM_PROFILE_FILE", None)  # The preset says where counts go.
    command = [sys.executable, str(ROOT / "tools" / "run_tests.py"), str(directory), *names]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode != 0


# What it comes to.

def read_counts(directory, targets):
    """Path below src/ to its lines."""
    raw = sorted(map(str, (directory / "profiles").glob("*.profraw")))
    if not raw:
        raise Trouble(f"coverage: there are no counts in {shown(directory / 'profiles')}; run the tests first: ./dev coverage")
    run_llvm("llvm-profdata-19", "merge", "-sparse", "-o", str(directory / "merged.profdata"), *raw)
    text = run_llvm("llvm-cov-19", "export", "-summary-only", *sources_of(directory, targets))
    files = {}
    for entry in json.loads(text)["data"][0]["files"]:
        path = pathlib.Path(entry["filename"])
        if path.is_relative_to(ROOT / "src") and not TEST_FILE.search(path.name):
            lines = entry["summary"]["lines"]
            files[str(path.relative_to(ROOT / "src"))] = Lines(lines["count"], lines["covered"])
    return files


def sources_of(directory, targets):
    """The arguments of llvm-cov that name counts and programs."""
    programs = [str(directory / target) for target in targets if (directory / target).exists()]
    if not programs:
        raise Trouble(f"coverage: none of {', '.join(targets)} is in {shown(directory)}; repeat ./dev coverage without --no-run")
    return [f"-instr-profile={directory / 'merged.profdata'}", programs[0],
            *(word for program in programs[1:] for word in ("-object", program))]


def write_html(directory, targets, to):
    run_llvm("llvm-cov-19", "show", "-format=html", f"-output-dir={to}", *sources_of(directory, targets), str(ROOT / "src"))
    print(f"\nThe sources with the count of each line: {to}/index.html")


def run_llvm(*command):
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    if ended.returncode != 0:
        raise Trouble(f"coverage: {command[0]} failed: {ended.stderr.strip()[:500]}; ./dev coverage counts anew")
    return ended.stdout


def print_folders(files, wanted):
    """Prints the table. Returns the folders whose goal is missed."""
    folders, everything = collections.defaultdict(Lines), Lines()
    for name, lines in files.items():
        folders[name.split("/")[0]].add(lines)
        everything.add(lines)
    rows = [(folder, lines, GOALS.get(folder), not wanted or folder in wanted) for folder, lines in sorted(folders.items())]
    rows.append(("everything", everything, GOAL_OF_ALL, not wanted))
    absent = [] if wanted else sorted(GOALS.keys() - folders.keys())

    print(f"\n{'folder':12} {'lines':>8} {'not run':>8} {'run':>8}   goal")
    missed = []
    for name, lines, goal, judged in rows:
        verdict = ""
        if goal is not None:
            met = lines.percent >= goal
            verdict = f"{goal} %  {('met' if met else 'MISSED') if judged else 'not judged: only some suites ran'}"
            missed += [] if met or not judged else [name]
        print(f"{name:12} {lines.all:8} {lines.missing:8} {floored(lines.percent):>6} %   {verdict}".rstrip())
    for name in absent:
        print(f"{name:12} {'':8} {'':8} {'':8}   {GOALS[name]} %  MISSED: no program has lines of it")
    return missed + absent


def floored(percent):
    """One decimal, rounded down: 96.96 is not 97.0."""
    return f"{int(percent * 10) / 10:.1f}"


def print_files(files, number):
    most = sorted((name for name in files if files[name].missing), key=lambda name: (-files[name].missing, name))[:number]
    if not most:
        return
    print(f"\nThe {count(len(most), 'file')} with the most lines that no test runs:")
    for name in most:
        print(f"{files[name].missing:8} of {files[name].all:5}   src/{name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
