"""The shim: what it starts, how that ends, and that nothing is left of it. The server is a fake one."""

import ast
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from fake_supervisor import Supervisor, process_state
from interlock_server import eventually

CGROUPS = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
MIB = 1 << 20
# Hears no polite word.
STUBBORN = "trap '' TERM INT HUP; while :; do sleep 0.05; done"
# A process that leaves its group, its session and its parent, and does not want to end.
DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.close(1), os.close(2)
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
"""


# How it ends.


@pytest.mark.parametrize("script, how, code, exit_code", [
    ("exit 0", "exited", "0", 0),
    ("exit 3", "exited", "3", 3),
    ("exit 255", "exited", "255", 255),
    ("kill -9 $$", "signaled", "9", 137),
    ("kill -SEGV $$", "signaled", "11", 139),
])
def test_the_end_of_the_main_process_is_the_end_of_the_run(world, script, how, code, exit_code):
    shim, line = world.launch(["sh", "-c", script], limit="core=0")
    ended = world.finish(shim, line)

    assert ended[:2] == [how, code]
    assert shim.process.returncode == exit_code
    assert shim.state()["phase"] == "ended" and shim.state()["how"] == how and shim.state()["code"] == code


def test_what_a_run_used_is_counted_with_its_descendants(world):
    ended, _ = world.end_of(f"{sys.executable} -c 'x = bytearray(64 << 20); sum(range(10000000))'; exit 0")

    user_ms, system_ms, rss_kb = map(int, ended[3:6])
    assert user_ms >= 20 and rss_kb > 64 << 10 and rss_kb < 1 << 20


@pytest.mark.parametrize("args, keys, code, text", [
    (["no-such-command"], {}, "127", "cannot start 'no-such-command': No such file or directory"),
    (["/etc/passwd"], {}, "126", "cannot start '/etc/passwd': Permission denied"),
    (["true"], {"dir": "/no/such/place"}, "126", "cannot start in '/no/such/place': No such file or directory"),
    (["true"], {"limit": "melons=3"}, "126", "cannot start it: its limit 'melons=3' cannot be used"),
    ([], {}, "126", "cannot start it: no command was given"),
])
def test_what_cannot_be_started_is_said_in_a_sentence(world, args, keys, code, text):
    shim, line = world.launch(args, **keys)
    ended = world.finish(shim, line)

    assert ended[:3] == ["not_started", code, text]
    assert not any(message[0] == "started" for message in line.seen)
    assert shim.process.returncode == int(code)


def test_the_command_is_looked_for_in_the_path_of_the_run(world):
    tool = world.directory / "own-tool"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    shim = world.shim()
    line = world.supervisor.accept()
    line.send("launch", "arg", "own-tool", "env", f"PATH={world.directory}", "home", str(shim.home), "dir", "/")

    assert world.finish(shim, line)[:2] == ["exited", "0"]
    assert (shim.home / "output").read_text() == "found\n"


def test_a_command_that_is_there_but_may_not_be_run_is_told_from_none(world):
    (world.directory / "plain-file").write_text("not a program")
    shim = world.shim()
    line = world.supervisor.accept()
    line.send("launch", "arg", "plain-file", "env", f"PATH=/no/such:{world.directory}:/usr/bin", "home", str(shim.home))
    assert world.finish(shim, line)[:3] == ["not_started", "126", "cannot start 'plain-file': Permission denied"]


def test_a_run_that_takes_too_long_is_ended(world):
    start = time.monotonic()
    ended, _ = world.end_of("sleep 100", timeout_ms=300)

    assert ended[:2] == ["timed_out", "15"] and "300 ms" in ended[2]
    assert 0.25 < time.monotonic() - start < 5


def test_a_stop_is_polite_first(world):
    shim, line = world.shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: (shim.home / "output").read_text() == "ready\n")
    line.send("stop", "because")

    ended = world.finish(shim, line)
    assert ended[:2] == ["stopped", "7"] and "because" in ended[2]
    assert (shim.home / "output").read_text().endswith("bye\n")


def test_who_ignores_a_stop_is_killed_after_the_grace(world):
    shim, line = world.shell(f"trap '' TERM; echo ready; {STUBBORN}", grace_ms=300)
    eventually(lambda: (shim.home / "output").read_text().startswith("ready\n"))
    start = time.monotonic()
    line.send("stop", "")

    assert world.finish(shim, line)[:2] == ["stopped", "9"]
    assert 0.25 < time.monotonic() - start < 3


def test_a_daemon_that_left_its_parent_and_session_does_not_survive(world):
    note = world.directory / "daemon"
    shim, line = world.launch([sys.executable, "-c", DAEMON, str(note)])

    ended = line.expect("ended")
    daemon = int(note.read_text())
    assert ended[:2] == ["exited", "0"] and shim.left() == [] and process_state(daemon) == "X"


def test_the_check_for_leftovers_can_fail(world):
    note = world.directory / "daemon"
    shim, line = world.launch(["sh", "-c", f'{sys.executable} -c "$0" {note}; exec sleep 600', DAEMON])
    eventually(lambda: note.exists() and note.read_text())

    # Nobody is there to hold the daemon any more. What is found here must be found when a shim ends well, too.
    shim.process.kill()
    shim.wait()
    assert eventually(lambda: shim.left() == [int(note.read_text())])


@pytest.mark.parametrize("leaves", ["os.setsid()", "pass"])
def test_a_fork_bomb_does_not_outrun_its_end(world, leaves):
    # Bounded by a directory that every new process takes a place in.
    places = world.directory / "places"
    places.mkdir()
    bomb = f"""
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for i in range(400):
    if os.fork() == 0:
        {leaves}
    try: os.mkdir(f"{places}/{{os.getpid()}}")
    except FileExistsError: pass
    if len(os.listdir("{places}")) > 600:
        signal.pause()
"""
    shim, line = world.launch([sys.executable, "-c", bomb], grace_ms=0)
    eventually(lambda: len(os.listdir(places)) > 300, 60)
    start = time.monotonic()
    line.send("stop", "")

    assert world.finish(shim, line, 60)[0] == "stopped"
    print(f"{len(os.listdir(places))} processes gone after {time.monotonic() - start:.2f} s")


def test_a_fenced_run_is_killed_at_once_and_says_nothing_more(world):
    shim, line = world.shell(STUBBORN, grace_ms=60_000)
    line.send("fenced", "another one has it")

    assert shim.wait() == 1
    assert shim.left() == []
    with pytest.raises(AssertionError, match="closed before ended"):
        line.expect("ended")


def test_a_shim_that_is_fenced_or_refused_before_the_launch_goes(world):
    fenced, refused = world.shim(), world.shim()
    lines = {line.hello[1]: line for line in (world.supervisor.accept(), world.supervisor.accept())}
    lines[fenced.run].send("fenced", "no longer yours")
    lines[refused.run].send("refused", "no place is left", "75")

    assert (fenced.wait(), refused.wait()) == (1, 75)


def test_a_second_shim_of_a_run_goes_without_a_word(world):
    first, line = world.shell("exec sleep 600")
    second = world.shim(run=first.run)

    assert second.wait() == 0
    assert second.process.stdout.read() + second.process.stderr.read() == b""
    assert first.process.poll() is None


def test_a_run_is_never_started_twice(world):
    first, line = world.shell("exec sleep 600")
    first.process.kill()
    first.wait()
    eventually(lambda: first.left() == [])

    second = world.shim(run=first.run)
    assert second.wait() == 1
    assert first.state()["phase"] == "running"


def test_if_the_shim_is_killed_the_kernel_kills_the_main_process(world):
    shim, line = world.shell(f"exec sh -c \"{STUBBORN.replace('sleep 0.05', 'read x <&-; :')}\"")
    child = int(shim.state()["child_pid"])
    assert process_state(child) in "RSD"
    shim.process.kill()
    shim.wait()

    eventually(lambda: process_state(child) in "XZ")


def test_a_term_for_a_background_shim_is_a_stop_and_other_signals_are_nothing(world):
    shim, line = world.shell("exec sleep 600")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGPIPE):
        os.kill(shim.pid, number)
    assert line.silent_about("ended", 0.3)
    os.kill(shim.pid, signal.SIGTERM)

    assert world.finish(shim, line)[:2] == ["stopped", "15"]


# What it prints.


def test_output_is_kept_in_order_and_counted(world):
    ended, output = world.end_of("echo one; echo two >&2; echo three")
    assert output == b"one\ntwo\nthree\n"


def test_a_run_may_print_nothing_or_close_its_output(world):
    assert world.end_of("exit 0")[1] == b""
    assert world.end_of("exec >&- 2>&-; sleep 0.2; exit 4")[0][:2] == ["exited", "4"]


def test_a_gigabyte_passes_at_full_speed_and_its_head_and_tail_stay(world):
    size, bound = 1 << 30, 8 * MIB
    start = time.monotonic()
    shim, line = world.shell(f"echo the head; yes 0123456789abcde | head -c {size}; echo the tail", log_max=bound)
    world.finish(shim, line, 120)
    seconds = time.monotonic() - start

    path, end = shim.home / "output", size + len("the head\nthe tail\n")
    begin, hole_end = int(shim.state()["hole_begin"]), int(shim.state()["hole_end"])
    assert path.stat().st_size == end == int(shim.state()["log_end"])
    assert begin == bound // 4 and end - bound <= hole_end <= end - bound // 2
    with path.open("rb") as file:
        head, _, tail = file.read(begin), file.seek(hole_end), file.read()
    pattern = b"0123456789abcde\n"
    assert head == b"the head\n" + (pattern * (begin // 16))[:begin - 9]
    assert tail.endswith(pattern + b"the tail\n")
    offset = (hole_end - 9) % 16
    assert tail[:-9] == (pattern * (len(tail) // 16 + 2))[offset:offset + len(tail) - 9]
    disk = path.stat().st_blocks * 512
    assert disk <= bound + 64 * 1024
    print(f"1 GiB in {seconds:.2f} s: {size / seconds / MIB:.0f} MiB/s; {disk / MIB:.1f} MiB on disk")
    # The same without a shim, for comparison.
    start = time.monotonic()
    subprocess.run(f"yes 0123456789abcde | head -c {size} | cat > /dev/null", shell=True, check=True)
    print(f"through cat to nowhere: {time.monotonic() - start:.2f} s")


def test_a_small_bound_holds_too(world):
    shim, line = world.shell("seq 1 100000", log_max=10_000)
    world.finish(shim, line)

    state, output = shim.state(), (shim.home / "output").read_bytes()
    whole = b"".join(b"%d\n" % i for i in range(1, 100001))
    begin, end = int(state["hole_begin"]), int(state["hole_end"])
    assert len(output) == len(whole) and output[:begin] == whole[:begin] and output[end:] == whole[end:]
    assert begin == 2500 and 5000 <= len(whole) - end <= 10_000
    assert output[begin:end].count(0) == end - begin


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_neither_holds_up_nor_ends_the_run(world, small_disk):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(512 * 1024))
    script = f"head -c 20000000 /dev/zero | tr '\\0' x; sleep 0.5; rm {filler}; echo after; exit 5"
    shim, line = world.launch(["sh", "-c", script], home=small_disk)

    assert world.finish(shim, line)[:2] == ["exited", "5"]
    output = (small_disk / "output").read_bytes()
    # Wherever something is missing, it says how much.
    note = rb"\n\[interlock: (\d+) bytes of output could not be kept: No space left on device\]\n"
    lost, kept = sum(map(int, re.findall(note, output))), re.sub(note, b"", output)
    assert lost > 0 and kept == b"x" * (20_000_000 - lost) + b"after\n"


def test_what_was_lost_to_a_full_disk_is_said_at_the_end(world, small_disk):
    shim, line = world.launch(["sh", "-c", "head -c 5000000 /dev/zero"], home=small_disk)
    ended = world.finish(shim, line)
    assert ended[:2] == ["exited", "0"] and "bytes of output could not be kept: No space left on device" in ended[2]
    # No part of it stands there that was not counted as kept.
    assert (small_disk / "output").stat().st_size == int(shim.state()["log_end"])


# The server comes and goes.


def test_beats_come_on_time_and_tell_how_long_the_output_is(world):
    shim, line = world.shell("echo hello; sleep 1; exit 0", beat_ms=50)
    world.finish(shim, line)

    # Fewer on a machine that is busy, never more.
    assert 8 <= len(line.beats) <= 26
    assert line.beats[-1][1:] == ["6", "0", "0"]


def test_a_run_goes_on_while_the_server_is_away(world):
    shim, line = world.shell("while [ ! -e go ]; do sleep 0.02; done; echo went", dir=world.directory)
    assert line.hello[5] == "waiting"
    child = shim.state()["child_pid"]
    world.supervisor.close()
    line.close()
    time.sleep(0.5)
    assert process_state(child) in "RSD"

    with Supervisor(world.data) as supervisor:
        line = supervisor.accept()
        assert line.hello[1:3] == [shim.run, str(shim.pid)] and line.hello[5:7] == ["running", child]
        assert line.hello[4] == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        (world.directory / "go").touch()
        assert world.finish(shim, line)[:2] == ["exited", "0"]


def test_the_end_is_said_again_until_the_server_has_taken_note(world):
    shim, line = world.shell("exit 6")
    first = line.expect("ended")
    world.supervisor.close()
    line.close()
    time.sleep(0.3)

    with Supervisor(world.data) as supervisor:
        line = supervisor.accept()
        assert line.hello[5] == "ended" and line.expect("ended") == first
        assert shim.process.poll() is None
        line.send("done", "")
        assert shim.wait() == 6


def test_an_end_that_nobody_heard_is_told_by_the_next_shim(world):
    shim, line = world.shell("exit 6")
    first = line.expect("ended")
    shim.process.kill()
    shim.wait()

    again = world.shim(run=shim.run)
    line = world.supervisor.accept()
    assert line.hello[5] == "ended" and line.expect("ended") == first
    line.send("launch", "arg", "true")
    line.send("done", "")
    assert again.wait() == 6


def test_a_server_that_talks_nonsense_is_left_and_found_again(world):
    shim, line = world.shell("exec sleep 600")
    line.send("sing", "a song")
    line.send("launch", "arg", "echo")
    assert line.silent_about("ended", 0.3)
    line.connection.sendall(b"\xff\xff\xff\x7f and more")

    line = world.supervisor.accept()
    assert line.hello[5] == "running"
    line.send("stop", "")
    world.finish(shim, line)


def test_a_stop_before_the_launch_leaves_nothing_to_start(world):
    shim = world.shim()
    line = world.supervisor.accept()
    line.send("stop", "changed my mind")
    ended = line.expect("ended")
    world.send_launch(shim, line, ["touch", str(world.directory / "started")])
    line.send("done", "")

    assert ended[0] == "not_started" and "changed my mind" in ended[2]
    shim.wait()
    assert not (world.directory / "started").exists()


# Standing still.


def counting(world, **keys):
    """A run whose child counts: by the length of a file, which is never seen half written."""
    shim, line = world.shell("trap 'exit 7' TERM; (while :; do echo; done > count) & wait", dir=world.directory, **keys)

    def count():
        return (world.directory / "count").stat().st_size

    eventually(lambda: (world.directory / "count").exists() and count())
    return shim, line, count


def check_pause_and_resume(world, shim, line, count):
    line.send("pause")
    line.expect("paused")
    before = count()
    time.sleep(0.4)
    assert count() == before
    line.send("resume")
    line.expect("resumed")
    eventually(lambda: count() > before)

    line.send("pause")
    line.expect("paused")
    start = time.monotonic()
    line.send("stop", "")
    assert world.finish(shim, line)[:2] == ["stopped", "7"]
    # It heard the polite word, long before the grace was over.
    assert time.monotonic() - start < 3


def test_a_paused_run_stands_still_goes_on_and_can_be_stopped(world):
    check_pause_and_resume(world, *counting(world))


@pytest.fixture
def cgroup(tmp_path):
    for parent in CGROUPS:
        path = pathlib.Path(parent) / f"interlock-test-{os.getpid()}"
        if (pathlib.Path(parent) / "cgroup.procs").exists() and os.access(parent, os.W_OK):
            with contextlib.suppress(OSError):
                path.mkdir()
                path.rmdir()
                yield path
                assert not path.exists(), "the cgroup is still there"
                return
    pytest.skip("no cgroup of version 2 can be made here")


def test_with_a_cgroup_pause_and_end_reach_everybody_in_it(world, cgroup):
    shim, line, count = counting(world, cgroup=cgroup)
    assert shim.state()["cgroup"] == str(cgroup)
    inside = (cgroup / "cgroup.procs").read_text().split()
    assert shim.state()["child_pid"] in inside and str(shim.pid) not in inside
    check_pause_and_resume(world, shim, line, count)


def test_with_a_cgroup_the_stubborn_are_killed_and_nested_groups_go(world, cgroup):
    shim, line = world.shell(f"trap '' TERM; mkdir {cgroup}/below; {STUBBORN}", cgroup=cgroup, grace_ms=100)
    eventually((cgroup / "below").exists)
    line.send("stop", "")
    assert world.finish(shim, line)[:2] == ["stopped", "9"]


def test_without_the_cgroup_that_was_asked_for_the_run_starts_and_says_so(world):
    shim, line = world.launch(["true"], cgroup="/proc/no-cgroup")
    assert line.expect("started")[2].startswith("no cgroup: cannot make /proc/no-cgroup")
    world.finish(shim, line)


# What the run gets, and what it does not.


def test_the_environment_is_the_one_of_the_launch_and_is_written_nowhere(world):
    secret = "s3cr3t-value-of-the-run"
    options = {"env": {**os.environ, "OF_THE_SHIM": "1"}}
    shim, line = world.launch(["env"], options=options, env=[f"TOKEN={secret}"])
    world.finish(shim, line)

    lines = (shim.home / "output").read_text().splitlines()
    assert sorted(lines) == sorted([shim.mark, f"TOKEN={secret}", f"PATH={os.environ['PATH']}"])
    for path in shim.home.rglob("*"):
        if path.name != "output" and path.is_file():
            assert secret not in path.read_text()


def test_no_descriptor_gets_into_the_run(world):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    script = "import os, time; print(sorted(os.listdir('/proc/self/fd')), flush=True); time.sleep(600)"
    shim, line = world.launch([sys.executable, "-c", script], options={"pass_fds": [write]})
    line.expect("started")
    os.close(write)

    # The fourth is the listing itself.
    eventually(lambda: (shim.home / "output").read_text() == "['0', '1', '2', '3']\n")
    # Nor does the shim keep it: nobody can write to the pipe any more.
    assert os.read(read, 1) == b""
    os.close(read)
    line.send("stop", "")
    world.finish(shim, line)


def test_limits_and_niceness_are_set(world):
    script = "import os, resource as r; print(r.getrlimit(r.RLIMIT_NOFILE), r.getrlimit(r.RLIMIT_CPU), r.getrlimit(r.RLIMIT_CORE), os.nice(0))"
    shim, line = world.launch([sys.executable, "-c", script], limit=["nofile=77", "cpu=1000", "core=0"], nice=5)
    world.finish(shim, line)
    assert (shim.home / "output").read_text() == "(77, 77) (1000, 1000) (0, 0) 5\n"


def test_signals_are_as_a_program_expects_them(world):
    shim, line = world.launch(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])
    world.finish(shim, line)
    assert (shim.home / "output").read_text().split() == ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16]


def test_a_sandboxed_run_writes_only_where_it_may(world):
    for name in ("inside", "allowed", "outside"):
        (world.directory / name).mkdir()
    (world.directory / "outside/file").write_text("kept")
    (world.directory / "one-file").write_text("")
    attempts = ["inside/a", "allowed/b", "one-file", str(world.data / "runs/RUN/tmp/c"), "/dev/null", "outside/d", "outside/file"]
    shim = world.shim()
    line = world.supervisor.accept()
    paths = [str(world.directory / path).replace("RUN", shim.run) for path in attempts]
    script = 'for path; do if echo x > "$path"; then echo yes; else echo no; fi; done 2>/dev/null; ' \
             f"cd {world.directory}/outside; {sys.executable} -c 'import os; os.truncate(\"file\", 0)' || rm file || cat file"
    world.send_launch(shim, line, ["sh", "-c", script, "sh", *paths], sandbox=1, dir=world.directory / "inside",
                      write=[world.directory / "allowed", world.directory / "one-file"])

    ended = world.finish(shim, line)
    if ended[0] == "not_started":
        assert "cannot confine the run to its sandbox" in ended[2]
        pytest.skip(ended[2])
    output = (shim.home / "output").read_text()
    assert output.split()[:7] == ["yes"] * 5 + ["no"] * 2 and "No such file" in output
    assert (world.directory / "outside/file").read_text() == "kept"


# Tells for each directory how much of 8 MiB went in, and why not more.
FILL = """
import os
def fill(directory):
    written = 0
    try:
        with open(directory + "/filled", "wb", buffering=0) as file:
            while written < 8 << 20:
                written += file.write(bytes(1 << 16))
    except OSError as error:
        return written, error.strerror
    return written, "all"
told = [fill(directory) for directory in ("/tmp", "/root", "/var/tmp", "/dev/shm")]
os.remove("/tmp/filled")
print(told + [fill("/dev/shm")])
"""


def in_private_directories(world, level, script, *limits):
    """What a script prints in a sandbox with these limits. Its home is /root."""
    shim, line = world.launch(["/usr/bin/python3", "-I", "-c", script], level=level, port=1, limit=list(limits), env=["HOME=/root"],
                              dir=world.directory)
    ended = world.finish(shim, line)
    if ended[0] == "not_started" and "interlock doctor says what this machine allows" in ended[2]:
        pytest.skip(ended[2])
    return (shim.home / "output").read_text() if ended[0] == "exited" else ended[2]


@pytest.mark.parametrize("level", ["files", "sealed"])
def test_the_private_directories_of_a_run_are_bounded_together(world, level):
    """They are in memory. The run writes 40 MiB at most, so that the machine stays well without the bound, too."""
    free = ast.literal_eval(in_private_directories(world, level, FILL))
    full = ast.literal_eval(in_private_directories(world, level, FILL, "tmp=12582912"))

    assert free == [(8 * MIB, "all")] * 5
    assert full[0] == (8 * MIB, "all")
    assert 3 * MIB < full[1][0] <= 4 * MIB and full[2:4] == [(0, "No space left on device")] * 2, full
    assert full[1][1] == "No space left on device"
    assert 7 * MIB < full[4][0], "what was removed is free again"


@pytest.mark.parametrize("level", ["files", "sealed"])
def test_the_number_of_files_in_private_directories_is_bounded_too(world, level):
    script = """
import os
made = 0
try:
    for number in range(5000):
        os.close(os.open(f"/tmp/{number}", os.O_CREAT | os.O_WRONLY))
        made += 1
except OSError as error:
    print(made, error.strerror)
"""
    made, why = in_private_directories(world, level, script, "tmp=1048576").split(" ", 1)

    assert 200 < int(made) < 400 and why == "No space left on device\n"


def test_without_a_limit_of_their_own_private_directories_have_a_share_of_the_memory(world):
    script = "import os; room = os.statvfs('/tmp'); print(room.f_blocks * room.f_frsize)"
    room = lambda *limits: int(in_private_directories(world, "files", script, *limits))  # noqa: E731
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    assert abs(room() - memory // 8) < MIB
    assert room("memory=268435456") == room("memory=268435456", "tmp=999999999") == 256 * MIB
    assert room("tmp=1") == os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("level", ["off", "guarded"])
def test_a_limit_of_private_directories_is_refused_where_there_are_none(world, level):
    said = in_private_directories(world, level, "", "tmp=1048576")

    assert said == "cannot set the limit tmp: below the sandbox level files a run has no /tmp of its own"


def test_a_sandbox_with_a_place_that_is_not_there_is_not_started(world):
    shim, line = world.launch(["true"], sandbox=1, write="/no/such/place")
    ended = world.finish(shim, line)
    assert ended[0] == "not_started" and "'/no/such/place'" in ended[2]


def test_the_scratch_directory_goes_with_the_run(world):
    (world.directory / "elsewhere").mkdir()
    (world.directory / "elsewhere/file").write_text("kept")
    script = f"cd $T && mkdir -p a/b && touch a/b/c .d && ln -s {world.directory}/elsewhere a/link && chmod 500 a/b a"
    shim = world.shim()
    line = world.supervisor.accept()
    world.send_launch(shim, line, ["sh", "-c", script], env=[f"T={shim.home}/tmp"])

    assert world.finish(shim, line)[:2] == ["exited", "0"]
    assert sorted(os.listdir(shim.home)) == ["lock", "output", "state"]
    assert (world.directory / "elsewhere/file").read_text() == "kept"


# What it costs.


def test_an_idle_shim_is_small_and_starts_fast(world):
    start = time.monotonic()
    shim = world.shim()
    line = world.supervisor.accept()
    hello = time.monotonic() - start
    # A launch that takes room on its way through.
    world.send_launch(shim, line, ["sleep", "600"], env=[f"LARGE_{i}={'x' * 100_000}" for i in range(10)])
    line.expect("started")
    started = time.monotonic() - start
    time.sleep(0.3)

    status = pathlib.Path(f"/proc/{shim.pid}/status").read_text()
    rss = int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])
    print(f"VmRSS {rss} kB, hello after {hello * 1000:.1f} ms, started after {started * 1000:.1f} ms")
    assert rss < 1400
    assert "Threads:\t1\n" in status
    before = pathlib.Path(f"/proc/{shim.pid}/stat").read_text().split()[13:15]
    time.sleep(1)
    after = pathlib.Path(f"/proc/{shim.pid}/stat").read_text().split()[13:15]
    assert sum(map(int, after)) - sum(map(int, before)) <= 2


# ---- the secret ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [[], ["--foreground"]])
def test_the_secret_from_the_pipe_is_shown_and_the_run_does_not_inherit_it(world, flags):
    read, write = os.pipe()
    os.write(write, b"s3cret")
    os.close(write)
    shim = world.shim(*flags, "--secret-fd", str(read), pass_fds=[read])
    os.close(read)
    line = world.supervisor.accept()
    world.send_launch(shim, line, ["sh", "-c", f"test ! -e /proc/self/fd/{read}"])

    ended = world.finish(shim, line)

    assert line.hello[0] == "3" and line.hello[-1] == "s3cret"
    assert ended[:2] == ["exited", "0"] and ended[-2:] == ["s3cret", "exit_code"]
