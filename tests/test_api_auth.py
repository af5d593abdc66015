"""Who may do what: keys, their scopes, and what they are bound to."""

import pytest

from interlock_server import fresh

pytestmark = pytest.mark.seconds_max(30)

LEVELS = ["none", "read", "agent", "operator", "admin"]

# What is more than reading, and who may. Written down here once more so that a slip in the server's own table shows.
SCOPES = {
    "agent": {"POST /v1/charges", "POST /v1/holds", "POST /v1/holds/{id}/settle", "POST /v1/holds/{id}/release",
              "POST /v1/holds/{id}/extend", "POST /v1/sessions", "POST /v1/sessions/{id}/messages",
              "POST /v1/sessions/{id}/fork", "POST /v1/sessions/{id}/close", "POST /v1/sessions/import", "POST /v1/runs",
              "POST /v1/runs/{id}/start", "POST /v1/runs/{id}/heartbeat", "POST /v1/runs/{id}/pause",
              "POST /v1/runs/{id}/resume", "POST /v1/runs/{id}/finish", "POST /v1/runs/{id}/cancel",
              "POST /v1/schedules/{name}/trigger", "POST /v1/schedules/{name}/wake"},
    "operator": {"POST /v1/charges/{id}/correct", "PUT /v1/agents/{name}", "DELETE /v1/agents/{name}",
                 "POST /v1/agents/{name}/pause", "POST /v1/agents/{name}/resume", "PUT /v1/budgets/{name}", "DELETE /v1/budgets/{name}",
                 "POST /v1/budgets/{name}/unfreeze", "PUT /v1/budgets/{name}/limit", "PUT /v1/schedules/{name}",
                 "DELETE /v1/schedules/{name}",
                 "POST /v1/schedules/{name}/pause", "POST /v1/schedules/{name}/resume",
                 "PUT /v1/caps/org", "DELETE /v1/caps/org", "PUT /v1/caps/provider/{name}",
                 "DELETE /v1/caps/provider/{name}", "PUT /v1/caps/node/{name}", "DELETE /v1/caps/node/{name}",
                 "POST /v1/runs/{id}/retry", "POST /v1/worktrees/gc", "POST /v1/worktrees/{id}/restore",
                 "PUT /v1/rate-limits/{name}", "DELETE /v1/rate-limits/{name}", "PUT /v1/gateway", "PUT /v1/prices", "DELETE /v1/prices",
                 "PUT /v1/prices/catalog", "PUT /v1/sandbox"},
    "admin": {"POST /v1/keys", "GET /v1/keys", "GET /v1/keys/{id}", "DELETE /v1/keys/{id}", "POST /v1/backup",
              "GET /v1/orgs", "POST /v1/orgs", "POST /v1/orgs/{name}/keys",
              "GET /v1/users", "PUT /v1/users/{user}", "DELETE /v1/users/{user}",
              "GET /v1/secrets", "PUT /v1/secrets/{name}", "DELETE /v1/secrets/{name}",
              "PUT /v1/upstreams/{name}", "DELETE /v1/upstreams/{name}"},
    "none": {"GET /healthz", "GET /readyz"},
    "read": {"GET /v1/agents", "GET /v1/agents/{name}", "GET /v1/budgets", "GET /v1/budgets/{name}",
             "GET /v1/budgets/{name}/windows", "GET /v1/budgets/{name}/line", "GET /v1/charges", "GET /v1/holds", "GET /v1/holds/{id}", "GET /v1/sessions",
             "GET /v1/sessions/{id}", "GET /v1/sessions/{id}/messages", "GET /v1/sessions/{id}/tail",
             "GET /v1/sessions/{id}/export", "GET /v1/runs", "GET /v1/runs/{id}", "GET /v1/runs/{id}/log",
             "GET /v1/runs/{id}/steps", "GET /v1/ticks", "GET /v1/spend/minutes",
             "GET /v1/claims", "GET /v1/places", "GET /v1/worktrees", "GET /v1/worktrees/{id}", "GET /v1/schedules",
             "GET /v1/schedules/{name}", "GET /v1/schedules/{name}/next",
             "GET /v1/schedules/{name}/history", "GET /v1/caps", "GET /v1/keys/self", "GET /v1/events", "GET /v1/spend",
             "GET /v1/upstreams", "GET /v1/upstreams/{name}", "GET /v1/rate-limits", "GET /v1/rate-limits/{name}",
             "GET /v1/gateway", "GET /v1/prices", "GET /v1/prices/show", "GET /v1/prices/unpriced", "GET /v1/calls",
             "GET /v1/calls/{id}", "GET /v1/verify", "GET /v1/verify/last", "GET /v1/doctor", "GET /v1/incidents",
             "GET /v1/gateway/upstreams", "GET /v1/gateway/models", "GET /v1/sessions/{id}/tree", "GET /v1/status",
             "GET /v1/nodes", "GET /v1/sandbox", "GET /openapi.json", "GET /metrics", "POST /v1/login"},
}


@pytest.fixture(scope="module")
def document(server):
    return server.admin.get("/openapi.json").ok(200)


@pytest.fixture(scope="module")
def clients(server):
    """One for each scope, and one without a key."""
    return {"none": server.admin.with_key(None),
            **{scope: server.admin.make_key(scope) for scope in ("read", "agent", "operator", "admin")}}


def described(document):
    return {f"{method.upper()} {path}": operation["x-scope"]
            for path, methods in document["paths"].items() for method, operation in methods.items()}


def test_every_route_has_the_scope_it_should_have_and_there_is_no_other_route(document):
    expected = {route: scope for scope, routes in SCOPES.items() for route in routes}

    assert described(document) == expected


@pytest.mark.parametrize("scope", LEVELS)
def test_a_key_opens_exactly_the_routes_of_its_scope(document, clients, scope):
    for route, needed in described(document).items():
        method, path = route.split()
        path = path.replace("{name}", "nobody").replace("{id}", "nothing").replace("{user}", "65534")
        reply = clients[scope].request(method, path, None if method in ("GET", "DELETE") else {})

        if LEVELS.index(scope) >= LEVELS.index(needed):
            assert reply.status not in (401, 403), reply
        elif scope == "none":
            assert reply.refused(401, "unauthorized")["request_id"].startswith("req_")
            assert reply.headers["www-authenticate"].startswith("Bearer")
        else:
            reply.refused(403, "forbidden")


@pytest.mark.parametrize("key", ["", "x", "ilk_", "ilk__", "ilk_000000000000_" + "0" * 64, "ilk_000000000000"])
def test_a_key_nobody_made_is_refused_everywhere_but_at_the_open_routes(admin, document, key):
    stranger = admin.with_key(key)
    for route, needed in described(document).items():
        method, path = route.split()
        reply = stranger.request(method, path.replace("{name}", "x").replace("{id}", "x").replace("{user}", "65534"))
        if needed == "none":
            assert reply.status == 200, reply
        else:
            reply.refused(401, "unauthorized")


def test_the_right_id_with_another_secret_is_refused(admin):
    prefix, key_id, secret = admin.key.split("_")
    other = secret[:-1] + ("0" if secret[-1] != "0" else "1")

    for key in (f"{prefix}_{key_id}_{other}", f"{prefix}_{key_id}_", f"{prefix}_{key_id}_{secret}x"):
        admin.with_key(key).get("/v1/status").refused(401, "unauthorized")


@pytest.mark.parametrize("header", ["Basic {}", "{}", "Bearer", "Bearer  {}", "Token {}"])
def test_only_the_bearer_scheme_is_understood(admin, header):
    reply = admin.with_key(None).request("GET", "/v1/status", headers={"Authorization": header.format(admin.key)})

    reply.refused(401, "unauthorized")


def test_without_a_key_a_path_that_is_not_there_looks_like_one_that_is(admin):
    nobody = admin.with_key(None)

    nobody.get("/v1/nothing").refused(401, "unauthorized")
    nobody.get("/v1/agents").refused(401, "unauthorized")


def test_a_key_is_shown_once_and_its_secret_is_nowhere_else(server, admin):
    made = admin.post("/v1/keys", {"scopes": ["read"], "note": "for a look"}, idempotency=fresh("key")).ok(201)
    secret = made["key"].split("_")[2]

    assert made["key"].startswith(f"ilk_{made['id']}_") and made["scopes"] == ["read"] and made["note"] == "for a look"
    shown = admin.get(f"/v1/keys/{made['id']}")
    assert shown.ok(200) | {"key": None} == {name: made[name] for name in shown.json()} | {"key": None}
    for reply in (shown, admin.get("/v1/keys"), admin.get("/v1/events", limit=1000), admin.get("/metrics")):
        assert secret.encode() not in reply.body
    for file in server.data.iterdir():
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
    assert secret not in server.log()


def test_a_repeated_creation_is_the_same_key_without_its_secret(admin):
    key, body = fresh("key"), {"scopes": ["read"]}

    first = admin.post("/v1/keys", body, idempotency=key).ok(201)
    again = admin.post("/v1/keys", body, idempotency=key)

    assert again.ok(201)["id"] == first["id"] and again.json()["key"] is None and again.json()["repeated"] is True
    assert again.headers["idempotent-replayed"] == "true"
    admin.with_key(first["key"]).get("/v1/status").ok(200)


def test_a_key_knows_itself(admin):
    agent = admin.agent()
    own = admin.make_key("agent", agent=agent, note="mine")

    shown = own.get("/v1/keys/self").ok(200)

    assert shown["id"] == own.key_id and shown["agent"] == agent and shown["note"] == "mine"
    assert shown["revoked_at"] is None and shown["run"] is None and shown["budget"] is None


def test_a_revoked_key_stops_at_once_and_stays_in_the_list(server, admin):
    reader = admin.make_key("read")
    reader.get("/v1/status").ok(200)

    admin.delete(f"/v1/keys/{reader.key_id}").ok(204)

    reader.get("/v1/status").refused(401, "unauthorized")
    assert admin.get(f"/v1/keys/{reader.key_id}").ok(200)["revoked_at"] is not None
    assert reader.key_id in [key["id"] for key in admin.items("/v1/keys")]
    admin.delete(f"/v1/keys/{reader.key_id}").ok(204)


@pytest.mark.parametrize("body, pointer", [
    ({}, "/scopes"), ({"scopes": []}, None), ({"scopes": ["root"]}, None), ({"scopes": "admin"}, "/scopes"),
    ({"scopes": ["read"], "run": "run_x"}, "/run"), ({"scopes": ["read"], "more": 1}, "/more"),
    ({"scopes": [1]}, "/scopes/0"),
])
def test_a_key_that_makes_no_sense_is_refused(admin, body, pointer):
    admin.post("/v1/keys", body).refused(400, "invalid_request", pointer)


def test_a_key_for_what_is_not_there_is_refused(admin):
    assert admin.post("/v1/keys", {"scopes": ["agent"], "agent": "nobody"}).refused(404, "not_found")["what"] == "agent"
    assert admin.post("/v1/keys", {"scopes": ["agent"], "budget": "none"}).refused(404, "not_found")["what"] == "budget"
    reply = admin.post("/v1/keys", {"scopes": ["agent"], "run": "run_00000000000000000000000001"})
    assert reply.refused(404, "not_found")["what"] == "run"
    assert admin.get("/v1/keys/000000000000").refused(404, "not_found")["what"] == "key"
    assert admin.delete("/v1/keys/000000000000").refused(404, "not_found")["what"] == "key"


# ---- bound to an agent --------------------------------------------------------------------------------------------

class Two:
    """Two agents with one of everything each, and a key bound to the first."""

    def __init__(self, admin):
        self.mine, self.other = admin.agent(max_concurrent_runs=5), admin.agent(max_concurrent_runs=5)
        self.key = admin.make_key("agent", agent=self.mine)
        self.session, self.run, self.hold, self.budget, self.schedule = {}, {}, {}, {}, {}
        for agent in (self.mine, self.other):
            self.session[agent] = session = admin.session(agent=agent)
            self.run[agent] = admin.run(agent, resources=[fresh("resource")])
            opener = self.key if agent == self.mine else admin  # The opener of a hold ends it.
            self.hold[agent] = opener.post("/v1/holds", {"agent": agent, "amount": "0.10", "ttl_s": 3600}).ok(201)["id"]
            self.budget[agent] = admin.budget("100.00", scope={"agent": agent})
            self.schedule[agent] = fresh("schedule")
            admin.put(f"/v1/schedules/{self.schedule[agent]}", {"agent": agent, "every": "1d"}).ok()
            admin.post("/v1/charges", {"agent": agent, "cost": "0.01"}).ok(201)
            admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": f"of {agent}"}).ok(201)


@pytest.fixture(scope="module")
def two(server):
    return Two(server.admin)


def check_refused(replies, statuses):
    done = [str(reply) for reply in replies if reply.status not in statuses]
    assert not done, "\n".join(done)


def routes_of(two, agent):
    """Requests that name something of an agent."""
    run, fence = two.run[agent]["id"], two.run[agent]["fence"]
    session, hold = two.session[agent], two.hold[agent]
    return [
        ("GET", f"/v1/agents/{agent}", None),
        ("GET", f"/v1/runs/{run}", None),
        ("GET", f"/v1/runs/{run}/steps", None),
        ("GET", f"/v1/sessions/{session}", None),
        ("GET", f"/v1/sessions/{session}/messages", None),
        ("GET", f"/v1/sessions/{session}/export", None),
        ("GET", f"/v1/holds/{hold}", None),
        ("GET", f"/v1/budgets/{two.budget[agent]}", None),
        ("GET", f"/v1/budgets/{two.budget[agent]}/windows", None),
        ("GET", f"/v1/budgets/{two.budget[agent]}/line", None),
        ("GET", f"/v1/schedules/{two.schedule[agent]}", None),
        ("GET", f"/v1/schedules/{two.schedule[agent]}/next", None),
        ("GET", f"/v1/schedules/{two.schedule[agent]}/history", None),
        ("POST", f"/v1/runs/{run}/heartbeat", {"fence": fence}),
        ("POST", f"/v1/runs/{run}/pause", {"fence": fence}),
        ("POST", f"/v1/runs/{run}/resume", {"fence": fence}),
        ("POST", f"/v1/holds/{hold}/extend", {"ttl_s": 3600}),
        ("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": "hello"}),
        ("POST", f"/v1/sessions/{session}/fork", {"at_seq": 0}),
        ("POST", "/v1/charges", {"agent": agent, "cost": "0.01"}),
        ("POST", "/v1/holds", {"agent": agent, "amount": "0.01", "ttl_s": 1}),
        ("POST", "/v1/sessions", {"agent": agent}),
        ("POST", "/v1/runs", {"agent": agent}),
        ("POST", f"/v1/schedules/{two.schedule[agent]}/wake", {}),
        ("POST", f"/v1/runs/{run}/cancel", {}),
        ("POST", f"/v1/runs/{run}/finish", {"fence": fence}),
        ("POST", f"/v1/holds/{hold}/settle", {"cost": "0.01"}),
    ]


def test_a_key_bound_to_an_agent_does_not_find_what_belongs_to_others(two):
    for method, path, body in routes_of(two, two.other):
        two.key.request(method, path, body).refused(404, "not_found")


def test_a_key_bound_to_an_agent_puts_nothing_on_the_account_of_others(admin, two):
    own = admin.session(agent=two.mine)
    session, run = admin.session(agent=two.other), two.run[two.other]["id"]
    replies = [two.key.post(path, body) for path, body in [
        ("/v1/charges", {"agent": two.mine, "cost": "0.01", "session": session}),
        ("/v1/charges", {"agent": two.mine, "cost": "0.01", "run": run}),
        ("/v1/holds", {"agent": two.mine, "amount": "0.01", "session": session}),
        ("/v1/holds", {"agent": two.mine, "amount": "0.01", "run": run}),
        ("/v1/runs", {"agent": two.mine, "session": session}),
        (f"/v1/sessions/{own}/messages", {"role": "user", "content": "x", "run": run}),
    ]]

    check_refused(replies, (400, 404))
    assert admin.get(f"/v1/sessions/{session}").ok(200)["spent"] == "0.00"


def test_in_a_batch_only_the_charges_of_other_agents_are_refused(two):
    done = two.key.post("/v1/charges", [{"agent": two.mine, "cost": "0.01"}, {"agent": two.other, "cost": "0.01"}]).ok(200)

    assert [result["status"] for result in done["results"]] == ["charged", "refused"]
    assert done["results"][1]["error"]["code"] == "not_found"


def test_lists_show_a_bound_key_only_its_own(two):
    assert [agent["name"] for agent in two.key.items("/v1/agents")] == [two.mine]
    for path in ("/v1/charges", "/v1/runs", "/v1/sessions", "/v1/holds", "/v1/places", "/v1/schedules"):
        found = two.key.items(path) if path != "/v1/places" else two.key.get(path).ok(200)["items"]
        assert found and {item["agent"] for item in found} == {two.mine}, path
    for path in ("/v1/charges", "/v1/runs", "/v1/sessions", "/v1/holds", "/v1/schedules"):
        asked = two.key.get(path, agent=two.other).ok(200, 404) or {}
        assert two.other not in {item["agent"] for item in asked.get("items", [])}, path


def test_the_list_of_budgets_does_not_end_early_because_some_are_hidden(admin, two):
    more = [admin.budget("1.00", scope={"agent": two.mine}) for _ in range(2)]

    found = {budget["name"] for budget in two.key.items("/v1/budgets", limit=1)}

    assert two.budget[two.mine] in found and set(more) <= found and two.budget[two.other] not in found


def test_a_bound_key_sees_its_agents_spend_alone_and_nothing_of_the_feed(admin, two):
    spent = two.key.get("/v1/spend", by="agent").ok(200)
    assert [item["agent"] for item in spent["items"]] == [two.mine]
    assert spent["total"] == admin.get(f"/v1/agents/{two.mine}").ok(200)["spent"]

    for path in ("/v1/events", "/v1/status", "/metrics", "/v1/verify"):
        two.key.get(path).refused(403, "forbidden")


def test_a_bound_key_may_do_everything_with_its_own(two):
    for method, path, body in routes_of(two, two.mine):
        assert two.key.request(method, path, body).status in (200, 201), (method, path)


def test_a_bound_key_changes_nothing_of_others_however_much_it_may(admin):
    two = Two(admin)
    before = admin.get(f"/v1/agents/{two.other}").ok(200)
    strong = admin.make_key("operator", agent=two.mine)
    budget, schedule = two.budget[two.other], two.schedule[two.other]

    replies = [strong.request(method, path, body) for method, path, body in [
        ("PUT", f"/v1/agents/{two.other}", {"max_concurrent_runs": 99}),
        ("PUT", f"/v1/agents/{fresh('agent')}", {}),
        ("POST", f"/v1/agents/{two.other}/pause", {}),
        ("POST", f"/v1/agents/{two.other}/resume", {}),
        ("DELETE", f"/v1/agents/{two.other}", None),
        ("PUT", f"/v1/budgets/{budget}", {"limit": "1.00", "window": "total", "scope": {"agent": two.other}}),
        ("PUT", f"/v1/budgets/{fresh('budget')}", {"limit": "1000.00", "scope": {"agent": two.other}}),
        ("POST", f"/v1/budgets/{budget}/unfreeze", {}),
        ("DELETE", f"/v1/budgets/{budget}", None),
        ("PUT", f"/v1/schedules/{schedule}", {"agent": two.other, "every": "2d"}),
        ("PUT", f"/v1/schedules/{schedule}", {"agent": two.mine, "every": "2d"}),
        ("DELETE", f"/v1/schedules/{schedule}", None),
    ]]

    check_refused(replies, (403, 404))
    after = admin.get(f"/v1/agents/{two.other}").ok(200)
    assert (after["max_concurrent_runs"], after["state"]) == (before["max_concurrent_runs"], before["state"])
    assert admin.get(f"/v1/budgets/{budget}").ok(200)["limit"] == "100.00"
    assert admin.get(f"/v1/schedules/{schedule}").ok(200)["every_s"] == 86400


def test_a_bound_key_cannot_make_a_key_that_is_less_bound(admin, two):
    strong = admin.make_key("admin", agent=two.mine)

    for body in ({"scopes": ["admin"]}, {"scopes": ["agent"], "agent": two.other}):
        reply = strong.post("/v1/keys", body)
        assert reply.status in (403, 404), reply


# ---- bound to a run, to a budget ----------------------------------------------------------------------------------

def test_a_key_bound_to_a_run_works_for_that_run_and_dies_with_it(admin):
    agent = admin.agent(max_concurrent_runs=5)
    run, sibling = admin.run(agent), admin.run(agent)
    key = admin.make_key("agent", run=run["id"])

    key.post(f"/v1/runs/{run['id']}/heartbeat", {"fence": run["fence"]}).ok(200)
    key.post("/v1/charges", {"agent": agent, "cost": "0.25"}).ok(201)
    hold = key.post("/v1/holds", {"agent": agent, "amount": "0.10"}).ok(201)
    key.post(f"/v1/holds/{hold['id']}/settle", {"cost": "0.05"}).ok(200)
    assert admin.get(f"/v1/runs/{run['id']}").ok(200)["spent"] == "0.30"

    for path, body in ((f"/v1/runs/{sibling['id']}/heartbeat", {"fence": sibling["fence"]}),
                       (f"/v1/runs/{sibling['id']}/finish", {"fence": sibling["fence"]}),
                       ("/v1/charges", {"agent": agent, "cost": "0.25", "run": sibling["id"]}),
                       ("/v1/holds", {"agent": agent, "amount": "0.25", "run": sibling["id"]})):
        key.post(path, body).refused(404, "not_found")
    key.get(f"/v1/runs/{sibling['id']}").refused(404, "not_found")
    assert [item["id"] for item in key.items("/v1/runs")] == [run["id"]]

    key.post(f"/v1/runs/{run['id']}/finish", {"fence": run["fence"]}).ok(200)
    key.get(f"/v1/runs/{run['id']}").refused(401, "unauthorized")
    key.post("/v1/charges", {"agent": agent, "cost": "0.25"}).refused(401, "unauthorized")


def test_a_key_bound_to_a_run_does_not_reach_other_agents(admin, two):
    run = admin.run(admin.agent())
    key = admin.make_key("agent", run=run["id"])
    session = admin.session(agent=two.other)
    admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": "x"}).ok(201)
    hold = admin.post("/v1/holds", {"agent": two.other, "amount": "0.01", "ttl_s": 600}).ok(201)["id"]
    made = [len(admin.items(path, agent=two.other)) for path in ("/v1/runs", "/v1/sessions", "/v1/holds", "/v1/charges")]

    replies = [key.request(method, path, body) for method, path, body in [
        ("POST", "/v1/charges", {"agent": two.other, "cost": "0.01"}),
        ("POST", "/v1/holds", {"agent": two.other, "amount": "0.01"}),
        ("POST", f"/v1/holds/{hold}/settle", {"cost": "0.01"}),
        ("POST", "/v1/runs", {"agent": two.other}),
        ("POST", "/v1/sessions", {"agent": two.other}),
        ("GET", f"/v1/agents/{two.other}", None),
        ("GET", f"/v1/holds/{hold}", None),
        ("GET", f"/v1/budgets/{two.budget[two.other]}", None),
        ("GET", f"/v1/schedules/{two.schedule[two.other]}", None),
        ("GET", f"/v1/sessions/{session}", None),
        ("GET", f"/v1/sessions/{session}/messages", None),
        ("GET", f"/v1/sessions/{session}/export", None),
        ("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": "x"}),
        ("POST", f"/v1/sessions/{session}/fork", {"at_seq": 0}),
        ("POST", f"/v1/sessions/{session}/close", {}),
        ("POST", f"/v1/schedules/{two.schedule[two.other]}/wake", {}),
    ]]

    check_refused(replies, (400, 403, 404))
    assert made == [len(admin.items(path, agent=two.other)) for path in ("/v1/runs", "/v1/sessions", "/v1/holds", "/v1/charges")]


@pytest.mark.parametrize("path", ["/v1/agents", "/v1/charges", "/v1/runs", "/v1/sessions", "/v1/holds", "/v1/places",
                                  "/v1/schedules", "/v1/budgets", "/v1/events", "/v1/spend?by=agent"])
def test_lists_show_a_key_bound_to_a_run_nothing_of_other_agents(admin, two, path):
    key = admin.make_key("agent", run=admin.run(admin.agent())["id"])

    reply = key.get(path)

    assert reply.status in (200, 403, 404), reply
    assert f'"{two.other}"'.encode() not in reply.body


def test_a_key_bound_to_a_budget_sees_that_budget_and_no_other(admin):
    agent = admin.agent()
    own, other = admin.budget("1.00", scope={"agent": agent}), admin.budget("1.00", scope={"provider": fresh("provider")})
    key = admin.make_key("agent", budget=own)

    assert key.get(f"/v1/budgets/{own}").ok(200)["name"] == own
    key.get(f"/v1/budgets/{other}").refused(404, "not_found")
    key.get(f"/v1/budgets/{other}/windows").refused(404, "not_found")
    assert [budget["name"] for budget in key.items("/v1/budgets", limit=1)] == [own]
    key.put(f"/v1/budgets/{own}", {"limit": "1000.00"}).refused(403, "forbidden")


def test_a_key_bound_to_a_budget_spends_only_what_that_budget_covers(admin):
    agent, outside = admin.agent(), admin.agent()
    own = admin.budget("0.50", scope={"agent": agent})
    key = admin.make_key("agent", budget=own)

    key.post("/v1/charges", {"agent": agent, "cost": "0.40"}).ok(201)
    key.post("/v1/charges", {"agent": agent, "cost": "0.40"}).refused(402, "budget_exceeded")
    for path, body in (("/v1/charges", {"cost": "0.40"}), ("/v1/holds", {"amount": "0.40"}), ("/v1/runs", {"hold": "0.40"})):
        reply = key.post(path, {"agent": outside, **body})
        assert reply.status in (402, 403, 404), reply


def test_a_budget_on_a_key_counts_what_comes_with_that_key(admin):
    agent, key, other = admin.agent(), admin.make_key("agent"), admin.make_key("agent")
    budget = admin.budget("1.00", scope={"api_key": key.key_id})

    key.post("/v1/charges", {"agent": agent, "cost": "0.75"}).ok(201)
    other.post("/v1/charges", {"agent": agent, "cost": "5.00"}).ok(201)

    assert admin.get(f"/v1/budgets/{budget}").ok(200)["settled"] == "0.75"
    key.post("/v1/charges", {"agent": agent, "cost": "0.50"}).refused(402, "budget_exceeded")
    other.post("/v1/charges", {"agent": agent, "cost": "0.50"}).ok(201)
