"""Runs for real: processes that are started, watched, stopped and accounted for by the real server."""

import json
import os
import pathlib
import signal
import time

import pytest

from interlock_server import Server, eventually, together
from supervised import Runs, alive, end_process, processes_of, shims_of, wait_for


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    os.environ["SECRET_OF_THE_SERVER"] = "handed on by name"
    with Server(binary, tmp_path_factory.mktemp("runs")) as server:
        runs = Runs(server)
        runs.cap(1000)
        yield runs
        runs.end_all()


# ---- how a run ends -----------------------------------------------------------------------------------------------


def test_a_run_that_works_has_succeeded_and_its_output_is_kept(runs):
    run = runs.start("/bin/sh", "-c", "echo out; echo err >&2")
    row = runs.wait(run)
    assert (row["status"], row["exit_code"], row["supervised"]) == ("succeeded", 0, True)
    assert runs.output(run) == "out\nerr\n"


def test_a_run_that_prints_nothing_has_an_empty_log(runs):
    run = runs.start("/bin/true")
    runs.wait(run)
    assert runs.log(run).ok(200) is None or runs.output(run) == ""


@pytest.mark.parametrize("script, status, code, reason", [
    ("exit 3", "failed", 3, "exit code 3"),
    ("kill -KILL $$", "failed", 137, "SIGKILL"),
])
def test_a_run_that_fails_says_how(runs, script, status, code, reason):
    row = runs.wait(runs.start("/bin/sh", "-c", script))
    assert (row["status"], row["exit_code"]) == (status, code)
    assert reason in row["reason"]


def test_a_program_that_is_not_there_fails_with_its_name(runs):
    row = runs.wait(runs.start("/no/such/program"))
    assert (row["status"], row["exit_code"]) == ("failed", 127)
    assert "/no/such/program" in row["reason"]


def test_a_run_that_takes_too_long_times_out_with_everything_it_started(runs):
    run = runs.start("/bin/sh", "-c", "setsid sleep 100 & sleep 100", timeout_s=1, grace_s=1)
    row = runs.wait(run)
    assert row["status"] == "timed_out"
    assert processes_of(run) == []


# ---- stopping -----------------------------------------------------------------------------------------------------


STUBBORN = {
    "polite": "sleep 100",
    "ignores_signals": "trap '' TERM INT HUP; while :; do sleep 1; done",
    "daemon": "setsid sh -c 'sleep 100' </dev/null >/dev/null 2>&1 & sleep 100",
    "double_fork": "(setsid sh -c '(trap \"\" TERM; while :; do sleep 1; done) &' &) ; trap '' TERM; sleep 100",
    "many": "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (trap '' TERM; sleep 100; sleep 100) & done; wait",
}


@pytest.mark.parametrize("kind", STUBBORN)
def test_a_stopped_run_leaves_nothing_behind_however_it_resists(runs, tmp_path, kind):
    run = runs.start("/bin/sh", "-c", f"{STUBBORN[kind]} & touch {tmp_path}/up; wait; sleep 100", grace_s=1,
                     workspace=str(tmp_path))
    wait_for(tmp_path / "up")
    time.sleep(0.3)
    assert processes_of(run), "the check sees what is there"
    runs.stop(run, "not needed")
    row = runs.wait(run)
    assert (row["status"], row["reason"]) == ("cancelled", "not needed")
    assert processes_of(run) == []
    eventually(lambda: run not in shims_of(runs.data))


def test_the_place_is_given_on_only_when_nobody_is_left_there(runs, tmp_path):
    agent = runs.agent()
    first = runs.start("/bin/sh", "-c", f"trap '' TERM; touch {tmp_path}/one; while :; do sleep 0.1; done", agent=agent,
                       workspace=str(tmp_path), grace_s=1)
    wait_for(tmp_path / "one")
    check = tmp_path / "check.py"
    check.write_text("""
import os, sys
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        environment = open(f"/proc/{process}/environ", "rb").read().split(b"\\0")
        state = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[0]
    except OSError:
        continue
    if os.environ["FIRST"].encode() in environment and state not in "ZX":
        sys.exit(f"{process} is still there")
""")
    second = runs.start("/usr/bin/python3", str(check), agent=agent, workspace=str(tmp_path), on_conflict="queue",
                        env={"FIRST": f"INTERLOCK_RUN={first}"})
    assert runs.show(second)["status"] == "queued"
    runs.stop(first)
    assert runs.wait(first)["status"] == "cancelled"
    assert runs.wait(second)["status"] == "succeeded", runs.output(second)


def test_replace_stops_whoever_is_there_and_takes_the_place(runs, tmp_path):
    agent = runs.agent()
    first = runs.start("/bin/sleep", "100", agent=agent, workspace=str(tmp_path))
    runs.wait(first, "running")
    second = runs.start("/bin/true", agent=agent, workspace=str(tmp_path), on_conflict="replace")
    assert runs.wait(second)["status"] == "succeeded"
    assert runs.show(first)["status"] == "cancelled"


def test_a_queued_run_that_is_stopped_never_starts(runs, tmp_path):
    agent = runs.agent()
    first = runs.start("/bin/sleep", "100", agent=agent, workspace=str(tmp_path))
    second = runs.start("/bin/touch", str(tmp_path / "never"), agent=agent, workspace=str(tmp_path), on_conflict="queue")
    runs.stop(second)
    runs.stop(first)
    assert runs.wait(second)["status"] == "cancelled"
    runs.wait(first)
    assert not (tmp_path / "never").exists()


def test_runs_that_are_stopped_in_the_moment_they_start_end_at_once(runs):
    agent = runs.agent()

    def start_and_stop(_):
        run = runs.start("/bin/sleep", "1000", agent=agent)
        runs.stop(run)
        return run

    ids = [run for ids in (together(16, start_and_stop) for _ in range(5)) for run in ids]

    for run in ids:
        assert runs.wait(run, seconds=9)["status"] == "cancelled"


def test_a_paused_run_stands_still_and_goes_on(runs, tmp_path):
    counter = tmp_path / "counter"
    run = runs.start("/bin/sh", "-c", f"while :; do echo x >> {counter}; sleep 0.02; done")
    runs.wait(run, "running")
    wait_for(counter)
    runs.admin.post(f"/v1/runs/{run}/pause").ok()
    assert runs.show(run)["status"] == "paused"
    time.sleep(0.5)
    before = counter.stat().st_size
    time.sleep(0.5)
    assert counter.stat().st_size == before
    runs.admin.post(f"/v1/runs/{run}/resume").ok()
    eventually(lambda: counter.stat().st_size > before)
    runs.admin.post(f"/v1/runs/{run}/pause").ok()
    runs.stop(run)
    assert runs.wait(run)["status"] == "cancelled", "also while it stands still"


# ---- what a run is given ------------------------------------------------------------------------------------------


def test_the_environment_of_a_run_is_clean_and_says_who_it_is(runs, tmp_path):
    agent = runs.agent()
    session = runs.admin.session(agent=agent)
    run = runs.start("/usr/bin/env", agent=agent, workspace=str(tmp_path), session=session, env={"MINE": "yes"})
    runs.wait(run)
    env = dict(line.split("=", 1) for line in runs.output(run).splitlines())
    assert env["INTERLOCK_RUN"] == run
    assert env["INTERLOCK_SESSION"] == session
    assert env["INTERLOCK_WORKSPACE"] == str(tmp_path)
    assert env["INTERLOCK_URL"].startswith("http://127.0.0.1:")
    assert env["INTERLOCK_FENCE"] == str(runs.show(run)["fence"])
    assert env["MINE"] == "yes"
    assert "PATH" in env and "HOME" in env
    assert [name for name in env if name.startswith(("SECRET", "PYTEST"))] == []
    named = runs.start("/bin/sh", "-c", "echo $SECRET_OF_THE_SERVER", pass_env=["SECRET_OF_THE_SERVER"])
    runs.wait(named)
    assert runs.output(named) == "handed on by name\n"


def test_a_runs_key_is_good_for_that_run_and_dies_with_it(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", f"echo $INTERLOCK_KEY > {tmp_path}/key; sleep 100")
    path = wait_for(tmp_path / "key")
    eventually(lambda: path.read_text().endswith("\n"))
    client = runs.admin.with_key(path.read_text().strip())
    assert client.get(f"/v1/runs/{run}").ok()["id"] == run
    client.post("/v1/charges", {"agent": runs.show(run)["agent"], "run": run, "cost": "0.25"}).ok(201)
    assert client.get("/v1/keys/self").ok()["run"] == run
    other = runs.start("/bin/sleep", "1")
    client.get(f"/v1/runs/{other}").refused(404, "not_found")
    child = client.post("/v1/runs", {"agent": runs.show(run)["agent"], "command": ["/bin/true"]}).ok(201)
    assert child["parent"] == run
    runs.server.restart()
    runs.admin = runs.server.admin
    client = runs.admin.with_key(path.read_text().strip())
    eventually(lambda: client.get(f"/v1/runs/{run}").status == 200, why=lambda: "the key outlives a restart")
    runs.stop(run)
    row = runs.wait(run)
    assert row["spent"] == "0.25"
    assert client.get(f"/v1/runs/{run}").status == 401


def test_no_secret_is_in_any_argument_log_or_stored_state(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", f"echo $INTERLOCK_KEY > {tmp_path}/key; sleep 100", env={"TOKEN": "s3cr3t-value"})
    path = wait_for(tmp_path / "key")
    eventually(lambda: path.read_text().endswith("\n"))
    secret = path.read_text().strip().split("_")[-1]
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            assert secret.encode() not in words and b"s3cr3t-value" not in words
    for file in (runs.data / "runs" / run).iterdir():
        if file.is_file():
            assert secret not in file.read_text(errors="replace")
    assert secret not in runs.server.log()
    runs.stop(run)
    runs.wait(run)


def test_limits_niceness_and_sandbox_hold(runs, tmp_path):
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    run = runs.start("/bin/sh", "-c", "ulimit -n; nice", limits={"nofile": 77}, nice=5)
    runs.wait(run)
    assert runs.output(run).split() == ["77", "5"]
    script = f"echo a > {work}/a && echo tmp > $TMPDIR/t && cat {work}/../work/a && ! echo b > {outside}/b"
    run = runs.start("/bin/sh", "-c", script, workspace=str(work), sandbox=True)
    row = runs.wait(run)
    assert row["status"] == "succeeded", runs.output(run)
    assert not (outside / "b").exists()
    run = runs.start("/bin/sh", "-c", f"echo b > {outside}/b", workspace=str(work), sandbox=True,
                     writable=[str(outside)])
    assert runs.wait(run)["status"] == "succeeded", runs.output(run)


# ---- logs ---------------------------------------------------------------------------------------------------------


def test_a_log_is_read_by_offset_and_followed_while_it_grows(runs):
    run = runs.start("/bin/sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done")
    text, offset, ended = "", 0, False
    deadline = time.monotonic() + 20
    while not ended and time.monotonic() < deadline:
        reply = runs.log(run, offset=offset, wait=5)
        text += reply.body.decode()
        offset = int(reply.headers["x-interlock-log-next"])
        ended = reply.headers["x-interlock-run-ended"] == "true" and offset == int(reply.headers["x-interlock-log-end"])
    assert text == "".join(f"line {i}\n" for i in range(1, 6))
    assert runs.log(run, offset=-7).body == b"line 5\n"
    assert runs.log(run, offset=5, limit=3).body == b"1\nl"


# ---- tries --------------------------------------------------------------------------------------------------------


def test_a_failed_run_is_tried_again_as_often_as_its_policy_says(runs, tmp_path):
    agent = runs.agent(command=["/bin/sh", "-c", f"echo $INTERLOCK_ATTEMPT >> {tmp_path}/tries; [ $INTERLOCK_ATTEMPT = 3 ]"],
                       retry={"tries": 5, "backoff_s": 0, "backoff_max_s": 0})
    first = runs.admin.post("/v1/runs", {"agent": agent, "launch": True}).ok(201)["id"]
    eventually(lambda: (tmp_path / "tries").exists() and (tmp_path / "tries").read_text() == "1\n2\n3\n", 20)
    runs.wait(first)
    rows = eventually_all(runs, agent, 3)
    assert [row["status"] for row in rows] == ["failed", "failed", "succeeded"]
    assert [row["attempt"] for row in rows] == [1, 2, 3]
    assert rows[1]["retry_of"] == rows[0]["id"]
    time.sleep(0.5)
    assert (tmp_path / "tries").read_text() == "1\n2\n3\n"


def eventually_all(runs, agent, count):
    def rows():
        return sorted(runs.admin.items("/v1/runs", agent=agent), key=lambda row: row["attempt"])
    eventually(lambda: len(rows()) == count and all(row["ended_at"] for row in rows()), 20, lambda: str(rows()))
    return rows()


def test_a_run_can_be_tried_again_by_hand(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", f"echo again >> {tmp_path}/out", workspace=str(tmp_path))
    runs.wait(run)
    again = runs.admin.post(f"/v1/runs/{run}/retry").ok(201)["id"]
    assert again != run
    assert runs.wait(again)["status"] == "succeeded"
    assert (tmp_path / "out").read_text() == "again\nagain\n"


# ---- budgets ------------------------------------------------------------------------------------------------------


def test_a_budget_that_is_used_up_stops_the_runs_it_covers(runs, tmp_path):
    agent = runs.agent()
    budget = runs.admin.budget("1.00", scope={"agent": agent}, on_exhausted="stop_runs")
    run = runs.start("/bin/sh", "-c", "sleep 100", agent=agent)
    runs.wait(run, "running")
    runs.admin.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)
    row = runs.wait(run)
    assert row["status"] == "cancelled"
    assert budget in row["reason"]
    assert processes_of(run) == []


def test_a_budget_that_a_person_lowers_stops_the_runs_it_covers(runs):
    agent = runs.agent()
    budget = runs.admin.budget("10.00", scope={"agent": agent}, on_exhausted="stop_runs")
    runs.admin.post("/v1/charges", {"agent": agent, "cost": "1.00"}).ok(201)
    run = runs.start("/bin/sleep", "100", agent=agent)
    runs.wait(run, "running")
    runs.admin.put(f"/v1/budgets/{budget}", {"limit": "0.50", "window": "total", "scope": {"agent": agent},
                                             "on_exhausted": "stop_runs"}).ok()
    row = runs.wait(run)
    assert row["status"] == "cancelled"
    assert budget in row["reason"]


def test_a_run_spends_no_more_than_its_own_budget(runs, tmp_path):
    agent = runs.agent()
    run = runs.start("/bin/sleep", "100", agent=agent, budget="1.00")
    runs.wait(run, "running")
    mine = {"agent": agent, "run": run, "fence": runs.show(run)["fence"]}
    runs.admin.post("/v1/charges", {**mine, "cost": "0.75"}).ok(201)
    runs.admin.post("/v1/charges", {**mine, "cost": "0.30"}).refused(402, "budget_exceeded")
    runs.admin.post("/v1/charges", {**mine, "cost": "0.25"}).ok(201)
    runs.stop(run)
    assert runs.wait(run)["spent"] in ("1.00", "1")


# ---- caps ---------------------------------------------------------------------------------------------------------


def test_a_machine_has_a_cap_by_itself(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        cap = next(cap for cap in runs.admin.get("/v1/caps").ok()["items"] if cap["kind"] == "node")["max_live"]
        assert cap >= 4
        agent = runs.agent()
        ids = [runs.start("/bin/sleep", "100", agent=agent, on_conflict="queue") for _ in range(cap + 3)]
        states = [runs.show(run)["status"] for run in ids]
        assert states.count("queued") == 3
        for run in ids:
            runs.stop(run)
        for run in ids:
            runs.wait(run)


# ---- recovery -----------------------------------------------------------------------------------------------------


def test_a_killed_child_is_noticed_at_once(runs):
    run = runs.start("/bin/sleep", "1000")
    runs.wait(run, "running")
    end_process(processes_of(run)[0])
    row = runs.wait(run, seconds=5)
    assert (row["status"], row["exit_code"]) == ("failed", 137)


def test_a_killed_shim_takes_its_run_with_it_and_the_run_is_lost(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", f"setsid sleep 1000 & touch {tmp_path}/up; sleep 1000", workspace=str(tmp_path))
    wait_for(tmp_path / "up")
    runs.wait(run, "running")
    time.sleep(0.2)
    assert len(processes_of(run)) >= 2
    end_process(shims_of(runs.data)[run])
    row = runs.wait(run, seconds=10)
    assert row["status"] == "lost"
    assert "shim" in row["reason"]
    assert processes_of(run) == []
    runs.wait(runs.start("/bin/true", workspace=str(tmp_path)), "succeeded")


def test_a_frozen_shim_loses_its_run_after_the_lease_and_has_no_say_afterwards(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", f"touch {tmp_path}/up; sleep 1000", workspace=str(tmp_path), lease_s=2)
    wait_for(tmp_path / "up")
    runs.wait(run, "running")
    shim = shims_of(runs.data)[run]
    os.kill(shim, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        row = runs.wait(run, seconds=10)
        assert row["status"] == "lost"
        assert time.monotonic() - begun < 2 + 2 + 4
        assert processes_of(run) == [], "its child is dead before the place is free"
        after = runs.start("/bin/sleep", "100", workspace=str(tmp_path))
        runs.wait(after, "running")
    finally:
        os.kill(shim, signal.SIGCONT)
    eventually(lambda: not alive(shim), why=lambda: "the shim goes when it is told")
    assert runs.show(run)["status"] == "lost"
    assert runs.show(after)["status"] == "running"
    runs.stop(after)
    runs.wait(after)


def test_a_run_goes_on_while_the_server_is_away(runs, tmp_path):
    run = runs.start("/bin/sh", "-c", f"touch {tmp_path}/up; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 7")
    ended_meanwhile = runs.start("/bin/sh", "-c", f"while [ ! -e {tmp_path}/first ]; do sleep 0.05; done; exit 4")
    wait_for(tmp_path / "up")
    runs.wait(run, "running")
    runs.wait(ended_meanwhile, "running")
    shim = shims_of(runs.data)[run]
    runs.server.kill9()
    (tmp_path / "first").touch()
    time.sleep(0.5)
    assert alive(shim) and processes_of(run)
    runs.server.start()
    runs.admin = runs.server.admin
    assert runs.wait(ended_meanwhile)["exit_code"] == 4
    assert runs.show(run)["status"] == "running"
    assert shims_of(runs.data)[run] == shim
    (tmp_path / "go").touch()
    assert runs.wait(run)["exit_code"] == 7


def test_after_a_reboot_runs_are_lost_and_say_so(binary, tmp_path):
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        run = runs.start("/bin/sleep", "1000", workspace=str(tmp_path))
        runs.wait(run, "running")
        shim, child = shims_of(runs.data)[run], processes_of(run)[0]
        server.kill9()
        end_process(shim)
        end_process(child)
        state = runs.data / "runs" / run / "state"
        text = state.read_text()
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert boot in text
        state.write_text(text.replace(boot, "00000000-0000-0000-0000-000000000000"))
        server.start()
        runs = Runs(server)
        row = runs.wait(run)
        assert row["status"] == "lost"
        assert "restarted" in row["reason"]
        runs.wait(runs.start("/bin/true", workspace=str(tmp_path)), "succeeded")
