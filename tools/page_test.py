"""tools/page.py in a project of its own, with an npm that brings two small scripts instead of a compiler and Vite."""

import gzip
import pathlib
import re
import shutil
import subprocess

import pytest

PAGE = pathlib.Path(__file__).parent / "page.py"
NPM = r"""#!/bin/sh
echo "$@" >> "$LAB/npm.log"
[ -z "$NPM_SAYS" ] || { echo "$NPM_SAYS"; exit 1; }
mkdir -p node_modules/.bin && cp "$LAB"/bin/tsc "$LAB"/bin/vite "$LAB"/bin/vitest node_modules/.bin/
"""
NODE = "#!/bin/sh\necho ${NODE_VERSION:-v18.20.4}\n"
TSC = "#!/bin/sh\n! grep -n WRONG src/*.ts\n"
# Says when another is at it in the same directory.
VITE = r"""#!/bin/sh
echo vite >> "$LAB/vite.log"
mkdir busy || exit 1
sleep 0.2
rm -rf dist && mkdir -p dist/assets && cp index.html dist/ && cat src/*.ts > dist/assets/index-1.js && rmdir busy
"""
VITEST = r"""#!/bin/sh
for word; do case $word in --outputFile.junit=*) echo '<testsuites/>' > "${word#*=}" ;; esac; done
! grep -n WRONG src/*.ts
"""


class Lab:
    def __init__(self, root):
        self.root = root
        for name, text in {"npm": NPM, "node": NODE, "tsc": TSC, "vite": VITE, "vitest": VITEST}.items():
            self.write(f"bin/{name}", text).chmod(0o755)
        (root / "tools").mkdir()
        shutil.copy(PAGE, root / "tools")
        self.write("web/package.json", "{}")
        self.write("web/package-lock.json", "{}")
        self.write("web/index.html", "<!doctype html>" + "x" * 200)
        self.write("web/src/main.ts", "first")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def begin(self, *words, **environment):
        path = f"{self.root}/bin:/usr/bin:/bin"
        return subprocess.Popen(["/usr/bin/python3", self.root / "tools/page.py", *words], text=True, cwd=self.root,
                                env={"PATH": path, "LAB": str(self.root), **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def build(self, out="out", **environment):
        return self.ended(self.begin(out, **environment))

    def check_types(self):
        return self.ended(self.begin("--check-types", "types_checked"))

    def test(self, *flags):
        return self.ended(self.begin("--test", *flags))

    @staticmethod
    def ended(process):
        said = process.communicate(timeout=60)[0]
        return process.returncode, said

    def calls(self, program):
        log = self.root / f"{program}.log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def files(self, out="out"):
        """What the table says: path, type, bytes, and the bytes again as they come out of the compressed ones."""
        source = (self.root / out / "page_files.cc").read_text()
        blob = (self.root / out / "page_files.bin").read_bytes()
        rows = re.findall(r'PageFile\{"(.*?)", "(.*?)", "[0-9a-f]{32}",\s*\{bytes \+ (\d+), (\d+)\}, '
                          r"\{bytes \+ (\d+), (\d+)\}\}", source)
        piece = lambda begin, size: blob[int(begin):int(begin) + int(size)]
        return {path: (kind, piece(a, b), gzip.decompress(piece(c, d)) if d != "0" else None)
                for path, kind, a, b, c, d in rows}


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def test_every_file_is_in_the_table_as_it_is_and_compressed_where_that_helps(lab):
    assert lab.build() == (0, "page: npm brings what the page is built with\n")

    html = b"<!doctype html>" + b"x" * 200
    assert lab.files() == {"/": ("text/html; charset=utf-8", html, html),
                           "/assets/index-1.js": ("text/javascript; charset=utf-8", b"first", None)}
    assert not (lab.root / "web/node_modules").exists()


def test_nothing_is_done_and_nothing_is_touched_when_nothing_has_changed(lab):
    lab.build()
    before = {path: path.stat().st_mtime_ns for path in (lab.root / "out").iterdir()}

    assert lab.build(NPM_SAYS="not to be called") == (0, "")
    assert {path: path.stat().st_mtime_ns for path in (lab.root / "out").iterdir()} == before
    assert (lab.calls("npm"), lab.calls("vite")) == (1, 1)


def test_another_preset_takes_over_what_was_built(lab):
    lab.build()

    assert lab.build("other")[0] == 0
    assert lab.files("other") == lab.files()
    assert (lab.calls("npm"), lab.calls("vite")) == (1, 1)


def test_a_changed_source_is_built_without_npm_and_a_removed_one_is_gone(lab):
    lab.write("web/src/other.ts", " second")
    lab.build()
    lab.write("web/src/main.ts", "third")
    (lab.root / "web/src/other.ts").unlink()

    assert lab.build(NPM_SAYS="not to be called")[0] == 0
    assert lab.files()["/assets/index-1.js"][1] == b"third"


@pytest.mark.parametrize("name", ["package.json", "package-lock.json"])
def test_npm_is_asked_again_when_it_is_told_something_else(lab, name):
    lab.build()
    lab.write(f"web/{name}", '{"other": true}')

    assert lab.build()[0] == 0
    assert lab.calls("npm") == 2


def test_without_a_network_it_says_what_to_do_and_goes_on_once_there_is_one(lab):
    code, said = lab.build(NPM_SAYS="npm words\n" * 100 + "npm error code ENOTFOUND")

    assert code == 1 and len(said.splitlines()) < 10
    assert "does not reach its registry" in said and "ENOTFOUND" in said and "The checkout was not changed. Connect to a" in said
    assert lab.build()[0] == 0


def test_a_wrong_type_fails_the_check_which_names_the_file_of_the_project(lab):
    lab.write("web/src/main.ts", "WRONG")
    lab.write("web/src/other.ts", "right")

    code, said = lab.check_types()
    assert code == 1
    assert "web/src/main.ts:1:WRONG" in said
    assert not (lab.root / "types_checked").exists()
    lab.write("web/src/main.ts", "right")
    assert lab.check_types()[0] == 0
    assert (lab.root / "types_checked").exists()


def test_the_unit_tests_run_with_the_packages_of_the_build_and_write_a_report(lab):
    lab.build()

    assert lab.test() == (0, "\n")
    assert lab.test("--report=report.xml")[0] == 0
    assert (lab.root / "report.xml").read_text() == "<testsuites/>\n"
    assert lab.calls("npm") == 1


def test_a_unit_test_that_fails_is_an_exit_code_and_names_the_file_of_the_project(lab):
    lab.write("web/src/main.ts", "WRONG")
    lab.write("web/src/other.ts", "right")

    code, said = lab.test("--report=report.xml")
    assert code == 1
    assert "web/src/main.ts:1:WRONG" in said
    assert (lab.root / "report.xml").exists()


@pytest.mark.parametrize("words", [[], ["--test", "x"], ["--check-types"], ["a", "b"], ["--nonsense"]])
def test_nothing_is_built_for_words_that_it_does_not_know(lab, words):
    code, said = lab.ended(lab.begin(*words))

    assert code == 1 and "tools/page.py OUT_DIR" in said
    assert lab.calls("npm") == 0


def test_what_vite_says_names_the_file_of_the_project(lab):
    lab.write("bin/vite", "#!/bin/sh\necho src/main.ts:1: wrong; exit 1\n").chmod(0o755)

    code, said = lab.build()
    assert code == 1
    assert "web/src/main.ts:1: wrong" in said


def test_a_node_that_is_too_old_or_missing_is_named(lab):
    assert "Node.js 18 or newer" in lab.build(NODE_VERSION="v16.20.2")[1]
    (lab.root / "bin/npm").unlink()
    said = lab.build(PATH=f"{lab.root}/bin")[1]

    assert "there is no npm" in said and "apt-get install nodejs npm" in said


def test_a_file_of_unknown_kind_is_refused(lab):
    lab.write("bin/vite", VITE + "touch dist/movie.mkv\n").chmod(0o755)

    code, said = lab.build()
    assert code == 1 and "movie.mkv" in said


def test_presets_that_build_at_once_wait_for_each_other(lab):
    builds = [lab.begin(f"out{i}") for i in range(4)]

    assert [(each.communicate(timeout=60)[1], each.returncode) for each in builds] == [(None, 0)] * 4
    assert lab.calls("npm") == 1
    assert all(lab.files(f"out{i}") == lab.files("out0") for i in range(4))
