"""./dev campaign with programs that pass, find something, die, hang and are not there: exit code, record and what it says."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import types

import pytest

import campaign as campaign_module

TOOLS = pathlib.Path(__file__).parent
# Instead of a build: what was asked for.
BUILD = """
def run(preset, targets=(), label="build", only_check=False):
    with open(ROOT / "built.log", "a") as log:
        print(preset, *targets, file=log)
    return int(os.environ.get("BUILD_CODE", 0))
"""
SIM = """echo "$*" >> sim.log
echo "10 stories, 1000 commands in 0.1 s; 5 commands/s per core, checking included"
echo "0 violations"
"""
CRASH = """echo "$*" >> crash.log
part=$1
while [ $# -gt 0 ]; do case $1 in --images) images=$2 ;; --kills) kills=$2 ;; esac; shift; done
sleep 0.1
if [ $part = images ]; then
    echo "ok            power lost                                      $images images at 9 points of 3 histories"
    echo "found 7       on purpose: synchronous=normal                  600 images"
else
    echo "ok            kill -9                                         $kills kills"
    echo "                of 64 writers on one session                  2 kills"
    echo "ok            kill -9 at the k-th write or sync               $kills kills"
    echo "found 1       on purpose: a forged charge                     1 kill"
fi
echo "No violations."
"""
FUZZ = """echo "$*" >> fuzz.log
echo "stat::number_of_executed_units: 500"
"""
RACES = """import os
def test_one():
    assert os.access(os.environ["INTERLOCK_BINARY"], os.X_OK)
    with open("servers.log", "a") as log: print(os.environ["INTERLOCK_BINARY"], file=log)
    with open("races.log", "a") as log: print(os.environ["INTERLOCK_SEED"], file=log)
@__import__("pytest").mark.parametrize("n", [20])
def test_two(n): assert os.environ.get("RACE") != "lost", "one charge is lost"
"""
VIOLATION = """echo "seed 41: 3 violations"
echo "  step 12: P1: spent | is 5, not 4"
echo "  the world: 3 nodes"
echo "  to see it again: ./dev sim --seed 41"
echo "10 stories, 1000 commands in 0.1 s; 5 commands/s per core, checking included"
exit 1
"""


class Lab:
    def __init__(self, root):
        self.root = root
        for folder in ("tools", "tests", "bench", "tmp", "fuzz", "build/release", "build/asan", "build/tsan",
                       "build/fuzz"):
            (root / folder).mkdir(parents=True)
        for name in ("campaign.py", "run_tests.py", "suites.py"):
            shutil.copy(TOOLS / name, root / "tools")
        self.write("tools/build.py", (TOOLS / "build.py").read_text().split('if __name__ == "__main__"')[0] + BUILD)
        self.write("tests/test_races_http.py", RACES)
        self.program("release/sim_main", SIM)
        self.program("release/crash_main", CRASH)
        self.program("release/interlock", "")
        for name in ("ask", "cost"):
            self.write(f"fuzz/fuzz_{name}.cc", "")
            self.program(f"fuzz/fuzz_{name}", FUZZ)
        self.record = root / "bench/CAMPAIGNS.md"

    def write(self, name, text):
        (self.root / name).write_text(text)

    def program(self, name, script):
        self.write(f"build/{name}", f"#!/bin/sh\n{script}\n")
        (self.root / "build" / name).chmod(0o755)

    def begin(self, *words, **environment):
        return subprocess.Popen(["/usr/bin/python3", "-B", self.root / "tools/campaign.py", *words], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**os.environ, "TMPDIR": str(self.root / "tmp"), "GIT_CEILING_DIRECTORIES":
                                     str(self.root.parent), **environment})

    def run(self, *words, **environment):
        process = self.begin(*words, **environment)
        said = process.communicate(timeout=60)[0]
        return process.returncode, said

    def log(self, name):
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    def rows(self):
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in self.log("bench/CAMPAIGNS.md")
                if re.match(r"\| 20", line)]


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "lab")


def test_a_short_campaign_reaches_every_part_and_adds_one_line(lab):
    code, said = lab.run("0.05")

    assert code == 0, said
    [date, commit, seeds, commands, images, kills, executions, rounds, findings], = lab.rows()
    first, last = map(int, seeds.split(" to "))
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", date) and commit == "unknown" and findings == "0"
    assert commands == "1,000" and executions == "1,000" and rounds == "1"
    assert int(images.replace(",", "")) >= 500 and int(kills.replace(",", "")) >= 8 and last >= first + 9
    assert lab.log("built.log") == ["release sim_main crash_main interlock", "fuzz fuzz_ask fuzz_cost"]
    assert f"--from {first} " in lab.log("sim.log")[0] and f"-seed={first} " in lab.log("fuzz.log")[0]
    assert lab.log("races.log") == [str(first)]
    assert f"seeds from {first}, drawn from the system's randomness" in said
    assert [line.split()[3] for line in said.splitlines() if line.startswith("ok ")] == list(campaign_module.PARTS)
    assert said.splitlines()[-1].startswith("campaign: 0 findings in ")
    assert not list((lab.root / "tmp").iterdir())


def test_totals_end_the_campaign_and_minutes_do_not(lab):
    code, said = lab.run("0.01", "--only", "kills,sim,images", "--sim-commands", "2500", "--images", "3000", "--kills", "50")

    assert code == 0 and "totals are given, so MINUTES does not end the campaign" in said
    [_, _, _, commands, images, kills, executions, rounds, _], = lab.rows()
    assert commands == "3,000" and (executions, rounds) == ("-", "-")
    assert int(images.replace(",", "")) >= 3000 and int(kills.replace(",", "")) >= 50
    assert lab.log("built.log") == ["release sim_main crash_main"]
    assert "--commands-total 2500" in lab.log("sim.log")[0] and "--commands-total 500" in lab.log("sim.log")[2]


def test_the_time_left_is_known_within_the_first_turn():
    part = types.SimpleNamespace(goal=100, done=10, turns=0, goal_reached=lambda: False)
    state = types.SimpleNamespace(goals=True, parts=[part], round=1, begun=time.monotonic() - 10)

    assert campaign_module.Campaign.time_left(state).endswith(" left")


def test_each_campaign_and_each_turn_has_new_seeds(lab):
    for _ in range(2):
        assert lab.run("--only", "sim", "--sim-commands", "2000")[0] == 0

    seeds = [int(re.search(r"--from (\d+)", line)[1]) for line in lab.log("sim.log")]
    assert seeds[1] == seeds[0] + 10 and seeds[3] == seeds[2] + 10 and len(set(seeds)) == 4
    assert [row[2] for row in lab.rows()] == [f"{seed} to {seed + 19}" for seed in (seeds[0], seeds[2])]
    assert lab.record.read_text().startswith(campaign_module.HEADING) and lab.record.read_text().count("# Campaigns") == 1


# ---- Would it notice? ---------------------------------------------------------------------------------------------

def ends_with_findings(lab, *words, **environment):
    code, said = lab.run(*words, **environment)
    assert code == 1, said
    row, = lab.rows()
    return row[-1], said


def test_a_violation_of_the_simulator_is_a_finding_with_its_seed(lab):
    lab.program("release/sim_main", VIOLATION)

    cell, said = ends_with_findings(lab, "5")

    assert cell == "1: sim: seed 41: 3 violations, step 12: P1: spent / is 5, not 4, replay: `./dev sim --seed 41`"
    assert "FAILED  round 1: sim" in said and "  replay: ./dev sim --seed 41\n" in said and not lab.log("crash.log")


def test_a_simulator_that_dies_is_a_finding(lab):
    lab.program("release/sim_main", """echo "sim: died in one of these stories; to see it again: ./dev sim --seed 77" >&2
                echo "contradiction: invariant (2)"; kill -ABRT $$""")

    cell, _ = ends_with_findings(lab, "5")

    assert cell == ("1: sim: seed 77 or one that ran beside it: sim_main ended with signal SIGABRT: contradiction: "
                    "invariant (2), replay: `./dev sim --seed 77`")


@pytest.mark.parametrize("script, why", [("kill -SEGV $$", "sim_main ended with signal SIGSEGV"),
                                         ("echo bad option; exit 106", "sim_main ended with exit code 106: bad option"),
                                         ("", "sim_main printed no result")])
def test_a_program_without_a_result_is_a_finding_with_its_command(lab, script, why):
    lab.program("release/sim_main", script)

    cell, _ = ends_with_findings(lab, "5")

    assert re.fullmatch(rf"1: sim: {re.escape(why)}, replay: `\./dev sim --from \d+ --seconds \d+ --threads \d+`", cell)


def test_a_violated_image_is_a_finding_with_its_replay(lab):
    lab.program("release/crash_main", """
        echo "2 VIOLATED    power lost                                      400 images at 9 points of 3 histories"
        echo "                un-synced data dropped                        385 images"
        echo "    a batch is there in part: commit 4 (image: torn; again: --replay 7:1234)"
        echo "    verify failed: P3 (image: kept; again: --replay 8:5)"
        echo "2 violations."; exit 1""")

    cell, _ = ends_with_findings(lab, "5", "--only", "images")

    assert cell == ("2: images: a batch is there in part: commit 4 (image: torn), replay: `./dev crash --replay 7:1234`; "
                    "images: verify failed: P3 (image: kept), replay: `./dev crash --replay 8:5`")
    assert lab.rows()[0][4] == "400"


def test_a_checker_that_notices_nothing_is_a_finding(lab):
    lab.program("release/crash_main", CRASH.replace("found 7    ", "NOT NOTICED") + "exit 1")

    cell, _ = ends_with_findings(lab, "5", "--only", "images")

    assert re.fullmatch(r"1: images: the checker did not notice what was broken on purpose: synchronous=normal, replay: "
                        r"`\./dev crash images --short --images \d+ --threads \d+ --seed \d+`", cell)


def test_a_violated_kill_is_a_finding_and_its_files_are_kept(lab):
    lab.program("release/crash_main", """mkdir "$TMPDIR/interlock-crash-1"
        echo "1 VIOLATED    kill -9                                         3 kills"
        echo "    kill 3 of seed 9: lost: message 5 (the files are in $TMPDIR/interlock-crash-1)"; exit 1""")

    cell, said = ends_with_findings(lab, "5", "--only", "kills")

    assert re.fullmatch(r"1: kills: kill 3 of seed 9: lost: message 5 \(the files are in TMPDIR/interlock-crash-1\), replay: "
                        r"`\./dev crash kills --kills \d+ --seed \d+`", cell)
    kept, = (lab.root / "tmp").iterdir()
    assert f"files of the programs are kept in {kept}" in said and (kept / "interlock-crash-1").is_dir()


def test_an_input_that_a_fuzzer_saved_is_a_finding(lab):
    lab.program("fuzz/fuzz_cost", """printf 'a|b' > build/fuzz/found_cost_crash-1
        echo "==1== ERROR: AddressSanitizer: heap-buffer-overflow"
        echo "stat::number_of_executed_units: 30"
        echo "artifact_prefix='x'; Test unit written to build/fuzz/found_cost_crash-1"; exit 77""")

    cell, _ = ends_with_findings(lab, "5", "--only", "fuzz")

    assert cell == ("1: fuzz: fuzz_cost: AddressSanitizer: heap-buffer-overflow (input in base64: YXxi), replay: "
                    "`build/fuzz/fuzz_cost build/fuzz/found_cost_crash-1`")
    assert lab.rows()[0][6] == "530"


def test_a_race_that_is_lost_is_a_finding(lab):
    cell, _ = ends_with_findings(lab, "5", "--only", "races", RACE="lost")

    assert re.match(r"1: races: test_two\[20\]: AssertionError: one charge is lost.*, replay: `INTERLOCK_SEED=\d+ "
                    r"/usr/bin/python3 -m pytest .* 'tests/test_races_http.py::test_two\[20\]'`$", cell)


def test_races_test_the_build_of_the_server_that_is_asked_for(lab):
    lab.program("tsan/interlock", "")

    cell, _ = ends_with_findings(lab, "5", "--only", "races", "--server", "tsan", RACE="lost")

    assert lab.log("built.log") == ["tsan interlock"]
    assert lab.log("servers.log") == [str(lab.root / "build/tsan/interlock")]
    assert ", replay: `INTERLOCK_BINARY=build/tsan/interlock INTERLOCK_SEED=" in cell


def test_the_record_names_a_server_that_is_not_the_release(lab):
    lab.program("asan/interlock", "")

    assert lab.run("0.01", "--server", "asan")[0] == 0
    assert lab.run("0.01")[0] == 0

    assert [row[7] for row in lab.rows()] == ["1 (asan)", "1"]


def test_a_program_that_hangs_is_a_finding(lab):
    lab.write("tools/campaign.py", (TOOLS / "campaign.py").read_text().replace("HANG_SECONDS = 600", "HANG_SECONDS = -59"))
    lab.program("release/sim_main", "trap '' INT; sleep 60")

    cell, _ = ends_with_findings(lab, "5", "--only", "sim")

    assert re.match(r"1: sim: no result after \d+ s, replay: `\./dev sim --from ", cell)


# ---- What can go wrong --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("words, why", [
    (["soon"], "MINUTES must be a positive number, not 'soon'"), (["0"], "MINUTES must be a positive number, not '0'"),
    (["-5"], "MINUTES must be a positive number, not '-5'"), (["inf"], "MINUTES must be a positive number, not 'inf'"),
    (["--only", "sim,luck"], "unknown part 'luck'; the parts are sim, images, kills, fuzz, races"),
    (["--only", ","], "--only names no part; the parts are sim, images, kills, fuzz, races"),
    (["--images", "1.5"], "--images must be a whole number above 0, not '1.5'"),
    (["--only", "sim", "--kills", "4"], "--kills needs the part kills, which --only leaves out"),
    (["--server", "fuzz"], "unknown server 'fuzz'; the servers are release, asan, tsan"),
    (["--only", "sim", "--server", "asan"], "--server needs the part races, which --only leaves out"),
    (["5", "6"], "unrecognized arguments: 6"),
])
def test_wrong_arguments_are_refused_in_one_sentence(lab, words, why):
    code, said = lab.run(*words)

    assert code == 2 and not lab.log("built.log") and not lab.record.exists()
    assert said == f"dev: campaign: {why}; nothing was run; ./dev campaign --help lists the arguments\n"


def test_a_check_of_the_arguments_runs_nothing(lab):
    assert lab.run("--check", "5") == (0, "") and not lab.log("built.log")
    assert lab.run("--check", "soon")[0] == 2


def test_a_failed_build_ends_it(lab):
    code, said = lab.run("5", BUILD_CODE="3")

    assert code == 3 and said == "dev: campaign: the programs were not built; nothing was run\n" and not lab.record.exists()


def test_a_missing_program_is_named_before_anything_runs(lab):
    (lab.root / "build/fuzz/fuzz_cost").unlink()

    code, said = lab.run("5")

    assert code == 1 and not lab.log("sim.log")
    assert said == "dev: campaign: there is no program build/fuzz/fuzz_cost; repeat ./dev campaign, which builds it\n"


@pytest.mark.parametrize("script, why", [
    ("rm build/release/crash_main", "there is no program build/release/crash_main"),
    ("echo '#!/no/such/shell' > build/release/crash_main", "cannot start build/release/crash_main: No such file or directory"),
])
def test_a_program_that_goes_missing_ends_the_campaign_and_loses_nothing(lab, script, why):
    lab.program("release/sim_main", SIM + script)

    code, said = lab.run("5")

    assert code == 1 and f"dev: the campaign ended early: {why}; repeat ./dev campaign, which builds it\n" in said
    assert lab.rows()[0][3] == "1,000" and lab.rows()[0][-1].startswith(f"0; ended early: {why}")


def test_a_record_that_cannot_be_written_is_noticed_before_anything_runs(lab):
    lab.record.mkdir()

    code, said = lab.run("5")

    assert code == 1 and not lab.log("built.log")
    assert said == ("dev: campaign: cannot write bench/CAMPAIGNS.md: Is a directory; nothing was run; make it a file that this "
                    "user can write\n")


def test_a_line_that_does_not_fit_on_the_disk_is_printed(lab):
    lab.record.symlink_to("/dev/full")

    code, said = lab.run("--only", "sim", "--sim-commands", "1000")

    assert code == 1 and "dev: cannot write bench/CAMPAIGNS.md: No space left on device; add this line to it:\n" in said
    assert re.search(r"^\| 20\S+ \| unknown \| \d+ to \d+ \| 1,000 \| - \| - \| - \| - \| 0 \|$", said, re.M)


def test_a_line_is_added_whole_to_a_file_without_a_last_newline(lab):
    lab.record.write_text("text")

    campaign_module.append(lab.record, "| row |\n")

    assert lab.record.read_text() == "text\n| row |\n"


def with_free_bytes(lab, function):
    """The campaign with a disk as `function` says."""
    text = (TOOLS / "campaign.py").read_text()
    lab.write("tools/campaign.py", re.sub(r"(def free_bytes\(directory\):\n    return ).*", rf"\g<1>{function}", text))


def test_a_full_disk_ends_the_campaign_before_a_turn(lab):
    with_free_bytes(lab, "(1 << 20) if (ROOT / 'sim.log').exists() else (9 << 30)")

    code, said = lab.run("5")

    assert code == 1 and "the campaign ended early: the disk of " in said and "free some space, or set TMPDIR" in said
    assert lab.rows()[0][3] == "1,000" and lab.rows()[0][-1].startswith("0; ended early: the disk of ")


def test_what_fails_on_a_full_disk_is_no_violation_but_can_be_replayed(lab):
    lab.program("release/sim_main", "echo 1 >> sim.log\n" + VIOLATION)
    with_free_bytes(lab, "(1 << 20) if (ROOT / 'sim.log').exists() else (9 << 30)")

    code, said = lab.run("5")

    assert code == 1 and "sim failed while the disk was full (seed 41: 3 violations" in said
    assert lab.rows()[0][-1].endswith("free at least 1 GiB and replay: ./dev sim --seed 41")


def has_ended(pid):
    """Gone, or waiting for the init process to reap it. A process that was killed may still be on its way."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_campaign_with_its_programs_and_a_line(lab, number):
    lab.program("release/crash_main", "sleep 59 & echo $! > child.pid; wait")
    process = lab.begin("5")
    deadline = time.monotonic() + 30
    while not lab.log("child.pid"):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)

    process.send_signal(number)
    said = process.communicate(timeout=30)[0]

    assert process.returncode == 130 and f"the campaign was interrupted by {number.name}" in said
    assert lab.rows()[0][3:] == ["1,000", "0", "0", "0", "0", f"0; interrupted by {number.name}"]
    deadline = time.monotonic() + 30
    while not has_ended(lab.log("child.pid")[0]):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_uncommitted_changes_are_marked(lab):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=lab.root, check=True,
                       capture_output=True)

    git("init")
    (lab.root / "src").mkdir()
    lab.write("src/a.cc", "")
    git("add", "src")
    git("commit", "-m", "first")
    run = "--only", "sim", "--sim-commands", "1000"

    assert lab.run(*run)[0] == 0
    lab.write("src/a.cc", "changed")
    assert lab.run(*run)[0] == 0
    assert lab.run(*run, "--programs", lab.root / "build")[0] == 0

    clean, dirty, given = (row[1] for row in lab.rows())
    assert re.fullmatch(r"[0-9a-f]{10}", clean) and dirty == f"{clean}+" and given == f"{clean}+?"
    assert len(lab.log("built.log")) == 2


def test_the_projects_record_has_the_heading(lab):
    assert campaign_module.RECORD.read_text().startswith(campaign_module.HEADING)
