"""What a key can do to money: holds of others, amounts that cannot be, late settlements, corrections, a run's account."""

import contextlib
import json
import shutil
import sqlite3
import subprocess
import threading
from decimal import Decimal

import pytest

from gateway_lab import CHAT
from interlock_server import ON_POSTGRES, Server, eventually

CALL = "output=50;delay_ms=1500"


class Call(threading.Thread):
    """A call to a model that is under way: `hold` is its hold. finish() returns the answer."""

    def __init__(self, lab, key, script=CALL, headers=None):
        super().__init__()
        self.lab, self.key, self.script, self.headers, self.answer = lab, key, script, headers, None
        before = {hold["id"] for hold in lab.admin.items("/v1/holds")}
        self.start()
        self.hold = eventually(lambda: next(
            (hold["id"] for hold in lab.admin.items("/v1/holds") if hold["id"] not in before), None))

    def run(self):
        self.answer = self.lab.call(CHAT, self.script, self.key, headers=self.headers)

    def finish(self):
        self.join(30)
        return self.answer.ok()

    def cost(self):
        return Decimal(self.answer.headers["x-interlock-cost"])


def settled(lab, budget):
    return Decimal(lab.admin.get(f"/v1/budgets/{budget}").ok()["settled"])


def charged(lab, **query):
    return sum(Decimal(event["cost"]) for event in lab.admin.items("/v1/charges", **query))


# ---- who ends a hold -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end, body", [("settle", {"cost": "0"}), ("release", {}), ("extend", {"ttl_s": 86400})])
def test_the_hold_of_a_model_call_is_ended_by_the_gateway_alone(lab, end, body):
    key = lab.agent_key("5.00")
    unbound = lab.admin.make_key("agent")
    call = Call(lab, key)

    for other in (key, unbound, lab.agent_key(agent=key.agent)):
        other.post(f"/v1/holds/{call.hold}/{end}", body).refused(403, "not_your_hold")

    call.finish()
    eventually(lambda: settled(lab, key.budget) == call.cost() > 0)
    assert lab.admin.get(f"/v1/holds/{call.hold}").ok()["opened_by"] == "gateway"


def test_the_key_of_a_run_does_not_end_the_hold_of_its_call(lab):
    agent = lab.admin.agent()
    run = lab.admin.run(agent, lease_s=600)
    key = lab.admin.make_key("agent", run=run["id"])
    call = Call(lab, key)
    key.post(f"/v1/holds/{call.hold}/settle", {"cost": "0"}).refused(403, "not_your_hold")
    call.finish()
    eventually(lambda: charged(lab, run=run["id"]) == call.cost() > 0)


def test_a_hold_is_ended_by_the_key_that_opened_it_or_an_operator(lab):
    agent = lab.admin.agent()
    one, other = (lab.admin.make_key("agent", agent=agent) for _ in range(2))
    hold = one.post("/v1/holds", {"agent": agent, "amount": "0.50"}).ok(201)["id"]
    for end, body in (("settle", {"cost": "0"}), ("release", {}), ("extend", {})):
        problem = other.post(f"/v1/holds/{hold}/{end}", body).refused(403, "not_your_hold")
    one.post(f"/v1/holds/{hold}/extend", {"ttl_s": 90}).ok(200)
    one.post(f"/v1/holds/{hold}/settle", {"cost": "0.25"}).ok(200)
    hold = one.post("/v1/holds", {"agent": agent, "amount": "0.50"}).ok(201)["id"]
    lab.admin.make_key("operator").post(f"/v1/holds/{hold}/release", {}).ok(200)


def test_another_key_of_the_agent_takes_over_when_the_first_was_revoked(lab):
    agent = lab.admin.agent()
    first, next_one = (lab.admin.make_key("agent", agent=agent) for _ in range(2))
    stranger = lab.admin.make_key("agent", agent=lab.admin.agent())
    hold = first.post("/v1/holds", {"agent": agent, "amount": "0.50"}).ok(201)["id"]
    lab.admin.delete(f"/v1/keys/{first.key_id}").ok()
    stranger.post(f"/v1/holds/{hold}/release", {}).refused(404, "not_found")
    lab.admin.make_key("agent").post(f"/v1/holds/{hold}/release", {}).refused(403, "not_your_hold")
    next_one.post(f"/v1/holds/{hold}/settle", {"cost": "0.10"}).ok(200)


# ---- a known cost is never dropped ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens, frozen", [("output=50", False), ("output=50;input=90000", True)])
def test_a_call_that_ends_after_its_run_is_booked_as_it_was(lab, tokens, frozen):
    key = lab.agent_key("5.00")
    run = lab.admin.run(key.agent, lease_s=600)
    call = Call(lab, key, f"{tokens};delay_ms=1500", {"x-interlock-run": run["id"]})
    lab.admin.finish(run, outcome="succeeded").ok(200)

    call.finish()

    eventually(lambda: charged(lab, run=run["id"]) == call.cost() > 0)
    first, second = lab.admin.items("/v1/charges", run=run["id"])
    assert first["estimated"] and first["corrects"] is None
    assert second["corrects"] == first["id"] and second["hold"] == call.hold and not second["estimated"]
    assert settled(lab, key.budget) == Decimal(lab.admin.get(f"/v1/runs/{run['id']}").ok()["spent"])
    assert bool(lab.admin.get(f"/v1/budgets/{key.budget}").ok()["frozen"]) == frozen


def test_what_an_operator_released_meanwhile_is_booked_whole(lab):
    key = lab.agent_key("5.00")
    call = Call(lab, key)
    lab.admin.post(f"/v1/holds/{call.hold}/release", {}).ok(200)
    call.finish()
    eventually(lambda: settled(lab, key.budget) == call.cost() > 0)


@pytest.mark.skipif(ON_POSTGRES, reason="edits a file")
def test_verify_names_a_metered_call_that_is_not_in_the_ledger(binary, lab, tmp_path):
    key = lab.agent_key("5.00")
    answer = lab.call(CHAT, "output=50", key).ok()
    call = lab.row(answer)["id"]
    eventually(lambda: settled(lab, key.budget) > 0)
    copy = tmp_path / "copy.db"
    lab.command("backup", str(copy))
    data = tmp_path / "data"
    data.mkdir(0o700)
    shutil.move(copy, data / "interlock.db")
    with contextlib.closing(sqlite3.connect(data / "interlock.db")) as db:
        db.execute("update model_calls set cost = cost + 1 where status = 200")
        db.commit()
    done = subprocess.run([binary, "verify", "--data-dir", str(data), "--json"], capture_output=True, text=True)
    assert done.returncode != 0 and "the ledger has" in done.stdout, done.stdout + done.stderr


# ---- no event closes the ledger for others -------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"cost": "4611686018.4"}, {"cost": "1000000.000000001"},
                                  {"cost": "0", "usage": {"input_tokens": 4611686018427387903}}])
def test_a_charge_that_cannot_be_is_refused_for_its_sender_alone(lab, body):
    key = lab.agent_key("0.01")
    key.post("/v1/charges", {"agent": key.agent, "incurred": True, **body}).refused(422, "amount_too_large")
    other = lab.agent_key()
    other.post("/v1/charges", {"agent": other.agent, "cost": "0.10"}).ok(201)
    lab.call(CHAT, "output=1", other).ok()


@pytest.mark.parametrize("body", [{"amount": "4611686018"}, {"tokens": 4611686018427387903}])
def test_a_hold_that_cannot_be_is_refused_for_its_sender_alone(lab, body):
    key, other = lab.agent_key(), lab.agent_key()
    key.post("/v1/holds", {"agent": key.agent, "ttl_s": 86400, **body}).refused(422, "amount_too_large")
    hold = other.post("/v1/holds", {"agent": other.agent, "amount": "1.00"}).ok(201)["id"]
    other.post(f"/v1/holds/{hold}/release", {}).ok(200)


def test_many_of_the_largest_charges_lead_to_no_refusal_of_others(server):
    """The sum of what one key charges passes what a counter can say."""
    agent, other = server.admin.agent(), server.admin.agent()
    key = server.admin.make_key("agent", agent=agent)
    budget = server.admin.budget("100.00", hard=False)
    batch = [{"agent": agent, "cost": "1000000", "incurred": True} for _ in range(5000)]
    assert key.post("/v1/charges", batch).ok(200)["charged"] == 5000
    server.admin.post("/v1/charges", {"agent": other, "cost": "0.10"}).ok(201)
    hold = server.admin.post("/v1/holds", {"agent": other, "amount": "1.00"}).ok(201)["id"]
    server.admin.post(f"/v1/holds/{hold}/settle", {"cost": "1.50"}).ok(200)
    assert Decimal(server.admin.get(f"/v1/budgets/{budget}").ok()["settled"]) == 2_000_000_000
    server.admin.delete(f"/v1/budgets/{budget}").ok()
    server.verify()


# ---- corrections ---------------------------------------------------------------------------------------------------


def test_an_operator_corrects_a_charge_and_every_counter_follows(server):
    agent = server.admin.agent()
    budget = server.admin.budget("10.00", scope={"agent": agent})
    charge = server.admin.post("/v1/charges", {"agent": agent, "cost": "50.00", "incurred": True}).ok(201)
    assert server.admin.get(f"/v1/budgets/{budget}").ok()["frozen"]
    name = server.admin.items("/v1/charges", agent=agent)[0]["id"]
    operator = server.admin.make_key("operator")

    done = operator.post(f"/v1/charges/{charge['seq']}/correct", {"to": "0.50", "why": "dollars for cents"},
                         idempotency="fix-1").ok(201)

    assert Decimal(done["cost"]) == Decimal("-49.50") and done["corrects"] == name and not done["repeated"]
    again = operator.post(f"/v1/charges/{name}/correct", {"to": "0.50", "why": "dollars for cents"}, idempotency="fix-1")
    assert again.ok(201)["repeated"]
    found = server.admin.get(f"/v1/budgets/{budget}").ok()
    assert Decimal(found["settled"]) == Decimal("0.50") and found["frozen"], "it unfreezes nothing"
    events = server.admin.items("/v1/charges", agent=agent)
    assert [Decimal(event["cost"]) for event in events] == [Decimal("50"), Decimal("-49.50")]
    assert events[1]["corrects"] == name and events[1]["why"] == "dollars for cents"
    told = [event for event in server.admin.get("/v1/events", after=done["seq"] - 1, limit=10).ok()["items"]
            if event["type"] == "charge_corrected"]
    assert told and Decimal(told[-1]["data"]["cost"]) == Decimal("0.50")
    operator.post(f"/v1/charges/{name}/correct", {"to": "0", "why": "all of it"}).ok(201)
    assert Decimal(server.admin.get(f"/v1/agents/{agent}").ok()["spent"]) == 0
    server.verify()


def test_a_correction_only_lowers_and_wants_an_operator(server):
    agent = server.admin.agent()
    key = server.admin.make_key("agent", agent=agent)
    seq = key.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)["seq"]
    key.post(f"/v1/charges/{seq}/correct", {"to": "0", "why": "x"}).refused(403, "forbidden")
    correct = lambda to, why="x", event=seq: server.admin.post(f"/v1/charges/{event}/correct", {"to": to, "why": why})
    correct("1.00").refused(409, "not_lower")
    correct("2.00").refused(409, "not_lower")
    correct("-0.01").refused(400, "invalid_request")
    correct("0.50", why="").refused(400, "invalid_request")
    correct("0.50", event=seq + 1_000_000).refused(404, "not_found")
    correct("0.50", event="nonsense").refused(404, "not_found")
    correction = correct("0.50").ok(201)["seq"]
    correct("0.10", event=correction).refused(400, "invalid_request")
    correct("0.50").refused(409, "not_lower")


def test_the_command_line_corrects_a_charge(server, binary):
    agent = server.admin.agent()
    seq = server.admin.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)["seq"]
    env = {"INTERLOCK_URL": "http://%s:%d" % server.address, "INTERLOCK_KEY": server.admin.key}
    done = subprocess.run([binary, "charges", "correct", str(seq), "--to", "0.25", "--why", "a typo", "--json"],
                          capture_output=True, text=True, env=env, timeout=20)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cost"] == "-0.75"
    assert Decimal(server.admin.get(f"/v1/agents/{agent}").ok()["spent"]) == Decimal("0.25")


# ---- what a run was started under it cannot leave ------------------------------------------------------------------


def test_a_request_of_a_run_does_not_leave_the_runs_workflow_tags_and_session(lab):
    agent = lab.admin.agent()
    session, elsewhere = lab.admin.session(agent=agent), lab.admin.session(agent=agent)
    run = lab.admin.run(agent, workflow="night", tags={"team": "blue"}, session=session, lease_s=3600)
    key = lab.admin.make_key("agent", run=run["id"])
    away = {"x-interlock-workflow": "day", "x-interlock-tags": "team=red,more=1", "x-interlock-session": elsewhere}
    for scope in ({"workflow": "night"}, {"tags": {"team": "blue"}}, {"session": session}):
        with lab.budgeted("0.000001", scope):
            assert lab.call(CHAT, "output=5", key, headers=away).status == 402, scope
            charge = {"agent": agent, "cost": "3.00", "workflow": "day", "tags": {"team": "red"}}
            key.post("/v1/charges", charge).refused(402, "budget_exceeded")
            key.post("/v1/charges", {**charge, "session": elsewhere}).refused(404, "not_found")
    lab.call(CHAT, "output=5", key, headers=away).ok()
    event = eventually(lambda: lab.admin.items("/v1/charges", run=run["id"]))[0]
    assert (event["workflow"], event["session"]) == ("night", session)
    assert event["tags"]["team"] == "blue" and event["tags"]["more"] == "1"
