"""What the gateway is seen doing: its numbers at /metrics, and spans and histograms at an OpenTelemetry collector."""

import collections
import contextlib
import http.server
import json
import re
import threading
import time

import pytest

from interlock_server import Server, eventually, fresh, together
from prometheus_text import samples

pytestmark = pytest.mark.seconds_max(120)

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("server"), "--simulate-models") as server:
        yield server
        server.verify()


@pytest.fixture
def caller(server):
    """A client with the key of an agent, which has a budget."""
    agent = server.admin.agent()
    server.admin.budget("5.00", scope={"agent": agent})
    client = server.admin.make_key("agent", agent=agent)
    client.agent_name = agent
    return client


class Collector:
    """Takes OTLP over HTTP as JSON, and keeps it."""

    def __init__(self):
        self.status, self.documents, self.headers = 200, [], []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if outer.status == 200:
                    assert self.headers["content-type"] == "application/json"
                    outer.documents.append((self.path, json.loads(body)))
                    outer.headers.append(dict(self.headers))
                self.send_response(outer.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def spans(self):
        return [span for path, document in list(self.documents) if path.endswith("/v1/traces")
                for resource in document["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]

    def points(self, name):
        return [point for path, document in list(self.documents) if path.endswith("/v1/metrics")
                for resource in document["resourceMetrics"] for scope in resource["scopeMetrics"]
                for metric in scope["metrics"] if metric["name"] == name
                for point in metric["histogram"]["dataPoints"]]


@contextlib.contextmanager
def exporting(admin, url, **more):
    """Inside, what happens is exported to this address."""
    settings = {name: value for name, value in admin.get("/v1/gateway").ok(200).items()
                if name not in ("version", "changed_at", "name")}
    admin.put("/v1/gateway", {**settings, "otlp": {"url": url, "interval_s": 1, **more}}).ok(200)
    try:
        yield
    finally:
        admin.put("/v1/gateway", settings).ok(200)


def chat(client, text="Hello.", model="sim/small", headers=None, **more):
    return client.post("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": text}], **more},
                       headers=headers)


def message(client, text="Hello.", model="sim/large", **more):
    return client.post("/v1/messages", {"model": model, "max_tokens": 100, **more,
                                        "messages": [{"role": "user", "content": text}]})


def gemini(client, text="Hello.", model="sim/small"):
    return client.post(f"/v1beta/models/{model}:generateContent", {"contents": [{"role": "user", "parts": [{"text": text}]}]})


def calls_of(client, admin, count):
    """The rows of the client's calls, once all of them are there."""
    return eventually(lambda: (rows := admin.items("/v1/calls", agent=client.agent_name)) and len(rows) == count and rows,
                      why=lambda: f": {len(admin.items('/v1/calls', agent=client.agent_name))} of {count}")


def metrics(admin):
    """By name: (labels, value) of each sample."""
    _, found = samples(admin.get("/metrics").body.decode())
    by_name = collections.defaultdict(list)
    for (name, labels), value in found.items():
        by_name[name].append((dict(re.findall(r'(\w+)="((?:\\.|[^"\\])*)"', labels or "")), value))
    return by_name


def total(found, name, **labels):
    return sum(value for its, value in found[name] if labels.items() <= its.items())


def grown(before, after, name, **labels):
    return total(after, name, **labels) - total(before, name, **labels)


def nanos(row):
    whole, _, part = row["cost"].partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0"))


def attributes(holder):
    """Each by its name, with the value that its type says."""
    found = {}
    for each in holder["attributes"]:
        (kind, value), = each["value"].items()
        assert each["key"] not in found, each
        if kind == "intValue":
            assert isinstance(value, str)
            value = int(value)
        found[each["key"]] = [one["stringValue"] for one in value["values"]] if kind == "arrayValue" else value
    return found


# ---- Prometheus ---------------------------------------------------------------------------------------------------

def test_metrics_have_the_numbers_of_the_calls(server, caller):
    admin, before = server.admin, metrics(server.admin)

    for _ in range(3):
        assert chat(caller).status == 200
    assert chat(caller, stream=True).status == 200
    assert message(caller, "Hello. [[sim input=2000 cached=1500 output=30]]").status == 200
    assert chat(caller, model="nobody/knows").status == 404
    chat(caller, headers={"x-interlock-cache": "60"})
    assert chat(caller, headers={"x-interlock-cache": "60"}).headers["x-interlock-cache"] == "hit"
    rows = calls_of(caller, admin, 8)

    after = metrics(admin)
    name = "interlock_gateway_calls_total"
    assert grown(before, after, name, operation="openai.chat", provider="sim", status_class="2xx", refusal="") == 5
    assert grown(before, after, name, operation="openai.chat", provider="", status_class="2xx") == 1  # From memory.
    assert grown(before, after, name, operation="anthropic.messages", provider="sim", status_class="2xx") == 1
    assert grown(before, after, name, status_class="4xx", refusal="no_upstream") == 1
    for model in ("sim/small", "sim/large"):
        its = [row for row in rows if row["model"] == model]
        for kind in ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "reasoning"):
            assert (grown(before, after, "interlock_gateway_tokens_total", provider="sim", model=model, kind=kind)
                    == sum(row["usage"][kind + "_tokens"] for row in its)), (model, kind)
        cost = grown(before, after, "interlock_gateway_cost_nanodollars_total", provider="sim", model=model)
        assert cost == sum(map(nanos, its)) > 0
    assert grown(before, after, "interlock_gateway_attempts_total") == sum(row["attempts"] for row in rows) == 6
    assert grown(before, after, "interlock_gateway_cache_hits_total") == 1
    assert grown(before, after, "interlock_gateway_estimated_total") == 0
    for histogram in ("interlock_gateway_first_byte_seconds", "interlock_gateway_call_seconds"):
        assert grown(before, after, histogram + "_count", provider="sim") == 6
    assert grown(before, after, "interlock_gateway_upstream_requests_total", upstream="sim-openai") == 5
    assert total(after, "interlock_gateway_upstream_cooling") == 0
    eventually(lambda: total(metrics(admin), "interlock_gateway_calls_under_way") == 0)


def test_calls_with_no_key_are_counted(server):
    before = metrics(server.admin)

    assert chat(server.admin.with_key("nobody")).status == 401

    after = metrics(server.admin)
    assert grown(before, after, "interlock_gateway_calls_total", status_class="4xx", refusal="unauthorized") == 1


def test_a_call_under_way_is_seen(server, caller):
    slow = threading.Thread(target=chat, args=(caller, "Hello. [[sim delay_ms=1500]]"))
    slow.start()

    eventually(lambda: total(metrics(server.admin), "interlock_gateway_calls_under_way") == 1)
    slow.join()
    eventually(lambda: total(metrics(server.admin), "interlock_gateway_calls_under_way") == 0)


def test_names_of_models_are_bounded_however_many_a_client_invents(binary, tmp_path):
    with Server(binary, tmp_path, "--simulate-models") as server:
        agent = server.admin.agent()
        server.admin.put("/v1/gateway", {"unknown_model": "unpriced"}).ok(200)
        caller = server.admin.make_key("agent", agent=agent)

        def invent(thread):
            for i in range(60):
                assert chat(caller, model=f"sim/invented-{thread}-{i}").status == 200

        together(5, invent)
        found = metrics(server.admin)

        models = {labels["model"] for labels, _ in found["interlock_gateway_tokens_total"]}
        assert len(models) == 201 and "other" in models
        assert total(found, "interlock_gateway_calls_total", status_class="2xx") == 300
        assert total(found, "interlock_gateway_unpriced_total") == 300
        one = total(found, "interlock_gateway_tokens_total", kind="output") / 300
        assert total(found, "interlock_gateway_tokens_total", kind="output", model="other") == one * 100


# ---- OTLP ---------------------------------------------------------------------------------------------------------

def test_spans_and_histograms_say_what_the_calls_say(server, caller):
    admin = server.admin
    with Collector() as collector, exporting(admin, collector.url + "/otel", headers={"x-team": "blue"}):
        session = admin.session(agent=caller.agent_name)
        answered = chat(caller, headers={"traceparent": TRACEPARENT, "x-interlock-session": session,
                                         "x-interlock-tags": "task=42"})
        assert chat(caller, stream=True).status == 200
        assert message(caller, "Hello. [[sim input=2000 cached=1500 output=30]]").status == 200
        assert gemini(caller).status == 200
        assert chat(caller, model="nobody/knows").status == 404
        assert chat(caller, "Hello. [[sim output=5 no_usage=1]]").status == 200
        rows = {row["id"]: row for row in calls_of(caller, admin, 6)}

        def mine():
            spans = {attributes(span)["interlock.call.id"]: span for span in collector.spans()}
            return len(spans) >= len(rows) and {id_: spans[id_] for id_ in rows}

        spans = eventually(mine)
        eventually(lambda: sum(int(point["count"]) for point in collector.points("gen_ai.client.operation.duration"))
                   >= len(rows))
        assert {path for path, _ in collector.documents} == {"/otel/v1/traces", "/otel/v1/metrics"}
        assert all(headers["x-team"] == "blue" for headers in collector.headers)

    for id_, span in spans.items():
        row, its = rows[id_], attributes(span)
        operation = {"gemini.generate": "generate_content"}.get(row["operation"], "chat")
        assert span["name"] == f"{operation} {row['model']}" and span["kind"] == 3
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == row["duration_us"] * 1000
        assert its["gen_ai.operation.name"] == operation and its["gen_ai.request.model"] == row["model"]
        assert its["interlock.agent"] == caller.agent_name and its["interlock.operation"] == row["operation"]
        assert its["interlock.cost_nanos"] == nanos(row) and its["interlock.cost_usd"] == row["cost"]
        assert its["interlock.estimated"] is row["estimated"] and its["interlock.attempts"] == row["attempts"]
        assert its["http.response.status_code"] == row["status"]
        usage = row["usage"]
        if any(usage.values()):
            assert its["gen_ai.usage.input_tokens"] == sum(
                usage[kind] for kind in ("input_tokens", "cache_read_tokens", "cache_write_5m_tokens",
                                         "cache_write_1h_tokens"))
            assert its["gen_ai.usage.output_tokens"] == usage["output_tokens"] + usage["reasoning_tokens"]
        if row["refusal"]:
            assert its["error.type"] == row["refusal"] and span["status"]["code"] == 2
        else:
            assert its["gen_ai.provider.name"] == "sim"

    first = spans[answered.headers["x-interlock-call"]]
    assert first["traceId"] == TRACEPARENT.split("-")[1] and first["parentSpanId"] == TRACEPARENT.split("-")[2]
    its = attributes(first)
    assert its["gen_ai.conversation.id"] == session and its["interlock.tag.task"] == "42"
    assert its["gen_ai.response.finish_reasons"] == ["stop"] and "error.type" not in its
    assert sum("parentSpanId" in span for span in spans.values()) == 1
    assert sum(its["interlock.estimated"] for its in map(attributes, spans.values())) == 1

    durations, tokens = collections.Counter(), collections.Counter()
    for point in collector.points("gen_ai.client.operation.duration"):
        durations[attributes(point).get("error.type", "")] += int(point["count"])
        assert sum(map(int, point["bucketCounts"])) == int(point["count"])
        assert len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
        assert int(point["startTimeUnixNano"]) < int(point["timeUnixNano"])
    for point in collector.points("gen_ai.client.token.usage"):
        tokens[attributes(point)["gen_ai.token.type"]] += point["sum"]
    assert durations == {"": 5, "no_upstream": 1}
    for kind in ("input", "output"):
        assert tokens[kind] == sum(attributes(span).get(f"gen_ai.usage.{kind}_tokens", 0) for span in spans.values())


def test_a_collector_that_comes_back_gets_what_it_missed(server, caller):
    admin = server.admin
    with Collector() as collector, exporting(admin, collector.url):
        collector.status = 503
        before = metrics(admin)
        assert chat(caller).status == 200
        eventually(lambda: grown(before, metrics(admin), "interlock_gateway_otlp_failures_total") > 0)
        assert total(metrics(admin), "interlock_gateway_otlp_spans_queued") == 1

        collector.status = 200

        span, = eventually(collector.spans)
        call, = calls_of(caller, admin, 1)
        assert attributes(span)["interlock.call.id"] == call["id"]
        eventually(lambda: grown(before, metrics(admin), "interlock_gateway_otlp_spans_sent_total") == 1)
        after = metrics(admin)
        assert grown(before, after, "interlock_gateway_otlp_spans_dropped_total") == 0
        assert total(after, "interlock_gateway_otlp_spans_queued") == 0


def test_a_dead_collector_stops_nothing_and_what_is_dropped_is_counted(binary, tmp_path):
    with Server(binary, tmp_path, "--simulate-models") as server:
        admin = server.admin
        caller = admin.make_key("agent", agent=admin.agent())
        with exporting(admin, "http://127.0.0.1:1"):
            before = metrics(admin)
            began = time.monotonic()

            def ask(thread):
                for _ in range(600):  # Free of cost, and a span like any other.
                    assert caller.get("/v1/models").status == 200

            together(15, ask)
            took = time.monotonic() - began
            assert chat(caller).status == 200
            after = metrics(admin)

            # So many fit its queue; with a collector it is the same, only that nothing is dropped.
            assert grown(before, after, "interlock_gateway_otlp_spans_dropped_total") == 9001 - 8192, took
            assert total(after, "interlock_gateway_otlp_spans_queued") == 8192
            assert grown(before, after, "interlock_gateway_otlp_failures_total") > 0
            assert grown(before, after, "interlock_gateway_calls_total", status_class="2xx") == 9001
        assert server.log().count("otlp_not_taken") == 1
        began = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - began < 8


def test_what_was_not_sent_yet_is_sent_when_the_server_ends(binary, tmp_path):
    with Collector() as collector, Server(binary, tmp_path, "--simulate-models") as server:
        server.admin.put("/v1/gateway", {"otlp": {"url": collector.url, "interval_s": 3600}}).ok(200)
        caller = server.admin.make_key("agent", agent=server.admin.agent())
        assert chat(caller).status == 200
        assert not collector.spans()

        assert server.terminate() == 0

        assert len(collector.spans()) == 1 and collector.points("gen_ai.client.token.usage")


# ---- how upstreams and models do ----------------------------------------------------------------------------------

def upstream(client, name):
    found, = [item for item in client.get("/v1/gateway/upstreams").ok(200)["items"] if item["name"] == name]
    return found


def test_an_upstream_shows_its_last_hour(server, caller):
    admin, before = server.admin, upstream(server.admin, "sim-openai")
    assert (before["simulated"], before["dialect"], before["provider"]) == (True, "openai", "sim")
    assert before["url"].startswith("http://127.0.0.1:") and before["state"] in ("idle", "healthy")

    for _ in range(3):
        assert chat(caller).status == 200
    assert chat(caller, stream=True).status == 200

    after = eventually(lambda: (now := upstream(admin, "sim-openai"))["calls"] == before["calls"] + 4 and now)
    assert (after["state"], after["failures_in_a_row"], after["cooling_until"]) == ("healthy", 0, None)
    assert after["errors"] == before["errors"] and after["calls_per_minute"] > 0
    assert 0 <= after["first_byte_ms_p50"] <= after["first_byte_ms_p95"] <= after["duration_ms_p95"] < 10_000
    assert sum(minute["calls"] for minute in after["minutes"]) == after["calls"]
    assert after["minutes"] == sorted(after["minutes"], key=lambda minute: minute["at"])
    assert all(minute["at"].endswith(":00Z") for minute in after["minutes"])
    assert admin.get("/v1/gateway/upstreams").ok(200)["since"]


def test_an_upstream_that_fails_cools_down_and_is_an_incident_until_it_does_well(server, caller, interlock):
    admin, model, name = server.admin, fresh("model"), fresh("upstream")
    with Collector() as provider:  # It takes anything; what it answers is its status.
        provider.status = 500
        admin.put("/v1/prices", {"provider": "openai", "model": model, "input_per_mtok": "1", "output_per_mtok": "1"}).ok(200)
        admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "url": provider.url, "models": [model], "retries": 0,
                                            "provider": "openai", "cooldown_after": 2, "cooldown_s": 600}).ok(200)
        try:
            idle = upstream(admin, name)
            assert (idle["state"], idle["calls"], idle["last_error"], idle["minutes"]) == ("idle", 0, None, [])
            assert idle["first_byte_ms_p50"] is None and idle["duration_ms_p95"] is None and idle["error_percent"] == 0

            assert chat(caller, model=model).status == 500
            failing = upstream(admin, name)
            assert (failing["state"], failing["failures_in_a_row"], failing["error_percent"]) == ("failing", 1, 100)
            assert failing["last_error"] == "answered 500" and failing["first_byte_ms_p50"] is None

            assert chat(caller, model=model).status == 500
            cooling = upstream(admin, name)
            assert (cooling["state"], cooling["errors"], cooling["calls"]) == ("cooling", 2, 2)
            assert cooling["cooling_until"] > cooling["failing_since"]
            incident, = [item for item in admin.get("/v1/incidents").ok(200)["items"] if item["subject"] == name]
            assert (incident["kind"], incident["level"], incident["count"]) == ("upstream_cooling", "warn", 2)
            assert incident["since"] == cooling["failing_since"] and "answered 500" in incident["detail"]
            listed = interlock("upstreams", "ls", "--data-dir", server.data).stdout
            assert "cooling" in next(line for line in listed.splitlines() if name in line) and "sim-gemini" in listed

            admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "url": provider.url, "models": [model],
                                                "enabled": False}).ok(200)
            assert name not in [item["subject"] for item in admin.get("/v1/incidents").ok(200)["items"]]
        finally:
            admin.delete(f"/v1/upstreams/{name}").ok(204)


def test_upstreams_and_models_are_an_orgs_own_and_not_for_bound_keys(server, caller):
    admin = server.admin
    assert chat(caller).status == 200
    org = admin.with_key(admin.post("/v1/orgs", {"name": fresh("org")}).ok(201)["key"])

    assert [item["calls"] for item in org.get("/v1/gateway/upstreams").ok(200)["items"]] == [0, 0, 0]
    assert org.get("/v1/gateway/models").ok(200) == {"items": []}
    for path in ("/v1/gateway/upstreams", "/v1/gateway/models"):
        caller.get(path).refused(403, "forbidden")


def test_models_that_were_used_have_their_cost_and_their_price(server, caller, interlock):
    admin = server.admin
    for text in ("one", "two"):
        assert message(caller, text).status == 200
    rows = calls_of(caller, admin, 2)

    found = admin.get("/v1/gateway/models").ok(200)["items"]

    model, = [item for item in found if item["model"] == "sim/large"]
    assert model["provider"] == "sim" and model["calls"] >= 2 and nanos(model) >= sum(nanos(row) for row in rows)
    assert model["tokens"] >= sum(sum(row["usage"].values()) for row in rows) and len(model["last_day"]) == 10
    assert (model["priced"], model["price_source"]) == (True, "catalog") and len(model["price_from"]) == 10
    assert model["price"] == admin.get("/v1/prices/show", provider="sim", model="sim/large").ok(200)
    assert model["price"]["version"] == model["price_version"]
    assert [nanos(item) for item in found] == sorted((nanos(item) for item in found), reverse=True)
    assert "sim/large" in interlock("gateway", "models", "--data-dir", server.data).stdout


def test_a_price_that_was_set_says_since_when(server):
    admin, name, agent = server.admin, fresh("model"), server.admin.agent()
    admin.post("/v1/charges", {"agent": agent, "cost": "0.5", "provider": "p", "model": name}).ok(201)

    def model():
        found, = [item for item in admin.get("/v1/gateway/models").ok(200)["items"] if item["model"] == name]
        return found

    assert model() == {"provider": "p", "model": name, "calls": 1, "cost": "0.50", "tokens": 0, "priced": False,
                       "last_day": model()["last_day"], "price": None, "price_source": "none", "price_version": None,
                       "price_from": None}
    admin.put("/v1/prices", {"provider": "p", "model": f"{name}*", "input_per_mtok": "1", "output_per_mtok": "2"}).ok(200)
    assert (model()["priced"], model()["price_source"], model()["price_version"]) == (True, "set", "set-1")
    assert model()["price_from"].endswith("Z") and model()["price"]["model"] == f"{name}*"


def test_a_model_without_a_price_is_an_incident_until_it_has_one(server, caller):
    admin, model, name = server.admin, fresh("model"), fresh("upstream")
    url = upstream(admin, "sim-openai")["url"]
    admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "url": url, "models": [model], "provider": "nobody"}).ok(200)
    try:
        assert chat(caller, model=model).status == 404
        calls_of(caller, admin, 1)

        incident, = [item for item in admin.get("/v1/incidents").ok(200)["items"] if item["kind"] == "models_unpriced"]
        assert (incident["subject"], incident["level"], incident["count"]) == (f"nobody/{model}", "warn", 1)
        assert incident["command"] == f"interlock prices set nobody/{model} --input DOLLARS --output DOLLARS"

        admin.put("/v1/prices", {"provider": "nobody", "model": model, "input_per_mtok": "1", "output_per_mtok": "1"}).ok(200)
        assert "models_unpriced" not in [item["kind"] for item in admin.get("/v1/incidents").ok(200)["items"]]
    finally:
        admin.delete(f"/v1/upstreams/{name}").ok(204)
