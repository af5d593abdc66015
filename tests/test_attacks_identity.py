"""No program in a run is operator or admin, with any key that it finds, by any way that it asks."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from interlock_server import LocalConnection, Server, eventually, fresh

ANOTHER_USER = 1234
ASK = pathlib.Path(__file__).with_name("ask_from_a_run.py")
WAYS_TO_HIDE = {"plainly": "{ask}", "in a session of its own": "setsid {ask}", "as an orphan": "(setsid {ask} &)",
                "without its environment": "env -i {ask}", "all at once": "(setsid env -i sh -c '(setsid {ask} &)' &)"}


class Place:
    """A server and the commands of its user, who is this one or an ordinary one."""

    def __init__(self, binary, user):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="interlock-identity-"))
        self.ask = str(shutil.copy(ASK, self.directory))
        self.user = os.geteuid() if user is None else user
        self.program = self.binary = binary
        if user is not None:
            wrapper = self.directory / "interlock"
            wrapper.write_text(f"#!/bin/sh\nexec setpriv --reuid {user} --regid {user} --clear-groups {binary} \"$@\"\n")
            wrapper.chmod(0o755)
            os.chown(self.directory, user, user)
            self.program = str(wrapper)
        self.server = Server(self.program, self.directory)
        self.socket = str(self.server.data / "api.sock")
        self.url = "http://%s:%d" % self.server.address
        self.admin = self.server.admin

    def close(self):
        self.server.kill9()
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, *words, **env):
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, cwd=self.directory,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.directory),
                                   "INTERLOCK_DATA": str(self.server.data), **env})

    def inside(self, script):
        """What a shell script in a run prints, and how it ends. The other levels do not let it reach the server's socket."""
        return self.run("run", "--quiet", "--sandbox=off", "--no-workspace", "--env", f"INTERLOCK={self.binary}", "--",
                        "sh", "-c", script)

    def asked_inside(self, hidden, *words):
        """The status and the code of an answer that a program in a run has got."""
        out = self.directory / fresh("answer")
        ask = f"{sys.executable} {self.ask} {out} {' '.join(words)}"
        done = self.inside(WAYS_TO_HIDE[hidden].format(ask=ask) + f"; while [ ! -e {out} ]; do sleep 0.05; done")
        assert done.returncode == 0, done
        return tuple(json.loads(out.read_text()))

    def limit_of(self, budget):
        return self.admin.get(f"/v1/budgets/{budget}").ok()["limit"]


@pytest.fixture(scope="module", params=[None, ANOTHER_USER], ids=["own user", "ordinary user"])
def place(request, binary):
    if request.param is not None and os.geteuid() != 0:
        pytest.skip("becomes another user")
    place = Place(binary, request.param)
    yield place
    place.close()


@pytest.fixture
def budget(place):
    return place.admin.budget("1.00", scope={"agent": place.admin.agent()})


def local(place, method, path, body=None, **headers):
    with contextlib.closing(LocalConnection(place.socket)) as connection:
        connection.request(method, path, json.dumps(body or {}), {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or "{}")


def test_outside_of_runs_the_user_of_the_server_needs_no_key(place, budget):
    done = place.run("budgets", "limit", budget, "2.00")
    assert done.returncode == 0, done
    assert place.limit_of(budget) == "2.00"
    assert not (place.server.data / "admin.key").exists()
    assert json.loads(place.run("keys", "show", "self", "--json").stdout)["id"] == f"local:{place.user}"
    assert place.run("login", "--quiet").stdout.startswith(place.url + "/login?code=")


def test_a_key_that_is_wrong_is_not_as_good_as_none(place):
    status, problem = local(place, "GET", "/v1/keys/self", Authorization="Bearer ilk_000000000000_" + "0" * 64)
    assert (status, problem["code"]) == (401, "unauthorized")
    status, problem = local(place, "GET", "/v1/keys/self", Authorization="Basic eDp5")
    assert (status, problem["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("hidden", WAYS_TO_HIDE)
def test_a_program_in_a_run_is_no_local_admin(place, hidden):
    assert place.asked_inside(hidden, place.socket) == (401, "unauthorized")


@pytest.mark.parametrize("hidden", WAYS_TO_HIDE)
def test_an_admins_key_is_no_use_in_a_run(place, hidden):
    operator = place.admin.make_key("operator")
    for where in (place.socket, place.url):
        assert place.asked_inside(hidden, where, place.admin.key) == (403, "inside_a_run")
        assert place.asked_inside(hidden, where, operator.key) == (403, "inside_a_run")


def test_a_login_is_no_use_in_a_run(place):
    connection = http.client.HTTPConnection(*place.server.address, timeout=20)
    with contextlib.closing(connection):
        connection.request("POST", "/login", json.dumps({"key": place.admin.key}),
                           {"Content-Type": "application/json"})
        response = connection.getresponse()
        cookie = response.getheader("set-cookie").split(";")[0]
        secret = json.loads(response.read())["secret"]
    for where in (place.socket, place.url):
        assert place.asked_inside("plainly", where, "login", cookie, secret) == (403, "inside_a_run")


def test_an_admins_key_pays_for_no_model_call_of_a_run(place):
    answer = place.asked_inside("plainly", place.url, place.admin.key, "POST", "/v1/chat/completions",
                                '\'{"model":"m","messages":[]}\'')
    assert answer[0] == 401 and "must use the run's API key" in answer[1]


@pytest.mark.parametrize("way", ["hang up", "hide the connection"])
@pytest.mark.parametrize("by", ["socket", "url"])
def test_a_program_that_does_not_wait_for_the_answer_changes_nothing(place, budget, way, by):
    where = getattr(place, by)
    key = "''" if by == "socket" else place.admin.key
    done = place.inside(f"{sys.executable} {place.ask} {place.directory}/none {where} {key} PUT "
                        f"/v1/budgets/{budget}/limit '{{\"limit\":\"5000\"}}' '{way}'; sleep 0.5")
    assert done.returncode == 0, done
    assert place.limit_of(budget) == "1.00"


def test_a_program_that_kills_its_shim_is_still_a_runs(place, budget):
    out = place.directory / fresh("answer")
    late = place.directory / "late.sh"
    late.write_text(f"sleep 1; {sys.executable} {place.ask} {out} {place.socket} '' PUT /v1/budgets/{budget}/limit "
                    "'{\"limit\":\"5000\"}'\n")
    place.inside(f"(setsid env -i sh -c '(setsid sh {late} &)' &) ; sleep 0.3; kill -9 $PPID; sleep 5")
    # Where there are control groups, nothing of the run is left to ask.
    answered = place.user == 0 or eventually(out.exists, seconds=10)
    assert place.user == 0 or (answered and json.loads(out.read_text()) == [401, "unauthorized"])
    assert place.limit_of(budget) == "1.00"


@pytest.mark.parametrize("line", [
    "env -u INTERLOCK_KEY $INTERLOCK budgets limit {budget} 5000",
    "env -u INTERLOCK_KEY -u INTERLOCK_RUN -u INTERLOCK_URL $INTERLOCK --data-dir {data} budgets limit {budget} 5000",
    "env -i $INTERLOCK --data-dir {data} budgets limit {budget} 5000",
    "$INTERLOCK --key {key} budgets limit {budget} 5000",
    "env -i $INTERLOCK --key {key} --url {url} budgets limit {budget} 5000",
    "env -i $INTERLOCK --data-dir {data} keys create --scope admin",
    "env -i $INTERLOCK --data-dir {data} login",
    "$INTERLOCK budgets limit {budget} 5000"])
def test_the_command_line_raises_no_budget_in_a_run(place, budget, line):
    done = place.inside(line.format(budget=budget, data=place.server.data, key=place.admin.key, url=place.url))
    assert done.returncode == 4, done
    assert place.limit_of(budget) == "1.00"


def test_in_a_run_the_command_line_says_whose_key_it_takes(place):
    said = place.inside("env -u INTERLOCK_KEY $INTERLOCK budgets ls").stderr
    assert "belongs to run run_" in said and "INTERLOCK_KEY" in said
    assert place.inside("$INTERLOCK keys show self --json").returncode == 0, "the run's own key is taken"


def test_a_run_starts_a_run_with_its_own_key_only(place):
    done = place.inside("$INTERLOCK run --quiet --no-workspace -- sh -c 'echo child'")
    assert (done.returncode, done.stdout) == (0, "child\n"), done
    done = place.inside("env -u INTERLOCK_KEY $INTERLOCK run --no-workspace -- true")
    assert done.returncode == 4 and "INTERLOCK_KEY" in done.stderr, done


def test_a_run_starts_no_server_on_its_own_directory_and_may_on_another(place):
    up = "timeout 20 env -i $INTERLOCK up --listen 127.0.0.1:0 --data-dir"
    done = place.inside(f"{up} {place.server.data}")
    assert done.returncode == 1 and "outside of its runs" in done.stderr, done
    other = place.directory / fresh("other")
    script = (f"{up} {other} > /dev/null & until [ -e {other}/server.json ]; do sleep 0.05; done; "
              f"env -i $INTERLOCK --data-dir {other} keys show self --json; kill $!")
    assert json.loads(place.inside(script).stdout)["id"] == f"local:{place.user}", "it serves the run it is in"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
@pytest.mark.parametrize("level", ["off", "guarded", "files"])
def test_a_terminal_multiplexer_starts_programs_outside_of_a_run_but_not_at_files(place, level):
    multiplexer, out = place.directory / fresh("tmux"), place.directory / fresh("answer")
    as_user = [] if place.user == os.geteuid() else ["setpriv", "--reuid", str(place.user), "--clear-groups"]
    tmux = [*as_user, "tmux", "-S", str(multiplexer)]
    subprocess.run([*tmux, "new-session", "-d", "sleep 60"], check=True, stdin=subprocess.DEVNULL, cwd="/",
                   env={"PATH": os.environ["PATH"], "HOME": str(place.directory), "TERM": "xterm"})
    try:
        done = place.run("run", "--quiet", "--no-workspace", f"--sandbox={level}", "--", "tmux", "-S", multiplexer,
                         "run-shell", f"{sys.executable} {place.ask} {out} {place.socket}")
        if level == "files":
            assert done.returncode != 0 and not out.exists(), done
        else:
            eventually(out.exists)
            assert json.loads(out.read_text()) == [200, f"local:{place.user}"]
    finally:
        subprocess.run([*tmux, "kill-server"], check=True, stdin=subprocess.DEVNULL)


def test_a_run_sees_nothing_of_the_server_and_its_shim(place):
    if place.user == 0:
        pytest.skip("root sees everything")
    server = place.server.process.pid
    for process in (str(server), "$PPID"):
        for file in ("environ", "mem", "fd/0", "maps"):
            done = place.inside(f"cat /proc/{process}/{file} > /dev/null")
            assert done.returncode != 0 and "Permission denied" in done.stderr, (process, file, done)


def test_a_kept_admin_key_works_outside_of_runs_with_a_warning(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        server.terminate()
        (server.data / "admin.key").write_text(server.admin_key + "\n")
        (server.data / "admin.key").chmod(0o600)
        server.start()

        assert server.admin.get("/v1/agents").status == 200
        key_id = server.admin_key.split("_")[1]
        assert "admin_key_kept" in server.log() and f"interlock keys revoke {key_id}" in server.log()
        doctor = subprocess.run([binary, "doctor", "--data-dir", server.data], capture_output=True, text=True,
                                timeout=60, stdin=subprocess.DEVNULL)
        assert "warn  admin key" in doctor.stdout and "interlock keys revoke" in doctor.stdout


def test_a_refusal_shows_an_operator_the_command_and_an_agent_who_can_run_it(place):
    agent = place.admin.agent()
    budget = place.admin.budget("1.00", scope={"agent": agent})
    key = place.admin.make_key("agent", agent=agent)
    hold = {"agent": agent, "amount": "5.00"}
    told = key.post("/v1/holds", hold).refused(402, "budget_exceeded")
    assert told["needs_person"] is True and "a person can raise the limit" in told["detail"]
    assert "interlock" not in json.dumps(told) and told["free"] == "1.00" and told["budget"] == budget
    assert "needs_person" not in place.admin.post("/v1/holds", hold).refused(402, "budget_exceeded")
    said = place.run("holds", "reserve", agent, "5.00", INTERLOCK_KEY=key.key, INTERLOCK_URL=place.url)
    assert said.returncode != 0 and "interlock budgets" not in said.stderr, said


SERVICES = {
    # As cron and at do: what lies in a directory is executed.
    "spool": ("while :; do for f in {at}/*.job; do [ -e $f ] && sh $f; rm -f $f; done; sleep 0.1; done",
              "printf '%s\\n' '{ask}' > {at}/new && mv {at}/new {at}/new.job"),
    # As systemd --user and a container service do: what comes by a socket is executed.
    "socket": (sys.executable + " -c 'import socket, subprocess; s = socket.socket(socket.AF_UNIX); s.bind(\"{at}/s\"); "
               "s.listen()\nwhile 1:\n c = s.accept()[0]; subprocess.run(c.recv(9999), shell=True); c.close()'",
               sys.executable + " -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"{at}/s\"); "
               "s.send(b\"{ask}\"); s.shutdown(1); s.recv(1)'"),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("level", ["off", "guarded", "files"])
def test_a_service_that_acts_for_a_run_is_outside_of_it_but_not_reached_at_files(place, service, level):
    at, out = place.directory / fresh("service"), place.directory / fresh("answer")
    at.mkdir()
    os.chown(at, place.user, place.user)
    serve, use = (line.format(at=at, ask=f"{sys.executable} {place.ask} {out} {place.socket}") for line in SERVICES[service])
    as_user = [] if place.user == os.geteuid() else ["setpriv", "--reuid", str(place.user), "--clear-groups"]
    daemon = subprocess.Popen([*as_user, "sh", "-c", serve], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        eventually((at / "s").exists) if service == "socket" else None
        done = place.run("run", "--quiet", "--no-workspace", f"--sandbox={level}", "--", "sh", "-c", use)
        if level == "files":
            assert done.returncode != 0 and not out.exists(), done
        else:
            eventually(out.exists, 10, lambda: str(done))
            assert json.loads(out.read_text()) == [200, f"local:{place.user}"]
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
