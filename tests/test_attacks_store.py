"""What may not happen to a store, a data directory and the keys in it, by other programs and people."""

import contextlib
import json
import os
import pathlib
import socket
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time

import pytest

from interlock_server import ON_POSTGRES, Server, eventually

embedded_only = pytest.mark.skipif(ON_POSTGRES, reason="of the embedded store")


def run(binary, *arguments, data, timeout=30, **environment):
    """The command line with a data directory, and nothing else that could lead it to a server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    return subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env={**kept, "INTERLOCK_DATA": str(data), **environment})


def second_server(binary, data):
    return run(binary, "up", "--listen", "127.0.0.1:0", data=data, timeout=10)


# ---- other programs -----------------------------------------------------------------------------------------------

@embedded_only
def test_no_other_program_writes_to_the_database_of_a_live_server(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        budget = server.admin.budget("1.00")
        agent = server.admin.agent()
        path = server.data / "interlock.db"
        for cost in ("0.10", "0.20"):
            server.admin.post("/v1/charges", {"agent": agent, "cost": cost}).ok(201)
            for sql in ("update budgets set limit_units = 5000000000", "delete from feed_pages", "begin immediate"):
                with sqlite3.connect(path, timeout=0.1) as other, pytest.raises(sqlite3.OperationalError, match="lock"):
                    other.execute(sql)
                other.close()
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as reader:
            assert reader.execute("select count(*) from budgets").fetchone() == (1,)
        reader.close()
        server.admin.post("/v1/charges", {"agent": agent, "cost": "0.90"}).refused(402, "budget_exceeded")
        assert server.admin.get(f"/v1/budgets/{budget}").ok(200)["limit"] == "1.00"
        server.verify()


@embedded_only
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_nothing_is_acknowledged_while_a_file_of_the_store_is_not_in_its_place(binary, tmp_path, ending):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        charge = {"agent": agent, "cost": "0.10"}
        path = server.data / f"interlock.db{ending}"
        path.rename(tmp_path / "aside")
        server.admin.post("/v1/charges", charge, idempotency="one").refused(503, "not_committed")

        (tmp_path / "aside").rename(path)
        assert eventually(lambda: server.admin.post("/v1/charges", charge, idempotency="one").status == 201)
        server.restart()
        assert server.admin.post("/v1/charges", charge, idempotency="one").ok(200, 201)["repeated"]
        server.verify()


def test_a_removed_lock_file_lets_no_second_server_in(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        for name in ("interlock.lock", "server.json"):
            note = (server.data / "server.json").read_bytes()
            (server.data / name).unlink()
            refused = second_server(binary, server.data)
            assert refused.returncode == 1 and "in use" in refused.stderr, refused
            (server.data / "server.json").write_bytes(note)
        done = run(binary, "run", "--quiet", "--no-workspace", "--", "echo", "works", data=server.data)
        assert done.stdout == "works\n", done


@embedded_only
def test_a_store_under_two_names_is_served_once(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        for name, link in (("hard", os.link), ("soft", os.symlink)):
            other = tmp_path / name
            other.mkdir(mode=0o700)
            link(server.data / "interlock.db", other / "interlock.db")
            refused = second_server(binary, other)
            assert refused.returncode == 1 and "interlock.db" in refused.stderr, refused
            (other / "interlock.db").unlink()
        server.admin.agent()


# ---- other users --------------------------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


@pytest.fixture
def stopped(binary, tmp_path):
    """A server that ran and ended, with every kind of secret in its data directory."""
    with Server(binary, tmp_path) as server:
        server.admin.put("/v1/secrets/provider", {"value": "sk-1"}).ok()
        server.terminate()
        yield server


@needs_root
def test_a_data_directory_of_another_user_is_refused(binary, tmp_path):
    data = tmp_path / "theirs"
    data.mkdir(mode=0o700)
    os.chown(data, 1234, 1234)
    refused = second_server(binary, data)
    assert refused.returncode == 1, refused
    assert f"the data directory {data} belongs to user 1234, but this is user 0" in refused.stderr
    assert list(data.iterdir()) == []


def keep_admin_key(server):
    """As versions before this one left it behind."""
    (server.data / "admin.key").write_text(server.admin_key + "\n")
    (server.data / "admin.key").chmod(0o600)


@needs_root
@pytest.mark.parametrize("name", ["admin.key", "secrets.key", "run.secret", "interlock.lock", "server.json"])
def test_a_file_of_another_user_in_the_data_directory_is_refused(binary, stopped, name):
    (stopped.data / name).touch()
    os.chown(stopped.data / name, 1234, 1234)
    refused = second_server(binary, stopped.data)
    assert refused.returncode == 1 and f"{name} belongs to user 1234" in refused.stderr, refused


@pytest.mark.parametrize("name, mode, why", [
    ("admin.key", 0o644, "read"), ("secrets.key", 0o640, "read"), ("run.secret", 0o604, "read"),
    ("admin.key", 0o620, "write"), ("run.secret", 0o602, "write"), (".", 0o770, "write"), (".", 0o1777, "write")])
def test_what_others_could_read_or_change_is_refused_until_it_is_closed(binary, stopped, name, mode, why):
    path = stopped.data / name
    if name == "admin.key":
        keep_admin_key(stopped)
    before = path.stat().st_mode
    path.chmod(mode)
    refused = second_server(binary, stopped.data)
    assert refused.returncode == 1, refused
    assert f"other users can {why}" in refused.stderr and f"(mode {mode:04o})" in refused.stderr, refused
    assert "chmod" in refused.stderr

    path.chmod(before)
    stopped.start()


@pytest.mark.parametrize("name", ["admin.key", "secrets.key", "run.secret"])
def test_a_secret_that_is_a_link_is_refused(binary, stopped, tmp_path, name):
    if name == "admin.key":
        keep_admin_key(stopped)
    (stopped.data / name).rename(tmp_path / "elsewhere")
    (stopped.data / name).symlink_to(tmp_path / "elsewhere")
    refused = second_server(binary, stopped.data)
    assert refused.returncode == 1 and f"{name} is not a regular file" in refused.stderr, refused


def test_an_open_directory_that_is_empty_or_only_readable_is_closed(binary, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)
    with Server(binary, tmp_path) as server:
        assert data.stat().st_mode & 0o777 == 0o700
        server.terminate()
        data.chmod(0o755)
        server.start()
        assert data.stat().st_mode & 0o777 == 0o700


# ---- an older store in the place of the newer one ------------------------------------------------------------------

def charge(server, agent, idempotency):
    return server.admin.post("/v1/charges", {"agent": agent, "cost": "0.10"}, idempotency=idempotency).ok(200, 201)


@embedded_only
@pytest.mark.parametrize("how", ["backup", "nothing", "another"])
def test_an_older_or_other_store_is_refused_until_a_person_accepts_it(binary, tmp_path, how):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        made = server.admin.post("/v1/backup", {"to": str(tmp_path / "backup.db")}).ok(201)
        for number in range(3):
            charge(server, agent, f"k{number}")
        head = server.admin.get("/v1/status").ok(200)["head"]
        server.kill9()
        for path in server.data.glob("interlock.db*"):
            path.unlink()
        if how == "backup":
            (server.data / "interlock.db").write_bytes((tmp_path / "backup.db").read_bytes())
        if how == "another":
            with Server(binary, tmp_path / "other", started=False) as other:
                other.directory.mkdir()
                other.start()
                charge(other, other.admin.agent(), "k0")
                other.terminate()
                (server.data / "interlock.db").write_bytes((other.data / "interlock.db").read_bytes())

        for _ in range(2):
            refused = second_server(binary, server.data)
            assert refused.returncode == 1, refused
            assert "history went backwards" in refused.stderr and "interlock accept-history" in refused.stderr, refused
        assert (how == "nothing") == (not (server.data / "interlock.db").exists())
        if how == "backup":
            lost = run(binary, "verify", "--head", head, data=server.data)
            assert lost.returncode == 1 and f"lacks the head {head}" in lost.stdout, lost
            unasked = run(binary, "verify", "--data-dir", server.data, data=server.data)
            assert unasked.returncode == 1 and "was committed with hash" in unasked.stdout, unasked

        asked = run(binary, "accept-history", data=server.data)
        assert asked.returncode == 1 and f"event {head.split(':')[0]}" in asked.stdout, asked
        assert run(binary, "accept-history", "--yes", data=server.data).returncode == 0
        server.start()
        server.restart()
        if how == "backup":
            assert run(binary, "verify", "--head", made["head"], data=server.data).returncode == 0
            assert charge(server, agent, "k0")["repeated"] is False
        server.verify()


@embedded_only
@pytest.mark.parametrize("left", ["whole", "none", "empty", "zeros", "older", "torn"])
def test_what_is_remembered_may_lag_behind_the_store_and_raises_no_alarm(binary, tmp_path, left):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        memory = server.data / "store.head"
        older = memory.read_bytes()
        charge(server, agent, "k0")
        server.kill9()
        whole = memory.read_bytes()
        assert whole != older
        memory.write_bytes({"whole": whole, "none": b"", "empty": b"", "zeros": bytes(len(whole)), "older": older,
                            "torn": whole[:-40]}[left])
        if left == "none":
            memory.unlink()

        server.start()
        assert charge(server, agent, "k0")["repeated"]
        charge(server, agent, "k1")
        server.kill9()
        assert memory.read_bytes().count(b"\norg 1 ") == 1
        server.start()
        server.verify()


def test_a_follower_past_the_head_is_told_where_the_feed_ends(server):
    head = server.admin.get("/v1/events", limit=1).ok(200)["head"]
    assert server.admin.get("/v1/events", after=head).ok(200)["items"] == []
    for headers in ({}, {"Accept": "text/event-stream"}, {"Accept": "text/event-stream", "Last-Event-ID": "5000000"}):
        refused = server.admin.request("GET", "/v1/events?after=5000000", headers=headers)
        assert refused.refused(409, "past_the_head")["head"] == head
        assert f"ends at event {head}" in refused.problem()["detail"]


@embedded_only
def test_status_backup_and_verify_print_the_same_head_and_verify_compares_it(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        server.admin.agent()
        head = server.admin.get("/v1/status").ok(200)["head"]
        number, digest = head.split(":")
        assert int(number) > 0 and len(digest) == 64
        assert server.admin.post("/v1/backup", {"to": str(tmp_path / "copy.db")}).ok(201)["head"] == head
        assert server.admin.get("/v1/verify").ok(200)["heads"] == [head]
        for command in (["verify"], ["verify", "--data-dir", server.data], ["status"]):
            assert head in run(binary, *command, data=server.data).stdout, command

        server.admin.agent()
        assert run(binary, "verify", "--head", head, data=server.data).returncode == 0, "an earlier one is in it"
        for wrong in (f"{number}:{digest[::-1]}", f"{int(number) + 99}:{digest}", f"7/{head}"):
            found = run(binary, "verify", "--head", wrong, data=server.data)
            assert found.returncode == 1 and "lacks the head" in found.stdout, found
        for nonsense in ("x", number, f"{number}:", f"{number}:zz", f"-1:{digest}", f"a/{head}"):
            found = run(binary, "verify", "--head", nonsense, data=server.data)
            assert found.returncode == 2 and "N:HASH" in found.stderr, found


# ---- a clock that was wrong ---------------------------------------------------------------------------------------

DAY = 24 * 3600 * 1_000_000


def store_was_written_ahead(server, by):
    """As if the clock had been ahead by so much when the last event was stored."""
    server.terminate()
    with sqlite3.connect(server.data / "interlock.db") as store:
        store.execute("update feed_pages set at = at + ? where last_seq = (select max(last_seq) from feed_pages)",
                      (by,))
    store.close()


@embedded_only
def test_a_store_from_the_future_is_refused_until_a_person_accepts_its_time(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        store_was_written_ahead(server, 15 * DAY)
        refused = second_server(binary, server.data)
        assert refused.returncode == 1, refused
        assert "the newest event in the store is dated" in refused.stderr and "--accept-clock" in refused.stderr

        server.options = ("--accept-clock",)
        server.start()
        clock, = [item for item in server.admin.get("/v1/doctor").ok(200)["items"] if item["what"] == "clock"]
        assert clock["level"] == "warn" and "ahead of this machine's clock" in clock["detail"], clock
        server.admin.put("/v1/schedules/s", {"agent": agent, "every": "1s", "overlap": "allow"}).ok()
        eventually(lambda: server.admin.get("/v1/schedules/s").ok(200)["fired"] > 0)


def test_a_clock_that_jumped_removes_no_logs(binary, tmp_path):
    """A log that looks old because the clock leapt while the server was off is kept; one that is old is removed."""
    with Server(binary, tmp_path) as server:
        server.admin.agent()
        server.terminate()
        for name, age in (("run_recent", 16 * 86400), ("run_old", 60 * 86400)):
            (server.data / "runs" / name).mkdir()
            os.utime(server.data / "runs" / name, (time.time() - age,) * 2)
        if ON_POSTGRES:
            pytest.skip("the stored times are the database's")
        with sqlite3.connect(server.data / "interlock.db") as store:
            store.execute("update feed_pages set at = at - ?", (15 * DAY,))
        store.close()
        server.start()
        if float(pathlib.Path("/proc/uptime").read_text().split()[0]) > 3700:
            eventually(lambda: not (server.data / "runs/run_old").exists())
        assert (server.data / "runs/run_recent").exists()


# ---- keys for strangers -------------------------------------------------------------------------------------------

class Stranger:
    """Listens where a server used to, and keeps what it is told."""

    def __init__(self, address, family=socket.AF_INET):
        self.socket = socket.socket(family)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(address)
        self.socket.listen()
        self.heard = b""
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        with contextlib.suppress(OSError):
            while True:
                visitor, _ = self.socket.accept()
                visitor.settimeout(2)
                with contextlib.suppress(OSError):
                    self.heard += visitor.recv(65536)
                    visitor.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                visitor.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(5)


@pytest.mark.parametrize("named", [False, True])
def test_the_admin_key_never_goes_to_the_port_of_a_dead_server(binary, tmp_path, named):
    with Server(binary, tmp_path) as server:
        key = server.admin.key.encode()
        server.kill9()
        with Stranger(("127.0.0.1", server.port)) as stranger:
            url = ["--url", f"http://127.0.0.1:{server.port}"] if named else []
            for command in (["status"], ["agents", "ls"], ["doctor"], ["--data-dir", server.data, "budgets", "ls"]):
                done = run(binary, *url, *command, data=server.data)
                assert done.returncode != 0, done
            run(binary, "status", data=tmp_path / "none", INTERLOCK_URL=f"http://127.0.0.1:{server.port}",
                INTERLOCK_KEY="ilk_given")
        assert key not in stranger.heard
        assert b"ilk_given" in stranger.heard, "a key that was given for the address goes there"


def test_an_address_gets_the_key_that_was_given_for_it_and_no_other(binary, tmp_path):
    with Server(binary, tmp_path) as server, Stranger(("127.0.0.1", 0)) as stranger:
        url = "http://127.0.0.1:%d" % stranger.socket.getsockname()[1]
        run(binary, "--url", url, "--data-dir", server.data, "status", data=server.data)
        run(binary, "status", data=server.data, INTERLOCK_URL=url)
        assert b"GET /v1/status" in stranger.heard and b"ilk_" not in stranger.heard
        run(binary, "--url", url, "--key", "ilk_given", "status", data=server.data)
        assert b"ilk_given" in stranger.heard
        same = run(binary, "--url", f"http://127.0.0.1:{server.port}", "status", data=server.data)
        assert same.returncode == 0, same


@needs_root
def test_a_socket_of_another_user_is_told_nothing(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        key = server.admin.key.encode()
        path = str(tmp_path / "theirs.sock")
        with Stranger(path, socket.AF_UNIX) as stranger:
            # The socket is root's, the data directory another user's: as if a stranger had put it there.
            server.terminate()
            for file in (server.data, *server.data.rglob("*")):
                os.chown(file, 1234, 1234)
            (server.data / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 1,
                                                                 "started": "1", "socket": path}))
            done = run(binary, "status", data=server.data)
            assert done.returncode == 5 and "nothing was sent" in done.stderr, done
            assert key not in stranger.heard and b"GET" not in stranger.heard


ASK_AS_USER = """
import os, socket, sys
os.setgid(1234)
os.setuid(int(sys.argv[2]))
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect(sys.argv[1])
s.sendall(b"GET /healthz HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n")
print(s.recv(100)[:12])
"""


@needs_root
def test_other_users_cannot_speak_to_the_socket(binary, tmp_path):
    """The modes of a socket outside of the data let them connect. They are refused by who they are."""
    with tempfile.TemporaryDirectory(prefix="interlock-open-") as where, \
            Server(binary, tmp_path, "--socket", where + "/open.sock") as server:
        path = pathlib.Path(where) / "open.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        os.chmod(where, 0o755)
        asked = [subprocess.run(["/usr/bin/python3", "-c", ASK_AS_USER, path, user], capture_output=True, text=True,
                                timeout=20) for user in ("0", "1234")]
        assert "HTTP/1.1 200" in asked[0].stdout, asked
        assert "HTTP/1.1" not in asked[1].stdout, asked
        assert server.process.poll() is None


def test_the_socket_works_below_a_long_path_and_is_replaced_by_a_restart(binary, tmp_path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    with Server(binary, deep) as server:
        path = server.data / "api.sock"
        assert len(str(path)) > 120 and stat.S_IMODE(path.stat().st_mode) == 0o600
        assert run(binary, "status", data=server.data).returncode == 0
        server.restart()
        assert run(binary, "status", data=server.data).returncode == 0
        server.terminate()
        assert not path.exists()
        path.write_text("a file of another program")
        refused = second_server(binary, server.data)
        assert refused.returncode == 1 and "is not a socket" in refused.stderr, refused
        assert path.read_text() == "a file of another program"


def test_a_socket_that_another_server_listens_on_is_left_to_it(binary, tmp_path):
    path = tmp_path / "named.sock"
    with Server(binary, tmp_path, "--socket", path) as server:
        refused = run(binary, "up", "--listen", "127.0.0.1:0", "--socket", path, data=tmp_path / "other", timeout=10)
        assert refused.returncode == 1 and f"another process listens on {path}" in refused.stderr, refused
        assert run(binary, "status", data=server.data).returncode == 0
        assert run(binary, "status", data=server.data, INTERLOCK_SOCKET=str(path)).returncode == 0
        gone = run(binary, "status", data=server.data, INTERLOCK_SOCKET=str(tmp_path / "none.sock"))
        assert gone.returncode == 5, gone
