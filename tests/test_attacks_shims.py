"""What a program in a run may not do to its own shim, to the server and to terminals."""

import os
import signal
import subprocess

import pytest

from interlock_server import Server, eventually
from supervised import Runs, processes_of, shims_of

ESCAPE = "\033]0;owned\007"


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("shims")) as server:
        runs = Runs(server)
        runs.cap(1000)
        yield runs


def test_a_run_that_signals_its_shim_has_failed_and_is_not_cancelled(runs, tmp_path):
    run = runs.start("sh", "-c", "kill -TERM $PPID; sleep 100", workspace=str(tmp_path))

    ended = runs.wait(run)

    assert ended["status"] == "failed"
    assert "signal that Interlock did not send" in ended["reason"]


def test_the_server_ends_a_run_at_its_timeout_when_its_shim_was_stopped(runs, tmp_path):
    run = runs.start("sh", "-c", "kill -STOP $PPID; sleep 100", workspace=str(tmp_path), timeout_s=1, grace_s=1,
                     lease_s=3600)

    ended = runs.wait(run, seconds=40)

    assert ended["status"] == "timed_out"
    assert processes_of(run) == []
    eventually(lambda: run not in shims_of(runs.data))
    runs.wait(runs.start("true", workspace=str(tmp_path)), "succeeded")


def test_the_timeout_of_a_stopped_shim_outlives_a_restart_of_the_server(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        run = runs.start("sleep", "100", timeout_s=2, grace_s=1, lease_s=3600)
        runs.wait(run, "running")
        os.kill(shims_of(runs.data)[run], signal.SIGSTOP)
        runs.restart()

        assert runs.wait(run, seconds=40)["status"] == "timed_out"
        assert processes_of(run) == []


def test_escape_sequences_in_a_directory_do_not_reach_the_terminal_of_a_waiting_run(runs, binary, tmp_path):
    place = tmp_path / f"x{ESCAPE}"
    place.mkdir()
    holder = runs.start("sleep", "100", workspace=str(place))
    runs.wait(holder, "running")

    waiting = subprocess.run([binary, "run", "--workspace", str(place), "--queue-for", "2s", "--", "true"],
                             env={**os.environ, "INTERLOCK_DATA": str(runs.data)}, stdin=subprocess.DEVNULL,
                             capture_output=True, timeout=30)

    runs.stop(holder)
    assert b"waiting for" in waiting.stderr, waiting.stderr
    assert b"\033" not in waiting.stderr and b"\007" not in waiting.stderr


def test_a_server_is_not_started_from_inside_a_run(runs, binary, tmp_path):
    run = runs.start(binary, "up", "--detach", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))

    assert runs.wait(run)["status"] == "failed"
    assert "start it outside of runs" in runs.output(run)
    assert not (tmp_path / "data").exists()
