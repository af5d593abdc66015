"""What people set for the gateway, and what they see of it: over HTTP and at the command line."""

import json
import os
import sqlite3
import stat
import subprocess

import pytest

from interlock_server import ON_POSTGRES, Server, fresh

pytestmark = pytest.mark.seconds_max(60)

SECRET = "sk-test-5f2a91c0d7"


@pytest.fixture
def cli(interlock, server):
    """The command line against the server: what it prints, or with another code what it complains."""
    def run(*words, code=0, given=None):
        done = subprocess.run([interlock.binary, *map(str, words), "--data-dir", str(server.data)], capture_output=True,
                              text=True, timeout=60, input=given or "", env={**os.environ, "COLUMNS": "300"})
        assert done.returncode == code, done
        return done.stderr if code else done.stdout

    return run


# ---- upstreams ----------------------------------------------------------------------------------------------------

def test_an_upstream_is_set_shown_listed_and_dropped(admin):
    name = fresh("upstream")

    made = admin.put(f"/v1/upstreams/{name}", {"dialect": "anthropic", "key": {"env": "ANTHROPIC_API_KEY"}}).ok(200)

    assert made["url"] == "https://api.anthropic.com" and made["provider"] == "anthropic" and made["models"] == ["*"]
    assert made["name"] == name and made["version"] == 1 and made["changed_at"] and made["enabled"] is True
    assert admin.get(f"/v1/upstreams/{name}").ok(200) == made
    assert made in admin.items("/v1/upstreams")
    admin.delete(f"/v1/upstreams/{name}").ok(204)
    admin.get(f"/v1/upstreams/{name}").refused(404, "not_found")
    admin.delete(f"/v1/upstreams/{name}").refused(404, "not_found")
    assert made not in admin.items("/v1/upstreams")
    # The number goes on: what was computed by a version can be named forever.
    assert admin.put(f"/v1/upstreams/{name}", {"dialect": "gemini"}).ok(200)["version"] == 3


def test_the_same_again_changes_nothing_and_what_was_read_can_be_sent_back(admin):
    name = fresh("upstream")
    first = admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "weight": 3}).ok(200)

    assert admin.put(f"/v1/upstreams/{name}", {"weight": 3, "url": "https://api.openai.com/v1", "dialect": "openai"}
                     ).ok(200) == first
    again = admin.put(f"/v1/upstreams/{name}", {**first, "weight": 4}).ok(200)
    assert again == {**first, "weight": 4, "version": 2, "changed_at": again["changed_at"]}


def test_a_repeat_with_the_same_key_is_the_first_answer(admin):
    name, key = fresh("upstream"), fresh("key")
    admin.put(f"/v1/upstreams/{name}", {"dialect": "openai"}, idempotency=key).ok(200)

    again = admin.put(f"/v1/upstreams/{name}", {"dialect": "openai"}, idempotency=key)

    assert again.ok(200)["repeated"] is True and again.headers["idempotent-replayed"] == "true"
    admin.put(f"/v1/upstreams/{name}", {"dialect": "gemini"}, idempotency=key).refused(422, "key_reused")


@pytest.mark.parametrize("body, pointer", [
    ({}, "/dialect"), ({"dialect": "opnai"}, "/dialect"), ({"dialect": "openai", "wieght": 1}, "/wieght"),
    ({"dialect": "openai", "weight": 0}, "/weight"), ({"dialect": "openai", "models": [1]}, "/models/0"),
    ({"dialect": "openai", "url": "http://192.0.2.1"}, "/url"), ({"dialect": "openai", "url": "https://a?b"}, "/url"),
    ({"dialect": "openai", "key": SECRET}, "/key"), ({"dialect": "openai", "key": {"file": "x"}}, "/key/file"),
    ({"dialect": "openai", "headers": {"Authorization": "x"}}, "/headers/authorization")])
def test_what_is_wrong_with_an_upstream_is_pointed_at(admin, body, pointer):
    name = fresh("upstream")

    problem = admin.put(f"/v1/upstreams/{name}", body).refused(400, "invalid_request", pointer)

    assert SECRET not in problem["detail"]
    admin.get(f"/v1/upstreams/{name}").refused(404, "not_found")


def test_names_and_bodies_that_make_no_sense_are_refused(admin):
    admin.put("/v1/upstreams/a%2Fb", {"dialect": "openai"}).refused(400, "invalid_request")
    admin.put("/v1/upstreams/x", [1]).refused(400, "invalid_request")
    admin.put("/v1/rate-limits/x", {}).refused(400, "invalid_request")


def test_lists_come_in_pages(admin):
    names = sorted(fresh("limit") for _ in range(3))
    for name in names:
        admin.put(f"/v1/rate-limits/{name}", {"requests_per_minute": 60}).ok(200)

    assert [item["name"] for item in admin.items("/v1/rate-limits", limit=1) if item["name"] in names] == names


def test_a_key_that_is_bound_sees_no_settings(admin):
    bound = admin.make_key("read", agent=admin.agent())

    for path in ("/v1/upstreams", "/v1/rate-limits", "/v1/gateway", "/v1/prices"):
        bound.get(path).refused(403, "forbidden")


def test_the_description_has_every_member_that_a_document_has(admin):
    paths = admin.get("/openapi.json").ok(200)["paths"]
    described = {path: set(paths[path]["put"]["requestBody"]["content"]["application/json"]["schema"]["properties"])
                 for path in ("/v1/upstreams/{name}", "/v1/rate-limits/{name}", "/v1/gateway")}
    own = {"name", "version", "changed_at"}

    assert described["/v1/upstreams/{name}"] == set(admin.put(f"/v1/upstreams/{fresh('u')}", {"dialect": "openai"}).ok()) - own
    assert described["/v1/rate-limits/{name}"] == set(
        admin.put(f"/v1/rate-limits/{fresh('l')}", {"tokens_per_minute": 1}).ok()) - own
    assert described["/v1/gateway"] == set(admin.get("/v1/gateway").ok()) - own


def test_upstreams_at_the_command_line(cli):
    name = fresh("upstream")
    cli("upstreams", "add", name, "--dialect", "openai", "--url", "https://openrouter.ai/api/v1", "--key-secret", "router",
        "--model", "openrouter/*", "--model", "gpt-*", "--strip-prefix", "openrouter/", "--header", "X-Title=us",
        "--priority", "7", "--cooldown", "1m")

    shown = json.loads(cli("upstreams", "show", name, "--json"))
    assert shown["url"] == "https://openrouter.ai/api" and shown["provider"] == "openrouter"
    assert shown["key"] == {"secret": "router"} and shown["models"] == ["openrouter/*", "gpt-*"]
    assert shown["headers"] == {"x-title": "us"} and shown["priority"] == 7 and shown["cooldown_s"] == 60
    assert name in cli("upstreams", "ls") and "secret=router" in cli("upstreams", "ls")
    cli("upstreams", "disable", name)
    assert json.loads(cli("upstreams", "show", name, "--json"))["enabled"] is False
    cli("upstreams", "enable", name)
    now = json.loads(cli("upstreams", "show", name, "--json"))
    assert {**now, "version": 1, "changed_at": shown["changed_at"]} == shown
    cli("upstreams", "rm", name)
    assert f"there is no upstream '{name}'" in cli("upstreams", "show", name, code=3)
    assert "did you mean" in cli("upstreams", "add", name, "--dialect", "opnai", code=2)


# ---- limits, and the gateway's own --------------------------------------------------------------------------------

def test_limits_at_the_command_line(cli, admin):
    name = fresh("limit")

    cli("limits", "set", name, "--agent", "coder", "--rpm", "60", "--tpm", "100000")

    assert admin.get(f"/v1/rate-limits/{name}").ok(200)["match"]["agent"] == "coder"
    line = next(line for line in cli("limits", "ls").splitlines() if name in line)
    assert "agent=coder" in line and "60" in line and "100,000" in line
    cli("limits", "rm", name)
    assert name not in cli("limits", "ls")


def test_the_gateway_has_defaults_until_something_is_set(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        defaults = server.admin.get("/v1/gateway").ok(200)
        assert defaults["unknown_model"] == "deny" and defaults["version"] == 0 and defaults["changed_at"] is None

        server.admin.put("/v1/gateway", {"wait_s": 3}).ok(200)

        now = server.admin.get("/v1/gateway").ok(200)
        assert now == {**defaults, "wait_s": 3, "version": 1, "changed_at": now["changed_at"]}
        server.admin.put("/v1/gateway", {"share_percent": 101}).refused(400, "invalid_request", "/share_percent")


def test_the_gateway_at_the_command_line_keeps_what_is_not_named(cli, admin):
    cli("gateway", "set", "wait_s=4", "otlp.url=http://localhost:4318", "otlp.headers={\"a\":\"b\"}")
    cli("gateway", "set", "unknown_model=assume", "assume_price=openai/gpt-4o")

    now = admin.get("/v1/gateway").ok(200)
    assert (now["wait_s"], now["unknown_model"], now["assume_price"]) == (4, "assume", "openai/gpt-4o")
    assert now["otlp"] == {"url": "http://localhost:4318", "headers": {"a": "b"}, "interval_s": 10, "insecure": False}
    assert "openai/gpt-4o" in cli("gateway", "show")
    cli("gateway", "set", "wait_s=null", "unknown_model=deny")
    assert admin.get("/v1/gateway").ok(200)["wait_s"] == 15
    assert "did you mean 'wait_s'?" in cli("gateway", "set", "wait=1", code=2)
    assert "KEY=VALUE" in cli("gateway", "set", "wait_s", code=2)


# ---- secrets ------------------------------------------------------------------------------------------------------

def test_a_secret_is_given_back_to_nobody_and_is_in_no_file(server, admin):
    name = fresh("secret")

    made = admin.put(f"/v1/secrets/{name}", {"value": SECRET})

    assert set(made.ok(200)) == {"name", "hosts", "version", "changed_at"}
    assert admin.get(f"/v1/secrets/{name}").status == 405
    assert name in [item["name"] for item in admin.items("/v1/secrets")]
    for reply in (made, admin.get("/v1/secrets"), admin.get("/v1/events", limit=1000)):
        assert SECRET.encode() not in reply.body
    for file in server.data.iterdir():
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in server.log()
    assert stat.S_IMODE((server.data / "secrets.key").stat().st_mode) == 0o600


def test_a_secret_can_be_set_again_with_the_same_key(admin):
    name, key = fresh("secret"), fresh("key")
    admin.put(f"/v1/secrets/{name}", {"value": SECRET}, idempotency=key).ok(200)

    assert admin.put(f"/v1/secrets/{name}", {"value": SECRET}, idempotency=key).ok(200)["repeated"] is True
    assert admin.put(f"/v1/secrets/{name}", {"value": SECRET}).ok(200)["version"] == 1
    assert admin.put(f"/v1/secrets/{name}", {"value": "another"}).ok(200)["version"] == 2
    admin.put(f"/v1/secrets/{name}", {"value": ""}).refused(400, "invalid_request", "/value")
    admin.put(f"/v1/secrets/{name}", {}).refused(400, "invalid_request", "/value")
    admin.delete(f"/v1/secrets/{name}").ok(204)
    assert name not in [item["name"] for item in admin.items("/v1/secrets")]


def test_secrets_at_the_command_line_come_from_a_file_or_standard_input(cli, admin, tmp_path):
    name, file = fresh("secret"), tmp_path / "key"
    file.write_text(SECRET + "\n")

    cli("secrets", "set", name, given=SECRET + "\n")
    cli("secrets", "set", name, "--from-file", file)

    # Line ends are no part of it: both were the same.
    assert [item["version"] for item in admin.items("/v1/secrets") if item["name"] == name] == [1]
    assert name in cli("secrets", "ls")
    assert "the secret is empty" in cli("secrets", "set", name, code=2)
    cli("secrets", "rm", name)


# ---- prices -------------------------------------------------------------------------------------------------------

def test_the_catalog_is_listed_and_searched(admin):
    prices = admin.items("/v1/prices", filter="claude-sonnet", limit=2)

    assert prices and all("claude-sonnet" in f"{price['provider']}/{price['model']}" for price in prices)
    assert all(price["input_per_mtok"] and price["output_per_mtok"] and price["version"] for price in prices)
    shown = admin.get("/v1/prices/show", provider="anthropic", model="claude-sonnet-4-5-20250929").ok(200)
    assert shown["input_per_mtok"] == "3.00" and shown["output_per_mtok"] == "15.00"
    admin.get("/v1/prices/show", provider="anthropic", model="no-such-model").refused(404, "not_found")
    admin.get("/v1/prices/show", provider="anthropic").refused(400, "invalid_request")


def test_a_price_that_was_set_holds_over_the_catalog_until_it_is_dropped(admin):
    provider, model = "anthropic", "claude-sonnet-4-5"
    before = admin.get("/v1/prices/show", provider=provider, model=model).ok(200)

    made = admin.put("/v1/prices", {"provider": provider, "model": model, "input_per_mtok": "1", "output_per_mtok": "2.5"})

    assert made.ok(200)["version"] == "set-1" and made.json()["output_per_mtok"] == "2.50"
    assert admin.get("/v1/prices/show", provider=provider, model=model).ok(200) == made.json()
    assert made.json() in admin.items("/v1/prices", filter=model)
    admin.delete(f"/v1/prices?provider={provider}&model={model}").ok(204)
    assert admin.get("/v1/prices/show", provider=provider, model=model).ok(200) == before
    admin.delete(f"/v1/prices?provider={provider}&model={model}").refused(404, "not_found")


@pytest.mark.parametrize("body, pointer", [
    ({"model": "m", "input_per_mtok": "1", "output_per_mtok": "1"}, "/provider"),
    ({"provider": "a/b", "model": "m"}, "/provider"), ({"provider": "a"}, "/model"),
    ({"provider": "a", "model": "m", "input_per_mtok": "much", "output_per_mtok": "1"}, "/input_per_mtok"),
    ({"provider": "a", "model": "m", "input_per_mtok": "1", "outputs": "1"}, "/outputs")])
def test_what_is_wrong_with_a_price_is_pointed_at(admin, body, pointer):
    admin.put("/v1/prices", body).refused(400, "invalid_request", pointer)


def test_prices_at_the_command_line(cli):
    provider = fresh("maker")

    cli("prices", "set", f"{provider}/a/b", "--input", "3", "--output", "$15", "--cache-read", "0.3", "--output-max", "8192")

    shown = json.loads(cli("prices", "show", f"{provider}/a/b", "--json"))
    assert (shown["provider"], shown["model"], shown["version"]) == (provider, "a/b", "set-1")
    assert shown["cache_read_per_mtok"] == "0.30" and shown["output_max"] == 8192
    for verb in ("ls", "list"):
        line = next(line for line in cli("prices", verb, provider).splitlines() if provider in line)
        assert "a/b" in line and "$3.00" in line and "$15.00" in line
    cli("prices", "unset", f"{provider}/a/b")
    assert "there is no price" in cli("prices", "show", f"{provider}/a/b", code=3)
    assert "PROVIDER/MODEL" in cli("prices", "show", "gpt", code=2)


def test_a_price_list_is_taken_or_refused_as_a_whole(binary, interlock, tmp_path):
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_text("catalog\t9.9.9\t2030-01-01\nprovider\tacme\t\t\nacme\tsmall\t.\t1000/100\tin=1 out=2\n")
    bad.write_text("catalog\t9.9.9\t2030-01-01\nacme\tsmall\n")
    (tmp_path / "server").mkdir()
    with Server(binary, tmp_path / "server") as server:
        def update(file):
            return interlock("prices", "update", "--from", file, "--data-dir", server.data)

        assert update(good).returncode == 0
        assert server.admin.get("/v1/prices/show", provider="acme", model="small").ok(200)["version"] == "9.9.9"
        refused = update(bad)
        assert refused.returncode == 2 and "line" in refused.stderr
        server.restart()
        assert server.admin.get("/v1/prices/show", provider="acme", model="small").ok(200)["version"] == "9.9.9"


# ---- calls --------------------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def called(binary, tmp_path_factory):
    """A server whose gateway has seen calls: they are written into its store, since nothing else makes them by itself."""
    if ON_POSTGRES:
        pytest.skip("the calls are written into the embedded store")
    with Server(binary, tmp_path_factory.mktemp("called")) as server:
        admin = server.admin
        first, second = admin.agent(), admin.agent()
        run = admin.run(first)
        hold = admin.post("/v1/holds", {"agent": first, "amount": "0.50", "dispatched": True}).ok(201)["id"]
        admin.post(f"/v1/holds/{hold}/settle", {"cost": "0.25", "price": "openai/gpt-4o@1"}).ok(200)
        server.kill9()
        rows = [dict(agent=first, model="gpt-4o", hold=hold, cost=250_000_000, run=run["id"]),
                dict(agent=first, model="odd", status=402, refusal="budget_exceeded"),
                dict(agent=second, model="new-model", status=404, refusal="unknown_model"),
                dict(agent=second, model="new-model", unpriced=1, input_tokens=7)]
        with sqlite3.connect(next(server.data.glob("*.db"))) as database:
            # The gateway settles under the id of the hold, which no client can.
            (settled,) = database.execute("select key from ledger where hold = ?", [id_bytes(hold)]).fetchone()
            for table in ("ledger_details", "ledger"):
                database.execute(f"update {table} set key = ? where key = ?", [id_bytes(hold), settled])
            database.execute("update holds set event = id where id = ?", [id_bytes(hold)])
            for number, row in enumerate(rows):
                insert_call(database, number, row)
        database.close()
        server.start()
        server.first, server.second, server.run, server.hold = first, second, run["id"], hold
        yield server


ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def id_bytes(text):
    number = 0
    for letter in text.split("_")[1]:
        number = number * 32 + ALPHABET.index(letter)
    return number.to_bytes(16)


def insert_call(database, number, row):
    columns = [column[1] for column in database.execute("pragma table_info(model_calls)")]
    integers = {column[1] for column in database.execute("pragma table_info(model_calls)") if column[2] == "INTEGER"}
    (org, at) = database.execute("select org, max(at) from cost_events").fetchone()
    values = {name: 0 if name in integers else "" for name in columns}
    values |= {"org": org, "at": at, "id": ((at // 1000 << 80) | 0x7000 << 64 | 1 << 63 | number).to_bytes(16), "run": None,
               "session": None, "hold": None, "tags": "{}", "provider": "openai", "operation": "openai.chat",
               "status": 200, "duration_us": 1500, "api_key": "k", **row}
    for name in ("run", "hold"):
        values[name] = id_bytes(values[name]) if values[name] else None
    marks = ", ".join("?" * len(columns))
    database.execute(f"insert into model_calls ({', '.join(columns)}) values ({marks})", [values[name] for name in columns])


def test_calls_are_listed_newest_first_and_in_pages(called):
    calls = called.admin.items("/v1/calls", limit=1)

    assert [call["model"] for call in calls] == ["new-model", "new-model", "odd", "gpt-4o"]
    assert called.admin.get("/v1/calls", limit=3).ok(200)["next"] == calls[2]["id"]


def test_calls_are_found_by_what_they_were(called):
    def models(**query):
        return [call["model"] for call in called.admin.items("/v1/calls", **query)]

    assert models(agent=called.first) == ["odd", "gpt-4o"] and models(run=called.run) == ["gpt-4o"]
    assert models(status=402) == ["odd"] and models(refused="true") == ["new-model", "odd"]
    assert models(refused="unknown_model") == ["new-model"] and models(model="gpt-4o", refused="false") == ["gpt-4o"]
    called.admin.get("/v1/calls", after="x").refused(400, "invalid_request")
    called.admin.get("/v1/calls", status="x").refused(400, "invalid_request")


def test_a_call_is_shown_with_the_money_it_moved(called):
    call = called.admin.items("/v1/calls", model="gpt-4o")[0]

    shown = called.admin.get(f"/v1/calls/{call['id']}").ok(200)

    assert {name: shown[name] for name in call} == call
    assert shown["held"]["id"] == called.hold and shown["held"]["status"] == "settled" and shown["held"]["amount"] == "0.50"
    assert shown["settled"]["cost"] == "0.25" and shown["settled"]["price"] == "openai/gpt-4o@1"
    refused = called.admin.items("/v1/calls", model="odd")[0]["id"]
    assert called.admin.get(f"/v1/calls/{refused}").ok(200)["held"] is None
    called.admin.get("/v1/calls/call_" + "0" * 25 + "1").refused(404, "not_found")


def test_a_bound_key_sees_its_own_calls_and_no_others(called):
    bound = called.admin.make_key("read", agent=called.second)
    theirs = called.admin.items("/v1/calls", agent=called.first)[0]["id"]

    assert {call["agent"] for call in bound.items("/v1/calls")} == {called.second}
    assert bound.items("/v1/calls", agent=called.first) == []
    bound.get(f"/v1/calls/{theirs}").refused(404, "not_found")
    bound.get(f"/v1/calls/{bound.items('/v1/calls')[0]['id']}").ok(200)


def test_models_without_a_price_are_counted(called):
    counted = called.admin.get("/v1/prices/unpriced").ok(200)["items"]

    assert [(item["provider"], item["model"], item["calls"], item["refused"], item["tokens"]) for item in counted] == [
        ("openai", "new-model", 2, 1, 7)]


def test_calls_at_the_command_line(called, interlock):
    def cli(*words):
        done = interlock(*words, "--data-dir", called.data)
        assert done.returncode == 0, done
        return done.stdout

    assert "budget_exceeded" in cli("calls", "ls", "--refused") and "gpt-4o" not in cli("calls", "ls", "--refused")
    call = json.loads(cli("calls", "ls", "--model", "gpt-4o", "--json"))["items"][0]["id"]
    assert "$0.25" in cli("calls", "show", call) and called.hold in cli("calls", "show", call)
    assert "new-model" in cli("prices", "unpriced")


# ---- what an agent's sessions keep --------------------------------------------------------------------------------

def test_an_agent_says_what_is_kept_of_its_calls(admin, cli):
    agent = admin.agent()
    assert admin.get(f"/v1/agents/{agent}").ok(200)["capture"] == "usage"

    admin.put(f"/v1/agents/{agent}", {"capture": "full"}).ok(200)
    assert admin.get(f"/v1/agents/{agent}").ok(200)["capture"] == "full"
    cli("agents", "put", agent, "--capture", "off")
    assert admin.get(f"/v1/agents/{agent}").ok(200)["capture"] == "off"
    admin.put(f"/v1/agents/{agent}", {"capture": "some"}).refused(400, "invalid_request", "/capture")
