"""What goes wrong around runs: clients that say too much, servers and shims that stand still or go at a bad moment."""

import contextlib
import os
import pathlib
import signal
import socket
import struct
import time

import pytest

from interlock_server import Server, eventually
from supervised import Runs, alive, end_process, processes_of, shims_of, wait_for

BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")
LOOKS_FOR_OTHERS = """
import os, sys
mark = os.environ["OTHER"].encode()
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        there = mark in open(f"/proc/{pid}/environ", "rb").read().split(b"\\0")[1:]
        if there and open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] not in "ZX":
            sys.exit(f"{pid} is still there")
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("faults")) as server:
        runs = Runs(server)
        runs.cap(1000)
        yield runs


def at_work(runs, place, script="sleep 1000", **body):
    """A run that has written its key and fence, and works."""
    told = f"echo $INTERLOCK_KEY $INTERLOCK_FENCE > {place}/key; touch {place}/up; {script}"
    run = runs.start("/bin/sh", "-c", told, workspace=str(place), **body)
    wait_for(place / "up")
    runs.wait(run, "running")
    return run


def end(runs, *ids):
    for run in ids:
        runs.stop(run)
    for run in ids:
        runs.wait(run)


class Door:
    """Somebody who speaks to the supervisor as shims do."""

    def __init__(self, data):
        self.socket = socket.socket(socket.AF_UNIX)
        directory = os.open(data, os.O_PATH)
        self.socket.connect(f"/proc/self/fd/{directory}/supervisor.sock")
        os.close(directory)

    def say(self, *words):
        fields = b"".join(struct.pack("<I", len(word)) + word for word in map(os.fsencode, words))
        self.socket.sendall(struct.pack("<I", len(fields)) + fields)

    def hello(self, run, phase):
        self.say("hello", "1", run, str(os.getpid()), "1", BOOT.read_text().strip(), phase, "0", "", "0")


# ---- who may speak for a run --------------------------------------------------------------------------------------


def test_a_run_that_says_it_has_finished_keeps_its_place_until_it_is_gone(runs, tmp_path):
    run = at_work(runs, tmp_path)
    key, fence = (tmp_path / "key").read_text().split()
    own = runs.admin.with_key(key)
    own.post(f"/v1/runs/{run}/finish", {"fence": int(fence)}).refused(409, "wrong_state")
    assert runs.show(run)["status"] == "running"
    assert own.post(f"/v1/runs/{run}/cancel", {"fence": int(fence), "reason": "done"}).ok()["status"] == "running"
    row = runs.wait(run)
    assert (row["status"], row["reason"]) == ("cancelled", "done")
    assert processes_of(run) == []


@pytest.mark.parametrize("phase", ["waiting", "running", "ended"])
def test_only_its_shim_speaks_for_a_run(runs, tmp_path, phase):
    run = at_work(runs, tmp_path)
    door = Door(runs.data)
    door.hello(run, phase)
    with contextlib.suppress(BrokenPipeError):  # Who is shown out may find the door shut already.
        door.say("ended", "exited", "0", "")
    time.sleep(0.7)
    assert runs.show(run)["status"] == "running"
    assert processes_of(run)
    end(runs, run)


# ---- standing still -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [3, 8])
def test_a_server_that_stood_still_for_longer_than_a_lease_takes_nobodys_run(runs, tmp_path, seconds):
    run = at_work(runs, tmp_path, lease_s=2)
    os.kill(runs.server.process.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(runs.server.process.pid, signal.SIGCONT)
    time.sleep(3)
    assert runs.show(run)["status"] == "running"
    end(runs, run)


def test_after_a_standstill_of_server_and_shim_no_two_runs_are_in_one_place(runs, tmp_path):
    agent = runs.agent()
    first = at_work(runs, tmp_path, agent=agent, lease_s=2, script="trap '' TERM; while :; do sleep 0.1; done")
    shim = shims_of(runs.data)[first]
    second = runs.start("/usr/bin/python3", "-c", LOOKS_FOR_OTHERS, agent=agent, workspace=str(tmp_path),
                        on_conflict="queue", env={"OTHER": f"INTERLOCK_RUN={first}"})
    os.kill(shim, signal.SIGSTOP)
    os.kill(runs.server.process.pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(runs.server.process.pid, signal.SIGCONT)
    try:
        # A node that stood still may have to find its database again.
        eventually(lambda: runs.admin.get(f"/v1/runs/{second}").status == 200)
        row = runs.wait(second)
        assert row["status"] == "succeeded", (row, runs.output(second))
        assert runs.show(first)["status"] == "lost"
    finally:
        os.kill(shim, signal.SIGCONT)


# ---- going at a bad moment ----------------------------------------------------------------------------------------


def test_a_server_that_goes_between_a_shim_and_its_launch_starts_the_run_once(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        script = f"echo $INTERLOCK_RUN >> {tmp_path}/began; sleep 1"
        ids = [runs.start("/bin/sh", "-c", script) for _ in range(4)]
        server.kill9()
        time.sleep(7)  # Shims ask less often by now.
        server.start()
        runs = Runs(server)
        assert [runs.wait(run)["status"] for run in ids] == ["succeeded"] * len(ids)
        assert sorted((tmp_path / "began").read_text().split()) == sorted(ids)


def test_a_short_lease_outlives_a_restart(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        ids = [runs.start("/bin/sleep", "1000", lease_s=1) for _ in range(4)]
        for run in ids:
            runs.wait(run, "running")
        server.kill9()
        time.sleep(6.2)
        server.start()
        runs = Runs(server)
        time.sleep(3)
        assert [runs.show(run)["status"] for run in ids] == ["running"] * len(ids)
        end(runs, *ids)


def test_what_ended_before_a_reboot_has_ended_so(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        script = f"touch {tmp_path}/up; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 5"
        run = runs.start("/bin/sh", "-c", script)
        wait_for(tmp_path / "up")
        runs.wait(run, "running")
        server.kill9()
        (tmp_path / "go").touch()
        state = runs.data / "runs" / run / "state"
        eventually(lambda: "phase ended" in state.read_text())
        for shim in shims_of(runs.data).values():
            end_process(shim)
        state.write_text(state.read_text().replace(BOOT.read_text().strip(), "00000000-0000-0000-0000-000000000000"))
        server.start()
        runs = Runs(server)
        row = runs.wait(run)
        assert (row["status"], row["exit_code"]) == ("failed", 5)


# ---- shims that are killed ----------------------------------------------------------------------------------------


def test_a_killed_shim_is_noticed_long_before_its_lease_ends(runs):
    for _ in range(15):
        run = runs.start("/bin/sleep", "1000", lease_s=600)
        runs.wait(run, "running")
        end_process(shims_of(runs.data)[run])
        assert runs.wait(run, seconds=10)["status"] == "lost"


def test_what_clears_its_environment_is_found_when_its_shim_is_killed(runs, tmp_path):
    run = at_work(runs, tmp_path, script=f"env -i sh -c 'echo $$ > {tmp_path}/hidden; exec sleep 1000' & wait",
                  sandbox_level="off")  # Otherwise the kernel ends it with the run's pid namespace.
    eventually(lambda: wait_for(tmp_path / "hidden").read_text().strip())
    hidden = int((tmp_path / "hidden").read_text())
    end_process(shims_of(runs.data)[run])
    assert runs.wait(run, seconds=10)["status"] == "lost"
    found = alive(hidden)
    end_process(hidden)
    assert not found


def test_a_reason_that_is_too_long_is_cut(runs):
    row = runs.wait(runs.start("/" + "x" * 6000, lease_s=600), seconds=10)
    assert row["status"] == "failed"
    assert row["reason"].endswith("…")


def test_a_command_that_is_too_large_fails_at_once(runs):
    row = runs.wait(runs.start("/bin/true", *["x" * 500_000] * 10, lease_s=600), seconds=10)
    assert row["status"] == "failed"
    assert "too large" in row["reason"]
