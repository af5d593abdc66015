"""Directories that are moved, swapped, made anew or mounted elsewhere: no two runs work in one of them."""

import contextlib
import ctypes
import os
import subprocess
import threading
import time

import pytest

from interlock_server import Server, eventually, fresh
from supervised import Runs, cli_environment, real_runs, repository

# Says where it works and whether another run works there, until it is told to stop.
WORK = """
echo "in $(pwd -P)"
mkdir at.work 2>/dev/null && echo alone || echo beside another
until [ -e {stop} ]; do sleep 0.02; done
rmdir at.work
"""


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with real_runs(binary, tmp_path_factory.mktemp("places")) as runs:
        yield runs


@pytest.fixture
def lab(runs, tmp_path):
    lab = Lab(runs, tmp_path)
    yield lab
    lab.end()


class Lab:
    """Directories of one test, and the runs in them."""

    def __init__(self, runs, directory):
        self.runs, self.directory, self.stops, self.mounts, self.owned = runs, directory, {}, [], []

    def made(self, path):
        (self.directory / path).mkdir(parents=True)
        return self.directory / path

    def asks(self, workspace, on_conflict="queue", **body):
        """A run that works in this directory, when it has it, until it is told to stop."""
        stop = self.directory / fresh("stop")
        run = self.runs.start("sh", "-c", WORK.format(stop=stop), workspace=str(workspace), on_conflict=on_conflict,
                              readable=[str(self.directory)], **body)
        self.stops[run] = stop
        return run

    def output(self, run):
        """What it has printed. Empty if it was not started."""
        log = self.runs.log(run, limit=1 << 20)
        return "" if log.status == 404 else log.body.decode()

    def works(self, workspace, **body):
        return self.begun(self.asks(workspace, "refuse", **body))

    def begun(self, run):
        self.runs.wait(run, "running")
        eventually(lambda: len(self.output(run).splitlines()) == 2, why=lambda: str(self.runs.show(run)))
        return run

    def waits(self, workspace, **body):
        """A run that waits for something else than its directory, and the something."""
        gate = self.runs.admin.run(self.runs.agent(), resources=[fresh("gate")])
        run = self.asks(workspace, resources=[gate["places"][0]["path"]], **body)
        assert self.runs.show(run)["status"] == "queued"
        return run, gate

    def opens(self, gate):
        self.runs.admin.finish(gate).ok()

    def stop(self, run, *states):
        """Lets it come to its end; what it printed."""
        self.stops[run].touch()
        self.runs.wait(run, *(states or ("succeeded",)))
        return self.output(run)

    def refused(self, workspace, **body):
        """No run is admitted to this directory. Returns why."""
        body = {"agent": self.runs.agent(), "workspace": str(workspace), "on_conflict": "refuse", **body}
        return self.runs.admin.post("/v1/runs", body).refused(409, "workspace_busy")["detail"]

    def owns(self, workspace, **body):
        """A run that a client admits and works in itself."""
        run = self.runs.admin.run(self.runs.agent(), workspace=str(workspace), on_conflict="refuse", **body)
        self.owned.append(run)
        return run

    def free(self, workspace):
        self.runs.admin.finish(self.owns(workspace)).ok()

    def steps(self, run):
        return [step.get("reason") or "" for step in self.runs.admin.items(f"/v1/runs/{run}/steps")]

    def put_back(self, run, reason):
        """The run waits again, and its history says why."""
        eventually(lambda: reason in self.steps(run), why=lambda: f"{self.steps(run)} {self.runs.show(run)}")
        shown = self.runs.show(run)
        assert shown["status"] == "queued" and shown["fence"] == 0, shown

    def mount(self, *words):
        done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"mounts are not permitted here: {done.stderr.strip()}")
        self.mounts.append(words[-1])

    def end(self):
        for stop in self.stops.values():
            stop.touch()
        for run in self.owned:
            self.runs.admin.finish(run)
        for run in self.stops:
            self.runs.wait(run)
        for point in reversed(self.mounts):
            subprocess.run(["umount", "-l", str(point)], check=True)


@contextlib.contextmanager
def swapped_all_the_time(one, other):
    over = threading.Event()

    def swap():
        libc, exchange = ctypes.CDLL(None), 2
        while not over.is_set():
            assert libc.renameat2(-1, os.fsencode(one), -1, os.fsencode(other), exchange) == 0

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        over.set()
        swapper.join()


def swap_for_a_link(directory, other):
    directory.rename(directory.with_name(directory.name + ".old"))
    directory.symlink_to(other)


# ---- a run that waits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["off", "guarded", "files"])
def test_a_place_that_becomes_a_link_into_anothers_is_waited_for(lab, level):
    q, third = lab.made("q"), lab.made("third")
    first = lab.works(q)
    waiting = lab.asks(q, sandbox_level=level)
    there = lab.works(third)
    q.joinpath("at.work").rmdir()
    swap_for_a_link(q, third)

    lab.stop(first, "succeeded", "failed")

    lab.put_back(waiting, f"'{q}' leads to '{third}' by now")
    assert lab.stop(there) == f"in {third}\nalone\n"
    lab.begun(waiting)
    assert lab.refused(third)
    assert lab.stop(waiting) == f"in {third}\nalone\n"


def test_a_place_that_a_directory_of_another_run_is_moved_to_is_waited_for(lab):
    q, third = lab.made("q"), lab.made("third")
    waiting, gate = lab.waits(q)
    there = lab.works(third)
    q.rename(q.with_name("q.old"))
    third.rename(q)

    lab.opens(gate)

    lab.put_back(waiting, f"'{q}' is another directory than the one that was claimed")
    lab.stop(there)
    assert lab.stop(lab.begun(waiting)) == f"in {q}\nalone\n"


def test_a_place_that_anothers_is_mounted_over_is_waited_for(lab):
    q, third = lab.made("q"), lab.made("third")
    waiting, gate = lab.waits(q)
    there = lab.works(third)
    lab.mount("--bind", third, q)

    lab.opens(gate)

    lab.put_back(waiting, f"'{q}' is another directory than the one that was claimed")
    lab.stop(there)
    assert lab.stop(lab.begun(waiting)) == f"in {q}\nalone\n"


def test_a_place_that_was_made_anew_is_claimed_as_what_it_is(lab):
    q, mnt = lab.made("q"), lab.made("mnt")
    waiting, gate = lab.waits(q)
    q.rename(q.with_name("q.old"))
    lab.made("q")
    lab.opens(gate)
    lab.begun(waiting)

    lab.free(q.with_name("q.old"))
    lab.mount("--bind", q, mnt)

    assert str(q) in lab.refused(mnt)
    assert lab.stop(waiting) == f"in {q}\nalone\n"
    assert f"'{q}' is another directory than the one that was claimed" in lab.steps(waiting)


@pytest.mark.parametrize("change", [
    lambda q: q.rmdir(),
    lambda q: q.rename(q.with_name("renamed")),
    lambda q: q.parent.rename(q.parent.with_name("moved")),
    lambda q: (q.rmdir(), q.write_text("a file")),
    lambda q: (q.rmdir(), q.symlink_to(q)),
], ids=["removed", "renamed", "its parent moved", "a file", "a link to itself"])
def test_a_place_that_is_gone_when_its_run_may_begin_fails_it_with_the_reason(lab, change):
    q = lab.made("parent/q")
    waiting, gate = lab.waits(q)
    change(q)

    lab.opens(gate)
    ended = lab.runs.wait(waiting)

    assert ended["status"] == "failed"
    assert ended["reason"].startswith(f'its place cannot be used: workspace "{q}": ')
    assert ended["reason"].endswith(("; create it or correct the path", "name a directory", "name the directory"))
    assert lab.output(waiting) == ""


def test_a_place_that_is_swapped_all_the_time_is_never_shared(lab):
    """The swaps meet every moment between the look and the start."""
    q, third = lab.made("q"), lab.made("third")
    there = lab.works(third)
    ended = []
    with swapped_all_the_time(q, third):
        # On a busy machine the runs of one round may all have been swapped.
        while len(ended) < 180 and not any(output for _, output in ended):
            started = [lab.runs.start("sh", "-c", "echo begun; ls", workspace=str(q), queue_s=5, on_conflict="queue",
                                      sandbox_level=level) for level in ("off", "guarded", "files") * 6]
            ended += [(lab.runs.wait(run)["reason"], lab.output(run)) for run in started]

    assert {output for _, output in ended} <= {"", "begun\n"}, ended
    assert "begun\n" in {output for _, output in ended}, ended
    lab.stop(there)


def test_a_run_that_asked_not_to_wait_fails_when_its_place_is_anothers_by_its_start(lab):
    q, third = lab.made("q"), lab.made("third")
    there = lab.works(third)
    agent = lab.runs.agent()
    body = {"agent": agent, "command": ["sh", "-c", "echo begun; ls"], "workspace": str(q), "on_conflict": "refuse",
            "retry": {"tries": 3, "backoff_s": 0, "backoff_max_s": 0}}
    turned_away = []
    with swapped_all_the_time(q, third):
        until = time.monotonic() + 60
        while not turned_away and time.monotonic() < until:
            reply = lab.runs.admin.post("/v1/runs", body)
            if reply.status == 409:
                continue
            ended = lab.runs.wait(reply.ok(201)["id"])
            turned_away += [ended] if "asked not to wait" in (ended.get("reason") or "") else []

    assert turned_away, "the swap never came between the admission and the start"
    run = turned_away[0]
    assert run["status"] == "failed" and f"'{q}' " in run["reason"], run
    assert run["reason"].endswith(f"; {there} of agent '{lab.runs.show(there)['agent']}' is in the way, and the run asked not to wait"), run
    assert lab.output(run["id"]) == "", run
    assert not [other for other in lab.runs.by_id().values() if other.get("retry_of") == run["id"]]
    lab.stop(there)


def test_a_waiting_terminal_is_told_that_it_waits_again(lab, binary):
    q, third = lab.made("q"), lab.made("third")
    first = lab.works(q)
    there = lab.works(third)
    environment = {**os.environ, "INTERLOCK_DATA": str(lab.runs.data)}
    with open(lab.directory / "said", "wb") as said:
        shell = subprocess.Popen([binary, "run", "--workspace", str(q), "--", "pwd", "-P"], env=environment,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
    eventually(lambda: f"{q}" in (lab.directory / "said").read_text())
    (q / "at.work").rmdir()
    swap_for_a_link(q, third)
    lab.stop(first, "succeeded", "failed")

    eventually(lambda: f"{third}" in (lab.directory / "said").read_text())
    assert shell.poll() is None
    lab.stop(there)

    out, _ = shell.communicate(timeout=30)
    assert (shell.returncode, out.decode()) == (0, f"{third}\n")


def test_a_repository_that_is_a_link_by_now_is_not_copied(lab):
    repo, theirs = repository(lab.directory / "repo"), repository(lab.directory / "theirs")
    gate = lab.runs.admin.run(lab.runs.agent(), resources=[fresh("gate")])
    run = lab.runs.start("cat", "readme", workspace=str(repo), isolate=True, on_conflict="queue",
                         resources=[gate["places"][0]["path"]])
    assert lab.runs.show(run)["status"] == "queued"
    swap_for_a_link(repo, theirs)

    lab.opens(gate)
    ended = lab.runs.wait(run)

    assert (ended["status"], lab.output(run)) == ("failed", "")
    assert f"'{repo}' leads to '{theirs}' by now" in ended["reason"]


# ---- a run at work ------------------------------------------------------------------------------------------------


def supervised(lab, workspace):
    return lab.works(workspace)


def of_a_client(lab, workspace):
    return lab.owns(workspace)


WHOSE = pytest.mark.parametrize("at_work", [supervised, of_a_client])


@WHOSE
def test_what_a_directory_was_moved_into_is_taken(lab, at_work):
    at_work(lab, lab.made("a/x"))
    other, x = lab.made("other"), lab.directory / "other/x"
    lab.made("a/y"), lab.made("other/y")
    (lab.directory / "a/x").rename(x)

    for taken in (other, x, lab.directory / "a", lab.directory):
        assert lab.refused(taken), taken
    assert lab.refused(x, mode="read")
    lab.free(lab.directory / "a/y")
    lab.free(other / "y")


@WHOSE
def test_what_a_parent_was_moved_into_is_taken(lab, at_work):
    at_work(lab, lab.made("top/mid/x"))
    other = lab.made("other")
    (lab.directory / "top/mid").rename(other / "mid")

    assert lab.refused(other)
    assert lab.refused(other / "mid")
    assert lab.refused(lab.directory / "top"), "where it was is taken until its end"
    lab.free(lab.made("top/beside"))


@WHOSE
def test_what_is_mounted_later_is_taken(lab, at_work):
    at_work(lab, lab.made("a/x"))
    other = lab.made("other")
    lab.mount("--bind", lab.directory / "a", lab.made("other/mnt"))

    assert lab.refused(other)
    assert lab.refused(other / "mnt/x")


def test_a_parent_that_was_made_anew_around_a_run_is_taken_through_a_mount_too(lab):
    lab.works(lab.made("top/x"))
    (lab.directory / "top").rename(lab.directory / "old")
    lab.made("top")
    (lab.directory / "old/x").rename(lab.directory / "top/x")
    lab.mount("--bind", lab.directory / "top", lab.made("mnt"))

    assert lab.refused(lab.directory / "mnt")


@WHOSE
def test_one_that_is_moved_into_the_directory_of_another_is_asked_to_stop(lab, at_work):
    there = lab.works(lab.made("other"))
    run = at_work(lab, lab.made("a/x"))
    run = run["id"] if isinstance(run, dict) else run
    (lab.directory / "a/x").rename(lab.directory / "other/x")

    eventually(lambda: lab.runs.show(run)["status"] == "cancelled" or lab.runs.show(run)["stop_requested"], 15)

    shown = lab.runs.show(run)
    reason = shown["reason"] or shown["stop_requested"]
    assert reason == f"'{lab.directory}/a/x' was moved to '{lab.directory}/other/x', where {there} works"
    assert lab.runs.show(there)["status"] == "running"


def test_one_that_was_moved_while_no_server_ran_is_found_again(binary, tmp_path):
    (tmp_path / "server").mkdir()
    with Server(binary, tmp_path / "server") as server:
        lab = Lab(Runs(server), tmp_path)
        lab.runs.cap(1000)
        run = lab.works(lab.made("a/x"))
        other = lab.made("other")
        server.kill9()
        (lab.directory / "a/x").rename(other / "x")
        lab.runs.start_server()

        assert lab.refused(other)
        assert lab.refused(lab.directory / "a")
        assert lab.stop(run).endswith("alone\n")
        lab.free(other)
        server.verify()


def test_a_directory_that_was_removed_stays_taken_by_its_name(lab):
    x = lab.made("a/x")
    run = lab.owns(x)
    x.rmdir()
    x.mkdir()

    assert lab.refused(x)
    lab.runs.admin.finish(run).ok()
    lab.free(x)


# ---- schedules and further attempts -------------------------------------------------------------------------------


def test_the_place_of_a_schedule_is_what_it_is_when_it_fires(lab):
    site, third = lab.made("site"), lab.made("third")
    stop = lab.directory / "stop"
    agent = lab.runs.agent(command=["sh", "-c", WORK.format(stop=stop)])
    name = fresh("schedule")
    lab.runs.admin.put(f"/v1/schedules/{name}", {"agent": agent, "every_s": 3600, "workspace": str(site)}).ok(200, 201)
    there = lab.works(third)
    swap_for_a_link(site, third)

    run = lab.runs.admin.post(f"/v1/schedules/{name}/wake").ok(201)["run"]
    lab.stops[run] = stop

    lab.put_back(run, f"'{site}' leads to '{third}' by now")
    lab.stop(there)
    assert lab.stop(lab.begun(run)) == f"in {third}\nalone\n"


def test_a_schedule_claims_the_directory_that_was_made_anew(lab):
    site, mnt = lab.made("site"), lab.made("mnt")
    stop = lab.directory / "stop"
    agent = lab.runs.agent(command=["sh", "-c", WORK.format(stop=stop)])
    name = fresh("schedule")
    lab.runs.admin.put(f"/v1/schedules/{name}", {"agent": agent, "every_s": 3600, "workspace": str(site)}).ok(200, 201)
    site.rename(site.with_name("site.old"))
    lab.made("site")
    lab.mount("--bind", site, mnt)

    run = lab.runs.admin.post(f"/v1/schedules/{name}/wake").ok(201)["run"]
    lab.stops[run] = stop
    lab.begun(run)

    assert lab.refused(mnt)
    assert lab.stop(run) == f"in {site}\nalone\n"


def test_a_further_attempt_claims_what_is_there_by_then(lab):
    site, third = lab.made("site"), lab.made("third")
    there = lab.works(third)
    first = lab.runs.start("sh", "-c", f"[ -e {lab.directory}/again ] || {{ touch {lab.directory}/again; exit 3; }}; "
                                       "pwd -P; ls -d at.work", workspace=str(site), on_conflict="queue",
                           retry={"tries": 2, "backoff_s": 1, "backoff_max_s": 1})
    lab.runs.wait(first, "failed")
    swap_for_a_link(site, third)

    second = eventually(lambda: [run for run in lab.runs.by_id().values() if run.get("retry_of") == first])[0]["id"]
    lab.put_back(second, f"'{site}' leads to '{third}' by now")
    lab.stop(there)

    assert lab.runs.wait(second)["exit_code"] != 0  # There is no mark of another run any more.
    assert lab.output(second).splitlines()[0] == str(third)
    assert "cannot access" in lab.output(second)


# ---- what the kernel shows elsewhere ------------------------------------------------------------------------------


@pytest.fixture
def overlay(lab):
    lab.mount("-t", "tmpfs", "none", lab.made("disk"))
    for path in ("disk/low/src", "disk/up", "disk/work", "disk/all"):
        lab.made(path)
    disk = lab.directory / "disk"
    lab.mount("-t", "overlay", "none", "-o", f"lowerdir={disk}/low,upperdir={disk}/up,workdir={disk}/work", disk / "all")
    return disk


@pytest.mark.parametrize("first, second", [("up", "all"), ("all", "up"), ("all/src", "up"), ("low", "all"),
                                           ("all", "low/src"), ("up", "all/src")])
def test_an_overlay_and_its_layers_are_one_place(lab, overlay, first, second):
    lab.owns(overlay / first)

    assert lab.refused(overlay / second)


def test_what_appears_in_a_layer_later_is_taken_too(lab, overlay):
    lab.works(overlay / "all/src")

    (overlay / "all/src/file").write_text("copied up")

    assert lab.refused(overlay / "up/src")


def test_two_overlays_on_one_lower_directory_are_two_places(lab, overlay):
    for path in ("disk/up2", "disk/work2", "disk/all2"):
        lab.made(path)
    lab.mount("-t", "overlay", "none", "-o",
              f"lowerdir={overlay}/low,upperdir={overlay}/up2,workdir={overlay}/work2", overlay / "all2")
    lab.owns(overlay / "all")

    lab.free(overlay / "all2")


def unshared(*words, **options):
    """A program in a mount namespace of its own, as in a container."""
    done = subprocess.run(["unshare", "--mount", *map(str, words)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, **options)
    if "unshare: unshare failed" in done.stderr:
        pytest.skip(f"mount namespaces are not permitted here: {done.stderr.strip()}")
    return done


@pytest.mark.parametrize("words", [["run", "--workspace", "q"], ["run", "--detach", "--workspace", "q"]])
def test_a_program_in_another_mount_namespace_names_no_directory(lab, binary, words):
    lab.made("q")
    options = {"cwd": lab.directory, "env": cli_environment(lab.runs.data)}

    done = unshared(binary, *words, "--", "true", **options)

    assert done.returncode != 0
    assert f"'{lab.directory}/q' is named by a program in another mount namespace" in done.stderr, done
    assert unshared(binary, "run", "--no-workspace", "--", "true", **options).returncode == 0
    assert unshared(binary, "runs", "ls", **options).returncode == 0


def test_a_program_in_another_mount_namespace_puts_no_schedule_for_a_directory(lab, binary):
    lab.made("q")
    agent = lab.runs.agent(command=["true"])

    done = unshared(binary, "schedules", "put", "--agent", agent, "--every", "3600s", "--workspace", "q", fresh("schedule"),
                    cwd=lab.directory, env=cli_environment(lab.runs.data))

    assert done.returncode != 0 and "another mount namespace" in done.stderr, done
