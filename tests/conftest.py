"""Black-box tests: they know the program, its exit codes and what it prints, and nothing of its insides."""

import contextlib
import os
import pathlib
import signal
import subprocess

import pytest

from browser import Browser
from fake_supervisor import World
from gateway_lab import Lab
from interlock_server import Server, eventually
from page_shop import Shop
from sanitizer import SLOWER, Reports, is_sanitized

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ.get("INTERLOCK_BINARY", ROOT / "build/release/interlock")).absolute()
SECONDS_MAX = 180


@pytest.fixture(scope="session")
def binary():
    """The program to test: INTERLOCK_BINARY, or what ./dev build leaves behind."""
    assert os.access(BINARY, os.X_OK), f"{BINARY} is not a program: run ./dev build, or set INTERLOCK_BINARY"
    return str(BINARY)


@pytest.fixture(scope="session", autouse=True)
def reports(tmp_path_factory):
    """Reports of the sanitizer that the program was built with, if any. The last servers end after the last test."""
    if not sanitized():
        yield None
        return
    reports = Reports(str(BINARY), tmp_path_factory.mktemp("reports"))
    os.environ.update(reports.environment)
    yield reports
    reports.check()


def sanitized():
    return os.access(BINARY, os.X_OK) and is_sanitized(str(BINARY))


@pytest.fixture(autouse=True)
def no_reports(reports):
    yield
    if reports:
        reports.check()


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


@pytest.fixture(scope="session")
def shim_program():
    """The shim: INTERLOCK_SHIM, or what ./dev build leaves behind."""
    path = pathlib.Path(os.environ.get("INTERLOCK_SHIM", ROOT / "build/release/interlock-shim"))
    assert os.access(path, os.X_OK), f"{path} is not a program: run ./dev build, or set INTERLOCK_SHIM"
    return str(path)


@pytest.fixture
def world(shim_program, tmp_path):
    """Shims with a supervisor that does what the test says. Afterwards nothing is left of them."""
    with contextlib.ExitStack() as stack:
        yield World(shim_program, tmp_path, stack)


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    """A running server for all tests of a file. They use names of their own: fresh(). In the end every promise holds."""
    with Server(binary, tmp_path_factory.mktemp("server")) as server:
        yield server
        server.verify()


@pytest.fixture
def admin(server):
    """A client that may do everything."""
    return server.admin


@pytest.fixture(scope="module")
def lab(binary, tmp_path_factory):
    """A running server with a simulated provider, for all tests of a file. In the end nothing is held by anybody."""
    with Lab(binary, tmp_path_factory.mktemp("lab")) as lab:
        yield lab
        eventually(lambda: lab.admin.items("/v1/holds", status="open") == [])
        lab.server.verify()


@pytest.fixture(scope="module")
def key(lab):
    """Of an agent whose budget is large enough for everything."""
    return lab.agent_key("1000.00")


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def shop(binary, tmp_path_factory):
    """What the page is tested with, for all tests of a file. In the end every promise holds."""
    with Server(binary, tmp_path_factory.mktemp("page"), "--simulate-models") as server:
        yield Shop(server)
        server.verify()


def pytest_addoption(parser):
    parser.addoption("--part", metavar="K/N", help="run every N-th test, from the K-th on")


def pytest_collection_modifyitems(config, items):
    """Divides a long file among several processes. Each of them starts its own servers."""
    if part := config.getoption("--part"):
        number, count = map(int, part.split("/"))
        assert 1 <= number <= count, f"--part={part} is not K/N"
        kept = items[number - 1::count]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_configure(config):
    config.addinivalue_line("markers", "seconds_max(seconds): the test fails when it takes longer")


@pytest.fixture(autouse=True)
def seconds_max(request):
    """No test takes forever."""
    marker = request.node.get_closest_marker("seconds_max")
    seconds = (marker.args[0] if marker else SECONDS_MAX) * (SLOWER if sanitized() else 1)

    def ring(*_):
        raise TimeoutError(f"the test takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
