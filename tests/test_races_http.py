"""The race harness: the real server, real threads, a network that cuts and doubles, and kill -9.

Nothing here looks inside: what clients were told is compared with what the server says afterwards, and `interlock verify`
derives every promise from the rows again. INTERLOCK_LONG=1 makes the loads longer.
"""

import concurrent.futures
import multiprocessing
import os
import threading
import time

import pytest

from chaos_proxy import FATES, ChaosProxy
from checks import (COST, Load, attempt, check_messages, check_money, check_nothing_is_held, check_pair, spend_together,
                    write_together)
from interlock_server import LOST, ON_POSTGRES, Client, Crew, Server, eventually, fresh, together
from naive_server import NaiveServer, QuietServer

pytestmark = pytest.mark.seconds_max(60)

LONG = os.environ.get("INTERLOCK_LONG") == "1"
SEED = int(os.environ.get("INTERLOCK_SEED", "1"))


# ---- (a) money ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("threads, each", [(20, 50), (64, 15)])
def test_not_one_of_many_concurrent_charges_is_lost_or_doubled(server, admin, threads, each):
    agent = admin.agent()
    budget = admin.budget("1000.00", scope={"agent": agent})

    numbers = spend_together(admin, agent, threads, each)

    assert len(set(numbers)) == threads * each
    check_money(admin, agent, budget, threads * each)
    server.verify()


def test_clients_in_processes_of_their_own_lose_nothing_either(server, admin):
    agent = admin.agent()
    budget = admin.budget("1000.00", scope={"agent": agent})

    with concurrent.futures.ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(spend_together, Client(server.address, admin.key), agent, 5, 40) for _ in range(4)]
        numbers = [number for part in parts for number in part.result(60)]

    assert len(set(numbers)) == 4 * 5 * 40
    check_money(admin, agent, budget, 4 * 5 * 40)


def test_concurrent_batches_add_up_to_the_last_digit(server, admin):
    agent = admin.agent()
    budget = admin.budget("1000.00", scope={"agent": agent})
    batch = [{"agent": agent, "cost": str(COST)}] * 100

    done = together(20, lambda _: [admin.post("/v1/charges", batch).ok(200)["charged"] for _ in range(5)])

    assert sum(map(sum, done)) == 20 * 5 * 100
    check_money(admin, agent, budget, 20 * 5 * 100)


def test_one_key_sent_by_everybody_at_once_is_one_charge(server, admin):
    agent = admin.agent()
    budget = admin.budget("1000.00", scope={"agent": agent})

    for i in range(10):
        body = {"agent": agent, "cost": str(COST), "key": fresh("key")}
        replies = together(20, lambda _: admin.post("/v1/charges", body).ok(201))
        assert sorted(reply["repeated"] for reply in replies) == [False] + [True] * 19
        assert len({reply["seq"] for reply in replies}) == 1
        check_money(admin, agent, budget, i + 1)


def test_a_limit_holds_to_the_last_digit_however_many_push(server, admin):
    agent = admin.agent()
    budget = admin.budget("0.10", scope={"agent": agent})  # 133 charges fit, and a rest of 0.00025.

    def push(_):
        replies = [admin.post("/v1/charges", {"agent": agent, "cost": str(COST)}) for _ in range(10)]
        for reply in replies:
            if reply.status != 201:
                reply.refused(402, "budget_exceeded")
        return sum(reply.status == 201 for reply in replies)

    assert sum(together(32, push)) == 133
    check_money(admin, agent, budget, 133)
    assert admin.get(f"/v1/budgets/{budget}").ok(200)["free"] == "0.00025"


def test_a_budget_made_in_the_middle_of_it_all_has_missed_nothing(server, admin):
    load = Load(server)
    worker = threading.Thread(target=lambda: failures.extend(attempt(
        lambda: together(8, lambda i: load.work(i, 10**9), seconds=30))), daemon=True)
    failures = []
    worker.start()
    budgets = []
    for _ in range(10):
        before = len(load.charges)
        eventually(lambda: len(load.charges) >= before + 10 or failures)
        budgets.append(admin.budget("1000.00", scope={"agent": load.agent}))
    load.stopped.set()
    worker.join(30)

    assert not failures, failures[0]
    load.check()
    spent = admin.get(f"/v1/agents/{load.agent}").ok(200)["spent"]
    assert {admin.get(f"/v1/budgets/{budget}").ok(200)["settled"] for budget in budgets} == {spent}
    server.verify()


# ---- (b) holds ----------------------------------------------------------------------------------------------------

def test_of_twenty_holds_of_a_quarter_exactly_two_fit_into_half_a_dollar(server, admin):
    for _ in range(5):
        agent = admin.agent()
        budget = admin.budget("0.50", scope={"agent": agent})

        replies = together(20, lambda _: admin.post("/v1/holds", {"agent": agent, "amount": "0.25"}))

        assert sorted(reply.status for reply in replies) == [201] * 2 + [402] * 18
        told = admin.get(f"/v1/budgets/{budget}").ok(200)
        assert (told["held"], told["free"], told["open_holds"]) == ("0.50", "0.00", 2)


def test_of_twenty_runs_that_hold_a_quarter_exactly_two_are_admitted(server, admin):
    agent = admin.agent(max_concurrent_runs=100)
    budget = admin.budget("0.50", scope={"agent": agent})

    replies = together(20, lambda _: admin.post("/v1/runs", {"agent": agent, "hold": "0.25"}))

    assert sorted(reply.status for reply in replies) == [201] * 2 + [402] * 18
    together(2, lambda i: admin.finish([reply for reply in replies if reply.status == 201][i].json(),
                                       charge={"cost": "0.25"}).ok(200))
    told = admin.get(f"/v1/budgets/{budget}").ok(200)
    assert (told["settled"], told["held"], told["open_holds"]) == ("0.50", "0.00", 0)


def test_a_hold_settled_by_many_at_once_is_settled_once(server, admin):
    agent = admin.agent()
    for _ in range(5):
        hold = admin.post("/v1/holds", {"agent": agent, "amount": "0.25"}).ok(201)["id"]
        replies = together(10, lambda i: admin.post(f"/v1/holds/{hold}/" + ("settle" if i % 2 else "release"),
                                                    {"cost": "0.25"} if i % 2 else {}))
        assert sorted(reply.status for reply in replies) == [200] + [409] * 9
    server.verify()


# ---- (c) messages -------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("writers, each", [(16, 20), (64, 10)])
def test_many_writers_of_one_session_get_numbers_without_gap_or_duplicate(server, admin, writers, each):
    session = admin.session()

    acknowledged = write_together(admin, session, writers, each)

    assert len(acknowledged) == writers * each
    check_messages(admin, session, acknowledged)


def test_whole_turns_of_concurrent_writers_are_never_mixed(server, admin):
    session = admin.session()

    def write(i):
        for j in range(10):
            admin.post(f"/v1/sessions/{session}/messages", {
                "messages": [{"role": "user", "content": f"{i}-{j}-{k}"} for k in range(5)]}).ok(201)

    together(16, write)

    messages = [message["content"] for message in admin.items(f"/v1/sessions/{session}/messages")]
    assert len(messages) == 16 * 10 * 5
    for at in range(0, len(messages), 5):
        turn = messages[at].rsplit("-", 1)[0]
        assert messages[at:at + 5] == [f"{turn}-{k}" for k in range(5)]


def test_of_all_who_expect_the_same_number_one_wins(server, admin):
    session = admin.session()
    for expected in range(20):
        replies = together(8, lambda i: admin.post(f"/v1/sessions/{session}/messages", {
            "role": "user", "content": f"{expected}-{i}", "expected_seq": expected}))
        assert sorted(reply.status for reply in replies) == [201] + [409] * 7
        for reply in replies:
            if reply.status == 409:
                assert reply.refused(409, "unexpected_seq")["next_seq"] == expected + 1


# ---- (d) places ---------------------------------------------------------------------------------------------------

def test_of_two_that_start_on_one_directory_in_the_same_instant_one_wins(server, admin, tmp_path):
    (tmp_path / "repo/src/deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    agent, repo, link = admin.agent(max_concurrent_runs=100), str(tmp_path / "repo"), str(tmp_path / "link")
    ways = [(repo, repo), (repo, repo + "/"), (repo, link), (repo, repo + "/src"), (repo + "/src/deep", link),
            (link + "/src", repo + "/src/../src/"), (str(tmp_path), repo + "/src/deep"), (link + "/", repo + "/.")]

    with Crew(2) as crew:
        for i in range(200):
            way = ways[i % len(ways)]
            winner = check_pair(crew.race(lambda side: admin.post("/v1/runs", {"agent": agent, "workspace": way[side]})))
            # Only when it has finished can the next round begin.
            admin.finish(winner).ok(200)

    assert len(admin.items("/v1/runs", agent=agent)) == 200
    server.verify()


def test_who_waits_in_line_is_never_there_together_with_another(server, admin):
    agent, resource, inside, most = admin.agent(max_concurrent_runs=100), fresh("resource"), [], []

    def work_alone(i):
        for _ in range(3):
            run = admin.run(agent, resources=[resource], on_conflict="queue", lease_s=60)
            run = eventually(lambda: (told := admin.get(f"/v1/runs/{run['id']}").ok(200))["status"] != "queued" and told, 40)
            inside.append(i)
            most.append(len(inside))
            inside.remove(i)
            admin.finish(run).ok(200)

    together(12, work_alone)

    assert len(most) == 36 and max(most) == 1
    fences = [run["fence"] for run in admin.items("/v1/runs", agent=agent)]
    assert len(set(fences)) == 36


# ---- (e) a network that cuts and doubles --------------------------------------------------------------------------

def test_through_a_network_that_cuts_and_doubles_nothing_is_lost_and_nothing_is_doubled(server, admin):
    with ChaosProxy(server.address, SEED) as proxy:
        load = Load(server, admin.at(proxy.address))
        together(16, lambda i: load.work(i, 60 if LONG else 24))

        assert set(proxy.happened) == set(FATES), "the load was too short to see every kind of trouble"
    assert load.repeated > 0
    load.check()
    server.verify()


def test_through_such_a_network_two_starts_on_one_directory_have_one_winner(server, admin, tmp_path):
    agent = admin.agent(max_concurrent_runs=1000)
    with ChaosProxy(server.address, SEED + 1) as proxy, Crew(2) as crew:
        client = admin.at(proxy.address)
        for i in range(40):
            directory = tmp_path / str(i)
            directory.mkdir()
            keys = fresh("key"), fresh("key")
            winner = check_pair(crew.race(lambda side: client.insist(
                "POST", "/v1/runs", {"agent": agent, "workspace": str(directory) + "/" * side, "key": keys[side]})))
            client.insist("POST", f"/v1/runs/{winner['id']}/finish", {"fence": winner["fence"], "key": fresh("key")}).ok(200)
            assert admin.get(f"/v1/runs/{winner['id']}").ok(200)["status"] == "succeeded"


def test_through_such_a_network_two_holds_fit_and_no_third(server, admin):
    with ChaosProxy(server.address, SEED + 2) as proxy:
        client = admin.at(proxy.address)
        for _ in range(3):
            agent = admin.agent()
            budget = admin.budget("0.50", scope={"agent": agent})
            replies = together(20, lambda _: client.insist(
                "POST", "/v1/holds", {"agent": agent, "amount": "0.25", "ttl_s": 600, "key": fresh("key")}))

            held = {reply.json()["id"] for reply in replies if reply.status == 201}
            assert len(held) == 2 and sorted(reply.status for reply in replies) == [201] * 2 + [402] * 18
            assert admin.get(f"/v1/budgets/{budget}").ok(200)["held"] == "0.50"
            for hold in held:
                client.insist("POST", f"/v1/holds/{hold}/settle", {"cost": "0.25", "key": hold}).ok(200)
            told = admin.get(f"/v1/budgets/{budget}").ok(200)
            assert (told["settled"], told["held"]) == ("0.50", "0.00")


# ---- (f) kill -9 --------------------------------------------------------------------------------------------------

@pytest.mark.seconds_max(240 if LONG else 60)
def test_killed_again_and_again_under_load_everything_acknowledged_is_there_once(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        load = Load(server)
        worker = threading.Thread(target=lambda: failures.extend(attempt(
            lambda: together(16, lambda i: load.work(i, 10**9), seconds=200))), daemon=True)
        failures = []
        worker.start()
        for round_ in range(10 if LONG else 3):
            before = len(load.charges)
            eventually(lambda: len(load.charges) >= before + 50 or failures, 30)
            server.kill9()
            server.verify()
            server.start()
        load.stopped.set()
        worker.join(60)
        assert not worker.is_alive()
        if failures:
            raise failures[0]

        load.check()
        assert len(load.charges) >= 150 and load.finished > 0
        # Asked once more, each is known.
        for key, number in list(load.charges.items())[-50:]:
            again = server.admin.post("/v1/charges", {"agent": load.agent, "cost": str(COST), "key": key}).ok(201)
            assert again["repeated"] is True and again["seq"] == number
        load.check()
        server.verify()


def test_a_follower_misses_nothing_when_the_server_is_killed(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        load, seen, failures = Load(server), [], []
        start = server.admin.get("/v1/events").ok(200)["head"]
        address, total = server.address, 600

        def follow():
            client, last = Client(address, server.admin.key), start
            while len(seen) < total:
                try:
                    with client.events("/v1/events", last_event_id=last) as stream:
                        while len(seen) < total and (event := stream.next()):
                            seen.append(event[2])
                            last = event[0]
                except LOST:
                    time.sleep(0.01)

        follower = threading.Thread(target=lambda: failures.extend(attempt(follow)), daemon=True)
        follower.start()
        writers = threading.Thread(target=lambda: failures.extend(attempt(
            lambda: together(8, lambda i: load.work(i, 10**9), seconds=50))), daemon=True)
        writers.start()
        for mark in (200, 400):
            eventually(lambda: len(seen) >= mark or failures, 30)
            server.restart()
        follower.join(30)
        load.stopped.set()
        writers.join(30)

        assert not failures, failures[0]
        assert [event["seq"] for event in seen] == list(range(start + 1, start + total + 1))
        assert seen == server.admin.get("/v1/events", after=start, limit=total).ok(200)["items"]
        load.check()


@pytest.mark.skipif(ON_POSTGRES, reason="the disk of a database is not the node's")
def test_a_disk_that_takes_nothing_more_is_told_and_nothing_is_lost_or_doubled(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        admin, agent = server.admin, server.admin.agent()
        budget = admin.budget("1000.00", scope={"agent": agent})

        def charge(key):
            return admin.post("/v1/charges", {"agent": agent, "cost": str(COST), "key": key})

        for i in range(50):
            charge(str(i)).ok(201)
        with server.fill_disk():
            for i in range(50, 60):
                reply = charge(str(i))
                assert reply.status == 503, reply
                code = reply.problem()["code"]
                assert code in ("not_committed", "outcome_unknown", "unavailable", "busy"), reply
                assert code == "outcome_unknown" or reply.headers["retry-after"] == "1"
            # What was spent before can still be read.
            assert admin.get(f"/v1/agents/{agent}").ok(200)["events"] == 50

        for i in range(45, 60):
            admin.insist("POST", "/v1/charges", {"agent": agent, "cost": str(COST), "key": str(i)}, seconds=20).ok(201)
        check_money(admin, agent, budget, 60)
        server.verify()
        server.restart()
        check_money(server.admin, agent, budget, 60)


def test_nobody_is_robbed_because_the_server_was_away(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent(max_concurrent_runs=9)
        run = server.admin.run(agent, resources=["r"], lease_s=2)

        server.kill9()
        time.sleep(2.5)
        server.start()

        assert server.admin.post(f"/v1/runs/{run['id']}/heartbeat", {"fence": run["fence"]}).ok(200)["status"] == "running"
        server.admin.post("/v1/runs", {"agent": agent, "resources": ["r"]}).refused(409, "workspace_busy")


def test_a_schedule_fires_each_tick_once_however_often_the_server_is_killed(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent(max_concurrent_runs=100)
        server.admin.put("/v1/schedules/tick", {"agent": agent, "every_s": 1, "overlap": "allow", "missed": "all"}).ok()
        for _ in range(3):
            fired = server.admin.get("/v1/schedules/tick").ok(200)["fired"]
            eventually(lambda: server.admin.get("/v1/schedules/tick").ok(200)["fired"] > fired)
            server.restart()

        server.admin.put("/v1/schedules/tick", {"agent": agent, "every_s": 1, "enabled": False}).ok(200)
        told, runs = server.admin.get("/v1/schedules/tick").ok(200), server.admin.items("/v1/runs", agent=agent)
        assert told["fired"] == len(runs) >= 3 and {run["schedule"] for run in runs} == {"tick"}
        server.verify()


# ---- (g) every end frees everything -------------------------------------------------------------------------------

ENDS = {
    "succeeded": lambda admin, run: admin.finish(run).ok(200),
    "failed": lambda admin, run: admin.finish(run, outcome="failed").ok(200),
    "timed_out": lambda admin, run: admin.finish(run, outcome="timed_out", charge={"cost": "0.01"}).ok(200),
    "cancelled": lambda admin, run: admin.post(f"/v1/runs/{run['id']}/cancel", {"fence": run["fence"]}).ok(200),
    "lost": lambda admin, run: eventually(lambda: admin.get(f"/v1/runs/{run['id']}").ok(200)["status"] == "lost"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("begun", ["starting", "running", "paused"])
def test_every_end_frees_everything_and_lets_the_next_one_in(server, admin, tmp_path, end, begun):
    agent, node, resource = admin.agent(max_concurrent_runs=1), fresh("node"), fresh("resource")
    budget = admin.budget("10.00", scope={"agent": agent})
    admin.put(f"/v1/caps/node/{node}", {"max_live": 1}).ok(200)
    body = {"workspace": str(tmp_path), "resources": [resource], "node": node, "hold": "0.75"}
    run = admin.run(agent, lease_s=1 if end == "lost" else 60, **body)
    inner = admin.post("/v1/holds", {"agent": agent, "run": run["id"], "fence": run["fence"], "amount": "0.20",
                                     "ttl_s": 600}).ok(201)["id"]
    for verb in {"starting": [], "running": ["start"], "paused": ["start", "pause"]}[begun]:
        admin.post(f"/v1/runs/{run['id']}/{verb}", {"fence": run["fence"]}).ok(200)
    waiting = admin.run(agent, on_conflict="queue", **body)
    assert waiting["status"] == "queued"

    ENDS[end](admin, run)

    assert admin.get(f"/v1/runs/{run['id']}").ok(200)["status"] == end
    assert admin.get(f"/v1/holds/{inner}").ok(200)["status"] != "held"
    told = admin.get(f"/v1/runs/{waiting['id']}").ok(200)
    assert told["status"] == "starting"
    admin.finish(told).ok(200)
    check_nothing_is_held(admin, agent, budget)
    assert [cap["live"] for cap in admin.get("/v1/caps").ok(200)["items"] if cap["name"] == node] == [0]


def test_an_owner_that_is_only_slow_is_not_robbed_and_a_dead_one_is_followed(server, admin, tmp_path):
    agent = admin.agent(max_concurrent_runs=100)
    body = {"agent": agent, "workspace": str(tmp_path), "lease_s": 1}
    owner = admin.run(**body)
    dead, stolen = threading.Event(), []

    def rival(_):
        while not stolen:
            reply = admin.post("/v1/runs", body)
            if reply.status == 201:
                stolen.append((dead.is_set(), time.monotonic(), reply.json()))
            time.sleep(0.02)

    rivals = threading.Thread(target=lambda: together(4, rival, seconds=20), daemon=True)
    rivals.start()
    for _ in range(7):
        time.sleep(0.3)
        admin.post(f"/v1/runs/{owner['id']}/heartbeat", {"fence": owner["fence"]}).ok(200)
        assert not stolen
    last_beat = time.monotonic()
    dead.set()
    rivals.join(20)

    assert len(stolen) == 1
    after_death, when, successor = stolen[0]
    assert after_death and 0.8 <= when - last_beat <= 5
    # The zombie's late word frees nothing of its successor.
    for verb in ("finish", "cancel", "heartbeat", "pause"):
        reply = admin.post(f"/v1/runs/{owner['id']}/{verb}", {"fence": owner["fence"]})
        assert reply.status == 409 and reply.problem()["code"] in ("stale_fence", "run_ended"), reply
    assert admin.post("/v1/charges", {"agent": agent, "cost": "1.00", "run": owner["id"], "fence": owner["fence"]}).status == 409
    holder, = [place for place in admin.get("/v1/places").ok(200)["items"] if place["path"] == str(tmp_path)]
    assert holder["run"] == successor["id"] and successor["fence"] > owner["fence"]
    admin.finish(successor).ok(200)


# ---- (h) keys -----------------------------------------------------------------------------------------------------

def test_a_revoked_key_stops_at_once_under_load(server, admin):
    agent, key, revoked_at = admin.agent(), admin.make_key("agent"), []
    budget = admin.budget("1000.00", scope={"agent": agent})

    def spend(_):
        charged = 0
        while True:
            begun = time.monotonic()
            reply = key.post("/v1/charges", {"agent": agent, "cost": str(COST)})
            if reply.status != 201:
                reply.refused(401, "unauthorized")
                return charged
            assert not revoked_at or begun < revoked_at[0], "let in after the key was revoked"
            charged += 1

    def revoke():
        admin.delete(f"/v1/keys/{key.key_id}").ok(204)
        revoked_at.append(time.monotonic())

    timer = threading.Timer(0.5, revoke)
    timer.start()
    charged = together(16, spend, seconds=20)

    assert sum(charged) > 16
    check_money(admin, agent, budget, sum(charged))


# ---- (i) would the harness notice? --------------------------------------------------------------------------------

def test_the_harness_sees_a_server_that_loses_updates():
    with QuietServer(("127.0.0.1", 0), NaiveServer) as naive:
        threading.Thread(target=naive.serve_forever, args=(0.05,), daemon=True).start()
        client = Client(naive.server_address, "any")

        spend_together(client, "agent", 20, 10)
        with pytest.raises(AssertionError):
            check_money(client, "agent", "budget", 200)
        acknowledged = write_together(client, "session", 16, 10)
        with pytest.raises(AssertionError):
            check_messages(client, "session", acknowledged)
        with pytest.raises(AssertionError), Crew(2) as crew:
            for _ in range(100):
                NaiveServer.holder = None
                check_pair(crew.race(lambda _: client.post("/v1/runs", {"agent": "agent"})))
        naive.shutdown()
