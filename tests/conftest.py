"""Black-box tests: they know the program, its exit codes and what it prints, and nothing of its insides."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def binary():
    """The program to test: INTERLOCK_BINARY, or what ./dev build leaves behind."""
    path = pathlib.Path(os.environ.get("INTERLOCK_BINARY", ROOT / "build/release/interlock"))
    assert os.access(path, os.X_OK), f"{path} is not a program: run ./dev build, or set INTERLOCK_BINARY"
    return str(path)


@pytest.fixture
def interlock(binary, tmp_path):
    """Runs the program to its end. Temporary directories of its own go to one that the test can look into."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(*arguments, timeout=120, **options):
        return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, env={**os.environ, "TMPDIR": str(scratch)}, **options)

    run.binary = binary
    run.scratch = scratch
    return run
