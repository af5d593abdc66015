"""What sealed runs reach: the server by their entrance, and the hosts that they are allowed to by its proxy.

The runs are in a network of its own with a public address and names that lead anywhere (sealed_lab.py).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

from interlock_server import eventually
from sealed_lab import ECHO, HTTP, HTTPS, PUBLIC, Lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a network with addresses of its own")

# Run inside. Sends each of the texts to the server on a connection of its own, and prints what comes back as JSON.
ASK = """
import json, os, socket, sys
answers = []
for text in json.loads(sys.argv[1]):
    with socket.create_connection(("127.0.0.1", int(os.environ["INTERLOCK_URL"].rsplit(":")[-1])), 15) as link:
        link.sendall(text.encode("latin-1"))
        link.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while part := link.recv(65536):
                received += part
        except OSError:
            pass
    answers.append(received.decode("latin-1"))
print(json.dumps(answers))
"""


class Site:
    """A server in the lab, and runs of it."""

    def __init__(self, binary, lab, home):
        self.binary, self.lab, self.home = binary, lab, home
        (home / "work").mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(home), "INTERLOCK_DATA": str(home / "data")}

    def cli(self, *words, check=True, **options):
        done = self.lab.run([self.binary, *words], env=self.environment, cwd=self.home, **options)
        assert not check or done.returncode == 0, (words, done)
        return done

    def sealed(self, *command, hosts=(), words=(), check=True, **options):
        allowed = [f"--allow-host={host}" for host in hosts]
        return self.cli("run", "--sandbox=sealed", "--quiet", "--workspace", self.home / "work", *allowed, *words, "--", *command,
                        check=check, **options)

    def ask(self, *texts, hosts=()):
        return json.loads(self.sealed("/usr/bin/python3", "-I", "-c", ASK, " " + json.dumps(texts), hosts=hosts).stdout)

    def connections(self):
        lines = self.cli("events", "--json", "--all", "--type", "connection_ended").stdout
        found = json.loads(lines)
        return [item["data"] for item in (found["items"] if isinstance(found, dict) else found)]


@pytest.fixture(scope="module")
def lab():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="interlock-lab-", dir="/var/tmp"))
    directory.chmod(0o755)
    with Lab(directory) as lab:
        yield lab
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def site(binary, lab):
    home = pathlib.Path(tempfile.mkdtemp(prefix="interlock-sealed-", dir="/var/tmp"))
    site = Site(binary, lab, home)
    site.cli("up", "--detach", "--listen", "127.0.0.1:0")
    yield site
    site.cli("down")
    shutil.rmtree(home)


def connect(host, early=""):
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n{early}"


def status(answer):
    return int(answer.split(" ", 2)[1]) if answer else 0


def test_the_api_and_the_gateway_are_there_without_a_key_that_works_elsewhere(site):
    script = """import json, os, urllib.request as u
def ask(key):
    return json.load(u.urlopen(u.Request(os.environ["INTERLOCK_URL"] + "/v1/keys/self", headers={"authorization": "Bearer " + key})))
print(json.dumps([os.environ["INTERLOCK_KEY"], os.environ["INTERLOCK_RUN"], ask("any text"), ask(os.environ["INTERLOCK_KEY"])]))"""
    key, run, first, second = json.loads(site.sealed("/usr/bin/python3", "-I", "-c", script).stdout)

    assert first == second and first["run"] == run, (first, run)
    outside = site.lab.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"authorization: Bearer {key}",
                            json.loads((site.home / "data/server.json").read_text())["url"] + "/v1/keys/self"])
    assert outside.stdout == "401", outside


def test_a_run_is_not_another_and_no_operator_by_any_key(site):
    outside = json.loads((site.home / "data/server.json").read_text())["url"]
    made = json.loads(site.cli("keys", "create", "--scope", "admin", "--json").stdout)
    key = made["key"]
    site.cli("agents", "put", "other")
    of_other = json.loads(site.cli("keys", "create", "--scope", "agent", "--agent", "other", "--json").stdout)["key"]
    own, = site.ask(f"GET /v1/keys/self HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {of_other}\r\nConnection: close\r\n\r\n")
    assert '"agent":"default"' in own and '"run":"run_' in own, own
    listed = site.lab.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"authorization: Bearer {key}", outside +
                           "/v1/keys"])
    assert listed.stdout == "200", listed  # It is an admin's outside.
    answers = site.ask(f"GET /v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n",
                       f"GET /v1/keys?key={key} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\nConnection: close\r\n\r\n",
                       f"GET /v1/keys HTTP/1.1\r\nHost: localhost\r\nCookie: interlock={key}\r\nConnection: close\r\n\r\n")
    assert [status(answer) for answer in answers] == [403, 403, 403], answers


def test_a_server_that_starts_again_has_the_entrance_again(site):
    script = """import os, sys, time, urllib.request as u
def ask():
    try:
        return u.urlopen(os.environ["INTERLOCK_URL"] + "/v1/keys/self", timeout=5).status
    except OSError as error:
        return str(error)
print(ask(), flush=True)
while not os.path.exists("restarted"): time.sleep(0.05)
end = time.monotonic() + 20
while (last := ask()) != 200 and time.monotonic() < end: time.sleep(0.1)
print(last, flush=True)"""
    (site.home / "work/restarted").unlink(missing_ok=True)
    run = site.cli("run", "--detach", "--quiet", "--sandbox=sealed", "--workspace", site.home / "work", "--", "/usr/bin/python3",
                   "-I", "-c", script).stdout.strip()
    log = site.home / "data/runs" / run / "output"
    eventually(lambda: log.exists() and log.read_text() == "200\n", why=lambda: site.cli("runs", "show", run).stdout)
    port = json.loads((site.home / "data/server.json").read_text())["url"].rsplit(":")[-1]
    os.kill(json.loads((site.home / "data/server.json").read_text())["pid"], 9)
    eventually(lambda: site.cli("up", "--detach", "--listen", f"127.0.0.1:{port}", check=False).returncode == 0)
    (site.home / "work/restarted").touch()
    eventually(lambda: log.read_text() == "200\n200\n", why=log.read_text)
    eventually(lambda: json.loads(site.cli("runs", "show", run, "--json").stdout)["status"] == "succeeded")


def test_an_allowed_host_is_reached_and_its_bytes_are_counted(site):
    before = len(site.connections())
    answer, = site.ask(connect(f"PUBLIC.test.:{ECHO}", "twelve bytes"), hosts=[f"public.test:{ECHO}"])

    assert answer == "HTTP/1.1 200 Connection established\r\n\r\ntwelve bytes"
    eventually(lambda: len(site.connections()) > before)
    last = site.connections()[-1]
    assert {name: last[name] for name in ("agent", "host", "port", "outcome", "bytes_out", "bytes_in")} == {
        "agent": "default", "host": "public.test", "port": ECHO, "outcome": "closed", "bytes_out": 12, "bytes_in": 12}
    assert last["run"].startswith("run_")


@pytest.mark.parametrize("host, rules, allowed", [
    (f"public.test:{ECHO}", [], False),
    (f"public.test:{ECHO}", ["public.test"], False),
    (f"public.test:{ECHO}", ["other.test:7000"], False),
    (f"public.test:{ECHO}", ["*.test:7000"], True),
    (f"a.below.test:{ECHO}", ["*.below.test:7000"], True),
    (f"a.below.test:{ECHO}", ["below.test:7000"], False),
    ("public.test:443", ["public.test"], True),
    ("nothing.test:443", ["*"], None),
])
def test_a_host_is_allowed_by_its_rule(site, host, rules, allowed):
    answer, = site.ask(connect(host), hosts=rules)

    assert status(answer) == (200 if allowed else 502 if allowed is None else 403), answer
    outcome = "closed" if allowed else "not_found" if allowed is None else "not_allowed"
    eventually(lambda: site.connections()[-1]["outcome"] == outcome)
    if allowed is False:
        assert "an operator can add it to allowed_hosts" in answer and "interlock" not in answer.split("\r\n\r\n")[1]


@pytest.mark.parametrize("name", ["loop.test", "ten.test", "cloud.test", "many.test", "zero.test", "six.test", "local.test", "link.test",
                                  "mapped.test", "nat.test"])
def test_a_name_that_leads_to_this_machine_or_a_private_network_is_refused(site, name):
    answer, = site.ask(connect(f"{name}:{ECHO}"), hosts=[f"*:{ECHO}"])

    assert status(answer) == 403 and "host_not_public" in answer, answer
    assert site.connections()[-1]["outcome"] == "not_public"
    assert f"echo 127.0.0.1" not in site.lab.hits()


def test_of_a_name_with_several_addresses_the_public_one_is_used(site):
    answer, = site.ask(connect(f"both.test:{ECHO}", "x"), hosts=[f"*:{ECHO}"])

    assert answer.endswith("\r\n\r\nx") and "echo 127.0.0.1" not in site.lab.hits()


def test_a_name_that_changes_its_address_does_not_lead_inside(site):
    """Each question for it is answered in turn with a public address and with 127.0.0.1, where something listens."""
    answers = site.ask(*[connect(f"rebind.test:{ECHO}", "x")] * 40, hosts=[f"*:{ECHO}"])

    codes = [status(answer) for answer in answers]
    assert codes.count(200) > 5 and codes.count(403) > 5, codes
    assert "echo 127.0.0.1" not in site.lab.hits()


@pytest.mark.parametrize("host", [
    PUBLIC, "93.184.55330", "0x5db8d822", "1572395042", "0135.0270.0330.042", "0x5d.0xb8d822", "127.0.0.1", "127.1", "0x7f.1", "0x7F.1",
    "2130706433", "017700000001", "127.0.0.1.", "[::1]", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "[64:ff9b::7f00:1]", "::1", "localhost",
    "LOCALHOST.", "public.test@127.0.0.1", "user:word@public.test", "127.0.0.1%00.public.test", "public.test\t", "public.test/",
    "http://public.test", "p\xfcblic.test", "", ".", "*", "*.test",
])
def test_addresses_in_all_spellings_and_what_is_no_host_are_refused(site, host):
    answers = site.ask(connect(f"{host}:{ECHO}"), f"GET http://{host}:{ECHO}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                       hosts=[f"*:{ECHO}"])

    assert all(status(answer) in (400, 403) for answer in answers), answers
    assert "echo 127.0.0.1" not in site.lab.hits()


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "+80", " 80", "80 ", "0x50", "80:80"])
def test_what_is_no_port_is_refused(site, port):
    assert status(site.ask(connect(f"public.test:{port}"), hosts=["*"])[0]) == 400


@pytest.mark.parametrize("host", ["api.openai.com:443", "eu.api.anthropic.com:443", "API.OpenAI.com.:443"])
def test_hosts_of_providers_are_not_reached_by_a_pattern(site, host):
    answer, = site.ask(connect(host), hosts=["*", "*.openai.com", "*.anthropic.com", "*.api.anthropic.com"])

    assert status(answer) == 403 and "through the gateway" in answer
    assert not any(line.startswith("https") and "openai" in line for line in site.lab.hits())


def test_the_hosts_of_upstreams_are_not_reached_either(site):
    site.cli("upstreams", "add", "ours", "--dialect", "openai", "--url", "https://upstream.test")
    try:
        answers = site.ask(connect("upstream.test:443"), hosts=["*"])
        assert status(answers[0]) == 403 and "through the gateway" in answers[0]
        refused = site.sealed("true", hosts=["upstream.test"], check=False)
        assert refused.returncode != 0 and "add it as an upstream" in refused.stderr, refused
    finally:
        site.cli("upstreams", "rm", "ours")
    refused = site.sealed("true", hosts=["api.openai.com"], check=False)
    assert refused.returncode != 0 and "is a model provider" in refused.stderr


@pytest.mark.parametrize("text", [
    "CONNECT public.test:7000 HTTP/1.1\r\nHost: public.test\r\nContent-Length: 10\r\n\r\n0123456789",
    "CONNECT public.test:7000 HTTP/1.1\r\nHost: public.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "CONNECT public.test:7000 HTTP/1.1\r\nHost: public.test\r\nHost: loop.test\r\n\r\n",
    "CONNECT public.test:7000 loop.test:7000 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT public.test:7000\r\n\r\n",
    "CONNECT public.test:7000 HTTP/1.1\nHost: a\n\n",
    "GET http://public.test:8080/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
])
def test_what_two_could_read_differently_is_refused(site, text):
    assert status(site.ask(text, hosts=["public.test:7000", "public.test:8080"])[0]) in (400, 501)


def test_behind_a_refused_connect_nothing_is_read(site):
    answer, = site.ask(connect("loop.test:7000", "GET /v1/keys/self HTTP/1.1\r\nHost: localhost\r\n\r\n"), hosts=["*:7000"])
    assert answer.count("HTTP/1.1 ") == 1, answer


def test_plain_http_is_forwarded_with_its_own_host_and_without_what_is_the_proxys(site):
    (site.lab.site / "page").write_text("the page")
    text = (f"GET http://public.test:{HTTP}/page?x=1 HTTP/1.1\r\nHost: loop.test\r\nProxy-Authorization: Basic abc\r\nX-Mine: m\r\n"
            "Connection: keep-alive, x-hop\r\nX-Hop: h\r\n\r\n")
    answer, second = site.ask(text + "GET /v1/keys/self HTTP/1.1\r\nHost: localhost\r\n\r\n",
                              f"POST http://public.test:{HTTP}/post HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
                              hosts=[f"public.test:{HTTP}"])

    assert answer.endswith("the page") and answer.count("HTTP/1.") == 1, answer
    assert second.endswith("body")
    assert f"http {PUBLIC} GET /page?x=1 host=public.test:{HTTP} via=m" in site.lab.hits()


def test_many_and_slow_connections_keep_no_other_client_out(site):
    script = """import os, socket, time
links = []
for _ in range(700):
    try:
        link = socket.create_connection(("127.0.0.1", int(os.environ["INTERLOCK_URL"].rsplit(":")[-1])), 5)
        link.sendall(b"CONNECT public.test:70")
        links.append(link)
    except OSError:
        break
print("many", flush=True)
while not os.path.exists("seen"): time.sleep(0.05)"""
    (site.home / "work/seen").unlink(missing_ok=True)
    run = site.cli("run", "--detach", "--quiet", "--sandbox=sealed", "--workspace", site.home / "work", "--", "/usr/bin/python3",
                   "-I", "-c", script).stdout.strip()
    log = site.home / "data/runs" / run / "output"
    eventually(lambda: log.exists() and log.read_text() == "many\n")
    began = time.monotonic()
    site.cli("runs", "ls")
    open_now = [line for line in site.lab.run(["cat", f"/proc/{os.getpid()}/net/unix"]).stdout.splitlines()][:1]
    assert open_now and time.monotonic() - began < 10
    pid = json.loads((site.home / "data/server.json").read_text())["pid"]
    assert len(os.listdir(f"/proc/{pid}/fd")) < 650  # 512 by an entrance, and the server's own.
    (site.home / "work/seen").touch()
    eventually(lambda: json.loads(site.cli("runs", "show", run, "--json").stdout)["status"] == "succeeded")


def test_a_private_host_is_reached_where_an_operator_says_so_and_never_this_server(site):
    port = json.loads((site.home / "data/server.json").read_text())["url"].rsplit(":")[-1]
    hosts = [f"ten.test:{ECHO}", f"loop.test:{ECHO}", f"loop.test:{port}"]
    assert status(site.ask(connect(f"loop.test:{ECHO}"), hosts=hosts)[0]) == 403
    before = site.lab.hits().count("echo 127.0.0.1")
    site.cli("sandbox", "set", f'private_hosts=["loop.test:{ECHO}", "loop.test:{port}"]')
    try:
        reached, itself, other = site.ask(connect(f"loop.test:{ECHO}", "x"), connect(f"loop.test:{port}"),
                                          connect(f"ten.test:{ECHO}"), hosts=hosts)
    finally:
        site.cli("sandbox", "set", "private_hosts=[]")
    assert status(reached) == 200 and site.lab.hits().count("echo 127.0.0.1") == before + 1
    assert status(itself) == 403 and status(other) == 403
    (site.lab.directory / "hits").write_text("\n".join(line for line in site.lab.hits() if line != "echo 127.0.0.1") + "\n")
    refused = site.cli("sandbox", "set", 'private_hosts=["*.test"]', check=False)
    assert refused.returncode != 0 and "private_hosts" in refused.stderr


def level_of(site, run):
    shown = lambda: json.loads(site.cli("runs", "show", run, "--json").stdout)  # noqa: E731
    eventually(lambda: shown()["status"] == "succeeded", why=lambda: str(shown()))
    return shown()["sandbox"]


def test_operators_set_the_default_and_the_minimum_while_the_server_runs(site):
    start = lambda *words: site.cli("run", "--detach", "--quiet", *words, "--no-workspace", "--", "true", check=False)  # noqa: E731
    try:
        site.cli("sandbox", "set", "minimum=files")
        refused = start("--sandbox=guarded")
        assert refused.returncode != 0 and "minimum is files" in refused.stderr, refused
        assert level_of(site, start().stdout.strip()) == "files"
        site.cli("sandbox", "set", "default=sealed")
        assert level_of(site, start().stdout.strip()) == "sealed"
        assert level_of(site, start("--sandbox=files").stdout.strip()) == "files"
        doctor = site.cli("doctor", check=False).stdout
        assert "default sealed, minimum files" in doctor
        for level in ("guarded", "files", "sealed"):
            assert f"ok    {level}" in doctor, doctor
        wrong = site.cli("sandbox", "set", "minimum=tight", check=False)
        assert wrong.returncode != 0 and "minimum" in wrong.stderr, wrong
        operator = json.loads(site.cli("keys", "create", "--scope", "operator", "--json").stdout)["key"]
        site.cli("--key", operator, "sandbox", "set", "minimum=guarded")
        hosts = site.cli("--key", operator, "sandbox", "set", 'private_hosts=["a.test"]', check=False)
        assert hosts.returncode != 0 and "needs an admin key" in hosts.stderr, hosts
    finally:
        site.cli("sandbox", "set", "minimum=null", "default=null", "private_hosts=null")
    assert level_of(site, start().stdout.strip()) == "guarded"


def test_hosts_are_for_sealed_runs(site):
    refused = site.cli("run", "--sandbox=files", "--allow-host", "public.test", "--no-workspace", "--", "true", check=False)
    assert refused.returncode != 0 and "allowed_hosts is for runs at the sandbox level sealed" in refused.stderr, refused
    refused = site.sealed("true", hosts=["10.0.0.1"], check=False)
    assert refused.returncode != 0 and "and not an address" in refused.stderr, refused


# ---- programs -----------------------------------------------------------------------------------------------------

def test_curl_and_git_over_https(site):
    repository = site.lab.site / "repo.git"
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(f"rm -rf {repository} /var/tmp/lab-repo; git init -q -b main /var/tmp/lab-repo && cd /var/tmp/lab-repo && "
                   f"echo hi > a && git add a && git {' '.join(identity)} commit -qm one && "
                   f"git clone -q --bare . {repository} && cd {repository} && git update-server-info; rm -rf /var/tmp/lab-repo",
                   shell=True, check=True)
    authority = site.lab.authority
    script = f"""set -e; rm -rf clone; export GIT_SSL_CAINFO={authority}
        git clone -q https://registry.test:{HTTPS}/repo.git clone && cat clone/a
        curl -s --cacert {authority} https://registry.test:{HTTPS}/repo.git/HEAD"""
    said = site.sealed("sh", "-c", script, hosts=[f"registry.test:{HTTPS}"], words=["--readable", authority])
    assert said.stdout == "hi\nref: refs/heads/main\n", said
    refused = site.sealed("sh", "-c", script, hosts=["registry.test"], words=["--readable", authority], check=False)
    assert refused.returncode != 0 and "403" in refused.stderr, refused


def test_npm_from_a_registry(site):
    if not shutil.which("npm"):
        pytest.skip("there is no npm")
    package = site.lab.directory / "package"
    package.mkdir(exist_ok=True)
    (package / "package.json").write_text('{"name": "lab-thing", "version": "1.0.0", "main": "index.js"}')
    (package / "index.js").write_text("module.exports = 'from the registry'")
    subprocess.run(["tar", "czf", site.lab.site / "lab-thing-1.0.0.tgz", "-C", site.lab.directory, "package"], check=True)
    registry = f"https://registry.test:{HTTPS}"
    (site.lab.site / "lab-thing").write_text(json.dumps({
        "name": "lab-thing", "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {"name": "lab-thing", "version": "1.0.0", "dist": {"tarball": f"{registry}/lab-thing-1.0.0.tgz"}}}}))
    script = f"""set -e; rm -rf npm && mkdir npm && cd npm && npm init -y > /dev/null
        npm install --registry {registry} --cafile {site.lab.authority} --no-audit --no-fund --loglevel=error lab-thing
        node -e 'console.log(require("lab-thing"))'"""
    said = site.sealed("sh", "-c", script, hosts=[f"registry.test:{HTTPS}"], words=["--readable", site.lab.authority])
    assert "from the registry" in said.stdout, said


def test_pip_from_an_index(site):
    if subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], capture_output=True).returncode != 0:
        pytest.skip("there is no pip")
    source = site.lab.directory / "wheel"
    subprocess.run(["/usr/bin/python3", "-I", "-c", f"""
import pathlib, zipfile
folder = pathlib.Path({str(site.lab.site)!r}) / "simple/lab-thing"
folder.mkdir(parents=True, exist_ok=True)
name = "lab_thing-1.0-py3-none-any.whl"
with zipfile.ZipFile(folder / name, "w") as wheel:
    wheel.writestr("lab_thing.py", "WHAT = 'from the index'")
    wheel.writestr("lab_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: lab-thing\\nVersion: 1.0\\n")
    wheel.writestr("lab_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: lab\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("lab_thing-1.0.dist-info/RECORD", "")
(folder / "index.html").write_text(f'<a href="{{name}}">{{name}}</a>')
"""], check=True)
    assert not source.exists()
    script = f"""set -e; rm -rf pip
        /usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target pip --cert {site.lab.authority} \\
            --index-url https://registry.test:{HTTPS}/simple lab-thing
        PYTHONPATH=pip /usr/bin/python3 -c 'import lab_thing; print(lab_thing.WHAT)'"""
    said = site.sealed("sh", "-c", script, hosts=[f"registry.test:{HTTPS}"], words=["--readable", site.lab.authority])
    assert "from the index" in said.stdout, said


def test_apt_over_plain_http(site):
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("there is no apt")
    build, repository = site.lab.directory / "deb", site.lab.site / "debian"
    (build / "DEBIAN").mkdir(parents=True, exist_ok=True)
    repository.mkdir(exist_ok=True)
    (build / "DEBIAN/control").write_text("Package: lab-thing\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", build, repository / "lab-thing_1.0_all.deb"], check=True,
                   capture_output=True)
    deb = (repository / "lab-thing_1.0_all.deb").read_bytes()
    import hashlib
    (repository / "Packages").write_text("Package: lab-thing\nVersion: 1.0\nArchitecture: all\nMaintainer: a <a@b>\nDescription: x\n"
                                         f"Filename: ./lab-thing_1.0_all.deb\nSize: {len(deb)}\n"
                                         f"SHA256: {hashlib.sha256(deb).hexdigest()}\n")
    # As far as a run may go that is not root outside: lists and archives in directories of its own.
    script = f"""set -e; rm -rf apt && mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts
        echo 'deb [trusted=yes] http://registry.test:{HTTP}/debian ./' > apt/sources
        set -- -qq -o Dir::Etc::SourceList=$PWD/apt/sources -o Dir::Etc::SourceParts=$PWD/apt/parts -o Dir::State::Lists=$PWD/apt/lists \\
            -o Dir::Cache=$PWD/apt/cache -o APT::Sandbox::User=root -o Debug::NoLocking=1
        apt-get "$@" update && cd apt && apt-get "$@" download lab-thing && ls *.deb"""
    said = site.sealed("sh", "-c", script, hosts=[f"registry.test:{HTTP}"])
    assert said.stdout.split()[-1] == "lab-thing_1.0_all.deb", said
