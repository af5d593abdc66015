"""No body that a key can send keeps the threads of connections busy: they would answer no other client meanwhile.

Counted are the bytes of bodies that are read on these threads, and the processor time that the threads take.
"""

import json
import pathlib
import re

import pytest

from gateway_lab import CHAT, EMBEDDINGS, GENERATE, MESSAGES, RESPONSES, Lab
from interlock_server import eventually, fresh

COSTLY = ["members", "objects of many members", "numbers", "empty arrays", "nested arrays", "escapes"]
BELOW_LIMIT = 200 << 10  # Read on the thread of its connection.
ABOVE_LIMIT = 300 << 10  # Read by a worker.
LARGE = 4 << 20
COUNT_TOKENS = "/v1/messages/count_tokens"


def objects(size):
    one = json.dumps({f"{number:x}": [] for number in range(900)}, separators=(",", ":"))
    return "[" + ",".join([one] * (size // len(one) + 1)) + "]"


# JSON values of a given size, each expensive to read in its own way. The last of them are not valid.
VALUES = {
    "one string": lambda size: '"' + "x" * size + '"',
    "escapes": lambda size: '"' + r"\u0041" * (size // 6) + '"',
    "control characters": lambda size: '"' + r"\u0001" * (size // 6) + '"',
    "surrogates": lambda size: '"' + r"\ud83d\ude00" * (size // 12) + '"',
    "wide characters": lambda size: '"' + "\U0001f600" * (size // 4) + '"',
    "members": lambda size: "{" + ",".join(f'"{number:x}":0' for number in range(size // 9)) + "}",
    "objects of many members": objects,
    "duplicates": lambda size: "{" + ",".join(['"a":0'] * (size // 6)) + "}",
    "numbers": lambda size: "[" + ",".join(["1e9"] * (size // 4)) + "]",
    "a long number": lambda size: "1" * size,
    "blanks": lambda size: " " * size + "0",
    "empty arrays": lambda size: "[" + ",".join(["[]"] * (size // 3)) + "]",
    "nested arrays": lambda size: "[" + ",".join(["[" * 20 + "]" * 20] * (size // 41)) + "]",
    "deep nesting": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "open brackets": lambda size: "[" * size,
    "open objects": lambda size: '{"a":' * (size // 5),
    "invalid UTF-8 at the end": lambda size: '"' + "x" * size + "\udcff" + '"',
    "a string without an end": lambda size: '"' + "x" * size,
}


@pytest.fixture(scope="module")
def lab(binary, tmp_path_factory):
    with Lab(binary, tmp_path_factory.mktemp("bodies")) as lab:
        yield lab
        eventually(lambda: lab.admin.items("/v1/holds", status="open") == [])
        lab.server.verify()


@pytest.fixture(scope="module")
def writer(lab):
    """A client with an agent's key, and what it needs to send bodies everywhere."""
    agent = lab.admin.agent()
    client = lab.admin.make_key("agent", agent=agent)
    client.agent, client.session_id = agent, lab.admin.session(agent=agent)
    return client


def bytes_read(lab):
    """On threads of connections, and by workers; of the API and of the gateway."""
    text = lab.admin.get("/metrics").body.decode()

    def sum_of(thread):
        found = re.findall(rf"^interlock_(?:http|gateway)_{thread}_read_bytes_total\S* (\S+)$", text, re.M)
        assert len(found) == 2, text
        return sum(int(float(number)) for number in found)

    return sum_of("io"), sum_of("worker")


def io_seconds(lab):
    """Processor time of the threads of connections."""
    nanos = 0
    for task in pathlib.Path(f"/proc/{lab.server.process.pid}/task").iterdir():
        if (task / "comm").read_text().strip() == "http":
            nanos += int((task / "schedstat").read_text().split()[0])
    assert nanos > 0
    return nanos / 1e9


def with_value(known, value):
    """The JSON object `known` with one member more."""
    return (json.dumps(known)[:-1] + f', "x": {value}}}').encode(errors="surrogateescape")


def model_calls(value):
    text = value.startswith('"')
    said = value if text else '"x"'
    more = "" if text else f',"metadata":{value}'
    for api in (CHAT, RESPONSES, MESSAGES, EMBEDDINGS):
        words = f'"input":{said}' if api.takes_input else f'"messages":[{{"role":"user","content":{said}}}],"max_tokens":5'
        yield api.path, f'{{"model":"lab/m",{words}{more}}}'
    yield COUNT_TOKENS, f'{{"model":"lab/m","messages":[{{"role":"user","content":{said}}}]{more}}}'
    for stream in (False, True):
        yield (GENERATE.target("lab/m", stream),
               f'{{"contents":[{{"role":"user","parts":[{{"text":{said}}}]}}]{more.replace("metadata", "labels")}}}')


def api_calls(writer, value):
    yield "/v1/charges", with_value({"agent": writer.agent, "cost": "0.01"}, value)
    yield "/v1/charges", b"[" + with_value({"agent": writer.agent, "cost": "0.01"}, value) + b"]"
    yield "/v1/charges", (f'{{"agent":"{writer.agent}","cost":"0.01","tags":{value}}}').encode(errors="surrogateescape")
    yield f"/v1/sessions/{writer.session_id}/messages", with_value({"role": "user", "content": "x"}, value)
    member = "content" if value.startswith('"') else "metadata"
    message = {"role": '"user"', "content": '"x"', member: value}
    yield (f"/v1/sessions/{writer.session_id}/messages",
           ("{" + ",".join(f'"{name}":{each}' for name, each in message.items()) + "}").encode(errors="surrogateescape"))


def hostile_requests(writer, value):
    """Path, body and content type: wherever the key of an agent sends JSON of its own."""
    for path, body in api_calls(writer, value):
        yield path, body, "application/json"
    for path, body in model_calls(value):
        yield path, body.encode(errors="surrogateescape"), "application/json"
    line = f'{{"interlock_session":1,"agent":"{writer.agent}","title":"t","metadata":{value}}}\n'
    yield "/v1/sessions/import", line.encode(errors="surrogateescape"), "application/x-ndjson"


def post(client, path, body, content_type="application/json"):
    return client.request("POST", path, body, headers={"Content-Type": content_type})


@pytest.mark.parametrize("kind", VALUES)
def test_a_large_body_of_any_kind_is_read_by_workers_alone(lab, writer, kind):
    for path, body, content_type in hostile_requests(writer, VALUES[kind](ABOVE_LIMIT)):
        on_io, on_workers = bytes_read(lab)
        answer = post(writer, path, body, content_type)
        assert answer.status < 500, answer
        after_io, after_workers = bytes_read(lab)
        # What the provider answers is short and counts, too.
        assert after_io - on_io < 10_000, (path, answer)
        assert after_workers - on_workers >= len(body), (path, answer)


def test_a_small_body_is_counted_where_it_is_read(lab, writer):
    for path, body, content_type in hostile_requests(writer, VALUES["nested arrays"](BELOW_LIMIT)):
        on_io, on_workers = bytes_read(lab)
        answer = post(writer, path, body, content_type)
        assert answer.status < 500, answer
        after_io, after_workers = bytes_read(lab)
        assert after_io - on_io >= len(body) and after_workers == on_workers, (path, answer)


def test_no_route_reads_a_large_body_on_the_threads_of_connections(lab, writer):
    """Every route of the API that takes a body, with the admin's key, so that no lack of rights answers first."""
    body = with_value({}, VALUES["members"](ABOVE_LIMIT))
    tried = 0
    for path, methods in lab.admin.get("/openapi.json").ok(200)["paths"].items():
        for method, operation in methods.items():
            if "requestBody" not in operation or path.startswith("/v1/orgs"):
                continue
            named = re.sub(r"\{(\w+)\}", lambda found: writer.session_id if "sessions" in path else fresh("x"), path)
            types = operation["requestBody"]["content"]
            on_io, _ = bytes_read(lab)
            answer = lab.admin.request(method.upper(), named, body, headers={"Content-Type": next(iter(types))})
            assert 400 <= answer.status < 500, answer
            after_io, _ = bytes_read(lab)
            assert after_io == on_io, (method, named, answer)
            tried += 1
    assert tried > 40


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", "text/plain"])
def test_a_login_reads_short_bodies_only(lab, writer, content_type):
    body = b'{"key":"' + b"x" * ABOVE_LIMIT + b'"}'
    headers = {"Content-Type": content_type}
    answer = writer.request("POST", "/login", body, headers=headers)
    assert answer.status in (400, 413), answer
    assert lab.admin.with_key(None).request("POST", "/login", body, headers=headers).status in (401, 413)


@pytest.mark.parametrize("kind", COSTLY)
def test_a_hostile_body_takes_the_threads_of_connections_no_longer_than_bytes_that_are_not_read(lab, writer, kind):
    """By processor time, which other programs on the machine do not change much."""
    writer.forget()  # The server has closed it if it rested for long.
    value = VALUES[kind](LARGE)

    def seconds(path, body, content_type):
        begun = io_seconds(lab)
        answer = post(writer, path, body, content_type)
        assert answer.status < 500, answer
        return io_seconds(lab) - begun

    plain = max(seconds("/v1/charges", b"x" * len(value), "text/plain") for _ in range(3))
    for path, body, content_type in hostile_requests(writer, value):
        # Once copied, passed on and hashed it may be; read, it would take ten times as long.
        took = min(seconds(path, body, content_type) for _ in range(2))
        assert took < 4 * plain + 0.01, (path, took, plain)


def test_a_page_of_large_messages_is_written_by_a_worker(lab, writer):
    for client in (writer, lab.admin):
        client.forget()
    session = lab.admin.session(agent=writer.agent)
    content = "\x01" * (600 << 10)  # Each takes six bytes in JSON.
    for _ in range(30):
        writer.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": content}).ok()
    plain = io_seconds(lab)
    post(writer, "/v1/charges", b"x" * LARGE, "text/plain")
    plain = io_seconds(lab) - plain

    for path in (f"/v1/sessions/{session}/messages?limit=1000", f"/v1/sessions/{session}/export"):
        begun = io_seconds(lab)
        answer = writer.get(path)
        took = io_seconds(lab) - begun
        assert answer.status == 200 and len(answer.body) > 6 * len(content), answer.status
        assert took < 4 * plain * len(answer.body) / LARGE + 0.02, (path, took, plain)
    page = writer.get(f"/v1/sessions/{session}/messages", limit=1000).ok(200)
    assert 20 <= len(page["items"]) < 30 and page["next"] == str(len(page["items"]) - 1), len(page["items"])
    assert len(writer.items(f"/v1/sessions/{session}/messages")) == 30
