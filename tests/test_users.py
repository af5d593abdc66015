"""Other users of the machine have by the Unix socket what an operator granted them, and nothing else."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from interlock_server import LocalConnection, Server, eventually, fresh

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
OTHER, THIRD = 1234, 1235
ASK = pathlib.Path(__file__).with_name("ask_from_a_run.py")


class Shared:
    """A server whose socket other users can reach."""

    def __init__(self, binary):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="interlock-users-"))
        self.directory.chmod(0o755)
        self.ask = shutil.copy(ASK, self.directory)
        (self.directory / "sockets").mkdir(mode=0o755)
        self.socket = self.directory / "sockets" / "api.sock"
        self.binary = binary
        self.server = Server(binary, self.directory, "--socket", str(self.socket))
        self.admin = self.server.admin

    def close(self):
        self.server.kill9()
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, user, *words, **env):
        if user is None:
            env = {"INTERLOCK_DATA": str(self.server.data), **env}
        as_user = [] if user is None else ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        return subprocess.run([*as_user, self.binary, *map(str, words)], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, cwd="/",
                              env={"PATH": os.environ["PATH"], "HOME": "/nonexistent",
                                   "INTERLOCK_SOCKET": str(self.socket), **env})

    def granted(self, user=OTHER):
        """The scopes and the agent that the socket gives this user; None if it refuses the user."""
        done = self.run(user, "keys", "show", "self", "--json")
        if done.returncode != 0:
            return None
        key = json.loads(done.stdout)
        return key["scopes"], key["agent"]


@pytest.fixture(scope="module")
def shared(binary):
    shared = Shared(binary)
    yield shared
    shared.close()


@pytest.fixture(autouse=True)
def without_grants(shared):
    yield
    for grant in shared.admin.get("/v1/users").ok()["items"]:
        shared.admin.delete(f"/v1/users/{grant['user']}").ok()


def test_a_user_without_a_grant_is_let_in_by_nothing(shared):
    assert shared.granted() is None
    assert shared.run(OTHER, "agents", "put", "x").returncode != 0
    assert shared.granted(None) == (["admin"], None)


@pytest.mark.parametrize("scope, stands_for", [("read", (["read"], None)), ("operator", (["operator"], None)),
                                               ("agent", (["agent"], None))])
def test_a_grant_is_as_wide_as_its_scope(shared, scope, stands_for):
    done = shared.run(None, "users", "grant", OTHER, "--scope", scope, "--note", "the night shift")
    assert done.returncode == 0, done
    assert shared.granted() == stands_for
    assert shared.granted(THIRD) is None
    put = shared.run(OTHER, "agents", "put", fresh("agent"))
    assert (put.returncode == 0) == (scope == "operator"), put
    for beyond in (["keys", "create", "--scope", "admin"], ["users", "grant", THIRD, "--scope", "read"],
                   ["users", "revoke", OTHER]):
        assert shared.run(OTHER, *beyond).returncode == 4
    listed = shared.run(None, "users", "ls", "--json")
    assert [(row["user"], row["scope"], row["note"]) for row in json.loads(listed.stdout)["items"]] == [
        (OTHER, scope, "the night shift")]


def test_a_grant_for_an_agent_acts_for_that_agent_only(shared):
    mine, theirs = shared.admin.agent(), shared.admin.agent()
    assert shared.run(None, "users", "grant", OTHER, "--scope", f"agent:{mine}").returncode == 0
    assert shared.granted() == (["agent"], mine)
    assert shared.run(OTHER, "charges", "add", mine, "0.01").returncode == 0
    assert shared.run(OTHER, "charges", "add", theirs, "0.01").returncode != 0


def test_a_user_is_granted_by_name_and_a_new_grant_replaces_the_last(shared):
    assert shared.run(None, "users", "grant", "nobody", "--scope", "operator").returncode == 0
    nobody = int(subprocess.run(["id", "-u", "nobody"], capture_output=True, text=True, check=True).stdout)
    assert shared.granted(nobody) == (["operator"], None)
    assert shared.run(None, "users", "grant", "nobody", "--scope", "read").returncode == 0
    assert shared.granted(nobody) == (["read"], None)
    assert len(shared.admin.get("/v1/users").ok()["items"]) == 1


def test_a_grant_that_is_revoked_ends_at_once_and_can_be_given_again(shared):
    shared.run(None, "users", "grant", OTHER, "--scope", "read")
    with contextlib.closing(LocalConnection(shared.socket)):
        assert shared.run(None, "users", "revoke", OTHER).returncode == 0
        assert shared.granted() is None
    assert shared.run(None, "users", "revoke", OTHER).returncode == 3
    shared.run(None, "users", "grant", OTHER, "--scope", "agent")
    assert shared.granted() == (["agent"], None)
    key = shared.admin.get("/v1/users").ok()["items"][0]["id"]
    assert shared.run(None, "keys", "revoke", key).returncode == 0, "it is a key like others"
    assert shared.granted() is None


def test_grants_outlive_a_restart(shared):
    shared.run(None, "users", "grant", OTHER, "--scope", "read")
    shared.server.kill9()
    shared.server.start()
    shared.admin = shared.server.admin
    assert shared.granted() == (["read"], None)


def test_a_grants_id_is_no_key(shared):
    shared.run(None, "users", "grant", OTHER, "--scope", "operator")
    key = shared.admin.get("/v1/users").ok()["items"][0]["id"]
    for secret in ("", "0" * 64, key):
        shared.admin.with_key(f"ilk_{key}_{secret}").get("/v1/agents").refused(401, "unauthorized")


@pytest.mark.parametrize("user, body, status, code", [
    (OTHER, {"scope": "admin"}, 400, "invalid_request"), (OTHER, {}, 400, "invalid_request"),
    (OTHER, {"scope": "read", "agent": "x"}, 400, "invalid_request"),
    (OTHER, {"scope": "agent", "agent": "unknown-agent"}, 404, "not_found"),
    ("root", {"scope": "read"}, 400, "invalid_request"), ("-1", {"scope": "read"}, 400, "invalid_request"),
    ("4294967295", {"scope": "read"}, 400, "invalid_request"), (0, {"scope": "read"}, 409, "wrong_state")])
def test_a_grant_that_cannot_be_says_why(shared, user, body, status, code):
    shared.admin.put(f"/v1/users/{user}", body).refused(status, code)


def test_a_user_that_is_not_there_is_named(shared):
    done = shared.run(None, "users", "grant", "no-such-user", "--scope", "read")
    assert done.returncode == 2 and "no user 'no-such-user'" in done.stderr, done


@pytest.mark.parametrize("hidden", ["{ask}", "(setsid env -i sh -c '(setsid {ask} &)' &)"])
def test_a_program_of_a_run_has_no_grant(shared, hidden):
    """Also as another user: root in a run at level off can become one."""
    shared.run(None, "users", "grant", OTHER, "--scope", "operator")
    out = shared.directory / fresh("answers") / "answer"
    out.parent.mkdir()
    os.chown(out.parent, OTHER, OTHER)
    ask = f"setpriv --reuid {OTHER} --regid {OTHER} --clear-groups {sys.executable} {shared.ask} {out} {shared.socket}"
    done = shared.run(None, "run", "--quiet", "--sandbox=off", "--no-workspace", "--", "sh", "-c",
                      hidden.format(ask=ask) + f"; for i in $(seq 100); do [ -s {out} ] && break; sleep 0.05; done")
    assert done.returncode == 0, done
    assert json.loads(out.read_text()) == [401, "unauthorized"]
    assert shared.granted() == (["operator"], None)


def test_the_socket_lies_where_no_other_user_can_replace_it(shared, binary, tmp_path):
    assert shared.socket.stat().st_mode & 0o777 == 0o666
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    done = subprocess.run([binary, "up", "--data-dir", tmp_path / "data", "--listen", "127.0.0.1:0", "--socket",
                           tmp_path / "open" / "api.sock"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "other users can write to" in done.stderr, done
    (tmp_path / "own").mkdir()
    with Server(binary, tmp_path / "own") as server:
        assert (server.data / "api.sock").stat().st_mode & 0o777 == 0o600
        eventually(lambda: (server.data / "api.sock").exists())
