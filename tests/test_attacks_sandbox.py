"""Runs at each sandbox level, as root and as an ordinary user: the same attempts succeed at level off and fail at others.

What the attempts are is in tests/sandbox_attacks.py.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from interlock_server import eventually
from sandbox_machine import LEVELS, NOBODY, USERS, Machine, kernel_has, reads_disks


@pytest.fixture(scope="module", params=USERS)
def machine(request, binary):
    with Machine(binary, request.param) as machine:
        yield machine


@pytest.fixture(scope="module")
def reached(machine):
    """level: attempt: whether it succeeded."""
    return {level: machine.attack(level) for level in LEVELS}


def test_each_attempt_succeeds_without_a_sandbox(machine, reached):
    never = set() if reads_disks() else {"make a disk", "read a disk"}
    never |= set() if machine.mounted else {"read by a second mount"}
    if machine.options or os.geteuid() != 0:
        never.add("read by a descriptor in /proc")  # The server is not dumpable: only root sees what it has open.
    # What this machine does not have for anybody.
    never |= {name for name, possible in kernel_has().items() if not possible}
    for attempts in reached["off"].values():
        assert [name for name, success in attempts.items() if not success and name not in never] == []


def test_at_guarded_no_attempt_on_the_server_or_another_run_succeeds(reached):
    assert [name for name, success in reached["guarded"]["server"].items() if success] == []


def test_at_guarded_everything_else_is_as_without(reached):
    assert [name for name, success in reached["guarded"]["files"].items() if not success] == []


def test_at_files_no_attempt_on_files_succeeds(reached):
    for kind in ("server", "files"):
        assert [name for name, success in reached["files"][kind].items() if success] == []


def test_at_sealed_no_attempt_succeeds(reached):
    for attempts in reached["sealed"].values():
        assert [name for name, success in attempts.items() if success] == []


def test_below_sealed_the_network_is_not_bounded(reached):
    for level in ("guarded", "files"):
        for name in ("reach tcp", "reach tcp over IPv6", "send a datagram", "see connections"):
            assert reached[level]["network"].get(name, True), (level, name)


@pytest.mark.parametrize("level", LEVELS)
def test_a_run_has_its_scratch_directory_its_workspace_and_its_key(machine, level):
    script = """
        echo mine > "$TMPDIR/file" && cat "$TMPDIR/file" && echo done > result
        python3 -c 'import os, urllib.request as u
print(u.urlopen(u.Request(os.environ["INTERLOCK_URL"] + "/v1/keys/self",
                headers={"authorization": "Bearer " + os.environ["INTERLOCK_KEY"]})).status)'"""
    assert machine.run(level, "sh", "-c", script).split() == ["mine", "200"]
    assert (machine.home / "work/result").read_text() == "done\n"


@pytest.mark.parametrize("level", LEVELS)
def test_ordinary_programs_work(machine, level):
    script = """set -e
        export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        rm -rf repo && git init -q -b main repo && cd repo && echo hi > a && git add a && git commit -qm one && git log --oneline
        printf 'all:\\n\\t@echo made\\n' > Makefile && make -s
        python3 -c 'import tempfile, multiprocessing as m; tempfile.TemporaryFile(); m.Lock(); print("python")'
        if command -v node > /dev/null; then node -e 'console.log("node")'; fi
        if command -v npm > /dev/null; then npm --offline init -y > /dev/null && echo npm; fi
        ps -o comm= | grep -c sh > /dev/null || ! command -v ps > /dev/null
        bash -c 'cat <(echo substituted)'; id -u; echo x > /dev/null; echo end"""
    words = machine.run(level, "sh", "-c", script).split()
    assert {"one", "made", "python", "substituted", "end"} <= set(words), words


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("script, code", [("exit 7", 7), ("kill -9 $$", 137), ("sleep 100 & exit 3", 3)])
def test_the_end_of_a_run_is_that_of_its_command(machine, level, script, code):
    began = time.monotonic()
    command = [machine.binary, "run", f"--sandbox={level}", "--quiet", "--workspace", str(machine.home / "work"), "--", "sh", "-c",
               script]
    ended = subprocess.run(command, env=machine.environment, cwd=machine.home, stdin=subprocess.DEVNULL, timeout=60,
                           **machine.options)
    assert ended.returncode == code
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_of_a_run_is_left_after_a_stop(machine, level):
    run = machine.cli("run", "--detach", "--quiet", f"--sandbox={level}", "--workspace", machine.home / "work", "--", "sh", "-c",
                      "echo up; (setsid sleep 7654 &) ; sleep 7655").strip()
    log = machine.data / "runs" / run / "output"
    eventually(lambda: log.exists() and log.read_text())
    machine.cli("runs", "stop", run)
    eventually(lambda: json.loads(machine.cli("runs", "show", run, "--json"))["status"] == "cancelled")
    assert subprocess.run(["pgrep", "-f", "sleep 765[45]"], stdout=subprocess.DEVNULL, check=False).returncode == 1


def test_a_run_says_its_level(machine):
    for words, level in (([], "guarded"), (["--sandbox"], "files"), (["--sandbox", "off"], "off"), (["--sandbox=guarded"], "guarded"),
                         (["--sandbox", "sealed"], "sealed")):
        run = machine.cli("run", "--detach", "--quiet", *words, "--workspace", machine.home / "work", "--", "true").strip()
        show = lambda: json.loads(machine.cli("runs", "show", run, "--json"))  # noqa: E731
        eventually(lambda: show()["status"] == "succeeded")
        assert show()["sandbox"] == level
    assert "sandbox" in machine.cli("runs", "show", run)
    machine.cli("run", "--sandbox=closed", "--", "true", check=False)
    assert "--sandbox is off, guarded, files or sealed, not 'closed'" in machine.said


def test_files_has_declared_paths_and_an_empty_home(machine):
    home = machine.home
    script = f"""ls -A {home} | sort; cat {home}/books/file; echo; echo y > {home}/other/new && echo written
        echo n > {home}/books/file || echo refused; ls -A /tmp | wc -l; echo z > {home}/private && echo private"""
    seen = machine.cli("run", "--sandbox=files", "--workspace", home / "work", "--writable", home / "other", "--readable",
                       home / "books", "--", "sh", "-c", script).splitlines()
    assert seen == ["books", "other", "state", "work", "of home", "written", "refused", "0", "private"]
    assert (home / "other/new").exists() and not (home / "private").exists()


def test_a_minimum_refuses_less_and_raises_the_default(binary, tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "INTERLOCK_DATA": str(tmp_path / "data")}

    def cli(*words):
        return subprocess.run([binary, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    assert cli("up", "--detach", "--listen", "127.0.0.1:0", "--sandbox-minimum", "files").returncode == 0
    try:
        refused = cli("run", "--sandbox=guarded", "--no-workspace", "--", "true")
        assert refused.returncode != 0 and "minimum is files" in refused.stderr, refused
        run = cli("run", "--detach", "--quiet", "--no-workspace", "--", "true").stdout.strip()
        show = lambda: json.loads(cli("runs", "show", run, "--json").stdout)  # noqa: E731
        eventually(lambda: show()["status"] == "succeeded", why=lambda: str(show()))
        assert show()["sandbox"] == "files"
        assert "sandbox" in cli("doctor").stdout
    finally:
        cli("down")


@pytest.mark.parametrize("parent", ["/tmp", "/var/tmp"])
def test_at_files_a_home_in_a_directory_of_temporary_files_is_an_empty_home(binary, parent):
    home = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sandbox-", dir=parent))
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "INTERLOCK_DATA": str(home / "data")}

    def cli(*words):
        return subprocess.run([binary, *words], env=environment, cwd=home, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    (home / "work").mkdir()
    (home / "login").write_text("secret")
    assert cli("up", "--detach", "--listen", "127.0.0.1:0").returncode == 0
    try:
        done = cli("run", "--quiet", "--sandbox=files", "--workspace", str(home / "work"), "--", "sh", "-c",
                   "cat ~/login; echo x > ~/new && ls ~ && touch kept")
        assert done.returncode == 0 and "new" in done.stdout and "login" not in done.stdout, done
        assert (home / "work/kept").exists() and not (home / "new").exists()
    finally:
        cli("down")
        shutil.rmtree(home)


def test_where_the_kernel_refuses_only_the_default_falls_back_and_says_so(binary, tmp_path):
    """A limit of 0 user namespaces for one user, as some distributions set it for all."""
    if os.geteuid() != 0:
        pytest.skip("only root limits namespaces")
    home = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sandbox-", dir="/var/tmp"))
    os.chown(home, NOBODY, NOBODY)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "INTERLOCK_DATA": str(home / "data")}
    # In a user namespace of its own the limit can be set for all below it.
    script = f"""echo 0 > /proc/sys/user/max_mnt_namespaces
        exec setpriv --bounding-set -all "$@" """

    def cli(*words):
        return subprocess.run([binary, *words], env=environment, cwd=home, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, user=NOBODY, group=NOBODY, extra_groups=[])

    up = subprocess.run(["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", binary, "up", "--detach", "--listen",
                         "127.0.0.1:0"], env=environment, cwd=home, capture_output=True, text=True, timeout=60, user=NOBODY,
                        group=NOBODY, extra_groups=[])
    assert up.returncode == 0, up
    try:
        run = cli("run", "--detach", "--quiet", "--no-workspace", "--", "true").stdout.strip()
        show = lambda: json.loads(cli("runs", "show", run, "--json").stdout)  # noqa: E731
        eventually(lambda: show()["status"] == "succeeded", why=lambda: str(show()))
        assert show()["sandbox"].startswith("off: no sandbox, so the run can do what its user can"), show()
        here = cli("run", "--no-workspace", "--", "true")
        assert here.returncode == 0 and here.stderr.count("no sandbox, so the run can do what its user can") == 2, here
        asked = cli("run", "--sandbox=guarded", "--no-workspace", "--", "true")
        assert asked.returncode != 0 and "does not allow the sandbox level guarded" in asked.stderr, asked
        assert "runs have all rights of their user" in cli("doctor").stdout
    finally:
        cli("down")
        shutil.rmtree(home)


# What a container is to a server: one command line that becomes the server with fewer rights.
MASKED = """mount --make-rprivate / && mount -t proc proc /proc && mount --bind /dev/null /proc/keys &&
    mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && """
FILTERED = f"{sys.executable} {pathlib.Path(__file__).with_name('seccomp_of_containers.py')} "
FEW_CAPABILITIES = """setpriv --bounding-set -all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,
    +setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write """.replace("\n    ", "")
AS_NOBODY = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --bounding-set -all "
CONTAINERS = {
    "root with the default filter": MASKED + "exec " + FILTERED + FEW_CAPABILITIES,
    "a user with the default filter": MASKED + "exec " + FILTERED + AS_NOBODY,
    "a user and a masked /proc": MASKED + "exec " + AS_NOBODY,
    "a user in a chroot": "mount --make-rprivate / && mount -t proc proc /proc && mkdir $0 && mount --rbind / $0 && exec " + AS_NOBODY.replace(
        "setpriv", "chroot $0 setpriv"),
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS.keys())
def test_in_a_container_only_the_default_falls_back_and_nothing_hangs_or_stays(binary, tmp_path, container):
    if os.geteuid() != 0 or os.uname().machine != "x86_64":
        pytest.skip("only root makes containers, and the filter is for x86-64")
    home = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sandbox-", dir="/var/tmp"))
    home.chmod(0o777)
    script = home / "script"
    script.write_text("""export HOME=$(mktemp -d $2/XXXX); export INTERLOCK_DATA=$HOME/data; unset INTERLOCK_KEY INTERLOCK_URL; cd $HOME
        said() { timeout 20 "$@" 2>&1 </dev/null; echo "code $?"; }
        said $1 up --detach --listen 127.0.0.1:0; said $1 doctor; said $1 run --no-workspace -- echo done
        for level in guarded files sealed; do echo "at $level"; said $1 run --sandbox=$level --no-workspace -- echo done; done
        said $1 sandbox set minimum=guarded >/dev/null; echo "at minimum"; said $1 run --no-workspace -- echo done
        said $1 down; sleep 0.3; echo "left: $(grep -lsE 'interlock-(shim|init)' /proc/[0-9]*/comm)"; """)
    try:
        begin = time.monotonic()
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                               container + f'sh {script} {binary} {home}', str(home / "top")],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        took = time.monotonic() - begin
    finally:
        shutil.rmtree(home)
    before, *levels = done.stdout.split("\nat ")
    assert before.count("code 0") == 3 and "\ndone\n" in before, done
    assert before.count("no sandbox, so the run can do what its user can") == 2 and "runs have all rights of their user" in before, done
    for said, level in zip(levels, ["guarded", "files", "sealed", "guarded"], strict=True):
        assert f"this machine does not allow the sandbox level {level}" in said and "code 1" in said and "\ndone\n" not in said, done
    assert done.stdout.endswith("left: \n") and took < 60, (took, done)


def test_at_guarded_root_does_not_leave_the_root_directory_of_its_server(binary):
    """Who may change the root directory leaves one that was made with chroot, and finds the data at another path."""
    if os.geteuid() != 0:
        pytest.skip("only root changes the root directory")
    home = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sandbox-", dir="/var/tmp"))
    escape = """import os
os.mkdir("x")
inside = os.open(".", os.O_RDONLY)
try:
    os.chroot("x")
    os.fchdir(inside)
    for _ in range(50): os.chdir("..")
    os.chroot(".")
except OSError: print("refused")
print("data:", *os.listdir(os.environ["DATA"]))
"""
    (home / "escape.py").write_text(escape)
    (home / "top").mkdir()
    (home / "w").mkdir()
    script = f"""export HOME={home} INTERLOCK_DATA={home}/data; unset INTERLOCK_KEY INTERLOCK_URL; cd {home}
        {binary} up --detach --listen 127.0.0.1:0 >/dev/null
        for level in off guarded; do
            {binary} run --quiet --sandbox=$level --workspace {home}/w --env DATA={home}/data -- {sys.executable} {home}/escape.py
            rmdir {home}/w/x
        done
        {binary} down >/dev/null"""
    try:
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
                               f"mount --make-rprivate / && mount --rbind / {home}/top && mount -t proc proc {home}/top/proc && "
                               f"exec chroot {home}/top sh -c '{script}'"],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        off, guarded = done.stdout.split("data:")[1:]
    finally:
        shutil.rmtree(home)
    assert "interlock.db" in off and guarded.split() == ["runs"], done


NAMES_OF_SOCKETS = """import os, socket, sys, time
os.chdir(sys.argv[1])
here = os.open(".", os.O_PATH)
names = {"whole": "$/whole", "relative": "relative", "descriptor": f"/proc/self/fd/{here}/descriptor", "blank": "$/a blank",
         "lines": "$/two\\nlines", "moved": "$/before", "linked": "$/linked"}
sockets = []
for name in names.values():
    sockets.append(socket.socket(socket.AF_UNIX))
    sockets[-1].bind(name.replace("$", os.getcwd()))
    sockets[-1].listen()
os.rename("before", "moved")
os.link("linked", "second name")
print("ready", flush=True)
time.sleep(60)
"""


def test_a_sealed_run_connects_to_no_socket_by_whatever_name_it_was_bound(machine):
    directory = pathlib.Path(tempfile.mkdtemp(dir=machine.outside))
    if machine.options:
        os.chown(directory, NOBODY, NOBODY)
    directory.chmod(0o755)
    connects = f"""import os, socket
os.chdir("{directory}")
def reached(name):
    try: return socket.socket(socket.AF_UNIX).connect(name) is None
    except OSError: return False
print(*[name for name in sorted(os.listdir()) if reached(name)], sep="; ")
"""
    listener = subprocess.Popen([sys.executable, "-c", NAMES_OF_SOCKETS, directory], stdout=subprocess.PIPE, text=True,
                                **machine.options)
    try:
        assert listener.stdout.readline() == "ready\n"
        found = {level: machine.run(level, sys.executable, "-c", connects).strip() for level in ("off", "sealed")}
    finally:
        listener.kill()
        listener.wait()
    assert len(found["off"].split("; ")) == 8 and found["sealed"] == "", found


@pytest.mark.parametrize("level", ["guarded", "files"])
def test_a_workspace_around_the_data_does_not_bring_it_back(machine, level):
    script = f"test ! -e {machine.data}/admin.key && ls {machine.data} && echo x > $TMPDIR/x && echo mine"
    found = machine.cli("run", f"--sandbox={level}", "--workspace", machine.data.parent, "--", "sh", "-c", script).split()
    assert found == ["runs", "mine"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_run_in_a_worktree_commits(machine, level):
    repository = machine.home / f"repository-{level}"
    git = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(f"git init -q -b main {repository} && cd {repository} && echo hi > a && git add a && git commit -qm one",
                   shell=True, check=True, env={**machine.environment, **git}, **machine.options)
    words = [f"--env={name}={value}" for name, value in git.items()]
    said = machine.cli("run", "--isolate", f"--sandbox={level}", "--workspace", repository, *words, "--", "sh", "-c",
                       "echo more >> a && git commit -qam two && git log --format=%s")
    assert said.split() == ["two", "one"]
    machine.cli("run", "--isolate", f"--sandbox={level}", "--workspace", repository, *words, "--", "sh", "-c",
                f"git config filter.x.clean evil; echo evil > {repository}/.git/hooks/pre-commit; "
                f"mv {repository}/.git/hooks {repository}/.git/moved", check=False)
    changed = "evil" in (repository / ".git/config").read_text(), not (repository / ".git/hooks").exists()
    assert changed == ((level in ("off", "guarded")),) * 2


def test_a_socket_of_the_api_outside_of_the_data_is_not_there(binary, tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "INTERLOCK_DATA": str(tmp_path / "data"),
                   "INTERLOCK_SOCKET": str(tmp_path / "socket")}

    def cli(*words):
        return subprocess.run([binary, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    connect = f"import socket; s = socket.socket(socket.AF_UNIX); print(s.connect_ex({str(tmp_path / 'socket')!r}))"
    assert cli("up", "--detach", "--listen", "127.0.0.1:0").returncode == 0
    try:
        reached = {level: cli("run", f"--sandbox={level}", "--no-workspace", "--", sys.executable, "-c", connect).stdout.strip()
                   for level in ("off", "guarded")}
        assert reached["off"] == "0" and reached["guarded"] not in ("", "0"), reached
    finally:
        cli("down")


@pytest.mark.parametrize("level", LEVELS)
def test_small_limits_are_the_runs_and_not_of_its_start(machine, level):
    words = machine.cli("run", f"--sandbox={level}", "--limit", "nofile=9", "--workspace", machine.home / "work", "--", "sh", "-c",
                        "ulimit -n")
    assert words.split() == ["9"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_fork_bomb_is_bounded_by_a_limit(machine, level):
    """Within an outer limit, should the inner one not hold."""
    script = """import os, sys, time
count = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        count += 1
    except OSError:
        break
print(count, flush=True)
os.kill(-os.getpgrp(), 9)"""
    run = lambda *words: machine.cli("run", f"--sandbox={level}", "--quiet", *words, "--workspace", machine.home / "work", "--",  # noqa: E731
                                     "/usr/bin/python3", "-I", "-c", script, check=False)
    assert run() == "300\n", machine.said
    bounded = run("--limit", "pids=40")
    if machine.options or os.geteuid() != 0:
        # At off the user's other processes count, too.
        assert bounded and int(bounded) <= 40, (bounded, machine.said)
    else:
        assert "no control group of version 2 with pids.max" in machine.said or int(bounded) <= 40, (bounded, machine.said)
    run("--limit", "cpu_percent=50")
    assert "cannot set the limit cpu_percent=50: there is no control group" in machine.said or machine.said == ""


@pytest.mark.parametrize("level", ["files", "sealed"])
def test_a_run_does_not_fill_the_memory_with_its_private_directories(machine, level):
    script = "for directory in /tmp /var/tmp /dev/shm $HOME; do head -c 8000000 /dev/zero > $directory/much; stat -c %s $directory/much; done"
    run = lambda *limits: machine.cli("run", f"--sandbox={level}", *limits, "--workspace", machine.home / "work", "--",  # noqa: E731
                                      "sh", "-c", script, check=False)
    assert run().split() == ["8000000"] * 4
    assert sum(map(int, run("--limit", "tmp=12582912").split())) <= 12582912
    assert "No space left on device" in machine.said


def test_a_run_does_not_fill_a_disk_that_it_only_reads(machine):
    if os.geteuid() != 0:
        pytest.skip("only root makes a small disk")
    disk = machine.outside / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=1777", "tmpfs", disk], check=True)
    try:
        script = f"head -c 8000000 /dev/zero > {disk}/$0; stat -c %s {disk}/$0"
        written = {level: machine.run(level, "sh", "-c", script, level, check=False).strip() for level in LEVELS}
        for level in ("off", "guarded"):
            (disk / level).unlink()
    finally:
        subprocess.run(["umount", disk], check=True)
    assert int(written["off"]) > 3_000_000 and written["files"] == written["sealed"] == "", written


def test_a_server_that_is_killed_while_it_tries_the_levels_leaves_no_process(binary, tmp_path):
    """The first process of a namespace has no number for its parent, and waits for ever once that is gone unseen."""
    def tries():
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_text()
            except OSError:
                continue
            if "--probe" in words and str(tmp_path) in words:
                found.append(int(process.name))
        return found

    for number in range(40):
        server = subprocess.Popen([binary, "up", "--listen", "127.0.0.1:0", "--data-dir", tmp_path / str(number)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while not tries() and time.monotonic() < until:
            pass
        time.sleep(number * 0.0001)
        server.kill()
        server.wait()
    try:
        eventually(lambda: not tries())
    finally:
        for left in tries():
            os.kill(left, 9)
