"""`interlock demo` from outside: what it prints, what it leaves behind, and how it ends."""

import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import sqlite3
import struct
import subprocess
import termios
import time

import pytest

SHORT = ("--agents", "30", "--seconds", "2")
ESCAPE = "\x1b"


@pytest.fixture
def started(binary, interlock):
    """Starts the program without waiting for it, and ends what a failing test leaves running."""
    processes = []

    def start(*arguments, **options):
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        processes.append(subprocess.Popen([binary, *map(str, arguments)],
                                          env={**os.environ, "TMPDIR": str(interlock.scratch), "TERM": "xterm"}, **options))
        return processes[-1]

    yield start
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def children(pid):
    """The pids of the processes that `pid` started and that still run."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{entry}/stat") as stat:
                    state, parent = stat.read().rpartition(")")[2].split()[:2]
                if int(parent) == pid and state != "Z":
                    found.append(int(entry))
    return found


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.02)
    return holds()


def test_it_is_killed_in_the_middle_and_every_promise_holds(interlock):
    done = interlock("demo", *SHORT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "every guarantee holds" in done.stdout
    assert re.search(r"^ok +P1 +exact ledger", done.stdout, re.M)
    assert re.search(r"^ok +budget +\$10\.00 limit, \$\d+\.\d+ spent in [\d,]+ calls, never above\.", done.stdout, re.M)
    assert re.search(r"^ok +session +messages 0 to [\d,]+ without a gap", done.stdout, re.M)
    assert re.search(r"^ok +directories +[\d,]+ runs in 5 directories", done.stdout, re.M)
    kill = re.search(r"^ok +kill -9 +([\d,]+) commands had been acknowledged; asked again, ([\d,]+) of ([\d,]+) were there",
                     done.stdout, re.M)
    assert kill and kill[1] == kill[2] == kill[3] and kill[1] != "0"
    assert "kill -9, with" in done.stderr and "started again" in done.stderr


def test_piped_it_is_plain_and_says_something_every_second(interlock):
    done = interlock("demo", *SHORT)

    assert ESCAPE not in done.stdout + done.stderr
    assert (done.stdout + done.stderr).isascii()
    moments = [float(found) for found in re.findall(r"^ *(\d+\.\d) s  \$", done.stderr, re.M)]
    assert len(moments) >= 2 and moments == sorted(moments)
    assert "FAILED" not in done.stdout


def test_the_temporary_directory_is_gone_afterwards(interlock):
    done = interlock("demo", *SHORT)

    assert done.returncode == 0
    assert list(interlock.scratch.iterdir()) == []


def test_keep_leaves_the_store_and_says_where(interlock):
    done = interlock("demo", "--keep", *SHORT)

    where = re.search(r"The data is in (\S+)\.", done.stderr)[1]
    assert where.startswith(str(interlock.scratch))
    verified = interlock("verify", "--data-dir", where, "--json")
    assert verified.returncode == 0
    assert json.loads(verified.stdout)["ok"] is True


def test_the_report_says_what_the_store_says(interlock, tmp_path):
    data = tmp_path / "data"
    done = interlock("demo", "--data-dir", data, *SHORT)

    assert done.returncode == 0, done.stdout + done.stderr
    with contextlib.closing(sqlite3.connect(f"file:{data}/interlock.db?mode=ro", uri=True)) as db:
        spent, calls = db.execute("select sum(cost), count(*) from cost_events").fetchone()
        messages, last = db.execute("select count(*), max(seq) from messages").fetchone()
    assert 0 < spent <= 10_000_000_000 and messages == last + 1
    told = re.search(r"\$(\d+\.\d+) spent in ([\d,]+) calls", done.stdout)
    dollars, decimals = told[1].split(".")
    assert int(dollars) * 10**9 + int(decimals.ljust(9, "0")) == spent
    assert int(told[2].replace(",", "")) == calls
    assert f"messages 0 to {last:,} without" in done.stdout


def test_no_kill_leaves_the_kill_out(interlock):
    done = interlock("demo", "--no-kill", *SHORT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill -9" not in done.stdout + done.stderr


def test_a_directory_with_other_data_is_refused_and_left_alone(interlock, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/dear.txt").write_text("dear")

    done = interlock("demo", "--data-dir", tmp_path / "letters", *SHORT)

    assert done.returncode == 2
    assert "is not empty" in done.stderr and done.stdout == ""
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["dear.txt"]


def test_an_empty_directory_is_taken(interlock, tmp_path):
    (tmp_path / "empty").mkdir()

    done = interlock("demo", "--data-dir", tmp_path / "empty", *SHORT)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "empty/interlock.db").exists()


@pytest.mark.parametrize("where, why", [("file/inside", "Not a directory"), ("missing/inside", "No such file or directory"),
                                        ("file", "is not a directory")])
def test_a_directory_that_cannot_be_made_is_a_clear_error(interlock, tmp_path, where, why):
    (tmp_path / "file").write_text("")

    done = interlock("demo", "--data-dir", tmp_path / where, *SHORT)

    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and why in done.stderr and str(tmp_path / where) in done.stderr


@pytest.mark.parametrize("room, why", [(2 << 20, "takes nothing more"), (1 << 10, "interlock.db")])
def test_a_disk_that_takes_nothing_more_is_a_clear_error(interlock, room, why):
    # No file may grow further than this. Python ignores the signal that says so, and so does what it starts.
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    done = interlock("demo", "--agents", "100", "--seconds", "60", preexec_fn=small_files, restore_signals=False)

    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: " in done.stderr and why in done.stderr
    assert list(interlock.scratch.iterdir()) == []


@pytest.mark.parametrize("words", [("--agents", "0"), ("--agents", "many"), ("--seconds", "0"), ("--seconds", "-1"), ("more",)])
def test_bad_usage_is_told(interlock, words):
    done = interlock("demo", *words)

    assert done.returncode == 2
    assert done.stdout == "" and words[0].lstrip("-") in done.stderr


def test_help_has_examples_and_hides_what_is_not_for_people(interlock):
    assert "Examples:" in interlock("demo", "--help").stdout
    assert "demo-worker" not in interlock("--help").stdout


def test_the_hidden_part_says_whose_it_is(interlock, tmp_path):
    done = interlock("demo-worker", "--data-dir", tmp_path / "data")

    assert done.returncode == 2
    assert "interlock demo" in done.stderr
    assert not (tmp_path / "data").exists()


def test_two_demos_at_once_do_not_disturb_each_other(started):
    demos = [started("demo", *SHORT) for _ in range(2)]

    for demo in demos:
        out, err = demo.communicate(timeout=120)
        assert demo.returncode == 0, out + err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_it_ends_its_worker_and_tidies_up(started, interlock, how):
    demo = started("demo", "--seconds", "60")
    worker, = eventually(lambda: children(demo.pid))
    assert list(interlock.scratch.iterdir()) != []

    demo.send_signal(how)
    out, _ = demo.communicate(timeout=60)

    assert demo.returncode == 130
    assert out == b""
    assert not runs(worker)
    assert list(interlock.scratch.iterdir()) == []


def test_when_it_is_killed_itself_no_worker_is_left(started):
    demo = started("demo", "--seconds", "60")
    worker, = eventually(lambda: children(demo.pid))

    demo.kill()
    demo.wait()

    assert eventually(lambda: not runs(worker))


def test_a_worker_that_dies_unasked_is_a_clear_error(started, interlock):
    demo = started("demo", "--seconds", "60")
    worker, = eventually(lambda: children(demo.pid))

    os.kill(worker, signal.SIGABRT)
    _, err = demo.communicate(timeout=60)

    assert demo.returncode == 2
    assert b"signal 6" in err
    assert list(interlock.scratch.iterdir()) == []


def test_a_reader_that_has_seen_enough_does_not_keep_it_from_tidying_up(started, interlock):
    demo = started("demo", *SHORT)
    demo.stdout.close()
    demo.stderr.close()

    assert demo.wait(timeout=60) == 0
    assert list(interlock.scratch.iterdir()) == []


class Screen:
    """The program on a terminal of its own."""

    def __init__(self, started, columns, rows, *arguments, **environment):
        self.main, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = started(*arguments, stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        self.text = ""

    def read(self, until=lambda text: False, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until(self.text):
            if not select.select([self.main], [], [], 0.2)[0]:
                continue
            try:
                self.text += os.read(self.main, 65536).decode(errors="replace")
            except OSError:  # The program and its worker have closed the terminal.
                break
        return self.text


@pytest.mark.parametrize("columns", [80, 100])
def test_on_a_terminal_a_picture_is_drawn_in_place(started, columns):
    screen = Screen(started, columns, 40, "demo", *SHORT)

    text = screen.read()

    assert screen.process.wait(timeout=60) == 0
    assert f"{ESCAPE}[?25l" in text and text.rindex(f"{ESCAPE}[?25h") > text.rindex(f"{ESCAPE}[?25l")
    assert "✓" in text and "█" in text
    picture = text[:text.rindex(f"{ESCAPE}[?25h")]
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", picture)
    assert max(len(line) for line in plain.replace("\r", "").split("\n")) <= columns


def test_ctrl_c_on_a_terminal_brings_the_cursor_back(started):
    screen = Screen(started, 80, 40, "demo", "--seconds", "60")
    screen.read(until=lambda text: "█" in text)

    screen.process.send_signal(signal.SIGINT)
    text = screen.read()

    assert screen.process.wait(timeout=60) == 130
    assert text.rindex(f"{ESCAPE}[?25h") > text.rindex(f"{ESCAPE}[?25l")


def test_on_a_terminal_too_low_for_the_picture_there_are_lines(started):
    screen = Screen(started, 80, 10, "demo", *SHORT)

    text = screen.read()

    assert screen.process.wait(timeout=60) == 0
    assert f"{ESCAPE}[?25l" not in text
    assert re.search(r" \d+\.\d s  \$\d", text)


@pytest.mark.parametrize("variable, value", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_asks_for_no_colours_gets_none(binary, interlock, variable, value):
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    environment = {**os.environ, "TMPDIR": str(interlock.scratch), "TERM": "xterm", variable: value}
    process = subprocess.Popen([binary, "demo", *SHORT], stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    text = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(main, 65536):
            text += chunk

    assert process.wait(timeout=60) == 0
    assert text.isascii()
    assert not re.search(rb"\x1b\[[0-9;]*m", text)
    if variable == "TERM":
        assert b"\x1b" not in text
