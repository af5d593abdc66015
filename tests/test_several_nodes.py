"""Several nodes on one database: whatever races within one server must not race between nodes either, and a node may die,
freeze, leave or come back at any time.

What clients were told is compared with what the nodes say afterwards, and after each test every promise is derived from
the rows again. INTERLOCK_LONG=1 makes the loads longer. What happens to the database itself is in
test_nodes_and_postgres.py.
"""

import concurrent.futures
import contextlib
import datetime
import os
import shutil
import threading
import time
from decimal import Decimal

import pytest

from checks import (COST, Load, check_feed, check_messages, check_money, check_nothing_is_held, check_pair, check_ticks,
                    spend_together, write_together)
from cluster import LEASE_SECONDS, Cluster, Follower, Roaming
from interlock_server import LOST, Client, Crew, eventually, fresh, together
from naive_server import NaiveServer, QuietServer

pytestmark = pytest.mark.seconds_max(60)

LONG = os.environ.get("INTERLOCK_LONG") == "1"


@pytest.fixture(scope="module")
def three_nodes(binary, tmp_path_factory):
    with Cluster(binary, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(three_nodes):
    """Three nodes that live, whatever the test before did to them. In the end every promise holds."""
    three_nodes.heal()
    yield three_nodes
    three_nodes.heal()
    three_nodes.verify()


@pytest.fixture
def admin(cluster):
    return cluster.client(cluster.nodes[0], timeout=20)


def clients_of(cluster, timeout=20):
    return [cluster.client(node, timeout) for node in cluster.nodes]


# ---- beginning and end --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("count", [2, 5])
def test_nodes_that_start_together_on_an_empty_database_agree(binary, tmp_path, count):
    with Cluster(binary, tmp_path, count) as cluster:
        agent = cluster.admin.agent()
        for node in cluster.nodes:
            node.admin.post("/v1/charges", {"agent": agent, "cost": str(COST)}).ok(201)
            told = node.admin.get("/v1/nodes").ok(200)["items"]
            assert {each["name"] for each in told if each["state"] == "alive"} == {each.name for each in cluster.nodes}
        events = cluster.admin.get("/v1/events", limit=1000).ok(200)["items"]
        check_feed(events, 0)
        assert [event["type"] for event in events].count("org_created") == 1
        cluster.verify()


def alive(client):
    return {node["name"] for node in client.get("/v1/nodes").ok(200)["items"] if node["state"] == "alive"}


def test_every_node_tells_within_the_lease_who_is_there(cluster):
    everybody = {node.name for node in cluster.nodes}
    for client in clients_of(cluster):
        assert alive(client) == everybody
    gone = cluster.nodes[2]
    rest = everybody - {gone.name}

    gone.kill9()
    for node in cluster.nodes[:2]:
        eventually(lambda: alive(cluster.client(node)) == rest, LEASE_SECONDS + 1)
    gone.start()
    for client in clients_of(cluster):
        eventually(lambda: alive(client) == everybody, LEASE_SECONDS + 1)

    gone.terminate()
    for node in cluster.nodes[:2]:
        assert alive(cluster.client(node)) == rest, "a node that leaves in order has left when it ends"


def test_when_the_writer_leaves_in_order_nobody_waits_for_its_lease(binary, tmp_path):
    with Cluster(binary, tmp_path, lease=8) as cluster:  # Long, so that a wait for it is no delay of a busy machine.
        leave_in_order(cluster, cluster.client(cluster.nodes[0], timeout=20), waited_max=3)
        cluster.heal()
        cluster.verify()


def leave_in_order(cluster, admin, waited_max):
    agent, stopped, waits = admin.agent(), threading.Event(), []
    writer = cluster.writer()
    left = [cluster.client(node, timeout=50) for node in cluster.others(writer)]

    def spend(i):
        client = left[i % 2]
        while not stopped.is_set():
            begun = time.monotonic()
            client.insist("POST", "/v1/charges", {"agent": agent, "cost": str(COST), "key": fresh("key")}, seconds=10).ok(201)
            waits.append(time.monotonic() - begun)

    spenders = threading.Thread(target=lambda: together(4, spend, seconds=30), daemon=True)
    spenders.start()
    eventually(lambda: len(waits) > 50)
    assert writer.terminate() == 0
    at_the_end = len(waits)
    eventually(lambda: len(waits) > at_the_end + 50)
    stopped.set()
    spenders.join(10)

    assert max(waits) < waited_max, f"a client waited for {max(waits):.2f} s"
    assert cluster.client(cluster.others(writer)[0]).get(f"/v1/agents/{agent}").ok(200)["events"] == len(waits)


# ---- one winner ---------------------------------------------------------------------------------------------------

@pytest.mark.seconds_max(300)
def test_of_two_that_start_on_one_directory_through_two_nodes_one_wins(cluster, admin, tmp_path):
    (tmp_path / "repo/src").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    agent, clients = admin.agent(max_concurrent_runs=100), clients_of(cluster)
    ways = [("repo", "repo"), ("repo", "link"), ("repo/src", "link"), ("link/src", "repo/src/")]

    with Crew(2) as crew:
        for i in range(2000 if LONG else 200):
            way, first = ways[i % len(ways)], i % 3
            winner = check_pair(crew.race(lambda side: clients[(first + side) % 3].post(
                "/v1/runs", {"agent": agent, "workspace": str(tmp_path / way[side])})))
            clients[(first + 2) % 3].finish(winner).ok(200)

    check_nothing_is_held(clients[1], agent, admin.budget("1.00", scope={"agent": agent}))


def test_a_cap_holds_across_nodes(cluster, admin):
    clients = clients_of(cluster)
    for _ in range(10 if LONG else 3):
        agent = admin.agent(max_concurrent_runs=4)

        replies = together(48, lambda i: clients[i % 3].post("/v1/runs", {"agent": agent}))

        assert sorted(reply.status for reply in replies) == [201] * 4 + [409] * 44
        for reply in replies:
            if reply.status == 409:
                reply.refused(409, "concurrency_limit")
        for client in clients:
            assert client.get(f"/v1/agents/{agent}").ok(200)["live_runs"] == 4
        for i, run in enumerate(reply.json() for reply in replies if reply.status == 201):
            clients[i % 3].finish(run).ok(200)


def test_of_all_keys_alike_sent_to_all_nodes_one_counts(cluster, admin):
    agent, clients = admin.agent(), clients_of(cluster)
    budget = admin.budget("1000.00", scope={"agent": agent})
    for i in range(10):
        body = {"agent": agent, "cost": str(COST), "key": fresh("key")}
        replies = together(18, lambda side: clients[side % 3].post("/v1/charges", body).ok(201))
        assert sorted(reply["repeated"] for reply in replies) == [False] + [True] * 17
        assert len({reply["seq"] for reply in replies}) == 1
        check_money(clients[i % 3], agent, budget, i + 1)


# ---- money --------------------------------------------------------------------------------------------------------

def push(cluster, agent, clients, each, insist_on):
    """Charges from many clients at every node. Returns how many were acknowledged, and how many were refused."""
    def spend(i):
        replies = [insist_on(i)("POST", "/v1/charges", {"agent": agent, "cost": str(COST), "key": fresh("key")})
                   for _ in range(each)]
        for reply in replies:
            if reply.status != 201:
                reply.refused(402, "budget_exceeded")
        return sum(reply.status == 201 for reply in replies)

    acknowledged = sum(together(clients, spend))
    return acknowledged, clients * each - acknowledged


def check_limit(cluster, agent, budget, acknowledged, fit):
    assert acknowledged == fit
    for client in clients_of(cluster):
        check_money(client, agent, budget, acknowledged)
        told = client.get(f"/v1/budgets/{budget}").ok(200)
        assert Decimal(told["settled"]) <= Decimal(told["limit"]) and told["free"] == "0.00025"


def test_a_limit_holds_to_the_last_digit_however_many_push_through_three_nodes(cluster, admin):
    agent, each = admin.agent(), 40 if LONG else 4
    fit = 3 * 64 * each * 2 // 3
    budget = admin.budget(str(COST * fit + Decimal("0.00025")), scope={"agent": agent})
    clients = clients_of(cluster)

    acknowledged, refused = push(cluster, agent, 3 * 64, each, lambda i: clients[i % 3].insist)

    assert refused > 0
    check_limit(cluster, agent, budget, acknowledged, fit)


@pytest.mark.seconds_max(120)
def test_a_limit_holds_when_the_writer_is_killed_in_the_middle_of_it(cluster, admin):
    agent, each = admin.agent(), 40 if LONG else 4
    fit = 3 * 64 * each * 2 // 3
    budget = admin.budget(str(COST * fit + Decimal("0.00025")), scope={"agent": agent})
    anywhere, writer = cluster.anywhere(), cluster.writer()
    bystander = cluster.client(cluster.others(writer)[0], timeout=20)

    def kill():
        eventually(lambda: bystander.get(f"/v1/agents/{agent}").ok(200)["events"] > fit // 4)
        writer.kill9()

    with concurrent.futures.ThreadPoolExecutor(1) as killer:
        killed = killer.submit(kill)
        acknowledged, refused = push(cluster, agent, 3 * 64, each, lambda _: anywhere.insist)
        killed.result(30)

    assert refused > 0
    cluster.heal()
    check_limit(cluster, agent, budget, acknowledged, fit)


def kill_the_writer_under(load, cluster):
    """In the middle of the load, which goes on without it within the lease; then the node comes back."""
    before = len(load.charges)
    eventually(lambda: len(load.charges) >= before + 40 or load.failures, 30)
    cluster.writer().kill9()
    before = len(load.charges)
    eventually(lambda: len(load.charges) >= before + 10 or load.failures, LEASE_SECONDS + 5)
    cluster.heal()


@pytest.mark.seconds_max(240)
def test_nodes_killed_one_after_the_other_under_load_lose_and_double_nothing(cluster):
    load = Load(cluster, cluster.anywhere())
    with cluster.under_load(load):
        kills_min = 12 if LONG else 3
        for kills in range(kills_min + 9):
            # Whether a kill hits a commit that is not answered yet is a matter of chance.
            if kills >= kills_min and load.repeated > 0:
                break
            kill_the_writer_under(load, cluster)

    assert load.repeated > 0 and load.finished > 0
    load.check()


# ---- messages -----------------------------------------------------------------------------------------------------

def test_one_session_written_through_three_nodes_has_no_gap_and_no_duplicate(cluster, admin):
    session, clients, each = admin.session(), clients_of(cluster), 100 if LONG else 10

    def write(i):
        return [(clients[i % 3].post(f"/v1/sessions/{session}/messages", {"role": "user", "content": f"{i}-{j}"}).ok(201)["seq"],
                 f"{i}-{j}") for j in range(each)]

    acknowledged = [done for part in together(48, write) for done in part]

    assert len(acknowledged) == 48 * each
    for client in clients:
        check_messages(client, session, acknowledged)


def test_messages_of_a_megabyte_pass_from_node_to_node(cluster, admin):
    """How they are divided into journeys is tested where it is decided (src/nodes/peer_link_test.cc)."""
    session, writer = admin.session(), cluster.writer()
    elsewhere = cluster.client(cluster.others(writer)[0], timeout=50)

    def write(i):
        content = f"{i} ".ljust(1_000_000, ".")
        return elsewhere.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": content}).ok(201)["seq"]

    assert sorted(together(60, write)) == list(range(60))
    assert cluster.writer() is writer, "nobody was taken for dead"


def test_one_session_has_no_gap_and_no_duplicate_when_the_writer_is_killed(cluster, admin):
    session, anywhere, each = admin.session(), cluster.anywhere(), 60 if LONG else 12
    writer, acknowledged = cluster.writer(), []

    def write(i):
        for j in range(each):
            key = f"{session}-{i}-{j}"
            done = anywhere.insist("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": key, "key": key})
            acknowledged.append((done.ok(201)["seq"], key))

    with concurrent.futures.ThreadPoolExecutor(1) as killer:
        killed = killer.submit(lambda: (eventually(lambda: len(acknowledged) > 48 * each // 4, 30), writer.kill9()))
        together(48, write)
        killed.result(30)

    cluster.heal()
    assert len(acknowledged) == 48 * each
    for client in clients_of(cluster):
        check_messages(client, session, acknowledged)


# ---- time ---------------------------------------------------------------------------------------------------------

def test_each_tick_of_a_schedule_fires_once_when_the_writer_is_killed(cluster, admin):
    agent, schedule = admin.agent(max_concurrent_runs=1000), fresh("schedule")
    start = admin.get("/v1/events").ok(200)["head"]
    admin.put(f"/v1/schedules/{schedule}", {"agent": agent, "every_s": 1, "overlap": "allow", "missed": "all"}).ok()

    def fired():
        found = cluster.anywhere().insist("GET", f"/v1/events?after={start}&type=schedule_fired&limit=1000").ok(200)
        return found["items"]

    for _ in range(5 if LONG else 2):
        before = len(fired())
        eventually(lambda: len(fired()) > before + 1)
        cluster.writer().kill9()
        before = len(fired())
        eventually(lambda: len(fired()) > before, LEASE_SECONDS + 2)
        cluster.heal()
    disable = {"agent": agent, "every_s": 1, "enabled": False, "key": fresh("key")}
    cluster.anywhere().insist("PUT", f"/v1/schedules/{schedule}", disable).ok()

    ticks = check_ticks(fired(), schedule, 1)
    runs = cluster.admin.items("/v1/runs", agent=agent)
    assert len(runs) == len(ticks) >= 4
    assert cluster.admin.get(f"/v1/schedules/{schedule}").ok(200)["fired"] == len(ticks)


def test_what_the_writer_left_behind_ends_in_time(cluster, admin, tmp_path):
    agent = admin.agent(max_concurrent_runs=10)
    budget = admin.budget("10.00", scope={"agent": agent})
    writer = cluster.writer()
    # Of two owners one dies together with the node that it talked to; the other one goes to another node.
    dead = cluster.client(writer).run(agent, workspace=str(tmp_path), hold="1.00", lease_s=2)
    kept = cluster.client(writer).run(agent, resources=[fresh("resource")], lease_s=2)
    unused = cluster.client(writer).post("/v1/holds", {"agent": agent, "amount": "2.00", "ttl_s": 2}).ok(201)["id"]
    used = cluster.client(writer).post("/v1/holds", {"agent": agent, "amount": "3.00", "ttl_s": 600}).ok(201)["id"]
    other = cluster.client(cluster.others(writer)[0], timeout=20)

    writer.kill9()
    begun = time.monotonic()

    def beat():
        return other.insist("POST", f"/v1/runs/{kept['id']}/heartbeat", {"fence": kept["fence"], "key": fresh("key")}).ok(200)

    def lost():
        beat()
        return other.get(f"/v1/runs/{dead['id']}").ok(200)["status"] == "lost"

    eventually(lost, 2 + LEASE_SECONDS + 3)
    assert time.monotonic() - begun > 1.5, "its owner was not given the time that it has"
    successor = other.run(agent, workspace=str(tmp_path))
    assert successor["fence"] > dead["fence"]
    other.finish(dead).refused(409, "stale_fence")
    eventually(lambda: beat() and other.get(f"/v1/holds/{unused}").ok(200)["status"] == "released", LEASE_SECONDS + 3)
    assert other.get(f"/v1/budgets/{budget}").ok(200)["held"] == "3.00"
    assert beat()["status"] == "running"
    other.finish(successor).ok(200)
    other.finish(kept).ok(200)
    other.post(f"/v1/holds/{used}/settle", {"cost": "3.00"}).ok(200)
    check_nothing_is_held(other, agent, budget)


# ---- a node that is only asleep -----------------------------------------------------------------------------------

def test_a_writer_that_was_frozen_has_no_say_and_no_stale_answer(cluster, admin):
    agent, busy = admin.agent(), admin.agent(max_concurrent_runs=1)
    budget = admin.budget("0.10", scope={"agent": agent})
    admin.post("/v1/charges", {"agent": agent, "cost": "0.10"}).ok(201)
    run = admin.run(busy)
    session = admin.session()
    revoked = admin.make_key("agent")
    frozen = cluster.writer()
    other = cluster.client(cluster.others(frozen)[0], timeout=20)
    late = cluster.client(frozen, timeout=20)
    late.get("/healthz").ok(200)

    def ask_late(path, body, key):
        """Into the hands of the frozen node; it reads it when it wakes up."""
        return pool.submit(lambda: cluster.client(frozen, timeout=20).request("POST", path, {**body, "key": key}))

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        refused_before = cluster.client(frozen).post("/v1/charges", {"agent": agent, "cost": "0.05"})
        refused_before.refused(402, "budget_exceeded")
        frozen.hold()
        # The same requests lie at the frozen node and are carried out elsewhere.
        doubled = [fresh("key") for _ in range(5)]
        in_hand = [ask_late(f"/v1/sessions/{session}/messages", {"role": "user", "content": key}, key) for key in doubled]
        time.sleep(LEASE_SECONDS)
        elsewhere = [other.insist("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": key, "key": key},
                                  seconds=LEASE_SECONDS + 5).ok(201) for key in doubled]
        # What the frozen node remembers is no longer so: the limit, the place that a run held, a key.
        other.put(f"/v1/budgets/{budget}", {"limit": "0.20", "window": "total", "scope": {"agent": agent}}).ok(200)
        other.finish(run).ok(200)
        other.delete(f"/v1/keys/{revoked.key_id}").ok(204)
        charge, start = fresh("key"), fresh("key")
        charged = ask_late("/v1/charges", {"agent": agent, "cost": "0.05"}, charge)
        started = ask_late("/v1/runs", {"agent": busy}, start)
        time.sleep(0.2)

        frozen.resume()
        awake = time.monotonic()
        assert late.insist("POST", "/v1/charges", {"agent": agent, "cost": "0.03", "key": fresh("key")}).ok(201)
        told = late.get(f"/v1/budgets/{budget}")
        if told.status != 503:
            assert told.ok(200)["limit"] == "0.20"

        for key, first, reply in zip(doubled, elsewhere, (each.result(20) for each in in_hand)):
            if reply.status == 503:
                reply = late.insist("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": key, "key": key})
            assert reply.ok(201)["seq"] == first["seq"] and reply.json()["repeated"] is True
        for path, body, key, reply in (("/v1/charges", {"agent": agent, "cost": "0.05"}, charge, charged.result(20)),
                                       ("/v1/runs", {"agent": busy}, start, started.result(20))):
            if reply.status == 503:
                reply = late.insist("POST", path, {**body, "key": key})
            assert reply.status == 201, f"an answer from before it was frozen: {reply}"
        time.sleep(max(0, awake + 1 - time.monotonic()))
        assert late.with_key(revoked.key).get("/v1/agents").status in (401, 503)

    # More than the limit is refused by everybody, whatever each believes.
    for client in clients_of(cluster):
        client.post("/v1/charges", {"agent": agent, "cost": "0.021"}).refused(402, "budget_exceeded")
        assert client.get(f"/v1/budgets/{budget}").ok(200)["settled"] == "0.18"
        assert [message["content"] for message in client.items(f"/v1/sessions/{session}/messages")] == doubled
        assert len(client.items("/v1/runs", agent=busy, status="starting")) == 1


@pytest.mark.seconds_max(240)
def test_writers_frozen_and_woken_under_load_lose_and_double_nothing(cluster):
    load, session = Load(cluster, cluster.anywhere(timeout=1)), cluster.admin.session()
    with cluster.under_load(load):
        for _ in range(10 if LONG else 2):
            before = len(load.charges)
            eventually(lambda: len(load.charges) >= before + 20 or load.failures, 30)
            frozen = cluster.writer()
            frozen.hold()
            other = cluster.client(cluster.others(frozen)[0])
            other.insist("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": "x", "key": fresh("key")},
                         seconds=LEASE_SECONDS + 4).ok(201)
            before = len(load.charges)
            eventually(lambda: len(load.charges) >= before + 10 or load.failures, 10)
            frozen.resume()

    cluster.heal()
    load.check()


# ---- everybody sees the same --------------------------------------------------------------------------------------

def test_what_one_node_has_answered_every_node_shows(cluster, admin):
    clients, agent, session = clients_of(cluster), admin.agent(), admin.session()
    for i in range(60):
        clients[i % 3].post("/v1/charges", {"agent": agent, "cost": str(COST)}).ok(201)
        clients[(i + 1) % 3].post(f"/v1/sessions/{session}/messages", {"role": "user", "content": "x"}).ok(201)
        assert clients[(i + 1) % 3].get(f"/v1/agents/{agent}").ok(200)["events"] == i + 1
        assert clients[(i + 2) % 3].get(f"/v1/sessions/{session}").ok(200)["messages"] == i + 1


def test_a_key_works_at_once_everywhere_and_ends_everywhere_within_a_second(cluster, admin):
    clients = clients_of(cluster)
    for maker in range(3):
        key = clients[maker].make_key("read")
        mine = [client.with_key(key.key) for client in clients]
        for client in mine:
            client.get("/v1/status").ok(200)
        streams = [client.events("/v1/events") for client in mine]

        clients[maker].delete(f"/v1/keys/{key.key_id}").ok(204)
        mine[maker].get("/v1/status").refused(401, "unauthorized")
        time.sleep(1)
        for client in mine:
            client.get("/v1/status").refused(401, "unauthorized")
        # Whoever listened hears no more of it either.
        later = fresh("agent")
        clients[maker].put(f"/v1/agents/{later}", {}).ok()
        for stream in streams:
            stream.response.fp.raw._sock.settimeout(1)
            with contextlib.suppress(TimeoutError), stream:
                while event := stream.next():
                    assert event[2]["data"].get("agent", event[2]["data"].get("name")) != later

def test_a_login_is_good_at_the_nodes_that_have_its_secret_and_ends_with_its_key(cluster, admin):
    one, other, third = cluster.nodes
    reader = admin.make_key("read")
    # A node takes a key that another has just made.
    entered = Client(other.address).post("/login", {"key": reader.key})
    assert entered.status == 200
    login = {"Cookie": entered.headers["set-cookie"].split(";")[0], "x-interlock-login": entered.json()["secret"]}

    def status_at(node):
        return Client(node.address).request("GET", "/v1/keys/self", headers=login).status

    assert [status_at(node) for node in (one, other, third)] == [401, 200, 401]
    one.terminate()
    shutil.copy(other.data / "run.secret", one.data)
    one.start()
    cluster.heal()
    assert [status_at(node) for node in (one, other, third)] == [200, 200, 401]

    cluster.client(third, timeout=20).delete(f"/v1/keys/{reader.key_id}").ok(204)
    eventually(lambda: [status_at(node) for node in (one, other)] == [401, 401], 1)



def test_followers_at_all_nodes_see_every_event_once_while_a_node_is_killed(cluster, admin):
    start = admin.get("/v1/events").ok(200)["head"]
    clients = clients_of(cluster)
    load = Load(cluster, cluster.anywhere())
    followers = [Follower(clients[i:] + clients[:i], start) for i in range(3)]
    with cluster.under_load(load):
        for _ in range(6 if LONG else 2):
            kill_the_writer_under(load, cluster)
    end = cluster.admin.get("/v1/events").ok(200)["head"]
    for follower in followers:
        eventually(lambda: follower.has_seen(end), 10)
        follower.stop()
        assert not follower.failures, follower.failures[0]
        check_feed(follower.seen, start)

    assert sum(follower.moves for follower in followers) > 0
    told, after = [], start
    while page := cluster.admin.get("/v1/events", after=after, limit=1000).ok(200)["items"]:
        told, after = told + page, page[-1]["seq"]
    for follower in followers:
        assert follower.seen == told[:len(follower.seen)] and len(follower.seen) >= end - start
    load.check()


# ---- would the harness notice? ------------------------------------------------------------------------------------

@pytest.fixture
def naive_pair():
    """Two nodes on one store that read, decide and write back, as one would in an afternoon."""
    with QuietServer(("127.0.0.1", 0), NaiveServer) as one, QuietServer(("127.0.0.1", 0), NaiveServer) as other:
        for node in (one, other):
            threading.Thread(target=node.serve_forever, args=(0.05,), daemon=True).start()
        yield [Client(node.server_address, "any") for node in (one, other)]
        for node in (one, other):
            node.shutdown()


def test_the_harness_sees_two_nodes_that_know_nothing_of_each_other(naive_pair):
    clients = naive_pair
    together(2, lambda i: spend_together(clients[i], "agent", 10, 10))
    with pytest.raises(AssertionError):
        check_money(clients[0], "agent", "budget", 200)
    acknowledged = sum(together(2, lambda i: write_together(clients[i], "session", 8, 10)), [])
    with pytest.raises(AssertionError):
        check_messages(clients[1], "session", acknowledged)
    with pytest.raises(AssertionError), Crew(2) as crew:
        for _ in range(100):
            NaiveServer.holder = None
            check_pair(crew.race(lambda side: clients[side].post("/v1/runs", {"agent": "agent"})))


def test_the_harness_sees_a_repeat_that_counts_twice(naive_pair):
    anywhere = Roaming(naive_pair)
    NaiveServer.spent, NaiveServer.events = Decimal(0), 0
    body = {"agent": "agent", "cost": str(COST), "key": "one"}
    for _ in range(2):
        anywhere.insist("POST", "/v1/charges", body).ok(201)
    with pytest.raises(AssertionError):
        check_money(naive_pair[0], "agent", "budget", 1)


FEED = [{"seq": seq, "type": "schedule_fired",
         "data": {"schedule": "s", "run": f"run_{seq}", "tick": f"2026-11-15T09:00:{seq:02}Z"}} for seq in range(11, 21)]
WRONG = {"one is missing": FEED[:4] + FEED[5:], "one is there twice": FEED[:5] + FEED[4:],
         "two are swapped": FEED[:4] + [FEED[5], FEED[4]] + FEED[6:]}


@pytest.mark.parametrize("what", WRONG)
def test_the_harness_sees_a_feed_in_which(what):
    check_feed(FEED, 10)
    with pytest.raises(AssertionError):
        check_feed(WRONG[what], 10)


@pytest.mark.parametrize("what", WRONG)
def test_the_harness_sees_a_schedule_of_which(what):
    assert check_ticks(FEED, "s", 1)[0] == datetime.datetime(2026, 11, 15, 9, 0, 11, tzinfo=datetime.timezone.utc)
    with pytest.raises(AssertionError):
        check_ticks(WRONG[what], "s", 1)
