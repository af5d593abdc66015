"""Several nodes, and a database that is killed, cut off, failed over or set back under them.

Each test has a PostgreSQL of its own. What was acknowledged is compared with what is there in the end. A database that has
forgotten something acknowledged is not served until a person has accepted it. INTERLOCK_LONG=1 makes the loads longer.
"""

import concurrent.futures
import contextlib
import itertools
import os
import shutil
import subprocess
import threading
import time

import pytest

from chaos_proxy import COMMIT_FATES, CommitProxy
from checks import COST, Load, attempt, check_money
from cluster import LEASE_SECONDS, Cluster
from interlock_server import LOST, Client, Postgres, eventually, fresh, together

pytestmark = pytest.mark.seconds_max(240 if os.environ.get("INTERLOCK_LONG") == "1" else 90)

LONG = os.environ.get("INTERLOCK_LONG") == "1"
SEED = int(os.environ.get("INTERLOCK_SEED", "1"))
EXCHANGE_SECONDS = 30  # How long a node waits for an answer of its database.
STUCK_SECONDS = LEASE_SECONDS + 10  # Until a transaction that nobody ends has been given up.
BACK_SECONDS = LEASE_SECONDS + 10  # Until everybody has connected again.


@pytest.fixture
def servers():
    """Where PostgreSQL servers are put to be removed in the end."""
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def postgres(servers):
    return servers.enter_context(Postgres())


def works_again(cluster):
    """Every node answers, and every node can write."""
    for node in cluster.nodes:
        eventually(node.ready, BACK_SECONDS)
        session = cluster.client(node, 20).insist("POST", "/v1/sessions", {"key": fresh("key")}, seconds=BACK_SECONDS)
        session.ok(201)


def check_all(cluster, load):
    works_again(cluster)
    load.check()
    # Asked once more, each is known.
    for key, number in list(load.charges.items())[-30:]:
        again = cluster.admin.post("/v1/charges", {"agent": load.agent, "cost": str(COST), "key": key}).ok(201)
        assert again["repeated"] is True and again["seq"] == number
    load.check()
    cluster.verify()


def wait_for_work(load, count, seconds=30):
    before = len(load.charges)
    eventually(lambda: len(load.charges) >= before + count or load.failures, seconds)


# ---- killed and cut off -------------------------------------------------------------------------------------------

def test_without_a_database_nodes_say_so_and_come_back_by_themselves(binary, tmp_path, postgres):
    with Cluster(binary, tmp_path, postgres=postgres) as cluster:
        load = Load(cluster, cluster.anywhere())
        with cluster.under_load(load):
            for _ in range(5 if LONG else 2):
                wait_for_work(load, 50)
                postgres.kill()
                for node in cluster.nodes:
                    eventually(lambda: Client(node.address).get("/readyz").status == 503, LEASE_SECONDS + 1)
                    refused = cluster.client(node, 20).post("/v1/charges", {"agent": load.agent, "cost": "5.00"})
                    # A node that sent it on to the writer cannot know more than that no answer came.
                    assert refused.status == 503, refused
                    assert refused.problem()["code"] in ("unavailable", "not_committed", "outcome_unknown"), refused
                    assert Client(node.address).get("/healthz").status == 200
                    assert node.process.poll() is None
                postgres.start()
                wait_for_work(load, 20, BACK_SECONDS)

        check_all(cluster, load)


def test_connections_cut_around_the_commit_lose_and_double_nothing(binary, tmp_path, postgres):
    with CommitProxy(("127.0.0.1", postgres.port), SEED, {"passed": 1}) as proxy:
        port = proxy.address[1]
        with Cluster(binary, tmp_path, postgres=postgres,
                     uri=lambda name, _: f"postgres://{postgres.user}@127.0.0.1:{port}/{name}") as cluster:
            load = Load(cluster, cluster.anywhere())
            proxy.fates = COMMIT_FATES
            together(16, lambda i: load.work(i, 90 if LONG else 30))

            assert set(proxy.happened) == set(COMMIT_FATES), "the load was too short to see every kind of trouble"
            proxy.fates = {"passed": 1}
            assert load.repeated > 0
            check_all(cluster, load)
            # All at once, and again.
            more = Load(cluster, cluster.anywhere())
            with cluster.under_load(more):
                for _ in range(3):
                    wait_for_work(more, 20, BACK_SECONDS)
                    proxy.cut_all()
            check_all(cluster, more)


@pytest.mark.parametrize("frozen, seconds", [
    pytest.param(True, STUCK_SECONDS, id="frozen"),
    pytest.param(False, EXCHANGE_SECONDS + STUCK_SECONDS, id="awake",
                 marks=pytest.mark.skipif(not LONG, reason="it waits for its database for half a minute")),
])
def test_a_writer_stuck_in_the_middle_of_a_transaction_does_not_keep_the_others_waiting(binary, tmp_path, postgres, frozen,
                                                                                         seconds):
    with CommitProxy(("127.0.0.1", postgres.port), SEED, {"passed": 1}) as proxy:
        ports = [proxy.address[1], postgres.port, postgres.port]
        with Cluster(binary, tmp_path, postgres=postgres,
                     uri=lambda name, i: f"postgres://{postgres.user}@127.0.0.1:{ports[i]}/{name}") as cluster:
            stuck, other = cluster.nodes[:2]
            cluster.make_writer(stuck)
            agent = cluster.admin.agent()
            budget = cluster.admin.budget("1000.00", scope={"agent": agent})
            keys = [fresh("key") for _ in range(5)]

            def charge(node, key, seconds):
                body = {"agent": agent, "cost": str(COST), "key": key}
                return cluster.client(node, 30).insist("POST", "/v1/charges", body, seconds=seconds).ok(201)

            with concurrent.futures.ThreadPoolExecutor(5) as pool:
                proxy.fates = {"held_before": 1}
                held = [pool.submit(charge, stuck, key, 60) for key in keys]
                eventually(lambda: proxy.happened["held_before"] > 0)
                if frozen:
                    stuck.hold()
                begun = time.monotonic()
                charge(other, fresh("key"), seconds)
                assert time.monotonic() - begun < seconds
                stuck.resume()
                proxy.release()
                for each in held:
                    each.result(60)
            check_money(cluster.client(other, 20), agent, budget, 6)
            for key in keys:
                assert charge(other, key, 10)["repeated"] is True
            check_money(cluster.client(other, 20), agent, budget, 6)
            works_again(cluster)
            cluster.verify()


def test_a_writer_that_loses_the_database_is_replaced_and_says_so(binary, tmp_path, postgres):
    with CommitProxy(("127.0.0.1", postgres.port), SEED, {"passed": 1}) as proxy:
        ports = [proxy.address[1], postgres.port, postgres.port]
        with Cluster(binary, tmp_path, postgres=postgres,
                     uri=lambda name, i: f"postgres://{postgres.user}@127.0.0.1:{ports[i]}/{name}") as cluster:
            cut_off, *others = cluster.nodes
            cluster.make_writer(cut_off)
            load = Load(cluster, cluster.anywhere(2))
            with cluster.under_load(load):
                wait_for_work(load, 30)
                proxy.isolate()
                begun = time.monotonic()
                for node in others:
                    cluster.client(node, 20).insist("POST", "/v1/sessions", {"key": fresh("key")}, seconds=BACK_SECONDS).ok(201)
                assert time.monotonic() - begun < LEASE_SECONDS + 4
                eventually(lambda: Client(cut_off.address).get("/readyz").status == 503, LEASE_SECONDS + 1)
                # It does not keep its clients waiting for what it cannot do.
                reply = cluster.client(cut_off, 5).post("/v1/charges", {"agent": load.agent, "cost": "9.00"})
                assert reply.status == 503, reply
                assert cluster.client(cut_off, 5).get("/v1/agents").status == 503
                wait_for_work(load, 10, BACK_SECONDS)
                proxy.restore()
                eventually(cut_off.ready, BACK_SECONDS)
                wait_for_work(load, 10)
            check_all(cluster, load)


# ---- failover -----------------------------------------------------------------------------------------------------

def on_either(first, second):
    """The address of a database that is on two servers, of which one can be written. Waits until both have it."""
    def address(name, _):
        for server in (first, second):
            eventually(lambda: server.sql(f"select 1 from pg_database where datname = '{name}'") == "1")
        return (f"postgres://{first.user}@127.0.0.1:{first.port},127.0.0.1:{second.port}/{name}"
                "?target_session_attrs=read-write")

    return address


def test_a_failover_to_a_synchronous_standby_loses_nothing_that_was_acknowledged(binary, tmp_path, postgres, servers):
    standby = postgres.standby()
    servers.callback(standby.remove)
    with Cluster(binary, tmp_path, postgres=postgres, uri=on_either(postgres, standby)) as cluster:
        load = Load(cluster, cluster.anywhere())
        with cluster.under_load(load):
            wait_for_work(load, 100)
            postgres.kill()
            standby.promote()
            # The one that is left waits for nobody.
            standby.sql("alter system set synchronous_standby_names = ''")
            standby.sql("select pg_reload_conf()")
            wait_for_work(load, 50, BACK_SECONDS)
        cluster.postgres = standby
        check_all(cluster, load)
        # A node that was not there when it happened finds nothing to object to either.
        cluster.nodes[0].restart()
        check_all(cluster, load)


@pytest.mark.seconds_max(150)
def test_a_primary_that_was_frozen_and_replaced_stops_no_node_when_it_wakes_up(binary, tmp_path, postgres, servers):
    """Nothing is lost, so no person has to accept anything. Fresh connections lead to the new primary, kept ones may not."""
    standby = postgres.standby()
    servers.callback(standby.remove)
    with Cluster(binary, tmp_path, count=2, postgres=postgres, uri=on_either(standby, postgres)) as cluster:
        load = Load(cluster, cluster.anywhere())
        for i in range(10):
            load.charge(f"before-{i}")
        postgres.freeze()
        standby.sql("alter system set synchronous_standby_names = ''")
        standby.sql("select pg_reload_conf()")
        standby.promote()
        cluster.postgres = standby
        for node in cluster.nodes:
            eventually(node.ready, 90, node.log)
        for i in range(30):
            load.charge(f"after-{i}")
        time.sleep(LEASE_SECONDS)

        postgres.wake()
        until = time.monotonic() + 3 * LEASE_SECONDS
        for i in itertools.count():
            load.charge(f"awake-{i}")
            if time.monotonic() > until:
                break
        for node in cluster.nodes:
            assert node.ready(), node.log()
            assert "history_regressed" not in (node.directory / "server.log").read_text()
        check_all(cluster, load)


@pytest.mark.seconds_max(90)
def test_a_node_ends_in_time_while_its_database_hangs(binary, tmp_path, postgres):
    with Cluster(binary, tmp_path, count=1, postgres=postgres) as cluster:
        node, = cluster.nodes
        agent = node.admin.agent()
        postgres.freeze()
        asked = threading.Thread(target=lambda: attempt(lambda: cluster.client(node, 60).post(
            "/v1/charges", {"agent": agent, "cost": "0.01", "key": "hangs"})), daemon=True)
        asked.start()
        time.sleep(0.5)

        begun = time.monotonic()
        assert node.terminate() == 0
        assert time.monotonic() - begun < 18, "ten seconds to answer, five to let go"
        assert not (node.data / "server.json").exists()
        postgres.wake()
        node.start()
        node.admin.insist("POST", "/v1/charges", {"agent": agent, "cost": "0.01", "key": "hangs"}).ok(200, 201)


# ---- a database that has forgotten --------------------------------------------------------------------------------

def refuses(node):
    """Whether this node serves nobody because of the database's history. Never does it fall over or serve on."""
    with contextlib.suppress(*LOST):
        reply = node.admin.get("/v1/agents")
        return reply.status == 503 and "history" in (detail := reply.problem()["detail"]) and "accept-history" in detail
    return False


def check_everybody_refuses(cluster, load):
    for node in cluster.nodes:
        eventually(lambda: refuses(node), BACK_SECONDS)
        assert Client(node.address).get("/readyz").status == 503
        assert node.admin.post("/v1/charges", {"agent": load.agent, "cost": str(COST), "key": fresh("key")}).status == 503
    # Who is started now and remembers, does not start.
    again = cluster.nodes[0]
    again.kill9()
    again.begin()
    assert again.wait() == 1
    assert "history" in again.log().splitlines()[-1] and "accept-history" in again.log().splitlines()[-1]


def check_everybody_serves_when_told(cluster, load, kept):
    """Here `kept` are the charges that the database still knows."""
    for node in cluster.nodes:
        node.accept_history()
    # Those that run notice it by themselves; while one of them still objects, none can be started.
    for node in cluster.nodes[1:]:
        eventually(node.ready, BACK_SECONDS)
    cluster.heal()
    works_again(cluster)
    check_money(cluster.admin, load.agent, load.budget, kept)
    cluster.verify()


def test_a_database_set_back_to_an_older_copy_is_not_served(binary, tmp_path, postgres):
    with Cluster(binary, tmp_path, postgres=postgres) as cluster:
        load = Load(cluster, cluster.anywhere())
        for i in range(20):
            load.charge(f"before-{i}")
        copy = postgres.directory / "copy"
        postgres.stop()
        subprocess.run(["cp", "-a", postgres.data, copy], check=True)
        postgres.start()
        for i in range(20):
            load.charge(f"after-{i}")
        # Everybody has seen the newer events by now: a node remembers what it has seen.
        time.sleep(LEASE_SECONDS)

        postgres.stop()
        shutil.rmtree(postgres.data)
        copy.rename(postgres.data)
        postgres.start()

        check_everybody_refuses(cluster, load)
        check_everybody_serves_when_told(cluster, load, 20)


def test_a_standby_that_was_promoted_without_the_last_commits_is_not_served(binary, tmp_path, postgres, servers):
    standby = postgres.standby(synchronous=False)
    servers.callback(standby.remove)
    with Cluster(binary, tmp_path, postgres=postgres, uri=on_either(postgres, standby)) as cluster:
        load = Load(cluster, cluster.anywhere())
        for i in range(20):
            load.charge(f"before-{i}")
        eventually(lambda: postgres.sql("select count(*) from pg_stat_replication where replay_lsn = pg_current_wal_lsn()") == "1")
        standby.stop()
        for i in range(20):
            load.charge(f"after-{i}")
        time.sleep(LEASE_SECONDS)

        postgres.kill()
        standby.start()
        standby.promote()
        cluster.postgres = standby

        check_everybody_refuses(cluster, load)
        check_everybody_serves_when_told(cluster, load, 20)


def test_another_database_in_its_place_is_not_served(binary, tmp_path, postgres, servers):
    with Cluster(binary, tmp_path, count=1, postgres=postgres) as cluster:
        node = cluster.nodes[0]
        node.terminate()
        with Postgres() as other:
            node.store = other.create_database("other")
            node.begin()
            assert node.wait() == 1
            assert "history" in node.log().splitlines()[-1] and "accept-history" in node.log().splitlines()[-1]
            # The node that was turned away has left nothing behind in it.
            assert other.sql("select count(*) from information_schema.tables where table_name = 'ledger'", "other") in ("0", "1")
            node.accept_history()
            node.admin_key = None  # That of the first database is not known in this one.
            node.start()
            node.admin.agent()
            node.kill9()
