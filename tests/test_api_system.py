"""The server itself over HTTP: feed, status, metrics, description, backup, limits, strictness, start and end."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time
from decimal import Decimal

import pytest

from interlock_server import LOST, ON_POSTGRES, Client, Server, fresh, together
from prometheus_text import samples

pytestmark = pytest.mark.seconds_max(40)


def charge(client, agent, cost="0.00075", **body):
    return client.post("/v1/charges", {"agent": agent, "cost": cost, **body})


def routes(document):
    return [(method.upper(), path, operation) for path, methods in document["paths"].items()
            for method, operation in methods.items()]


@pytest.fixture(scope="module")
def document(server):
    return server.admin.get("/openapi.json").ok(200)


# ---- the feed -----------------------------------------------------------------------------------------------------

def test_the_feed_has_every_event_in_order_without_a_gap(admin):
    agent = admin.agent()
    done = charge(admin, agent, "0.25", provider="p", model="m").ok(201)

    events, after = [], 0
    while True:
        page = admin.get("/v1/events", after=after, limit=7).ok(200)
        assert page["next"] == (page["items"][-1]["seq"] if page["items"] else after)
        if not page["items"]:
            break
        events += page["items"]
        after = page["next"]

    assert [event["seq"] for event in events] == list(range(1, page["head"] + 1))
    assert events[0]["type"] == "org_created"
    last, = [event for event in events if event["type"] == "charged" and event["data"]["agent"] == agent]
    assert last["at"] and last["seq"] == done["seq"]
    assert (last["data"]["cost"], last["data"]["provider"], last["data"]["model"]) == ("0.25", "p", "m")


def test_a_filtered_feed_has_only_what_was_asked_for_and_still_moves_on(admin):
    agent = admin.agent()
    head = admin.get("/v1/events").ok(200)["head"]
    charge(admin, agent).ok(201)
    session = admin.session(agent=agent)
    charge(admin, agent).ok(201)

    page = admin.get("/v1/events", after=head, type="session_created,appended").ok(200)

    assert [(event["type"], event["data"]["session"]) for event in page["items"]] == [("session_created", session)]
    assert page["next"] == page["head"] > head
    admin.get("/v1/events", type="nonsense").refused(400, "invalid_request")
    admin.get("/v1/events", after="x").refused(400, "invalid_request")
    assert admin.get("/v1/events", after=page["head"]).ok(200)["items"] == []
    admin.get("/v1/events", after=10**9).refused(409, "past_the_head")


def test_a_follower_that_is_cut_goes_on_without_gap_or_duplicate(admin):
    agent, total = admin.agent(), 400
    start = admin.get("/v1/events").ok(200)["head"]
    writers = [threading.Thread(target=lambda: [charge(admin, agent).ok(201) for _ in range(total // 4)], daemon=True)
               for _ in range(4)]
    for writer in writers:
        writer.start()

    seen, last = [], start
    while len(seen) < total:
        with admin.events("/v1/events", last_event_id=last) as stream:
            for number, kind, data in stream.take(min(61, total - len(seen))):
                assert data["seq"] == number and data["type"] == kind
                seen.append(data)
                last = number
    for writer in writers:
        writer.join(20)

    assert [event["seq"] for event in seen] == list(range(start + 1, start + total + 1))
    assert seen == admin.get("/v1/events", after=start, limit=1000).ok(200)["items"]


def test_a_stream_begins_now_or_where_it_is_told(admin):
    agent = admin.agent()
    charge(admin, agent).ok(201)

    with admin.events("/v1/events", type="charged") as now, admin.events("/v1/events", after=0) as begin:
        done = charge(admin, agent, "0.5").ok(201)
        assert now.next()[0] == done["seq"]
        assert [number for number, _, _ in begin.take(5)] == [1, 2, 3, 4, 5]


def test_a_stream_does_not_outlive_its_key(admin):
    agent, reader = admin.agent(), admin.make_key("read")

    with reader.events("/v1/events", type="charged") as stream:
        charge(admin, agent).ok(201)
        assert stream.next()
        admin.delete(f"/v1/keys/{reader.key_id}").ok(204)
        charge(admin, agent).ok(201)
        stream.response.fp.raw._sock.settimeout(2)
        with contextlib.suppress(TimeoutError):
            assert stream.next() is None, "a revoked key still hears what happens"


def test_a_follower_that_does_not_read_disturbs_nobody(admin):
    agent, batch = admin.agent(), 5000
    start = admin.get("/v1/events").ok(200)["head"]

    with admin.events("/v1/events", after=start) as asleep, admin.events("/v1/events", after=start) as awake:
        for _ in range(4):
            assert admin.post("/v1/charges", [{"agent": agent, "cost": "0.00075"}] * batch).ok(200)["charged"] == batch
        assert [number for number, _, _ in awake.take(4 * batch)] == list(range(start + 1, start + 4 * batch + 1))
        # It finds everything when it wakes up, or an end that it can go on from.
        late = []
        while len(late) < 4 * batch and (event := asleep.next()):
            late.append(event[0])
        assert late == list(range(start + 1, start + len(late) + 1)) and late


def test_asking_for_the_head_of_a_stream_does_not_start_one(admin):
    for path in ("/v1/events", f"/v1/sessions/{admin.session()}/tail"):
        reply = admin.request("HEAD", path, headers={"Accept": "text/event-stream"})
        assert reply.status == 200 and reply.body == b""


# ---- what it says about itself ------------------------------------------------------------------------------------

def test_health_and_readiness_need_no_key(admin):
    nobody = admin.with_key(None)

    assert nobody.get("/healthz").ok(200) and nobody.get("/readyz").ok(200)


def test_the_status_counts_what_is_there(server, admin):
    agent = admin.agent()
    before = admin.get("/v1/status").ok(200)
    run, _ = admin.run(agent), admin.run(agent, on_conflict="queue")
    admin.budget("1.00", scope={"agent": agent})
    admin.post("/v1/holds", {"agent": agent, "amount": "0.01"}).ok(201)

    after = admin.get("/v1/status").ok(200)

    for member in ("live_runs", "queued_runs", "budgets", "open_holds"):
        assert after[member] == before[member] + 1, member
    assert after["head_seq"] > before["head_seq"] and after["store"] == ("postgres" if ON_POSTGRES else "sqlite")
    assert after["data_dir"] == str(server.data) and after["address"] == f"http://127.0.0.1:{server.port}"
    assert after["version"] and after["started_at"] and after["uptime_s"] >= 0 and after["store_bytes"] > 0
    assert after["org"]
    assert {"batches", "commands", "batch_max", "failed_commits", "reloads", "queue_depth"} <= set(after["engine"])
    admin.finish(run).ok(200)


def test_the_status_says_what_is_held_in_all(admin):
    def held():
        return Decimal(admin.get("/v1/status").ok(200)["held"])

    before, agent = held(), admin.agent()
    alone = admin.post("/v1/holds", {"agent": agent, "amount": "0.000000001"}).ok(201)
    run = admin.run(agent, hold="1.00")
    assert held() - before == Decimal("1.000000001")

    # The first is drawn from what the run holds; the second needs more than is left there.
    admin.post("/v1/holds", {"agent": agent, "run": run["id"], "amount": "0.25"}).ok(201)
    assert held() - before == Decimal("1.000000001")
    admin.post("/v1/holds", {"agent": agent, "run": run["id"], "amount": "2.00"}).ok(201)
    assert held() - before == Decimal("2.250000001")

    admin.finish(run).ok(200)
    admin.post(f"/v1/holds/{alone['id']}/release", {}).ok(200)
    assert held() == before


def test_metrics_are_what_prometheus_reads(admin):
    agent = admin.agent()
    admin.budget("1.00", scope={"agent": agent})
    counter = ("interlock_http_requests_total", 'method="POST",route="/v1/charges",status="201"')
    charge(admin, agent).ok(201)
    before = samples(admin.get("/metrics").body.decode())[1]

    for _ in range(3):
        charge(admin, agent).ok(201)
    charge(admin, agent, "5.00").refused(402, "budget_exceeded")
    reply = admin.get("/metrics")
    types, after = samples(reply.body.decode())

    assert reply.headers["content-type"].startswith("text/plain")
    assert after[counter] - before[counter] == 3
    assert after["interlock_refusals_total", 'code="budget_exceeded"'] >= 1
    for name, kind in types.items():
        if kind == "histogram":
            assert any(sample == f"{name}_count" for sample, _ in after), name
    histogram = "interlock_http_request_seconds"
    labels = 'method="POST",route="/v1/charges"'
    assert after[f"{histogram}_bucket", f'{labels},le="+Inf"'] == after[f"{histogram}_count", labels]


def test_the_description_is_openapi_and_names_no_operation_twice(document):
    assert document["openapi"].startswith("3.1") and document["info"]["version"]
    ids = [operation["operationId"] for _, _, operation in routes(document)]
    assert len(ids) == len(set(ids))
    for method, path, operation in routes(document):
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)) and operation["summary"]
        assert "default" in operation["responses"] and len(operation["responses"]) == 2


def test_every_documented_example_is_accepted(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        admin = server.admin
        document, tried = admin.get("/openapi.json").ok(200), 0
        admin.put("/v1/agents/writer", {"max_concurrent_runs": 100}).ok()
        for method, path, operation in routes(document):
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            if "example" not in content:
                continue
            example, wanted = content["example"], next(status for status in operation["responses"] if status != "default")
            if path.startswith("/v1/runs/{id}/"):
                run = admin.run("writer")
                if path.endswith("/resume"):
                    for verb in ("start", "pause"):
                        admin.post(f"/v1/runs/{run['id']}/{verb}", {"fence": run["fence"]}).ok(200)
                if path.endswith("/pause"):
                    admin.post(f"/v1/runs/{run['id']}/start", {"fence": run["fence"]}).ok(200)
                example = {**example, **({"fence": run["fence"]} if "fence" in example else {})}
                path = path.replace("{id}", run["id"])
            elif path.startswith("/v1/sessions/{id}/"):
                session = admin.session()
                if "at_seq" in example:
                    admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": "x"}).ok(201)
                path = path.replace("{id}", session)
            elif path.startswith("/v1/holds/{id}/"):
                hold = admin.post("/v1/holds", {"agent": "writer", "amount": "0.25"}).ok(201)["id"]
                path = path.replace("{id}", hold)
            elif path.startswith("/v1/charges/{id}/"):
                event = admin.post("/v1/charges", {"agent": "writer", "cost": "5.00"}).ok(201)["seq"]
                path = path.replace("{id}", str(event))
            elif path.startswith("/v1/agents/"):
                path = path.replace("{name}", admin.agent())
            elif path.startswith("/v1/budgets/{name}/"):
                admin.put("/v1/budgets/example", {"limit": "10.00"}).ok()
                path = path.replace("{name}", "example")
            reply = admin.request(method, path.replace("{name}", fresh("name")).replace("{user}", "65534"), example)
            assert reply.status in (int(wanted), 200, 201), reply
            tried += 1
        assert tried >= 15
        server.verify()


def test_the_server_checks_itself(admin):
    report = admin.get("/v1/verify").ok(200)

    assert report["ok"] is True and report["violations"] == 0 and report["milliseconds"] >= 0
    assert all(promise["violations"] == 0 and promise["title"] for promise in report["promises"])


def test_every_answer_carries_the_number_of_its_request(admin):
    good, bad = admin.get("/v1/status"), admin.get("/v1/agents/nobody")

    assert good.headers["x-request-id"].startswith("req_")
    assert bad.headers["x-request-id"] == bad.problem()["request_id"] != good.headers["x-request-id"]


# ---- every mutation has a key -------------------------------------------------------------------------------------

def mutations(admin):
    """One request for each mutation that a client may have to repeat."""
    agent = admin.agent(max_concurrent_runs=100)
    other = admin.agent()
    budget, gone = admin.budget("9.00", scope={"agent": agent}), admin.budget("9.00", scope={"agent": agent})
    schedule, left = fresh("schedule"), fresh("schedule")
    for name in (schedule, left):
        admin.put(f"/v1/schedules/{name}", {"agent": agent, "every": "1d"}).ok()
    session = admin.session()
    admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": "x"}).ok(201)
    started, running = admin.run(agent), admin.run(agent)
    admin.post(f"/v1/runs/{running['id']}/start", {"fence": running["fence"]}).ok(200)
    of = {"fence": started["fence"]}
    holds = [admin.post("/v1/holds", {"agent": agent, "amount": "0.1"}).ok(201)["id"] for _ in range(3)]
    key = admin.make_key("read").key_id
    return [
        ("PUT", f"/v1/agents/{fresh('agent')}", {"max_concurrent_runs": 3}),
        ("POST", f"/v1/agents/{agent}/resume", {}),
        ("POST", f"/v1/agents/{other}/pause", {"reason": "r"}),
        ("DELETE", f"/v1/agents/{admin.agent()}", None),
        ("PUT", f"/v1/budgets/{fresh('budget')}", {"limit": "5.00", "scope": {"agent": agent}}),
        ("POST", f"/v1/budgets/{budget}/unfreeze", {}),
        ("DELETE", f"/v1/budgets/{gone}", None),
        ("POST", "/v1/charges", {"agent": agent, "cost": "0.1"}),
        ("POST", "/v1/holds", {"agent": agent, "amount": "0.1"}),
        ("POST", f"/v1/holds/{holds[0]}/settle", {"cost": "0.1"}),
        ("POST", f"/v1/holds/{holds[1]}/release", {}),
        ("POST", f"/v1/holds/{holds[2]}/extend", {"ttl_s": 9}),
        ("POST", "/v1/sessions", {"title": "t"}),
        ("POST", f"/v1/sessions/{session}/messages", {"role": "user", "content": "y"}),
        ("POST", f"/v1/sessions/{session}/fork", {"at_seq": 0}),
        ("POST", f"/v1/sessions/{session}/close", {}),
        ("POST", "/v1/runs", {"agent": agent}),
        ("POST", f"/v1/runs/{started['id']}/start", of),
        ("POST", f"/v1/runs/{started['id']}/heartbeat", of),
        ("POST", f"/v1/runs/{started['id']}/pause", of),
        ("POST", f"/v1/runs/{started['id']}/resume", of),
        ("POST", f"/v1/runs/{started['id']}/finish", of),
        ("POST", f"/v1/runs/{running['id']}/cancel", {"fence": running["fence"]}),
        ("PUT", f"/v1/schedules/{fresh('schedule')}", {"agent": agent, "every": "1d"}),
        ("POST", f"/v1/schedules/{schedule}/wake", {}),
        ("DELETE", f"/v1/schedules/{left}", None),
        ("PUT", f"/v1/caps/node/{fresh('node')}", {"max_live": 5}),
        ("DELETE", f"/v1/caps/node/{fresh('node')}", None),
        ("POST", "/v1/keys", {"scopes": ["read"]}),
        ("DELETE", f"/v1/keys/{key}", None),
    ]


def test_every_mutation_can_be_repeated_with_its_key_in_the_header(admin):
    wrong = []
    for method, path, body in mutations(admin):
        key = fresh("key")

        first = admin.request(method, path, body, idempotency=key)
        again = admin.request(method, path, body, idempotency=key)

        good = first.status in (200, 201, 204) and again.status == first.status
        good = good and again.headers.get("idempotent-replayed") == "true" and "idempotent-replayed" not in first.headers
        if good and again.body:
            told, first_told = again.json(), first.json()
            good = told.get("repeated") is True and told.get("id") == first_told.get("id")
        if not good:
            wrong.append(f"{first}\n  again {again}")
    assert not wrong, "\n".join(wrong)


def test_every_mutation_takes_its_key_in_the_body_too(admin):
    wrong = []
    for method, path, body in mutations(admin):
        if body is None:
            continue
        key = fresh("key")

        first = admin.request(method, path, {**body, "key": key})
        again = admin.request(method, path, body, idempotency=key)

        if first.status not in (200, 201) or again.headers.get("idempotent-replayed") != "true":
            wrong.append(f"{first}\n  again {again}")
    assert not wrong, "\n".join(wrong)


# ---- what is refused before anything happens ----------------------------------------------------------------------

def test_unknown_query_parameters_are_refused_on_every_route(admin, document):
    for method, path, operation in routes(document):
        path = path.replace("{name}", "x").replace("{id}", "x").replace("{user}", "65534")
        problem = admin.request(method, f"{path}?nonsense=1").refused(400, "invalid_request")
        assert "nonsense" in problem["detail"]
    admin.get("/v1/agents", limit=5).ok(200)
    admin.request("GET", "/v1/agents?limit=5&limit=5").refused(400, "invalid_request")
    admin.get("/v1/agents", archived="perhaps").refused(400, "invalid_request")


def test_unknown_members_are_refused_on_every_route_that_takes_a_body(admin, document):
    for method, path, operation in routes(document):
        if method not in ("POST", "PUT") or path in ("/v1/sessions/import", "/v1/prices/catalog"):  # Not JSON.
            continue
        example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example", {})
        path = path.replace("{name}", "x").replace("{user}", "65534")
        path = path.replace("{id}", f"{path.split('/')[2][:3].rstrip('s')}_0")
        reply = admin.request(method, path, {"to": "/x", **example, "nonsense": 1} if "backup" in path else
                              {**example, "nonsense": 1})
        assert reply.status in (400, 404), reply
        if reply.status == 400:
            assert reply.problem()["pointer"] == "/nonsense", reply


NOT_JSON = {"half an object": b"{", "half an array": b"[1,", "more behind it": b'{"a":1}x', "not UTF-8": b"\xff\xfe",
            "a text that is not UTF-8": b'{"agent":"\xff"}', "too deep": b"[" * 100_000, "not a number": b"NaN",
            "a comma too many": b'{"a":1,}', "other quotes": b"{'a':1}", "a control character": b'{"agent":"a\x01b"}',
            "a leading zero": b'{"a":01}', "a byte order mark": b"\xef\xbb\xbf{}"}


@pytest.mark.parametrize("what", NOT_JSON)
def test_what_is_not_json_is_refused(admin, what):
    reply = admin.request("POST", "/v1/charges", NOT_JSON[what], headers={"Content-Type": "application/json"})

    reply.refused(400, "invalid_request")


@pytest.mark.parametrize("body", ["null", "1", '"x"', "true"])
def test_json_that_is_no_object_is_refused(admin, body):
    for path in ("/v1/charges", "/v1/runs", "/v1/sessions", "/v1/holds", "/v1/keys"):
        admin.request("POST", path, body, headers={"Content-Type": "application/json"}).refused(400, "invalid_request")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "text/json", ""])
def test_a_body_of_another_type_is_refused(admin, kind):
    reply = admin.request("POST", "/v1/charges", b'{"agent":"x","cost":"1"}', headers={"Content-Type": kind})

    reply.refused(415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_the_type_may_be_written_as_the_standard_allows(admin, kind):
    reply = admin.request("POST", "/v1/sessions", b"{}", headers={"Content-Type": kind})

    reply.ok(201)


def test_paths_and_methods_that_are_not_there_are_told_apart(admin):
    for path in ("/v1", "/v1/nothing", "/v2/agents", "/v1/agents/x/y", "/v1/runs/x/fly"):
        admin.get(path).refused(404, "not_found")
    for method, path in (("DELETE", "/v1/charges"), ("PATCH", "/v1/agents/x"), ("POST", "/v1/agents/x"),
                         ("PUT", "/v1/runs"), ("GET", "/v1/backup"), ("OPTIONS", "/v1/agents")):
        admin.request(method, path).refused(405, "method_not_allowed")
    for path in ("/v1//agents", "/v1/agents/..", "/v1/agents/%2e%2e", "/v1/agents/%zz"):
        assert admin.get(path).status in (400, 404), path


def test_head_is_get_without_a_body(admin):
    reply = admin.request("HEAD", "/v1/status")

    assert reply.status == 200 and reply.body == b"" and int(reply.headers["content-length"]) > 0


def raw(server, data, timeout=5):
    """Sends bytes and returns everything until the server closes the connection."""
    with socket.create_connection(server.address, timeout) as connection:
        connection.sendall(data)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(server, admin):
    head = (f"POST /v1/charges HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.key}\r\n"
            "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n")

    answer = raw(server, head.format((32 << 20) + 1).encode())

    assert answer.startswith(b"HTTP/1.1 413 ") and json.loads(answer.split(b"\r\n\r\n", 1)[1])["code"] == "payload_too_large"


def test_a_body_as_large_as_is_allowed_is_read(admin):
    session, chunk = admin.session(), "x" * (4 << 20)
    messages = [{"role": "user", "content": chunk}] * 4

    reply = admin.post(f"/v1/sessions/{session}/messages", {"messages": messages})

    assert reply.status in (201, 400), reply
    assert admin.get(f"/v1/sessions/{session}").ok(200)["messages"] in (0, 4)


POST = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"


AMBIGUOUS = {
    "a length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "chunks and a length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "the same length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a length with a sign": POST + b"Content-Length: +2\r\n\r\n{}",
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a space before the colon": POST + b"Content-Length : 2\r\n\r\n{}",
    "a chunk that ends with a bare LF": POST + b"Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n",
    "a folded header": POST + b"X: a\r\n b\r\n\r\n",
    "NUL in a header": POST + b"X: a\x00b\r\n\r\n",
    "bare LFs": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "a bare LF after a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "two spaces": b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no slash": b"GET healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
}


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_a_request_that_could_be_read_in_two_ways_is_refused_and_the_connection_closed(server, what):
    # What follows must not be taken for a request of its own.
    answer = raw(server, AMBIGUOUS[what] + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert answer.count(b"HTTP/1.1 ") == 1 and b"connection: close" in answer.lower()


def test_headers_without_end_are_refused(server):
    answer = raw(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 431 ")


def test_requests_in_one_packet_are_answered_in_order(server, admin):
    one = f"GET /v1/agents/{{}} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.key}\r\n{{}}\r\n"
    names = [admin.agent() for _ in range(5)]
    data = "".join(one.format(name, "Connection: close\r\n" if name == names[-1] else "") for name in names)

    answer = raw(server, data.encode())

    assert [name.decode() for name in re.findall(rb'"name":"([^"]+)"', answer)] == names


def test_a_request_that_comes_byte_by_byte_and_in_chunks_is_whole(server, admin):
    body = b'{"title":"slow"}'
    data = (f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.key}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n").encode()
    data += b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in body) + b"0\r\n\r\n"
    with socket.create_connection(server.address, 5) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(data), 3):
            connection.sendall(data[i:i + 3])
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk

    assert answer.startswith(b"HTTP/1.1 201 ") and b'"title":"slow"' in answer


@pytest.mark.parametrize("host", ["evil.example", "evil.example:4100", "127.0.0.1.evil.example", "localhost.evil.example"])
def test_a_host_of_another_site_is_misdirected(admin, host):
    for path in ("/v1/status", "/healthz", "/", "/v1/events"):
        assert admin.request("GET", path, headers={"Host": host}).status == 421, path


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:1", "[::1]:4100", "LOCALHOST"])
def test_the_names_of_this_machine_are_known(admin, host):
    assert admin.request("GET", "/v1/status", headers={"Host": host}).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "https://evil.example:4100", "null", "http://localhost.evil.example"])
def test_a_page_of_another_site_cannot_act(server, admin, origin):
    reply = admin.request("POST", "/v1/sessions", {}, headers={"Origin": origin})

    assert reply.status == 403, reply
    own = {"Origin": f"http://localhost:{server.port}", "Host": f"localhost:{server.port}"}
    admin.request("POST", "/v1/sessions", {}, headers=own).ok(201)


# ---- backup -------------------------------------------------------------------------------------------------------

@pytest.mark.skipif(ON_POSTGRES, reason="PostgreSQL is backed up with its own means")
def test_a_backup_under_load_opens_and_every_promise_holds_in_it(server, admin, tmp_path):
    agent, copy = admin.agent(), tmp_path / "copy"
    copy.mkdir()
    ended = threading.Event()

    def spend():
        while not ended.is_set():
            charge(admin, agent).ok(201)

    writers = [threading.Thread(target=spend, daemon=True) for _ in range(4)]
    for writer in writers:
        writer.start()
    done = admin.post("/v1/backup", {"to": str(copy / "interlock.db")}).ok(201)
    ended.set()
    for writer in writers:
        writer.join(20)

    data = (copy / "interlock.db").read_bytes()
    assert done["bytes"] == len(data) and done["sha256"] == hashlib.sha256(data).hexdigest() and done["milliseconds"] >= 0
    assert done["to"] == str(copy / "interlock.db")
    assert stat.S_IMODE((copy / "interlock.db").stat().st_mode) & 0o077 == 0
    assert server.verify(copy)
    with contextlib.closing(sqlite3.connect(f"file:{copy}/interlock.db?mode=ro", uri=True)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)
        assert db.execute("select count(*) from agents where name = ?", (agent,)).fetchone() == (1,)


def test_a_backup_overwrites_nothing_and_goes_only_where_it_is_told(server, admin, tmp_path):
    (tmp_path / "there.db").write_text("precious")

    assert admin.post("/v1/backup", {"to": str(tmp_path / "there.db")}).status in (400, 409)
    assert (tmp_path / "there.db").read_text() == "precious"
    for to in ("relative.db", str(tmp_path / "no/such/directory/x.db"), str(tmp_path), "", str(server.data / "interlock.db")):
        assert admin.post("/v1/backup", {"to": to}).status in (400, 409), to
    admin.post("/v1/backup", {}).refused(400, "invalid_request", "/to")
    server.verify()


@pytest.mark.skipif(not ON_POSTGRES, reason="the embedded store can be copied")
def test_whoever_asks_for_a_copy_of_a_database_is_told_how_to_make_one(admin, tmp_path):
    problem = admin.post("/v1/backup", {"to": str(tmp_path / "copy.db")}).refused(400, "invalid_request", "/to")

    assert "pg_dump" in problem["detail"] and not (tmp_path / "copy.db").exists()


# ---- start and end ------------------------------------------------------------------------------------------------

def up(binary, *arguments):
    return subprocess.run([binary, "up", *map(str, arguments)], capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL)


def test_the_data_directory_and_the_key_are_for_their_owner_alone(server):
    assert stat.S_IMODE(server.data.stat().st_mode) == 0o700
    for file in ("api.sock", "server.json", *(("history", "node.id") if ON_POSTGRES else ("interlock.db",))):
        assert stat.S_IMODE((server.data / file).stat().st_mode) & 0o077 == 0, file


def test_a_second_server_on_the_same_data_or_port_is_a_clear_error(binary, server, tmp_path):
    same_data = up(binary, "--data-dir", server.data, "--listen", "127.0.0.1:0")
    same_port = up(binary, "--data-dir", tmp_path / "other", "--listen", f"127.0.0.1:{server.port}")

    assert same_data.returncode == 1 and "error: " in same_data.stderr
    assert same_port.returncode == 1 and "in use" in same_port.stderr
    server.admin.get("/v1/status").ok(200)
    assert json.loads((server.data / "server.json").read_text())["pid"] == server.process.pid


def test_without_tls_it_listens_on_this_machine_alone_unless_told_otherwise(binary, tmp_path):
    done = up(binary, "--data-dir", tmp_path / "data", "--listen", "0.0.0.0:0")

    assert done.returncode == 1 and "TLS" in done.stderr


def test_everything_is_there_after_an_orderly_end_and_a_new_start(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        reader = server.admin.make_key("read")
        revoked = server.admin.make_key("read")
        server.admin.delete(f"/v1/keys/{revoked.key_id}").ok(204)
        key = fresh("key")
        first = charge(server.admin, agent, key=key).ok(201)

        assert server.terminate() == 0
        assert not (server.data / "server.json").exists()
        server.verify()
        server.start()

        assert charge(server.admin, agent, key=key).ok(201) == {**first, "repeated": True}
        assert server.admin.at(server.address).get(f"/v1/agents/{agent}").ok(200)["spent"] == "0.00075"
        reader.get("/v1/status").ok(200)
        revoked.get("/v1/status").refused(401, "unauthorized")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_what_is_in_flight_is_answered_before_the_server_ends(binary, tmp_path, how):
    with Server(binary, tmp_path) as server:
        admin, agent = server.admin, server.admin.agent()
        sent = threading.Barrier(51)

        def work(i):
            # The connection is made by hand: the answer is awaited after the signal, not before.
            body = json.dumps([{"agent": agent, "cost": "0.00075", "key": f"{i}-{j}"} for j in range(1000)])
            head = (f"POST /v1/charges HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.key}\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")
            with socket.create_connection(server.address, 20) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
                connection.sendall((head + body).encode())
                sent.wait(20)
                answer = b""
                with contextlib.suppress(ConnectionResetError):
                    while chunk := connection.recv(65536):
                        answer += chunk
            return answer

        signaller = threading.Thread(target=lambda: (sent.wait(20), server.signal(how)), daemon=True)
        signaller.start()
        with admin.events("/v1/events") as follower, concurrent.futures.ThreadPoolExecutor(1) as reader:
            # It reads all the time: one that does not is cut off, for the server has an end to come to.
            followed = reader.submit(lambda: sum(1 for _ in iter(follower.next, None)))
            answers = together(50, work, seconds=30)
            assert server.wait() == 0
            assert followed.result(20) >= 0  # A stream is ended in order too.

        # Whoever was not answered was turned away before anything was done.
        answered = [answer for answer in answers if answer.startswith(b"HTTP/1.1 200 ")]
        assert all(answer in (b"", *answered) or answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
        charged = sum(json.loads(answer.split(b"\r\n\r\n", 1)[1])["charged"] for answer in answered)
        assert charged == 1000 * len(answered) and len(answered) >= 25
        server.verify()
        server.start()
        assert server.admin.get(f"/v1/agents/{agent}").ok(200)["events"] == charged


def test_an_end_under_load_loses_and_doubles_nothing(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        acknowledged, unknown = [], []
        client = Client(server.address, server.admin.key)

        def spend(i):
            for j in range(10_000):
                key = f"{i}-{j}"
                try:
                    reply = charge(client, agent, key=key)
                except LOST:
                    unknown.append(key)
                    return
                if reply.status == 503:
                    return
                reply.ok(201)
                acknowledged.append(key)

        ender = threading.Timer(0.5, server.signal)
        ender.start()
        together(50, spend, seconds=30)
        assert server.wait() == 0
        server.verify()

        server.start()
        events = server.admin.get(f"/v1/agents/{agent}").ok(200)["events"]
        assert len(acknowledged) > 100
        assert len(acknowledged) <= events <= len(acknowledged) + len(unknown)
        for key in unknown:
            charge(server.admin, agent, key=key).ok(201)
        assert server.admin.get(f"/v1/agents/{agent}").ok(200)["events"] == len(acknowledged) + len(unknown)


def test_clients_that_say_nothing_do_not_keep_the_server_from_ending(binary, tmp_path):
    with Server(binary, tmp_path) as server, contextlib.ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(socket.create_connection(server.address, 20))
        clients.enter_context(server.admin.events("/v1/events"))
        begun = time.monotonic()

        assert server.terminate() == 0
        assert time.monotonic() - begun < 8


def test_no_secret_is_in_the_log(binary, tmp_path):
    with Server(binary, tmp_path, "--log-level", "debug", "--log-format", "json") as server:
        agent = server.admin.make_key("agent")
        agent.get("/v1/status").ok(200)
        agent.with_key(agent.key + "x").get("/v1/status").refused(401, "unauthorized")
        server.terminate()
        log = server.log()

    assert os.linesep in log
    for client in (agent, server.admin):
        assert client.key.split("_")[2] not in log
    assert any(line.startswith("{") and "request" in json.loads(line) for line in log.splitlines() if line.startswith("{"))
