#!/usr/bin/python3
"""Show the CPU time that compiling takes, per folder, per file and per header.

    ./dev build-times [--top N] [--target T] [--no-build] [--check]

  --top N      rows per table (default 15)
  --target T   count only what T is built from (default all, which is what ./dev test builds)
  --no-build   read the traces that are there; do not build first
  --check      name every file above FILE_SHARE of the whole, and every group of files above GROUP_SHARE; exit 1 if there is
               one

The build directory is build/trace (preset trace): release with clang's -ftime-trace, without the compiler cache.

CPU time per compilation is user and system time of the compiler, measured by its launcher (tools/cpu_time.py). The times
within a compilation come from clang's trace. They are wall times, so they are scaled by CPU time / wall time of that
compilation. The trace leaves out what took less than 0.5 ms.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys

PRESET = "trace"
# --check names a file that takes more than this share of the CPU time of the whole build, and a group of files (a unity
# source) if what clang does not divide among them takes more than the share of a group.
FILE_SHARE = 0.02
GROUP_SHARE = 0.04
TOP = 15
UNITY = re.compile(r"/Unity/unity_\d+_cxx\.cxx$")
PRECOMPILED = re.compile(r"/cmake_pch\.hxx(\.cxx)?$")
LEGEND = """
Files: headers s is the parsing of the headers that the file includes; the first file of a unity source pays for those that
the others share. Files of a unity source have only their front end. Their templates, optimizer and code generation are one
row, because clang does not divide them.
Headers: CPU s is with everything that the header includes, so rows overlap; alone s is without. parsed in is the number of
compilations; those that take the header from a precompiled one do not parse it."""
ROOT = pathlib.Path(__file__).resolve().parent.parent


class Trouble(Exception):
    """What failed, why, and what to do."""


@dataclasses.dataclass
class Source:
    """One #include of a file in a trace, in seconds of wall time."""
    path: str
    start: float
    seconds: float
    parents: tuple = ()
    own: float = 0.0  # Without what it includes.


@dataclasses.dataclass
class Compilation:
    source: str             # Path of the file that was compiled.
    output: str             # Below the build directory.
    cpu: float
    measured: bool          # False if the launcher left no CPU time, and cpu is the trace's wall time.
    back_end: float         # Optimizer and code generation, in CPU seconds.
    sources: list           # Source, in CPU seconds.
    members: list = dataclasses.field(default_factory=list)  # The .cc files of a unity source.


@dataclasses.dataclass
class FileTime:
    name: str
    folder: str
    test: bool
    cpu: float
    headers: float
    back_end: float = None  # None if it cannot be divided.
    files: int = 1          # How many .cc files the row stands for.
    judged: float = 0.0     # What --check compares.
    group: bool = False     # True for what clang does not divide among several files.


@dataclasses.dataclass
class HeaderTime:
    name: str
    total: float = 0.0
    own: float = 0.0
    compilations: int = 0


def main(words):
    options = parse(words)
    directory = ROOT / "build" / PRESET
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # The reader may be `head`.
    try:
        if not options.no_build:
            import build  # Beside this file.
            code = build.run(PRESET, [options.target], options.label)
            if code != 0:
                return code
        compilations = read_all(directory, options.target)
    except Trouble as trouble:
        print(f"dev: {trouble}", file=sys.stderr)
        return 1
    if options.check:
        return check(compilations)
    report(compilations, options.target, options.top)
    return 0


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev build-times", usage="%(prog)s [--top N] [--target T] [--no-build] [--check]",
                                     description="Show the CPU time that compiling takes, per folder, file and header.")
    parser.add_argument("--top", type=positive, default=TOP, metavar="N", help=f"rows per table (default {TOP})")
    parser.add_argument("--target", default="all", metavar="T", help="count only what T is built from (default all)")
    parser.add_argument("--no-build", action="store_true", help="read the traces that are there; do not build first")
    parser.add_argument("--check", action="store_true",
                        help=f"name every file above {100 * FILE_SHARE:g} %% of the whole and every group above "
                             f"{100 * GROUP_SHARE:g} %%; exit 1 if there is one")
    parser.add_argument("--label", default="build", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def positive(word):
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"'{word}' is not a number above 0")
    return int(word)


# Reading the traces.

def compiled(command):
    """Output and source of a compilation, or nothing for another command."""
    if " -ftime-trace " not in command or " -c " not in command:
        return None
    words = shlex.split(command)
    return words[words.index("-o") + 1], words[words.index("-c") + 1]


def trace_path(output):
    return os.path.splitext(output)[0] + ".json"


def read_all(directory, target):
    if not (directory / "build.ninja").exists():
        raise Trouble(f"there is no build in {shown(directory)}; run: ./dev build-times")
    listed = subprocess.run(["ninja", "-C", str(directory), "-t", "commands", target], capture_output=True, text=True)
    if listed.returncode != 0:
        raise Trouble(f"ninja does not know the target '{target}': {(listed.stderr or listed.stdout).strip()}")
    outputs = dict(filter(None, map(compiled, listed.stdout.splitlines())))
    if not outputs:
        raise Trouble(f"nothing is compiled for the target '{target}', so there is nothing to show")
    compilations, absent = [], []
    for output, source in outputs.items():
        trace = directory / trace_path(output)
        if trace.exists():
            compilations.append(read(trace, source, output))
        else:
            absent.append(output)
    if not compilations:
        raise Trouble(f"none of the {len(outputs)} compilations has a trace in {shown(directory)}; run: ./dev build-times")
    if absent:
        print(f"{len(absent)} of {len(outputs)} compilations have no trace and are not counted, for instance {absent[0]}; "
              "run: ./dev build-times")
    return compilations


def read(trace, source, output):
    try:
        events = json.loads(trace.read_text())["traceEvents"]
    except (ValueError, KeyError):
        raise Trouble(f"{shown(trace)} cannot be read, because its compilation did not finish; remove it and "
                      f"{os.path.basename(output)} beside it, then run: ./dev build-times") from None
    wall = sum(event["dur"] for event in events if event["name"] == "ExecuteCompiler" and event["ph"] == "X") / 1e6
    back_end = sum(event["dur"] for event in events if event["name"] == "Backend" and event["ph"] == "X") / 1e6
    cpu, measured = wall, False
    record = trace.with_suffix(".cpu")
    if record.exists():
        cpu, measured = float(record.read_text() or 0), True
    scale = cpu / wall if wall else 0.0
    sources = nest(list(source_events(events)))
    for each in sources:
        each.seconds *= scale
        each.own *= scale
    members = unity_members(source) if UNITY.search(source) else []
    return Compilation(source, output, cpu, measured, back_end * scale, sources, members)


def source_events(events):
    """clang 19 writes a pair for each file, the end right after its beginning. Older ones write a complete event."""
    for number, event in enumerate(events):
        if event["name"] != "Source":
            continue
        if event["ph"] == "X":
            yield Source(clean(event["args"]["detail"]), event["ts"] / 1e6, event["dur"] / 1e6)
        elif event["ph"] == "b":
            end = events[number + 1]
            yield Source(clean(event["args"]["detail"]), event["ts"] / 1e6, (end["ts"] - event["ts"]) / 1e6)


def nest(sources):
    """Finds for each file those that include it, directly or not, and the time it takes without what it includes."""
    sources.sort(key=lambda source: (source.start, -source.seconds))
    stack = []
    for source in sources:
        source.own = source.seconds
        while stack and source.start >= stack[-1].start + stack[-1].seconds - 1e-9:
            stack.pop()
        if stack:
            stack[-1].own -= source.seconds
        source.parents = tuple(parent.path for parent in stack)
        stack.append(source)
    return sources


def unity_members(source):
    try:
        return [clean(path) for path in re.findall(r'^#include "(.+)"$', pathlib.Path(source).read_text(), re.M)]
    except OSError:
        return []


def clean(path):
    return os.path.normpath(path)


# Adding up.

def file_times(compilations):
    """A row per compiled file. A unity source has a row per .cc file, for the front end, and one for what is left. A file
    that several targets compile has one row for all of them."""
    rows = {}
    for row in compilation_rows(compilations):
        if (first := rows.setdefault(row.name, row)) is not row:
            first.cpu += row.cpu
            first.headers += row.headers
            first.judged += row.judged
            first.back_end = None if None in (first.back_end, row.back_end) else first.back_end + row.back_end
    return sorted(rows.values(), key=lambda row: -row.cpu)


def compilation_rows(compilations):
    owners = owning_sources(compilations)
    for compilation in compilations:
        target = os.path.dirname(compilation.output).split(".dir")[0]
        known = owners[target]
        folder = folder_of(known)
        test = bool(known) and all(path.endswith("_test.cc") for path in known)
        headers = header_seconds(compilation, compilation.members)
        target_name = os.path.basename(target)
        if compilation.members:
            left = compilation.cpu
            for path in compilation.members:
                own = [source for source in compilation.sources if source.path == path]
                cpu = sum(source.seconds for source in own)
                below = sum(source.seconds for source in compilation.sources
                            if source.path not in compilation.members and source.parents[-1:] == (path,))
                yield FileTime(shown(path), os.path.dirname(shown(path)), path.endswith("_test.cc"), cpu, below,
                               judged=cpu - below)
                left -= cpu
            number = len(compilation.members)
            name = f"{os.path.basename(compilation.source)} of {target_name}: not divided among {number} files"
            yield FileTime(name, folder, test, max(0.0, left), 0.0, compilation.back_end, 0, left,
                           group=number > 1)
        elif PRECOMPILED.search(compilation.source):
            yield FileTime(f"precompiled header of {target_name}", folder, test, compilation.cpu, headers,
                           compilation.back_end, 0, compilation.cpu)
        else:
            path = shown(clean(compilation.source))
            yield FileTime(path, os.path.dirname(path), path.endswith("_test.cc"), compilation.cpu, headers,
                           compilation.back_end, 1, compilation.cpu)


def owning_sources(compilations):
    """Target to its .cc files."""
    result = collections.defaultdict(list)
    for compilation in compilations:
        target = os.path.dirname(compilation.output).split(".dir")[0]
        if compilation.members:
            result[target] += compilation.members
        elif not PRECOMPILED.search(compilation.source):
            result[target].append(clean(compilation.source))
    return result


def folder_of(paths):
    folders = {os.path.dirname(shown(path)) for path in paths}
    folders = {folder for folder in folders if not folder.startswith("build/")} or folders
    return folders.pop() if len(folders) == 1 else "several folders" if folders else "no folder"


def header_seconds(compilation, members):
    """Time in headers that the compiled file, or a file of the unity source, includes directly."""
    return sum(source.seconds for source in compilation.sources
               if source.path not in members and not set(source.parents) - set(members))


def header_times(compilations):
    """A header that a trace names more than once counts once per compilation, and not again below itself."""
    rows = {}
    for compilation in compilations:
        seen = set()
        for source in compilation.sources:
            if source.path in compilation.members or PRECOMPILED.search(source.path):
                continue
            row = rows.setdefault(source.path, HeaderTime(shown(source.path)))
            row.own += source.own
            if source.path not in source.parents:
                row.total += source.seconds
            seen.add(source.path)
        for path in seen:
            rows[path].compilations += 1
    return sorted(rows.values(), key=lambda row: -row.total)


def folder_times(rows):
    folders = collections.defaultdict(lambda: [0.0, 0.0, 0])
    for row in rows:
        entry = folders[row.folder]
        entry[0] += row.cpu
        entry[1] += row.cpu if row.test else 0.0
        entry[2] += row.files
    return sorted(folders.items(), key=lambda item: -item[1][0])


# Showing.

def report(compilations, target, top):
    rows, headers = file_times(compilations), header_times(compilations)
    total = sum(compilation.cpu for compilation in compilations)
    print(f"CPU time to compile '{target}': {total:.1f} s in {len(compilations)} compilations")
    print(how_measured(compilations))
    show("Folders", ("CPU s", "share", "tests s", "files"),
         [(name, f"{cpu:.1f}", share(cpu, total), f"{test:.1f}", str(files))
          for name, (cpu, test, files) in folder_times(rows)], top)
    show("Files", ("CPU s", "share", "headers s", "back end s"),
         [(row.name, f"{row.cpu:.1f}", share(row.cpu, total), f"{row.headers:.1f}",
           "-" if row.back_end is None else f"{row.back_end:.1f}") for row in rows], top)
    show("Headers", ("CPU s", "share", "alone s", "parsed in"),
         [(row.name, f"{row.total:.1f}", share(row.total, total), f"{row.own:.1f}", str(row.compilations))
          for row in headers], top)
    print(LEGEND)


def how_measured(compilations):
    guessed = sum(not compilation.measured for compilation in compilations)
    if guessed:
        return (f"{guessed} of them have no measured CPU time; the trace's wall time stands for it and is too high on a busy "
                "machine.")
    return "Per compilation: measured user and system time. Within one: clang's trace, scaled to it."


def show(title, columns, rows, top):
    shown_rows = rows[:top]
    name = f"{title}, {len(shown_rows)} of {len(rows)}" if len(rows) > top else title
    width = max([len(name), *(len(row[0]) for row in shown_rows)])
    print()
    for row in [(name, *columns), *shown_rows]:
        print(f"{row[0]:{width}}" + "".join(f"{cell:>12}" for cell in row[1:]))


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "-"


def check(compilations):
    total = sum(compilation.cpu for compilation in compilations)
    slow = sorted((row for row in file_times(compilations) if above_share(row, total)), key=lambda row: -row.judged)
    for row in slow:
        print(f"{row.name}: {row.judged:.1f} s, {share(row.judged, total)}")
    groups = sum(row.group for row in slow)
    print(f"build-times: {counted(len(slow) - groups, 'file')} above {100 * FILE_SHARE:g} % and {counted(groups, 'group')} above "
          f"{100 * GROUP_SHARE:g} % of {total:.1f} s CPU time, in {len(compilations)} compilations")
    return 1 if slow else 0


def above_share(row, total):
    return row.judged > (GROUP_SHARE if row.group else FILE_SHARE) * total


def counted(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shown(path):
    path = pathlib.Path(path)
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return str(path).removeprefix("/usr/include/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
