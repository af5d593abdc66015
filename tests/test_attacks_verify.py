"""`interlock verify` names the rows that a program which can write the database file has changed."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess

import pytest

from interlock_server import ON_POSTGRES, Server, eventually

pytestmark = pytest.mark.skipif(ON_POSTGRES, reason="the rows of an embedded store are changed")

NO_SEALS = "update feed_pages set seal_number = 0, seal_key = x'', digests = x'', seal_hash = x''"
# Table, and what is done to its rows.
EDITS = [
    ("messages", "update messages set content = 'changed' where seq = 0"),
    ("messages", "update messages set role = 'system' where seq = 0"),
    ("messages", "update messages set metadata = '{\"a\":1}' where seq = 0"),
    ("messages", "update messages set at = at + 1 where seq = 0"),
    ("messages", "update messages set content = case seq when 0 then (select content from messages where seq = 1) "
                 "else (select content from messages where seq = 0) end where seq < 2"),
    ("messages", "delete from messages where seq = 2; update sessions set next_seq = next_seq - 1 where next_seq = 3; "
                 "update sessions set input_tokens = 0, output_tokens = 0"),
    ("sessions", "update sessions set title = 'changed'"),
    ("sessions", "update sessions set agent = 'other'"),
    ("sessions", "update sessions set closed = 1 - closed"),
    ("sessions", "delete from messages; delete from sessions"),
    ("api_keys", "update api_keys set scopes = '[\"admin\"]', agent = '' where agent <> ''"),
    ("api_keys", "update api_keys set hash = replace(hash, 'a', 'b')"),
    ("api_keys", "update api_keys set revoked_at = 1 where agent <> ''"),
    ("api_keys", "delete from api_keys where agent <> ''"),
    ("api_keys", "insert into api_keys select org, 'forged', hash, scopes, agent, run, budget, note, created_at, "
                 "revoked_at from api_keys limit 1"),
    ("budgets", "update budgets set limit_units = limit_units * 1000"),
    ("budgets", "update budgets set hard = 0"),
    ("budgets", "update budgets set frozen = 1 - frozen"),
    ("budgets", "update budgets set warn = '[1]'"),
    ("budget_windows", "update budget_windows set limit_units = limit_units * 1000"),
    ("budget_windows", "update budget_windows set grace = grace + 1"),
    ("agents", "update agents set max_concurrent_runs = 99 where name = 'writer'"),
    ("agents", "update agents set command = '[\"rm\"]' where name = 'writer'"),
    ("caps", "update caps set max_live = 99"),
    ("caps", "delete from caps"),
    ("cost_events", "update ledger set input_tokens = output_tokens, output_tokens = input_tokens; "
                    "update rollups set input_tokens = output_tokens, output_tokens = input_tokens"),
    ("cost_events", "update ledger_details set price = 'forged@1' where price <> ''"),
    ("cost_events", "update ledger_details set workflow = 'forged'"),
    ("cost_events", "update ledger_details set tags = '{}'"),
    ("cost_events", "update ledger_details set api_key = 'forged'"),
    ("cost_events", "update ledger_details set unpriced = 1 - unpriced"),
    ("cost_events", "update ledger set fingerprint = fingerprint + 1"),
    ("cost_events", "update ledger set at = at + 1"),
    ("model_calls", "update model_calls set cost = 0"),
    ("model_calls", "update model_calls set model = 'forged'"),
    ("model_calls", "update model_calls set input_tokens = input_tokens + 1"),
    ("model_calls", "delete from model_calls"),
    ("answers", "update answers set reply = cast(reply || x'00' as blob)"),
    ("answers", "update answers set fingerprint = fingerprint + 1"),
    ("answers", "delete from answers"),
    ("runs", "update runs set state = 'failed' where state = 'succeeded'; "
             "update run_steps set state = 'failed' where state = 'succeeded'"),
    ("runs", "update runs set exit_code = 7, reason = 'forged'"),
    ("runs", "update runs set name = 'forged', tags = '{\"a\":\"b\"}'"),
    ("runs", "update runs set started_at = started_at + 1"),
    ("runs", "update runs set agent = 'other'"),
    ("runs", "update runs set lease_until = lease_until + 1"),
    ("runs", "delete from claims; delete from run_steps; delete from runs where state in ('starting', 'running')"),
    ("run_steps", "update run_steps set reason = 'forged'"),
    ("launches", "update launches set process = replace(process, 'true', 'false')"),
    ("claims", "update claims set path = path || 'x'; update runs set wanted = replace(wanted, 'dock', 'dockx')"),
    ("schedules", "update schedules set every_s = every_s * 2"),
    ("schedules", "update schedules set next_at = next_at + 1"),
    ("schedules", "update schedules set enabled = 1 - enabled"),
    ("schedules", "update schedules set agent = 'writer'"),
    ("ticks", "update ticks set reason = 'forged'"),
    ("ticks", "delete from ticks; update schedules set fired = 0, skipped = 0, coalesced = 0"),
    ("holds", "update holds set expires_at = expires_at + 1 where state = 'open'"),
    ("holds", "update holds set state = 'released', closed_at = created_at where state = 'open'; "
              "update budget_windows set held = 0"),
    ("settings", "update settings set document = replace(document, 'tool_rounds_max', 'x')"),
    ("settings", "delete from settings"),
    ("orgs", "update orgs set name = 'forged'"),
    ("orgs", "update orgs set last_ticket = last_ticket + 1"),
    # A page takes its seal along: other rows tell that it is gone.
    ("", "delete from feed_pages where last_seq = (select max(last_seq) from feed_pages)"),
    ("seals", "delete from feed_pages where last_seq = (select last_seq from feed_pages limit 1 offset 3)"),
    ("seals", "delete from seals where number = (select min(number) from seals)"),
    ("seals", "update seals set at = at + 1"),
    ("seals", "update feed_pages set digests = zeroblob(length(digests))"),
    ("seals", "update feed_pages set seal_hash = zeroblob(32) where last_seq = (select max(last_seq) from feed_pages)"),
    ("seals", f"delete from seals; {NO_SEALS}"),
]


@pytest.fixture(scope="module")
def made(binary, tmp_path_factory):
    """A stopped store with rows of every kind."""
    base = tmp_path_factory.mktemp("made")
    with Server(binary, base, "--simulate-models") as server:
        admin = server.admin
        admin.put("/v1/agents/writer", {"max_concurrent_runs": 3, "command": ["true"]}).ok()
        admin.put("/v1/agents/other", {}).ok()
        admin.put("/v1/budgets/b", {"scope": {"agent": "writer"}, "limit": "5.00", "window": "total"}).ok()
        admin.put("/v1/caps/org", {"max_live": 9}).ok()
        key = admin.make_key("agent", agent="writer")
        session = admin.post("/v1/sessions", {"agent": "writer", "title": "t"}).ok(201)["id"]
        for text in ("one", "two", "three"):
            admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": text, "input_tokens": 1}).ok(201)
        key.post("/v1/charges", {"agent": "writer", "cost": "0.10", "provider": "p", "model": "m", "workflow": "w",
                                 "price": "p/m@1", "tags": {"team": "blue"},
                                 "usage": {"input_tokens": 7, "output_tokens": 3}}).ok(201)
        admin.post("/v1/holds", {"agent": "writer", "amount": "0.50", "ttl_s": 3600}).ok(201)
        key.post("/v1/chat/completions", {"model": "sim/small", "max_tokens": 5,
                                          "messages": [{"role": "user", "content": "x"}]}).ok(200)
        admin.put("/v1/gateway", {"tool_rounds_max": 3}).ok()
        live = admin.run("writer", resources=["dock"], name="live")
        admin.post(f"/v1/runs/{live['id']}/start", {"fence": live["fence"]}).ok(200)
        admin.post(f"/v1/runs/{live['id']}/heartbeat", {"fence": live["fence"]}).ok(200)  # A commit without an event.
        finished = admin.run("writer", name="done")
        admin.post(f"/v1/runs/{finished['id']}/finish", {"fence": finished["fence"]}).ok(200)
        supervised = admin.post("/v1/runs", {"agent": "writer", "command": ["true"]}).ok(201)["id"]
        admin.put("/v1/schedules/s", {"agent": "other", "every": "1d"}).ok()
        admin.post("/v1/schedules/s/wake", {}).ok()
        eventually(lambda: admin.get(f"/v1/runs/{supervised}").ok()["status"] == "succeeded")
        eventually(lambda: admin.items("/v1/calls"))
        server.verify()
        data = server.data
        server.terminate()
    return data


def verify(binary, data, *arguments):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    done = subprocess.run([binary, "verify", "--json", "--examples", "1000", "--data-dir", str(data), *arguments],
                          capture_output=True, text=True, timeout=60, env=kept)
    return done.returncode, json.loads(done.stdout)


def rows_named(report):
    return [example["row"] for promise in report["promises"] if promise["id"] == "rows"
            for example in promise["examples"]]


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy", ignore=shutil.ignore_patterns("*.sock", "runs", "worktrees"))


@contextlib.contextmanager
def database(data):
    with contextlib.closing(sqlite3.connect(data / "interlock.db")) as db:
        db.execute("pragma foreign_keys = off")
        yield db
        db.commit()


def test_the_rows_as_they_were_written_are_found_right(binary, copy):
    code, report = verify(binary, copy)

    assert code == 0, report
    rows, = [promise for promise in report["promises"] if promise["id"] == "rows"]
    assert rows["checked"] > 50 and not rows["notes"]


@pytest.mark.parametrize("table, sql", EDITS, ids=[f"{table}-{number}" for number, (table, _) in enumerate(EDITS)])
def test_an_edited_row_is_named(binary, copy, table, sql):
    with database(copy) as db:
        changed = db.total_changes
        db.executescript(sql)
        assert db.total_changes > changed, "the edit changes a row"

    code, report = verify(binary, copy)

    assert code == 1
    assert any(row.startswith(f"{table}: org=1" if table else "") for row in rows_named(report)), rows_named(report)


def test_a_feed_whose_hashes_were_computed_anew_is_named(binary, copy):
    with database(copy) as db:
        before = b"\0" * 32
        pages = db.execute("select last_seq, first_seq, at, body, hash from feed_pages order by last_seq").fetchall()
        for number, (last, first, at, body, _) in enumerate(pages):
            if number == 2:
                body = body[:-1] + bytes([body[-1] ^ 1])
            before = hashlib.sha256(before + struct.pack("<qqq", first, last, at) + body).digest()
            db.execute("update feed_pages set body = ?, hash = ? where last_seq = ?", (body, before, last))

    code, report = verify(binary, copy)

    assert code == 1 and [row for row in rows_named(report) if row.startswith("feed_pages: ")]


def test_a_store_that_was_cut_back_by_one_commit_is_noticed_by_its_head(binary, made, copy):
    _, report = verify(binary, made)
    head, = report["heads"]
    assert verify(binary, copy, "--head", head)[0] == 0
    number = int(head.partition(":")[0])
    with database(copy) as db:
        db.execute("delete from seals where number = ?", (number,))
        db.execute("delete from feed_pages where seal_number = ?", (number,))

    code, report = verify(binary, copy, "--head", head)

    assert code == 1 and report["missing_heads"] and "commit" in report["missing_heads"][0]


def test_a_seal_made_without_the_key_is_named(binary, copy):
    (copy / "seal.key").chmod(0o600)
    kept = (copy / "seal.key").read_text()
    (copy / "seal.key").write_text("x" * len(kept))
    code, report = verify(binary, copy)
    rows, = [promise for promise in report["promises"] if promise["id"] == "rows"]
    assert code == 1 and "which is not in seal.key" in rows["examples"][0]["what"], "with another key nothing can be said"

    lost, = set(re.findall(r"write the line '(lost \w{16})'", rows["examples"][0]["what"]))
    (copy / "seal.key").write_text("x" * len(kept) + f"\n{lost}\n")
    code, report = verify(binary, copy)
    rows, = [promise for promise in report["promises"] if promise["id"] == "rows"]
    assert code == 0 and "which seal.key calls lost" in rows["notes"][0], "seal.key says so"

    (copy / "seal.key").write_text("x" * len(kept) + "\n" + kept + "\n")
    code, report = verify(binary, copy)
    assert code == 0 and not [promise for promise in report["promises"] if promise["notes"]], "several keys are believed"
    with database(copy) as db:
        db.execute("update seals set hash = zeroblob(32)")
    assert any(row.startswith("seals: ") for row in rows_named(verify(binary, copy)[1]))


@pytest.mark.parametrize("which", ["where number > 0", "where number = (select max(number) from seals)"])
def test_a_row_whose_seals_are_said_to_be_of_another_key_is_not_believed(binary, copy, which):
    with database(copy) as db:
        db.executescript("update budgets set limit_units = limit_units * 1000; "
                         f"update seals set key_id = x'0102030405060708' {which}")
        if "max" not in which:
            db.executescript("update feed_pages set seal_key = x'0102030405060708' where seal_number > 0")

    code, report = verify(binary, copy)

    assert code == 1 and any(row.startswith("seals: org=1") for row in rows_named(report)), rows_named(report)


def seals_are_gone(data):
    with database(data) as db:
        db.executescript(f"delete from seals; {NO_SEALS}")


def forget_seals(data):
    """As a server of an older version has left it: it remembers pages of the feed and no seals."""
    lines = (data / "store.head").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("seal ")]
    assert len(kept) < len(lines)
    (data / "store.head").write_text("".join(kept))


def test_a_store_without_the_seals_that_its_server_remembers_is_not_served(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        server.admin.agent()
        server.terminate()
        seals_are_gone(server.data)

        refused = subprocess.run([binary, "up", "--listen", "127.0.0.1:0", "--data-dir", str(server.data)],
                                 capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1 and "was sealed with hash" in refused.stderr, refused
        code, report = verify(binary, server.data)
        assert code == 1 and "was sealed with hash" in report["missing_heads"][0], report

        accepted = subprocess.run([binary, "accept-history", "--yes", "--data-dir", str(server.data)],
                                  capture_output=True, text=True, timeout=60)
        assert accepted.returncode == 0, accepted
        server.start()
        server.verify()


def test_a_store_that_lost_a_commit_without_an_event_is_named_by_what_its_server_remembers(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        admin = server.admin
        live = admin.run(admin.agent())
        admin.post(f"/v1/runs/{live['id']}/start", {"fence": live["fence"]}).ok(200)
        server.kill9()
        earlier = {path: path.read_bytes() for path in server.data.glob("interlock.db*")}
        server.start()
        server.admin.post(f"/v1/runs/{live['id']}/heartbeat", {"fence": live["fence"]}).ok(200)
        pages = "select count(*) from feed_pages"
        with database(server.data) as db:
            committed = db.execute(pages).fetchone()
        server.kill9()
        assert verify(binary, server.data)[0] == 0
        for path in server.data.glob("interlock.db*"):
            path.unlink()
        for path, content in earlier.items():
            path.write_bytes(content)
        with database(server.data) as db:
            assert db.execute(pages).fetchone() == committed, "the feed has lost nothing"

        code, report = verify(binary, server.data)

        assert code == 1 and "and the database has no such seal" in report["missing_heads"][0], report


def test_a_store_of_an_older_version_is_sealed_when_it_is_opened(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        server.admin.post("/v1/charges", {"agent": agent, "cost": "0.10"}).ok(201)
        server.terminate()
        seals_are_gone(server.data)
        forget_seals(server.data)
        server.start()
        server.admin.post("/v1/charges", {"agent": agent, "cost": "0.20"}).ok(201)
        server.verify()
        with contextlib.closing(sqlite3.connect(server.data / "interlock.db")) as db:
            assert db.execute("select min(number) from seals").fetchone() == (1,)
