"""Agents as they are to be started, and schedules: what they take from their agent, what is to come, what was."""

import datetime
import os
import time

import pytest

from interlock_server import eventually, fresh

SETTINGS = {
    "command": ["make", "test"], "max_concurrent_runs": 2, "tags": {"team": "core"}, "provider": "anthropic",
    "workspace": "/srv/shop", "env": {"LEVEL": "3"}, "pass_env": ["TOKEN"], "timeout_s": 1800, "grace_s": 5, "nice": -1,
    "limits": {"nofile": 1024}, "sandbox": True, "sandbox_level": "files", "writable": ["/var/cache"],
    "readable": ["/var/books"], "adapter": "claude", "setup": "make deps",
    "teardown": "make clean", "retry": {"tries": 3, "backoff_s": 20, "backoff_max_s": 300}, "mode": "read",
    "on_conflict": "refuse", "isolate": True, "resources": ["gpu"], "roots": ["/srv"]}


def put_schedule(admin, agent, **body):
    name = fresh("schedule")
    return admin.put(f"/v1/schedules/{name}", {"agent": agent, **body}).ok(200)


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# ---- agents -------------------------------------------------------------------------------------------------------

def test_an_agent_is_shown_as_it_was_put_and_put_as_it_is_shown(admin):
    name = fresh("agent")
    told = admin.put(f"/v1/agents/{name}", SETTINGS).ok(200)

    assert {member: told[member] for member in SETTINGS} == {**SETTINGS, "retry": {**SETTINGS["retry"], "max_attempts": 3}}
    assert admin.get(f"/v1/agents/{name}").ok(200) == told
    again = admin.put(f"/v1/agents/{name}", {member: told[member] for member in SETTINGS}).ok(200)
    assert again == told

    bare = admin.put(f"/v1/agents/{name}", {}).ok(200)
    assert (bare["workspace"], bare["env"], bare["grace_s"], bare["retry"]["tries"]) == ("", {}, 10, 1)


@pytest.mark.parametrize("body, pointer", [
    ({"workspace": "src"}, "/workspace"), ({"writable": ["/tmp", "x"]}, "/writable/1"), ({"timeout_s": -1}, "/timeout_s"),
    ({"nice": 20}, "/nice"), ({"limits": {"nofile": "many"}}, "/limits/nofile"), ({"env": {"A": None}}, "/env/A"),
    ({"env": ["A"]}, "/env"), ({"retry": {"tires": 1}}, "/retry/tires"), ({"mode": "append"}, "/mode"),
    ({"roots": ["srv"]}, "/roots"), ({"roots": ["/srv/../etc"]}, "/roots"),
    ({"process": {}}, "/process"), ({"directory": "/x"}, "/directory"), ({"workspace": "/" + "x" * 5000}, "/workspace"),
])
def test_an_agent_that_makes_no_sense_is_refused(admin, body, pointer):
    name = fresh("agent")

    admin.put(f"/v1/agents/{name}", body).refused(400, "invalid_request", pointer)

    admin.get(f"/v1/agents/{name}").refused(404, "not_found")


def test_whoever_may_not_change_an_agent_sees_which_variables_it_has_and_not_their_values(admin):
    name = admin.agent(env={"TOKEN": "hunter2"})

    for scope in ("read", "agent"):
        key = admin.make_key(scope)
        assert key.get(f"/v1/agents/{name}").ok(200)["env"] == {"TOKEN": None}
        assert b"hunter2" not in key.get("/v1/agents").body
    assert admin.make_key("operator").get(f"/v1/agents/{name}").ok(200)["env"] == {"TOKEN": "hunter2"}


# ---- what a schedule takes from its agent -------------------------------------------------------------------------

def test_a_schedule_works_where_its_agent_does_unless_it_says_otherwise(admin, tmp_path):
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    for path in (own, other):
        os.mkdir(path)
    agent = admin.agent(workspace=own, mode="read", resources=["gpu"], isolate=True)

    told = put_schedule(admin, agent, every="1d")
    assert (told["workspace"], told["mode"], told["resources"], told["isolate"]) == (own, "read", ["gpu"], True)
    assert told["node"]

    told = put_schedule(admin, agent, every="1d", workspace=other, mode="write", resources=[], isolate=False, node="b")
    assert (told["workspace"], told["mode"], told["resources"], told["isolate"]) == (other, "write", [], False)
    assert told["node"] == "b"

    assert put_schedule(admin, agent, every="1d", workspace="")["workspace"] is None


def test_a_workspace_that_is_not_there_is_noticed_when_the_schedule_is_put(admin, tmp_path):
    agent = admin.agent(workspace=str(tmp_path / "nowhere"))

    problem = admin.put(f"/v1/schedules/{fresh('schedule')}", {"agent": agent, "every": "1d"}).refused(
        400, "invalid_request")

    assert agent in problem["detail"] and "nowhere" in problem["detail"]


# ---- what is to come ----------------------------------------------------------------------------------------------

def test_the_next_ticks_are_foretold(admin):
    name = put_schedule(admin, admin.agent(), cron="30 9 * * mon-fri", timezone="Europe/Berlin", jitter_s=600)["name"]

    ticks = admin.get(f"/v1/schedules/{name}/next", count=10).ok(200)["items"]

    assert len(ticks) == 10
    assert len(admin.get(f"/v1/schedules/{name}/next").ok(200)["items"]) == 5
    assert ticks[0]["tick"] == admin.get(f"/v1/schedules/{name}").ok(200)["next_at"]
    for before, after in zip(ticks, ticks[1:]):
        assert instant(before["tick"]) < instant(after["tick"])
    for tick in ticks:
        assert instant(tick["tick"]).weekday() < 5
        assert 0 <= (instant(tick["at"]) - instant(tick["tick"])).total_seconds() <= 600
    assert len({instant(tick["at"]) - instant(tick["tick"]) for tick in ticks}) > 1
    admin.get(f"/v1/schedules/{name}/next", count=0).refused(400, "invalid_request")
    admin.get("/v1/schedules/none/next").refused(404, "not_found")


def test_a_schedule_rests_until_it_is_resumed(admin):
    name = put_schedule(admin, admin.agent(), every="1s", overlap="allow")["name"]

    told = admin.post(f"/v1/schedules/{name}/pause").ok(200)
    assert (told["enabled"], told["next_at"]) == (False, None)
    assert admin.get(f"/v1/schedules/{name}/next").ok(200)["items"] == []
    fired = admin.get(f"/v1/schedules/{name}").ok(200)["fired"]
    time.sleep(2.2)
    assert admin.get(f"/v1/schedules/{name}").ok(200)["fired"] == fired

    told = admin.post(f"/v1/schedules/{name}/resume", idempotency="once").ok(200)
    assert told["enabled"] and told["next_at"]
    eventually(lambda: admin.get(f"/v1/schedules/{name}").ok(200)["fired"] > fired)
    assert admin.get(f"/v1/schedules/{name}").ok(200)["skipped"] == 0, "what was due during the rest is not made up for"
    admin.post(f"/v1/schedules/{name}/pause").ok(200)
    for what in ("pause", "resume"):
        admin.post(f"/v1/schedules/none/{what}").refused(404, "not_found")


# ---- what was -----------------------------------------------------------------------------------------------------

def test_what_became_of_every_tick_is_told_newest_first(admin):
    agent = admin.agent(max_concurrent_runs=1)
    name = put_schedule(admin, agent, every="1s", overlap="skip")["name"]
    first = eventually(lambda: admin.get("/v1/runs", agent=agent, status="starting").ok(200)["items"])[0]
    eventually(lambda: admin.get(f"/v1/schedules/{name}").ok(200)["skipped"] >= 2)
    admin.post(f"/v1/schedules/{name}/pause").ok(200)
    waiting = admin.post(f"/v1/schedules/{name}/wake").ok(201)
    admin.post(f"/v1/schedules/{name}/wake").ok(201)

    told = admin.get(f"/v1/schedules/{name}/history").ok(200)

    assert told["next"] is None
    joined, woken, *skipped, fired = told["items"]
    assert (joined["outcome"], joined["run"], joined["late_ms"]) == ("coalesced", waiting["run"], 0)
    assert (woken["outcome"], woken["run"], woken["run_status"]) == ("fired", waiting["run"], "queued")
    assert (fired["outcome"], fired["run"], fired["run_status"]) == ("fired", first["id"], "starting")
    assert 0 <= fired["late_ms"] < 10_000 and 0 <= woken["late_ms"] < 10_000
    assert len(skipped) >= 2
    for one in skipped:
        assert (one["outcome"], one["run"], one["reason"]) == ("skipped", None, "the previous run has not ended")

    admin.finish(first, outcome="failed").ok(200)
    assert admin.get(f"/v1/schedules/{name}/history").ok(200)["items"][-1]["run_status"] == "failed"


def test_history_comes_in_pages_and_begins_with_the_schedule(admin):
    agent = admin.agent(max_concurrent_runs=100)
    name = put_schedule(admin, agent, every="1d", overlap="allow")["name"]
    for _ in range(7):
        admin.post(f"/v1/schedules/{name}/wake").ok(201)
        admin.post("/v1/charges", {"agent": agent, "cost": "0.01"}).ok(201)

    whole = admin.get(f"/v1/schedules/{name}/history").ok(200)["items"]
    assert len(whole) == 7 and [one["number"] for one in whole] == list(range(7, 0, -1))
    for limit in (1, 2, 3, 7):
        assert admin.items(f"/v1/schedules/{name}/history", limit=limit) == whole

    admin.delete(f"/v1/schedules/{name}").ok(204)
    admin.get(f"/v1/schedules/{name}/history").refused(404, "not_found")
    admin.put(f"/v1/schedules/{name}", {"agent": agent, "every": "1d"}).ok(200)
    assert admin.get(f"/v1/schedules/{name}/history").ok(200)["items"] == []


def test_events_of_one_commit_are_told_apart(server):
    """Many wakes at once share a page of the feed; none is told twice or lost between the pages of an answer."""
    from concurrent.futures import ThreadPoolExecutor

    admin = server.admin
    agent = admin.agent(max_concurrent_runs=1000)
    name = put_schedule(admin, agent, every="1d", overlap="allow")["name"]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: admin.post(f"/v1/schedules/{name}/wake").ok(201), range(100)))

    numbers = [one["number"] for one in admin.items(f"/v1/schedules/{name}/history", limit=7)]

    assert numbers == list(range(100, 0, -1))


# ---- the command --------------------------------------------------------------------------------------------------

def test_the_commands(server, interlock):
    def run(*words):
        done = interlock(*words, "--data-dir", server.data)
        assert done.returncode == 0, done.stderr
        return done.stdout

    agent, name = fresh("agent"), fresh("schedule")
    shown = run("agents", "put", agent, "--workspace", interlock.scratch, "--env", "A=b", "--limit", "nofile=64",
                "--timeout", "30m", "--max-attempts", "3", "--backoff", "1m", "--writable", interlock.scratch, "--sandbox")
    assert f"workspace     {interlock.scratch}" in shown and "timeout       30 min" in shown, shown
    assert server.admin.get(f"/v1/agents/{agent}").ok(200)["retry"] == {
        "tries": 3, "max_attempts": 3, "backoff_s": 60, "backoff_max_s": 600}

    run("schedules", "put", name, "--agent", agent, "--every", "2h")
    assert len(run("schedules", "next", name, "--count", "3").splitlines()) == 4
    run("schedules", "wake", name, "--idempotency-key", "one")
    run("schedules", "wake", name, "--idempotency-key", "one")
    history = run("schedules", "history", name)
    assert "OUTCOME" in history and history.count("fired") == 1, history
    assert "enabled" not in run("schedules", "pause", name)
    assert run("schedules", "next", name) == ""
    assert "enabled" in run("schedules", "resume", name)
