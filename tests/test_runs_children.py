"""`interlock run` in a run: what a program of a run starts stays within what its run has."""

import os
import signal
import subprocess

import pytest

from interlock_server import Server, eventually, fresh
from supervised import Runs, end_what_is_left, processes_of, repository, shims_of

LEVELS = ["off", "guarded", "files", "sealed"]


class Family:
    """A server with one agent, and its user's command line."""

    def __init__(self, binary, directory):
        self.binary = binary
        self.directory = directory
        self.server = Server(binary, directory)
        self.runs = Runs(self.server)
        self.admin = self.runs.admin
        self.runs.cap(1000)

    def place(self):
        place = self.directory / fresh("place")
        (place / "sub").mkdir(parents=True)
        return place

    def run(self, *words, cwd=None, **options):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "INTERLOCK_DATA": str(self.server.data)}
        return subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, timeout=60, env=env,
                              stdin=subprocess.DEVNULL, cwd=cwd or self.directory, **options)

    def inside(self, script, *flags, place=None):
        """What a shell script in a run prints. `il` is the command line there."""
        place = place or self.place()
        return self.run("run", "--quiet", *flags, "--readable", self.binary, "--", "sh", "-c",
                        f"il() {{ {self.binary} \"$@\"; }}; cd {place}; {script}", cwd=place)

    def child_of(self, parent):
        """The newest run that a program of this run has started."""
        return self.admin.get("/v1/runs", parent=parent).ok()["items"][0]

    def newest(self):
        return self.admin.get("/v1/runs", limit=1).ok()["items"][0]

    def sleeper(self, *flags, script="sleep 60"):
        """A parent that goes on, with its key as a client."""
        place = self.place()
        key = place / "key"
        run = self.run("run", "--detach", "--quiet", "--workspace", place, *flags, "--", "sh", "-c",
                       f"umask 077; printf %s \"$INTERLOCK_KEY\" > {key}.new; mv {key}.new {key}; {script}").stdout.strip()
        eventually(key.exists, 20, lambda: f"{self.runs.show(run)}")
        return run, place, self.admin.with_key(key.read_text())


@pytest.fixture(scope="module")
def family(binary, tmp_path_factory):
    family = Family(binary, tmp_path_factory.mktemp("family"))
    yield family
    family.runs.end_all()
    family.server.verify()
    family.server.kill9()
    end_what_is_left(family.server.data)


@pytest.mark.parametrize("level", LEVELS)
def test_a_run_starts_a_child_follows_it_and_ends_as_it_ends(family, level):
    done = family.inside("cd sub; il run --budget 0.25 -- sh -c 'pwd; echo $INTERLOCK_RUN; exit 7'; echo code $?",
                         f"--sandbox={level}", "--budget", "1.00")
    assert done.returncode == 0, done
    where, run, code = done.stdout.split("\n")[:3]
    assert where.endswith("/sub") and code == "code 7", done
    child = family.runs.show(run)
    parent = family.runs.show(child["parent"])
    assert (child["agent"], child["budget"], child["workspace"]) == (parent["agent"], "0.25", where)
    assert child["sandbox"].startswith(level) and parent["sandbox"].startswith(level), (child, parent)
    assert [row["id"] for row in family.admin.get("/v1/runs", parent=parent["id"]).ok()["items"]] == [run]
    assert run in family.run("runs", "ls", "--parent", parent["id"], "--quiet").stdout
    shown = family.run("runs", "show", run).stdout
    assert f"parent           {parent['id']}" in shown or parent["id"] in shown, shown


def test_a_child_of_a_sealed_run_reaches_no_other_hosts(family):
    done = family.inside("il run --allow-host two.example -- echo other; il run --allow-host one.example -- echo same",
                         "--sandbox=sealed", "--allow-host", "one.example")
    assert done.stdout == "same\n" and "'two.example', which the parent run cannot reach" in done.stderr, done


def test_the_end_of_a_parent_stops_its_children(family):
    done = family.inside("il run --detach --quiet -- sleep 100 > child; until il runs show $(cat child) --json | "
                         "grep -q '\"status\":\"running\"'; do sleep 0.1; done; cat child")
    assert done.returncode == 0, done
    row = family.runs.wait(done.stdout.strip())
    assert row["status"] == "cancelled" and "its parent run_" in row["reason"], row
    eventually(lambda: processes_of(row["id"]) == [], 10)


def test_a_child_ends_when_its_parents_shim_dies(family):
    run, place, key = family.sleeper()
    child = key.post("/v1/runs", {"agent": "default", "command": ["sleep", "100"]}).ok(201)["id"]
    family.runs.wait(child, "running")
    os.kill(shims_of(family.server.data)[run], signal.SIGKILL)
    assert family.runs.wait(run)["status"] in ("lost", "failed")
    assert family.runs.wait(child)["status"] in ("cancelled", "lost")
    eventually(lambda: processes_of(child) == [], 10)


def test_a_parent_that_is_interrupted_in_its_command_line_cancels_the_child(family):
    done = family.inside("il run -- sh -c 'echo up; sleep 100' > out & pid=$!; until grep -q up out; do sleep 0.1; done; "
                         "kill -TERM $pid; wait $pid; echo code $?")
    assert done.returncode == 0 and "code" in done.stdout, done
    child = next(row for row in family.admin.get("/v1/runs", limit=5).ok()["items"] if row["parent"])
    row = family.runs.wait(child["id"])
    assert (row["status"], row["reason"]) == ("cancelled", "the command that started it was interrupted"), row


def test_a_child_works_only_below_its_parents_workspace(family):
    elsewhere = repository(family.place() / "repository")
    for flags in (["--workspace", str(elsewhere)], ["--workspace", "/"], ["--workspace", ".."],
                  ["--workspace", "link"], ["--on-conflict", "isolate", "--workspace", str(elsewhere)]):
        done = family.inside(f"ln -s {elsewhere} link; il run {' '.join(flags)} -- touch {elsewhere}/hit",
                             "--sandbox=off")
        assert done.returncode == 4 and "is outside the claims of the parent" in done.stderr, (flags, done)
    assert not (elsewhere / "hit").exists()


def test_a_child_states_no_more_than_its_parent_has(family):
    run, place, key = family.sleeper("--sandbox=guarded", "--limit", "nofile=512", "--nice", "5")

    def ask(status=403, code="beyond_parent", **body):
        refusal = key.post("/v1/runs", {"agent": "default", "command": ["true"], **body}).refused(status, code)
        return refusal["detail"]

    assert "guarded" in ask(sandbox_level="off")
    assert "nofile" in ask(limits={"nofile": 1024})
    assert "nice" in ask(nice=-5)
    ask(code="forbidden", pass_env=["SECRET"])
    ask(code="forbidden", foreground=True)
    ask(code="beyond_key", priority=1000)
    assert "child agents" not in ask(agent=family.admin.agent())
    child = key.post("/v1/runs", {"agent": "default", "command": ["sh", "-c", "ulimit -n; nice"]}).ok(201)["id"]
    family.runs.wait(child)
    assert family.runs.output(child) == "512\n5\n"
    assert family.runs.show(child)["sandbox"] == "guarded"


def test_at_level_files_a_child_reaches_no_other_paths(family):
    secret = family.place()
    run, place, key = family.sleeper("--sandbox=files")
    for member in ("readable", "writable"):
        key.post("/v1/runs", {"agent": "default", "command": ["true"], member: [str(secret)]}).refused(403, "beyond_parent")
    key.post("/v1/runs", {"agent": "default", "command": ["true"], "sandbox": False}).refused(403, "beyond_parent")
    child = key.post("/v1/runs", {"agent": "default", "command": ["touch", str(secret / "hit")]}).ok(201)["id"]
    assert family.runs.wait(child)["status"] == "failed"
    assert not (secret / "hit").exists()


def test_another_agents_run_takes_an_operators_permission(family):
    other = family.admin.agent(command=["sh", "-c", "echo as set up"])
    boss = family.admin.agent(max_concurrent_runs=10)
    run, place, key = family.sleeper("--agent", boss)
    key.post("/v1/runs", {"agent": other, "launch": True}).refused(403, "beyond_parent")
    assert family.run("agents", "put", boss, "--max-concurrent-runs", "10", "--child-agent", other).returncode == 0
    key.post("/v1/runs", {"agent": other, "command": ["id"]}).refused(403, "forbidden")
    child = key.post("/v1/runs", {"agent": other, "launch": True}).ok(201)
    assert family.runs.wait(child["id"])["status"] == "succeeded" and child["workspace"] == str(place)
    assert family.runs.output(child["id"]) == "as set up\n"
    assert key.get(f"/v1/runs/{child['id']}").ok()["agent"] == other, "it sees what it has started"


def test_the_budget_of_a_parent_bounds_what_its_children_spend(family):
    agent = family.admin.agent(max_concurrent_runs=10)
    run, place, key = family.sleeper("--agent", agent, "--budget", "1.00")

    def spend(cost, run, code=None):
        answer = key.post("/v1/charges", {"agent": agent, "run": run, "cost": cost})
        return answer.refused(402, code) if code else answer.ok(201)

    def child(budget):
        return key.post("/v1/runs", {"agent": agent, "command": ["sleep", "100"], "budget": budget})

    first = child("0.60").ok(201)["id"]
    assert child("0.50").refused(402, "budget_exceeded")["free"] == "0.40"
    spend("0.30", first)
    spend("0.40", first, "budget_exceeded")
    spend("0.40", run)
    spend("0.01", run, "budget_exceeded")
    family.runs.stop(first)
    family.runs.wait(first)
    spend("0.30", run)
    spend("0.01", run, "budget_exceeded")
    row = family.runs.show(run)
    assert (row["spent"], row["spent_total"]) == ("0.70", "1.00")
    shown = family.run("runs", "show", run).stdout
    assert "$0.70" in shown and "$1.00" in shown


def test_siblings_exclude_each_other_and_a_parent_does_not_exclude_its_child(family):
    run, place, key = family.sleeper()
    body = {"agent": "default", "command": ["sleep", "100"], "workspace": str(place), "on_conflict": "refuse"}
    first = key.post("/v1/runs", body).ok(201)["id"]
    refusal = key.post("/v1/runs", {**body, "workspace": str(place / "sub")}).refused(409, "workspace_busy")
    assert refusal["holder"]["run"] == first
    queued = key.post("/v1/runs", {**body, "on_conflict": "queue"}).ok(201)
    assert queued["status"] == "queued"
    key.post(f"/v1/runs/{first}/cancel", {}).ok()
    family.runs.wait(queued["id"], "running")
    stranger = family.admin.agent()
    family.admin.post("/v1/runs", {**body, "agent": stranger}).refused(409, "workspace_busy")


def test_a_child_does_not_wait_for_a_cap_that_its_parent_fills(family):
    agent = family.admin.agent(max_concurrent_runs=1)
    run, place, key = family.sleeper("--agent", agent)
    refusal = key.post("/v1/runs", {"agent": agent, "command": ["true"]}).refused(409, "concurrency_limit")
    assert "has 1 of 1 runs" in refusal["detail"] and "cannot be queued" in refusal["detail"]


def test_a_run_key_reaches_its_own_tree_only(family):
    stranger = family.runs.start("sleep", "100")
    run, place, key = family.sleeper()
    key.get(f"/v1/runs/{stranger}").refused(404, "not_found")
    key.post(f"/v1/runs/{stranger}/cancel", {}).refused(404, "not_found")
    child = key.post("/v1/runs", {"agent": "default", "command": ["sleep", "100"]}).ok(201)["id"]
    assert {row["id"] for row in key.get("/v1/runs").ok()["items"]} == {run, child}
    family.runs.stop(stranger)
    # The key ends with its run.
    family.runs.stop(run)
    family.runs.wait(run)
    key.post("/v1/runs", {"agent": "default", "command": ["true"]}).refused(401, "unauthorized")
    family.runs.wait(child)


def test_a_repeat_after_a_lost_answer_starts_one_child(family):
    run, place, key = family.sleeper()
    body = {"agent": "default", "command": ["sleep", "100"], "key": fresh("once")}
    first = key.post("/v1/runs", body).ok(201)
    again = key.post("/v1/runs", body).ok(201)
    assert (again["id"], again["repeated"]) == (first["id"], True)


def test_children_of_children_are_bounded_in_depth(family):
    script = f"[ $1 = 0 ] && echo bottom && exit; {family.binary} run --quiet -- sh $0 $(($1 - 1))"
    place = family.place()
    (place / "down.sh").write_text(script)
    done = family.inside(f"sh {place}/down.sh 4", place=place)
    assert "bottom" in done.stdout, done
    done = family.inside(f"sh {place}/down.sh 5", place=place)
    assert done.returncode != 0 and "bottom" not in done.stdout, done


def test_the_tree_survives_a_server_that_restarts(family):
    run, place, key = family.sleeper()
    child = key.post("/v1/runs", {"agent": "default", "command": ["sleep", "100"]}).ok(201)["id"]
    family.runs.wait(child, "running")
    family.runs.restart()
    family.admin = family.runs.admin
    assert family.runs.show(child)["parent"] == run
    family.runs.stop(run)
    row = family.runs.wait(child)
    assert row["status"] == "cancelled", row
