"""A whole store, from a data directory into a PostgreSQL database and back: `interlock migrate`, and the commands that
look after a store from outside, `verify --store` and `accept-history`."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys

import pytest

from interlock_server import Server, eventually, fresh

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from with_postgres import Postgres  # noqa: E402

CHARGES = 6000  # More than a chunk has.
WILD = "zero \0, delete \x7f, €, 😀"
TITLE = "quote ', €, 😀"  # One line, without control characters.


def copy_of(data, path):
    """A data directory elsewhere. The socket of a server that was killed is no data."""
    return pathlib.Path(shutil.copytree(data, path, ignore=shutil.ignore_patterns("*.sock")))


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as server:
        yield server


@pytest.fixture
def database(postgres):
    """A new empty database. uri, sql and count are about it."""
    name = fresh("db").replace("-", "_")
    database = Database(postgres, name)
    yield database
    database.drop()


class Database:
    def __init__(self, postgres, name):
        self.postgres, self.name = postgres, name
        self.uri = postgres.create_database(name)

    def sql(self, text):
        return self.postgres.sql(text, self.name)

    def drop(self):
        self.postgres.sql(f'drop database "{self.name}" with (force)')

    @contextlib.contextmanager
    def locked(self, table):
        """Inside, nobody writes to the table."""
        psql = subprocess.Popen(self.postgres.as_owner("psql", "-X", "-q", "-A", "-t", "-d", self.uri),
                                cwd=self.postgres.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        psql.stdin.write(f"begin; lock table {table} in exclusive mode; select 'locked';\n")
        psql.stdin.flush()
        assert psql.stdout.readline().strip() == "locked"  # Or the test takes too long.
        try:
            yield
        finally:
            psql.communicate()


def tell_a_story(admin, directory):
    """Some of everything, and some of it still going on."""
    writer = admin.agent(max_concurrent_runs=2, tags={"team": "red"})
    budget = admin.budget("100.00", scope={"agent": writer})
    admin.put("/v1/caps/org", {"max_live": 10}).ok()
    admin.make_key("read", note="a key")
    session = admin.session(agent=writer, title=TITLE, metadata={"wild": WILD})
    for role in ("user", "assistant", "user"):
        admin.post(f"/v1/sessions/{session}/messages", {"role": role, "content": WILD * 10}).ok(201)
    fork = admin.post(f"/v1/sessions/{session}/fork", {"at_seq": 1}).ok(201)["id"]
    admin.post(f"/v1/sessions/{fork}/messages", {"role": "user", "content": "elsewhere"}).ok(201)
    ended = admin.run(writer, session=session)
    admin.finish(ended).ok()
    (directory / "place").mkdir()
    live = admin.run(writer, workspace=str(directory / "place"), lease_s=3600)
    admin.post("/v1/runs", {"agent": writer, "workspace": str(directory / "place"), "on_conflict": "queue"}).ok()
    settled = admin.post("/v1/holds", {"agent": writer, "amount": "1.00"}).ok(201)["id"]
    admin.post(f"/v1/holds/{settled}/settle", {"cost": "0.40"}).ok()
    admin.post("/v1/holds", {"agent": writer, "amount": "2.00", "ttl_s": 86400}).ok(201)
    admin.put("/v1/schedules/nightly", {"agent": writer, "every_s": 86400}).ok()
    admin.post("/v1/charges", {"agent": writer, "cost": "0.5", "session": session, "run": live["id"],
                               "fence": live["fence"], "tags": {"team": "€"}}).ok(201)
    charge = {"agent": writer, "cost": "0.0001", "provider": "anthropic", "model": "m"}
    for batch in range(CHARGES // 2000):
        admin.post("/v1/charges", [{**charge, "key": f"{batch}-{i}"} for i in range(2000)]).ok()
    return budget


@pytest.fixture(scope="module")
def made(binary, tmp_path_factory):
    """A data directory with some of everything in it. Not to be changed."""
    directory = tmp_path_factory.mktemp("made")
    with Server(binary, directory) as server:
        tell_a_story(server.admin, directory)
        assert server.terminate() == 0
    return server.data


@pytest.fixture
def source(made, tmp_path):
    return copy_of(made, tmp_path / "source")


@pytest.fixture
def migrate(interlock):
    def run(source, target, *options):
        return interlock("migrate", "--from", source, "--to", target, *options)

    return run


def done(process, code=0):
    assert process.returncode == code, f"{process.args}\n{process.stdout}{process.stderr}"
    return process


def report_of(process, code=0):
    """What verify --json says, but for how long it took, and for which seals it has no key: a copy does not take it along."""
    report = json.loads(done(process, code).stdout)
    report.pop("milliseconds", None)
    for promise in report.get("promises", []):
        promise["notes"] = [note for note in promise["notes"] if promise["id"] != "rows"]
    return report


def rows_of(directory):
    """Every row of every table."""
    with contextlib.closing(sqlite3.connect(directory / "interlock.db")) as db:
        tables = [name for name, in db.execute("select name from sqlite_master where type = 'table'")
                  if not name.startswith("sqlite_")]
        return {table: sorted(map(repr, db.execute(f"select * from {table}"))) for table in tables}


# ---- there and back -----------------------------------------------------------------------------------------------

def test_there_and_back_gives_the_same_rows(interlock, migrate, source, database, tmp_path):
    before = rows_of(source)
    there = done(migrate(source, database.uri))
    back = done(migrate(database.uri, tmp_path / "back"))

    assert "every row was copied, and every guarantee holds" in there.stdout
    assert "every row was copied" in back.stdout
    assert f"cost_events: {len(before['ledger']):,} of {len(before['ledger']):,} rows" in back.stderr
    assert rows_of(tmp_path / "back") == before and rows_of(source) == before
    assert len(before["ledger"]) > CHARGES
    assert [os.stat(path).st_mode & 0o077 for path in (tmp_path / "back", tmp_path / "back/interlock.db")] == [0, 0]
    reports = [report_of(interlock("verify", "--data-dir", source, "--json")),
               report_of(interlock("verify", "--store", database.uri, "--json")),
               report_of(interlock("verify", "--data-dir", tmp_path / "back", "--json"))]
    assert reports[0]["ok"] and reports[0] == reports[1] == reports[2]
    assert all(promise["checked"] > 0 for promise in reports[0]["promises"] if promise["id"] != "P8"), reports[0]


def test_a_node_and_then_a_server_go_on_with_what_was_copied(binary, migrate, source, database, tmp_path):
    done(migrate(source, database.uri))
    # The directory is the one the data came from, so its key is known.
    (tmp_path / "node").mkdir()
    copy_of(source, tmp_path / "node/data")
    with Server(binary, tmp_path / "node", "--store", database.uri) as node:
        spent = sum(1 for _ in node.admin.items("/v1/charges"))
        agent = node.admin.get("/v1/agents").ok()["items"][0]["name"]
        node.admin.post("/v1/charges", {"agent": agent, "cost": "0.25", "key": "later"}).ok(201)
        assert "is not used because the store is the database" in node.log()
        assert node.terminate() == 0
    (tmp_path / "back").mkdir()
    done(migrate(database.uri, tmp_path / "back/data"))

    with Server(binary, tmp_path / "back") as server:
        server.admin = server.admin.with_key(node.admin_key)  # A key is part of what a request says.
        assert sum(1 for _ in server.admin.items("/v1/charges")) == spent + 1
        repeated = server.admin.post("/v1/charges", {"agent": agent, "cost": "0.25", "key": "later"}).ok()
        assert repeated["repeated"] is True
        server.verify()


def test_as_json_it_says_what_was_copied(migrate, source, database):
    planned = json.loads(done(migrate(source, database.uri, "--json", "--dry-run")).stdout)
    assert database.sql("select count(*) from pg_class where relname = 'orgs'") == "0"
    copied = json.loads(done(migrate(source, database.uri, "--json")).stdout)

    assert planned["dry_run"] and not copied["dry_run"] and not copied["resumed"]
    assert planned["rows"] == copied["rows"] == sum(table["rows"] for table in copied["tables"])
    events = next(table["rows"] for table in copied["tables"] if table["table"] == "cost_events")
    assert events == int(database.sql("select count(*) from cost_events")) > CHARGES
    assert copied["orgs"][0]["last_seq"] == int(database.sql("select max(last_seq) from feed_pages"))
    assert copied["orgs"][0]["hash"] == database.sql(
        "select encode(hash, 'hex') from feed_pages order by last_seq desc limit 1")


def test_a_password_is_not_shown(migrate, source, database):
    uri = database.uri.replace("@", ":hidden@") + "?application_name=secret"

    copied = done(migrate(source, uri))

    assert "hidden" not in copied.stdout + copied.stderr and "secret" not in copied.stdout + copied.stderr


# ---- broken off ---------------------------------------------------------------------------------------------------

@pytest.fixture
def broken_off(binary, source, database, tmp_path):
    """A copy whose process was killed in the middle."""
    (tmp_path / "first").mkdir()
    with Server(binary, tmp_path / "first", "--store", database.uri) as node:  # Makes the tables.
        assert node.terminate() == 0
    database.sql("do $$ begin execute (select 'truncate ' || string_agg(relname, ', ') from pg_class where "
                 "relkind = 'r' and relnamespace = 'public'::regnamespace and relname <> 'schema_migrations'); end $$")
    with database.locked("answers"):
        process = subprocess.Popen([binary, "migrate", "--from", source, "--to", database.uri],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            eventually(lambda: database.sql("select count(*) from pg_locks where not granted and relation = "
                                            "(select oid from pg_class where relname = 'answers')") == "1", 60)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
    assert int(database.sql("select count(*) from ledger")) > CHARGES
    # The chunk that was on its way may have been written after all.
    assert database.sql("select count(*) from feed_pages") == "0"
    return database


def test_a_copy_that_was_killed_goes_on(interlock, migrate, source, broken_off):
    resumed = json.loads(done(migrate(source, broken_off.uri, "--json")).stdout)

    assert resumed["resumed"] is True
    assert broken_off.sql("select count(*) from facts where name = 'migration'") == "0"
    ours = report_of(interlock("verify", "--data-dir", source, "--json"))
    assert report_of(interlock("verify", "--store", broken_off.uri, "--json")) == ours


def test_half_a_copy_is_not_served(interlock, migrate, source, broken_off, tmp_path):
    up = done(interlock("up", "--data-dir", tmp_path / "node", "--store", broken_off.uri, "--listen", "127.0.0.1:0"), 1)
    repair = done(interlock("verify", "--store", broken_off.uri, "--repair"), 2)
    onwards = done(migrate(broken_off.uri, tmp_path / "other"), 1)

    for process in (up, repair, onwards):
        assert f"a copy of {source} that is not finished" in process.stderr
    assert not (tmp_path / "other").exists()


def test_half_a_copy_in_a_directory_is_not_served(interlock, source, tmp_path):
    (source / "migration.json").write_text('{"from":"postgres://there/db","fingerprint":"00"}')

    up = done(interlock("up", "--data-dir", source, "--listen", "127.0.0.1:0"), 1)

    assert "a copy of postgres://there/db that is not finished" in up.stderr


def test_half_a_copy_of_something_else_is_not_gone_on_with(binary, migrate, source, broken_off, tmp_path):
    (tmp_path / "other").mkdir()
    with Server(binary, tmp_path / "other") as other:
        other.admin.agent()
        assert other.terminate() == 0
    another = done(migrate(other.data, broken_off.uri), 1)
    shutil.move(source, tmp_path / "moved")
    moved = json.loads(done(migrate(tmp_path / "moved", broken_off.uri, "--json", "--dry-run")).stdout)
    (tmp_path / "again").mkdir()
    shutil.move(tmp_path / "moved", tmp_path / "again/data")
    with Server(binary, tmp_path / "again") as changed:
        changed.admin.agent()
        assert changed.terminate() == 0
    shutil.move(changed.data, source)
    later = done(migrate(source, broken_off.uri), 1)

    assert "this is another source" in another.stderr and str(source) in another.stderr
    assert moved["resumed"] is True
    assert "which has changed since" in later.stderr


# ---- what is refused ----------------------------------------------------------------------------------------------

def test_a_target_that_holds_something_is_left_as_it_is(migrate, source, database, tmp_path):
    done(migrate(source, database.uri))
    done(migrate(database.uri, tmp_path / "back"))
    before = rows_of(tmp_path / "back")

    again = done(migrate(source, database.uri), 1)
    other = done(migrate(database.uri, tmp_path / "back"), 1)
    dry = done(migrate(source, database.uri, "--dry-run"), 1)

    for process in (again, other, dry):
        assert "it is not empty" in process.stderr
    assert rows_of(tmp_path / "back") == before


def test_a_database_of_another_program_is_left_as_it_is(migrate, source, database):
    database.sql("create table theirs(id int)")

    for options in ((), ("--dry-run",)):
        refused = done(migrate(source, database.uri, *options), 1)
        assert "tables of another program" in refused.stderr
    assert database.sql("select count(*) from pg_class where relname in ('orgs', 'facts')") == "0"


def test_nobody_may_serve_either_store(binary, migrate, source, database, tmp_path):
    (tmp_path / "running").mkdir()
    copy_of(source, tmp_path / "running/data")
    with Server(binary, tmp_path / "running") as server:
        running = done(migrate(server.data, database.uri), 7)
        assert server.terminate() == 0
    done(migrate(source, database.uri))
    (tmp_path / "node").mkdir()
    with Server(binary, tmp_path / "node", "--store", database.uri, "--node", "alpha"):
        alive = done(migrate(database.uri, tmp_path / "back"), 7)
        target = done(migrate(source, database.uri), 1)

    assert "is in use by process" in running.stderr
    assert "node 'alpha'" in alive.stderr and "stop all nodes first" in alive.stderr
    assert "it is not empty" in target.stderr
    assert not (tmp_path / "back").exists()


def test_a_source_that_breaks_a_promise_is_not_copied(migrate, source, database):
    with contextlib.closing(sqlite3.connect(source / "interlock.db")) as db:
        db.execute("update agent_totals set settled = settled + 1")
        db.commit()

    refused = done(migrate(source, database.uri), 1)

    assert "1 violations" in refused.stderr and "'interlock verify' lists them" in refused.stderr


@pytest.mark.parametrize("source, target, code, says", [
    ("nothing", "{uri}", 3, "is there a store in this directory?"),
    ("{made}", "{made}/.", 2, "the same store"),
    ("{made}", "postgres://postgres@127.0.0.1:1/none", 5, "127.0.0.1"),
    ("{uri}", "{tmp}/new", 5, "no Interlock store in"),
])
def test_addresses_that_lead_nowhere(migrate, made, database, tmp_path, source, target, code, says):
    names = {"uri": database.uri, "made": made, "tmp": tmp_path}

    refused = done(migrate(source.format(**names), target.format(**names)), code)

    assert says in refused.stderr, refused.stderr
    assert not (tmp_path / "new").exists()


# ---- verify on a database -----------------------------------------------------------------------------------------

@pytest.fixture
def filled(migrate, made, database, tmp_path):
    done(migrate(copy_of(made, tmp_path / "filling"), database.uri))
    return database


@pytest.mark.parametrize("sql, row, promise", [
    ("update budget_windows set settled = settled - 1", "budget_windows: org=", "P1"),
    ("update agent_totals set tokens = tokens + 1", "agent_totals: org=", "P1"),
    ("update rollups set cost = cost + 1", "rollups: org=", "P1"),
    ("update runs set settled = settled + 1 where state = 'succeeded'", "runs: org=", "P1"),
    ("update sessions set next_seq = next_seq + 1 where parent is null", "sessions: org=", "P4"),
    ("update ledger set cost = cost + 1 where seq = (select max(seq) from ledger)", "cost_events: org=", "P3"),
    ("update budget_windows set limit_units = 1", "budget_windows: org=", "P2"),
    ("delete from messages where seq = 1", "messages", "P4"),
    ("update claims set fence = fence + 100", "claims: org=", "P7"),
    ("update caps set max_live = 0", "caps: org=", "P6"),
    ("update holds set state = 'released' where state = 'settled'", "cost_events: org=", "P3"),
    ("update feed_pages set body = body || '\\x00'::bytea where last_seq = (select max(last_seq) from feed_pages)",
     "feed_pages: org=", "feed"),
])
def test_what_somebody_changed_in_the_database_is_named(interlock, filled, sql, row, promise):
    filled.sql(sql)

    report = report_of(interlock("verify", "--store", filled.uri, "--json"), 1)

    examples = [(broken["id"], example["row"]) for broken in report["promises"] for example in broken["examples"]]
    assert any(found.startswith(row) for _, found in examples), examples
    assert promise in {broken for broken, _ in examples}, examples


def test_counters_of_a_database_are_repaired_while_no_node_is_alive(binary, interlock, filled, tmp_path):
    (tmp_path / "node").mkdir()
    with Server(binary, tmp_path / "node", "--store", filled.uri, "--node-lease", "1") as node:
        agent = node.admin.get("/v1/agents").ok()["items"][0]["name"]
        node.admin.post("/v1/charges", {"agent": agent, "cost": "0.25"}).ok(201)
        filled.sql("update budget_windows set settled = settled - 1")
        filled.sql("update agent_totals set settled = settled + 1")
        filled.sql("delete from rollups")
        found = done(interlock("verify", "--store", filled.uri), 1)
        alive = done(interlock("verify", "--store", filled.uri, "--repair"), 2)
        assert node.terminate() == 0
    epochs = filled.sql("select sum(epoch) from lanes")
    repaired = done(interlock("verify", "--store", filled.uri, "--repair"))

    assert "Stop all nodes" in found.stdout and "--store postgres" in found.stdout
    assert "is using this database" in alive.stderr
    assert " rows in one transaction" in repaired.stdout and "every guarantee holds" in repaired.stdout
    assert "changed budget_windows" in repaired.stdout and "added rollups" in repaired.stdout
    assert filled.sql("select sum(epoch) from lanes") > epochs
    done(interlock("verify", "--store", filled.uri))
    with Server(binary, tmp_path / "node", "--store", filled.uri) as node:
        node.admin.post("/v1/charges", {"agent": agent, "cost": "0.25"}).ok(201)
    done(interlock("verify", "--store", filled.uri))


def test_the_directory_of_a_node_is_no_store(binary, interlock, filled, tmp_path):
    (tmp_path / "node").mkdir()
    with Server(binary, tmp_path / "node", "--store", filled.uri) as node:
        refused = done(interlock("verify", "--data-dir", node.data), 2)

    assert "whose store is a PostgreSQL database" in refused.stderr and "--store" in refused.stderr


def test_an_empty_database_cannot_be_verified(interlock, database):
    refused = done(interlock("verify", "--store", database.uri), 2)

    assert "no Interlock store in" in refused.stderr
    assert database.sql("select count(*) from pg_class where relname = 'orgs'") == "0"


# ---- what a node remembers ----------------------------------------------------------------------------------------

def test_a_history_that_went_backwards_is_accepted_by_a_person(binary, interlock, filled, tmp_path):
    (tmp_path / "node").mkdir()
    with Server(binary, tmp_path / "node", "--store", filled.uri) as node:
        agent = node.admin.get("/v1/agents").ok()["items"][0]["name"]
        head = int(filled.sql("select max(last_seq) from feed_pages"))
        node.admin.post("/v1/charges", {"agent": agent, "cost": "0.25"}).ok(201)
        node.kill9()
    filled.sql(f"update feed_pages set hash = decode(repeat('ab', 32), 'hex') where last_seq > {head}")
    where = ("--data-dir", node.data)
    up = done(interlock("up", *where, "--store", filled.uri, "--listen", "127.0.0.1:0"), 1)
    asked = done(interlock("accept-history", *where, "--store", filled.uri), 1)
    assert (node.data / "history").exists()
    accepted = done(interlock("accept-history", *where, "--yes"))
    nothing = done(interlock("accept-history", *where, "--yes"), 3)

    assert "interlock accept-history" in up.stderr
    assert f"event {head + 1}" in asked.stdout and "abababababab…, which differs" in asked.stdout
    assert "nothing changed; pass --yes" in asked.stderr
    assert "removed; the " in accepted.stderr and "there is no record" in nothing.stderr
    node.start()
    node.kill9()


def test_a_running_node_notices_that_its_history_was_accepted(binary, interlock, filled, tmp_path):
    (tmp_path / "node").mkdir()
    with Server(binary, tmp_path / "node", "--store", filled.uri, "--node-lease", "1") as node:
        agent = node.admin.agent()
        charge = {"agent": agent, "cost": "0.25"}
        node.admin.post("/v1/charges", charge).ok(201)
        filled.sql("update feed_pages set hash = decode(repeat('ab', 32), 'hex') where last_seq = "
                   "(select max(last_seq) from feed_pages)")
        eventually(lambda: node.admin.get("/readyz").status == 503)
        refused = node.admin.post("/v1/charges", charge)
        done(interlock("accept-history", "--data-dir", node.data, "--yes"))
        eventually(lambda: node.admin.get("/readyz").status == 200)

        assert refused.status == 503, refused
        eventually(lambda: node.admin.post("/v1/charges", charge).status == 201)


@pytest.mark.parametrize("answer, code", [("n", 1), ("", 1), ("y", 0)])
def test_on_a_terminal_a_history_is_accepted_by_saying_yes(binary, tmp_path, answer, code):
    history = tmp_path / "history"
    history.write_text(f"{'store 1/2 3':<127}\n{'org 1 17 ' + 'cd' * 32:<127}\n")
    ours, theirs = os.openpty()
    os.write(ours, f"{answer}\n".encode())
    asked = subprocess.run([binary, "accept-history", "--data-dir", tmp_path], stdin=theirs, capture_output=True,
                           text=True, timeout=20)
    os.close(ours)
    os.close(theirs)

    done(asked, code)
    assert "store     1/2, timeline 3" in asked.stdout and "event 17, cdcdcdcdcdcd…" in asked.stdout
    assert "[y/N]" in asked.stderr
    assert history.exists() == (code != 0)


def test_nodes_are_listed(binary, interlock, filled, tmp_path):
    (tmp_path / "node").mkdir()
    with Server(binary, tmp_path / "node", "--store", filled.uri, "--node", "alpha") as node:
        table = done(interlock("nodes", "--data-dir", node.data)).stdout
        listed = json.loads(done(interlock("nodes", "ls", "--data-dir", node.data, "--json")).stdout)

    assert "alpha" in table and "alive" in table and "LAST SEEN" in table
    assert [item["name"] for item in listed["items"]] == ["alpha"]


def test_a_server_of_its_own_is_one_node(interlock, binary, tmp_path):
    with Server(binary, tmp_path) as server:
        table = done(interlock("nodes", "--data-dir", server.data)).stdout

    assert "this server" in table and "alive" in table
    assert os.linesep.join(table.splitlines()[1:]).count("alive") == 1
