"""Runs in git worktrees of their own: made side by side, kept for every reason there is, removed and brought back."""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import time

import pytest

from interlock_server import together
from supervised import LONG, cli, git, real_runs, repository, wait_for

COMMIT = "git -c user.name=Agent -c user.email=agent@example.invalid commit -q"
COUNT = 30


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with real_runs(binary, tmp_path_factory.mktemp("worktrees")) as runs:
        yield runs


@pytest.fixture
def repo(tmp_path):
    return repository(tmp_path / "repo")


def listed(repo):
    """What git itself knows: path: {"branch": …, "locked": …}."""
    found = {}
    for block in git("worktree", "list", "--porcelain", cwd=repo).strip().split("\n\n"):
        facts = dict(line.partition(" ")[::2] for line in block.splitlines())
        found[facts["worktree"]] = facts
    return found


def worktree(runs, run):
    return runs.admin.get(f"/v1/worktrees/{run}").ok()


def isolated(runs, repo, script="true", **body):
    """A run in a worktree, which has succeeded; and where that is."""
    run = runs.start("/bin/sh", "-c", script, workspace=str(repo), isolate=True, **body)
    row = runs.wait(run)
    assert row["status"] == "succeeded", (row, runs.output(run))
    return run, pathlib.Path(worktree(runs, run)["path"])


def places(runs, *words, code=0):
    return json.loads(cli(runs, "places", *words, "--json", code=code)[0])


def collected(runs, *words, run):
    """What gc says about one run's worktree."""
    [item] = places(runs, "gc", *words, run)["items"]
    assert item["run"] == run
    return item


# ---- many at once -------------------------------------------------------------------------------------------------


def test_many_isolated_runs_commit_side_by_side(runs, repo, tmp_path):
    (repo / ".gitignore").write_text("secret.env\n")
    (repo / ".worktreeinclude").write_text("secret.env\n")
    (repo / "secret.env").write_text("TOKEN=of the test\n")
    git("add", ".gitignore", ".worktreeinclude", cwd=repo)
    git("commit", "-qm", "ignore", cwd=repo)
    base = git("rev-parse", "HEAD", cwd=repo).strip()
    script = f"""set -e
        test -e {tmp_path}/setup-$INTERLOCK_RUN
        grep -q 'of the test' secret.env
        echo $INTERLOCK_RUN > file-$INTERLOCK_RUN
        git add . && {COMMIT} -m "work of $INTERLOCK_RUN"
        echo $INTERLOCK_PORT_BASE > {tmp_path}/ports-$INTERLOCK_RUN
        mv {tmp_path}/ports-$INTERLOCK_RUN {tmp_path}/port-$INTERLOCK_RUN
        while [ ! -e {tmp_path}/go ]; do sleep 0.2; done"""
    agent = runs.agent()
    ids = together(COUNT, lambda _: runs.start(
        "/bin/sh", "-c", script, agent=agent, workspace=str(repo), isolate=True,
        setup=f"pwd > {tmp_path}/setup-$INTERLOCK_RUN", teardown=f"pwd >> {tmp_path}/torn-down"))
    try:
        for run in ids:
            wait_for(tmp_path / f"port-{run}", 60)
    finally:
        (tmp_path / "go").touch()
    shown = {row["run"]: row for row in runs.admin.get("/v1/worktrees").ok()["items"] if row["run"] in ids}
    known = listed(repo)
    assert len(shown) == COUNT and len(known) == COUNT + 1
    for run, row in shown.items():
        assert not pathlib.Path(row["path"]).is_relative_to(repo) and row["base"] == base and row["branch"].endswith(run)
        assert known[row["path"]]["locked"] == f"interlock {run}"
        assert (tmp_path / f"setup-{run}").read_text().strip() == row["path"]
        assert int((tmp_path / f"port-{run}").read_text()) == row["port_base"]
    ports = sorted(row["port_base"] for row in shown.values())
    assert len(set(ports)) == COUNT and min(b - a for a, b in zip(ports, ports[1:])) >= 2

    for run in ids:
        assert runs.wait(run)["status"] == "succeeded", runs.output(run)
    refs = git("for-each-ref", "--format=%(refname:short) %(subject)", "refs/heads/interlock", cwd=repo).splitlines()
    assert sorted(refs) == sorted(f"{row['branch']} work of {run}" for run, row in shown.items())
    for run, row in shown.items():
        assert git("show", f"{row['branch']}:file-{run}", cwd=repo) == f"{run}\n"
        assert git("rev-parse", f"{row['branch']}~1", cwd=repo).strip() == base

    # What is only there stays; once all of it is elsewhere, all of them go, and are torn down before.
    assert {item["action"] for item in places(runs, "gc", "--remove", *ids)["items"]} == {"kept"}
    for row in shown.values():
        git("branch", f"kept-{row['run']}", row["branch"], cwd=repo)
    assert {item["action"] for item in places(runs, "gc", *ids)["items"]} == {"would_remove"}
    assert set(listed(repo)) == set(known) and not (tmp_path / "torn-down").exists()
    assert {item["action"] for item in places(runs, "gc", "--remove", *ids)["items"]} == {"removed"}
    assert list(listed(repo)) == [str(repo)]
    assert not any(os.path.lexists(row["path"]) for row in shown.values())
    assert sorted((tmp_path / "torn-down").read_text().split()) == sorted(row["path"] for row in shown.values())
    assert git("for-each-ref", "refs/heads/interlock", "refs/interlock/base", cwd=repo) == ""


@pytest.mark.seconds_max(300)
def test_a_server_that_dies_while_worktrees_are_made_makes_each_of_them_once(binary, tmp_path):
    repo = repository(tmp_path / "repo")
    for number in range(300):
        (repo / f"file-{number}").write_text(f"{number}\n" * 200)
    git("add", ".", cwd=repo)
    git("commit", "-qm", "more to check out", cwd=repo)
    script = f"echo $INTERLOCK_RUN >> work && echo x >> {tmp_path}/began-$INTERLOCK_RUN && git add . && {COMMIT} -m w"
    with real_runs(binary, tmp_path) as runs:
        agent = runs.agent()
        chance = random.Random(3)
        ids = []
        for _ in range(10 if LONG else 3):
            ids += [runs.start("/bin/sh", "-c", script, agent=agent, workspace=str(repo), isolate=True) for _ in range(8)]
            time.sleep(chance.uniform(0, 0.15))
            runs.restart()
        runs.settle(120)
        rows = [runs.show(run) for run in ids]
        assert [(row["status"], row["reason"]) for row in rows if row["status"] != "succeeded"] == []
        for run in ids:
            assert (tmp_path / f"began-{run}").read_text() == "x\n"
            seen = worktree(runs, run)
            assert git("show", f"{seen['branch']}:work", cwd=repo) == f"{run}\n"
            assert [reason["keeps"] for reason in seen["reasons"]] == ["unreachable_commits"]
        assert len(listed(repo)) == len(ids) + 1


def test_a_teardown_has_no_connection_of_the_server(runs, repo, tmp_path):
    run, _ = isolated(runs, repo, teardown=f"ls -l /proc/self/fd > {tmp_path}/seen")
    assert collected(runs, "--remove", run=run)["action"] == "removed"
    assert "->" in (seen := (tmp_path / "seen").read_text())
    assert "socket:" not in seen, seen


def test_all_worktrees_are_collected_at_once_unless_some_are_named(runs, repo, tmp_path):
    clean, path = isolated(runs, repo)
    dirty, kept = isolated(runs, repo, "touch new")
    assert {clean, dirty} <= {item["run"] for item in places(runs, "gc")["items"]}
    out, err = cli(runs, "places", "gc")
    assert clean in out and "new" in out and "--remove" in err
    assert path.is_dir() and kept.is_dir()
    actions = {item["run"]: item["action"] for item in places(runs, "gc", "--remove")["items"]}
    assert (actions[clean], actions[dirty]) == ("removed", "kept")
    assert not path.exists() and kept.is_dir()


# ---- who gets one -------------------------------------------------------------------------------------------------


def test_whoever_finds_the_repository_taken_is_isolated_on_request(runs, repo):
    first = runs.start("/bin/sleep", "100", workspace=str(repo), on_conflict="isolate")
    runs.wait(first, "running")
    second = runs.start("/bin/pwd", workspace=str(repo), on_conflict="isolate")
    assert runs.wait(second)["status"] == "succeeded"

    assert runs.show(first)["places"][0]["path"] == str(repo)
    runs.admin.get(f"/v1/worktrees/{first}").refused(404, "not_found")
    seen = worktree(runs, second)
    assert runs.output(second).strip() == seen["path"] == runs.show(second)["places"][0]["path"]
    runs.stop(first)
    runs.wait(first)


def test_isolation_works_in_the_same_directory_of_the_repository(runs, repo):
    (repo / "deep/er").mkdir(parents=True)
    (repo / "deep/er/file").write_text("x")
    git("add", ".", cwd=repo)
    git("commit", "-qm", "deep", cwd=repo)
    run, path = isolated(runs, repo / "deep/er", "pwd; ls")
    assert runs.output(run) == f"{path}/deep/er\nfile\n"


def test_outside_of_a_repository_there_is_no_isolation(runs, tmp_path):
    (tmp_path / "plain").mkdir()
    body = {"agent": runs.agent(), "command": ["/bin/true"], "workspace": str(tmp_path / "plain"), "isolate": True}
    problem = runs.admin.post("/v1/runs", body).problem()
    assert problem["status"] == 422 and "git repository" in problem["detail"]
    out, err = cli(runs, "run", "--isolate", "--", "/bin/true", code=None, cwd=tmp_path / "plain")
    assert out == "" and "git repository" in err and "/#/runs/" not in err


def test_a_setup_that_fails_is_the_end_of_the_run(runs, repo):
    run = runs.start("/bin/echo", "never", workspace=str(repo), isolate=True, setup="echo no; exit 5")
    row = runs.wait(run)
    assert (row["status"], row["exit_code"]) == ("failed", 5)
    assert runs.output(run) == "no\n"


# ---- the ten reasons ----------------------------------------------------------------------------------------------
# Each is a cause that is there inside, and gone outside.


@contextlib.contextmanager
def process_inside(runs, repo, run, path):
    process = subprocess.Popen(["/bin/sleep", "100"], cwd=path)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def modified(runs, repo, run, path):
    (path / "readme").write_text("changed\n")
    yield
    git("checkout", "-q", "readme", cwd=path)


@contextlib.contextmanager
def untracked(runs, repo, run, path):
    (path / "new").write_text("new\n")
    yield
    (path / "new").unlink()


@contextlib.contextmanager
def unreachable_commits(runs, repo, run, path):
    (path / "new").write_text("new\n")
    git("add", ".", cwd=path)
    git("commit", "-qm", "only here", cwd=path)
    yield
    git("branch", "rescued", worktree(runs, run)["branch"], cwd=repo)


@contextlib.contextmanager
def operation_in_progress(runs, repo, run, path):
    git("bisect", "start", cwd=path)
    yield
    git("bisect", "reset", cwd=path)


@contextlib.contextmanager
def locked_by_other(runs, repo, run, path):
    git("worktree", "unlock", str(path), cwd=repo)
    git("worktree", "lock", "--reason", "mine now", str(path), cwd=repo)
    yield
    git("worktree", "unlock", str(path), cwd=repo)


@contextlib.contextmanager
def nested_repository(runs, repo, run, path):
    with open(repo / ".git/info/exclude", "a") as exclude:
        exclude.write("inside\n")
    git("init", "-q", "inside", cwd=path)
    yield
    subprocess.run(["rm", "-r", path / "inside"], check=True)


@contextlib.contextmanager
def not_ours(runs, repo, run, path):
    aside = path.with_name(path.name + "-aside")
    path.rename(aside)
    path.mkdir()
    (path / "readme").write_text("somebody else's\n")
    yield
    assert (path / "readme").read_text() == "somebody else's\n"
    subprocess.run(["rm", "-r", path], check=True)
    aside.rename(path)


@contextlib.contextmanager
def unreadable(runs, repo, run, path):
    aside = repo.with_name("aside")
    repo.rename(aside)
    yield
    aside.rename(repo)


REASONS = [process_inside, modified, untracked, unreachable_commits, operation_in_progress, locked_by_other,
           nested_repository, not_ours, unreadable]


def is_kept(runs, run, path, reason):
    """For this reason and no other, by whatever is asked; and it stays as it is."""
    before = sorted(path.iterdir())
    told = places(runs, "why", run)["worktrees"][0]
    assert [each["keeps"] for each in told["reasons"]] == [reason] and told["removable"] is False
    sentence = told["reasons"][0]["detail"]
    assert len(sentence) > 10
    assert reason in (shown := cli(runs, "places", "why", run)[0]) and sentence[:30] in shown, shown
    assert reason in cli(runs, "places", "why", path)[0]
    for words in ([], ["--remove"]):
        told = collected(runs, *words, run=run)
        assert (told["action"], [each["keeps"] for each in told["reasons"]]) == ("kept", [reason])
    assert sentence[:30] in cli(runs, "places", "gc", run)[0]
    assert sorted(path.iterdir()) == before


def goes(runs, repo, run, path):
    told = collected(runs, run=run)
    assert (told["action"], told["reasons"]) == ("would_remove", [])
    assert path.is_dir() and str(path) in listed(repo), "to be asked is not to be told"
    assert "--remove" in cli(runs, "places", "gc", run)[1]
    assert collected(runs, "--remove", run=run)["action"] == "removed"
    assert not os.path.lexists(path)
    assert str(path) not in listed(repo)
    assert run not in [row["run"] for row in runs.admin.get("/v1/worktrees").ok()["items"] if row["state"] == "open"]


@pytest.mark.parametrize("cause", REASONS, ids=lambda cause: cause.__name__)
def test_a_worktree_is_kept_for_a_reason_and_goes_without(runs, repo, cause):
    run, path = isolated(runs, repo)
    with cause(runs, repo, run, path):
        is_kept(runs, run, path, cause.__name__)
    goes(runs, repo, run, path)


def test_a_worktree_is_kept_while_it_is_leased_and_goes_afterwards(runs, repo, tmp_path):
    # Its process works elsewhere, so that it is the lease alone that keeps it.
    run = runs.start("/bin/sh", "-c", f"cd /; touch {tmp_path}/up; exec sleep 100", workspace=str(repo), isolate=True)
    wait_for(tmp_path / "up")
    path = pathlib.Path(worktree(runs, run)["path"])
    is_kept(runs, run, path, "leased")
    assert collected_by_force(runs, run)["action"] != "removed" and path.is_dir(), "by no force"
    assert run in cli(runs, "places", "ls")[0]
    runs.stop(run)
    runs.wait(run)
    goes(runs, repo, run, path)


def test_force_does_not_go_against_a_process(runs, repo):
    run, path = isolated(runs, repo)
    with process_inside(runs, repo, run, path):
        assert collected_by_force(runs, run)["action"] != "removed"
        assert path.is_dir() and str(path) in listed(repo)
    goes(runs, repo, run, path)


def collected_by_force(runs, run):
    return json.loads(cli(runs, "places", "gc", "--remove", "--force", run, "--json", code=None)[0])["items"][0]


# ---- removed by force, and back -----------------------------------------------------------------------------------


def contents(path):
    """Every file below, byte for byte, with what git keeps of its permissions."""
    found = {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if name == ".git" or file.is_dir() and not file.is_symlink():
            continue
        found[name] = os.readlink(file) if file.is_symlink() else (file.read_bytes(), os.access(file, os.X_OK))
    return found


def test_what_is_removed_by_force_comes_back_byte_for_byte(runs, repo, tmp_path):
    run, path = isolated(runs, repo, f"echo committed > committed && git add . && {COMMIT} -m work",
                         teardown=f"echo down >> {tmp_path}/down; rm -f untracked")
    (path / "readme").write_text("changed, not staged\r\n")
    (path / "staged").write_bytes(random.Random(1).randbytes(100_000))
    git("add", "staged", cwd=path)
    (path / "staged").write_bytes(b"changed again\0after it was staged")
    (path / "untracked").write_text("new\n")
    (path / "a dir").mkdir()
    (path / "a dir/with 'quotes'\nand a line").write_text("odd\n")
    (path / "program").write_text("#!/bin/sh\n")
    (path / "program").chmod(0o755)
    (path / "link").symlink_to("nowhere/at all")
    (path / "committed").unlink()
    files, status, head = contents(path), git("status", "--porcelain=v1", cwd=path), git("rev-parse", "HEAD", cwd=path)
    branch = git("symbolic-ref", "HEAD", cwd=path)

    cli(runs, "places", "gc", "--force", code=2)
    assert json.loads(cli(runs, "places", "gc", "--force", run, "--json")[0])["items"][0]["action"] != "removed"
    assert contents(path) == files, "without --remove nothing happens"
    cli(runs, "places", "restore", run)
    assert contents(path) == files, "what is there is not touched"
    told = collected_by_force(runs, run)
    assert (told["action"], told["saved_as"]) == ("removed", f"refs/interlock/kept/{run}")
    assert not os.path.lexists(path) and str(path) not in listed(repo)
    assert (tmp_path / "down").read_text() == "down\n"
    git("cat-file", "-e", f"refs/interlock/kept/{run}", cwd=repo)
    assert f"refs/interlock/kept/{run}" in cli(runs, "places", "ls")[0] or \
        f"refs/interlock/kept/{run}" in cli(runs, "places", "why", run)[0]
    git("gc", "-q", "--prune=now", cwd=repo)

    cli(runs, "places", "restore", run)
    assert contents(path) == files
    assert git("status", "--porcelain=v1", cwd=path) == status
    assert git("rev-parse", "HEAD", cwd=path) == head and git("symbolic-ref", "HEAD", cwd=path) == branch
    assert git("show", ":staged", cwd=path, text=False) == random.Random(1).randbytes(100_000)
    assert listed(repo)[str(path)]["locked"] == f"interlock {run}"
    assert "modified" in cli(runs, "places", "why", run)[0]
    assert collected_by_force(runs, run)["action"] == "removed"
    cli(runs, "places", "restore", run)
    assert contents(path) == files, "as often as one likes"


def test_there_is_nothing_to_restore_where_nothing_was_saved(runs, repo):
    run, path = isolated(runs, repo)
    goes(runs, repo, run, path)
    _, err = cli(runs, "places", "restore", run, code=None)
    assert "nothing" in err or "no worktree" in err, err
    assert not path.exists()
    cli(runs, "places", "why", run, code=3)
