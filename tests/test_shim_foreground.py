"""The shim in the foreground: the run has the user's streams and terminal, and the shim behaves as a shell's job does."""

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from fake_supervisor import SECONDS, process_state
from interlock_server import eventually
from terminal_shell import Shell

def foreground(world, script, *flags, options=None, **keys):
    """A foreground run of a shell script, launched, and the line to its shim."""
    shim, line = world.launch(["sh", "-c", script], "--foreground", *flags, options=options, **keys)
    line.expect("started")
    return shim, line


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -KILL $$", 137)])
def test_the_exit_code_is_the_one_of_the_run(world, script, code):
    shim, line = foreground(world, script)
    world.finish(shim, line)
    assert shim.process.returncode == code


def test_streams_are_the_users_and_nothing_is_captured(world):
    shim, line = foreground(world, "cat; echo to-stderr >&2", options={"stdin": subprocess.PIPE})
    assert line.hello[8] == "1"
    out, err = shim_communicates(world, shim, line, b"through\n")

    assert (out, err) == (b"through\n", b"to-stderr\nreceipt\n")
    assert not (shim.home / "output").exists()


def shim_communicates(world, shim, line, text):
    shim.process.stdin.write(text)
    shim.process.stdin.close()
    world.finish(shim, line)
    return shim.process.stdout.read(), shim.process.stderr.read()


def test_quiet_keeps_the_receipt_to_itself(world):
    shim, line = foreground(world, "exit 0", "--quiet")
    world.finish(shim, line)
    assert shim.process.stderr.read() == b""


def test_only_the_three_streams_get_into_the_run(world):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    script = "import os; print(sorted(os.listdir('/proc/self/fd')))"
    shim, line = world.launch([sys.executable, "-c", script], "--foreground", options={"pass_fds": [write]})
    world.finish(shim, line)
    os.close(read), os.close(write)
    # The fourth is the listing itself.
    assert shim.process.stdout.read() == b"['0', '1', '2', '3']\n"


def test_the_environment_is_the_users_with_the_launch_on_top(world):
    options = {"env": {"PATH": os.environ["PATH"], "KEPT": "1", "CHANGED": "before"}}
    shim, line = world.launch(["env"], "--foreground", options=options, env=["CHANGED=after"])
    world.finish(shim, line)
    lines = shim.process.stdout.read().decode().split()
    assert sorted(lines) == sorted(["KEPT=1", "CHANGED=after", f"PATH={os.environ['PATH']}", shim.mark])


def test_the_line_is_shown_as_it_changes_and_a_refusal_ends_it(world):
    shim = world.shim("--foreground")
    line = world.supervisor.accept()
    for text in ("2 before you", "2 before you", "1 before you"):
        line.send("wait", text)
    line.send("refused", "the budget is used up", "75")

    assert shim.wait() == 75
    assert shim.process.stderr.read() == b"2 before you\n1 before you\nthe budget is used up\n"


def test_what_cannot_be_started_is_said_to_the_user(world):
    shim, line = world.launch(["no-such-command"], "--foreground")
    world.finish(shim, line)
    assert shim.process.returncode == 127
    assert shim.process.stderr.read().startswith(b"interlock: cannot start 'no-such-command': No such file or directory\n")


def test_a_fenced_run_tells_the_user_why(world):
    shim, line = foreground(world, "trap '' TERM INT; sleep 600 & wait; wait")
    line.send("fenced", "the lease ran out")
    assert shim.wait() == 1
    assert shim.process.stderr.read() == b"interlock: the lease ran out\n" and shim.left() == []


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_waits_in_line_can_leave_it(world, number, code):
    shim = world.shim("--foreground")
    line = world.supervisor.accept()
    os.kill(shim.pid, number)
    assert shim.wait() == code
    with pytest.raises(AssertionError, match="closed"):
        line.expect("anything")


def test_who_waits_in_line_outlasts_a_server_that_goes(world):
    shim = world.shim("--foreground")
    world.supervisor.accept().close()
    line = world.supervisor.accept()
    assert line.hello[5] == "waiting"
    world.send_launch(shim, line, ["true"])
    assert world.finish(shim, line)[:2] == ["exited", "0"]


def test_signals_are_passed_on_and_what_they_do_is_the_runs_affair(world):
    names = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH"]
    program = "import signal, sys, time\n" \
              f"for name in {names}:\n" \
              "    signal.signal(getattr(signal, 'SIG' + name), lambda number, _: print(signal.Signals(number).name[3:], flush=True))\n" \
              "print('ready', flush=True)\n" \
              "while True: time.sleep(1)\n"
    shim, line = world.launch([sys.executable, "-c", program], "--foreground", grace_ms=60_000)
    out = shim.process.stdout
    assert out.readline() == b"ready\n"
    for name in names:
        os.kill(shim.pid, getattr(signal, f"SIG{name}"))
        assert out.readline().decode().strip() == name
    assert line.silent_about("ended", 0.2)
    line.send("fenced", "")
    shim.wait()


def test_who_asks_again_after_the_grace_means_it(world):
    shim, line = foreground(world, "trap '' TERM; echo ready; while :; do sleep 0.02; done", grace_ms=400)
    assert shim.process.stdout.readline() == b"ready\n"
    os.kill(shim.pid, signal.SIGTERM)
    time.sleep(0.1)
    os.kill(shim.pid, signal.SIGTERM)
    assert line.silent_about("ended", 0.5)
    os.kill(shim.pid, signal.SIGTERM)

    assert world.finish(shim, line)[:2] == ["signaled", "9"]
    assert shim.process.returncode == 137


def test_a_run_under_nohup_does_not_hear_a_hangup(world):
    def ignore_hangup():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    shim, line = foreground(world, "sleep 0.7; exit 9", options={"preexec_fn": ignore_hangup})
    os.kill(shim.pid, signal.SIGHUP)
    assert world.finish(shim, line)[:2] == ["exited", "9"]


def test_children_of_the_shell_that_became_the_shim_are_spared(world):
    script = 'sleep 600 & echo $! >&2; exec "$0" "$@"'
    process = subprocess.Popen(["sh", "-c", script, world.program, str(world.data), "run-with-family", "--foreground"],
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    sibling = int(process.stderr.readline())
    try:
        line = world.supervisor.accept()
        line.launch(["sh", "-c", "(trap '' TERM; sleep 600) & exit 3"], home=world.data / "runs/run-with-family", grace_ms=200)
        assert line.expect("ended")[:2] == ["exited", "3"]
        line.send("done", "")
        assert process.wait(SECONDS) == 3
        assert process_state(sibling) in "RSD"
    finally:
        os.kill(sibling, signal.SIGKILL)
        process.stderr.close()


def test_a_server_that_never_hears_of_the_end_does_not_keep_the_user(world):
    shim, line = foreground(world, "exit 4")
    line.expect("ended")
    world.supervisor.close()
    line.close()
    start = time.monotonic()
    assert shim.wait(30) == 4
    assert 8 < time.monotonic() - start < 14
    assert b"the server could not be told" in shim.process.stderr.read()
    assert shim.state()["how"] == "exited"


@pytest.fixture
def terminal(world):
    """Launches a command in a terminal; the shell and the line to its shim."""
    def start(*command, **keys):
        shell = Shell([world.program, str(world.data), "run-in-terminal", "--foreground"])
        world.stack.callback(shell.close)
        line = world.supervisor.accept()
        if command:
            line.launch(list(command), home=world.data / "runs/run-in-terminal", **keys)
            line.expect("started")
        return shell, line

    return start


def end(shell, line):
    line.expect("ended")
    line.send("done", "")
    return shell.hear()


def test_the_run_has_the_terminal_and_gives_it_back(terminal):
    shell, line = terminal("sh", "-c", "echo ready; read x; echo got $x; stty -echo; exit 5")
    before = shell.modes()
    shell.read_until(b"ready")
    assert shell.foreground_group() != shell.job
    shell.type(b"input\n")
    shell.read_until(b"got input")

    assert end(shell, line) == "ended 5 1"
    assert shell.modes() == before


def test_ctrl_c_goes_to_the_run_alone(terminal):
    shell, line = terminal("sh", "-c", "trap 'echo caught; exit 8' INT; echo ready; while :; do sleep 0.05; done")
    shell.read_until(b"ready")
    shell.type(b"\x03")
    shell.read_until(b"caught")
    assert end(shell, line) == "ended 8 1"


def test_ctrl_c_ends_a_run_that_does_not_care(terminal):
    shell, line = terminal("sleep", "600")
    eventually(lambda: shell.foreground_group() != shell.job)
    shell.type(b"\x03")
    assert end(shell, line) == "ended 130 1"


def test_ctrl_c_while_waiting_in_line_ends_it(terminal):
    shell, line = terminal()
    line.send("wait", "3 before you")
    shell.read_until(b"\r\x1b[K3 before you")
    line.send("wait", "2 before you")
    shell.read_until(b"\r\x1b[K2 before you")
    shell.type(b"\x03")
    assert shell.hear() == "ended 130 1"


def test_the_line_is_cleared_before_the_run_prints(terminal, world):
    shell, line = terminal()
    line.send("wait", "1 before you")
    line.launch(["echo", "mine"], home=world.data / "runs/run-in-terminal")
    assert shell.read_until(b"mine").endswith(b"1 before you\r\x1b[K")
    assert end(shell, line) == "ended 0 1"


@pytest.mark.parametrize("rounds", [1, 3])
def test_ctrl_z_stops_the_job_and_fg_goes_on_with_it(terminal, rounds):
    shell, line = terminal(sys.executable, "-c", "print('ready', flush=True)\nwhile True: print('got', input(), flush=True)")
    shell.read_until(b"ready")
    run_group = shell.foreground_group()
    for i in range(rounds):
        shell.type(b"\x1a")
        # The shell sees its job stop, and the job gave the terminal back before.
        assert shell.hear() == f"stopped {int(signal.SIGTSTP)} 1"
        line.expect("paused")
        assert process_state(shell.job) == "T" and process_state(run_group) == "T"

        os.write(shell.tell, b"f")
        line.expect("resumed")
        eventually(lambda: shell.foreground_group() == run_group)
        shell.type(b"round %d\n" % i)
        shell.read_until(b"got round %d" % i)

    shell.type(b"\x04")
    assert end(shell, line) == "ended 1 1"


def test_a_run_that_stops_itself_instead_of_ending_is_ended(terminal):
    script = "import os, signal, time\n" \
             "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGSTOP))\n" \
             "print('ready', flush=True)\nwhile True: time.sleep(1)"
    shell, line = terminal(sys.executable, "-c", script, grace_ms=500)
    shell.read_until(b"ready")
    line.send("stop", "enough")
    shell.read_until(b"the run is being stopped: enough")
    assert line.expect("ended")[:2] == ["stopped", "9"]
    line.send("done", "")
    assert shell.hear() == "ended 137 1"


def test_a_run_that_goes_on_in_the_background_stops_when_it_reads(terminal):
    script = "import time\nprint('ready', flush=True)\ntime.sleep(1.0)\nprint('got', input(), flush=True)"
    shell, line = terminal(sys.executable, "-c", script)
    shell.read_until(b"ready")
    shell.type(b"\x1a")
    assert shell.hear().startswith("stopped")
    os.write(shell.tell, b"b")
    assert shell.hear().startswith(f"stopped {int(signal.SIGTTIN)}")
    os.write(shell.tell, b"f")
    shell.type(b"now\n")
    shell.read_until(b"got now")
    assert end(shell, line) == "ended 0 1"


def test_the_size_of_the_window_is_seen_and_left_alone(terminal):
    script = "trap 'stty size; exit 0' WINCH; stty size; while :; do sleep 0.05; done"
    shell, line = terminal("sh", "-c", "sleep 0.3; " + script)
    fcntl.ioctl(shell.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    shell.read_until(b"33 77")
    fcntl.ioctl(shell.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 88, 0, 0))
    shell.read_until(b"44 88")
    assert end(shell, line) == "ended 0 1"
    assert struct.unpack("HHHH", fcntl.ioctl(shell.terminal, termios.TIOCGWINSZ, bytes(8)))[:2] == (44, 88)


def test_a_run_that_outlives_its_terminal_keeps_its_shim(terminal):
    shell, line = terminal("sh", "-c", "trap '' HUP TERM; echo ready; while :; do sleep 0.05; done", grace_ms=300)
    shell.read_until(b"ready")
    run = shell.foreground_group()
    os.kill(shell.pid, signal.SIGKILL)
    assert line.silent_about("ended", 0.5)
    # Nobody is there any more who could ask: the run stays, and so does its shim, until the server says stop.
    assert process_state(run) in "RSD" and process_state(shell.job) in "RSD"
    line.send("stop", "")
    assert line.expect("ended")[:2] == ["stopped", "9"]
    assert process_state(run) == "X"
    line.send("done", "")
