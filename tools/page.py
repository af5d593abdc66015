#!/usr/bin/python3
"""Builds the page of web/ and writes it as a source file for the binary to carry.

    tools/page.py OUT_DIR                # page_files.cc and page_files.bin; what has not changed is not touched
    tools/page.py --check-types STAMP    # checks the types and touches STAMP
    tools/page.py --test [--report=FILE] # runs the unit tests of web/src; FILE gets a JUnit report

What npm brings and what Vite makes is in build/web, which every preset shares; a lock keeps them from building there at
once. npm is asked only when web/package.json or web/package-lock.json has changed, so that all other builds need no
network. Nothing is written into web/.
"""

import contextlib
import fcntl
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "web"
WORK = ROOT / "build" / "web"
FOLDERS = ("src", "public")  # And the files beside them. CMakeLists.txt watches the same.
NODE_MAJOR_MIN = 18          # Debian 12's own.
NPM_SECONDS = 600
BUILD_SECONDS = 300
TEST_SECONDS = 300
NPM_LINES_MAX = 5            # Of npm's own words, when there is no network.
# With the patience that npm has by default nobody would hear for minutes that there is no network. No package needs a
# script of its own to be installed, so none may run one.
NPM_CI = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error",
          "--prefer-offline", "--fetch-retries=2", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
NO_NETWORK = "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ENOTCACHED|network"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}


class Trouble(Exception):
    """What went wrong, why, and what to do."""


def main():
    words = sys.argv[1:]
    try:
        with alone():
            if words[:1] == ["--test"] and len(words) <= 2 and all(word.startswith("--report=") for word in words[1:]):
                prepare()
                sys.exit(test([word.removeprefix("--report=") for word in words[1:]]))
            elif words[:1] == ["--check-types"] and len(words) == 2:
                prepare()
                check_types()
                pathlib.Path(words[1]).touch()
            elif len(words) == 1 and not words[0].startswith("-"):
                prepare()
                build()
                write_files(pathlib.Path(words[0]).resolve())
            else:
                sys.exit(__doc__)
    except Trouble as trouble:
        sys.exit(f"tools/page.py: {trouble}")


def prepare():
    copy_sources()
    install()


@contextlib.contextmanager
def alone():
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy_sources():
    """Makes build/web the same as web/, but for what was installed and made there."""
    wanted = sources(SOURCE)
    for path in sources(WORK) - wanted:
        (WORK / path).unlink()
    for path in wanted:
        write_if_other(WORK / path, (SOURCE / path).read_bytes())


def sources(root):
    tops = [path for path in root.glob("*") if path.name in FOLDERS or path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(root) for top in tops for path in (top, *top.rglob("*")) if path.is_file()}


def install():
    wanted = digest(WORK, ["package.json", "package-lock.json"])
    done = WORK / "node_modules" / ".installed"
    if done.exists() and done.read_text() == wanted:
        return
    check_node()
    print("page: npm brings what the page is built with", flush=True)
    code, said = run(NPM_CI, NPM_SECONDS)
    if code == 0:
        done.write_text(wanted)
    elif re.search(NO_NETWORK, said):
        last = "\n".join(said.splitlines()[-NPM_LINES_MAX:])
        raise Trouble(f"npm cannot download what the page is built with, because it does not reach its registry:\n{last}\n"
                      "The checkout was not changed. Connect to a network, or set a registry or proxy that this machine "
                      "reaches (npm config set registry …, npm config set proxy …), then repeat the build. Later builds need no "
                      "network until web/package.json changes or build/ is removed.")
    else:
        said = said.split("\nnpm error Clean install a project", 1)[0]  # What follows is npm's help.
        raise Trouble(f"npm could not bring what the page is built with:\n{said}\nIf web/package.json and its lock file "
                      "disagree, CONTRIBUTING.md says how to renew the lock file.")


def check_node():
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise Trouble(f"the page is built with Node.js, and there is no {program}; './dev build' installs it, or: "
                          "apt-get install nodejs npm")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    major = re.match(r"v(\d+)\.", said)
    if not major or int(major[1]) < NODE_MAJOR_MIN:
        raise Trouble(f"the page is built with Node.js {NODE_MAJOR_MIN} or newer, and {shutil.which('node')} is {said or 'none'}; "
                      f"Debian 12's package nodejs will do")


def build():
    """Vite makes dist/, which is kept until a source changes. Vite drops types without a look at them."""
    wanted = digest(WORK, sorted(map(str, sources(WORK))))
    done = WORK / ".made"
    if done.exists() and done.read_text() == wanted and (WORK / "dist" / "index.html").exists():
        return
    done.unlink(missing_ok=True)
    run_tool("vite", "build", "--outDir", "dist", "--emptyOutDir")
    done.write_text(wanted)


def check_types():
    run_tool("tsc", "--noEmit")


def test(reports):
    """Prints what Vitest says, and answers with its exit code."""
    check_node()
    flags = [flag for report in reports for flag in ("--reporter=junit", f"--outputFile.junit={pathlib.Path(report).resolve()}")]
    code, said = run([WORK / "node_modules" / ".bin" / "vitest", "run", "--reporter=default", *flags], TEST_SECONDS)
    print(re.sub(r"(?<![\w/])(?=src/)", "web/", said))
    return code


def run_tool(name, *words):
    check_node()
    code, said = run([WORK / "node_modules" / ".bin" / name, *words], BUILD_SECONDS)
    if code != 0:
        # Compilers of editors find the file by its path from the root of the project.
        said = re.sub(r"^(?=(?:src|index\.html|vite\.config)\b)", "web/", said, flags=re.M)
        raise Trouble(f"{name} does not take the page:\n{said}")


def write_files(out):
    """The bytes of all files, one after the other, each as it is and compressed, and a table that finds them."""
    blob, rows = bytearray(), []
    dist = WORK / "dist"
    for path in sorted(path for path in dist.rglob("*") if path.is_file()):
        name = path.relative_to(dist).as_posix()
        if path.suffix not in TYPES:
            raise Trouble(f"the page has a file {name}, and no content type is known for its kind; tools/page.py has the list")
        plain = path.read_bytes()
        packed = gzip.compress(plain, 9, mtime=0)
        if len(packed) >= len(plain):
            packed = b""
        places = []
        for piece in (plain, packed):
            places.append(f"{{bytes + {len(blob)}, {len(piece)}}}")
            blob += piece
        address = "/" if name == "index.html" else f"/{name}"
        rows.append(f'        PageFile{{"{address}", "{TYPES[path.suffix]}", "{hashlib.sha256(plain).hexdigest()[:32]}",\n'
                    f"                 {places[0]}, {places[1]}}},\n")
    out.mkdir(parents=True, exist_ok=True)
    write_if_other(out / "page_files.bin", bytes(blob))
    write_if_other(out / "page_files.cc", TEMPLATE.replace("@ROWS@", "".join(rows)).encode())


# interlock_embed() in CMakeLists.txt puts page_files.bin into the binary.
TEMPLATE = """\
// Made by tools/page.py from web/.
#include "server/page_files.h"

#include <array>

#include "base/embedded.h"

namespace interlock::embedded {
EmbeddedFiles page_bytes();
}  // namespace interlock::embedded

namespace interlock::server {

std::span<const PageFile> page_files() {
    static const char* const bytes = embedded::page_bytes().front().bytes.data();
    static const std::array files{
@ROWS@    };
    return files;
}

}  // namespace interlock::server
"""


def digest(root, paths):
    total = hashlib.sha256()
    for path in paths:
        content = (root / path).read_bytes() if (root / path).exists() else b""
        total.update(f"{path}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def write_if_other(path, content):
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def run(command, seconds):
    try:
        done = subprocess.run(command, cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=seconds, env={**os.environ, "NO_COLOR": "1"})
        return done.returncode, done.stdout.strip()
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode(errors="replace") if late.stdout else ""
        return 1, f"{said}\nnot done after {seconds} s; a network that does not answer is the usual reason".strip()
    except OSError as error:
        return 1, str(error)


if __name__ == "__main__":
    main()
