"""How the page comes to a browser: its files, who is let in and as whom, and all of that behind a proxy."""

import contextlib
import gzip
import http.client
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.parse

import pytest

from interlock_server import Client, Server, eventually, fresh

pytestmark = pytest.mark.seconds_max(60)

ROOT = pathlib.Path(__file__).resolve().parent.parent
KB = 1024
# The scripts of the page that LiteLLM's proxy opens with, compressed. Ours is to stay eight times below.
OTHERS_JS_BYTES = 912 * KB


class Browser:
    """A client with a login instead of a key: a cookie and the page's secret. It says where it is, as browsers do."""

    def __init__(self, client, prefix="", origin=None):
        self.client, self.prefix, self.cookie, self.secret = client.with_key(None), prefix, None, None
        self.origin = origin or f"http://{client.address[0]}:{client.address[1]}"

    def request(self, method, path, body=None, headers=None):
        sent = self.login() | ({"Cookie": f"theme=dark; {self.cookie}"} if self.cookie else {})
        if method not in ("GET", "HEAD"):
            sent["Origin"] = self.origin
        reply = self.client.request(method, self.prefix + path, body, headers=sent | (headers or {}))
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].split(";")[0]
            fragment = reply.headers.get("location", "").partition("#login=")[2]
            self.secret = fragment or (reply.json()["secret"] if reply.status == 200 else None)
        return reply

    def login(self):
        """Both halves, as headers."""
        return {"Cookie": self.cookie or "", "x-interlock-login": self.secret or ""}

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, body=None, **headers):
        return self.request("POST", path, {} if body is None else body, headers=headers)

    def open(self, link):
        """The link's path, as if it were the only thing that a proxy in between knows."""
        address = urllib.parse.urlsplit(link)
        return self.get(f"{address.path}?{address.query}")

    def who(self):
        return self.get("/v1/keys/self").ok(200)


@pytest.fixture
def browser(admin):
    return Browser(admin)


def logged_in(client):
    """A browser with the client's key."""
    browser = Browser(client)
    assert browser.post("/login", {"key": client.key}).status == 200
    return browser


# ---- links --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("scope", ["read", "agent", "operator", "admin"])
def test_a_link_logs_in_as_the_key_that_asked_for_it(admin, browser, scope):
    client = admin.make_key(scope)
    link = client.post("/v1/login").ok(201)["link"]

    entered = browser.open(link)

    assert (entered.status, entered.headers["cache-control"]) == (303, "no-store")
    assert re.fullmatch(r"\./#login=[0-9a-f]{64}", entered.headers["location"])
    assert re.fullmatch(r"interlock_[0-9a-f]{8}=[\w.]+; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
                        entered.headers["set-cookie"])
    assert (browser.who()["id"], browser.who()["scopes"]) == (client.key_id, [scope])


def test_a_link_works_once_and_looking_at_it_does_not_use_it_up(admin, browser):
    link = admin.post("/v1/login").ok(201)["link"]
    address = urllib.parse.urlsplit(link)

    assert browser.request("HEAD", f"{address.path}?{address.query}").status not in (200, 303)
    assert browser.open(link).status == 303
    again = Browser(admin).open(link)
    assert again.status == 403 and b"interlock login" in again.body and "set-cookie" not in again.headers
    assert browser.open(link).status == 303, "who is in stays in"


def test_the_link_that_up_prints_is_the_local_admins(server, browser):
    log = server.directory / "server.log"
    link = eventually(lambda: re.search(r"dashboard +(http://\S+/login\?code=\w+)", log.read_text()))[1]

    assert browser.open(link).status == 303
    assert browser.who()["id"] == f"local:{os.getuid()}"


@pytest.mark.parametrize("query", ["", "?", "?code=", "?code=x", "?x=1", "?code=" + "0" * 64])
def test_no_other_link_lets_anybody_in(browser, query):
    reply = browser.get("/login" + query)

    assert reply.status == 403 and "set-cookie" not in reply.headers


# ---- keys ---------------------------------------------------------------------------------------------------------

def test_a_key_logs_in_by_json_and_by_a_form(admin, browser):
    client = admin.make_key("operator")

    assert browser.post("/login", {"key": f" {client.key}\n"}).status == 200
    assert browser.who()["id"] == client.key_id
    other = Browser(admin)
    form = urllib.parse.urlencode({"key": client.key})
    entered = other.request("POST", "/login", form, {"Content-Type": "application/x-www-form-urlencoded"})
    assert entered.status == 303 and entered.headers["location"].startswith("./#login=")
    assert other.who()["id"] == client.key_id
    assert other.cookie != browser.cookie


def test_a_wrong_key_is_told_so_and_gets_no_cookie(admin, browser):
    for key in ("x", "", "ilk_000000000000_" + "0" * 64, admin.key[:-1], admin.key + "0"):
        time.sleep(0.11)
        reply = browser.post("/login", {"key": key})
        assert "interlock keys create" in reply.refused(403, "key_not_known")["detail"]
        assert "set-cookie" not in reply.headers
    for body in ({}, {"key": 1}, [], "{", b"\xff"):
        reply = browser.request("POST", "/login", body, {"Content-Type": "application/json"})
        reply.refused(400, "invalid_request")
    browser.request("POST", "/login", "a=b", {"Content-Type": "application/x-www-form-urlencoded"}).refused(400, "invalid_request")


def test_who_tries_many_keys_has_to_wait_and_nobody_who_is_in_does(admin):
    inside, stranger = logged_in(admin), Browser(admin)

    replies = [stranger.post("/login", {"key": "ilk_000000000000_" + "0" * 64}) for _ in range(100)]

    waits = [reply for reply in replies if reply.status == 429]
    assert waits and all(reply.headers["retry-after"] == "1" for reply in waits)
    assert {reply.status for reply in replies} == {403, 429}
    waits[0].refused(429, "too_many_wrong_keys")
    inside.get("/v1/status").ok(200)
    eventually(lambda: stranger.post("/login", {"key": admin.key}).status == 200)


def test_right_keys_never_have_to_wait(admin):
    browsers = [logged_in(admin) for _ in range(50)]

    assert all(browser.get("/v1/status").status == 200 for browser in browsers)


# ---- what a login may do ------------------------------------------------------------------------------------------

def test_a_login_may_do_what_its_key_may_and_no_more(admin):
    reader, operator = logged_in(admin.make_key("read")), logged_in(admin.make_key("operator"))

    reader.get("/v1/runs").ok(200)
    reader.post("/v1/sessions").refused(403, "forbidden")
    reader.get("/v1/keys").refused(403, "forbidden")
    operator.post("/v1/sessions").ok(201)
    operator.get("/v1/keys").refused(403, "forbidden")


def test_a_login_with_a_bound_key_is_bound(admin):
    ada, bob = admin.agent(), admin.agent()
    browser = logged_in(admin.make_key("agent", agent=ada))

    assert [row["name"] for row in browser.get("/v1/agents").ok(200)["items"]] == [ada]
    browser.get(f"/v1/agents/{bob}").refused(404, "not_found")
    assert browser.who()["agent"] == ada


def test_a_login_with_a_key_of_another_org_is_in_that_org(admin):
    name = fresh("org")
    key = admin.post("/v1/orgs", {"name": name}).ok(201)["key"]
    client = admin.with_key(key)
    by_key, by_link = logged_in(client), Browser(admin)
    assert by_link.open(client.post("/v1/login").ok(201)["link"]).status == 303

    for browser in (by_key, by_link):
        assert browser.get("/v1/status").ok(200)["org"] == name
        assert browser.get("/v1/agents").ok(200)["items"] == []


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
                                     {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": ""},
                                     {"Origin": "", "Sec-Fetch-Site": "none"}])
def test_nobody_else_can_use_a_login(admin, headers):
    browser = logged_in(admin)
    before = len(admin.items("/v1/sessions"))

    browser.post("/v1/sessions", {}, **headers).refused(403, "origin_not_allowed")
    assert len(admin.items("/v1/sessions")) == before
    if set(headers.values()) & {"cross-site", "same-site"}:
        browser.get("/v1/status", **headers).refused(403, "origin_not_allowed")
        browser.post("/login", {"key": admin.key}, **headers).refused(403, "origin_not_allowed")
        browser.post("/logout", **headers).refused(403, "origin_not_allowed")
    for own in ({}, {"Sec-Fetch-Site": "same-origin"}):
        browser.get("/v1/status", **own).ok(200)
        browser.post("/v1/sessions", {}, **own).ok(201)


# ---- the end of a login -------------------------------------------------------------------------------------------

def test_a_login_ends_with_its_key_and_so_does_what_it_follows(admin):
    client = admin.make_key("read")
    browser = logged_in(client)
    connection = http.client.HTTPConnection(*admin.address, timeout=10)
    connection.request("GET", "/v1/events", headers=browser.login() | {"Accept": "text/event-stream"})
    stream = connection.getresponse()
    assert stream.status == 200 and stream.readline().startswith(b":")

    admin.delete(f"/v1/keys/{client.key_id}").ok(204)

    browser.get("/v1/status").refused(401, "unauthorized")
    while stream.readline():
        pass
    connection.close()
    browser.post("/login", {"key": client.key}).refused(403, "key_not_known")


def test_a_link_of_a_key_that_was_revoked_lets_nobody_in(admin, browser):
    client = admin.make_key("read")
    link = client.post("/v1/login").ok(201)["link"]
    admin.delete(f"/v1/keys/{client.key_id}").ok(204)

    assert browser.open(link).status == 403


def test_a_login_outlives_the_server_and_two_servers_do_not_disturb_each_other(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("one")) as one, Server(binary, tmp_path_factory.mktemp("two")) as other:
        browser = logged_in(one.admin)
        elsewhere = Browser(other.admin)
        elsewhere.cookie, elsewhere.secret = browser.cookie, browser.secret
        elsewhere.get("/v1/status").refused(401, "unauthorized")
        cookie, elsewhere.cookie = browser.cookie, None
        elsewhere.post("/login", {"key": other.admin.key})
        browser.cookie = elsewhere.cookie = f"{cookie}; {elsewhere.cookie}"

        one.restart()
        browser.client.forget()
        assert browser.who()["id"] == one.admin.key.split("_")[1]
        one.terminate()
        one.start()
        browser.client.forget()
        assert browser.who()["id"] == one.admin.key.split("_")[1]
        assert elsewhere.who()["id"] == other.admin.key.split("_")[1]


def test_who_logs_out_is_out(admin):
    browser, other = logged_in(admin), logged_in(admin)
    cookie, secret = browser.cookie, browser.secret

    reply = browser.post("/logout")

    assert reply.status == 204
    assert re.fullmatch(r"interlock_\w{8}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", reply.headers["set-cookie"])
    browser.cookie, browser.secret = cookie, secret
    browser.get("/v1/status").refused(401, "unauthorized")
    other.get("/v1/status").ok(200)
    assert Browser(admin).post("/logout").status == 204


# ---- files --------------------------------------------------------------------------------------------------------

def page_files(browser):
    """Every file of the page by its path, found as a browser finds them: from the page on, name after name."""
    found, names = {}, {"/"}
    while names:
        path = names.pop()
        reply = browser.get(path, **{"Accept-Encoding": "identity"})
        assert reply.status == 200, reply
        found[path] = reply
        text = reply.body.decode(errors="replace")
        if path == "/":
            linked = re.findall(r'(?:src|href)="\./([^"]+)"', text)
        else:
            linked = [f"assets/{name}" for name in re.findall(r"[\w.]+-[\w-]{8}\.(?:js|css|svg|png)", text)]
        names |= {f"/{name}" for name in linked} - set(found)
    return found


@pytest.fixture(scope="module")
def files(server):
    found = page_files(Browser(server.admin))
    assert any(path.endswith(".js") for path in found) and any(path.endswith(".css") for path in found)
    return found


def test_each_file_has_a_strong_tag_and_is_sent_only_when_it_is_not_known(browser, files):
    for path, reply in files.items():
        tags = {}
        for encoding in ("identity", "gzip"):
            sent = browser.get(path, **{"Accept-Encoding": encoding})
            tag = tags[encoding] = sent.headers["etag"]
            assert re.fullmatch(r'"[0-9a-f]{32}(-gzip)?"', tag) and sent.headers["vary"] == "accept-encoding"
            for known in (tag, f'"x", {tag}', f"W/{tag}", "*"):
                again = browser.get(path, **{"Accept-Encoding": encoding, "If-None-Match": known})
                assert (again.status, again.body) == (304, b""), (path, known)
                assert again.headers["etag"] == tag and again.headers["cache-control"] == sent.headers["cache-control"]
            assert browser.get(path, **{"Accept-Encoding": encoding, "If-None-Match": '"x"'}).status == 200
        packed = "content-encoding" in browser.get(path, **{"Accept-Encoding": "gzip"}).headers
        assert (tags["gzip"] != tags["identity"]) == packed, path
        kept = "public, max-age=31536000, immutable" if path.startswith("/assets/") else "no-cache"
        assert reply.headers["cache-control"] == kept


def test_files_are_compressed_for_those_who_take_it(browser, files):
    packed = 0
    for path, reply in files.items():
        for accepted in ("gzip", "br, gzip;q=0.5", "*", "deflate , gzip"):
            sent = browser.get(path, **{"Accept-Encoding": accepted})
            if "content-encoding" in sent.headers:
                assert sent.headers["content-encoding"] == "gzip" and len(sent.body) < len(reply.body)
                assert gzip.decompress(sent.body) == reply.body
                packed += 1
            else:
                assert sent.body == reply.body and len(reply.body) < 400, path
        for accepted in ("identity", "br", "gzip;q=0", "gzip; q=0.0, *", "*;q=0", "xgzip"):
            sent = browser.get(path, **{"Accept-Encoding": accepted})
            assert "content-encoding" not in sent.headers and sent.body == reply.body
    assert packed >= 4 * 3, "the page, a script and a style sheet at least"


def test_a_head_is_a_get_without_its_body(browser, files):
    for path in files:
        get = browser.get(path, **{"Accept-Encoding": "gzip"})
        head = browser.request("HEAD", path, headers={"Accept-Encoding": "gzip"})
        assert head.status == 200 and head.body == b""
        assert {**head.headers, "date": ""} == {**get.headers, "date": ""}


def test_nothing_runs_on_the_page_but_what_the_server_serves(files):
    for reply in files.values():
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'" and policy["base-uri"] == "'none'" and policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'" and policy["trusted-types"] == "'none'"
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert reply.headers["x-content-type-options"] == "nosniff" and reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cross-origin-opener-policy"] == reply.headers["cross-origin-resource-policy"] == "same-origin"
    assert not re.search(rb"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", files["/"].body)


def test_the_page_is_small(browser, files):
    sizes = {path: len(browser.get(path, **{"Accept-Encoding": "gzip"}).body) for path in files}
    scripts = {path: size for path, size in sizes.items() if path.endswith(".js")}
    html = files["/"].body.decode()
    # What the page names itself, and what that imports at once, as against when it is needed: import("./x.js").
    first, names = set(), {f"/{name}" for name in re.findall(r'(?:src|href)="\./([^"]+\.js)"', html)}
    while names:
        path = names.pop()
        first.add(path)
        text = files[path].body.decode()
        names |= {f"/assets/{name}" for name in re.findall(r'(?:from|import)\s*"\./([\w.-]+\.js)"', text)} - first

    assert 0 < sum(scripts[path] for path in first) <= 60 * KB, scripts
    assert sum(scripts.values()) <= min(120 * KB, OTHERS_JS_BYTES / 8), scripts
    assert sum(size for path, size in sizes.items() if path.endswith(".css")) <= 10 * KB, sizes


def test_no_file_names_another_place_or_where_on_this_one_it_is(files):
    names_of_formats = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/1998/Math/MathML",
                        "http://www.w3.org/1999/xhtml", "http://www.w3.org/XML/1998/namespace"}
    for path, reply in files.items():
        text = reply.body.decode()
        addresses = set(re.findall(r"(?:https?|wss?)://[\w.:/-]+", text)) - names_of_formats
        assert not addresses, (path, addresses)
        assert not re.search(r"""["'`(=]//[\w-]+\.\w|(?:src|href|action)=["']?/|url\(["']?/|["'`]/(?:v1|login|logout|assets)\b""",
                             text), path


def test_a_file_that_is_gone_is_not_kept_under_its_name(browser):
    reply = browser.get("/assets/index-00000000.js")

    assert reply.status == 404 and reply.headers["cache-control"] == "no-store"


# ---- behind a proxy -----------------------------------------------------------------------------------------------

class PrefixProxy(http.server.BaseHTTPRequestHandler):
    """Takes the prefix off and hands everything else on as it is, also what comes bit by bit."""

    protocol_version = "HTTP/1.1"

    def handle_any(self):
        if not self.path.startswith("/some/where/"):
            self.send_error(404)
            return
        connection = http.client.HTTPConnection(*self.server.upstream, timeout=20)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection.request(self.command, self.path.removeprefix("/some/where"), body or None, dict(self.headers))
        reply = connection.getresponse()
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := reply.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()
        self.close_connection = True
        connection.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def python_proxy(upstream, _):
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), PrefixProxy)
    proxy.daemon_threads, proxy.upstream = True, upstream
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield proxy.server_address, "/some/where"
    finally:
        proxy.shutdown()
        proxy.server_close()


@contextlib.contextmanager
def nginx(upstream, directory):
    """With the lines of the documentation."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed")
    example = re.search(r"```nginx\n(.*?)```", (ROOT / "docs/page.md").read_text(), re.S)[1]
    assert "127.0.0.1:4100" in example and "location /interlock/" in example
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as free:
        port = free.server_address[1]
    (directory / "nginx.conf").write_text(
        f"daemon off; pid {directory}/pid; error_log {directory}/error.log; worker_processes 1; user root;\n"
        f"events {{}}\nhttp {{ access_log off; "
        + "".join(f"{kind}_temp_path {directory}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        + f"server {{ listen 127.0.0.1:{port};\n{example.replace('127.0.0.1:4100', '%s:%d' % upstream)}}} }}\n")
    process = subprocess.Popen([program, "-c", directory / "nginx.conf", "-e", directory / "error.log"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def listens():
            with contextlib.suppress(OSError):
                return Client(("127.0.0.1", port)).get("/interlock/healthz").status == 200
        eventually(listens, why=lambda: (directory / "error.log").read_text())
        yield ("127.0.0.1", port), "/interlock"
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("proxy", [python_proxy, nginx])
def test_behind_a_proxy_with_a_prefix_everything_is_where_the_page_looks_for_it(server, admin, tmp_path, proxy):
    with proxy(server.address, tmp_path) as (address, prefix):
        browser = Browser(Client(address), prefix)

        entered = browser.open(admin.post("/v1/login").ok(201)["link"])
        assert entered.status == 303 and entered.headers["location"].startswith("./#login=")
        assert browser.who()["id"] == admin.key.split("_")[1]
        assert set(page_files(browser)) == set(page_files(Browser(admin)))
        assert browser.post("/v1/sessions").ok(201)["id"]
        browser.post("/v1/sessions", {}, Origin="http://evil.example").refused(403, "origin_not_allowed")

        # What happens is seen at once, and the proxy does not wait for more.
        connection = http.client.HTTPConnection(*address, timeout=10)
        connection.request("GET", f"{prefix}/v1/events", headers=browser.login() | {"Accept": "text/event-stream"})
        stream = connection.getresponse()
        assert stream.status == 200 and stream.readline().startswith(b":")
        begun = time.monotonic()
        admin.agent()
        while not stream.readline().startswith(b"data: "):
            pass
        assert time.monotonic() - begun < 5
        connection.close()
        assert browser.post("/logout").status == 204


def test_a_proxy_that_speaks_tls_gets_a_cookie_for_tls(admin, browser):
    link = admin.post("/v1/login").ok(201)["link"]
    address = urllib.parse.urlsplit(link)

    entered = browser.get(f"{address.path}?{address.query}", **{"X-Forwarded-Proto": "https"})

    assert entered.headers["set-cookie"].endswith("; Secure")
