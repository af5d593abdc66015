"""`interlock demo --serve` from outside: what there is to see on every screen, and what is left when it ends."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import urllib.parse

import pytest

from interlock_server import Client, eventually, make_admin_key

SEEN_WITHIN = 90  # Seconds. It takes ten on a quiet machine.


class Demo:
    """The demo as a process, and a client of its server."""

    def __init__(self, binary, scratch, *arguments):
        self.scratch = scratch
        self.process = subprocess.Popen([binary, "demo", "--serve", *map(str, arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "TMPDIR": str(scratch)})
        self.link = self.line(r"^Open (http://\S+)$")
        self.data = pathlib.Path(self.line(r"^  data +(\S+)$"))
        url = urllib.parse.urlsplit(self.link)
        self.address = (url.hostname, url.port)
        self.admin = Client(self.address, make_admin_key(self.data / "api.sock"))

    def line(self, pattern):
        """What the first line that matches says."""
        for line in self.process.stdout:
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(self.process.stderr.read())

    def end(self, how=None):
        """The exit code and what it said, once it has ended."""
        if how:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=60)
        assert "unexpected answers" not in out, out
        return self.process.returncode, out + err


@pytest.fixture
def demo(binary, interlock):
    """Starts a demo, and ends the one that a failing test leaves running."""
    demos = []

    def start(*arguments):
        demos.append(Demo(binary, interlock.scratch, *arguments))
        return demos[-1]

    yield start
    for each in demos:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(timeout=60)


def processes_of(directory):
    """Who works on something in the directory, or was started for it."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                if os.fsencode(directory) in command or os.readlink(entry / "cwd").startswith(str(directory)):
                    found.append((entry.name, command))
    return found


def see(look, seconds=SEEN_WITHIN):
    """Looks until everything that is to be seen has been seen, and says what is missing."""
    missing = []

    def nothing_missing():
        missing[:] = [what for what, there in look().items() if not there]
        return not missing

    return eventually(nothing_missing, seconds, lambda: f": {missing}")


def test_every_screen_has_something_on_it(demo, interlock):
    fleet = demo("--seconds", 150)
    admin = fleet.admin
    states = set()

    def listed(path):
        return admin.get(path).ok()["items"]

    def look():
        runs = admin.items("/v1/runs")
        states.update(run["status"] for run in runs)
        budgets = {budget["name"]: budget for budget in admin.items("/v1/budgets")}
        sessions = admin.items("/v1/sessions")
        parents = {session["id"]: session["parent"] for session in sessions}
        calls = admin.items("/v1/calls")
        dialects = {call["operation"].split(".")[0] for call in calls}
        ticks = {tick["outcome"] for schedule in admin.items("/v1/schedules")
                 for tick in admin.items(f"/v1/schedules/{schedule['name']}/history")}
        warned = admin.get("/v1/events", type="budget_warned", limit=1000).ok()["items"]
        return {
            "agents": len(admin.items("/v1/agents")) >= 8,
            "an agent that its budget has paused": any(
                agent["state"] == "paused" and agent["name"] == "experimenter" for agent in admin.items("/v1/agents")),
            "states of runs": states >= {"queued", "running", "succeeded", "failed", "timed_out", "cancelled", "lost"},
            "an exhausted budget": budgets["experimenter-day"]["exhausted"],
            "a frozen budget": budgets["project-pilot"]["frozen"],
            "a soft budget": not budgets["org-day-soft"]["hard"],
            "a budget of tokens": budgets["translator-tokens"]["settled"] != "0",
            "a budget that warned": len(warned) >= 2,
            "forks of forks": any(parents.get(parent) for parent in parents.values() if parent),
            "a closed session": any(session["closed"] for session in sessions),
            "ticks": ticks >= {"fired", "skipped", "coalesced"},
            "a paused schedule": any(not schedule["enabled"] for schedule in admin.items("/v1/schedules")),
            "calls in every dialect": dialects >= {"openai", "anthropic", "gemini"},
            "calls that were refused": any(call["status"] == 402 for call in calls),
            "an upstream's stand-in": any(call["upstream"] == "sim-spare" for call in calls),
            "an answer from memory": any(call["cached"] for call in calls),
            "models without a price": listed("/v1/prices/unpriced") != [],
            "worktrees": not shutil.which("git") or len(listed("/v1/worktrees")) == 3,
            "places": listed("/v1/places") != [],
            "upstreams and limits": listed("/v1/upstreams") != [] and listed("/v1/rate-limits") != [],
            "keys": {scope for key in admin.items("/v1/keys") for scope in key["scopes"]} >= {"read", "agent", "admin"},
            "caps": listed("/v1/caps") != [],
            "spend": listed("/v1/spend?by=agent,model") != [],
        }

    see(look)
    assert admin.get("/v1/verify").ok()["ok"]
    assert all(agent["tags"]["fleet"] == "simulated" for agent in admin.items("/v1/agents"))

    code, said = fleet.end(signal.SIGINT)
    assert code == 0, said
    assert "every guarantee holds" in said
    assert list(interlock.scratch.iterdir()) == []
    assert processes_of(fleet.data) == []


def test_its_sessions_and_logs_have_something_to_read(demo):
    fleet = demo()
    admin = fleet.admin

    def messages_of(agent):
        sessions = [each for each in admin.items("/v1/sessions") if each["agent"] == agent]
        return [message for each in sessions for message in admin.items(f"/v1/sessions/{each['id']}/messages")]

    def log_of(name):
        return b"".join(admin.get(f"/v1/runs/{run['id']}/log").body for run in admin.items("/v1/runs", name=name))

    def look():
        hostile = log_of("print what strangers wrote")
        return {
            "a tool": {"user", "assistant", "tool"} <= {message["role"] for message in messages_of("reviewer")},
            "what was said": any("(simulated)" in message["content"] for message in messages_of("researcher")),
            "colours": b"\x1b[32m" in log_of("build the shop"),
            "markup": b"<script>" in hostile and b"x" * 6000 in hostile,
        }

    see(look)
    code, said = fleet.end(signal.SIGTERM)
    assert code == 0, said


def test_the_link_lets_one_browser_in(demo):
    fleet = demo("--listen", "127.0.0.1:0", "--pace", "2")
    path = fleet.link.partition("/login")[2]

    first = Client(fleet.address).get("/login" + path)
    second = Client(fleet.address).get("/login" + path)

    assert first.status == 303 and "interlock_" in first.headers["set-cookie"]
    assert second.status == 403


def test_it_ends_by_itself_and_leaves_what_it_is_told_to_keep(demo, interlock):
    fleet = demo("--seconds", 3, "--keep")

    code, said = fleet.end()

    assert code == 0, said
    assert "every guarantee holds" in said and f"The data is in {fleet.data}." in said
    assert processes_of(fleet.data) == []
    assert interlock("verify", "--data-dir", fleet.data).returncode == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_leaves_nothing(demo, interlock, how):
    fleet = demo()
    # In the middle of the opening, when processes are being started.
    eventually(lambda: any(run["status"] == "running" for run in fleet.admin.items("/v1/runs", agent="builder")))

    code, said = fleet.end(how)

    assert code == 0, said
    assert processes_of(fleet.data) == []
    assert list(interlock.scratch.iterdir()) == []


@pytest.mark.parametrize("words, why", [
    (("--gateway",), "--gateway"), (("--agents", "3"), "--agents"), (("--pace", "0"), "--pace"),
    (("--listen", "nowhere"), "nowhere"), (("--listen", "0.0.0.0:0"), "TLS")])
def test_what_does_not_go_together_is_refused(interlock, words, why):
    done = interlock("demo", "--serve", "--seconds", "1", *words)

    assert done.returncode == 2
    assert why in done.stderr and done.stdout == ""
    assert list(interlock.scratch.iterdir()) == []


def test_its_options_are_not_for_the_other_demos(interlock):
    assert interlock("demo", "--listen", "127.0.0.1:0").returncode == 2
    assert interlock("demo", "--pace", "2").returncode == 2
