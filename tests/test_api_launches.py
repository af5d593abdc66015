"""Runs that the server starts, as far as the API goes: what is asked for, who may, and what is shown of it.

Most of them are in the foreground: nothing is started then until somebody's terminal comes for it, and none does.
"""

import pytest

from interlock_server import eventually, fresh

pytestmark = pytest.mark.seconds_max(30)


@pytest.fixture
def agent(admin):
    return admin.agent(max_concurrent_runs=50, command=["true"])


@pytest.fixture
def place(tmp_path):
    made = tmp_path / "place"
    made.mkdir()
    return made.resolve()


def end(client, run):
    client.post(f"/v1/runs/{run['id']}/cancel", {"fence": run["fence"]}).ok(200)


def test_what_is_started_is_shown_without_the_values_of_its_environment(admin, agent, place):
    made = admin.run(agent, command=["make", "-j2", ""], foreground=True, name="build", budget="1.50",
                     workspace=str(place), env={"TOKEN": "secret-value"}, pass_env=["LANG"], timeout_s=60, grace_s=5,
                     nice=3, limits={"nofile": 64}, sandbox=True, writable=["/tmp"], setup="true")

    told = admin.get(f"/v1/runs/{made['id']}").ok(200)
    assert {**made, **told} == made
    assert "secret-value" not in str(made)
    expected = {"command": ["make", "-j2", ""], "name": "build", "supervised": True, "budget": "1.50", "attempt": 1,
                "retry_of": None, "not_before": None, "exit_code": None, "workspace": str(place)}
    assert {member: told[member] for member in expected} == expected
    assert told["node"] and told["hold"], "what it may spend is set aside for it"
    assert told["process"] == {
        "directory": str(place), "env": ["TOKEN"], "pass_env": ["LANG"], "timeout_s": 60, "grace_s": 5, "nice": 3,
        "limits": {"nofile": 64}, "sandbox": True, "sandbox_level": "files",
        "writable": ["/tmp"], "readable": [], "allowed_hosts": [], "adapter": "", "setup": "true", "teardown": "",
        "foreground": True, "retry": {"tries": 1, "max_attempts": 1, "backoff_s": 10, "backoff_max_s": 600}}
    listed = admin.items("/v1/runs", name="build", agent=agent)
    assert [each["id"] for each in listed] == [made["id"]] and "command" not in listed[0]
    end(admin, made)


def test_without_a_command_the_agents_own_is_started(admin, agent):
    made = admin.run(agent, launch=True, foreground=True, retry={"tries": 5})

    assert made["command"] == ["true"] and made["supervised"] is True
    assert made["process"]["retry"]["tries"] == 1, "what is in a terminal is not tried again"
    end(admin, made)
    admin.post("/v1/runs", {"agent": admin.agent(), "launch": True}).refused(422, "no_command")
    admin.post("/v1/runs", {"agent": "nobody", "launch": True}).refused(404, "not_found")


@pytest.mark.parametrize("body, pointer", [
    ({"timeout_s": 5}, "/timeout_s"), ({"env": {"A": "b"}}, "/env"), ({"foreground": True}, "/foreground"),
    ({"command": [], "nice": 1}, "/command"), ({"command": ["a"], "workspace": "here"}, "/workspace"),
    ({"command": ["a"], "writable": ["there"]}, "/writable"), ({"command": ["a"], "budget": "0"}, "/budget"),
    ({"command": ["a"], "env": {"INTERLOCK_KEY": "x"}}, "/env"), ({"command": ["a"], "limits": {"nofile": "x"}},
                                                                 "/limits/nofile"),
    ({"command": "a"}, "/command"), ({"command": ["a"], "retry": {"more": 1}}, "/retry/more")])
def test_what_makes_no_sense_is_refused_by_name(admin, agent, body, pointer):
    admin.post("/v1/runs", {"agent": agent, **body}).refused(400, "invalid_request", pointer)


def test_what_is_isolated_needs_a_repository(admin, agent, place):
    body = {"agent": agent, "launch": True, "foreground": True, "isolate": True}
    admin.post("/v1/runs", {**body, "workspace": str(place)}).refused(422, "not_a_repository")
    admin.post("/v1/runs", body).refused(422, "not_a_repository")


def test_a_node_starts_its_own_runs(admin, agent):
    told = admin.post("/v1/runs", {"agent": agent, "launch": True, "node": "elsewhere"}).refused(409, "other_node")
    assert told["node"] == "elsewhere" and told["url"] is None


# An agent reads what strangers wrote. By its key it must not come to a process of the server's user.
@pytest.mark.parametrize("member, value", [
    ("command", ["sh", "-c", "evil"]), ("env", {"LD_PRELOAD": "/evil.so"}), ("pass_env", ["SECRET"]),
    ("setup", "evil"), ("teardown", "evil"), ("writable", ["/"]), ("limits", {"nofile": 1_000_000}), ("sandbox", False),
    ("sandbox_level", "off"), ("readable", ["/"]),
    ("adapter", "claude"), ("nice", -20), ("timeout_s", 0), ("grace_s", 600), ("retry", {"tries": 100}),
    ("foreground", True), ("workspace", "/"), ("resources", []), ("mode", "read"), ("isolate", False),
    ("isolate_into", "/tmp"), ("provider", "other")])
def test_an_agents_key_starts_its_own_command_as_it_is_set_up(admin, agent, member, value):
    bound, loose = admin.make_key("agent", agent=agent), admin.make_key("agent")

    for key in (bound, loose):
        key.post("/v1/runs", {"agent": agent, "launch": True, member: value}).refused(403, "forbidden", f"/{member}")


def test_an_agents_key_starts_its_own_command_and_nobody_elses(admin, agent):
    key, other = admin.make_key("agent", agent=agent), admin.agent(command=["true"])

    made = key.run(agent, launch=True, name="again", budget="0.10", lease_s=5)

    assert made["command"] == ["true"]
    key.post("/v1/runs", {"agent": other, "launch": True}).refused(404, "not_found")
    key.post(f"/v1/runs/{made['id']}/retry").refused(403, "forbidden")
    key.post(f"/v1/runs/{made['id']}/pause").refused(403, "forbidden", "/fence")
    admin.post(f"/v1/runs/{made['id']}/cancel")


def test_only_what_the_server_started_and_has_ended_is_started_again(admin, agent):
    owned = admin.run(agent)
    admin.post(f"/v1/runs/{owned['id']}/retry").refused(409, "wrong_state")
    admin.finish(owned).ok(200)
    admin.post(f"/v1/runs/{owned['id']}/retry").refused(409, "wrong_state")
    here = admin.run(agent, launch=True, foreground=True)
    end(admin, here)
    admin.post(f"/v1/runs/{here['id']}/retry").refused(409, "wrong_state")
    resource = fresh("resource")
    first = admin.run(agent, command=["true", "x"], name="job", budget="0.20", resources=[resource], tags={"a": "b"})
    admin.post(f"/v1/runs/{first['id']}/cancel", {"fence": first["fence"]})
    eventually(lambda: admin.get(f"/v1/runs/{first['id']}").ok()["ended_at"])
    key = fresh("key")

    again = admin.post(f"/v1/runs/{first['id']}/retry", idempotency=key).ok(201)
    repeat = admin.post(f"/v1/runs/{first['id']}/retry", idempotency=key).ok(201)

    assert again["id"] == repeat["id"] != first["id"] and repeat["repeated"] is True
    for member in ("command", "process", "name", "budget", "agent", "tags", "places"):
        assert again[member] == first[member], member
    admin.post(f"/v1/runs/{again['id']}/cancel", {"fence": again["fence"]})


def test_there_is_no_log_of_what_the_server_did_not_start(admin, agent):
    for run in (admin.run(agent), admin.run(agent, launch=True, foreground=True)):
        admin.get(f"/v1/runs/{run['id']}/log").refused(404, "log_not_kept")
        for query in ({"limit": 0}, {"limit": 2**20 + 1}, {"wait": 31}, {"wait": -1}, {"offset": "x"}):
            admin.get(f"/v1/runs/{run['id']}/log", **query).refused(400, "invalid_request")
        end(admin, run)
    admin.get("/v1/runs/run_00000000000000000000000001/log").refused(404, "not_found")


def test_worktrees_are_listed_and_nothing_is_forced_by_accident(admin):
    assert admin.get("/v1/worktrees").ok(200) == {"items": [], "next": None}
    assert admin.post("/v1/worktrees/gc").ok(200)["items"] == []
    admin.post("/v1/worktrees/gc", {"remove": True, "force": True}).refused(400, "invalid_request", "/force")
    nobody = "run_00000000000000000000000001"
    admin.post("/v1/worktrees/gc", {"runs": [nobody]}).refused(404, "not_found")
    admin.get(f"/v1/worktrees/{nobody}").refused(404, "not_found")
    admin.post(f"/v1/worktrees/{nobody}/restore").refused(404, "not_found")
