"""What the server says of its own accord: what somebody should look at, how it finds itself, what its last check found."""

import json
import os
import sqlite3
import subprocess
import time

import pytest

from interlock_server import ON_POSTGRES, Server, eventually, fresh

pytestmark = pytest.mark.seconds_max(60)


@pytest.fixture
def cli(binary, server):
    """The command line against the server: what it prints on its two streams."""
    def run(*words, code=0, of=None):
        done = subprocess.run([binary, *map(str, words), "--data-dir", str((of or server).data)], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "300"})
        assert done.returncode == code, done
        return done.stdout + done.stderr

    return run


def incidents(client, subject=None):
    found = client.get("/v1/incidents").ok(200)["items"]
    return [item for item in found if subject in (None, item["subject"])]


def levels(items):
    return [("stop", "warn", "note").index(item["level"]) for item in items]


# ---- incidents ----------------------------------------------------------------------------------------------------

def test_where_nothing_is_wrong_there_is_nothing_to_look_at(binary, tmp_path, cli):
    with Server(binary, tmp_path) as server:
        assert server.admin.get("/v1/incidents").ok(200) == {"items": []}
        assert "No incidents." in cli("incidents", of=server)


def test_a_budget_warns_and_is_then_used_up_until_it_is_raised(admin):
    agent = admin.agent()
    budget = admin.budget("1.00", scope={"agent": agent}, warn=[50, 80])
    assert incidents(admin, budget) == []

    admin.post("/v1/charges", {"agent": agent, "cost": "0.60"}).ok(201)
    warned, = incidents(admin, budget)
    assert (warned["kind"], warned["level"]) == ("budget_warned", "warn") and "50 %" in warned["title"]
    assert "0.60 of 1.00 dollars" in warned["detail"]
    admin.put(f"/v1/budgets/{budget}/limit", {"limit": "2.00"}).ok(200)
    assert incidents(admin, budget) == []
    admin.put(f"/v1/budgets/{budget}/limit", {"limit": "1.00"}).ok(200)
    assert incidents(admin, budget) == [warned]

    admin.post("/v1/charges", {"agent": agent, "cost": "0.40"}).ok(201)
    used_up, = incidents(admin, budget)
    assert (used_up["kind"], used_up["level"], used_up["count"]) == ("budget_exhausted", "stop", 1)
    assert used_up["command"] == f"interlock budgets limit {budget} AMOUNT"

    admin.put(f"/v1/budgets/{budget}/limit", {"limit": "10.00"}).ok(200)
    assert incidents(admin, budget) == []
    admin.delete(f"/v1/budgets/{budget}").ok(204)
    assert incidents(admin, budget) == []


def test_a_soft_budget_that_is_used_up_stops_nothing(admin):
    agent = admin.agent()
    budget = admin.budget("3", scope={"agent": agent}, metric="calls", hard=False)
    for _ in range(4):
        admin.post("/v1/charges", {"agent": agent, "cost": "0.01"}).ok(201)

    found, = incidents(admin, budget)
    assert (found["kind"], found["level"]) == ("budget_exhausted", "warn") and "4 of 3 calls;" in found["detail"]


def test_a_frozen_budget_is_told_until_somebody_has_looked(admin):
    agent = admin.agent()
    budget = admin.budget("1.00", scope={"agent": agent})
    hold = admin.post("/v1/holds", {"agent": agent, "amount": "0.50", "dispatched": True}).ok(201)["id"]
    admin.post(f"/v1/holds/{hold}/settle", {"cost": "1.50"}).ok(200)

    frozen, = incidents(admin, budget)
    assert (frozen["kind"], frozen["level"]) == ("budget_frozen", "stop") and frozen["detail"]
    assert frozen["command"] == f"interlock budgets unfreeze {budget}"

    admin.post(f"/v1/budgets/{budget}/unfreeze").ok(200)
    assert [item["kind"] for item in incidents(admin, budget)] == ["budget_exhausted"]


def test_a_budget_that_was_meant_to_give_nothing_is_not_used_up(admin):
    agent = admin.agent()
    budget = admin.budget("0.00", scope={"agent": agent})
    admin.post("/v1/charges", {"agent": agent, "cost": "0.01"}).refused(402, "budget_exceeded")

    assert incidents(admin, budget) == []


def test_a_paused_agent_is_there_until_it_is_resumed(admin):
    agent = admin.agent()
    admin.post(f"/v1/agents/{agent}/pause", {"reason": "a look at the last run"}).ok(200)

    paused, = incidents(admin, agent)
    assert (paused["kind"], paused["level"], paused["detail"]) == ("agent_paused", "note", "a look at the last run")
    assert paused["since"] and paused["command"] == f"interlock agents resume {agent}"

    admin.post(f"/v1/agents/{agent}/resume").ok(200)
    assert incidents(admin, agent) == []


def test_an_agent_that_a_budget_paused_is_more_than_a_note(admin):
    agent = admin.agent()
    admin.budget("1.00", scope={"agent": agent}, on_exhausted="pause_agent")
    admin.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)

    paused, = incidents(admin, agent)
    assert (paused["kind"], paused["level"]) == ("agent_paused", "warn")


def test_runs_that_did_not_end_well_are_told_once_for_their_agent(admin):
    agent = admin.agent(max_concurrent_runs=9)
    for outcome, reason in (("failed", "exit status 1"), ("timed_out", ""), ("succeeded", ""), ("failed", "exit status 2")):
        admin.finish(admin.run(agent), outcome=outcome, reason=reason).ok(200)

    failed, = incidents(admin, agent)

    assert (failed["kind"], failed["level"], failed["count"]) == ("runs_failed", "warn", 3)
    assert failed["detail"] == "2 failed, 1 timed out; the last: exit status 2" and failed["since"]


def test_the_worst_come_first_and_the_command_line_shows_what_helps(admin, cli):
    agent, other = admin.agent(), admin.agent()
    budget = admin.budget("1.00", scope={"agent": agent})
    admin.finish(admin.run(agent), outcome="failed").ok(200)
    admin.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)
    admin.post(f"/v1/agents/{other}/pause").ok(200)

    found = incidents(admin)

    assert levels(found) == sorted(levels(found)) and {item["level"] for item in found} == {"stop", "warn", "note"}
    shown = cli("incidents")
    assert f"interlock budgets limit {budget} AMOUNT" in shown
    assert shown.index(f"budget '{budget}' is exhausted") < shown.index(f"agent '{other}' is paused")
    assert json.loads(cli("incidents", "--json"))["items"][0]["level"] == "stop"


def test_incidents_are_an_orgs_own_and_not_for_bound_keys(admin):
    agent = admin.agent()
    admin.post(f"/v1/agents/{agent}/pause").ok(200)
    made = admin.post("/v1/orgs", {"name": fresh("org")}).ok(201)

    assert admin.with_key(made["key"]).get("/v1/incidents").ok(200) == {"items": []}
    assert admin.make_key("read").get("/v1/incidents").ok(200)["items"]
    admin.make_key("read", agent=agent).get("/v1/incidents").refused(403, "forbidden")
    admin.get("/v1/incidents", level="stop").refused(400, "invalid_request")


@pytest.mark.skipif(ON_POSTGRES, reason="the clock of a run is set back in the embedded store's file")
def test_a_run_that_waits_for_long_is_told(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        server.admin.run(agent)
        waiting = [server.admin.run(agent, on_conflict="queue")["id"] for _ in range(3)]
        assert incidents(server.admin) == []
        server.terminate()

        earlier = int((time.time() - 1200) * 1000)
        with sqlite3.connect(server.data / "interlock.db") as store:
            # Two of them began twenty minutes ago, by their ids too; one of the two is not yet to begin.
            rows = store.execute("select id from runs where state = 'queued' order by id").fetchall()
            for (id,), not_before in zip(rows, (0, int(time.time() * 1e6))):
                made = (earlier << 80).to_bytes(16, "big")[:6] + id[6:]
                store.execute("update runs set id = ?, run = ?, created_at = ?, not_before = ? where id = ?",
                              (made, made, earlier * 1000, not_before, id))
        store.close()
        server.start()

        found, = incidents(server.admin)
        assert (found["kind"], found["level"], found["count"]) == ("run_waiting", "warn", 1)
        assert found["subject"].startswith("run_") and found["subject"] not in waiting
        assert server.admin.get(f"/v1/runs/{found['subject']}").ok(200)["status"] == "queued"


# ---- the last check -----------------------------------------------------------------------------------------------

def test_what_the_last_check_found_is_kept_with_its_time(binary, tmp_path, cli):
    with Server(binary, tmp_path) as server:
        assert server.admin.get("/v1/verify/last").ok(200) == {"at": None, "report": None}
        assert "not verified since" in cli("verify", "--last", of=server)

        report = server.admin.get("/v1/verify").ok(200)
        last = server.admin.get("/v1/verify/last").ok(200)
        assert last["report"] == report and report["ok"] and last["at"]
        assert "every guarantee held" in cli("verify", "--last", of=server)


@pytest.mark.skipif(ON_POSTGRES, reason="a row of the embedded store is broken in its file")
def test_a_broken_promise_is_the_worst_incident_and_the_doctor_says_so_too(binary, tmp_path, cli):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        server.admin.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)
        server.terminate()
        with sqlite3.connect(server.data / "interlock.db") as store:
            store.execute("update agent_totals set settled = settled + 1")
        store.close()
        server.start()
        server.admin.post(f"/v1/agents/{agent}/pause").ok(200)
        assert [item["kind"] for item in incidents(server.admin)] == ["agent_paused"], "nobody has looked yet"

        assert not server.admin.get("/v1/verify").ok(200)["ok"]

        broken, *rest = incidents(server.admin)
        assert (broken["kind"], broken["level"], broken["command"]) == ("promise_broken", "stop", "interlock verify")
        assert broken["count"] >= 1 and "promise_broken" not in {item["kind"] for item in rest}
        doctor = server.admin.get("/v1/doctor").ok(200)
        assert not doctor["ok"] and "promises" in [item["what"] for item in doctor["items"] if item["level"] == "fail"]
        assert "fail  promises" in cli("doctor", of=server, code=1)
        assert "FAILED" in cli("verify", "--last", of=server, code=1)
        org = server.admin.with_key(server.admin.post("/v1/orgs", {"name": "other"}).ok(201)["key"])
        assert org.get("/v1/incidents").ok(200) == {"items": []}


# ---- the doctor ---------------------------------------------------------------------------------------------------

def test_the_server_looks_at_itself(server, admin):
    found = admin.get("/v1/doctor").ok(200)

    by_name = {item["what"]: item for item in found["items"]}
    assert set(by_name) == {"store", "clock", "disk space", "open files", "memory", "sandbox", "guarded", "files", "sealed",
                            "upstreams", "price list", "promises", "version"}
    assert len(by_name) == len(found["items"])
    assert by_name["store"]["level"] == "ok" and by_name["version"]["detail"] == admin.get("/v1/status").ok(200)["version"]
    assert str(server.data) in by_name["disk space"]["detail"]
    assert found["ok"] == all(item["level"] != "fail" for item in found["items"])
    for item in found["items"]:
        assert set(item) == {"level", "what", "detail", "do"} and item["detail"]
        assert bool(item["do"]) == (item["level"] != "ok"), item


def test_an_upstream_whose_key_is_not_there_is_found(admin):
    name = fresh("upstream")
    admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "key": {"env": "NOBODY_HAS_SET_THIS"}}).ok(200)
    try:
        found, = [item for item in admin.get("/v1/doctor").ok(200)["items"] if item["what"] == "upstreams"]
        assert found["level"] == "fail" and name in found["detail"] and found["do"]
    finally:
        admin.delete(f"/v1/upstreams/{name}").ok(204)


def test_the_doctor_at_the_command_line_has_every_check_once(admin, cli):
    eventually(lambda: admin.get("/v1/doctor").ok(200)["ok"])
    checks = json.loads(cli("doctor", "--json"))["checks"]

    names = [check["what"] for check in checks]
    assert len(names) == len(set(names))
    assert {"data directory", "admin key", "server", "version", "clock", "store", "disk space", "open files", "price list",
            "promises"} <= set(names)
