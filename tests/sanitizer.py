"""Reports about a program that was built with a sanitizer (./dev build asan, ./dev build tsan).

Each process of such a program writes its reports to a file of its own. So reports are also found of a process whose output
a test discards, and of a process that a test kills.
"""

import functools
import mmap
import os
import pathlib
import re

RUNTIMES = {b"__asan_init": ("ASAN_OPTIONS", "UBSAN_OPTIONS"), b"__tsan_init": ("TSAN_OPTIONS",)}
SYMBOLIZER = "/usr/bin/llvm-symbolizer-19"
SLOWER = 8  # How many times as long as the release build a test may take.


@functools.cache
def option_variables(program):
    """The environment variables with options of the sanitizers in a program; none for a program without a sanitizer."""
    with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        return [name for runtime, names in RUNTIMES.items() if image.find(runtime) >= 0 for name in names]


def is_sanitized(program):
    return bool(option_variables(program))


class Reports:
    """The reports of all processes of one program, which begin after `environment` is set."""

    def __init__(self, program, directory):
        self.directory = pathlib.Path(directory)
        ours = f"log_path={self.directory}/report:external_symbolizer_path={SYMBOLIZER}:print_stacktrace=1"
        self.environment = {name: ":".join(filter(None, (os.environ.get(name), ours)))
                            for name in option_variables(program)}
        self.seen = {}  # Path: how many bytes were read.

    def check(self):
        """Fails if there are reports since the last check."""
        text = "".join(self.read_on(path) for path in sorted(self.directory.glob("report.*")))
        summary = re.search(r"^SUMMARY: (.*)", text, re.M)
        assert not text, f"a sanitizer's report: {summary[1] if summary else ''}\n{text}"

    def read_on(self, path):
        data = path.read_bytes()[self.seen.get(path, 0):]
        self.seen[path] = self.seen.get(path, 0) + len(data)
        return data.decode(errors="replace")
