"""./dev with stubs for apt, dpkg, sudo and the build: what it installs, what it says, and how it ends."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

DEV = pathlib.Path(__file__).parent.parent / "dev"
SYSTEM = ("bash", "cat", "dirname", "env", "grep", "mktemp", "paste", "rm", "sed", "tail")
# Every package named in the file `installed` is there. apt-get install adds to it.
DPKG = """for package; do grep -qxF "$package" "$LAB/installed" && echo "$package installed"; done; exit 0"""
APT = r"""echo "$*" >> "$LAB/apt.log"
case "$*" in
    *--download-only*) [ -z "$DOWNLOAD_SAYS" ] || { seq 20; echo "$DOWNLOAD_SAYS"; exit 100; } ;;
    *update*) [ -z "$UPDATE_SAYS" ] || { echo "$UPDATE_SAYS"; exit 100; } ;;
    *) [ -z "$INSTALL_SAYS" ] || { echo "$INSTALL_SAYS"; exit 100; }
       for word; do echo "$word" >> "$LAB/installed"; done ;;
esac"""
BUILD = """import os, pathlib, sys
with open(os.environ["LAB"] + "/build.log", "a") as log: print(*sys.argv[1:], file=log)
if "--known" in sys.argv: sys.exit("dev: unknown preset" if sys.argv[-1] == "nonsense" else 0)
print("built")
sys.exit(int(os.environ.get("BUILD_CODE", 0)))
"""
RUNNER = "import sys\nprint(*sys.argv[1:])\nprint('3 passed, 0 failed')\n"
TOOLS = ("clang++-19", "ld.lld-19", "cmake", "ninja", "git", "npm")


class Lab:
    def __init__(self, root):
        self.root = root
        root.chmod(0o755)
        for folder in ("bin", "tools", "build/release"):
            (root / folder).mkdir(parents=True)
        shutil.copy(DEV, root / "dev")
        for name in SYSTEM:
            (root / "bin" / name).symlink_to(shutil.which(name))
        self.program("bin/dpkg-query", DPKG)
        self.program("bin/apt-get", APT)
        self.program("bin/npm", "")
        self.program("bin/seq", "/usr/bin/seq $*")
        self.program("build/release/interlock", 'echo "started $*"')
        self.write("tools/build.py", BUILD)
        self.write("tools/run_tests.py", RUNNER)
        self.system("debian", "12")
        self.write("installed", "")

    def write(self, name, text):
        (self.root / name).write_text(text)

    def program(self, name, script):
        self.write(name, f"#!/bin/sh\n{script}\n")
        (self.root / name).chmod(0o755)

    def system(self, name, version):
        self.write("os-release", f'ID={name}\nVERSION_ID="{version}"\n')

    def run(self, *words, user=None, **environment):
        ran = subprocess.run([self.root / "dev", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, user=user,
                             env={"PATH": str(self.root / "bin"), "LAB": str(self.root), "INTERLOCK_OS_RELEASE":
                                  str(self.root / "os-release"), **environment}, timeout=60)
        return ran.returncode, ran.stdout

    def log(self, name):
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def lab():
    with tempfile.TemporaryDirectory() as root:
        made = Lab(pathlib.Path(root))
        if os.geteuid() != 0:
            made.program("bin/sudo", 'exec "$@"')
        yield made


# Not root, also if the tests are run by root.
other_user = {"user": 65534} if os.geteuid() == 0 else {}


def test_what_is_missing_is_installed_once_with_its_number_and_a_time(lab):
    code, said = lab.run("up", "--port", "0")

    lines = said.splitlines()
    assert code == 0
    assert re.match(r"\[1/3\] packages: downloading and installing \d+, about \d min: clang-19 ", lines[0])
    assert lines[1:] == ["built", "[3/3] start the server", "started up --detach --port 0"]
    assert lab.log("build.log") == ["--label [2/3] build release interlock"]
    calls = len(lab.log("apt.log"))
    code, said = lab.run("up")
    assert code == 0 and re.match(r"\[1/3\] packages: all \d+ are installed\n", said)
    assert len(lab.log("apt.log")) == calls


@pytest.mark.parametrize("says", ["E: Failed to fetch http://deb.debian.org/x  Could not resolve 'deb.debian.org'",
                                  "E: Could not connect to deb.debian.org:80, connection timed out"])
def test_without_a_network_nothing_is_installed_or_built(lab, says):
    code, said = lab.run("up", DOWNLOAD_SAYS=says, UPDATE_SAYS=says)

    lines = said.splitlines()
    assert code == 1 and len(lines) == 5 and lines[3] == f"  {says}"
    assert lines[4] == ("dev: apt does not reach its servers; nothing was installed; check the network or apt's proxy, "
                        "then repeat ./dev up")
    assert not lab.log("installed") and not lab.log("build.log")


def test_without_a_network_what_was_downloaded_earlier_will_do(lab):
    code, said = lab.run("up", UPDATE_SAYS="E: Could not resolve 'deb.debian.org'")

    assert code == 0 and said.endswith("started up --detach\n")


@pytest.mark.parametrize("says, why, fix", [
    ("dpkg: error: No space left on device", "the disk is full", "free some space"),
    ("E: dpkg was interrupted", "apt cannot install the missing packages", "solve what apt says above"),
])
def test_a_failed_installation_says_how_to_repair_it(lab, says, why, fix):
    code, said = lab.run("build", INSTALL_SAYS=says)

    assert code == 1 and said.splitlines()[-2] == f"  {says}"
    assert said.splitlines()[-1] == (f"dev: {why}; some packages may be half installed, which apt-get --fix-broken install "
                                     f"repairs; {fix}, then repeat ./dev build")


def test_a_refusal_of_sudo_is_named(lab):
    lab.program("bin/sudo", "echo 'sudo: a password is required' >&2; exit 1")

    code, said = lab.run("up", **other_user)

    assert code == 1 and said.splitlines()[-1] == ("dev: sudo refuses to run apt-get; nothing was installed; install the packages "
                                                   "named above as root, then repeat ./dev up")


def test_without_root_and_sudo_the_command_for_root_is_shown(lab):
    (lab.root / "bin/sudo").unlink(missing_ok=True)

    code, said = lab.run("up", **other_user)

    assert code == 1 and said.count("\n") == 1
    assert "installing them needs root or sudo; nothing was installed; run this as root, then repeat ./dev up: " \
           "apt-get install --no-install-recommends clang-19 " in said
    assert not lab.log("apt.log")


def test_with_sudo_apt_is_run_by_it(lab):
    lab.program("bin/sudo", 'echo sudo >> "$LAB/sudo.log"; exec "$@"')
    lab.root.chmod(0o777)
    for name in ("installed", "sudo.log", "apt.log", "build.log"):
        lab.write(name, "")
        (lab.root / name).chmod(0o666)

    code, said = lab.run("build", **other_user)

    assert code == 0 and len(lab.log("sudo.log")) == len(lab.log("apt.log")) == 3


def test_another_system_is_named_with_the_packages_it_lacks(lab):
    lab.system("fedora", "40")

    code, said = lab.run("up")

    assert code == 1 and said.count("\n") == 1
    assert "dev: this system is 'fedora 40', not Debian 12, and has no clang++-19 ld.lld-19 cmake ninja git; nothing was" in said
    assert "libboost1.81-dev" in said and not lab.log("apt.log")


def test_a_system_without_a_name_is_unknown(lab):
    (lab.root / "os-release").unlink()

    assert "this system is 'unknown', not Debian 12" in lab.run("up")[1]


def test_another_system_that_has_the_tools_is_good_enough(lab):
    lab.system("ubuntu", "24.04")
    (lab.root / "bin/dpkg-query").unlink()
    for name in TOOLS:
        lab.program(f"bin/{name}", "")

    code, said = lab.run("up")

    assert code == 0 and not lab.log("apt.log")
    assert said.startswith("[1/3] packages: this system is 'ubuntu 24.04', not Debian 12; using the compiler and tools that it has")


def with_tools(lab):
    lab.system("other", "1")
    for name in TOOLS:
        lab.program(f"bin/{name}", "")


def test_tests_get_every_argument_and_the_last_line_is_theirs(lab):
    with_tools(lab)

    code, said = lab.run("test", "--slowest", "10", "core")

    assert code == 0
    assert said.splitlines()[-3:] == ["[3/3] tests", "build/release --slowest 10 core", "3 passed, 0 failed"]


def test_a_failed_build_ends_the_tests_with_one_failure(lab):
    with_tools(lab)

    code, said = lab.run("test", BUILD_CODE="1")

    assert code == 1 and said.splitlines()[-1] == "0 passed, 1 failed" and "[3/3]" not in said


def test_missing_packages_end_the_tests_with_one_failure(lab):
    code, said = lab.run("test", DOWNLOAD_SAYS="E: Could not resolve 'deb.debian.org'")

    assert code == 1 and said.splitlines()[-1] == "0 passed, 1 failed" and not lab.log("build.log")


def test_a_failed_build_starts_no_server(lab):
    with_tools(lab)

    code, said = lab.run("up", BUILD_CODE="1")

    assert code == 1 and "started" not in said


def test_unknown_names_are_refused_before_anything_is_installed(lab):
    code, said = lab.run("nonsense")
    assert code == 1 and said.startswith("dev: unknown command 'nonsense'; known commands: up test build ")
    assert said.count("\n") == 1 and " clean help" in said

    code, said = lab.run("build", "nonsense")
    assert code == 1 and said == "dev: unknown preset\n" and not lab.log("apt.log")


def test_a_campaign_has_its_arguments_checked_before_anything_is_installed(lab):
    lab.write("tools/campaign.py", "import sys\nprint(*sys.argv[1:])\nsys.exit(2 if 'soon' in sys.argv else 0)\n")

    assert lab.run("campaign", "soon") == (2, "--check soon\n") and not lab.log("apt.log")
    assert lab.run("campaign", "--help") == (0, "--help\n") and not lab.log("apt.log")

    with_tools(lab)
    code, said = lab.run("campaign", "5", "--only", "sim")
    assert code == 0
    assert said.splitlines()[-1] == "--build-label [2/3] build --label [3/3] campaign 5 --only sim"


def test_help_lists_every_command(lab):
    code, said = lab.run("help")
    assert code == 0 and "clean" in said
    handled = {name.strip() for line in (lab.root / "dev").read_text().split("case $command in")[1].splitlines()
               if line.startswith("    ") and line[4:5].isalpha() and ")" in line
               for name in line.split(")")[0].split("|")} - {"-h", "--help"}
    listed = {line.split()[0] for line in said.splitlines() if line.startswith("  ")}
    assert handled == listed
