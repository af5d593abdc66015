"""An API key below operator claims only its agent's directories, ends only its agent's runs, and jumps no queue."""

import os
import sqlite3

import pytest

from interlock_server import ON_POSTGRES, Server, fresh
from supervised import git, repository


class Shop:
    """An agent with a workspace, its key, and a directory of another agent."""

    def __init__(self, admin, path):
        self.admin = admin
        self.own, self.other = path / "own", path / "other"
        (self.own / "src").mkdir(parents=True)
        self.other.mkdir()
        self.agent = admin.agent(workspace=str(self.own), max_concurrent_runs=100)
        self.key = admin.make_key("agent", agent=self.agent)

    def post(self, key=None, **body):
        return (key or self.key).post("/v1/runs", {"agent": self.agent, **body})

    def put(self, **body):
        return self.admin.put(f"/v1/agents/{self.agent}", {"max_concurrent_runs": 100, **body}).ok(200)


@pytest.fixture
def shop(admin, tmp_path):
    return Shop(admin, tmp_path)


# ---- places -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("bound", [True, False])
def test_a_key_claims_below_the_agents_workspace_only(shop, bound, mode):
    key = shop.key if bound else shop.admin.make_key("agent")
    for place in ("/", str(shop.other), str(shop.own.parent), f"{shop.own}/../other", f"{shop.other}/",
                  f"/proc/self/root{shop.other}", f"/proc/self/root/"):
        refusal = shop.post(key, workspace=place, mode=mode).refused(403, "outside_roots")
        assert str(shop.own) in refusal["detail"] and "--root" in refusal["detail"]

    run = shop.post(key, workspace=f"{shop.own}/src/../src/", mode=mode).ok(201)
    assert run["workspace"] == f"{shop.own}/src"
    shop.admin.run(shop.agent, workspace=str(shop.other))


def test_a_path_is_absolute_and_there(shop):
    for place in ("own", "./own", f"{shop.own}/not-there"):
        shop.post(workspace=place).refused(400, "invalid_request", "/workspace")


def test_links_lead_nowhere_else(shop):
    (shop.own / "link").symlink_to(shop.other)
    shop.post(workspace=str(shop.own / "link")).refused(403, "outside_roots")
    (shop.other / "back").symlink_to(shop.own)
    assert shop.post(workspace=str(shop.other / "back")).ok(201)["workspace"] == str(shop.own)


def test_roots_are_for_operators_to_set_and_are_shown(shop):
    shop.key.put(f"/v1/agents/{shop.agent}", {"roots": ["/"]}).refused(403, "forbidden")
    shown = shop.put(workspace=str(shop.own), roots=[str(shop.other)])
    assert shown["roots"] == [str(shop.other)]
    assert shop.key.get(f"/v1/agents/{shop.agent}").ok()["roots"] == [str(shop.other)]

    shop.post(workspace=str(shop.other)).ok(201)
    shop.post(workspace=str(shop.own)).ok(201)
    shop.post(workspace=str(shop.own.parent)).refused(403, "outside_roots")
    shop.admin.put(f"/v1/agents/{shop.agent}", {"roots": ["own"]}).refused(400, "invalid_request")


@pytest.mark.parametrize("member", ["workspace", "roots"])
def test_a_root_that_is_a_link_counts_as_it_led_when_it_was_set(shop, member):
    link = shop.own.parent / "link"
    link.symlink_to(shop.own)
    shop.put(**{member: str(link) if member == "workspace" else [str(link)]})
    shop.post(workspace=str(link / "src")).ok(201)

    link.unlink()
    link.symlink_to("/")

    for place in (str(link), "/", str(shop.other), f"{link}{shop.other}"):
        shop.post(workspace=place).refused(403, "outside_roots")


def test_a_workspace_that_is_replaced_by_a_link_widens_nothing(shop):
    shop.own.rename(shop.own.parent / "away")
    shop.own.symlink_to(shop.other)

    shop.post(workspace=str(shop.own)).refused(403, "outside_roots")
    shop.admin.put(f"/v1/agents/{shop.agent}", {"workspace": str(shop.own), "command": ["true"]}).ok(200)
    shop.own.unlink()
    shop.own.symlink_to("/")
    shop.key.post("/v1/runs", {"agent": shop.agent, "launch": True}).refused(403, "outside_roots")


def test_a_root_that_is_not_there_yet_is_not_a_link_later(shop):
    root = shop.own.parent / "later"
    shop.put(roots=[str(root)])
    root.mkdir()
    shop.post(workspace=str(root)).ok(201)
    root.rmdir()
    root.symlink_to(shop.other)
    shop.post(workspace=str(root)).refused(403, "outside_roots")


def test_an_agent_without_a_workspace_has_no_directories(shop):
    shop.put()

    refusal = shop.post(workspace=str(shop.own)).refused(403, "outside_roots")

    assert "it has neither workspace nor roots" in refusal["detail"]
    assert f"interlock agents put {shop.agent} --root DIR" in refusal["detail"]
    shop.post().ok(201)
    shop.post(resources=[fresh("resource")]).ok(201)


def test_the_place_to_isolate_into_is_bounded(shop):
    shop.post(isolate=True, isolate_into=str(shop.other)).refused(403, "outside_roots")
    shop.post(on_conflict="isolate", workspace=str(shop.own), isolate_into="/").refused(403, "outside_roots")
    shop.post(isolate=True, isolate_into=str(shop.own / "src")).ok(201)


# ---- worktrees ----------------------------------------------------------------------------------------------------

def test_a_worktree_is_made_of_the_agents_own_repository_only(shop):
    secret = repository(shop.other / "repo")
    shop.post(workspace=str(secret), isolate=True).refused(403, "outside_roots")
    shop.post(workspace=str(secret), on_conflict="isolate", mode="read").refused(403, "outside_roots")
    assert git("branch", "--list", "interlock/*", cwd=secret) == ""

    own = repository(shop.own / "repo")
    run = shop.post(workspace=str(own), isolate=True).ok(201)
    assert os.path.exists(run["workspace"] + "/readme")
    shop.post(workspace=run["workspace"], mode="read").refused(409, "workspace_busy")
    shop.key.finish(run).ok(200)
    shop.post(workspace=run["workspace"]).ok(201)


def test_a_worktree_of_another_agents_run_is_not_claimed(shop, tmp_path):
    other = Shop(shop.admin, tmp_path / "second")
    run = other.post(workspace=str(repository(other.own / "repo")), isolate=True).ok(201)
    other.key.finish(run).ok(200)

    shop.post(workspace=run["workspace"]).refused(403, "outside_roots")
    shop.post(workspace=os.path.dirname(run["workspace"])).refused(403, "outside_roots")


def test_a_directory_that_borrows_another_repository_gives_no_worktree(shop):
    secret = repository(shop.other / "repo")
    (shop.own / ".git").write_text(f"gitdir: {secret}/.git\n")
    shop.post(workspace=str(shop.own), isolate=True).refused(403, "outside_roots")
    (shop.own / ".git").unlink()
    (shop.own / ".git").symlink_to(secret / ".git")
    shop.post(workspace=str(shop.own), isolate=True).refused(403, "outside_roots")
    assert git("branch", "--list", "interlock/*", cwd=secret) == ""


def test_a_repository_around_the_root_gives_no_worktree(shop):
    around = repository(shop.other / "repo")
    (around / "sub").mkdir()
    shop.put(workspace=str(around / "sub"))
    shop.post(workspace=str(around / "sub"), isolate=True).refused(403, "outside_roots")
    shop.put(workspace=str(around / "sub"), roots=[str(around)])
    shop.post(workspace=str(around / "sub"), isolate=True).ok(201)


# ---- others' runs and turns ---------------------------------------------------------------------------------------

def test_replace_ends_only_runs_of_the_same_agent(shop):
    victim = shop.admin.run(shop.admin.agent(), workspace=str(shop.own))

    refusal = shop.post(workspace=str(shop.own), on_conflict="replace").refused(403, "not_your_run")

    assert refusal["holder"]["run"] == victim["id"] and victim["id"] in refusal["detail"]
    assert shop.admin.get(f"/v1/runs/{victim['id']}").ok()["stop_requested"] is None
    shop.admin.finish(victim).ok(200)
    own = shop.post(workspace=str(shop.own)).ok(201)
    assert shop.post(workspace=str(shop.own), on_conflict="replace").ok(201)["status"] == "queued"
    assert shop.admin.get(f"/v1/runs/{own['id']}").ok()["stop_requested"] == "replaced by another run"


def test_an_operator_replaces_any_run(shop):
    victim = shop.post(workspace=str(shop.own)).ok(201)
    shop.admin.make_key("operator").run(shop.admin.agent(), workspace=str(shop.own), on_conflict="replace")
    assert shop.admin.get(f"/v1/runs/{victim['id']}").ok()["stop_requested"] == "replaced by another run"


@pytest.mark.parametrize("body, word", [({"priority": 101}, "priority"), ({"priority": -101}, "priority"),
                                        ({"lease_s": 3601}, "lease_s")])
def test_priority_and_lease_of_a_key_are_bounded(shop, body, word):
    refusal = shop.post(**body).refused(403, "beyond_key")
    assert refusal["detail"].startswith(word)
    shop.post(priority=100, lease_s=3600).ok(201)
    shop.admin.run(shop.agent, **body)


def test_a_key_uses_up_no_place_under_the_cap_of_a_server(shop):
    name = shop.admin.get("/v1/nodes").ok()["items"][0]["name"]

    refusal = shop.post(node=name).refused(403, "beyond_key")

    assert f"node '{name}'" in refusal["detail"]
    shop.post(node=name.upper() + "-of-mine").ok(201)
    shop.admin.run(shop.agent, node=name)


def test_a_runs_key_admits_children_of_its_run_only(shop):
    run = shop.post(workspace=str(shop.own)).ok(201)
    stranger = shop.admin.run(shop.agent, resources=["theirs"])
    key = shop.admin.make_key("agent", run=run["id"])
    assert shop.post(key).ok(201)["parent"] == run["id"]
    assert shop.post(key, workspace=str(shop.own / "src")).ok(201)["parent"] == run["id"]
    for place in (shop.other, "/", shop.own.parent, shop.own / "src" / ".." / ".."):
        shop.post(key, workspace=str(place), on_conflict="replace").refused(403, "beyond_parent")
    shop.post(key, resources=["theirs"], on_conflict="replace").refused(403, "not_your_run")
    assert shop.admin.get(f"/v1/runs/{stranger['id']}").ok()["stop_requested"] is None
    shop.post(key, priority=101).refused(403, "beyond_key")
    shop.post(key, lease_s=3601).refused(403, "beyond_key")
    # The run is its client's, who may be anywhere: nothing is started for it but the agent's own command.
    shop.post(key, command=["id"]).refused(403, "forbidden")
    shop.post(key, launch=True, env={"A": "b"}).refused(403, "forbidden")
    other = shop.admin.agent()
    key.post("/v1/runs", {"agent": other}).refused(403, "beyond_parent")
    key.put(f"/v1/schedules/{fresh('s')}", {"agent": shop.agent, "every": "1h"}).refused(403, "forbidden")


def test_a_child_that_its_parents_client_owns_ends_with_the_parent(shop):
    run = shop.post(workspace=str(shop.own)).ok(201)
    key = shop.admin.make_key("agent", run=run["id"])
    child = shop.post(key, workspace=str(shop.own)).ok(201)
    queued = shop.post(key, workspace=str(shop.own), on_conflict="queue").ok(201)
    key.post(f"/v1/runs/{child['id']}/heartbeat", {"fence": child["fence"]}).ok(200)
    key.post("/v1/charges", {"agent": shop.agent, "run": child["id"], "cost": "0.25"}).ok(201)
    shop.admin.finish(run).ok(200)
    key.post(f"/v1/runs/{child['id']}/heartbeat", {"fence": child["fence"]}).refused(401, "unauthorized")
    row = shop.admin.get(f"/v1/runs/{child['id']}").ok()
    assert row["stop_requested"] == f"its parent {run['id']} has ended"
    beat = shop.key.post(f"/v1/runs/{child['id']}/heartbeat", {"fence": child["fence"]}).ok(200)
    assert beat["lease_until"] == row["lease_until"], "nothing renews it any more"
    assert shop.admin.get(f"/v1/runs/{queued['id']}").ok()["status"] == "cancelled"
    assert shop.admin.get(f"/v1/runs/{run['id']}").ok()["spent_total"] == "0.25"


def test_an_agents_key_puts_no_schedule_and_touches_no_worktree(shop):
    shop.key.put(f"/v1/schedules/{fresh('s')}",
                 {"agent": shop.agent, "every": "1h", "workspace": "/"}).refused(403, "forbidden")
    shop.key.post("/v1/worktrees/gc", {"remove": True}).refused(403, "forbidden")


# ---- sessions -----------------------------------------------------------------------------------------------------

@pytest.mark.skipif(ON_POSTGRES, reason="puts rows into the store's file")
def test_an_agent_that_closes_no_session_comes_to_an_end_of_them(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        agent = server.admin.agent()
        key = server.admin.make_key("agent", agent=agent)
        server.terminate()
        with sqlite3.connect(server.data / "interlock.db") as store:
            rows = ((i.to_bytes(16, "big"), agent) for i in range(1, 100_000))
            store.executemany("insert into sessions (org, id, agent, title, metadata, created_at, first_seq, next_seq, "
                              "closed, input_tokens, output_tokens, settled, events) "
                              "values ((select min(org) from orgs), ?, ?, '', '', 0, 0, 0, 0, 0, 0, 0, 0)", rows)
        server.start()

        last = key.session(title="the last")
        refusal = key.post("/v1/sessions", {}).refused(409, "too_many")
        assert f"agent '{agent}' has 100000 open sessions" in refusal["detail"] and "close" in refusal["detail"]
        key.post(f"/v1/sessions/{last}/messages", {"messages": [{"role": "user", "content": "x"}]}).ok(201)
        key.post(f"/v1/sessions/{last}/fork", {"at_seq": 0}).refused(409, "too_many")
        export = key.get(f"/v1/sessions/{last}/export").body
        headers = {"Content-Type": "application/x-ndjson"}
        key.request("POST", "/v1/sessions/import", export, headers=headers).refused(409, "too_many")
        server.admin.session()

        key.post(f"/v1/sessions/{last}/close").ok(200)
        key.post("/v1/sessions", {}).ok(201)
        key.post("/v1/sessions", {}).refused(409, "too_many")
