"""Agents, budgets, charges, holds and spend over HTTP."""

import datetime
import itertools
import zoneinfo
from decimal import Decimal

import pytest

from interlock_server import Server, eventually, fresh

pytestmark = pytest.mark.seconds_max(30)

USAGE = {"input_tokens": 100, "output_tokens": 30, "cache_read_tokens": 7, "cache_write_5m_tokens": 5,
         "cache_write_1h_tokens": 3, "reasoning_tokens": 11}


def charge(client, agent, cost="0.00075", **body):
    return client.post("/v1/charges", {"agent": agent, "cost": cost, **body})


def hold(client, agent, amount="0.25", **body):
    return client.post("/v1/holds", {"agent": agent, "amount": amount, **body})


def shown(client, budget):
    return client.get(f"/v1/budgets/{budget}").ok(200)


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# ---- agents -------------------------------------------------------------------------------------------------------

def test_an_agent_is_made_with_defaults_and_shown_whole(admin):
    name = fresh("agent")

    made = admin.put(f"/v1/agents/{name}").ok(200, 201)

    assert made == admin.get(f"/v1/agents/{name}").ok(200)
    created = instant(made.pop("created_at"))
    assert abs((datetime.datetime.now(datetime.timezone.utc) - created).total_seconds()) < 60
    assert made == {"name": name, "state": "active", "max_concurrent_runs": 1, "command": [], "tags": {}, "pauses": [],
                    "provider": "", "capture": "usage", "workspace": "", "roots": [], "child_agents": [], "mode": "write", "on_conflict": "queue",
                    "isolate": False, "resources": [], "env": {}, "pass_env": [], "timeout_s": 0, "grace_s": 10, "nice": 0, "limits": {},
                    "sandbox": False, "sandbox_level": "server_default", "writable": [], "readable": [], "allowed_hosts": [], "adapter": "", "setup": "", "teardown": "",
                    "retry": {"tries": 1, "max_attempts": 1, "backoff_s": 10, "backoff_max_s": 600},
                    "spent": "0.00", "tokens": 0, "events": 0, "last_event_at": None, "live_runs": 0, "queued_runs": 0}


def test_the_same_request_creates_an_agent_and_changes_it(admin):
    name, body = fresh("agent"), {"max_concurrent_runs": 2, "command": ["claude", "-p", "x y"], "tags": {"team": "é"}}

    assert admin.put(f"/v1/agents/{name}").status == 200
    changed = admin.put(f"/v1/agents/{name}", body)

    assert changed.status == 200
    assert {member: changed.json()[member] for member in body} == body


def test_pauses_are_told_with_their_reason_and_stop_what_is_new(admin):
    agent = admin.agent()

    paused = admin.post(f"/v1/agents/{agent}/pause", {"reason": "a review"}).ok(200)
    assert paused["state"] == "paused"
    pause, = paused["pauses"]
    assert pause["reason"] == "a review" and pause["by"] == "operator" and pause["until"] is None and pause["since"]
    admin.post("/v1/runs", {"agent": agent}).refused(409, "agent_paused")
    hold(admin, agent).refused(409, "agent_paused")

    assert admin.post(f"/v1/agents/{agent}/resume").ok(200)["state"] == "active"
    admin.run(agent)


def test_an_archived_agent_leaves_the_list_and_keeps_its_history(admin):
    agent = admin.agent()
    run = admin.run(agent)
    charge(admin, agent).ok(201)

    admin.delete(f"/v1/agents/{agent}").refused(409, "has_unfinished_runs")
    admin.finish(run).ok(200)
    assert admin.delete(f"/v1/agents/{agent}").ok(204) is None

    listed = {each["name"] for each in admin.items("/v1/agents")}
    everyone = {each["name"] for each in admin.items("/v1/agents", archived="true")}
    assert agent not in listed and agent in everyone
    assert agent not in {each["name"] for each in admin.items("/v1/agents", archived="false")}
    assert admin.get(f"/v1/agents/{agent}").ok(200)["state"] == "archived"
    assert admin.get(f"/v1/agents/{agent}").ok(200)["spent"] == "0.00075"
    assert charge(admin, agent).refused(404, "not_found")["what"] == "agent"


@pytest.mark.parametrize("body, pointer", [
    ({"max_concurrent_runs": -1}, "/max_concurrent_runs"), ({"max_concurrent_runs": "2"}, "/max_concurrent_runs"),
    ({"max_concurrent_runs": 1.5}, "/max_concurrent_runs"), ({"max_concurrent_runs": 10**30}, "/max_concurrent_runs"),
    ({"command": "claude"}, "/command"), ({"command": [1]}, "/command/0"), ({"tags": []}, "/tags"),
    ({"tags": {"a": 1}}, "/tags/a"), ({"size": 1}, "/size"),
])
def test_an_agent_that_makes_no_sense_is_refused_and_the_member_is_named(admin, body, pointer):
    admin.put(f"/v1/agents/{fresh('agent')}", body).refused(400, "invalid_request", pointer)


@pytest.mark.parametrize("name", ["-x", ".x", "a%20b", "a%2Fb", "%C3%A9", "x" * 129, "a%00b", "a%0Ab", "%ff"])
def test_a_name_that_is_none_is_refused(admin, name):
    assert admin.put(f"/v1/agents/{name}").status == 400


def test_what_is_not_there_is_not_found_and_named(admin):
    for path, what in (("agents/nobody", "agent"), ("budgets/none", "budget"), ("schedules/none", "schedule"),
                       ("runs/run_0", "run"), ("sessions/ses_0", "session"), ("holds/hold_0", "hold")):
        problem = admin.get(f"/v1/{path}").refused(404, "not_found")
        assert problem["what"] == what and problem["name"] == path.split("/")[1]
    charge(admin, "nobody").refused(404, "not_found")
    hold(admin, "nobody").refused(404, "not_found")
    admin.post("/v1/runs", {"agent": "nobody"}).refused(404, "not_found")
    for path in ("agents/nobody", "budgets/none", "schedules/none"):
        admin.delete(f"/v1/{path}").refused(404, "not_found")
    for path in ("agents/nobody/pause", "agents/nobody/resume", "budgets/none/unfreeze", "schedules/none/wake"):
        admin.post(f"/v1/{path}").refused(404, "not_found")


def test_lists_come_in_pages_that_fit_together(admin):
    made = {admin.agent() for _ in range(5)}

    for limit in (1, 2, 1000):
        found = [agent["name"] for agent in admin.items("/v1/agents", limit=limit)]
        assert made <= set(found) and len(found) == len(set(found)) and found == sorted(found)


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "1.0", "99999999999999999999"])
def test_a_limit_out_of_bounds_is_refused(admin, limit):
    for path in ("agents", "budgets", "charges", "holds", "sessions", "runs", "schedules", "keys", "events"):
        admin.get(f"/v1/{path}", limit=limit).refused(400, "invalid_request")


@pytest.mark.parametrize("path", ["holds", "sessions", "runs", "charges"])
def test_a_cursor_that_is_none_is_refused(admin, path):
    admin.get(f"/v1/{path}", after="run_x!").refused(400, "invalid_request")


# ---- budgets ------------------------------------------------------------------------------------------------------

def test_a_budget_needs_only_a_limit_and_is_shown_whole(admin):
    name, agent = fresh("budget"), admin.agent()
    admin.put(f"/v1/budgets/{name}", {"limit": "10.00", "scope": {"agent": agent}}).ok(200, 201)

    budget = shown(admin, name)

    assert budget.pop("created_at") and budget.pop("window")["kind"] == "month"
    assert budget == {"name": name, "scope": {"agent": agent}, "metric": "usd", "timezone": "UTC", "limit": "10.00",
                      "hard": True, "warn": [], "on_exhausted": "refuse", "frozen": None, "settled": "0.00",
                      "held": "0.00", "free": "10.00", "open_holds": 0, "exhausted": False}
    assert name in {each["name"] for each in admin.items("/v1/budgets", limit=2)}


def window_of(kind, zone):
    """Begin and end of the window we are in, worked out a second time."""
    today = datetime.datetime.now(zone).date()
    if kind == "day":
        first, last = today, today + datetime.timedelta(days=1)
    elif kind == "week":
        first = today - datetime.timedelta(days=today.weekday())
        last = first + datetime.timedelta(days=7)
    else:
        first = today.replace(day=1)
        last = (first + datetime.timedelta(days=31)).replace(day=1)
    at_midnight = [datetime.datetime.combine(day, datetime.time(), zone) for day in (first, last)]
    return tuple(each.astimezone(datetime.timezone.utc) for each in at_midnight)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Kiritimati"])
@pytest.mark.parametrize("kind", ["day", "week", "month"])
def test_windows_begin_and_end_at_local_midnight(admin, kind, zone):
    name, agent = fresh("budget"), admin.agent()
    before = window_of(kind, zoneinfo.ZoneInfo(zone))
    body = {"limit": "1.00", "window": kind, "timezone": zone, "scope": {"agent": agent}}

    window = admin.put(f"/v1/budgets/{name}", body).ok()["window"]

    told = (instant(window["start"]), instant(window["end"]))
    assert told in (before, window_of(kind, zoneinfo.ZoneInfo(zone)))
    problem = charge(admin, agent, "2.00").refused(402, "budget_exceeded")
    assert instant(problem["window_end"]) == told[1]


def test_a_total_has_neither_begin_nor_end(admin):
    assert shown(admin, admin.budget("1.00", scope={"agent": admin.agent()}))["window"] == {
        "kind": "total", "start": None, "end": None}


@pytest.mark.parametrize("metric, limit, body, used", [
    ("usd", "1.00", {"cost": "0.4"}, "0.40"),
    ("tokens", "100", {"cost": "0.00", "usage": {"input_tokens": 30, "output_tokens": 10}}, "40"),
    ("tokens", 100, {"cost": "0.00", "usage": {"input_tokens": 30, "output_tokens": 10}}, "40"),
    ("calls", "5", {"cost": "0.00", "calls": 2}, "2"),
])
def test_each_metric_counts_its_own(admin, metric, limit, body, used):
    agent = admin.agent()
    name = admin.budget(limit, metric=metric, scope={"agent": agent})

    for _ in range(2):
        charge(admin, agent, **body).ok(201)
    problem = charge(admin, agent, **body).refused(402, "budget_exceeded")

    budget = shown(admin, name)
    assert Decimal(budget["settled"]) == 2 * Decimal(used) and Decimal(problem["requested"]) == Decimal(used)
    assert problem["metric"] == metric and problem["settled"] == budget["settled"] and problem["limit"] == budget["limit"]


def test_a_budget_of_runs_counts_admissions(admin):
    agent = admin.agent(max_concurrent_runs=9)
    name = admin.budget(2, metric="runs", scope={"agent": agent})

    runs = [admin.run(agent) for _ in range(2)]
    admin.post("/v1/runs", {"agent": agent}).refused(402, "budget_exceeded")
    for run in runs:
        admin.finish(run).ok(200)

    assert shown(admin, name)["settled"] == "2"
    admin.post("/v1/runs", {"agent": agent}).refused(402, "budget_exceeded")


def test_the_refusal_tells_everything_one_needs_to_go_on(admin):
    agent = admin.agent()
    name = admin.budget("1.00", window="day", scope={"agent": agent})
    charge(admin, agent, "0.5").ok(201)
    hold(admin, agent, "0.3").ok(201)

    problem = charge(admin, agent, "0.25").refused(402, "budget_exceeded")

    assert {member: problem[member] for member in ("budget", "metric", "limit", "settled", "held", "requested", "free",
                                                   "open_holds")} == {
        "budget": name, "metric": "usd", "limit": "1.00", "settled": "0.50", "held": "0.30", "requested": "0.25",
        "free": "0.20", "open_holds": 1}
    assert instant(problem["window_end"]) > datetime.datetime.now(datetime.timezone.utc)
    assert name in problem["detail"]
    charge(admin, agent, "0.2").ok(201)


def test_limits_can_be_raised_and_lowered_while_money_is_spent(admin):
    agent = admin.agent()
    name = admin.budget("1.00", scope={"agent": agent})
    body = {"window": "total", "scope": {"agent": agent}}
    charge(admin, agent, "1.00").ok(201)
    charge(admin, agent, "0.01").refused(402, "budget_exceeded")

    raised = admin.put(f"/v1/budgets/{name}", {**body, "limit": "1.01"}).ok(200)
    assert raised["free"] == "0.01" and raised["exhausted"] is False
    charge(admin, agent, "0.01").ok(201)

    lowered = admin.put(f"/v1/budgets/{name}", {**body, "limit": "0.50"}).ok(200)
    assert (lowered["limit"], lowered["settled"], lowered["free"]) == ("0.50", "1.01", "0.00")
    charge(admin, agent, "0.000000001").refused(402, "budget_exceeded")
    window, = admin.get(f"/v1/budgets/{name}/windows").ok(200)["items"]
    assert window["settled"] == "1.01" and window["limit"] == "0.50" and window["start"] is None


def test_the_shape_of_a_budget_is_fixed(admin):
    name, agent = fresh("budget"), admin.agent()
    body = {"limit": "1.00", "window": "day", "metric": "usd", "timezone": "UTC", "scope": {"agent": agent}}
    admin.put(f"/v1/budgets/{name}", body).ok()

    for change in ({"window": "week"}, {"metric": "tokens", "limit": 1}, {"timezone": "Asia/Tokyo"}, {"scope": {}}):
        admin.put(f"/v1/budgets/{name}", {**body, **change}).refused(409, "shape_is_fixed")


def test_a_new_budget_starts_from_what_was_already_spent(admin):
    agent = admin.agent()
    charge(admin, agent, "0.75", provider="p").ok(201)
    hold(admin, agent, "0.10", provider="p").ok(201)

    budget = shown(admin, admin.budget("1.00", scope={"agent": agent, "provider": "p"}))

    assert (budget["settled"], budget["held"], budget["free"]) == ("0.75", "0.10", "0.15")


@pytest.mark.parametrize("scope, inside, outside", [
    ({"workflow": "w"}, {"workflow": "w"}, {"workflow": "v"}),
    ({"provider": "p"}, {"provider": "p"}, {"provider": "q"}),
    ({"model": "m"}, {"model": "m", "provider": "x"}, {"model": "n"}),
    ({"tags": {"team": "a"}}, {"tags": {"team": "a", "x": "y"}}, {"tags": {"team": "b"}}),
])
def test_a_scope_covers_what_it_states(admin, scope, inside, outside):
    agent = admin.agent()
    name = admin.budget("1.00", scope={"agent": agent, **scope})

    charge(admin, agent, "0.25", **inside).ok(201)
    charge(admin, agent, "9.00", **outside).ok(201)
    charge(admin, agent, "9.00").ok(201)

    assert shown(admin, name)["settled"] == "0.25"


def test_a_scope_can_be_a_run_or_a_session(admin):
    agent = admin.agent()
    run, session = admin.run(agent), admin.session(agent=agent)
    of_run = admin.budget("1.00", scope={"run": run["id"]})
    of_session = admin.budget("1.00", scope={"session": session})

    charge(admin, agent, "0.25", run=run["id"], fence=run["fence"]).ok(201)
    charge(admin, agent, "0.125", session=session).ok(201)
    charge(admin, agent, "5.00").ok(201)

    assert shown(admin, of_run)["settled"] == "0.25" and shown(admin, of_session)["settled"] == "0.125"


def test_money_that_is_gone_is_recorded_and_freezes_the_budget_until_somebody_looks(admin):
    agent = admin.agent()
    name = admin.budget("1.00", scope={"agent": agent})

    done = charge(admin, agent, "1.50", incurred=True).ok(201)

    assert done["overage"] == "0.50"
    budget = shown(admin, name)
    assert budget["settled"] == "1.50" and budget["free"] == "0.00" and budget["frozen"]
    problem = charge(admin, agent, "0.01").refused(402, "budget_frozen")
    assert problem["budget"] == name and problem["frozen"] == budget["frozen"]
    hold(admin, agent).refused(402, "budget_frozen")
    admin.post("/v1/runs", {"agent": agent, "hold": "0.10"}).refused(402, "budget_frozen")

    assert admin.post(f"/v1/budgets/{name}/unfreeze").ok(200)["frozen"] is None
    charge(admin, agent, "0.01").refused(402, "budget_exceeded")
    admin.put(f"/v1/budgets/{name}", {"limit": "2.00", "window": "total", "scope": {"agent": agent}}).ok(200)
    charge(admin, agent, "0.50").ok(201)


def test_a_soft_budget_counts_and_does_not_refuse(admin):
    agent = admin.agent()
    name = admin.budget("1.00", hard=False, scope={"agent": agent})

    charge(admin, agent, "3.00").ok(201)

    assert shown(admin, name)["settled"] == "3.00" and shown(admin, name)["frozen"] is None


def test_warnings_come_once_for_each_threshold(admin):
    agent = admin.agent()
    head = admin.get("/v1/events").ok(200)["head"]
    name = admin.budget("1.00", warn=[50, 80], scope={"agent": agent})

    for _ in range(10):
        charge(admin, agent, "0.10").ok(201)

    events = admin.get("/v1/events", after=head, limit=1000, type="budget_warned,budget_exhausted").ok(200)["items"]
    told = [event["data"]["percent"] for event in events if event["data"]["budget"] == name and "percent" in event["data"]]
    assert told == [50, 80]


def test_an_exhausted_budget_pauses_its_agent_when_it_says_so(admin):
    agent = admin.agent()
    name = admin.budget("1.00", on_exhausted="pause_agent", window="day", scope={"agent": agent})
    charge(admin, agent, "1.00").ok(201)

    charge(admin, agent, "0.01").refused(402, "budget_exceeded")

    told = admin.get(f"/v1/agents/{agent}").ok(200)
    assert told["state"] == "paused" and name in told["pauses"][0]["by"] and told["pauses"][0]["until"]
    admin.post("/v1/runs", {"agent": agent}).refused(409, "agent_paused")


def test_an_exhausted_budget_asks_its_runs_to_stop_when_it_says_so(admin):
    agent = admin.agent()
    admin.budget("1.00", on_exhausted="stop_runs", scope={"agent": agent})
    run = admin.run(agent)

    charge(admin, agent, "1.00", run=run["id"], fence=run["fence"]).ok(201)
    charge(admin, agent, "1.00", run=run["id"], fence=run["fence"]).refused(402, "budget_exceeded")

    beat = admin.post(f"/v1/runs/{run['id']}/heartbeat", {"fence": run["fence"]}).ok(200)
    assert "exhausted" in beat["stop_requested"]


def test_a_deleted_budget_limits_nothing(admin):
    agent = admin.agent()
    name = admin.budget("0.01", scope={"agent": agent})
    charge(admin, agent, "1.00").refused(402, "budget_exceeded")

    admin.delete(f"/v1/budgets/{name}").ok(204)

    charge(admin, agent, "1.00").ok(201)
    admin.get(f"/v1/budgets/{name}").refused(404, "not_found")
    assert name not in {budget["name"] for budget in admin.items("/v1/budgets")}


@pytest.mark.parametrize("body, pointer", [
    ({}, "/limit"), ({"limit": 10.5}, "/limit"), ({"limit": "ten"}, "/limit"), ({"limit": "-1.00"}, "/limit"),
    ({"limit": "0.0000000001"}, "/limit"), ({"limit": "1e3"}, "/limit"), ({"limit": "1.5", "metric": "tokens"}, "/limit"),
    ({"limit": "1.00", "metric": "euros"}, "/metric"), ({"limit": "1.00", "window": "hour"}, "/window"),
    ({"limit": "1.00", "timezone": "Mars/Base"}, "/timezone"), ({"limit": "1.00", "hard": 1}, "/hard"),
    ({"limit": "1.00", "warn": [80, 50]}, "/warn"), ({"limit": "1.00", "warn": ["50"]}, "/warn/0"),
    ({"limit": "1.00", "on_exhausted": "panic"}, "/on_exhausted"), ({"limit": "1.00", "scope": {"who": "a"}}, "/scope/who"),
    ({"limit": "1.00", "scope": "a"}, "/scope"), ({"limit": "1.00", "scope": {"run": "run_x"}}, "/scope/run"),
    ({"limit": "1.00", "more": 1}, "/more"),
])
def test_a_budget_that_makes_no_sense_is_refused_and_the_member_is_named(admin, body, pointer):
    admin.put(f"/v1/budgets/{fresh('budget')}", body).refused(400, "invalid_request", pointer)


# ---- charges ------------------------------------------------------------------------------------------------------

def test_a_charge_is_kept_with_everything_it_said(admin):
    agent = admin.agent()
    session = admin.session(agent=agent)
    run = admin.run(agent)
    said = {"agent": agent, "run": run["id"], "session": session, "workflow": "w", "provider": "anthropic", "model": "m",
            "usage": USAGE, "calls": 3, "price": "2026-11", "unpriced": True, "tags": {"a": "b"}}

    done = charge(admin, **said, fence=run["fence"], key=fresh("key")).ok(201)

    assert (done["status"], done["cost"], done["overage"], done["repeated"]) == ("charged", "0.00075", "0.00", False)
    event, = admin.items("/v1/charges", agent=agent)
    assert {member: event[member] for member in said} == said
    assert event["cost"] == "0.00075" and event["seq"] == done["seq"] and event["hold"] is None
    assert event["estimated"] is False and event["overage"] == "0.00"
    assert admin.get(f"/v1/sessions/{session}").ok(200)["spent"] == "0.00075"
    assert admin.get(f"/v1/runs/{run['id']}").ok(200)["spent"] == "0.00075"
    told = admin.get(f"/v1/agents/{agent}").ok(200)
    assert told["spent"] == "0.00075" and told["events"] == 1 and told["last_event_at"] == event["at"]


@pytest.mark.parametrize("given, told", [("0", "0.00"), ("1", "1.00"), ("0.1", "0.10"), ("0.000000001", "0.000000001"),
                                         ("12.340", "12.34"), ("1000000.00", "1000000.00")])
def test_money_is_exact_and_written_one_way(admin, given, told):
    assert charge(admin, admin.agent(), given).ok(201)["cost"] == told


def test_a_repeat_gets_the_first_answer_and_charges_nothing(admin):
    agent, key = admin.agent(), fresh("key")
    first = charge(admin, agent, "0.5", key=key).ok(201)

    by_body = charge(admin, agent, "0.5", key=key)
    by_header = admin.post("/v1/charges", {"agent": agent, "cost": "0.5"}, idempotency=key)
    by_both = admin.post("/v1/charges", {"agent": agent, "cost": "0.50", "key": key}, idempotency=key)

    for again in (by_body, by_header, by_both):
        assert again.ok(201) == {**first, "repeated": True}
        assert again.headers["idempotent-replayed"] == "true"
    assert admin.get(f"/v1/agents/{agent}").ok(200)["spent"] == "0.50"


def test_a_key_that_comes_back_with_other_content_is_refused(admin):
    agent, key = admin.agent(), fresh("key")
    charge(admin, agent, "0.5", key=key).ok(201)

    charge(admin, agent, "0.6", key=key).refused(422, "key_reused")
    charge(admin, agent, "0.5", key=key, model="m").refused(422, "key_reused")
    hold(admin, agent, "0.5", key=key).refused(422, "key_reused")
    admin.post("/v1/runs", {"agent": agent, "key": key}).refused(422, "key_reused")

    assert admin.get(f"/v1/agents/{agent}").ok(200)["spent"] == "0.50"


def test_header_and_body_must_name_the_same_key(admin):
    agent = admin.agent()

    reply = admin.post("/v1/charges", {"agent": agent, "cost": "1", "key": "one"}, idempotency="two")

    reply.refused(400, "invalid_request", "/key")
    for key in ("", "x" * 256, 5):
        charge(admin, agent, key=key).refused(400, "invalid_request", "/key")
    admin.post("/v1/charges", {"agent": agent, "cost": "1"}, idempotency="x" * 256).refused(400, "invalid_request")
    charge(admin, agent, key="x" * 247 + fresh("k")).ok(201)


def test_a_refused_charge_can_be_tried_again_with_its_key_once_there_is_room(admin):
    agent, key = admin.agent(), fresh("key")
    name = admin.budget("1.00", scope={"agent": agent})
    charge(admin, agent, "2.00", key=key).refused(402, "budget_exceeded")

    admin.delete(f"/v1/budgets/{name}").ok(204)

    assert charge(admin, agent, "2.00", key=key).ok(201)["repeated"] is False


def test_a_batch_gives_each_charge_its_own_result(admin):
    agent, key = admin.agent(), fresh("key")
    admin.budget("1.00", scope={"agent": agent, "model": "dear"})
    charge(admin, agent, "0.01", key=key).ok(201)

    done = admin.post("/v1/charges", [
        {"agent": agent, "cost": "0.25", "key": key + "a"},
        {"agent": agent, "cost": "0.25", "key": key + "a"},
        {"agent": agent, "cost": "0.26", "key": key + "a"},
        {"agent": agent, "cost": "0.01", "key": key},
        {"agent": agent, "cost": "5.00", "model": "dear"},
        {"agent": "nobody", "cost": "0.25"},
        {"agent": agent, "cost": 0.25},
        {"agent": agent, "cost": "0.25", "color": "red"},
        7,
        {"agent": agent, "cost": "0.125"},
    ]).ok(200)

    results = done["results"]
    assert [each.get("repeated", each.get("error", {}).get("code")) for each in results] == [
        False, True, "key_reused", True, "budget_exceeded", "not_found", "invalid_request", "invalid_request",
        "invalid_request", False]
    assert (done["charged"], done["refused"]) == (4, 6)
    assert results[6]["error"]["pointer"] == "/6/cost" and results[7]["error"]["pointer"] == "/7/color"
    assert results[0]["seq"] == results[1]["seq"] and results[4]["error"]["budget"]
    assert admin.get(f"/v1/agents/{agent}").ok(200)["spent"] == "0.385"


def test_a_batch_has_at_most_ten_thousand_charges(admin):
    agent = admin.agent()
    one = {"agent": agent, "cost": "0.00075"}

    done = admin.post("/v1/charges", [one] * 10_000).ok(200)
    assert (done["charged"], done["refused"]) == (10_000, 0)
    admin.post("/v1/charges", [one] * 10_001).refused(400, "invalid_request")
    assert admin.post("/v1/charges", []).ok(200) == {"results": [], "charged": 0, "refused": 0}
    admin.post("/v1/charges", [one], idempotency="k").refused(400, "invalid_request")

    told = admin.get(f"/v1/agents/{agent}").ok(200)
    assert (told["spent"], told["events"]) == ("7.50", 10_000)


def test_charges_are_listed_by_what_they_are_for_and_the_newest_last(admin):
    agent = admin.agent()
    run, session = admin.run(agent), admin.session(agent=agent)
    for i in range(6):
        charge(admin, agent, f"0.0{i}", key=fresh("key"), **({"run": run["id"]} if i % 2 else {"session": session})).ok(201)

    everything = admin.items("/v1/charges", agent=agent)
    assert [event["cost"] for event in everything] == ["0.00", "0.01", "0.02", "0.03", "0.04", "0.05"]
    assert admin.items("/v1/charges", agent=agent, limit=1) == everything
    assert admin.items("/v1/charges", run=run["id"]) == everything[1::2]
    assert admin.items("/v1/charges", session=session) == everything[::2]
    middle = everything[3]["at"]
    assert admin.items("/v1/charges", agent=agent, to=middle) == [e for e in everything if e["at"] < middle]
    assert admin.items("/v1/charges", agent=agent, from_=middle) == [e for e in everything if e["at"] >= middle]
    admin.get("/v1/charges", from_="yesterday").refused(400, "invalid_request")


@pytest.mark.parametrize("change, pointer", [
    ({"agent": None}, "/agent"), ({"cost": None}, "/cost"), ({"cost": 0.00075}, "/cost"), ({"cost": 1}, "/cost"),
    ({"cost": "1,5"}, "/cost"), ({"cost": ""}, "/cost"), ({"cost": "-0.5"}, "/cost"), ({"cost": "0.0000000001"}, "/cost"),
    ({"cost": "99999999999999999999"}, "/cost"), ({"cost": "NaN"}, "/cost"), ({"cost": " 1"}, "/cost"),
    ({"calls": -1}, "/calls"), ({"calls": 1.5}, "/calls"), ({"usage": {"tokens": 1}}, "/usage/tokens"),
    ({"usage": {"input_tokens": -1}}, None), ({"usage": {"input_tokens": "1"}}, "/usage/input_tokens"),
    ({"run": "ses_1"}, "/run"), ({"run": 7}, "/run"), ({"fence": -1}, None), ({"tags": {"a": None}}, "/tags/a"),
    ({"incurred": "yes"}, "/incurred"), ({"amount": "1"}, "/amount"), ({"model": "x" * 129}, "/model"),
])
def test_a_charge_that_makes_no_sense_is_refused_and_the_member_is_named(admin, change, pointer):
    agent = admin.agent()
    body = {member: value for member, value in ({"agent": agent, "cost": "0.01"} | change).items()
            if value is not None or member == "tags"}

    admin.post("/v1/charges", body).refused(400, "invalid_request", pointer)

    assert admin.get(f"/v1/agents/{agent}").ok(200)["events"] == 0


def test_more_money_than_can_be_counted_is_refused_and_not_wrapped(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        replies = [charge(server.admin, agent, "2000000000.00") for _ in range(6)]

        refused = [reply for reply in replies if reply.status != 201]
        assert refused, "there is no end to it"
        for reply in refused:
            reply.refused(422, "amount_too_large")
        spent = server.admin.get(f"/v1/agents/{agent}").ok(200)["spent"]
        assert Decimal(spent) == 2_000_000_000 * (len(replies) - len(refused))
        server.verify()


# ---- holds --------------------------------------------------------------------------------------------------------

def test_a_hold_sets_money_aside_and_settling_charges_what_was_used(admin):
    agent = admin.agent()
    budget = admin.budget("1.00", scope={"agent": agent})

    held = hold(admin, agent, "0.75", provider="p", model="m", tags={"a": "b"}, ttl_s=60, key=fresh("key")).ok(201)
    assert held["status"] == "held" and held["amount"] == "0.75" and held["repeated"] is False
    assert (shown(admin, budget)["held"], shown(admin, budget)["open_holds"]) == ("0.75", 1)
    charge(admin, agent, "0.50").refused(402, "budget_exceeded")

    settled = admin.post(f"/v1/holds/{held['id']}/settle", {"cost": "0.2", "usage": USAGE, "calls": 2}).ok(200)
    assert (settled["status"], settled["cost"], settled["overage"]) == ("settled", "0.20", "0.00")
    told = shown(admin, budget)
    assert (told["settled"], told["held"], told["open_holds"]) == ("0.20", "0.00", 0)
    event, = admin.items("/v1/charges", agent=agent)
    assert (event["hold"], event["provider"], event["model"], event["calls"]) == (held["id"], "p", "m", 2)
    assert event["usage"] == USAGE and event["tags"] == {"a": "b"}


def test_a_hold_is_shown_with_its_parts_in_each_budget(admin):
    agent = admin.agent()
    money, tokens = (admin.budget("1.00", scope={"agent": agent}),
                     admin.budget(1000, metric="tokens", scope={"agent": agent}))

    made = hold(admin, agent, "0.25", tokens=100, calls=1, dispatched=True).ok(201)
    told = admin.get(f"/v1/holds/{made['id']}").ok(200)

    assert (told["status"], told["amount"], told["tokens"], told["calls"]) == ("held", "0.25", 100, 1)
    assert told["dispatched"] is True and told["closed_at"] is None and told["expires_at"] == made["expires_at"]
    assert sorted((part["budget"], part["amount"]) for part in told["budgets"]) == sorted([(money, "0.25"), (tokens, "100")])


def test_a_hold_ends_once(admin):
    agent = admin.agent()
    made = [hold(admin, agent).ok(201)["id"] for _ in range(3)]
    key = fresh("key")

    first = admin.post(f"/v1/holds/{made[0]}/settle", {"cost": "0.1", "key": key}).ok(200)
    again = admin.post(f"/v1/holds/{made[0]}/settle", {"cost": "0.1", "key": key})
    assert again.ok(200) == {**first, "repeated": True} and again.headers["idempotent-replayed"] == "true"
    assert admin.post(f"/v1/holds/{made[1]}/release").ok(200)["status"] == "released"

    for closed in made[:2]:
        admin.post(f"/v1/holds/{closed}/settle", {"cost": "0.1"}).refused(409, "hold_closed")
        admin.post(f"/v1/holds/{closed}/release").refused(409, "hold_closed")
        admin.post(f"/v1/holds/{closed}/extend", {"ttl_s": 5}).refused(409, "hold_closed")
    for status, hold_id in zip(("settled", "released", "open"), made):
        assert [each["id"] for each in admin.items("/v1/holds", agent=agent, status=status)] == [hold_id]
    assert admin.get(f"/v1/holds/{made[1]}").ok(200)["closed_at"] is not None
    assert admin.get(f"/v1/agents/{agent}").ok(200)["spent"] == "0.10"
    admin.get("/v1/holds", status="lost").refused(400, "invalid_request")


def test_more_than_was_held_is_charged_told_as_overage_and_freezes_the_budget(admin):
    agent = admin.agent()
    budget = admin.budget("1.00", scope={"agent": agent})
    first, second = hold(admin, agent, "0.25").ok(201), hold(admin, agent, "0.25").ok(201)

    assert admin.post(f"/v1/holds/{first['id']}/settle", {"cost": "0.50"}).ok(200)["overage"] == "0.25"
    assert shown(admin, budget)["frozen"] and shown(admin, budget)["settled"] == "0.50"
    hold(admin, agent, "0.10").refused(402, "budget_frozen")
    # What was held before is still there to be used.
    assert admin.post(f"/v1/holds/{second['id']}/settle", {"cost": "0.25"}).ok(200)["overage"] == "0.00"
    admin.post(f"/v1/budgets/{budget}/unfreeze").ok(200)
    hold(admin, agent, "0.25").ok(201)


def test_a_hold_nobody_used_is_released_when_its_time_is_up_and_a_used_one_is_charged(admin):
    agent = admin.agent()
    budget = admin.budget("1.00", scope={"agent": agent})
    kept = hold(admin, agent, "0.10", ttl_s=1).ok(201)["id"]
    unused = hold(admin, agent, "0.20", ttl_s=1).ok(201)["id"]
    used = hold(admin, agent, "0.30", ttl_s=1, dispatched=True).ok(201)["id"]
    longer = admin.post(f"/v1/holds/{kept}/extend", {"ttl_s": 600, "dispatched": True}).ok(200)
    assert longer["status"] == "held" and longer["expires_at"]

    def status(hold_id):
        return admin.get(f"/v1/holds/{hold_id}").ok(200)["status"]

    eventually(lambda: status(unused) == "released" and status(used) != "held")

    assert status(kept) == "held" and admin.get(f"/v1/holds/{kept}").ok(200)["dispatched"] is True
    told = shown(admin, budget)
    assert (told["settled"], told["held"]) == ("0.30", "0.10")
    event, = admin.items("/v1/charges", agent=agent)
    assert (event["cost"], event["estimated"], event["hold"]) == ("0.30", True, used)


@pytest.mark.parametrize("change, pointer", [
    ({"amount": 0.25}, "/amount"), ({"amount": "-1"}, "/amount"), ({"ttl_s": 0}, "/ttl_s"), ({"ttl_s": 10**9}, "/ttl_s"),
    ({"ttl_s": "60"}, "/ttl_s"), ({"tokens": -1}, None), ({"cost": "1"}, "/cost"), ({"dispatched": 0}, "/dispatched"),
])
def test_a_hold_that_makes_no_sense_is_refused(admin, change, pointer):
    admin.post("/v1/holds", {"agent": admin.agent(), "amount": "0.25", **change}).refused(400, "invalid_request", pointer)


def test_settling_needs_a_cost(admin):
    made = hold(admin, admin.agent()).ok(201)["id"]

    admin.post(f"/v1/holds/{made}/settle", {}).refused(400, "invalid_request", "/cost")
    admin.post(f"/v1/holds/{made}/settle", {"cost": 1}).refused(400, "invalid_request", "/cost")
    admin.post(f"/v1/holds/{made}/extend", {"ttl_s": 0}).refused(400, "invalid_request")
    assert admin.get(f"/v1/holds/{made}").ok(200)["status"] == "held"


def test_the_same_hold_asked_for_twice_is_one(admin):
    agent, key = admin.agent(), fresh("key")

    first, again = hold(admin, agent, key=key).ok(201), hold(admin, agent, key=key)

    assert again.ok(201) == {**first, "repeated": True} and again.headers["idempotent-replayed"] == "true"
    assert len(admin.items("/v1/holds", agent=agent)) == 1


# ---- spend --------------------------------------------------------------------------------------------------------

def test_spend_adds_up_by_every_dimension(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        admin = server.admin
        agents = [admin.agent() for _ in range(2)]
        for i, (agent, provider, model) in enumerate(itertools.product(agents, ("p", "q", ""), ("m", "n"))):
            charge(admin, agent, f"0.00{i + 1:02}", provider=provider, model=model, usage=USAGE, calls=2).ok(201)
        total = sum(Decimal(f"0.00{i + 1:02}") for i in range(12))
        names = ("agent", "provider", "model", "day")

        for by in itertools.chain.from_iterable(itertools.combinations(names, n) for n in range(5)):
            spend = admin.get("/v1/spend", **({"by": ",".join(by)} if by else {})).ok(200)
            assert Decimal(spend["total"]) == total == sum(Decimal(item["cost"]) for item in spend["items"]), by
            assert sum(item["events"] for item in spend["items"]) == 12
            assert sum(item["calls"] for item in spend["items"]) == 24
            assert sum(item["usage"]["reasoning_tokens"] for item in spend["items"]) == 12 * 11
            assert all(set(item) == {*by, "cost", "events", "calls", "usage"} for item in spend["items"])
            groups = [tuple(item[name] for name in by) for item in spend["items"]]
            assert len(groups) == len(set(groups)) == (2 if "agent" in by else 1) * (3 if "provider" in by else 1) * (
                2 if "model" in by else 1)

        today = datetime.datetime.now(datetime.timezone.utc).date()
        tomorrow = today + datetime.timedelta(days=1)
        assert admin.get("/v1/spend", from_=tomorrow).ok(200)["total"] == "0.00"
        assert Decimal(admin.get("/v1/spend", to=tomorrow).ok(200)["total"]) == total
        assert admin.get("/v1/spend", by="day", to=today, from_="2020-01-01").ok(200)["items"] == []
        for wrong in ({"by": "color"}, {"from": "2026-13-01"}, {"to": "yesterday"}, {"from": "2026-11-01T00:00:00Z"}):
            admin.get("/v1/spend", **wrong).refused(400, "invalid_request")
