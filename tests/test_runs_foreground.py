"""`interlock run` as people use it: in a terminal and in a pipe, waiting in line, and behind the terminal."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from interlock_server import eventually, fresh
from supervised import alive, cli, cli_environment, end_process, end_what_is_left, processes_of, real_runs, wait_for
from terminal_shell import Shell

RECEIPT = re.compile(r"run_\w+ (\w+).* after [\d.]+ s, 0 model calls, \$0\.00.*, http://127\.0\.0\.1:\d+/#/runs/run_\w+\n")


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with real_runs(binary, tmp_path_factory.mktemp("foreground")) as runs:
        yield runs


class Started:
    """`interlock run` with pipes, found again at the server by a name of its own."""

    def __init__(self, runs, *words, cwd, flags=(), **options):
        self.runs, self.name = runs, fresh("foreground")
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.process = subprocess.Popen([runs.server.binary, "run", "--name", self.name, *flags, "--", *words], cwd=cwd,
                                        env=cli_environment(runs.data, WITHHELD="1"), **options)
        self.pid = self.process.pid

    def run(self, *states):
        """The id, as soon as it is there and, if some are named, in one of these states."""
        found = eventually(lambda: [row for row in self.runs.admin.items("/v1/runs", name=self.name)
                                    if not states or row["status"] in states],
                           why=lambda: f": {self.runs.admin.items('/v1/runs', name=self.name)}")
        return found[0]["id"]

    def end(self, given=None):
        """(exit code, what it printed, what was said beside it)."""
        out, err = self.process.communicate(given, timeout=30)
        return self.process.returncode, out, err.decode()

    def row(self):
        """As the server tells it when it has ended."""
        return self.runs.wait(self.run())


@pytest.fixture
def start(runs, tmp_path):
    """Starts `interlock run` in a directory of the test. Whatever the test does, none is left."""
    with contextlib.ExitStack() as stack:
        def begin(*words, **options):
            started = Started(runs, *words, **{"cwd": tmp_path, **options})

            def end():
                started.process.kill()
                started.process.communicate()

            stack.callback(end)
            return started

        yield begin


@pytest.fixture
def terminal(runs, tmp_path):
    """The same in a terminal of its own."""
    with contextlib.ExitStack() as stack:
        def begin(*words, flags=()):
            name = fresh("terminal")
            shell = Shell([runs.server.binary, "run", "--name", name, *flags, "--", *words],
                          env=cli_environment(runs.data, TERM="xterm"), cwd=tmp_path)
            stack.callback(shell.close)
            shell.run = lambda *states: eventually(lambda: [
                row for row in runs.admin.items("/v1/runs", name=name) if not states or row["status"] in states])[0]["id"]
            return shell

        yield begin


# ---- untouched ----------------------------------------------------------------------------------------------------


def test_streams_pass_byte_for_byte(start):
    data = random.Random(1).randbytes(1 << 20)
    started = start("/bin/cat", stdin=subprocess.PIPE)
    code, out, err = started.end(data)
    assert code == 0 and out == data
    assert RECEIPT.fullmatch(err), err
    assert started.row()["status"] == "succeeded"


def test_what_the_run_says_on_stderr_stays_there(start):
    code, out, err = start("/bin/sh", "-c", "echo out; echo err >&2").end()
    first, receipt = err.split("\n", 1)
    assert (code, out, first) == (0, b"out\n", "err") and RECEIPT.fullmatch(receipt)


@pytest.mark.parametrize("script, code, status", [
    ("exit 0", 0, "succeeded"), ("exit 3", 3, "failed"), ("kill -KILL $$", 137, "failed"), ("kill -SEGV $$", 139, "failed")])
def test_the_exit_code_is_the_commands(start, script, code, status):
    started = start("/bin/sh", "-c", script)
    got, out, err = started.end()
    assert (got, out) == (code, b"")
    assert RECEIPT.search(err).group(1) == status
    assert (started.row()["status"], started.row()["exit_code"]) == (status, code)


def test_a_command_that_is_not_there(start):
    started = start("/no/such/command")
    code, out, err = started.end()
    assert (code, out) == (127, b"")
    assert "/no/such/command" in err
    assert started.row()["status"] == "failed"


def test_quiet_means_quiet(start):
    assert start("/bin/echo", "said", flags=["-q"]).end() == (0, b"said\n", "")


def test_the_environment_is_the_callers_as_far_as_it_is_allowed(runs, start, tmp_path):
    started = start("/usr/bin/env", flags=["--env", "GIVEN=one", "--env", "WITHHELD"])
    env = dict(line.split("=", 1) for line in started.end()[1].decode().splitlines())
    assert (env["GIVEN"], env["WITHHELD"], env["HOME"]) == ("one", "1", str(runs.data.parent))
    assert (env["INTERLOCK_RUN"], env["INTERLOCK_WORKSPACE"]) == (started.run(), str(tmp_path))
    assert "WITHHELD" not in start("/usr/bin/env").end()[1].decode()
    assert "INTERLOCK_DATA" not in env


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_the_commands_affair(start, tmp_path, number):
    name = number.name[3:]
    started = start("/bin/sh", "-c", f"trap 'echo {name}; exit 7' {name}; touch up; while :; do sleep 0.05; done")
    wait_for(tmp_path / "up")
    os.kill(started.pid, number)
    assert started.end()[:2] == (7, f"{name}\n".encode())
    assert started.row()["exit_code"] == 7


def test_a_command_that_a_signal_ends_was_interrupted(start, tmp_path):
    started = start("/bin/sh", "-c", "touch up; exec sleep 100")
    wait_for(tmp_path / "up")
    os.kill(started.pid, signal.SIGTERM)
    code, _, err = started.end()
    assert code == 143 and "SIGTERM" in err
    assert started.row()["status"] == "cancelled"


def test_what_a_command_leaves_behind_is_ended(start, tmp_path):
    started = start("/bin/sh", "-c", "setsid sleep 100 </dev/null >/dev/null 2>&1 & sleep 0.3")
    run = started.run("running")
    eventually(lambda: len(processes_of(run)) >= 2)
    assert started.end()[0] == 0
    assert processes_of(run) == []


def test_a_command_that_takes_too_long(start):
    started = start("/bin/sleep", "100", flags=["--timeout", "1s"])
    code, _, err = started.end()
    assert code != 0 and "timed_out" in err
    assert started.row()["status"] == "timed_out"


def test_a_budget_is_in_the_receipt(start):
    err = start("/bin/true", flags=["--budget", "1.00"]).end()[2]
    assert "$0.00 of $1.00" in err and err.count("\n") == 1


def test_somebody_else_can_stop_it(runs, start):
    started = start("/bin/sleep", "100")
    run = started.run("running")
    cli(runs, "runs", "stop", run, "--reason", "wrong branch", "--wait")
    code, _, err = started.end()
    assert code == 143 and "wrong branch" in err
    assert (started.row()["status"], started.row()["reason"]) == ("cancelled", "wrong branch")


# ---- in line ------------------------------------------------------------------------------------------------------


@pytest.fixture
def holder(runs, tmp_path):
    """A run that has the test's directory until it is stopped."""
    run = runs.start("/bin/sleep", "1000", agent=runs.agent(), workspace=str(tmp_path))
    runs.wait(run, "running")
    yield run
    if runs.show(run)["status"] == "running":
        runs.stop(run)
    runs.wait(run)


def read_line(process):
    return process.stderr.readline().decode()


def test_who_waits_is_told_for_whom_and_starts_when_it_is_free(runs, start, holder, tmp_path):
    started = start("/bin/echo", "my turn")
    line = read_line(started.process)
    assert str(tmp_path) in line and holder in line and runs.show(holder)["agent"] in line
    run = started.run()
    assert runs.show(run)["status"] == "queued"
    runs.stop(holder)
    code, out, err = started.end()
    assert (code, out) == (0, b"my turn\n") and RECEIPT.fullmatch(err), err


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_leaves_the_line_is_taken_off_it(runs, start, holder, tmp_path, number, code):
    started = start("/bin/touch", "never")
    read_line(started.process)
    os.kill(started.pid, number)
    assert started.end()[0] == code
    row = started.row()
    assert row["status"] == "cancelled" and "terminal" in row["reason"]
    runs.stop(holder)
    runs.wait(holder)
    assert not (tmp_path / "never").exists()


def test_who_is_killed_in_line_is_taken_off_it(runs, start, holder):
    started = start("/bin/true")
    read_line(started.process)
    os.kill(started.pid, signal.SIGKILL)
    started.end()
    assert started.row()["status"] == "cancelled"


def test_who_is_stopped_in_line_is_told(runs, start, holder):
    started = start("/bin/true")
    read_line(started.process)
    cli(runs, "runs", "stop", started.run(), "--reason", "not today")
    code, _, err = started.end()
    assert code == 1 and "not today" in err


def test_who_does_not_wait_is_told_who_is_there(runs, start, holder):
    code, out, err = start("/bin/true", flags=["--on-conflict", "refuse"]).end()
    assert (code, out) == (1, b"")
    assert holder in err and runs.show(holder)["agent"] in err


def test_who_replaces_somebody_begins_when_that_one_is_gone(runs, start, holder, tmp_path):
    code, _, _ = start("/bin/true", flags=["--on-conflict", "replace"]).end()
    assert code == 0 and runs.show(holder)["status"] == "cancelled"


def test_a_line_has_an_end(start, holder):
    code, _, err = start("/bin/true", flags=["--queue-for", "1s"]).end()
    assert code == 1 and err.count("\n") >= 2


# ---- a server that goes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gently", [False, True])
def test_a_run_does_not_notice_that_the_server_is_another(runs, start, tmp_path, gently):
    script = "touch up; while [ ! -e go ]; do sleep 0.05; done; cat; exit 6"
    started = start("/bin/sh", "-c", script, stdin=subprocess.PIPE)
    wait_for(tmp_path / "up")
    run = started.run("running")
    runs.restart(gently)
    assert runs.show(run)["status"] == "running" and started.process.poll() is None
    (tmp_path / "go").touch()
    code, out, err = started.end(b"through")
    assert (code, out) == (6, b"through") and RECEIPT.fullmatch(err), err
    assert started.row()["exit_code"] == 6


def test_a_run_that_ends_while_the_server_is_away_is_told_of_as_it_ended(runs, start, tmp_path):
    started = start("/bin/sh", "-c", "touch up; while [ ! -e go ]; do sleep 0.05; done; exit 6")
    wait_for(tmp_path / "up")
    run = started.run("running")
    runs.server.kill9()
    (tmp_path / "go").touch()
    eventually(lambda: not processes_of(run))
    runs.start_server()
    assert started.end()[0] == 6
    assert (started.row()["status"], started.row()["exit_code"]) == ("failed", 6)


@pytest.mark.parametrize("gently", [False, True])
def test_who_waits_keeps_the_place_in_line_when_the_server_is_another(runs, start, holder, gently):
    started = start("/bin/echo", "my turn")
    read_line(started.process)
    run = started.run()
    runs.restart(gently)
    time.sleep(0.5)
    assert runs.show(run)["status"] == "queued" and started.process.poll() is None
    runs.stop(holder)
    code, out, _ = started.end()
    assert (code, out) == (0, b"my turn\n")
    assert started.row()["status"] == "succeeded"


def end_server(data):
    """The one that a run has started by itself."""
    if (data / "server.json").exists():
        pid = json.loads((data / "server.json").read_text())["pid"]
        end_process(pid, signal.SIGTERM)
        eventually(lambda: not alive(pid), 20)
    end_what_is_left(data)


def test_without_a_server_one_is_started(binary, tmp_path):
    data, work = tmp_path / "data", tmp_path / "work"
    work.mkdir()
    options = {"cwd": work, "env": cli_environment(data), "stdin": subprocess.DEVNULL, "capture_output": True, "timeout": 60}
    try:
        done = subprocess.run([binary, "run", "--", "/bin/sh", "-c", "echo here; exit 4"], **options)
        assert (done.returncode, done.stdout) == (4, b"here\n"), done
        remark, receipt = done.stderr.decode().split("\n", 1)
        assert "server" in remark and str(data) in remark and RECEIPT.fullmatch(receipt), done.stderr
        pid = json.loads((data / "server.json").read_text())["pid"]
        done = subprocess.run([binary, "run", "--", "/bin/true"], **options)
        assert done.returncode == 0 and RECEIPT.fullmatch(done.stderr.decode()), "the one that is there is used"
        assert json.loads((data / "server.json").read_text())["pid"] == pid and alive(pid)
        assert os.getsid(pid) != os.getsid(0), "it does not go with the terminal"
    finally:
        end_server(data)


def test_without_a_server_several_runs_start_one(binary, tmp_path):
    data = tmp_path / "data"
    started = []
    try:
        for _ in range(4):
            started.append(subprocess.Popen([binary, "run", "--no-workspace", "--", "/bin/echo", "here"], cwd=tmp_path,
                                            env=cli_environment(data), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE))
        ends = [process.communicate(timeout=60) for process in started]
        assert [(process.returncode, out) for process, (out, _) in zip(started, ends)] == [(0, b"here\n")] * 4, ends
    finally:
        for process in started:
            process.kill()
            process.wait()
        end_server(data)


# ---- in a terminal ------------------------------------------------------------------------------------------------


def test_a_run_in_a_terminal_has_it(runs, terminal):
    shell = terminal("/bin/sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo ready; read x; echo got $x; exit 5")
    before = shell.modes()
    shell.read_until(b"ready")
    shell.type(b"this\n")
    shell.read_until(b"got this")
    shell.read_until(b"/#/runs/")
    assert shell.hear() == "ended 5 1"
    assert shell.modes() == before


def test_ctrl_c_in_a_terminal_goes_to_the_command(runs, terminal):
    shell = terminal("/bin/sh", "-c", "trap 'echo caught; exit 8' INT; echo ready; while :; do sleep 0.05; done")
    shell.read_until(b"ready")
    shell.type(b"\x03")
    shell.read_until(b"caught")
    assert shell.hear() == "ended 8 1"
    assert runs.wait(shell.run())["exit_code"] == 8


def test_ctrl_c_in_line_takes_it_off(runs, terminal, holder):
    shell = terminal("/bin/true")
    shell.read_until(holder.encode())
    assert runs.show(shell.run())["status"] == "queued"
    shell.type(b"\x03")
    assert shell.hear() == "ended 130 1"
    assert runs.wait(shell.run())["status"] == "cancelled"


def test_the_waiting_line_is_gone_when_the_command_begins(runs, terminal, holder):
    shell = terminal("/bin/echo", "my turn")
    shell.read_until(holder.encode())
    runs.stop(holder)
    assert shell.read_until(b"my turn").endswith(b"\r\x1b[K")
    shell.read_until(b"/#/runs/")
    assert shell.hear() == "ended 0 1"


@pytest.mark.parametrize("when", ["at_once", "later"])
def test_ctrl_z_keeps_the_run_for_longer_than_its_lease(runs, terminal, when):
    shell = terminal("/bin/sh", "-c", "echo ready; read x; echo got $x; exit 3", flags=["--lease", "2s"])
    shell.read_until(b"ready")
    if when == "later":
        shell.run("running")
        time.sleep(0.3)
    shell.type(b"\x1a")
    assert shell.hear() == f"stopped {int(signal.SIGTSTP)} 1"
    run = shell.run("paused")
    time.sleep(4.5)
    assert runs.show(run)["status"] == "paused"
    os.write(shell.tell, b"f")
    runs.wait(run, "running", seconds=5)
    shell.type(b"after all\n")
    shell.read_until(b"got after all")
    shell.read_until(b"/#/runs/")
    assert shell.hear() == "ended 3 1"
    assert runs.wait(run)["exit_code"] == 3


def test_ctrl_z_outlasts_a_server_too(runs, terminal):
    shell = terminal("/bin/sh", "-c", "echo ready; read x; echo got $x; exit 3", flags=["--lease", "2s"])
    shell.read_until(b"ready")
    shell.run("running")
    time.sleep(0.3)
    shell.type(b"\x1a")
    shell.hear()
    run = shell.run("paused")
    runs.restart()
    time.sleep(3)
    assert runs.show(run)["status"] == "paused"
    os.write(shell.tell, b"f")
    runs.wait(run, "running", seconds=5)
    shell.type(b"after all\n")
    shell.read_until(b"got after all")
    assert shell.hear() == "ended 3 1"
    assert runs.wait(run)["exit_code"] == 3


# ---- behind the terminal ------------------------------------------------------------------------------------------


def detach(runs, tmp_path, *words, flags=()):
    out, err = cli(runs, "run", "--detach", *flags, "--", *words, cwd=tmp_path)
    run = out.strip()
    assert out == f"{run}\n" and run.startswith("run_") and run in err
    return run


def follow(runs, *words):
    return subprocess.Popen([runs.server.binary, "runs", *words], env=cli_environment(runs.data), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_detached_run_is_followed_to_its_end_and_through_a_restart(runs, tmp_path):
    run = detach(runs, tmp_path, "/bin/sh", "-c", "echo one; while [ ! -e go ]; do sleep 0.05; done; printf 'two\\0'; exit 9")
    logs, attached = follow(runs, "logs", "-f", run), None
    try:
        assert logs.stdout.readline() == b"one\n"
        attached = follow(runs, "attach", run)
        time.sleep(0.5)
        runs.restart()
        (tmp_path / "go").touch()
        out, err = logs.communicate(timeout=30)
        assert (logs.returncode, out, err) == (0, b"two\0", b"")
        out, err = attached.communicate(timeout=30)
        assert (attached.returncode, out) == (9, b"two\0")
        assert run.encode() in err and b"failed" in err and err.count(b"\n") == 1
    finally:
        for process in (logs, attached):
            if process is not None:
                process.kill()
                process.communicate()
    assert cli(runs, "runs", "logs", run)[0] == "one\ntwo\0"
    assert cli(runs, "runs", "logs", "--tail", "1", run)[0] == "two\0"
    assert cli(runs, "runs", "logs", "--offset", "-4", run)[0] == "two\0"


def test_who_leaves_an_attached_run_leaves_it_going(runs, tmp_path):
    run = detach(runs, tmp_path, "/bin/sleep", "100")
    runs.wait(run, "running")
    attached = follow(runs, "attach", run)
    time.sleep(0.5)
    attached.send_signal(signal.SIGINT)
    _, err = attached.communicate(timeout=30)
    assert attached.returncode == 130 and run.encode() in err and b"continues" in err
    assert runs.show(run)["status"] == "running"
    out, _ = cli(runs, "runs", "stop", run, "--wait", "--reason", "seen enough")
    row = runs.show(run)
    assert (out, row["status"], row["reason"]) == ("", "cancelled", "seen enough")


def test_a_detached_run_is_paused_resumed_and_tried_again(runs, tmp_path):
    run = detach(runs, tmp_path, "/bin/sh", "-c", "echo x >> counter; while [ ! -e go ]; do date >> ticks; sleep 0.02; done",
                 flags=["--name", "counting"])
    wait_for(tmp_path / "ticks")
    runs.wait(run, "running")
    cli(runs, "runs", "pause", run)
    time.sleep(0.3)
    before = (tmp_path / "ticks").stat().st_size
    time.sleep(0.3)
    assert (tmp_path / "ticks").stat().st_size == before
    assert "paused" in cli(runs, "runs", "ls", "--name", "counting")[0]
    cli(runs, "runs", "resume", run)
    eventually(lambda: (tmp_path / "ticks").stat().st_size > before)
    (tmp_path / "go").touch()
    runs.wait(run, "succeeded")
    again = json.loads(cli(runs, "runs", "retry", run, "--json")[0])["id"]
    assert again != run and runs.wait(again)["status"] == "succeeded"
    assert (tmp_path / "counter").read_text() == "x\nx\n"
    assert again in cli(runs, "runs", "ls", "--name", "counting")[0]
    assert "succeeded" in cli(runs, "runs", "show", again)[0]


def test_several_runs_are_stopped_with_one_command(runs, tmp_path):
    ids = [detach(runs, tmp_path, "/bin/sleep", "100", flags=["--no-workspace"]) for _ in range(3)]
    for run in ids:
        runs.wait(run, "running")
    cli(runs, "runs", "stop", "--wait", *ids)
    assert {runs.show(run)["status"] for run in ids} == {"cancelled"}
    assert "already" in cli(runs, "runs", "stop", ids[0])[1]


def test_a_detached_run_that_waits_says_so(runs, tmp_path, holder):
    out, err = cli(runs, "run", "--detach", "--", "/bin/true", cwd=tmp_path)
    assert "queued at position 1, waits for" in err
    cli(runs, "runs", "stop", out.strip())
    assert runs.wait(out.strip())["status"] == "cancelled"


def test_a_foreground_run_has_no_log_to_follow(runs, start):
    started = start("/bin/true")
    started.end()
    _, err = cli(runs, "runs", "logs", started.run(), code=None)
    assert "terminal" in err or "log" in err
