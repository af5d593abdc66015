"""What a program in a run may not do to its own shim, to the server and to terminals."""

import contextlib
import hashlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import pytest

from interlock_server import Server, eventually
from supervised import PYTHON, Runs, alive, end_process, git, processes_of, repository, shims_of, wait_for

ESCAPE = "\033]0;owned\007"


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("shims")) as server:
        runs = Runs(server)
        runs.cap(1000)
        yield runs


def test_a_run_that_signals_its_shim_has_failed_and_is_not_cancelled(runs, tmp_path):
    run = runs.start("sh", "-c", "kill -TERM $PPID; sleep 100", workspace=str(tmp_path), sandbox_level="off")

    ended = runs.wait(run)

    assert ended["status"] == "failed"
    assert "signal that Interlock did not send" in ended["reason"]


def test_the_server_ends_a_run_at_its_timeout_when_its_shim_was_stopped(runs, tmp_path):
    run = runs.start("sh", "-c", "kill -STOP $PPID; sleep 100", workspace=str(tmp_path), timeout_s=1, grace_s=1,
                     lease_s=3600, sandbox_level="off")

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


# ---- who speaks for a run -----------------------------------------------------------------------------------------


def message(*words):
    body = b"".join(struct.pack("<I", len(word)) + word for word in map(os.fsencode, words))
    return struct.pack("<I", len(body)) + body


def connect(data):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    directory = os.open(data, os.O_PATH)
    connection.connect(f"/proc/self/fd/{directory}/supervisor.sock")
    os.close(directory)
    return connection


RELAY = """
import os, select, socket, subprocess, sys, time
connection, directory = socket.socket(socket.AF_UNIX), os.open(sys.argv[1], os.O_PATH)
path = f'/proc/self/fd/{directory}/supervisor.sock'
while not os.path.exists(path):  # A server that starts makes it anew.
    time.sleep(0.01)
connection.connect(path)
os.write(1, b'.')
if sys.argv[2:]:
    subprocess.Popen(['sleep', '100'], env={'INTERLOCK_RUN': sys.argv[2]})
while True:
    for ready in select.select([0, connection], [], [])[0]:
        part = os.read(0, 1 << 16) if ready == 0 else connection.recv(1 << 16)
        if not part:
            sys.exit()
        connection.sendall(part) if ready == 0 else os.write(1, part)
"""


class Stranger:
    """A process of the server's user that talks to the supervisor as a shim does. With `run`, it has a child."""

    def __init__(self, data, *run):
        self.process = subprocess.Popen([*PYTHON, RELAY, str(data), *run], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.heard = os.read(self.process.stdout.fileno(), 1)  # It is connected.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def say(self, *words):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(message(*words))
            self.process.stdin.flush()

    def hello(self, run, phase, *, child=("0", ""), version="2", secret="0" * 64):
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pid = self.process.pid
        self.say("hello", version, run, str(pid), start_of(pid), boot, phase, *child, "0", secret)

    def hears(self):
        """Everything that the server says until it closes the connection."""
        return self.process.stdout.read()


def start_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


GRAB = """
import ctypes, os, struct, sys, time
libc, shim = ctypes.CDLL(None, use_errno=True), os.getppid()
words = (b'ended', b'exited', b'0', b'')
body = b''.join(struct.pack('<I', len(word)) + word for word in words)
pidfd = libc.syscall(434, shim, 0)
for fd in os.listdir(f'/proc/{shim}/fd'):
    try:
        if not os.readlink(f'/proc/{shim}/fd/{fd}').startswith('socket:'):
            continue
        os.write(libc.syscall(438, pidfd, int(fd), 0), struct.pack('<I', len(body)) + body)
    except OSError:
        pass
time.sleep(1.5)
sys.exit(7)
"""


def test_an_end_that_the_run_sends_over_its_shims_connection_is_not_believed(runs, tmp_path):
    run = runs.start(*PYTHON, GRAB, workspace=str(tmp_path), sandbox_level="off")

    ended = runs.wait(run)

    assert (ended["status"], ended["exit_code"]) == ("failed", 7)


def test_a_process_that_comes_after_the_shim_was_killed_does_not_speak_for_the_run(binary, tmp_path):
    with Server(binary, tmp_path) as server, contextlib.ExitStack() as stack:
        runs = Runs(server)
        run = runs.start("sleep", "100")
        runs.wait(run, "running")
        shim = shims_of(runs.data)[run]
        state = dict(line.split(" ", 1) for line in (runs.data / "runs" / run / "state").read_text().splitlines()[:-1])
        stranger = stack.enter_context(Stranger(runs.data))
        os.kill(server.process.pid, signal.SIGSTOP)
        stranger.hello(run, "running", child=(state["child_pid"], state["child_start"]))
        os.kill(shim, signal.SIGKILL)
        time.sleep(0.3)
        os.kill(server.process.pid, signal.SIGCONT)
        stranger.say("ended", "exited", "0", "")

        assert runs.wait(run)["status"] == "lost"
        assert processes_of(run) == []


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_stranger_is_not_given_the_launch_of_a_run(runs, tmp_path, version):
    repo = repository(tmp_path / "repo")
    git("config", "filter.slow.smudge", "sleep 2; cat", cwd=repo)
    (repo / ".gitattributes").write_text("* filter=slow\n")
    git("add", ".", cwd=repo)
    git("commit", "-qm", "slow", cwd=repo)
    with Stranger(runs.data) as stranger:
        run = runs.start("sh", "-c", "exit 5", workspace=str(repo), isolate=True, env={"SECRET_TOKEN": "tok123"})
        stranger.hello(run, "waiting", version=version)
        time.sleep(3)
        ended = runs.wait(run)
        heard = stranger.hears()

    assert b"tok123" not in heard and b"INTERLOCK_KEY" not in heard, heard
    assert (ended["status"], ended["exit_code"]) == ("failed", 5)


def test_the_secret_of_a_shim_is_in_no_file_argument_or_environment(runs, tmp_path):
    made = runs.admin.post("/v1/runs", {"agent": runs.agent(), "command": ["true"], "foreground": True}).ok(201)
    background = runs.start("sleep", "100", workspace=str(tmp_path))
    runs.wait(background, "running")
    shim = shims_of(runs.data)[background]

    assert len(made["shim_secret"]) == 64
    assert "shim_secret" not in runs.show(made["id"])
    stored = [path for path in (runs.data / "runs").rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in stored if made["shim_secret"].encode() in path.read_bytes()]
    hashes = (runs.data / "runs" / background / "shim-secrets").read_text().split()
    for name in ("cmdline", "environ"):
        words = pathlib.Path(f"/proc/{shim}/{name}").read_bytes().split(b"\0")
        assert not [word for word in words if hashlib.sha256(word).hexdigest() in hashes]
    runs.stop(background)
    runs.stop(made["id"])


def test_shims_prove_themselves_to_the_next_server(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        run = runs.start("sh", "-c", "sleep 3; exit 6")
        runs.wait(run, "running")
        runs.restart()
        with Stranger(runs.data) as stranger:
            stranger.hello(run, "running")
            stranger.say("ended", "exited", "0", "")
            ended = runs.wait(run)

        assert (ended["status"], ended["exit_code"]) == ("failed", 6)


# ---- the supervisor's socket --------------------------------------------------------------------------------------


def test_a_flood_of_connections_stops_neither_runs_nor_requests(runs, tmp_path):
    server = runs.server.process.pid
    open_before = len(os.listdir(f"/proc/{server}/fd"))
    flood = [connect(runs.data) for _ in range(400)]
    most = len(os.listdir(f"/proc/{server}/fd")) - open_before
    try:
        run = runs.start("true", workspace=str(tmp_path))
        runs.wait(run, "succeeded")
        most = max(most, len(os.listdir(f"/proc/{server}/fd")) - open_before)
    finally:
        for connection in flood:
            connection.close()

    assert most < 100, most


def test_a_stranger_has_a_second_and_64_kib(runs):
    silent, long = connect(runs.data), connect(runs.data)
    long.sendall(struct.pack("<I", (64 << 10) + 1))
    began = time.monotonic()

    assert long.recv(1) == b""
    assert time.monotonic() - began < 0.8
    assert silent.recv(1) == b""
    assert time.monotonic() - began < 5


# ---- what is left in a workspace ----------------------------------------------------------------------------------

# Where the test may, the run leaves its control group: what is left is then known by nothing but what it has open.
DAEMON = """
for group in $(sed -n 's/^0:://p' /proc/self/cgroup); do
    for root in /sys/fs/cgroup /sys/fs/cgroup/unified; do echo $$ > $root/cgroup.procs; done
done 2>/dev/null
cd "$1"
setsid env -i /bin/sh -c 'echo $$ > pid; while :; do sleep 0.1; done' > /dev/null 2>&1 &
while ! [ -s pid ]; do sleep 0.05; done
kill -9 $PPID
sleep 100
"""


def test_a_daemon_that_outlives_the_killed_shim_keeps_the_place_until_it_is_gone(runs, tmp_path):
    run = runs.start("sh", "-c", DAEMON, "sh", str(tmp_path), workspace=str(tmp_path), sandbox_level="off")
    daemon = int(wait_for(tmp_path / "pid").read_text())
    try:
        eventually(lambda: run not in shims_of(runs.data))
        time.sleep(1)
        if alive(daemon):  # Elsewhere the control group ended it.
            assert runs.show(run)["status"] in ("starting", "running")
            findings = runs.admin.get("/v1/doctor").ok()["items"]
            assert [each for each in findings if run in each["detail"] and str(daemon) in each["detail"]], findings
            refused = runs.admin.post("/v1/runs", {"agent": runs.agent(), "command": ["true"],
                                                   "workspace": str(tmp_path), "on_conflict": "refuse"})
            assert refused.status == 409, refused
    finally:
        end_process(daemon)

    assert runs.wait(run)["status"] == "lost"
    runs.wait(runs.start("true", workspace=str(tmp_path)), "succeeded")


def test_what_was_there_before_the_run_keeps_no_place(runs, tmp_path):
    before = subprocess.Popen(["setsid", "-f", "sh", "-c", "echo $$ > before; exec sleep 100"], cwd=tmp_path)
    before.wait()
    pid = int(wait_for(tmp_path / "before").read_text())
    time.sleep(0.1)
    try:
        run = runs.start("sh", "-c", "kill -9 $PPID; sleep 100", workspace=str(tmp_path), sandbox_level="off")
        assert runs.wait(run)["status"] == "lost"
        assert alive(pid)
    finally:
        end_process(pid)


def test_a_process_that_another_program_starts_for_the_run_is_ended_before_the_next_run_begins(runs, tmp_path):
    """As an `at` job or a window of the user's tmux would be that was given the run's environment."""
    fifo = tmp_path / "orders"
    os.mkfifo(fifo)
    script = 'while read line; do env INTERLOCK_RUN="$line" sleep 100 & echo $! > started; done < orders'
    helper = subprocess.Popen(["sh", "-c", script], cwd=tmp_path, start_new_session=True)
    place = tmp_path / "place"
    place.mkdir()
    try:
        order = f"echo $INTERLOCK_RUN > {fifo}; while ! [ -s {tmp_path}/started ]; do sleep 0.05; done"
        run = runs.start("sh", "-c", order, workspace=str(place))
        runs.wait(run, "succeeded")
        pid = int((tmp_path / "started").read_text())
        after = runs.start("sh", "-c", f"grep -sE '^State:.[^ZX]' /proc/{pid}/status", workspace=str(place))

        assert runs.wait(after)["status"] == "failed", runs.output(after)
    finally:
        end_process(helper.pid)
    eventually(lambda: processes_of(run) == [])


def test_an_end_that_a_shim_reports_while_its_run_works_is_no_success(runs, tmp_path):
    """A foreign shim with the right secret: it says that the run has ended and keeps a process of it."""
    made = runs.admin.post("/v1/runs", {"agent": runs.agent(), "command": ["true"], "foreground": True,
                                        "workspace": str(tmp_path)}).ok(201)
    run = made["id"]
    with Stranger(runs.data, run) as liar:
        liar.hello(run, "waiting", secret=made["shim_secret"])
        (worker,) = eventually(lambda: processes_of(run))
        liar.say("started", str(worker), start_of(worker), "")
        runs.wait(run, "running")
        liar.say("ended", "exited", "0", "", "0", "0", "0", made["shim_secret"])
        ended = runs.wait(run)

        assert ended["status"] == "failed" and "was still there" in ended["reason"], ended
        assert not alive(worker)
