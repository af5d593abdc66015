"""Orgs on one server: the same names in two of them, and neither learns anything of the other.

The walk asks every GET route of the server's own description with one org's key, and looks in the answers for what is
the other's. That it would find it is seen by walking with a second key of the same org.
"""

import dataclasses
import json
import os
import subprocess
import threading
from decimal import Decimal

import pytest

from checks import COST, check_money, spend_together
from interlock_server import ON_POSTGRES, Client, Server, eventually, fresh, together

pytestmark = pytest.mark.seconds_max(90)

ENDLESS = {"/v1/sessions/{id}/tail"}  # Followed, not fetched.
MODEL = "sim/small"


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("server"), "--simulate-models") as server:
        yield server
        server.verify()


@pytest.fixture(scope="module")
def document(server):
    return server.admin.get("/openapi.json").ok(200)


def make_org(admin, name=None):
    """A client with the first key of a new org."""
    made = admin.post("/v1/orgs", {"name": name or fresh("org")}).ok(201)
    client = admin.with_key(made["key"])
    client.org, client.key_id = made["name"], made["key_id"]
    return client


def ask_model(client, text="hello", **headers):
    body = {"model": MODEL, "max_tokens": 20, "messages": [{"role": "user", "content": text}]}
    return client.post("/v1/chat/completions", body,
                       headers={f"x-interlock-{name}": value for name, value in headers.items()})


def calls(client):
    return client.items("/v1/calls")


def eventually_so_many(count, items):
    """Calls and turns are recorded behind the answer."""
    eventually(lambda: len(items()) >= count)
    return items()


# ---- two orgs with everything in them -----------------------------------------------------------------------------

@dataclasses.dataclass
class Org:
    """What was put into one: under names that the other has too, and under some that only this one has."""
    admin: Client
    mark: str
    ids: dict = dataclasses.field(default_factory=dict)  # Of a resource: what no other org has.

    def needles(self):
        return {self.mark, *(id for ids in self.ids.values() for id in ids)}

    def fill(self):
        admin, tags = self.admin, {"mark": self.mark}
        own = f"only-{self.mark}"
        for name in ("writer", own):
            admin.put(f"/v1/agents/{name}", {"tags": tags, "max_concurrent_runs": 5, "capture": "full"}).ok()
            admin.put(f"/v1/budgets/{name}", {"limit": "5.00", "window": "total", "scope": {"tags": tags}}).ok()
            admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "url": f"https://{self.mark}.invalid",
                                                "models": [f"{self.mark}-*"], "key": {"secret": name}}).ok()
            admin.put(f"/v1/rate-limits/{name}", {"match": {"agent": self.mark}, "requests_per_minute": 60}).ok()
            admin.put(f"/v1/secrets/{name}", {"value": self.mark}).ok()
        admin.put("/v1/prices", {"provider": "openai", "model": f"{self.mark}-*", "input_per_mtok": "3",
                                 "output_per_mtok": "12"}).ok()
        admin.put(f"/v1/caps/provider/{self.mark}", {"max_live": 3}).ok()
        admin.put("/v1/gateway", {"assume_price": "sim/small", "cache_keys": [self.mark]}).ok()
        session = admin.session(agent="writer", title=self.mark)
        admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": self.mark}).ok()
        run = admin.run("writer", name=self.mark, resources=["printer"], tags=tags, session=session, lease_s=600)
        hold = admin.post("/v1/holds", {"agent": "writer", "amount": "0.25", "ttl_s": 600, "tags": tags}).ok(201)["id"]
        admin.post("/v1/charges", {"agent": "writer", "cost": "0.01", "tags": tags, "workflow": self.mark}).ok(201)
        charge = admin.items("/v1/charges", agent="writer")[-1]["id"]
        key = admin.make_key("agent", agent="writer", note=self.mark)
        call = ask_model(admin, agent="writer", tags=f"mark={self.mark}")
        assert call.status == 200, call
        self.ids = {"agents": [own], "budgets": [own], "upstreams": [own], "rate-limits": [own], "secrets": [own],
                    "sessions": [session], "runs": [run["id"]], "holds": [hold], "charges": [charge], "keys": [key.key_id, admin.key_id],
                    "calls": [call.headers["x-interlock-call"]]}
        eventually(lambda: call.headers["x-interlock-call"] in {call["id"] for call in calls(admin)})
        return self


@pytest.fixture(scope="module")
def orgs(server):
    home = server.admin.make_key("admin")
    return Org(home, "redfox").fill(), Org(make_org(server.admin), "bluewhale").fill()


def walk(client, document, org):
    """What every GET route answers, asked with the ids of this org: route and answer."""
    seen = {}
    for path, methods in document["paths"].items():
        operation = methods.get("get")
        if operation is None or path in ENDLESS:
            continue
        resource, _, parameter = path.removeprefix("/v1/").partition("/{")
        known = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
        query = {"limit": 1000} if "limit" in known else {}
        if path == "/v1/runs/{id}/log":
            query = {}
        if path == "/v1/prices":
            query["filter"] = org.mark
        if path == "/v1/prices/show":
            query = {"provider": "openai", "model": f"{org.mark}-1"}
        if path == "/v1/spend":
            query = {"by": "agent,provider,model"}
        for id in org.ids.get(resource, []) + ["writer"] if parameter else [""]:
            full = path.replace("{id}", id).replace("{name}", id)
            seen[full] = client.get(full, **query)
    return seen


def found(seen, needles):
    """Where in these answers something of these is said. What was asked for is not news."""
    return {(full, needle) for full, reply in seen.items() for needle in needles
            if reply.status == 200 and needle in reply.body.decode(errors="replace").replace(full, "")}


def test_a_walk_over_every_read_shows_nothing_of_the_other_org(orgs, document):
    for mine, others in (orgs, orgs[::-1]):
        seen = walk(mine.admin, document, mine)

        assert not found(seen, others.needles())
        assert len([reply for reply in seen.values() if reply.status == 200]) > 30


def test_the_same_walk_with_another_key_of_the_org_finds_everything(orgs, document):
    for mine in orgs:
        colleague = mine.admin.make_key("admin")

        where = found(walk(colleague, document, mine), mine.needles())

        assert {needle for _, needle in where} == mine.needles()
        for resource, ids in mine.ids.items():
            for id in ids:
                assert (f"/v1/{resource}", id) in where, id
        for full in ("/v1/events", "/v1/charges", "/v1/prices", "/v1/caps", "/v1/gateway", "/v1/agents/writer",
                     "/v1/budgets/writer", "/v1/upstreams/writer", "/v1/rate-limits/writer"):
            assert (full, mine.mark) in where, full
        assert (f"/v1/sessions/{mine.ids['sessions'][0]}/messages", mine.mark) in where
        assert (f"/v1/sessions/{mine.ids['sessions'][0]}/export", mine.mark) in where


def test_the_ids_of_one_org_are_unknown_in_the_other_on_every_route(orgs, document):
    tried = 0
    for mine, others in (orgs, orgs[::-1]):
        before = walk(others.admin, document, others)
        for path, methods in document["paths"].items():
            resource, _, parameter = path.removeprefix("/v1/").partition("/{")
            if not parameter or resource.startswith("caps") or resource in ("orgs", "users"):
                continue  # A cap has no id; orgs and users of the machine are tried below.
            foreign = others.ids.get({"worktrees": "runs", "schedules": "agents"}.get(resource, resource))
            for method, operation in methods.items():
                if method == "put":
                    continue  # It makes what is not there, and makes it here.
                described = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
                body = described.get("example", {})
                for id in foreign:
                    full = path.replace("{id}", id).replace("{name}", id)
                    reply = mine.admin.request(method.upper(), full, None if method in ("get", "delete") else body)
                    reply.refused(404, "not_found")
                    tried += 1
        after = walk(others.admin, document, others)
        assert {full: reply.status for full, reply in after.items()} == {full: reply.status for full, reply in
                                                                         before.items()}
        for full in (f"/v1/runs/{others.ids['runs'][0]}", f"/v1/holds/{others.ids['holds'][0]}", "/v1/keys",
                     f"/v1/sessions/{others.ids['sessions'][0]}", "/v1/agents", "/v1/budgets", "/v1/upstreams"):
            assert after[full].body == before[full].body
    assert tried > 60


def test_what_a_request_names_is_looked_for_in_its_own_org(orgs):
    for mine, others in (orgs, orgs[::-1]):
        run, session = others.ids["runs"][0], others.ids["sessions"][0]

        mine.admin.post("/v1/charges", {"agent": "writer", "cost": "0.01", "run": run}).refused(404, "not_found")
        mine.admin.post("/v1/charges", {"agent": "writer", "cost": "0.01", "session": session}).refused(404,
                                                                                                       "not_found")
        mine.admin.post("/v1/holds", {"agent": "writer", "amount": "0.01", "run": run}).refused(404, "not_found")
        mine.admin.post("/v1/runs", {"agent": "writer", "session": session}).refused(404, "not_found")
        mine.admin.post("/v1/runs", {"agent": others.ids["agents"][0]}).refused(404, "not_found")
        mine.admin.post("/v1/keys", {"scopes": ["agent"], "run": run}).refused(404, "not_found")
        assert ask_model(mine.admin, agent="writer", run=run).status >= 400
        assert ask_model(mine.admin, agent="writer", session=session).status >= 400
        # The same resource is another one in each: both have a live run on it.
        assert mine.admin.get(f"/v1/runs/{mine.ids['runs'][0]}").ok()["status"] in ("starting", "running")


# ---- orgs themselves ----------------------------------------------------------------------------------------------

def test_an_org_is_made_with_a_key_that_is_good_at_once(admin):
    name = fresh("org")

    made = admin.post("/v1/orgs", {"name": name}).ok(201)

    assert made["name"] == name and made["repeated"] is False and made["key"].startswith(f"ilk_{made['key_id']}_")
    client = admin.with_key(made["key"])
    assert client.get("/v1/keys/self").ok(200)["scopes"] == ["admin"]
    status = client.get("/v1/status").ok(200)
    assert status["org"] == name and status["agents"] == 0
    assert (status["data_dir"], status["store_bytes"], status["engine"]) == (None, None, None)
    assert [event["type"] for event in client.get("/v1/events").ok(200)["items"]] == ["org_created", "key_created"]
    assert ask_model(client).status in (200, 400, 404)  # Never "no configuration yet".
    listed = {org["name"]: org for org in admin.items("/v1/orgs")}
    assert listed["default"]["number"] == 1 and listed[name]["number"] > 1 and listed[name]["created_at"]
    assert [org["number"] for org in admin.items("/v1/orgs", limit=1)] == list(range(1, len(listed) + 1))


def test_a_repeat_makes_no_second_org_and_shows_no_key(admin):
    name, key = fresh("org"), fresh("key")

    first = admin.post("/v1/orgs", {"name": name}, idempotency=key).ok(201)
    again = admin.post("/v1/orgs", {"name": name}, idempotency=key).ok(201)

    assert again == {**first, "key": None, "repeated": True}
    admin.post("/v1/orgs", {"name": name}).refused(409, "already_exists")
    assert len(admin.with_key(first["key"]).items("/v1/keys")) == 1


def test_the_default_org_is_there_already(admin):
    keys = len(admin.items("/v1/keys"))

    admin.post("/v1/orgs", {"name": "default"}).refused(409, "already_exists")

    assert len(admin.items("/v1/keys")) == keys


@pytest.mark.parametrize("name", ["", "a b", "x" * 200, "é"])
def test_a_name_that_is_none_is_refused(admin, name):
    before = admin.items("/v1/orgs")

    admin.post("/v1/orgs", {"name": name}).refused(400, "invalid_request", "/name")

    assert admin.items("/v1/orgs") == before


def test_of_many_who_want_one_name_one_gets_it_and_every_other_name_gets_a_number(admin):
    wanted = fresh("org")

    replies = together(8, lambda i: admin.post("/v1/orgs", {"name": wanted if i % 2 else f"{wanted}-{i}"}))

    same = sorted(reply.status for reply in replies[1::2])
    assert same == [201, 409, 409, 409], replies
    assert all(reply.status == 201 for reply in replies[::2]), replies
    orgs = [org for org in admin.items("/v1/orgs") if org["name"].startswith(wanted)]
    assert len({org["number"] for org in orgs}) == len(orgs) == 5
    for reply in replies:
        if reply.status == 201:
            client = admin.with_key(reply.json()["key"])
            assert client.get("/v1/status").ok(200)["org"] == reply.json()["name"]


def test_a_lost_key_can_be_replaced_by_the_servers_org(admin):
    org = make_org(admin)
    org.delete(f"/v1/keys/{org.key_id}").ok(204)
    org.get("/v1/agents").refused(401, "unauthorized")

    made = admin.post(f"/v1/orgs/{org.org}/keys").ok(201)

    assert admin.with_key(made["key"]).get("/v1/status").ok(200)["org"] == org.org
    admin.post("/v1/orgs/nobody/keys").refused(404, "not_found")


def test_what_is_the_servers_is_not_for_other_orgs(admin, document):
    org, tried = make_org(admin), set()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation.get("x-reach") != "server":
                continue
            body = None if method == "get" else {}
            org.request(method.upper(), path.replace("{name}", "default").replace("{user}", "65534"), body).refused(
                403, "not_in_this_org")
            tried.add(f"{method.upper()} {path}")
    assert tried == {"GET /v1/orgs", "POST /v1/orgs", "POST /v1/orgs/{name}/keys", "GET /metrics", "GET /v1/verify",
                     "GET /v1/verify/last", "GET /v1/doctor", "GET /v1/nodes", "POST /v1/backup", "PUT /v1/prices/catalog",
                     "GET /v1/sandbox", "PUT /v1/sandbox", "GET /v1/users", "PUT /v1/users/{user}", "DELETE /v1/users/{user}"}
    for scope in ("operator", "agent", "read"):
        admin.make_key(scope).get("/v1/orgs").refused(403, "forbidden")


def test_what_needs_the_servers_processes_or_directories_is_refused_and_nothing_waits(admin, tmp_path):
    org = make_org(admin)
    org.put("/v1/agents/writer", {"command": ["true"]}).ok()

    for body in ({"launch": True}, {"command": ["true"]}, {"workspace": str(tmp_path)}, {"isolate": True},
                 {"resources": ["x"], "on_conflict": "isolate"}, {"isolate": True, "isolate_into": str(tmp_path)}):
        org.post("/v1/runs", {"agent": "writer", **body}).refused(403, "not_in_this_org")
    org.put("/v1/schedules/nightly", {"agent": "writer", "every": "1s"}).refused(403, "not_in_this_org")

    assert org.items("/v1/runs") == [] and org.items("/v1/schedules") == []
    run = org.run("writer", resources=["x"])
    assert org.finish(run).ok()["status"] == "succeeded"


def test_an_upstream_of_another_org_gets_nothing_from_the_servers_environment_or_files(admin):
    org = make_org(admin)
    for member, value in (("key", {"env": "PATH"}), ("key", {"file": "/etc/hostname"}), ("ca_file", "/etc/hostname")):
        body = {"dialect": "openai", "url": "http://127.0.0.1:9", member: value}
        org.put("/v1/upstreams/mine", body).refused(400, "invalid_request", f"/{member}")
    org.put("/v1/upstreams/mine", {"dialect": "openai", "key": {"secret": "mine"}}).ok()


# ---- money --------------------------------------------------------------------------------------------------------

def test_charges_of_two_orgs_at_once_are_two_ledgers(admin):
    clients = [admin.make_key("admin"), make_org(admin)]
    agent, budget = fresh("agent"), fresh("budget")
    for client, limit in zip(clients, ("10.00", "20.00")):
        client.put(f"/v1/agents/{agent}", {}).ok()
        client.put(f"/v1/budgets/{budget}", {"limit": limit, "window": "total", "scope": {"agent": agent}}).ok()
    counts = [(4, 50), (3, 70)]

    threads = [threading.Thread(target=spend_together, args=(client, agent, *count))
               for client, count in zip(clients, counts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for client, (writers, each) in zip(clients, counts):
        check_money(client, agent, budget, writers * each)
    assert clients[1].get("/v1/spend").ok(200)["items"][0]["cost"] == f"{COST * 210:.4f}".rstrip("0")


def test_the_ceiling_of_one_org_is_not_the_others(admin):
    clients = [admin.make_key("admin"), make_org(admin)]
    agent, budget = fresh("agent"), fresh("budget")
    for client, limit in zip(clients, ("0.10", "0.30")):
        client.put(f"/v1/agents/{agent}", {}).ok()
        client.put(f"/v1/budgets/{budget}", {"limit": limit, "window": "total", "scope": {"agent": agent}}).ok()

    replies = together(80, lambda i: clients[i % 2].post("/v1/charges", {"agent": agent, "cost": "0.01"}))

    for i, (client, fits) in enumerate(zip(clients, (10, 30))):
        assert sum(reply.status == 201 for reply in replies[i::2]) == fits
        told = client.get(f"/v1/budgets/{budget}").ok(200)
        assert Decimal(told["settled"]) == Decimal("0.01") * fits and Decimal(told["free"]) == 0


def test_one_idempotency_key_in_two_orgs_is_two_requests(admin):
    org, agent, key = make_org(admin), fresh("agent"), fresh("key")
    for client in (admin, org):
        client.put(f"/v1/agents/{agent}", {}).ok()

    first = admin.post("/v1/charges", {"agent": agent, "cost": "0.01"}, idempotency=key).ok(201)
    other = org.post("/v1/charges", {"agent": agent, "cost": "0.02"}, idempotency=key).ok(201)

    assert (first["repeated"], other["repeated"], other["cost"]) == (False, False, "0.02")
    assert org.post("/v1/charges", {"agent": agent, "cost": "0.02"}, idempotency=key).ok(201)["repeated"] is True


# ---- the feed -----------------------------------------------------------------------------------------------------

def test_whoever_follows_an_org_hears_of_it_and_of_no_other(admin):
    org, agent = make_org(admin), fresh("agent")
    org.put(f"/v1/agents/{agent}", {}).ok()
    admin.put(f"/v1/agents/{agent}", {}).ok()

    def head(client):
        return client.get("/v1/events").ok(200)["head"]

    # Where both have the same number next, one could be taken for the other.
    for _ in range(head(admin) - head(org)):
        org.post("/v1/charges", {"agent": agent, "cost": "0.03"}).ok(201)
    assert head(admin) == head(org)

    with org.events("/v1/events") as inside, admin.events("/v1/events", type="charged") as home:
        for i in range(20):
            admin.post("/v1/charges", {"agent": agent, "cost": "0.02"}).ok(201)
            org.post("/v1/charges", {"agent": agent, "cost": f"0.01{i:02}"}).ok(201)
        heard = inside.take(20)
        heard_at_home = home.take(20)

    assert [Decimal(event["data"]["cost"]) for _, _, event in heard] == [Decimal(f"0.01{i:02}") for i in range(20)]
    assert [number for number, _, _ in heard] == list(range(heard[0][0], heard[0][0] + 20))
    assert {event["data"]["cost"] for _, _, event in heard_at_home} == {"0.02"}


def test_a_session_of_another_org_can_be_followed_there(admin):
    org = make_org(admin)
    session = org.session(title="notes")

    with org.events(f"/v1/sessions/{session}/tail") as tail:
        org.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": "one"}).ok()
        number, event, data = tail.next()

    assert (number, event, data["content"]) == (0, "message", "one")


def test_a_follower_whose_key_is_revoked_has_to_go(admin):
    org = make_org(admin)
    reader = org.make_key("read")

    with reader.events("/v1/events") as stream:
        org.delete(f"/v1/keys/{reader.key_id}").ok(204)
        while (event := stream.next()) is not None:
            assert event[1] == "key_revoked"


# ---- the gateway --------------------------------------------------------------------------------------------------

def test_calls_of_two_orgs_at_once_never_mix(admin):
    clients = [admin.make_key("admin"), make_org(admin)]
    agent, budget = fresh("agent"), fresh("budget")
    sessions = []
    for client in clients:
        client.put(f"/v1/agents/{agent}", {"capture": "full"}).ok()
        client.put(f"/v1/budgets/{budget}", {"limit": "1.00", "window": "total", "scope": {"agent": agent}}).ok()
        sessions.append(client.session(agent=agent))
    words = ["cinnamon", "turpentine"]

    def call(i):
        which = i % 2
        text = f"{words[which]} {i} [[sim output={10 + which} text={words[which]}]]"
        return ask_model(clients[which], text, agent=agent, session=sessions[which])

    replies = together(24, call)

    assert [reply.status for reply in replies] == [200] * 24
    ids = [{reply.headers["x-interlock-call"] for reply in replies[which::2]} for which in (0, 1)]
    for which, client in enumerate(clients):
        mine = eventually_so_many(12, lambda: client.items("/v1/calls", agent=agent))
        assert {call["id"] for call in mine} == ids[which]
        spent = sum(Decimal(call["cost"]) for call in mine)
        told = client.get(f"/v1/budgets/{budget}").ok(200)
        assert Decimal(told["settled"]) == spent > 0 and told["open_holds"] == 0
        other = words[1 - which].encode()
        messages = eventually_so_many(24, lambda: client.items(f"/v1/sessions/{sessions[which]}/messages"))
        assert words[which] in json.dumps(messages) and other.decode() not in json.dumps(messages)
        for path in ("/v1/events", "/v1/charges", "/v1/holds", "/v1/sessions"):
            assert other not in client.get(path, limit=1000).body


def test_an_answer_that_one_org_has_cached_is_not_given_to_another(admin):
    clients = [admin.make_key("admin"), make_org(admin)]
    agent, text = fresh("agent"), fresh("question")
    for client in clients:
        client.put(f"/v1/agents/{agent}", {}).ok()

    def cached(client):
        reply = ask_model(client, text, agent=agent, cache="600")
        assert reply.status == 200, reply
        return reply.headers.get("x-interlock-cache") == "hit"

    assert [cached(clients[0]), cached(clients[0])] == [False, True]
    assert [cached(clients[1]), cached(clients[1])] == [False, True]


def test_upstreams_prices_secrets_and_limits_are_an_orgs_own(admin):
    org, agent, model = make_org(admin), fresh("agent"), fresh("model")
    for client in (admin, org):
        client.put(f"/v1/agents/{agent}", {}).ok()
    body = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
    headers = {"x-interlock-agent": agent}
    org.put("/v1/upstreams/mine", {"dialect": "openai", "url": "https://nobody.invalid", "models": [model], "retries": 0,
                                   "key": {"secret": "mine"}}).ok()
    org.put("/v1/prices", {"provider": "openai", "model": model, "input_per_mtok": "1", "output_per_mtok": "1"}).ok()

    inside = org.post("/v1/chat/completions", body, headers=headers)
    outside = admin.post("/v1/chat/completions", body, headers=headers)

    assert inside.status == 502 and b"its key is not there (mine)" in inside.body, inside
    assert outside.status == 404 and b"no upstream" in outside.body, outside
    admin.put("/v1/secrets/mine", {"value": "sk-of-another"}).ok()
    again = org.post("/v1/chat/completions", body, headers=headers)
    assert b"its key is not there (mine)" in again.body, again

    org.put("/v1/rate-limits/slow", {"match": {"agent": agent}, "requests_per_minute": 1}).ok()
    assert ask_model(org, agent=agent).status == 200
    assert [ask_model(org, agent=agent).status, ask_model(admin, agent=agent).status] == [429, 200]


# ---- restarts, nodes, the command line ----------------------------------------------------------------------------

def test_the_keys_and_settings_of_every_org_are_there_after_a_restart(binary, tmp_path):
    with Server(binary, tmp_path, "--simulate-models") as server:
        org = make_org(server.admin)
        org.put("/v1/agents/writer", {}).ok()
        org.put("/v1/budgets/rent", {"limit": "1.00", "window": "total"}).ok()
        revoked = org.make_key("read")
        org.delete(f"/v1/keys/{revoked.key_id}").ok(204)
        server.restart()

        again = server.admin.with_key(org.key)
        assert again.get("/v1/status").ok(200)["agents"] == 1
        # On PostgreSQL the lane of the process that was killed is taken when its lease is over.
        eventually(lambda: ask_model(again, agent="writer").status == 200)
        eventually(lambda: Decimal(again.get("/v1/budgets/rent").ok(200)["settled"]) > 0)
        server.admin.with_key(revoked.key).get("/v1/status").refused(401, "unauthorized")
        make_org(server.admin)
        server.verify()


@pytest.mark.skipif(not ON_POSTGRES, reason="needs several nodes on one store")
def test_an_org_that_was_made_on_one_node_works_on_every_node(binary, server, admin, tmp_path):
    with Server(binary, tmp_path, "--simulate-models", "--node", "second", store=server.store) as second:
        org = make_org(admin)
        there = org.at(second.address)

        there.put("/v1/agents/writer", {}).ok()
        assert there.get("/v1/status").ok(200)["org"] == org.org
        with there.events("/v1/events") as stream:
            org.post("/v1/charges", {"agent": "writer", "cost": "0.01"}).ok(201)
            there.post("/v1/charges", {"agent": "writer", "cost": "0.02"}).ok(201)
            assert [event["data"]["cost"] for _, _, event in stream.take(2)] == ["0.01", "0.02"]
        eventually(lambda: ask_model(there, agent="writer").status == 200)
        assert ask_model(org, agent="writer").status == 200
        eventually(lambda: len(calls(org)) >= 2)
        other = make_org(second.admin)
        eventually(lambda: other.at(server.address).get("/v1/agents").status == 200)


def test_the_command_line_makes_and_lists_orgs(interlock, server):
    def run(*words, key=None, code=0):
        environment = {**os.environ, "COLUMNS": "200", "INTERLOCK_DATA": str(server.data)}
        if key:
            environment["INTERLOCK_KEY"] = key
        done = subprocess.run([interlock.binary, *words], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, env=environment)
        assert done.returncode == code, done
        return done.stderr if code else done.stdout

    name = fresh("org")
    key = run("orgs", "create", name, "--quiet").strip()

    assert key.startswith("ilk_") and name in run("orgs", "ls") and "default" in run("orgs", "ls")
    run("agents", "put", "writer", key=key)
    assert run("agents", "ls", "--quiet", key=key).split() == ["writer"]
    assert name in run("status", "--json", key=key)
    assert "concerns the whole server" in run("orgs", "ls", key=key, code=4)
    assert "processes" in run("run", "--agent", "writer", "--detach", "--", "true", key=key, code=4)
    assert run("orgs", "key", name, "--quiet").startswith("ilk_")
    assert "already" in run("orgs", "create", name, code=1)
