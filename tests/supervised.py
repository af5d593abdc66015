"""Real runs on a real server, as tests use them, and a look at the machine from outside."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

from interlock_server import Server, eventually

ENDED = ("succeeded", "failed", "cancelled", "timed_out", "lost")
LONG = os.environ.get("INTERLOCK_LONG") == "1"
PYTHON = [sys.executable, "-I", "-S", "-c"]  # Without what slows its start; the tests' scripts need none of it.


def processes_of(run):
    """Every process that was started for this run and has not ended, found by its environment alone."""
    mark = f"INTERLOCK_RUN={run}".encode()
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                    found.append(int(entry.name))
    return found


def shims_of(data):
    """run: pid, of every shim that works for this data directory."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"interlock-shim") and words[1] == os.fsencode(str(data)):
                found[words[2].decode()] = int(entry.name)
    return found


class Runs:
    """The runs of one server."""

    def __init__(self, server):
        self.server = server
        self.admin = server.admin
        self.data = server.data

    def cap(self, count):
        """How many may be live on the machine, whose default is small on purpose."""
        def nodes():
            return [cap["name"] for cap in self.admin.get("/v1/caps").ok()["items"] if cap["kind"] == "node"]

        self.admin.put(f"/v1/caps/node/{eventually(nodes)[0]}", {"max_live": count}).ok()

    def start(self, *command, agent=None, **body):
        agent = agent or self.agent()
        return self.admin.post("/v1/runs", {"agent": agent, "command": list(command), **body}).ok(201)["id"]

    def agent(self, **body):
        return self.admin.agent(**{"max_concurrent_runs": 1000, **body})

    def show(self, run):
        return self.admin.get(f"/v1/runs/{run}").ok()

    def wait(self, run, *states, seconds=30):
        states = states or ENDED
        eventually(lambda: self.show(run)["status"] in states, seconds, lambda: f"{self.show(run)}\n{self.server.log()[-3000:]}")
        return self.show(run)

    def log(self, run, **query):
        return self.admin.get(f"/v1/runs/{run}/log", **query)

    def output(self, run):
        return self.log(run, limit=1 << 20).body.decode()

    def stop(self, run, reason="enough"):
        self.admin.post(f"/v1/runs/{run}/cancel", {"reason": reason}).ok()

    def end_all(self):
        """Stops whatever still goes, and waits until it is gone: a server's end does not end its runs."""
        unfinished = self.admin.items("/v1/runs", status="queued,starting,running,paused")
        for run in unfinished:
            self.admin.post(f"/v1/runs/{run['id']}/cancel", {})
        for run in unfinished:
            self.wait(run["id"])
        eventually(lambda: not shims_of(self.data), 20, lambda: str(shims_of(self.data)))

    def settle(self, seconds=30):
        """Waits until no run is on its way any more."""
        on_the_way = "queued,starting,running,paused"
        eventually(lambda: not self.admin.get("/v1/runs", status=on_the_way, limit=1).ok()["items"], seconds,
                   lambda: str(self.admin.items("/v1/runs", status=on_the_way))[:3000])

    def by_id(self):
        return {row["id"]: row for row in self.admin.items("/v1/runs")}

    def restart(self, gently=False):
        """kill -9, or as people end it, and again at once."""
        self.server.terminate() if gently else self.server.kill9()
        self.start_server()

    def start_server(self):
        self.server.start()
        self.admin = self.server.admin


@contextlib.contextmanager
def real_runs(binary, directory, cap=1000):
    """A server and its runs. In the end every promise holds, nobody holds a place, and nothing is left of any run."""
    with Server(binary, directory) as server:
        try:
            runs = Runs(server)
            runs.cap(cap)
            yield runs
            runs.settle()
            held = runs.admin.get("/v1/places").ok()["items"]
            assert held == [], held
            eventually(lambda: not shims_of(server.data), why=lambda: f": {shims_of(server.data)}")
            assert groups_of(server) == [], f"control groups are left: {groups_of(server)}"
            server.verify()
        finally:
            server.kill9()
            end_what_is_left(server.data)
            for group in groups_of(server):
                with contextlib.suppress(OSError):
                    group.rmdir()


def groups_of(server):
    """The control groups of single runs."""
    return [run for group in server.control_groups() for run in group.glob("run_*")]


def end_what_is_left(data):
    """After a test that failed: no shim and no process of its runs outlives it."""
    for pid in shims_of(data).values():
        end_process(pid)
    homes = data / "runs"
    for run in (home.name for home in homes.iterdir()) if homes.exists() else ():
        for pid in processes_of(run):
            end_process(pid)


def cli(runs, *words, code=0, **options):
    """One command of the command line, to its end. Returns what it printed, on both streams, as text."""
    options = {"timeout": 60, "stdin": subprocess.DEVNULL, "env": cli_environment(runs.data), **options}
    done = subprocess.run([runs.server.binary, *map(str, words)], capture_output=True, **options)
    assert code is None or done.returncode == code, (words, done)
    return done.stdout.decode(), done.stderr.decode()


def cli_environment(data, **more):
    """Of somebody at home beside the data directory: whatever a command makes, it does not make it in the tester's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "XDG_"))}
    return {**inherited, "INTERLOCK_DATA": str(data), "HOME": str(data.parent), "NO_COLOR": "1", "COLUMNS": "400", **more}


def wait_for(path, seconds=20):
    eventually(lambda: pathlib.Path(path).exists(), seconds, lambda: f"{path} did not come")
    return pathlib.Path(path)


def alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def end_process(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def git(*words, cwd, **options):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for who in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{who}_NAME": "Tester", f"GIT_{who}_EMAIL": "tester@example.invalid"}
    options = {"text": True, "timeout": 60, **options}
    done = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def repository(path):
    path.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=path)
    (path / "readme").write_text("hello\n")
    git("add", ".", cwd=path)
    git("commit", "-qm", "first", cwd=path)
    return path
