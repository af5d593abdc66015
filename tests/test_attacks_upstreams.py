"""What a hostile client, upstream or tenant tries at the border between clients and providers, and gets nothing for."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

from interlock_server import Client, Server, eventually, fresh

TOP_SECRET = "sk-ant-TOP-SECRET"


class Upstream:
    """A provider that answers as the test says, and like many small servers does not read the body of a GET."""

    def __init__(self):
        self.status, self.headers, self.raw, self.delay = 200, {}, None, 0
        self.seen = []  # (method, path, headers, body) of every request.
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.answer(self, b"")

            def do_POST(self):
                outer.answer(self, self.rfile.read(int(self.headers["content-length"])))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request, body):
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((request.command, request.path, headers, body))
        raw = self.raw if self.raw is not None else json.dumps(
            {"choices": [{"message": {"content": "ok"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})
        if "smuggled" in request.path:
            time.sleep(0.3)
            raw = "TEXT OF THE ATTACKER"
        raw = raw.encode()
        request.send_response(self.status)
        for name, value in {"content-type": "application/json", **self.headers}.items():
            request.send_header(name, value)
        request.send_header("content-length", str(len(raw)))
        request.end_headers()
        request.wfile.write(raw)

    def reset(self):
        self.__dict__.update(status=200, headers={}, raw=None, seen=[])

    def saw(self, text):
        return [one for one in self.seen if text in repr(one)]


@pytest.fixture(scope="module")
def provider():
    upstream = Upstream()
    yield upstream
    upstream.server.shutdown()
    upstream.server.server_close()


@pytest.fixture
def model(admin, provider):
    """A model at the provider, at a price."""
    provider.reset()
    return a_model(admin, provider.url)


def a_model(admin, url, dialect="openai", **more):
    name = fresh("model")
    admin.put(f"/v1/upstreams/{name}", {"dialect": dialect, "url": url, "provider": "lab", "models": [f"{name}/*"],
                                        "retries": 0, "cooldown_after": 0, **more}).ok()
    admin.put("/v1/prices", {"provider": "lab", "model": f"{name}/*", "input_per_mtok": "10", "output_per_mtok": "50"}).ok()
    return name


@pytest.fixture
def writer(admin):
    return admin.make_key("agent", agent=admin.agent())


def chat(client, model, **headers):
    body = {"model": f"{model}/m", "max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]}
    return client.post("/v1/chat/completions", body, headers={name.replace("_", "-"): v for name, v in headers.items()})


def the_call(admin, reply):
    return eventually(lambda: (found := admin.get(f"/v1/calls/{reply.headers['x-interlock-call']}")).status == 200
                      and found.json())


# ---- requests that go on ---------------------------------------------------------------------------------------------


def test_a_get_with_a_body_is_refused_and_reaches_no_upstream(writer, provider, model):
    smuggled = "GET /v1/models/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    for _ in range(4):
        reply = writer.request("GET", f"/v1/models/{model}%2Fx", smuggled)
        assert reply.status == 400 and "body" in reply.json()["error"]["message"], reply
    assert chat(writer, model).json()["choices"][0]["message"]["content"] == "ok"
    assert not provider.saw("smuggled") and [one[0] for one in provider.seen] == ["POST"]


def test_a_get_without_a_body_has_none_at_the_upstream_either(writer, provider, model):
    assert writer.get(f"/v1/models/{model}%2Fx").status == 200
    (method, _, headers, body), = provider.seen
    assert method == "GET" and body == b"" and "content-length" not in headers and "transfer-encoding" not in headers


def test_headers_that_choose_the_payer_or_are_not_known_end_here(writer, provider, model):
    dropped = {"OpenAI-Organization": "org-1", "OpenAI-Project": "p", "x-litellm-api-key": "k", "x-portkey-config": "c",
               "x-goog-user-project": "p", "x-vertex-ai-llm-request-type": "priority", "idempotency-key": "of-another",
               "x-anything": "1", "content-encoding": "identity", "Content-Type": "application/json; charset=utf-16"}
    passed = {"anthropic-beta": "a,b", "openai-beta": "c", "user-agent": "sdk/1", "x-stainless-lang": "js",
              "traceparent": "00-11111111111111111111111111111111-2222222222222222-01", "accept": "application/json"}
    assert chat(writer, model, **dropped, **passed).status == 200
    headers = provider.seen[-1][2]
    for name in dropped:
        assert name.lower() == "content-type" or name.lower() not in headers, name
    assert headers["content-type"] == "application/json"
    for name, value in passed.items():
        assert headers[name] == value


def test_an_admin_lets_further_headers_pass_but_never_keys(admin, writer, provider):
    provider.reset()
    name = a_model(admin, provider.url, pass_headers=["X-Team-*", "*"])
    assert chat(writer, name, x_team_name="blue", openai_project="p", cookie="c", x_forwarded_for="1.2.3.4").status == 200
    headers = provider.seen[-1][2]
    assert headers["x-team-name"] == "blue" and headers["openai-project"] == "p"
    assert not {"cookie", "x-forwarded-for", "authorization", "x-interlock-agent"} & set(headers)
    for bad in ("authorization", "Cookie", "a b", "", "x-api-key", "x-interlock-run", "content-type"):
        admin.put(f"/v1/upstreams/{name}", {"dialect": "openai", "pass_headers": [bad]}).refused(
            400, "invalid_request", "/pass_headers/0")


def test_a_cached_answer_is_for_the_same_headers_only(writer, provider, model):
    def hit(**headers):
        return chat(writer, model, x_interlock_cache="60", **headers).headers.get("x-interlock-cache") == "hit"

    assert [hit(anthropic_beta="a"), hit(anthropic_beta="a"), hit(anthropic_beta="b"), hit()] == [False, True, False, False]
    assert hit(traceparent="00-11111111111111111111111111111111-2222222222222222-01"), "it changes no answer"


# ---- answers that come back ------------------------------------------------------------------------------------------


def check_inert(headers):
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"] and "default-src 'none'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("status", [200, 404, 500])
def test_an_upstreams_answer_makes_no_browser_do_anything(writer, provider, model, status):
    acting = {"content-type": "text/html", "clear-site-data": '"*"', "refresh": "0;url=/", "service-worker-allowed": "/",
              "content-security-policy": "default-src *", "access-control-allow-origin": "*", "set-cookie": "a=b",
              "content-disposition": "inline", "server": "x", "link": "</a>; rel=preload", "location": "/", "sourcemap": "/x",
              "strict-transport-security": "max-age=1", "www-authenticate": "Basic", "x-interlock-cost": "0",
              "x-content-type-options": "sniff", "cross-origin-resource-policy": "cross-origin", "report-to": "{}"}
    provider.status, provider.headers, provider.raw = status, {**acting, "x-request-id": "r1"}, "<script>alert(1)</script>"
    for reply in (writer.get(f"/v1/models/{model}%2Fx"), chat(writer, model)):
        assert reply.status == status
        assert reply.headers["content-type"] == "application/octet-stream"
        check_inert(reply.headers)
        assert reply.headers["x-request-id"] == "r1"
        ours = {"content-security-policy", "x-content-type-options", "cross-origin-resource-policy", "content-type"}
        for name in set(acting) - ours - {"x-interlock-cost"}:
            assert name not in reply.headers, name
        assert reply.headers.get("x-interlock-cost") != "0"


def test_refusals_and_cached_answers_are_inert_too(admin, writer, provider, model):
    for reply in (chat(writer, "nobodys"), admin.with_key(None).post("/v1/chat/completions"), writer.get("/v1/files"),
                  writer.request("DELETE", "/v1/chat/completions"), chat(writer, model, x_interlock_cache="60"),
                  chat(writer, model, x_interlock_cache="60")):
        check_inert(reply.headers)
    assert reply.headers["x-interlock-cache"] == "hit"


def test_a_stream_is_passed_on_as_one(writer, provider, model):
    provider.headers = {"content-type": "text/event-stream"}
    provider.raw = 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    reply = chat(writer, model)
    assert reply.headers["content-type"].startswith("text/event-stream") and b"[DONE]" in reply.body
    check_inert(reply.headers)


@pytest.mark.parametrize("header", ["x_cache", "x.cache", "x!cache", "x-ratelimit-limit.requests", "openai-x|y", "anthropic-a'b"])
def test_an_odd_header_of_an_upstream_does_not_cost_the_answer(admin, writer, provider, model, header):
    provider.headers = {header: "1"}
    reply = chat(writer, model)
    assert reply.status == 200 and reply.json()["choices"], reply
    call = the_call(admin, reply)
    assert call["status"] == 200 and float(call["cost"]) > 0


@pytest.mark.parametrize("status", [600, 999, 99, 0, 101])
def test_a_status_that_is_none_is_a_bad_answer_of_the_upstream(admin, writer, status):
    line = f"HTTP/1.1 {status:03} X\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    with answering(line) as url:
        reply = chat(writer, a_model(admin, url))
    assert reply.status == 502 and "upstream_failed" in repr(reply), reply


@contextlib.contextmanager
def answering(line):
    """A server that sends the same bytes to every client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    peer.recv(1 << 16)
                    peer.sendall(line)
                    peer.close()

        threading.Thread(target=serve, daemon=True).start()
        yield "http://127.0.0.1:%d" % listener.getsockname()[1]


def test_a_key_in_a_link_opens_nothing_but_geminis_paths(writer, provider, model):
    keyless = writer.with_key(None)
    assert keyless.get(f"/v1/models/{model}%2Fx?key={writer.key}").status == 401
    assert not provider.seen
    assert keyless.get(f"/v1beta/models?key={writer.key}").status == 404, "there is no upstream of that dialect"


def test_what_stands_for_a_header_in_a_query_ends_here(writer, admin, provider):
    provider.reset()
    name = a_model(admin, provider.url, dialect="gemini")
    writer.post(f"/v1beta/models/{name}/m:countTokens?$httpHeaders=a:b&%24userProject=p&access_token=t&callback=f&x=1", {})
    assert provider.seen[-1][1] == f"/v1beta/models/{name}/m:countTokens?x=1"


# ---- secrets ---------------------------------------------------------------------------------------------------------


def a_secret(admin, **body):
    name = fresh("secret")
    return name, admin.put(f"/v1/secrets/{name}", {"value": TOP_SECRET, **body}).ok()


def hosts_of(admin, name):
    return next(one["hosts"] for one in admin.items("/v1/secrets") if one["name"] == name)


@contextlib.contextmanager
def gateway_as_it_was(admin):
    before = admin.get("/v1/gateway").ok()
    try:
        yield before
    finally:
        admin.put("/v1/gateway", before).ok()


def test_an_operator_has_no_secret_sent_anywhere(admin, provider, writer, model):
    name, _ = a_secret(admin)
    operator = admin.make_key("operator")
    otlp = {"url": provider.url, "headers": {"x-leak": f"secret:{name}"}, "interval_s": 1}

    refused = operator.put("/v1/gateway", {"otlp": otlp}).refused(403, "forbidden", "/otlp")
    assert "admin" in refused["detail"]
    for member, value in (("private_orgs", ["a"]), ("unbounded_cost", "allow"), ("unknown_model", "unpriced")):
        operator.put("/v1/gateway", {member: value}).refused(403, "forbidden", f"/{member}")
    with gateway_as_it_was(admin) as before:
        operator.put("/v1/gateway", {**before, "wait_s": 3}).ok()
        admin.put("/v1/gateway", {"otlp": {"url": provider.url}}).ok()
        now = admin.get("/v1/gateway").ok()
        operator.put("/v1/gateway", {**now, "wait_s": 4}).ok()
        for changed in ({"url": provider.url + "/x"}, {**now["otlp"], "headers": {"a": "b"}}, None):
            operator.put("/v1/gateway", {**now, "otlp": changed}).refused(403, "forbidden")
    assert not provider.saw(TOP_SECRET)


def test_a_secret_goes_to_the_hosts_that_it_was_set_for_and_nowhere_else(admin, provider, writer):
    provider.reset()
    host = provider.url.removeprefix("http://")
    name, shown = a_secret(admin, hosts=[host.upper()])
    assert shown["hosts"] == [host]
    model = a_model(admin, provider.url, key={"secret": name})
    assert chat(writer, model).status == 200 and provider.saw(TOP_SECRET)

    elsewhere = {"dialect": "openai", "url": "https://evil.example", "key": {"secret": name}}
    refused = admin.put("/v1/upstreams/evil", elsewhere).refused(400, "invalid_request", "/key/secret")
    assert host in refused["detail"] and "interlock secrets set" in refused["detail"]
    by_header = {"dialect": "openai", "url": "https://evil.example", "headers": {"X-Leak": f"secret:{name}"}}
    admin.put("/v1/upstreams/evil", by_header).refused(400, "invalid_request", "/headers/x-leak")
    otlp = {"url": "https://evil.example", "headers": {"x-leak": f"secret:{name}"}}
    admin.put("/v1/gateway", {"otlp": otlp}).refused(400, "invalid_request", "/otlp/headers/x-leak")
    other_port = {"dialect": "openai", "url": "http://127.0.0.1:1", "key": {"secret": name}}
    admin.put("/v1/upstreams/evil", other_port).refused(400, "invalid_request", "/key/secret")
    for bad in ([], ["https://a"], ["*"], ["a/b"], [""]):
        pointer = "/hosts/0" if bad else "/hosts"
        admin.put(f"/v1/secrets/{name}", {"value": "x", "hosts": bad}).refused(400, "invalid_request", pointer)


def test_a_secret_without_hosts_is_bound_by_its_first_use_and_stays_so_when_it_is_rotated(admin, provider, writer):
    name, shown = a_secret(admin)
    assert shown["hosts"] == []
    model = a_model(admin, provider.url, key={"secret": name})
    host = provider.url.removeprefix("http://")
    assert eventually(lambda: hosts_of(admin, name)) == [host]
    elsewhere = {"dialect": "openai", "url": "https://evil.example", "key": {"secret": name}}
    admin.put("/v1/upstreams/evil", elsewhere).refused(400, "invalid_request", "/key/secret")

    assert admin.put(f"/v1/secrets/{name}", {"value": "sk-rotated"}).ok()["hosts"] == [host]

    provider.reset()
    assert chat(writer, model).status == 200 and provider.saw("sk-rotated")
    admin.put("/v1/upstreams/evil", elsewhere).refused(400, "invalid_request", "/key/secret")
    admin.put(f"/v1/secrets/{name}", {"value": "sk-rotated", "hosts": ["evil.example"]}).ok()
    assert b"its key is not there" in chat(writer, model).body, "it is for another host now"


def test_a_secret_of_an_older_version_is_bound_to_the_upstreams_that_use_it(binary, tmp_path, provider):
    """Also when its collector was told to send it along: that is left out."""
    provider.reset()
    with Server(binary, tmp_path) as server:
        server.admin.put("/v1/secrets/old", {"value": TOP_SECRET}).ok()
        model = a_model(server.admin, provider.url, key={"secret": "old"})
        eventually(lambda: hosts_of(server.admin, "old"))
        server.terminate()
        database = next(server.data.glob("*.db"))
        with contextlib.closing(sqlite3.connect(database)) as store:
            # As a version that knew no hosts has left it, with a collector that an operator has set.
            assert store.execute("delete from settings where kind = 'secret_hosts'").rowcount == 1
            otlp = {"otlp": {"url": f"http://127.0.0.1:{provider.port}/otlp", "headers": {"x-leak": "secret:old"}, "interval_s": 1}}
            store.execute("insert into settings select org, 'gateway', 'default', ?, 1, changed_at, 0 from settings limit 1",
                          (json.dumps(otlp),))
            store.commit()
        server.start()
        admin = server.admin
        assert eventually(lambda: hosts_of(admin, "old")) == [provider.url.removeprefix("http://")]
        assert chat(admin.make_key("agent", agent=admin.agent()), model).status == 200
        assert [one[1] for one in provider.saw(TOP_SECRET)] == ["/v1/chat/completions"]


def test_what_calls_cost_goes_in_the_clear_to_this_machine_only(admin):
    for url in ("http://collector.example:4318", "http://10.0.0.1"):
        admin.put("/v1/gateway", {"otlp": {"url": url}}).refused(400, "invalid_request", "/otlp/url")
    with gateway_as_it_was(admin):
        admin.put("/v1/gateway", {"otlp": {"url": "http://192.0.2.1:4318", "insecure": True}}).ok()


# ---- other orgs ------------------------------------------------------------------------------------------------------


PRIVATE = ["https://127.0.0.1:1", "https://localhost", "https://[::1]", "https://10.0.0.1", "https://169.254.169.254",
           "https://192.168.0.1", "https://100.64.0.1", "https://0.0.0.0", "https://[::ffff:127.0.0.1]", "https://[fd00::1]",
           "https://[fe80::1]", "https://[64:ff9b::7f00:1]", "http://1.1.1.1", "http://127.0.0.1:1"]


def a_tenant(admin):
    name = fresh("tenant")
    return name, admin.with_key(admin.post("/v1/orgs", {"name": name}).ok()["key"])


def test_another_org_reaches_public_addresses_over_tls_only(admin):
    _, tenant = a_tenant(admin)
    for url in PRIVATE:
        refused = tenant.put("/v1/upstreams/in", {"dialect": "openai", "url": url, "insecure": True}).refused(
            400, "invalid_request", "/url")
        assert "private_orgs" in refused["detail"]
        tenant.put("/v1/gateway", {"otlp": {"url": url, "insecure": True}}).refused(400, "invalid_request", "/otlp/url")
    tenant.put("/v1/gateway", {"private_orgs": ["default"]}).refused(400, "invalid_request", "/private_orgs")


def test_a_name_that_leads_to_a_private_address_is_no_way_in(admin, provider):
    """Checked when it is resolved. The system's resolver knows these without a query."""
    provider.reset()
    _, tenant = a_tenant(admin)
    tenant.put("/v1/agents/a", {}).ok()
    for host in ("2130706433", "0x7f.1", "017700000001", "0", socket.gethostname()):
        url = f"https://{host}:{provider.port}"
        tenant.put("/v1/upstreams/in", {"dialect": "openai", "url": url, "retries": 0, "cooldown_after": 0}).ok()
        reply = tenant.get("/v1/models/in%2Fx")
        assert reply.status == 502 and (b"no public address" in reply.body or b"not found" in reply.body), (host, reply)


def test_an_admin_of_the_server_lets_an_org_reach_private_addresses_and_takes_it_back(admin, provider):
    provider.reset()
    name, tenant = a_tenant(admin)
    body = {"dialect": "openai", "url": provider.url, "models": ["in/*"], "retries": 0, "cooldown_after": 0}
    with gateway_as_it_was(admin):
        admin.put("/v1/gateway", {"private_orgs": [name]}).ok()
        tenant.put("/v1/upstreams/in", body).ok()
        assert tenant.get("/v1/models/in%2Fx").status == 200
        _, other = a_tenant(admin)
        other.put("/v1/upstreams/in", body).refused(400, "invalid_request", "/url")
    assert tenant.get("/v1/models/in%2Fx").status == 502 and len(provider.seen) == 1


# ---- a run's key, and bodies without one -----------------------------------------------------------------------------


def test_a_runs_key_gets_nothing_after_the_runs_end(admin, provider, model):
    agent = admin.agent()
    run = admin.run(agent)
    key = admin.make_key("agent", run=run["id"])
    paths = [f"/v1/models/{model}%2Fx", f"/s/{run['id']}/v1/models/{model}%2Fx"]
    assert [key.get(path).status for path in paths] == [200, 200]
    assert chat(key, model, x_interlock_cache="60").status == 200
    assert chat(key, model, x_interlock_cache="60").headers["x-interlock-cache"] == "hit"
    admin.finish(run).ok()
    seen = len(provider.seen)

    assert [key.get(path).status for path in paths] == [401, 401]
    refused = chat(key, model, x_interlock_cache="60")
    assert refused.status == 401 and refused.json()["error"]["code"] == "run_ended", refused
    # An agent's key that names the run gets nothing in its name either.
    assert admin.make_key("agent", agent=agent).get(paths[1]).status == 401
    assert len(provider.seen) == seen


def raw(server, head, body=b""):
    with socket.create_connection(server.address, timeout=5) as peer:
        peer.sendall(head.encode() + body)
        return peer.recv(4096).decode(errors="replace")


@pytest.mark.parametrize("path", ["/v1/charges", "/v1/chat/completions", "/login", "/nowhere"])
def test_a_large_body_without_a_key_is_refused_before_it_is_read(server, path):
    for extra in ("", "Authorization: Bearer ilk_a_b\r\n", "Expect: 100-continue\r\n"):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{extra}Content-Length: 30000000\r\n\r\n"
        assert raw(server, head).startswith("HTTP/1.1 401 "), extra
    chunks = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert raw(server, chunks, b"20000\r\n" + b"x" * 100_000).startswith("HTTP/1.1 401 ")


@pytest.mark.parametrize("way", ["authorization", "x-api-key", "x-goog-api-key", "query"])
def test_a_large_body_with_a_key_is_taken_wherever_the_key_stands(writer, provider, model, way):
    keyless, body = writer.with_key(None), {"contents": [], "messages": [], "model": f"{model}/m", "max_tokens": 5, "x": "y" * 200_000}
    path = "/v1/chat/completions" + (f"?key={writer.key}" if way == "query" else "")
    headers = {} if way == "query" else {way: ("Bearer " if way == "authorization" else "") + writer.key}
    assert keyless.post(path, body, headers=headers).status == 200


def test_a_server_raises_its_own_limit_of_files_and_not_that_of_runs(binary, tmp_path):
    data = {"INTERLOCK_DATA": str(tmp_path / "data")}
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}, **data}

    def cli(*words, before=()):
        done = subprocess.run([*before, binary, *words], env=environment, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    cli("up", "--detach", "--listen", "127.0.0.1:0", before=("prlimit", "--nofile=256:2000"))
    try:
        server = json.loads((tmp_path / "data/server.json").read_text())["pid"]
        limits = pathlib.Path(f"/proc/{server}/limits").read_text()
        assert re.search(r"^Max open files +2000 +2000 ", limits, re.M), limits
        run = cli("run", "--detach", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn").split()[0]
        eventually(lambda: cli("runs", "logs", run).split() == ["256", "2000"])
    finally:
        cli("down")


def test_clients_that_ask_nothing_keep_no_other_client_out(binary, tmp_path):
    """They need no key, and each takes a file of the server."""
    data = {"INTERLOCK_DATA": str(tmp_path / "data")}
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}, **data}

    def cli(*words, before=()):
        return subprocess.run([*before, binary, *words], env=environment, capture_output=True, text=True, timeout=30, check=True)

    def status_responds():
        return subprocess.run([binary, "status"], env=environment, capture_output=True, timeout=30).returncode == 0

    def is_healthy(port):
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as client:
                client.request("GET", "/healthz")
                return client.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    cli("up", "--detach", "--listen", "127.0.0.1:0", before=("prlimit", "--nofile=300:300"))
    silent = []
    try:
        port = int(json.loads((tmp_path / "data/server.json").read_text())["url"].rsplit(":", 1)[1])
        for number in range(400):
            silent.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            if number % 2:  # Some have asked something, and may rest for longer.
                silent[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(5):  # A new connection may itself be the one that gives way.
            begin = time.monotonic()
            eventually(status_responds, seconds=5)
            eventually(lambda: is_healthy(port), seconds=5)
            assert time.monotonic() - begin < 5
    finally:
        for each in silent:
            each.close()
        cli("down")
