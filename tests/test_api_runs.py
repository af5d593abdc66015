"""Runs, places, caps and schedules over HTTP."""

import datetime
import os
import time

import pytest

from interlock_server import eventually, fresh

pytestmark = pytest.mark.seconds_max(30)

TERMINAL = ("succeeded", "failed", "timed_out", "cancelled", "lost")


@pytest.fixture
def place(tmp_path):
    """A directory with a sub-directory, and other ways to name it."""
    (tmp_path / "repo/src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    return tmp_path / "repo"


@pytest.fixture
def agent(admin):
    return admin.agent(max_concurrent_runs=100)


def act(client, run, verb, **body):
    return client.post(f"/v1/runs/{run['id']}/{verb}", {"fence": run["fence"], **body})


def shown(client, run):
    return client.get(f"/v1/runs/{run['id']}").ok(200)


def test_a_run_is_admitted_and_shown_whole(admin, agent, place):
    session, resource = admin.session(agent=agent), fresh("resource")

    made = admin.run(agent, workspace=str(place), resources=[resource], session=session, workflow="w", provider="p",
                     model="m", node="n", tags={"a": "b"}, priority=3, lease_s=30, hold="0.50")

    assert made["id"].startswith("run_") and made["fence"] > 0 and made["status"] == "starting"
    assert (made["repeated"], made["waits_for"], made["place_in_line"]) == (False, "nothing", 0)
    told = shown(admin, made)
    assert {**made, **told} == made
    expected = {"agent": agent, "workflow": "w", "provider": "p", "model": "m", "session": session, "tags": {"a": "b"},
                "node": "n", "workspace": str(place), "isolated": False, "priority": 3, "lease_s": 30, "ended_at": None,
                "started_at": None, "queued_until": None, "stop_requested": None, "schedule": None, "spent": "0.00",
                "tokens": 0, "events": 0, "estimated": "0.00", "reason": ""}
    assert {member: told[member] for member in expected} == expected
    assert told["lease_until"] > told["admitted_at"] >= told["created_at"] and told["hold"].startswith("hold_")
    assert sorted((each["kind"], each["path"], each["mode"]) for each in told["places"]) == [
        ("resource", resource, "write"), ("workspace", str(place), "write")]
    held = [each for each in admin.get("/v1/places").ok(200)["items"] if each["run"] == made["id"]]
    assert sorted(each["path"] for each in held) == sorted([str(place), resource])
    assert all(each["agent"] == agent and each["fence"] == made["fence"] and each["since"] for each in held)
    admin.finish(made).ok(200)


def test_a_run_lives_from_start_to_finish(admin, agent):
    run = admin.run(agent)

    act(admin, run, "pause").refused(409, "wrong_state")
    act(admin, run, "resume").refused(409, "wrong_state")
    assert act(admin, run, "start").ok(200)["status"] == "running"
    assert shown(admin, run)["started_at"]
    for _ in range(2):  # Who asks for what is already so gets it.
        assert act(admin, run, "pause").ok(200)["status"] == "paused"
    act(admin, run, "start").refused(409, "wrong_state")
    assert act(admin, run, "heartbeat").ok(200)["status"] == "paused"
    for _ in range(2):
        assert act(admin, run, "resume").ok(200)["status"] == "running"
    beat = act(admin, run, "heartbeat").ok(200)
    assert beat["status"] == "running" and beat["stop_requested"] is None and beat["lease_until"]
    done = act(admin, run, "finish", outcome="failed", reason="no luck").ok(200)
    assert done["status"] == "failed"
    told = shown(admin, run)
    assert (told["status"], told["reason"], told["lease_until"]) == ("failed", "no luck", None) and told["ended_at"]


def test_the_first_heartbeat_starts_a_run(admin, agent):
    run = admin.run(agent)

    assert act(admin, run, "heartbeat").ok(200)["status"] == "running"
    admin.finish(run).ok(200)


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "timed_out"])
def test_a_run_ends_as_its_owner_says_and_only_once(admin, agent, outcome):
    run, key = admin.run(agent), fresh("key")

    first = act(admin, run, "finish", outcome=outcome, key=key).ok(200)
    again = act(admin, run, "finish", outcome=outcome, key=key)

    assert first["status"] == outcome and again.ok(200) == {**first, "repeated": True}
    assert again.headers["idempotent-replayed"] == "true"
    for verb in ("start", "heartbeat", "pause", "resume", "finish", "cancel"):
        act(admin, run, verb).refused(409, "run_ended")


@pytest.mark.parametrize("verb", ["start", "heartbeat", "pause", "resume", "finish", "cancel"])
def test_another_fence_changes_nothing(admin, agent, verb):
    run = admin.run(agent)

    for fence in (run["fence"] + 1, run["fence"] + 10**6):
        act(admin, {**run, "fence": fence}, verb).refused(409, "stale_fence")
    if verb in ("pause", "resume"):  # Without a fence somebody else asks, and nobody would hear of it.
        admin.post(f"/v1/runs/{run['id']}/{verb}", {}).refused(409, "stale_fence")
    elif verb != "cancel":
        admin.post(f"/v1/runs/{run['id']}/{verb}", {}).refused(400, "invalid_request", "/fence")
    assert shown(admin, run)["status"] == "starting"
    admin.finish(run).ok(200)


def test_the_last_charge_comes_with_the_end(admin, agent):
    for end in (lambda run, charge: act(admin, run, "finish", charge=charge),
                lambda run, charge: act(admin, run, "cancel", charge=charge)):
        run = admin.run(agent, provider="p", model="m", hold="1.00")
        end(run, {"cost": "0.375", "calls": 2, "usage": {"input_tokens": 9}}).ok(200)

        assert shown(admin, run)["spent"] == "0.375"
        event, = admin.items("/v1/charges", run=run["id"])
        assert (event["cost"], event["calls"], event["usage"]["input_tokens"]) == ("0.375", 2, 9)
        assert admin.items("/v1/holds", agent=agent) == []


def test_charges_with_an_old_fence_or_of_an_ended_run_are_refused(admin, agent):
    run = admin.run(agent)
    body = {"agent": agent, "cost": "0.01", "run": run["id"]}

    admin.post("/v1/charges", {**body, "fence": run["fence"] + 1}).refused(409, "stale_fence")
    admin.post("/v1/charges", {**body, "fence": run["fence"]}).ok(201)
    admin.finish(run).ok(200)
    admin.post("/v1/charges", {**body, "fence": run["fence"]}).refused(409, "run_ended")
    admin.post("/v1/holds", {"agent": agent, "amount": "0.01", "run": run["id"], "fence": run["fence"]}).refused(409, "run_ended")


def test_a_run_can_be_cancelled_by_its_owner_and_others_can_only_ask(admin, agent):
    owned, asked = admin.run(agent), admin.run(agent)

    assert act(admin, owned, "cancel", reason="enough").ok(200)["status"] == "cancelled"
    assert shown(admin, owned)["reason"] == "enough"

    told = admin.post(f"/v1/runs/{asked['id']}/cancel", {"reason": "please"}).ok(200)
    assert told["status"] == "starting" and told["stop_requested"] == "please"
    assert act(admin, asked, "heartbeat").ok(200)["stop_requested"] == "please"
    assert act(admin, asked, "cancel").ok(200)["status"] == "cancelled"


def test_the_same_run_asked_for_twice_is_one(admin, agent, place):
    key = fresh("key")
    first = admin.run(agent, workspace=str(place), key=key)

    again = admin.post("/v1/runs", {"agent": agent, "workspace": str(place)}, idempotency=key)

    assert again.ok(201)["id"] == first["id"] and again.json()["fence"] == first["fence"]
    assert again.json()["repeated"] is True and again.headers["idempotent-replayed"] == "true"
    admin.post("/v1/runs", {"agent": agent, "key": key}).refused(422, "key_reused")
    admin.finish(first).ok(200)


def test_a_repeat_gets_its_first_answer_also_when_the_directory_is_gone_or_new(admin, agent, tmp_path):
    directory, key = tmp_path / "brief", fresh("key")
    directory.mkdir()
    first = admin.run(agent, workspace=str(directory), key=key)
    try:
        directory.rmdir()
        assert admin.run(agent, workspace=str(directory), key=key)["id"] == first["id"]
        (tmp_path / "spacer").mkdir()
        directory.mkdir()
        assert admin.run(agent, workspace=str(directory), key=key)["id"] == first["id"]
    finally:
        admin.finish(first).ok(200)


def test_a_directory_that_was_removed_and_made_again_is_still_held(admin, agent, tmp_path):
    directory = tmp_path / "brief"
    directory.mkdir()
    holder = admin.run(agent, workspace=str(directory))

    directory.rmdir()
    (tmp_path / "spacer").mkdir()
    (directory / "src").mkdir(parents=True)

    for path in (directory, directory / "src"):
        admin.post("/v1/runs", {"agent": agent, "workspace": str(path)}).refused(409, "workspace_busy")
    admin.finish(holder).ok(200)


@pytest.mark.parametrize("verb", ["start", "heartbeat", "pause", "resume", "finish"])
def test_no_fence_is_not_a_fence(admin, agent, place, verb):
    holder = admin.run(agent, workspace=str(place))
    waiting = admin.run(agent, workspace=str(place), on_conflict="queue")

    for run in (holder, waiting):
        reply = admin.post(f"/v1/runs/{run['id']}/{verb}", {"fence": 0})
        assert reply.status in (400, 409), reply
    assert (shown(admin, holder)["status"], shown(admin, waiting)["status"]) == ("starting", "queued")
    admin.post(f"/v1/runs/{waiting['id']}/cancel", {}).ok(200)
    admin.finish(holder).ok(200)


# ---- one place, one run -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("other", ["{repo}", "{repo}/", "{repo}/.", "{repo}/src/..", "{link}", "{link}/", "{repo}/src",
                                   "{link}/src", "{parent}", "{repo}//src"])
def test_a_held_directory_is_busy_by_whatever_name(admin, agent, place, other):
    holder = admin.run(agent, workspace=str(place))
    wanted = other.format(repo=place, link=place.parent / "link", parent=place.parent)

    problem = admin.post("/v1/runs", {"agent": agent, "workspace": wanted}).refused(409, "workspace_busy")

    assert problem["holder"]["run"] == holder["id"] and problem["holder"]["agent"] == agent
    assert problem["holder"]["path"] == str(place) and problem["holder"]["status"] == "starting" and problem["holder"]["since"]
    admin.finish(holder).ok(200)
    admin.finish(admin.run(agent, workspace=wanted)).ok(200)


def test_directories_side_by_side_do_not_disturb_each_other(admin, agent, place):
    (place.parent / "repo2").mkdir()
    runs = [admin.run(agent, workspace=str(place)), admin.run(agent, workspace=str(place.parent / "repo2"))]
    for run in runs:
        admin.finish(run).ok(200)


def test_readers_share_and_a_writer_is_alone(admin, agent, place):
    readers = [admin.run(agent, workspace=str(place), mode="read") for _ in range(3)]
    admin.post("/v1/runs", {"agent": agent, "workspace": str(place)}).refused(409, "workspace_busy")
    for reader in readers:
        admin.finish(reader).ok(200)

    writer = admin.run(agent, workspace=str(place))
    admin.post("/v1/runs", {"agent": agent, "workspace": str(place), "mode": "read"}).refused(409, "workspace_busy")
    admin.finish(writer).ok(200)


def test_a_named_resource_is_held_like_a_directory(admin, agent):
    resource = fresh("deploy")
    holder = admin.run(agent, resources=[resource])

    problem = admin.post("/v1/runs", {"agent": agent, "resources": [fresh("x"), resource]}).refused(409, "workspace_busy")
    assert problem["holder"]["run"] == holder["id"] and problem["holder"]["path"] == resource
    admin.finish(holder).ok(200)
    admin.finish(admin.run(agent, resources=[resource])).ok(200)


def test_who_queues_gets_the_place_in_order_as_soon_as_it_is_free(admin, agent, place):
    holder = admin.run(agent, workspace=str(place))
    line = [admin.run(agent, workspace=str(place), on_conflict="queue") for _ in range(3)]
    hasty = admin.run(agent, workspace=str(place), on_conflict="queue", priority=5)
    assert [run["status"] for run in line] == ["queued"] * 3 and [run["place_in_line"] for run in line] == [1, 2, 3]
    assert all(run["waits_for"] == "workspace" and run["lease_until"] is None for run in line)
    assert hasty["place_in_line"] == 1

    admin.finish(holder).ok(200)

    for turn in [hasty, *line]:
        told = shown(admin, turn)
        assert told["status"] == "starting" and told["admitted_at"], turn
        admin.finish(told).ok(200)


def test_a_queued_run_holds_nothing(admin, agent, place):
    budget = admin.budget("1.00", scope={"agent": agent})
    other = fresh("resource")
    holder = admin.run(agent, workspace=str(place))

    waiting = admin.run(agent, workspace=str(place), resources=[other], on_conflict="queue", hold="0.50")

    assert admin.get(f"/v1/budgets/{budget}").ok(200)["held"] == "0.00"
    assert waiting["id"] not in {each["run"] for each in admin.get("/v1/places").ok(200)["items"]}
    assert admin.get(f"/v1/agents/{agent}").ok(200)["queued_runs"] == 1
    assert shown(admin, waiting)["hold"] is None
    assert admin.post(f"/v1/runs/{waiting['id']}/cancel", {}).ok(200)["status"] == "cancelled"
    admin.finish(holder).ok(200)


def test_patience_in_line_has_an_end(admin, agent, place):
    holder = admin.run(agent, workspace=str(place))
    waiting = admin.run(agent, workspace=str(place), on_conflict="queue", queue_s=1)
    assert waiting["queued_until"]

    eventually(lambda: shown(admin, waiting)["status"] in TERMINAL)

    admin.finish(holder).ok(200)
    assert shown(admin, waiting)["status"] in TERMINAL and shown(admin, waiting)["admitted_at"] is None


def test_who_replaces_asks_the_holder_to_stop_and_comes_next(admin, agent, place):
    holder = admin.run(agent, workspace=str(place))

    successor = admin.run(agent, workspace=str(place), on_conflict="replace")

    assert successor["status"] == "queued"
    assert act(admin, holder, "heartbeat").ok(200)["stop_requested"]
    act(admin, holder, "cancel").ok(200)
    assert shown(admin, successor)["status"] == "starting"
    admin.finish(shown(admin, successor)).ok(200)


def test_who_isolates_gets_a_directory_of_its_own(admin, agent, place):
    holder, elsewhere = admin.run(agent, workspace=str(place)), place.parent / "elsewhere"
    elsewhere.mkdir()

    given = admin.run(agent, workspace=str(place), on_conflict="isolate", isolate_into=str(elsewhere))
    made = admin.run(agent, workspace=str(place), on_conflict="isolate", key=fresh("key"))

    assert given["isolated"] is True and given["workspace"] == str(elsewhere) and given["status"] == "starting"
    assert made["isolated"] is True and os.path.isdir(made["workspace"]) and made["workspace"] != str(place)
    admin.post("/v1/runs", {"agent": agent, "workspace": str(elsewhere)}).refused(409, "workspace_busy")
    for run in (holder, given, made):
        admin.finish(run).ok(200)
    free = admin.run(agent, workspace=str(place), on_conflict="isolate", isolate_into=str(elsewhere))
    assert free["isolated"] is False and free["workspace"] == str(place)
    admin.finish(free).ok(200)


def test_an_agent_does_no_more_at_once_than_it_may(admin):
    agent = admin.agent(max_concurrent_runs=2)
    runs = [admin.run(agent) for _ in range(2)]

    admin.post("/v1/runs", {"agent": agent}).refused(409, "concurrency_limit")
    waiting = admin.run(agent, on_conflict="queue")
    assert waiting["status"] == "queued" and waiting["waits_for"] == "agent_cap"
    told = admin.get(f"/v1/agents/{agent}").ok(200)
    assert (told["live_runs"], told["queued_runs"]) == (2, 1)

    admin.finish(runs[0]).ok(200)
    assert shown(admin, waiting)["status"] == "starting"
    assert [run["id"] for run in admin.items("/v1/runs", agent=agent, status="starting,running", limit=1)] == [
        waiting["id"], runs[1]["id"]]
    assert [run["id"] for run in admin.items("/v1/runs", agent=agent, status="succeeded")] == [runs[0]["id"]]
    admin.get("/v1/runs", status="sleeping").refused(400, "invalid_request")


def test_a_run_whose_hold_fits_no_budget_is_refused_or_waits(admin, agent):
    admin.budget("1.00", scope={"agent": agent})

    first = admin.run(agent, hold="0.75")
    problem = admin.post("/v1/runs", {"agent": agent, "hold": "0.50"}).refused(402, "budget_exceeded")
    assert problem["held"] == "0.75" and problem["free"] == "0.25"
    admin.finish(first).ok(200)
    admin.finish(admin.run(agent, hold="1.00")).ok(200)


# ---- leases -------------------------------------------------------------------------------------------------------

def test_a_dead_owner_loses_its_place_and_its_late_word_does_not_count(admin, agent, place):
    dead = admin.run(agent, workspace=str(place), lease_s=1, hold="0.10")
    alive = admin.run(agent, resources=[fresh("resource")], lease_s=1)
    successor = admin.run(agent, workspace=str(place), on_conflict="queue", lease_s=60)

    def beat_and_look():
        act(admin, alive, "heartbeat").ok(200)
        return shown(admin, dead)["status"] == "lost"

    eventually(beat_and_look)

    assert shown(admin, successor)["status"] == "starting" and shown(admin, alive)["status"] == "running"
    reply = act(admin, dead, "finish")
    assert reply.problem()["code"] in ("stale_fence", "run_ended"), reply
    assert shown(admin, successor)["status"] == "starting"
    assert successor["id"] in {each["run"] for each in admin.get("/v1/places").ok(200)["items"]}
    admin.post("/v1/runs", {"agent": agent, "workspace": str(place)}).refused(409, "workspace_busy")
    for run in (shown(admin, successor), alive):
        admin.finish(run).ok(200)


@pytest.mark.parametrize("body, pointer", [
    ({"workspace": "relative/path"}, "/workspace"), ({"workspace": "/nowhere/at/all"}, "/workspace"),
    ({"workspace": "/etc/passwd"}, "/workspace"), ({"workspace": "/tmp\0x"}, "/workspace"), ({"mode": "append"}, "/mode"),
    ({"on_conflict": "fight"}, "/on_conflict"), ({"lease_s": 0}, "/lease_s"), ({"lease_s": 10**9}, "/lease_s"),
    ({"lease_s": "60"}, "/lease_s"), ({"queue_s": -1}, "/queue_s"), ({"hold": 1}, "/hold"), ({"hold": "-1"}, "/hold"),
    ({"resources": "x"}, "/resources"), ({"resources": ["a b"]}, None), ({"session": "run_1"}, "/session"),
    ({"isolate_into": "/nowhere/at/all", "on_conflict": "isolate"}, "/isolate_into"), ({"speed": 1}, "/speed"),
    ({"agent": 5}, "/agent"), ({"priority": "high"}, "/priority"), ({"tags": {"a b": "c"}}, None),
])
def test_a_run_that_makes_no_sense_is_refused_and_the_member_is_named(admin, agent, body, pointer):
    admin.post("/v1/runs", {"agent": agent, **body}).refused(400, "invalid_request", pointer)

    assert admin.items("/v1/runs", agent=agent) == []


# ---- caps ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, member", [("provider", "provider"), ("node", "node")])
def test_a_cap_limits_how_many_are_live(admin, agent, kind, member):
    name = fresh(kind)
    assert admin.put(f"/v1/caps/{kind}/{name}", {"max_live": 1}).ok(200) == {
        "kind": kind, "name": name, "max_live": 1, "live": 0}

    first = admin.run(agent, **{member: name})
    admin.post("/v1/runs", {"agent": agent, member: name}).refused(409, "concurrency_limit")
    waiting = admin.run(agent, on_conflict="queue", **{member: name})
    assert waiting["waits_for"] == f"{kind}_cap"
    cap, = [cap for cap in admin.get("/v1/caps").ok(200)["items"] if cap["name"] == name]
    assert cap["live"] == 1
    other = admin.run(agent, **{member: fresh(kind)})

    admin.delete(f"/v1/caps/{kind}/{name}").ok(204)
    assert shown(admin, waiting)["status"] == "starting"
    assert name not in {cap["name"] for cap in admin.get("/v1/caps").ok(200)["items"]}
    for run in (first, other, shown(admin, waiting)):
        admin.finish(run).ok(200)


def test_the_org_has_a_cap_too(admin, agent):
    live = admin.get("/v1/status").ok(200)["live_runs"]
    admin.put("/v1/caps/org", {"max_live": live + 1}).ok(200)
    try:
        run = admin.run(agent)
        admin.post("/v1/runs", {"agent": agent}).refused(409, "concurrency_limit")
    finally:
        admin.delete("/v1/caps/org").ok(204)
    admin.finish(run).ok(200)


def test_a_cap_that_makes_no_sense_is_refused(admin):
    admin.put("/v1/caps/org", {}).refused(400, "invalid_request", "/max_live")
    admin.put("/v1/caps/org", {"max_live": -1}).refused(400, "invalid_request", "/max_live")
    admin.put("/v1/caps/org", {"max_live": "1"}).refused(400, "invalid_request", "/max_live")
    admin.put("/v1/caps/planet/x", {"max_live": 1}).refused(404, "not_found")


# ---- schedules ----------------------------------------------------------------------------------------------------

def put_schedule(client, agent, **body):
    name = fresh("schedule")
    return client.put(f"/v1/schedules/{name}", {"agent": agent, **body}).ok(200, 201)


def test_a_schedule_is_shown_as_it_was_put(admin, agent, place):
    resource = fresh("resource")
    told = put_schedule(admin, agent, cron="0 9 * * mon-fri", timezone="Europe/Berlin", jitter_s=5, overlap="queue",
                        missed="all", missed_max=3, workspace=str(place), resources=[resource], lease_s=30, priority=2,
                        hold="0.10")

    expected = {"agent": agent, "cron": "0 9 * * mon-fri", "timezone": "Europe/Berlin", "jitter_s": 5, "overlap": "queue",
                "missed": "all", "missed_max": 3, "workspace": str(place), "resources": [resource], "lease_s": 30,
                "priority": 2, "hold": "0.10", "enabled": True, "every_s": None, "last_fired_at": None, "fired": 0,
                "skipped": 0, "coalesced": 0}
    assert {member: told[member] for member in expected} == expected
    when = datetime.datetime.fromisoformat(told["next_at"].replace("Z", "+00:00"))
    assert when.weekday() < 5 and when.hour in (7, 8) and when > datetime.datetime.now(datetime.timezone.utc)
    assert told == admin.get(f"/v1/schedules/{told['name']}").ok(200)
    assert told in admin.items("/v1/schedules", limit=1)
    admin.delete(f"/v1/schedules/{told['name']}").ok(204)
    admin.get(f"/v1/schedules/{told['name']}").refused(404, "not_found")


@pytest.mark.parametrize("given, seconds", [({"every": "15m"}, 900), ({"every": "90s"}, 90), ({"every": "2h"}, 7200),
                                            ({"every": "1d"}, 86400), ({"every_s": 77}, 77)])
def test_an_interval_can_be_written_in_several_ways(admin, agent, given, seconds):
    assert put_schedule(admin, agent, **given)["every_s"] == seconds


def test_an_interval_fires_by_itself_and_does_not_pile_up(admin):
    agent = admin.agent(max_concurrent_runs=1)
    name = put_schedule(admin, agent, every_s=1, overlap="skip", lease_s=600)["name"]

    eventually(lambda: admin.get(f"/v1/schedules/{name}").ok(200)["skipped"] >= 1)

    runs = admin.items("/v1/runs", agent=agent)
    assert len(runs) == 1 and runs[0]["schedule"] == name and runs[0]["status"] == "starting"
    admin.put(f"/v1/schedules/{name}", {"agent": agent, "every_s": 1, "enabled": False}).ok(200)
    admin.finish(runs[0]).ok(200)
    time.sleep(1.5)
    told = admin.get(f"/v1/schedules/{name}").ok(200)
    assert told["fired"] == 1 and told["next_at"] is None and len(admin.items("/v1/runs", agent=agent)) == 1


def test_a_wake_starts_a_run_and_more_wakes_join_the_one_that_waits(admin):
    agent = admin.agent(max_concurrent_runs=1)
    name, key = put_schedule(admin, agent, every="1d", overlap="queue")["name"], fresh("key")

    first = admin.post(f"/v1/schedules/{name}/wake", {"key": key}).ok(201)
    again = admin.post(f"/v1/schedules/{name}/wake", {"key": key})
    assert (first["status"], first["run_status"], first["repeated"]) == ("woken", "starting", False) and first["fence"] > 0
    assert again.ok(201) == {**first, "repeated": True}

    act(admin, {"id": first["run"], "fence": first["fence"]}, "start").ok(200)
    second = admin.post(f"/v1/schedules/{name}/wake").ok(201)
    third = admin.post(f"/v1/schedules/{name}/wake").ok(201)
    assert (second["status"], second["run_status"]) == ("woken", "queued") and second["run"] != first["run"]
    assert (third["status"], third["run"], third["run_status"]) == ("coalesced", second["run"], "queued")
    assert admin.get(f"/v1/schedules/{name}").ok(200)["coalesced"] >= 1
    assert len(admin.items("/v1/runs", agent=agent)) == 2

    admin.finish({"id": first["run"], "fence": first["fence"]}).ok(200)
    assert admin.get(f"/v1/runs/{second['run']}").ok(200)["status"] == "starting"


@pytest.mark.parametrize("body, pointer", [
    ({}, None), ({"every": "15m", "cron": "* * * * *"}, None), ({"every": "soon"}, "/every"), ({"every": "0s"}, "/every"),
    ({"every_s": -5}, "/every_s"), ({"every": "5m", "every_s": 300}, "/every"), ({"cron": "61 * * * *"}, "/cron"),
    ({"cron": "nonsense"}, "/cron"), ({"every": "1h", "timezone": "Nowhere"}, "/timezone"),
    ({"every": "1h", "overlap": "fight"}, "/overlap"), ({"every": "1h", "missed": "none"}, "/missed"),
    ({"every": "1h", "workspace": "x"}, "/workspace"), ({"every": "1h", "what": 1}, "/what"),
    ({"every": "1h", "jitter_s": -1}, "/jitter_s"), ({"every": "1h", "lease_s": 0}, "/lease_s"),
])
def test_a_schedule_that_makes_no_sense_is_refused(admin, agent, body, pointer):
    name = fresh("schedule")

    admin.put(f"/v1/schedules/{name}", {"agent": agent, **body}).refused(400, "invalid_request", pointer)

    admin.get(f"/v1/schedules/{name}").refused(404, "not_found")


def test_a_schedule_needs_an_agent_that_is_there(admin):
    admin.put(f"/v1/schedules/{fresh('schedule')}", {"every": "1h"}).refused(400, "invalid_request", "/agent")
    assert admin.put(f"/v1/schedules/{fresh('schedule')}", {"agent": "nobody", "every": "1h"}).refused(
        404, "not_found")["what"] == "agent"


# ---- names that have changed --------------------------------------------------------------------------------------

@pytest.mark.parametrize("waits", [{"queue_timeout_s": 600}, {"queue_s": 600}, {"queue_s": 600, "queue_timeout_s": 600}])
def test_a_renamed_member_is_read_by_both_names_and_sent_back_by_both(admin, agent, place, waits):
    holder = admin.run(agent, workspace=str(place))

    queued = admin.run(agent, workspace=str(place), on_conflict="queue", **waits)

    assert queued["queue_position"] == queued["place_in_line"] == 1 and queued["queued_until"]
    admin.post(f"/v1/runs/{holder['id']}/cancel", {"reason": "enough"}).ok(200)
    told = shown(admin, holder)
    assert told["cancel_requested"] == told["stop_requested"] == "enough"
    admin.post(f"/v1/runs/{queued['id']}/cancel", {}).ok(200)
    admin.finish(holder, outcome="failed").ok(200)


def test_two_names_of_one_member_with_two_values_are_refused(admin, agent):
    both = admin.post("/v1/runs", {"agent": agent, "queue_s": 1, "queue_timeout_s": 2})
    refused = both.refused(400, "invalid_request", "/queue_timeout_s")
    assert refused["detail"] == "queue_timeout_s differs from queue_s, its former name; send only queue_timeout_s"
    for retry in ({"tries": 2, "max_attempts": 3}, {"max_attempts": 2, "tries": 1}):
        admin.put(f"/v1/agents/{agent}", {"retry": retry}).refused(400, "invalid_request", "/retry/max_attempts")


def test_attempts_of_an_agent_have_both_names(admin, agent):
    for retry in ({"tries": 4}, {"max_attempts": 4}):
        made = admin.put(f"/v1/agents/{agent}", {"retry": retry}).ok(200)
        assert made["retry"]["tries"] == made["retry"]["max_attempts"] == 4


def test_claims_and_triggers_have_both_paths(admin, agent):
    name = fresh("schedule")
    admin.put(f"/v1/schedules/{name}", {"agent": agent, "every": "1h"}).ok(200)
    first = admin.post(f"/v1/schedules/{name}/trigger", {"key": fresh("key")}).ok(201)

    again = admin.post(f"/v1/schedules/{name}/wake", {"key": fresh("key")}).ok(201)

    assert first["status"] == "woken" and again["status"] in ("woken", "coalesced")
    assert admin.get("/v1/claims").ok(200) == admin.get("/v1/places").ok(200)
