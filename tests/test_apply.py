"""Agents from files: `interlock apply` against a real server."""

import json
import os
import pty
import re
import select
import subprocess
import time

import pytest

from interlock_server import fresh

CODER = """\
command: claude -p "fix the tests"
workspace: work
timeout: 30m
env: {{LEVEL: 3, TOKEN: hunter2}}
retry: {{tries: 3, backoff: 1m}}
tags: {{team: core}}
budget:
  - {{name: {name}-day, limit: 5.10, window: day, warn: [50, 80]}}
  - {{name: {name}-all, limit: 100, window: total}}
schedule: {{every: 30m, jitter: 10s, hold: 0.25}}
"""


class Directory:
    """Files of agents, and the command on them."""

    def __init__(self, server, interlock, path):
        self.server, self.interlock, self.path = server, interlock, path
        (path / "agents").mkdir(parents=True)
        (path / "work").mkdir()

    def write(self, name, text):
        (self.path / "agents" / f"{name}.yaml").write_text(text)

    def remove(self, name):
        (self.path / "agents" / f"{name}.yaml").unlink()

    def apply(self, *flags, code=0, key=None):
        done = self.interlock("apply", self.path, "--data-dir", self.server.data, *flags,
                              *(["--key", key] if key else []))
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def plan(self, *flags):
        """action kind name of every step."""
        told = json.loads(self.apply("--dry-run", "--json", *flags).stdout)
        assert told["applied"] is False
        return {(step["kind"], step["name"]): step["action"] for step in told["steps"]}


@pytest.fixture
def files(server, interlock, tmp_path):
    return Directory(server, interlock, tmp_path / fresh("set"))


def test_what_the_files_say_is_made_and_again_changes_nothing(files, admin):
    name = fresh("coder")
    files.write(name, CODER.format(name=name))

    done = files.apply("--yes")

    assert f"+ agent {name}\n" in done.stdout and "command: claude -p fix the tests" in done.stdout
    assert "applied: 4 created, 0 changed, 0 removed" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    agent = admin.get(f"/v1/agents/{name}").ok(200)
    assert agent["command"] == ["claude", "-p", "fix the tests"] and agent["timeout_s"] == 1800
    assert agent["workspace"] == str(files.path / "work") and agent["env"] == {"LEVEL": "3", "TOKEN": "hunter2"}
    budget = admin.get(f"/v1/budgets/{name}-day").ok(200)
    assert (budget["limit"], budget["scope"], budget["warn"]) == ("5.10", {"agent": name}, [50, 80])
    schedule = admin.get(f"/v1/schedules/{name}").ok(200)
    assert (schedule["every_s"], schedule["hold"], schedule["jitter_s"]) == (1800, "0.25", 10)
    assert schedule["workspace"] == str(files.path / "work")

    before = admin.get("/v1/events", limit=1).ok(200)["head"]
    again = files.apply()  # Nobody has to be asked.
    assert f"= agent {name}\n" in again.stdout and "nothing to change" in again.stderr
    files.apply("--yes")
    assert admin.get("/v1/events", limit=1).ok(200)["head"] == before


def test_what_changed_is_shown_and_changed(files, admin):
    name = fresh("coder")
    files.write(name, CODER.format(name=name))
    files.apply("--yes")
    files.write(name, CODER.format(name=name).replace("30m\n", "1h\n").replace("hunter2", "hunter3")
                .replace("5.10", "7.5").replace("every: 30m", 'cron: "0 9 * * mon-fri"').replace("team: core", "team: web"))

    done = files.apply("--yes")

    assert f"~ agent {name}\n" in done.stdout
    assert "    timeout_s: 1800 -> 3600\n" in done.stdout and "    tags.team: core -> web\n" in done.stdout
    assert "    env.TOKEN: changed\n" in done.stdout and "    limit: 5.10 -> 7.50\n" in done.stdout
    assert "    cron: nothing -> 0 9 * * mon-fri\n" in done.stdout
    assert f"= budget {name}-all\n" in done.stdout
    assert admin.get(f"/v1/agents/{name}").ok(200)["timeout_s"] == 3600
    assert admin.get(f"/v1/schedules/{name}").ok(200)["cron"] == "0 9 * * mon-fri"
    assert "nothing to change" in files.apply("--yes").stderr


def test_a_dry_run_and_a_missing_yes_change_nothing(files, admin):
    name = fresh("coder")
    files.write(name, "command: x\n")

    assert files.plan() == {("agent", name): "create"}
    refused = files.apply(code=2)
    assert f"+ agent {name}" in refused.stdout and "--yes" in refused.stderr
    admin.get(f"/v1/agents/{name}").refused(404, "not_found")


def test_mistakes_of_all_files_are_shown_and_nothing_is_applied(files, admin):
    good, bad, worse = fresh("good"), fresh("bad"), fresh("worse")
    files.write(good, "command: x\n")
    files.write(bad, "command: x\ntimout: 5m\nbudget:\n  limit: 5\n  window: fortnight\n")
    files.write(worse, "command: [a\nname: b\n")

    done = files.apply("--yes", code=2)

    at = re.escape(str(files.path / "agents"))
    assert re.search(rf"^{at}/{bad}.yaml:2:1: an agent has no 'timout'\n    did you mean 'timeout'\?$", done.stderr, re.M)
    assert re.search(rf"^{at}/{bad}.yaml:5:11: window must be .*, not 'fortnight'$", done.stderr, re.M)
    assert re.search(rf"^{at}/{worse}.yaml:\d+:\d+: this is not YAML", done.stderr, re.M), done.stderr
    assert "3 mistakes in 2 files; nothing was applied" in done.stderr
    admin.get(f"/v1/agents/{good}").refused(404, "not_found")

    told = json.loads(files.apply("--yes", "--json", code=2).stderr)
    assert [(one["line"], one["column"]) for one in told["mistakes"]][:2] == [(2, 1), (5, 11)]


def test_what_a_budget_counts_cannot_change(files):
    name = fresh("coder")
    files.write(name, "command: x\nbudget: {limit: 5, window: day}\n")
    files.apply("--yes")
    files.write(name, "command: y\n\nbudget: {limit: 5, window: week}\n")

    done = files.apply("--yes", code=2)

    assert f"{name}.yaml:3:9: the window of budget '{name}' cannot change from day to week" in done.stderr
    assert files.plan  # And nothing was: the agent is as it was.
    files.write(name, "command: x\nbudget: {limit: 5, window: day}\n")
    assert "nothing to change" in files.apply("--yes").stderr


def test_prune_removes_what_apply_made_and_nothing_else(files, admin):
    name, other = fresh("coder"), fresh("other")
    files.write(name, CODER.format(name=name))
    files.write(other, "command: y\nschedule: {every: 1h}\n")
    files.apply("--yes")
    by_hand = admin.budget("3.00", scope={"agent": name})
    stranger = admin.agent()
    files.remove(other)
    files.write(name, CODER.format(name=name).replace(f"  - {{name: {name}-all, limit: 100, window: total}}\n", ""))

    left = files.apply("--yes")
    assert f"- agent {other}  (add --prune to remove it)" in left.stdout and "nothing to change" in left.stderr
    assert admin.get(f"/v1/agents/{other}").ok(200)["state"] == "active"
    assert files.plan("--prune") == {
        ("agent", name): "unchanged", ("budget", f"{name}-day"): "unchanged", ("schedule", name): "unchanged",
        ("budget", f"{name}-all"): "remove", ("schedule", other): "remove", ("agent", other): "remove"}

    files.apply("--yes", "--prune")
    assert admin.get(f"/v1/agents/{other}").ok(200)["state"] == "archived"
    admin.get(f"/v1/schedules/{other}").refused(404, "not_found")
    admin.get(f"/v1/budgets/{name}-all").refused(404, "not_found")
    for path in (f"/v1/budgets/{by_hand}", f"/v1/budgets/{name}-day", f"/v1/schedules/{name}"):
        admin.get(path).ok(200)
    assert admin.get(f"/v1/agents/{stranger}").ok(200)["state"] == "active"
    assert "nothing to change" in files.apply("--yes", "--prune").stderr

    files.write(other, "command: z\n")
    assert f"+ agent {other}" in files.apply("--yes").stdout
    assert admin.get(f"/v1/agents/{other}").ok(200)["state"] == "active"


def test_sets_with_names_do_not_prune_each_other(files, server, interlock, tmp_path, admin):
    name, theirs = fresh("coder"), fresh("coder")
    files.write(name, "command: x\n")
    files.apply("--yes")
    neighbour = Directory(server, interlock, tmp_path / "neighbour" / files.path.name)
    neighbour.write(theirs, "command: y\n")

    done = neighbour.apply("--yes", "--prune")

    assert name not in done.stdout
    assert admin.get(f"/v1/agents/{name}").ok(200)["state"] == "active"


def test_a_schedule_that_was_paused_stays_paused(files, admin):
    name = fresh("coder")
    files.write(name, "command: x\nschedule: {every: 1h}\n")
    files.apply("--yes")
    admin.post(f"/v1/schedules/{name}/pause").ok(200)

    assert "nothing to change" in files.apply("--yes").stderr
    files.write(name, "command: x\nschedule: {every: 2h}\n")
    files.apply("--yes")
    schedule = admin.get(f"/v1/schedules/{name}").ok(200)
    assert (schedule["every_s"], schedule["enabled"]) == (7200, False)


def test_caps_come_from_interlock_yaml(files, admin):
    provider = fresh("provider")
    files.write(fresh("coder"), "command: x\n")
    (files.path / "interlock.yaml").write_text(f"name: caps-test\ncaps:\n  provider: {{{provider}: 4}}\n")

    assert f"+ cap provider/{provider}" in files.apply("--yes").stdout
    assert {"kind": "provider", "name": provider, "max_live": 4, "live": 0} in admin.get("/v1/caps").ok(200)["items"]
    assert "nothing to change" in files.apply("--yes").stderr
    admin.delete(f"/v1/caps/provider/{provider}").ok(204)


def test_a_refusal_of_the_server_says_for_what_and_the_rest_is_done_again(files, admin):
    name = fresh("coder")
    files.write(name, "command: x\nworkspace: not-there\nschedule: {every: 1h}\n")

    done = files.apply("--yes", code=2)
    assert f"schedule {name}: " in done.stderr and "1 of 2 requests succeeded" in done.stderr

    (files.path / "not-there").mkdir()
    assert f"= agent {name}" in files.apply("--yes").stdout
    assert "nothing to change" in files.apply("--yes").stderr


def test_keys_that_may_not_are_refused(files, admin):
    name = fresh("coder")
    files.write(name, "command: x\nenv: {TOKEN: hunter2}\n")
    reader = admin.make_key("read").key

    files.apply("--yes", key=reader, code=4)
    files.apply("--yes")
    assert "nothing to change" in files.apply("--yes", key=reader).stderr, "what it may not see, it cannot compare"


@pytest.mark.parametrize("typed, code", [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_somebody_is_asked(files, admin, typed, code):
    name = fresh("coder")
    files.write(name, "command: x\n")
    main, side = pty.openpty()
    process = subprocess.Popen([files.interlock.binary, "apply", str(files.path), "--data-dir", str(files.server.data)],
                               stdin=side, stdout=side, stderr=side)
    os.close(side)
    printed, deadline = b"", time.monotonic() + 30
    while b"[y/N]" not in printed:
        assert time.monotonic() < deadline, printed
        if select.select([main], [], [], 0.1)[0]:
            printed += os.read(main, 4096)
    os.write(main, typed.encode() + b"\n")
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline
            if select.select([main], [], [], 0.1)[0]:
                printed += os.read(main, 4096)
    except OSError:  # The other end is closed.
        pass
    assert process.wait(10) == code, printed
    assert admin.get(f"/v1/agents/{name}").status == (200 if code == 0 else 404)
    os.close(main)
