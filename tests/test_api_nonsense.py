"""Nonsense over HTTP, from a seed: whatever is sent, the server answers, says what is wrong, and keeps its promises.

To see a failing story again: INTERLOCK_SEED=<seed>. INTERLOCK_LONG=1 makes it longer.
"""

import os
import random
import socket
import urllib.parse

import pytest

from interlock_server import LOST, fresh

pytestmark = pytest.mark.seconds_max(60)

LONG = os.environ.get("INTERLOCK_LONG") == "1"
SEED = int(os.environ.get("INTERLOCK_SEED", "1"))
NASTY = [None, True, False, 0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -2**63, 10**30, 0.5, -0.0, 1e308, "", " ", "0",
         "-1", "1e9", "NaN", "\0", "\n", "a\0b", "é", "🙂", "\u202e", "../..", "/", "/etc/passwd", "/proc/self/fd/0", "x" * 300,
         "y" * 5000, "'; drop table runs; --", "$1", "%s", "ses_", "run_" + "z" * 26, "hold_" + "7" * 26, "9" * 40,
         "0.0000000001", "9223372036.854775807", "9223372036.854775808", "UTC", "* * * * *", "* * 31 2 *", [], {}, [[]], [None],
         ["a"] * 100, {"a": "b"}, {"a": {"b": {"c": []}}}, {"": ""}, {"x" * 200: "y"}, [{}] * 3]


@pytest.fixture(scope="module")
def world(server):
    """Real things to hit, so that not everything ends at a 404."""
    admin, agent = server.admin, server.admin.agent(max_concurrent_runs=1000)
    run = admin.run(agent, lease_s=3600)
    session = admin.session(agent=agent)
    admin.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": "x"}).ok(201)
    hold = admin.post("/v1/holds", {"agent": agent, "amount": "0.25", "ttl_s": 3600}).ok(201)["id"]
    budget = admin.budget("1000.00", scope={"agent": agent})
    schedule = fresh("schedule")
    admin.put(f"/v1/schedules/{schedule}", {"agent": agent, "every": "1d"}).ok()
    return {"agents": agent, "runs": run["id"], "sessions": session, "holds": hold, "budgets": budget,
            "schedules": schedule, "keys": "000000000000", "fence": run["fence"]}


def routes(server):
    paths = server.admin.get("/openapi.json").ok(200)["paths"]
    return [(method.upper(), path, operation) for path, methods in sorted(paths.items())
            for method, operation in sorted(methods.items()) if path not in ("/v1/backup", "/v1/verify")]


def members_of(operation):
    """Name: schema of every member that the route's body may have."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    found = {}
    for one in schema.get("oneOf", [schema]):
        found |= one.get("properties", {})
    return list(found)


def sane(member, world):
    return {"agent": world["agents"], "run": world["runs"], "session": world["sessions"], "fence": world["fence"],
            "cost": "0.01", "amount": "0.01", "limit": "1000.00", "role": "user", "content": "x", "scopes": ["read"],
            "max_live": 1000, "at_seq": 0, "ttl_s": 600, "every": "1d", "lease_s": 3600}.get(member)


def check(reply):
    assert reply.status < 500, reply
    if reply.status >= 400:
        assert reply.problem()["code"], reply


def test_members_of_all_kinds_are_answered(server, admin, world):
    chance = random.Random(SEED)
    for method, path, operation in routes(server):
        if method not in ("POST", "PUT"):
            continue
        members = members_of(operation)
        for _ in range(120 if LONG else 25):
            names = chance.sample(members, chance.randint(0, min(4, len(members)))) if members else []
            body = {member: value for member in members if (value := sane(member, world)) is not None}
            body |= {name: chance.choice(NASTY) for name in names}
            target = path.replace("{id}", str(world.get(path.split("/")[2], "x"))).replace("{name}", fresh("name"))
            headers = {"Idempotency-Key": fresh("key")} if chance.random() < 0.3 else {}
            check(admin.request(method, target, body, headers=headers))
    assert server.verify()


def test_paths_and_parameters_of_all_kinds_are_answered(server, admin, world):
    chance = random.Random(SEED + 1)
    texts = [value if isinstance(value, str) else str(value) for value in NASTY if not isinstance(value, (list, dict))]
    for method, path, operation in routes(server):
        names = [parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"]
        for _ in range(60 if LONG else 12):
            segment = urllib.parse.quote(chance.choice(texts)[:300], safe="")
            target = path.replace("{id}", segment).replace("{name}", segment)
            query = {name: chance.choice(texts)[:500] for name in chance.sample(names, chance.randint(0, len(names)))}
            if query:
                target += "?" + urllib.parse.urlencode(query)
            check(admin.request(method, target, {} if method in ("POST", "PUT") else None))
    assert server.verify()


def test_bytes_of_all_kinds_do_not_bring_the_server_down(server, admin):
    chance = random.Random(SEED + 2)
    good = (f"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {admin.key}\r\n"
            "Content-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"title\":\"x\"}").encode()
    for _ in range(1000 if LONG else 150):
        data = bytearray(good * chance.randint(1, 3))
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(data))
            data[at:at + chance.randint(0, 3)] = bytes(chance.choices(b"\r\n\0 :;,0129aZ\xff\x80{}\"", k=chance.randint(0, 3)))
        with socket.create_connection(server.address, 10) as connection:
            connection.sendall(data[:chance.randint(1, len(data))])
            if chance.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
                try:
                    while connection.recv(65536):
                        pass
                except LOST:
                    pass
    admin.get("/v1/status").ok(200)
    assert server.verify()
