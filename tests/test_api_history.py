"""What is written down of the past: spending by the minute, a budget's line, the steps of runs, what became of ticks."""

import datetime
import time
from decimal import Decimal

import pytest

from interlock_server import fresh, together

pytestmark = pytest.mark.seconds_max(30)

LIVE = ["starting", "running"]


def charge(client, agent, cost="0.01", **body):
    return client.post("/v1/charges", {"agent": agent, "cost": cost, **body}).ok(201)


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def total_of(items):
    return sum(Decimal(item["cost"]) for item in items)


# ---- spending by the minute ---------------------------------------------------------------------------------------

@pytest.mark.seconds_max(110)
def test_the_minutes_of_a_storm_over_a_minutes_turn_add_up_to_all_that_was_charged(admin):
    agent = admin.agent()
    budget = admin.budget("100000.00", scope={"agent": agent}, window="day")
    began = datetime.datetime.now(datetime.timezone.utc)
    seconds = (58 - time.time() % 60) % 60
    time.sleep(seconds)
    until = time.time() + 4

    def spend(i):
        made = 0
        while time.time() < until:
            cost = f"0.0000{i + 1}0001"
            if made % 3 == 2:
                hold = admin.post("/v1/holds", {"agent": agent, "amount": "0.10"}).ok(201)["id"]
                admin.post(f"/v1/holds/{hold}/settle", {"cost": cost}).ok(200, 201)
            else:
                charge(admin, agent, cost)
            made += 1
        return made * Decimal(cost)

    spent = sum(together(6, spend))

    answer = admin.get("/v1/spend/minutes", minutes=10).ok(200)
    items = [item for item in answer["items"] if instant(item["at"]) >= began.replace(second=0, microsecond=0)]
    assert len(items) >= 2 and all(Decimal(item["cost"]) > 0 for item in items)
    assert [item["at"] for item in items] == sorted({item["at"] for item in items})
    assert all(instant(item["at"]).second == 0 for item in items)
    assert total_of(answer["items"]) == Decimal(answer["total"])
    assert Decimal(admin.get(f"/v1/agents/{agent}").ok(200)["spent"]) == spent
    assert total_of(admin.get("/v1/spend/minutes", minutes=1440).ok(200)["items"]) == Decimal(
        admin.get("/v1/spend").ok(200)["total"]), "all that this server was ever charged"
    assert Decimal(admin.get(f"/v1/budgets/{budget}/line").ok(200)["settled"]) == spent
    assert admin.get("/v1/verify").ok(200)["violations"] == 0


def test_only_as_many_minutes_are_told_as_are_asked_for(admin):
    charge(admin, admin.agent())

    answer = admin.get("/v1/spend/minutes", minutes=1).ok(200)

    assert (instant(answer["to"]) - instant(answer["from"])).total_seconds() < 60
    assert len(answer["items"]) <= 1
    for wrong in (0, 1441, "many"):
        admin.get("/v1/spend/minutes", minutes=wrong).refused(400, "invalid_request")


def test_what_all_agents_spend_is_not_for_a_key_of_one_agent(admin):
    admin.make_key("read", agent=admin.agent()).get("/v1/spend/minutes").refused(403, "forbidden")


# ---- a budget's line ----------------------------------------------------------------------------------------------

def test_a_budgets_line_begins_with_its_window_and_leads_to_its_end(admin):
    agent = admin.agent()
    budget = admin.budget("10.00", scope={"agent": agent}, window="month")
    charge(admin, agent, "3.00")
    admin.post("/v1/holds", {"agent": agent, "amount": "1.50"}).ok(201)

    line = admin.get(f"/v1/budgets/{budget}/line").ok(200)

    assert (line["budget"], line["metric"], line["limit"]) == (budget, "usd", "10.00")
    assert (line["settled"], line["held"]) == ("3.00", "1.50")
    assert line["points"][0] == {"at": line["start"], "settled": "0.00"}
    assert all(point["settled"] == "0.00" for point in line["points"])
    rate = Decimal(line["rate_per_hour"])
    assert 0 < rate <= Decimal("12.00"), "at least a quarter of an hour is looked at"
    now = datetime.datetime.now(datetime.timezone.utc)
    hours_left = Decimal((instant(line["end"]) - now).total_seconds()) / 3600
    assert abs(Decimal(line["projected"]) - (3 + rate * hours_left)) < Decimal("0.1")
    lasts = Decimal("5.50") / rate
    if lasts < hours_left - 1:
        assert abs((instant(line["used_up_at"]) - now).total_seconds() / 3600 - float(lasts)) < 0.1
    elif lasts > hours_left + 1:
        assert line["used_up_at"] is None


def test_a_budget_of_which_nothing_was_used_leads_nowhere(admin):
    budget = admin.budget("100", metric="tokens", scope={"agent": admin.agent()}, window="day")

    line = admin.get(f"/v1/budgets/{budget}/line").ok(200)

    assert (line["settled"], line["held"], line["rate_per_hour"]) == ("0", "0", "0")
    assert (line["projected"], line["used_up_at"]) == ("0", None)
    assert line["points"] == [{"at": line["start"], "settled": "0"}]


def test_a_budget_without_an_end_is_projected_to_none(admin):
    agent = admin.agent()
    budget = admin.budget("10.00", scope={"agent": agent})
    charge(admin, agent, "3.00")

    line = admin.get(f"/v1/budgets/{budget}/line").ok(200)

    assert (line["start"], line["end"], line["projected"]) == (None, None, None)
    assert [point["settled"] for point in line["points"]] == ["0.00"]
    assert line["used_up_at"] is not None


def test_there_is_no_line_of_a_budget_that_is_not_there(admin):
    budget = admin.budget("1.00")
    admin.delete(f"/v1/budgets/{budget}").ok(204)

    for name in (budget, "nobody"):
        admin.get(f"/v1/budgets/{name}/line").refused(404, "not_found")


# ---- the steps of runs --------------------------------------------------------------------------------------------

def test_the_steps_of_a_run_say_what_became_of_it(admin, tmp_path):
    agent = admin.agent(max_concurrent_runs=2)
    first = admin.run(agent, workspace=str(tmp_path))
    second = admin.run(agent, workspace=str(tmp_path), on_conflict="queue")
    for verb in ("start", "pause", "resume"):
        admin.post(f"/v1/runs/{first['id']}/{verb}", {"fence": first["fence"]}).ok(200)
    admin.post(f"/v1/runs/{first['id']}/cancel", {"reason": "enough"}).ok(200, 202)
    admin.finish(first, outcome="failed", reason="it broke").ok(200)

    steps = admin.items(f"/v1/runs/{first['id']}/steps")
    waited = admin.items(f"/v1/runs/{second['id']}/steps")

    assert [step["status"] for step in steps] == LIVE + ["paused", "running", "running", "failed"]
    assert [step["reason"] for step in steps] == [None, None, None, "resumed", "asked to stop: enough", "it broke"]
    assert [step["at"] for step in steps] == sorted(step["at"] for step in steps)
    assert [(step["status"], step["waits_for"]) for step in waited] == [("queued", "workspace"), ("starting", None)]
    assert [step["status"] for step in admin.items(f"/v1/runs/{first['id']}/steps", limit=2)] == [
        step["status"] for step in steps], "page by page it is the same"


def test_there_are_no_steps_of_a_run_that_is_not_there(admin):
    admin.get("/v1/runs/run_00000000000000000000000001/steps").refused(404, "not_found")


# ---- what became of ticks -----------------------------------------------------------------------------------------

def test_ticks_are_told_of_all_schedules_and_of_one_the_newest_first(admin):
    agents = [admin.agent(max_concurrent_runs=9) for _ in range(2)]
    names = [fresh("schedule") for _ in range(2)]
    before = datetime.datetime.now(datetime.timezone.utc)
    for name, agent in zip(names, agents):
        admin.put(f"/v1/schedules/{name}", {"agent": agent, "every": "1d", "overlap": "queue"}).ok()
    woken = [admin.post(f"/v1/schedules/{name}/wake").ok(201) for name in names + names + names]

    mine = [tick for tick in admin.items("/v1/ticks", limit=2) if tick["schedule"] in names]
    of_one = admin.items("/v1/ticks", schedule=names[0], limit=2)
    history = admin.items(f"/v1/schedules/{names[0]}/history", limit=1)

    assert [tick["schedule"] for tick in reversed(mine)] == names + names + names
    assert [tick["outcome"] for tick in reversed(mine)] == ["fired"] * 4 + ["coalesced"] * 2
    assert [tick["run"] for tick in reversed(mine)] == [wake["run"] for wake in woken]
    assert [tick["run_status"] for tick in reversed(of_one)] == ["starting", "queued", "queued"]
    assert all(tick["late_ms"] == 0 and tick["reason"] is None for tick in of_one)
    assert of_one == history == [tick for tick in mine if tick["schedule"] == names[0]]
    at = instant(of_one[1]["at"])
    later = admin.items("/v1/ticks", schedule=names[0], **{"from": of_one[1]["at"]})
    earlier = admin.items("/v1/ticks", to=of_one[1]["at"], schedule=names[0])
    assert later == [tick for tick in of_one if instant(tick["at"]) >= at]
    assert earlier == [tick for tick in of_one if instant(tick["at"]) < at]
    assert not admin.items("/v1/ticks", schedule=names[0], to=before.isoformat().replace("+00:00", "Z"))
    assert {tick["schedule"] for tick in admin.make_key("read", agent=agents[1]).items("/v1/ticks")} == {names[1]}
    for wrong in ({"from": "yesterday"}, {"after": "5"}, {"after": "5.x.nightly"}, {"limit": 0}):
        admin.get("/v1/ticks", **wrong).refused(400, "invalid_request")


def test_a_schedule_that_is_made_again_has_a_history_of_its_own(admin):
    agent, name = admin.agent(), fresh("schedule")
    body = {"agent": agent, "every": "1d", "overlap": "queue"}
    admin.put(f"/v1/schedules/{name}", body).ok()
    admin.post(f"/v1/schedules/{name}/wake").ok(201)
    admin.delete(f"/v1/schedules/{name}").ok(204)
    admin.put(f"/v1/schedules/{name}", body).ok()

    assert admin.items(f"/v1/schedules/{name}/history") == []
    assert len(admin.items("/v1/ticks", schedule=name)) == 1
    admin.post(f"/v1/schedules/{name}/wake").ok(201)
    assert len(admin.items(f"/v1/schedules/{name}/history")) == 1


# ---- the command line ---------------------------------------------------------------------------------------------

def test_the_command_line_shows_the_past(interlock, server, admin):
    agent = admin.agent()
    budget = admin.budget("10.00", scope={"agent": agent}, window="day")
    charge(admin, agent, "1.25")
    run = admin.run(agent)
    name = fresh("schedule")
    admin.put(f"/v1/schedules/{name}", {"agent": agent, "every": "1d"}).ok()
    admin.post(f"/v1/schedules/{name}/wake").ok(201)

    def said(*words):
        done = interlock(*words, "--data-dir", server.data)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "total" in said("spend", "--minutes", "60") and "MINUTE" in said("spend", "--minutes", "60")
    assert "1.25" in said("budgets", "line", budget)
    assert "starting" in said("runs", "steps", run["id"])
    assert name in said("schedules", "ticks", "--from", "1h")
