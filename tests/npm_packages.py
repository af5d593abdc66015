"""Packages from npm that tests need: those of a folder's package.json, brought once into a folder under build/."""

import fcntl
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
INSTALL_SECONDS = 400
NO_NETWORK = r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|network|not done after"
# With the patience that npm has by default nobody would hear for minutes that there is no network.
FLAGS = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline",
         "--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]


def installed(source, directory, scripts=None):
    """Brings the packages unless they are there, and copies the folder's own scripts to them. `scripts`: what is run of a
    package afterwards; nothing else is. Fails, or skips for want of a network, and says why."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Two test runs in one tree.
        wanted, done = (source / "package.json").read_text(), directory / "installed.json"
        if not done.exists() or done.read_text() != wanted:
            done.unlink(missing_ok=True)
            assert shutil.which("npm"), f"{source.name} needs packages from npm, and npm is not there: see ./dev test"
            shutil.copy(source / "package.json", directory)
            bring(["npm", "install", *FLAGS], directory)
            for package, script in (scripts or {}).items():
                bring(["node", script], directory / "node_modules" / package)
            done.write_text(wanted)
        for script in source.glob("*.mjs"):
            shutil.copy(script, directory)
    return directory


def bring(command, directory):
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=INSTALL_SECONDS,
                              stdin=subprocess.DEVNULL)
        why = f"{done.stdout}{done.stderr}"[-2000:] if done.returncode != 0 else ""
    except subprocess.TimeoutExpired:
        why = f"not done after {INSTALL_SECONDS} s"
    if not why:
        return
    sentence = f"packages could not be brought from npm ({' '.join(command)}): {why}"
    # A machine without a way to npm says so and tests the rest. The long form insists.
    if os.environ.get("INTERLOCK_LONG") != "1" and re.search(NO_NETWORK, why):
        pytest.skip(sentence)
    pytest.fail(sentence)
