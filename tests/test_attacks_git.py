"""git, as the server runs it, starts nothing that a repository names, and worktrees are written only inside."""

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from interlock_server import Server, eventually
from supervised import Runs, cli, git, repository

COMMIT = "git -c user.name=Agent -c user.email=agent@example.invalid commit -q"


@pytest.fixture(scope="module")
def runs(binary, tmp_path_factory):
    with Server(binary, tmp_path_factory.mktemp("git")) as server:
        runs = Runs(server)
        runs.cap(1000)
        yield runs


@pytest.fixture
def repo(tmp_path):
    repo = repository(tmp_path / "repo")
    (repo / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
    (repo / "file").write_text("as stored\n")
    git("add", ".", cwd=repo)
    git("commit", "-qm", "with a filter", cwd=repo)
    return repo


@pytest.fixture
def hit(tmp_path):
    """The file that a planted program makes."""
    return tmp_path / "HIT"


@pytest.fixture
def program(tmp_path, hit):
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\ntouch {hit}\nexec cat\n")
    path.chmod(0o755)
    return path


def isolated(runs, repo, script="true", status="succeeded", **body):
    run = runs.start("/bin/sh", "-c", script, workspace=str(repo), isolate=True, **body)
    row = runs.wait(run)
    assert row["status"] == status, (row, runs.output(run))
    return run


def worktree(runs, run):
    return runs.admin.get(f"/v1/worktrees/{run}").ok()


def path_of(runs, run):
    return pathlib.Path(worktree(runs, run)["path"])


def collected(runs, run, *words):
    return json.loads(cli(runs, "places", "gc", "--remove", *words, run, "--json", code=None)[0])["items"][0]


# ---- programs that a repository names ------------------------------------------------------------------------------


def settings(*pairs):
    def plant(repo, program):
        for key, value in pairs:
            git("config", key, value.format(program), cwd=repo)
    return plant


def included(repo, program):
    (repo / "settings").write_text(f"[filter \"x\"]\n\tsmudge = {program}\n\tclean = {program}\n\trequired\n")
    git("config", "include.path", str(repo / "settings"), cwd=repo)


def included_if(repo, program):
    (repo / "settings").write_text(f"[filter \"x\"]\n\tsmudge = {program}\n\tclean = {program}\n")
    git("config", f"includeIf.gitdir:{repo}/.git/.path", str(repo / "settings"), cwd=repo)


def of_the_worktree(repo, program):
    git("config", "extensions.worktreeConfig", "true", cwd=repo)
    git("config", "--worktree", "filter.x.smudge", str(program), cwd=repo)
    git("config", "filter.x.clean", str(program), cwd=repo)


def by_other_attributes(repo, program):
    (repo / ".git" / "info" / "attributes").write_text("* filter=y\n")
    (repo / "attributes").write_text("* filter=z\n")
    git("config", "core.attributesFile", str(repo / "attributes"), cwd=repo)
    for name in "yz":
        git("config", f"filter.{name}.smudge", str(program), cwd=repo)
        git("config", f"filter.{name}.clean", str(program), cwd=repo)


def hooks(repo, program):
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
        shutil.copy(program, repo / ".git" / "hooks" / name)


PLANTS = {
    "smudge": settings(("filter.x.smudge", "{}")),
    "clean": settings(("filter.x.clean", "{}"), ("filter.x.required", "true")),
    "process": settings(("filter.x.process", "{}"), ("filter.x.required", "true")),
    "include": included,
    "includeIf": included_if,
    "config.worktree": of_the_worktree,
    "attributes": by_other_attributes,
    "hooks": hooks,
    "fsmonitor": settings(("core.fsmonitor", "{}"), ("core.fsmonitorHookVersion", "1")),
    "hooksPath": settings(("core.hooksPath", "../")),
    "diff": settings(("diff.external", "{}"), ("diff.x.command", "{}"), ("diff.x.textconv", "{}")),
    "merge": settings(("merge.x.driver", "{}")),
    "gpg": settings(("gpg.program", "{}"), ("commit.gpgsign", "true"), ("log.showSignature", "true")),
    "terminal": settings(("core.pager", "{}"), ("core.editor", "{}"), ("alias.status", "!{}"), ("pager.status", "{}"),
                         ("core.askPass", "{}"), ("credential.helper", "!{}")),
}


@pytest.mark.parametrize("name", PLANTS)
def test_no_program_of_the_configuration_runs(runs, repo, program, hit, name):
    PLANTS[name](repo, program)

    run = isolated(runs, repo)
    path = path_of(runs, run)
    assert (path / "file").read_text() == "as stored\n"
    os.utime(path / "file", (1, 1))
    (path / "new").write_text("not committed\n")
    assert {reason["keeps"] for reason in worktree(runs, run)["reasons"]} == {"untracked"}
    assert collected(runs, run)["action"] == "kept"
    assert collected(runs, run, "--force")["action"] == "removed"
    cli(runs, "places", "restore", run)
    assert (path / "new").read_text() == "not committed\n"
    assert not hit.exists()


REMOTES = {
    "uploadpack": (("remote.origin.url", "{repo}"), ("remote.origin.uploadpack", "{program}")),
    "ssh": (("remote.origin.url", "ssh://host/repo"), ("core.sshCommand", "{program}")),
    "ext": (("remote.origin.url", "ext::{program}"), ("protocol.ext.allow", "always")),
    "gitProxy": (("remote.origin.url", "git://host/repo"), ("core.gitProxy", "{program}")),
    "insteadOf": (("remote.origin.url", "x:y"), ("url.ext::{program}.insteadOf", "x:"), ("protocol.ext.allow", "always")),
}


@pytest.mark.parametrize("name", REMOTES)
def test_nothing_is_fetched_for_a_partial_clone(runs, repo, program, hit, name):
    blob = git("rev-parse", "HEAD:file", cwd=repo).strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in (("core.repositoryformatversion", "1"), ("extensions.partialClone", "origin"),
                       ("remote.origin.promisor", "true"), *REMOTES[name]):
        git("config", key.format(program=program), value.format(program=program, repo=repo), cwd=repo)

    run = isolated(runs, repo, status="failed")

    assert "partial clone" in runs.show(run)["reason"]
    assert not hit.exists()


def test_no_program_of_a_repository_inside_a_worktree_runs(runs, repo, program, hit):
    script = f"""set -e
        git init -q inside && cd inside && echo x > x && echo '* filter=y' > .gitattributes && git add . && {COMMIT} -m x
        git config filter.y.clean {program}; git config core.fsmonitor {program}
        touch -d 2001-01-01 x; cd .. && git add inside 2> /dev/null && {COMMIT} -m gitlink"""
    run = isolated(runs, repo, script)
    (path_of(runs, run) / "inside" / "x").write_text("changed\n")

    assert "nested_repository" in {reason["keeps"] for reason in worktree(runs, run)["reasons"]}

    assert collected(runs, run, "--force")["action"] != "removed"
    assert not hit.exists()


def test_a_worktree_that_names_another_common_directory_is_looked_at_through_its_own(runs, repo, program, hit):
    """The git directory of a worktree is its run's to write, and says where git finds the configuration."""
    run = isolated(runs, repo, f"""set -e
        cp -r "$(git rev-parse --git-common-dir)" fake && git config --file fake/config filter.x.clean {program}
        echo "$PWD/fake" > "$(git rev-parse --git-dir)/commondir"; touch -d 2001-01-01 file""")

    worktree(runs, run)
    collected(runs, run, "--force")

    assert not hit.exists()


def test_a_configuration_that_changes_all_the_time_is_not_used_either(runs, repo, program, hit):
    run = isolated(runs, repo)
    path = path_of(runs, run)
    flip = subprocess.Popen(["/bin/sh", "-c", f"""while :; do
        git config filter.x.clean {program}; git config --unset filter.x.clean; done"""], cwd=repo)
    try:
        for _ in range(10):
            os.utime(path / "file", (1, 1))
            worktree(runs, run)
    finally:
        flip.kill()
        flip.wait()
    assert not hit.exists()


def test_a_filter_cannot_keep_the_lock_of_a_repository(runs, repo):
    git("config", "filter.x.smudge", "sh -c '(setsid sleep 20 > /dev/null 2>&1 < /dev/null &); cat'", cwd=repo)
    begin = time.monotonic()

    isolated(runs, repo)
    isolated(runs, repo)

    assert time.monotonic() - begin < 15


# ---- the sandbox ---------------------------------------------------------------------------------------------------


def sandboxed(runs, repo, script, **body):
    run = isolated(runs, repo, script, sandbox=True, **body)
    return run


def test_git_works_in_a_sandboxed_worktree(runs, repo):
    run = sandboxed(runs, repo, f"""set -e
        echo a > a; git add a; {COMMIT} -m first
        git branch side; git tag mark; git checkout -q side; echo b > b; git add b; {COMMIT} -m second
        echo c >> b; git stash -q; git stash apply -q; git checkout -q -- b
        git -c user.name=A -c user.email=a@b merge -q mark; git reset -q --hard HEAD~1; git gc --auto""")

    assert git("log", "-1", "--format=%s", "side", cwd=repo) == "first\n"
    assert worktree(runs, run)["branch"] in git("for-each-ref", "--format=%(refname:short)", cwd=repo)


@pytest.mark.parametrize("name", ["config", "hooks/post-checkout", "info/attributes", "modules/x", "config.worktree",
                                  "worktrees/other/HEAD", "commondir"])
def test_a_sandboxed_run_does_not_write_the_rest_of_the_git_directory(runs, repo, name):
    (repo / ".git" / "modules").mkdir()
    git("worktree", "add", "-q", str(repo.parent / "other"), cwd=repo)
    target = repo / ".git" / name
    before = target.read_text() if target.exists() else None

    sandboxed(runs, repo, f"""set -e; common=$(git rev-parse --git-common-dir)
        ! echo x >> $common/{name}; ! mv $common/{name} $common/objects/moved; ! ln -s /tmp $common/link
        ! git config user.name changed""")

    assert (target.read_text() if target.exists() else None) == before


def test_a_teardown_runs_in_the_sandbox_of_its_run(runs, repo, tmp_path):
    outside = tmp_path / "outside"
    run = sandboxed(runs, repo, f"""set -e
        printf '#!/bin/sh\\necho x > {outside}\\necho y > $TMPDIR/y && echo inside > inside' > clean.sh; chmod +x clean.sh
        git add clean.sh; {COMMIT} -m clean; git branch keep-it""", teardown="./clean.sh; rm -f inside")

    assert collected(runs, run)["action"] == "removed"

    assert not outside.exists()


def test_a_teardown_whose_sandbox_cannot_be_had_does_not_run_and_the_worktree_stays(runs, repo, tmp_path):
    more, ran = tmp_path / "more", tmp_path / "ran"
    more.mkdir()
    run = sandboxed(runs, repo, "true", writable=[str(more)], teardown=f"touch {ran}")
    more.rmdir()

    item = collected(runs, run)

    assert item["action"] == "failed" and "teardown cannot run" in json.dumps(item), item
    assert path_of(runs, run).is_dir() and not ran.exists()


def test_a_teardown_leaves_no_process_and_gets_no_secret_of_the_server(binary, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "s3cret")
    with Server(binary, tmp_path) as server:
        runs = Runs(server)
        repo = repository(tmp_path / "repo")
        note, left = tmp_path / "note", tmp_path / "left"
        run = isolated(runs, repo, teardown=f"""(env; ls -l /proc/self/fd) > {note}
            setsid env -i PATH=$PATH sh -c 'echo $$ > {left}; sleep 100' & sleep 0.3""")

        assert collected(runs, run)["action"] == "removed"

        said = note.read_text()
        assert f"INTERLOCK_RUN={run}" in said and "s3cret" not in said and "socket:" not in said
        assert not pathlib.Path(f"/proc/{left.read_text().strip()}/exe").exists()


# ---- writing only inside -------------------------------------------------------------------------------------------


def forged(repo, run, old, new):
    ref = f"refs/interlock/kept/{run}"
    text = git("cat-file", "commit", ref, cwd=repo).replace(old, new)
    made = subprocess.run(["git", "hash-object", "-t", "commit", "-w", "--stdin"], cwd=repo, input=text.encode(),
                          capture_output=True, check=True).stdout.decode().strip()
    git("update-ref", ref, made, cwd=repo)


@pytest.mark.parametrize("line", ["Staged: --index-output={}", "Head: --output={}", "Branch-Tip: --stdin",
                                  "Branch: ../../{}", "Head-Ref: --stdin", "Base: HEAD"])
def test_a_forged_kept_commit_writes_no_file(runs, repo, tmp_path, line):
    run = isolated(runs, repo, "echo x > new; git add new; echo y > new")
    collected(runs, run, "--force")
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    name = line.split(":")[0]
    now = next(text for text in git("cat-file", "commit", f"refs/interlock/kept/{run}", cwd=repo).splitlines()
               if text.startswith(f"Interlock-{name}:"))
    forged(repo, run, now, f"Interlock-{line.format(victim)}")

    out, err = cli(runs, "places", "restore", run, code=None)

    assert "is not what a run left" in out + err
    assert victim.read_text() == "precious\n"


@pytest.mark.parametrize("name", ["..", ".git", ".GIT"])
def test_a_kept_tree_that_leads_out_of_the_worktree_is_refused(runs, repo, name):
    run = isolated(runs, repo, "echo x > new")
    collected(runs, run, "--force")
    ref = f"refs/interlock/kept/{run}"
    old = git("rev-parse", f"{ref}^{{tree}}", cwd=repo).strip()
    blob = git("rev-parse", f"{ref}:new", cwd=repo).strip()
    inner = b"100644 owned\0" + bytes.fromhex(blob)
    def written(kind, data):
        return subprocess.run(["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"], cwd=repo, input=data,
                              capture_output=True, check=True).stdout.decode().strip()
    outer = b"40000 " + name.encode() + b"\0" + bytes.fromhex(written("tree", inner))
    forged(repo, run, f"tree {old}", f"tree {written('tree', outer)}")

    out, err = cli(runs, "places", "restore", run, code=None)

    assert "is not what a run left" in out + err
    assert not list(runs.data.glob("worktrees/**/owned"))


@pytest.mark.parametrize("name", ["refs/interlock", "refs/heads/interlock", "logs/refs/heads", "worktrees"])
def test_a_link_in_the_repository_leads_no_write_out_of_it(runs, repo, tmp_path, name):
    victim = tmp_path / "victim"
    victim.mkdir()
    link = repo / ".git" / name
    shutil.rmtree(link, ignore_errors=True)
    link.symlink_to(victim)

    run = runs.start("true", workspace=str(repo), isolate=True)

    assert runs.wait(run)["status"] == "failed"
    assert list(victim.rglob("*")) == []


def test_links_in_the_git_directory_of_a_worktree_lead_nowhere(runs, repo, tmp_path):
    """A run can put links where the server writes its mark and its copy of the index."""
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    run = isolated(runs, repo, f"""set -e; own=$(git rev-parse --git-dir); ln -s {victim} $own/interlock.new
        for i in $(seq 200); do ln -s {victim} $own/interlock-index-$(cat {runs.data}/pid 2>/dev/null || echo 1)-$i; done""")

    worktree(runs, run)
    collected(runs, run)

    assert victim.read_text() == "precious\n"


def test_an_index_that_is_a_link_is_not_read(runs, repo):
    run = isolated(runs, repo, """own=$(git rev-parse --git-dir); rm $own/index
        ln -s $(git rev-parse --git-common-dir)/index $own/index""")

    reasons = worktree(runs, run)["reasons"]

    assert "unreadable" in {reason["keeps"] for reason in reasons}, reasons


def test_pipes_in_the_git_directory_of_a_worktree_are_not_waited_for(runs, repo):
    run = isolated(runs, repo, "own=$(git rev-parse --git-dir); mkfifo $own/ORIG_HEAD2; rm $own/ORIG_HEAD; mkfifo $own/ORIG_HEAD")

    begin = time.monotonic()
    worktree(runs, run)

    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("script", [
    "mkfifo .gitignore", "mkdir d; mkfifo d/.gitignore; touch d/x", "rm .gitattributes; mkfifo .gitattributes; echo x >> file",
    "mkfifo $(git rev-parse --git-common-dir)/refs/heads/pipe", "cd $(git rev-parse --git-common-dir); mkfifo shallow",
    "cd $(git rev-parse --git-common-dir); rm -f info/exclude; mkfifo info/exclude",
    "git config core.excludesFile $PWD/.pipe; mkfifo .pipe"])
def test_pipes_in_the_place_of_files_that_git_reads_are_not_waited_for(runs, repo, script):
    run = isolated(runs, repo, script)

    begin = time.monotonic()
    shown = worktree(runs, run)
    assert collected(runs, run)["action"] != "removed"

    assert time.monotonic() - begin < 30
    assert shown["reasons"], shown


def test_a_pipe_that_a_program_holds_open_is_not_waited_for(runs, repo):
    """git's open() returns then, and its read() gets nothing."""
    run = isolated(runs, repo, "rm .gitattributes; mkfifo .gitattributes; echo x >> file")
    held = os.open(runs.data / "worktrees" / run / ".gitattributes", os.O_RDWR)
    try:
        begin = time.monotonic()
        worktree(runs, run)
        assert time.monotonic() - begin < 20
    finally:
        os.close(held)


def test_what_is_written_after_the_last_look_at_a_worktree_is_kept(runs, repo):
    """From the mark on the server deletes, so no path may lead to the files by then."""
    run = isolated(runs, repo)
    path = path_of(runs, run)
    writer = subprocess.Popen(["/bin/sh", "-c", f"""
        until grep -qs '^removing {run}' {repo}/.git/worktrees/*/interlock || ! [ -e {repo}/.git/worktrees ]; do :; done
        echo work > {path}/precious"""], stderr=subprocess.DEVNULL)

    collected(runs, run)

    written = writer.wait(10) == 0
    assert not written or (path / "precious").exists()


@pytest.mark.parametrize("then", ["echo work > precious", "exec sleep 100", "exec sleep 100 < file"])
def test_a_worktree_in_which_something_is_new_is_moved_back(runs, repo, then):
    """A program that comes in between the first look and the move is seen by the second look."""
    for _ in range(5):
        run = isolated(runs, repo)
        path = path_of(runs, run)
        guest = subprocess.Popen(["/bin/sh", "-c", f"until cd {path}.removing; do :; done; {then}"],
                                 stderr=subprocess.DEVNULL)
        try:
            if collected(runs, run)["action"] != "removed":
                assert (path / "file").exists() and not pathlib.Path(f"{path}.removing").exists()
                return
        finally:
            guest.kill()
            guest.wait()
    pytest.fail("the second look never saw it")


def test_included_files_stay_sparse_and_pipes_and_links_are_left_alone(runs, repo, tmp_path):
    with open(repo / "big", "wb") as file:
        file.truncate(300 << 20)
        file.seek(100 << 20)
        file.write(b"in the middle")
    os.mkfifo(repo / "pipe")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs\n")
    (repo / "linked").symlink_to(outside)
    (repo / ".worktreeinclude").write_text("big\npipe\nlinked\nlinked/file\n../outside/file\n/etc/passwd\n")

    path = path_of(runs, isolated(runs, repo))

    copy = path / "big"
    assert copy.stat().st_size == 300 << 20 and copy.stat().st_blocks * 512 < 8 << 20
    with open(copy, "rb") as file:
        file.seek(100 << 20)
        assert file.read(13) == b"in the middle"
    assert not (path / "pipe").exists() and not (path / "linked" / "file").is_file() or (path / "linked").is_symlink()
    assert not (path / "etc").exists()


# ---- what git reads for a run --------------------------------------------------------------------------------------


BORROWS = {
    "alternates": "mkdir -p $git/objects/info; echo {}/.git/objects > $git/objects/info/alternates; echo {} > $git/refs/heads/far",
    "links": """ln -s {}/.git/objects/pack/* $git/objects/pack/ 2>/dev/null; ln -sfn {}/.git/refs/heads/main $git/refs/heads/far
        for each in {}/.git/objects/??; do ln -s $each $git/objects/ 2>/dev/null; done"""}


@pytest.mark.parametrize("how", BORROWS)
def test_a_run_gets_no_files_of_a_repository_that_it_may_not_read(runs, repo, tmp_path, how):
    """The server makes the worktree of the run's child, and could read more than a run at level files can."""
    private = repository(tmp_path / "private")
    (private / "secret").write_text("of another repository\n")
    git("add", ".", cwd=private)
    git("commit", "-qm", "secret", cwd=private)
    head = git("rev-parse", "HEAD", cwd=private).strip()
    script = f"""git=$(git rev-parse --git-common-dir); own=$(git rev-parse --git-dir)
        {BORROWS[how].replace("{}", str(private), BORROWS[how].count("{}") - (how == "alternates")).replace("{}", head)}
        echo "ref: refs/heads/far" > $own/HEAD
        {runs.server.binary} run --isolate --quiet -- cat secret; true"""

    run = runs.start("/bin/sh", "-c", script, workspace=str(repo), isolate=True, sandbox_level="guarded")
    runs.wait(run)

    assert "of another repository" not in runs.output(run)
    # What is in the repository itself is read as before.
    assert path_of(runs, isolated(runs, repo)).joinpath("file").read_text() == "as stored\n"
