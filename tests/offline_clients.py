"""Real clients of model providers, from npm, on a machine that has no network but its own loopback.

    with Offline(directory) as machine:
        machine.run(["node", "openai.mjs"], cwd=installed_clients().directory)

The packages are those of tests/clients/package.json, brought once into build/clients.
"""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys

from npm_packages import installed

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN_SECONDS = 120

# Their own programs are put in place by scripts of these packages. No other script is run.
AFTER_INSTALL = {"@anthropic-ai/claude-code": "install.cjs", "opencode-ai": "postinstall.mjs"}

# Makes the loopback interface of its namespace work, says so, and stays for as long as somebody holds its input open.
KEEPER = """
import fcntl, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    SIOCSIFFLAGS, IFF_UP = 0x8914, 1
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
print("up", flush=True)
sys.stdin.read()
"""


class Clients:
    """The installed packages."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)

    @property
    def programs(self):
        return self.directory / "node_modules/.bin"


def installed_clients():
    """Brings the packages unless they are there. Fails, or skips for want of a network, and says why."""
    return Clients(installed(ROOT / "tests/clients", ROOT / "build/clients", AFTER_INSTALL))


@functools.cache
def node_major():
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=RUN_SECONDS).stdout
    return int(said.removeprefix("v").split(".")[0])


class Offline:
    """A network namespace with nothing but loopback, and ways to run programs in it."""

    def __init__(self, directory):
        root = os.geteuid() == 0
        self.keeper = subprocess.Popen(["unshare", "-n" if root else "-Urn", sys.executable, "-I", "-S", "-c", KEEPER],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "up\n":
            raise AssertionError(f"no network namespace can be made here: {self.keeper.stderr.read()}")
        flags = ["-n"] if root else ["-U", "-n", "--preserve-credentials"]
        self.prefix = ["nsenter", "-t", str(self.keeper.pid), *flags, "--"]
        self.directory = pathlib.Path(directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.keeper.communicate(timeout=RUN_SECONDS)

    def program(self, path):
        """A program that runs that one in here: for whoever starts it by its path. Its pid is the one of the start."""
        wrapped = self.directory / f"offline-{pathlib.Path(path).name}"
        words = " ".join(f"'{word}'" for word in [*self.prefix, path])
        wrapped.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        wrapped.chmod(0o755)
        return str(wrapped)

    def run(self, command, **options):
        """To its end, whatever that is."""
        options = {"timeout": RUN_SECONDS, "text": True, "capture_output": True, **options}
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        return subprocess.run([*self.prefix, *map(str, command)], **options)

    def start(self, command, **options):
        return subprocess.Popen([*self.prefix, *map(str, command)], stdin=subprocess.DEVNULL, **options)


class Provider:
    """The simulated provider, offline, and its own books."""

    def __init__(self, machine, binary, directory):
        self.log = pathlib.Path(directory) / "books.jsonl"
        self.process = machine.start([binary, "simulate-upstream", "--log", self.log], stdout=subprocess.PIPE,
                                     text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.read = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=RUN_SECONDS)

    def all_lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def new_lines(self):
        """What was asked since this was called last."""
        lines = self.all_lines()
        fresh, self.read = lines[self.read:], len(lines)
        return fresh


def home_environment(home, *more_programs):
    """Of somebody who has just moved in, and has nothing but a few programs."""
    temporary = pathlib.Path(home) / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    node = pathlib.Path(shutil.which("node")).parent
    path = ":".join(map(str, [*more_programs, node, "/usr/local/bin", "/usr/bin", "/bin"]))
    return {"HOME": str(home), "TMPDIR": str(temporary), "CLAUDE_CODE_TMPDIR": str(temporary), "PATH": path,
            "TERM": "dumb", "LANG": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "400"}
