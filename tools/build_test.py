"""tools/build.py in a project of its own, whose steps are small shell scripts."""

import importlib.util
import io
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

BUILD = pathlib.Path(__file__).parent / "build.py"
LISTS = """cmake_minimum_required(VERSION 3.25)
project(lab LANGUAGES NONE)
foreach(name one two three)
  add_custom_command(OUTPUT ${name} COMMAND sh ${CMAKE_SOURCE_DIR}/${name}.sh DEPENDS ${CMAKE_SOURCE_DIR}/${name}.sh)
  list(APPEND outputs ${name})
endforeach()
add_custom_target(steps ALL DEPENDS ${outputs})
"""
PRESETS = """{"version": 6, "configurePresets": [
  {"name": "base", "hidden": true, "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}",
   "cacheVariables": {"CMAKE_CXX_COMPILER": "clang++-19"}},
  {"name": "release", "inherits": "base"}, {"name": "debug", "inherits": "base"}]}
"""
GARBAGE = bytes(range(256)) * 8


class Lab:
    def __init__(self, root):
        self.root = root
        self.directory = root / "build" / "release"
        (root / "tools").mkdir(parents=True)
        shutil.copy(BUILD, root / "tools")
        self.write("CMakeLists.txt", LISTS)
        self.write("CMakePresets.json", PRESETS)
        for name in ("one", "two", "three"):
            self.step(name, "")

    def write(self, name, text):
        (self.root / name).write_text(text)

    def step(self, name, script):
        self.write(f"{name}.sh", f"{script}\ntouch {name}\n")

    def begin(self, *words, path="", **options):
        environment = {"PATH": f"{path}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        return subprocess.Popen(["/usr/bin/python3", "-B", self.root / "tools/build.py", *(words or ["release"])], text=True,
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)

    def build(self, *words, **options):
        process = self.begin(*words, **options)
        said = process.communicate(timeout=60)[0]
        return process.returncode, said

    def built(self):
        return all((self.directory / name).exists() for name in ("one", "two", "three"))


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path / "lab")


@pytest.fixture
def module(lab):
    spec = importlib.util.spec_from_file_location("build_under_test", lab.root / "tools/build.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def wait_for(path):
    deadline = time.monotonic() + 30
    while not path.exists() or not path.read_text().strip():
        assert time.monotonic() < deadline, f"{path} did not come"
        time.sleep(0.02)
    return int(path.read_text())


def gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] == "Z"
    except OSError:
        return True


def test_a_build_says_how_much_it_is_and_how_long_it_took(lab):
    code, said = lab.build("--label", "[2/3] build", "release")

    assert code == 0 and lab.built()
    assert said.splitlines()[0] == "[2/3] build release: 3 steps, a few seconds"
    assert said.splitlines()[-1].startswith("[2/3] build release: 3 steps in ")
    assert lab.build("release") == (0, "build release: up to date\n")


def test_a_target_builds_nothing_else(lab):
    assert lab.build("release", "one")[0] == 0
    assert (lab.directory / "one").exists() and not (lab.directory / "two").exists()


def test_a_failed_step_is_shown_alone_with_the_command_to_repeat_it(lab):
    lab.step("one", "echo words of another step")
    lab.step("two", "sleep 0.3; echo 'two.cc:1: error: it is wrong'; exit 1")

    code, said = lab.build()

    assert code == 1
    assert said.splitlines()[-3:] == ["dev: the build failed at two", "  two.cc:1: error: it is wrong",
                                      "repeat: ninja -C build/release two"]
    assert "words of another step" not in said
    assert "words of another step" in (lab.directory / "build.log").read_text()
    assert lab.build("release", "one")[0] == 0


def test_steps_that_ninja_runs_for_itself_are_not_counted(module):
    output = module.Output()
    for text in ("0/2\x1fRe-checking globbed directories...", "1/2\x1fRe-running CMake...", "7/9\x1fBuilding CXX object a.o"):
        assert (output.done, output.total) == (0, 0)
        output.line(f"\x1f{text}")
    assert (output.done, output.total) == (7, 9)


def test_a_long_error_is_cut_at_its_first_error(lab):
    lab.step("one", "seq 1000; echo 'one.cc:1: error: first'; seq 2000 3000; exit 1")

    code, said = lab.build()

    assert code == 1 and len(said.splitlines()) < 50
    assert "one.cc:1: error: first" in said and "  500\n" not in said
    assert "more lines in build/release/build.log)" in said


def test_a_full_disk_is_recognised_in_the_output_of_a_step(lab):
    lab.step("one", "set -e; head -c 100 /dev/zero > /dev/full")

    code, said = lab.build()

    assert code == 1 and "\nthe disk is full: " in said and "free at least 0.5 GiB and repeat the command" in said


def test_a_full_disk_is_recognised_when_no_program_names_it(lab, module, monkeypatch):
    assert module.disk_full("unknown build rule", lab.root) == ""
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 10**12, 1 << 20))
    assert module.disk_full("unknown build rule", lab.root).startswith("\nthe disk is full: 0.0 GiB free in ")


def test_too_little_space_is_found_before_the_build(lab, module, monkeypatch, capsys):
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 10**12, 2 << 30))

    assert module.run("release") == 1
    said = capsys.readouterr().err
    assert said == ("dev: the disk of build/release has 2.0 GiB free and the build needs about 3.0 GiB; nothing was built; "
                    "free some space and repeat the command\n")
    assert not (lab.directory / "CMakeCache.txt").exists()
    (lab.directory / ".ninja_log").write_text("# ninja log v5\n")
    assert module.run("release") == 0  # The next build needs less.


def test_unknown_names_are_refused_with_the_known_ones(lab):
    assert lab.build("nonsense") == (1, "dev: unknown preset 'nonsense'; known presets: release, debug\n")
    assert lab.build("--known", "base")[0] == 1
    assert lab.build("--known", "debug") == (0, "")
    assert not (lab.root / "build").exists()
    code, said = lab.build("release", "nonsense")
    assert code == 1 and "dev: the build failed: ninja: unknown target 'nonsense'\n" in said


def test_an_error_in_cmake_is_shown_without_its_progress(lab):
    lab.write("CMakeLists.txt", LISTS + 'message(STATUS "looking")\nmessage(FATAL_ERROR "Could NOT find Boost")\n')

    code, said = lab.build()

    assert code == 1 and said.startswith("dev: configuring failed: cmake ended with exit code 1\n")
    assert "Could NOT find Boost" in said and "looking" not in said and "clang++" not in said
    assert said.endswith("repeat: cmake --preset release\n")
    lab.write("CMakeLists.txt", LISTS)
    assert lab.build()[0] == 0


@pytest.mark.parametrize("name, kept, note", [
    ("CMakeCache.txt", 200, "CMakeCache.txt is incomplete"),
    ("build.ninja", 900, None),
    (".ninja_log", 40, None),
    (".ninja_deps", 14, None),
])
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage"])
def test_a_build_recovers_from_a_damaged_file(lab, name, kept, note, damage):
    assert lab.build()[0] == 0
    path = lab.directory / name
    if name == ".ninja_deps":  # These steps have no header files, so ninja wrote none.
        path.write_bytes(b"# ninjadeps\n\x04\x00\x00\x00")
    path.write_bytes({"empty": b"", "cut": path.read_bytes()[:kept], "garbage": GARBAGE}[damage])
    if name.startswith(".ninja") and damage != "cut":
        note = f"{name} is damaged, so the steps it recorded run again"
    (lab.directory / "one").unlink()

    code, said = lab.build()

    assert code == 0 and lab.built(), said
    assert said.count("\n") <= 3
    if note:
        assert note in said
    assert lab.build() == (0, "build release: up to date\n")


@pytest.mark.parametrize("before, after, note", [
    ("CMAKE_GENERATOR:INTERNAL=Ninja", "CMAKE_GENERATOR:INTERNAL=Unix Makefiles", "was made with Unix Makefiles"),
    ("=clang++-19", "=/usr/bin/g++", "was made with the compiler /usr/bin/g++"),
])
def test_a_directory_of_another_generator_or_compiler_is_configured_again(lab, before, after, note):
    assert lab.build()[0] == 0
    cache = lab.directory / "CMakeCache.txt"
    assert before in cache.read_text()
    cache.write_text(cache.read_text().replace(before, after))

    code, said = lab.build()

    assert code == 0 and f"build/release {note}; configuring build/release from scratch\n" in said
    assert "from scratch" not in lab.build()[1]


def test_a_directory_copied_from_another_checkout_is_configured_again(lab, tmp_path):
    assert lab.build()[0] == 0
    lab.step("two", "echo changed > mark")
    shutil.copytree(lab.root, tmp_path / "copy", symlinks=True)
    copy = Lab.__new__(Lab)
    copy.root, copy.directory = tmp_path / "copy", tmp_path / "copy/build/release"

    code, said = copy.build()

    assert code == 0 and f"build/release was made for {lab.root}" in said
    assert (copy.directory / "mark").exists() and not (lab.directory / "mark").exists()


def test_a_configure_that_was_killed_is_repeated_from_scratch(lab, tmp_path):
    stub = tmp_path / "bin" / "cmake"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/cmake.pid\nexec sleep 60\n")
    stub.chmod(0o755)
    process = lab.begin(path=stub.parent)
    cmake = wait_for(tmp_path / "cmake.pid")
    process.kill()
    os.kill(cmake, signal.SIGKILL)
    process.wait()

    code, said = lab.build()

    assert code == 0 and lab.built()
    assert "an earlier configure was killed; configuring build/release from scratch\n" in said
    assert lab.build() == (0, "build release: up to date\n")


def test_a_build_that_was_killed_is_continued_after_its_last_compiler(lab):
    lab.step("one", "echo $$ > pid; sleep 0.6")
    process = lab.begin()
    wait_for(lab.directory / "pid")
    process.kill()
    process.wait()

    code, said = lab.build()

    assert code == 0 and lab.built()
    assert f"waiting for process {process.pid}, which builds in build/release\n" in said


def test_a_second_build_waits_for_the_first(lab):
    lab.step("one", "echo $$ > pid; sleep 0.6")
    first = lab.begin()
    wait_for(lab.directory / "pid")

    assert lab.build() == (0, f"build release: waiting for process {first.pid}, which builds in build/release\n"
                              "build release: up to date\n")
    assert lab.build("debug")[1].count("waiting") == 0
    assert first.wait() == 0
    first.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_ninja_and_its_children(lab, number):
    lab.step("one", "echo $$ > pid; exec sleep 60")
    process = lab.begin()
    child = wait_for(lab.directory / "pid")
    process.send_signal(number)
    said = process.communicate(timeout=30)[0]

    assert process.returncode == 130 and gone(child)
    assert said.splitlines()[-1].startswith("dev: interrupted") and "the same command continues from there" in said
    lab.step("one", "")
    assert lab.build()[0] == 0


def test_a_file_in_the_way_of_the_build_directory_is_named(lab):
    lab.write("build", "")

    code, said = lab.build()

    assert code == 1 and said.count("\n") == 1
    assert said.startswith("dev: cannot write build/release: a file is in the way of the build directory")


def test_a_checkout_that_cannot_be_written_is_named():
    with tempfile.TemporaryDirectory() as root:
        lab = Lab(pathlib.Path(root) / "lab")
        os.chmod(root, 0o755)
        lab.root.chmod(0o555)
        code, said = lab.build(**({"user": 65534} if os.geteuid() == 0 else {}))
        lab.root.chmod(0o755)

    assert code == 1 and said == ("dev: cannot write build: Permission denied; nothing was built; make it writable for this "
                                  "user, or use a copy of the checkout that is\n")


# Progress and estimates.

class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def progress_of(module, terminal, steps, seconds):
    clock, stream = Clock(), io.StringIO()
    progress = module.Progress("build release", stream, terminal, clock)
    progress.begin(module.Estimate({f"{number}.o": 1.0 for number in range(steps)}, 1))
    for number in range(steps):
        clock.now += seconds / steps
        progress.step(number + 1, steps, f"Building CXX object {number}.o")
    progress.end()
    return stream.getvalue()


def test_without_a_terminal_a_line_comes_now_and_then(module):
    said = progress_of(module, False, 500, 200).splitlines()

    assert said[0] == "build release: 500 steps, about 8 min 30 s"
    assert 8 <= len(said) <= 14
    assert "build release: 250 of 500 steps, 50 %, " in "\n".join(said)
    assert said[-1] == "build release: 500 steps in 3 min 20 s"


def test_without_a_terminal_a_slow_step_still_gives_a_line_per_half_minute(module):
    clock, stream = Clock(), io.StringIO()
    progress = module.Progress("build release", stream, False, clock)
    progress.begin(module.Estimate({"a.o": 100.0}, 1))
    for clock.now in range(100):
        progress.tick()

    assert len(stream.getvalue().splitlines()) == 4


def test_on_a_terminal_one_line_is_rewritten(module):
    said = progress_of(module, True, 50, 100)

    assert said.count("\n") == 1 and said.count("\r") >= 50
    assert all(len(line) < 100 for line in said.split("\r"))
    assert said.split("\r")[-1] == "\x1b[Kbuild release: 50 steps in 1 min 40 s\n"


def test_the_estimate_follows_the_observed_pace(module):
    estimate = module.Estimate({f"{number}.o": 2.0 for number in range(100)}, 2)
    assert estimate.remaining(0) == 100
    for number in range(50):
        estimate.finish(f"{number}.o")

    assert estimate.share() == 0.5
    assert 8 < estimate.remaining(5) < 15      # Ten times as fast: a compiler cache.
    assert 40 < estimate.remaining(50) < 60    # As expected.
    assert 80 < estimate.remaining(100) < 100  # Half as fast.
    estimate.finish("unknown")
    assert estimate.share() == 0.5


def test_known_durations_come_from_the_longest_record_and_others_are_built_in(lab, module):
    log = lab.directory / ".ninja_log"
    log.parent.mkdir(parents=True)
    log.write_text("# ninja log v5\n0\t4000\t1\ta.o\tff\n0\t20\t2\ta.o\tff\n5\t10\tcut")

    assert module.durations(log) == {"a.o": 4.0}
    assert module.built_in_seconds("x/cmake_pch.hxx.pch") > module.built_in_seconds("a_test.cc.o")
    assert module.built_in_seconds("libinterlock_base.a") < module.built_in_seconds("a.cc.o")


def test_the_next_build_expects_what_the_last_one_took(lab, module):
    lab.step("one", "sleep 0.5")
    assert lab.build()[0] == 0
    (lab.directory / "one").unlink()

    planned = module.planned_steps(lab.directory, ["all"])
    assert list(planned) == ["one"] and 0.5 <= planned["one"] < 30


@pytest.mark.parametrize("seconds, text", [(0, "a few seconds"), (7, "about 5 s"), (44, "about 45 s"), (100, "about 1 min 30 s"),
                                           (599, "about 10 min"), (1234, "about 21 min")])
def test_estimates_are_rounded(module, seconds, text):
    assert module.about(seconds) == text


def test_the_compiler_cache_is_the_default_and_can_be_replaced(module, monkeypatch):
    monkeypatch.delenv("INTERLOCK_COMPILER_LAUNCHER", raising=False)
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert module.environment()["INTERLOCK_COMPILER_LAUNCHER"] == "ccache"
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert module.environment()["INTERLOCK_COMPILER_LAUNCHER"] == ""
    monkeypatch.setenv("INTERLOCK_COMPILER_LAUNCHER", "other")
    assert module.environment()["INTERLOCK_COMPILER_LAUNCHER"] == "other"
