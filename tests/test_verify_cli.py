"""`interlock verify` from outside: a store that is as it should be, one that was tampered with, and no store at all."""

import contextlib
import json
import sqlite3
import subprocess

import pytest


@pytest.fixture(scope="module")
def made(binary, tmp_path_factory):
    """A store with some of everything in it. Copied by each test that changes it."""
    data = tmp_path_factory.mktemp("made") / "data"
    subprocess.run([binary, "demo", "--agents", "20", "--seconds", "1", "--data-dir", str(data)], check=True,
                   capture_output=True, timeout=120)
    return data


@pytest.fixture
def store(made, tmp_path):
    with contextlib.closing(sqlite3.connect(made / "interlock.db")) as db:
        (tmp_path / "data").mkdir()
        with contextlib.closing(sqlite3.connect(tmp_path / "data/interlock.db")) as copy:
            db.backup(copy)
    return tmp_path / "data"


def change(store, sql):
    with contextlib.closing(sqlite3.connect(store / "interlock.db")) as db:
        assert db.execute(sql).rowcount == 1
        db.commit()


def test_a_store_that_is_as_it_should_be_is_clean(interlock, store):
    done = interlock("verify", "--data-dir", store)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "every guarantee holds" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_counter_that_is_off_is_named_and_can_be_repaired(interlock, store):
    change(store, "update budget_windows set settled = settled - 1 where budget = 'demo'")

    found = interlock("verify", "--data-dir", store)
    assert found.returncode == 1
    assert "budget_windows" in found.stdout and "--repair" in found.stdout

    repaired = interlock("verify", "--data-dir", store, "--repair")
    assert repaired.returncode == 0, repaired.stdout + repaired.stderr
    assert interlock("verify", "--data-dir", store).returncode == 0


@pytest.mark.parametrize("sql, table", [
    ("delete from messages where seq = 3", "messages"),
    ("update ledger set cost = cost + 1 where seq = (select max(seq) from ledger)", "cost_events"),
    ("delete from feed_pages where rowid = (select max(rowid) - 1 from feed_pages)", "feed"),
])
def test_a_changed_or_missing_row_is_a_violation(interlock, store, sql, table):
    change(store, sql)

    done = interlock("verify", "--data-dir", store, "--json")

    assert done.returncode == 1, done.stdout
    report = json.loads(done.stdout)
    assert report["ok"] is False and report["violations"] > 0
    assert table in done.stdout


def test_what_is_no_store_cannot_be_verified(interlock, tmp_path):
    done = interlock("verify", "--data-dir", tmp_path / "nothing")

    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and str(tmp_path / "nothing") in done.stderr
    assert not (tmp_path / "nothing").exists()


def test_a_file_that_is_not_ours_is_left_as_it_is(interlock, tmp_path):
    (tmp_path / "interlock.db").write_bytes(b"something else" * 1000)

    assert interlock("verify", "--data-dir", tmp_path).returncode == 2
    assert interlock("verify", "--data-dir", tmp_path, "--repair").returncode == 2
    assert (tmp_path / "interlock.db").read_bytes() == b"something else" * 1000
