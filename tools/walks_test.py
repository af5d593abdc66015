"""ARCHITECTURE.md, docs/internals/ and other pages about the code: the files and functions that they name exist.

Code spans name files and functions, below src/ or the root:

    `folder/file.cc`                      the file exists
    `folder/file.cc: name, other_name`    and its code, without comments and texts, has each function
    | `src/folder/` | … `file.cc` … |     in a row of the code map, the file is in that folder
"""

import pathlib
import re

import pytest

import tidy

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [*(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")),
         *sorted((ROOT / "docs/internals").glob("*.md"))]
STEPS_MIN = 60  # So that a form that the pattern does not know is noticed.
SPAN = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:h|cc|py|ts|tsx|md|sql))(?::\s+([^`]+))?`")

ROW = re.compile(r"^\| `(src/\w+/)` .*$", re.M)
BARE = re.compile(r"`([\w.-]+\.(?:h|cc))`")


def named(text):
    """(line, file, functions) of each code span that names a file."""
    text = re.sub(r"^```.*?^```$", tidy.blank, text, flags=re.M | re.S)
    for span in SPAN.finditer(text):
        functions = re.split(r",\s+", span[2]) if span[2] else []
        yield text.count("\n", 0, span.start()) + 1, span[1], functions
    for row in ROW.finditer(text):
        for file in BARE.findall(row[0]):
            yield text.count("\n", 0, row.start()) + 1, row[1] + file, []


def missing(text, roots):
    """What the text names and the tree does not have, one line each."""
    for line, file, functions in named(text):
        path = next((root / file for root in roots if (root / file).is_file()), None)
        if path is None:
            yield f"{line}: there is no file {file}"
            continue
        code = tidy.NOT_CODE.sub(tidy.blank, path.read_text())
        for function in functions:
            if not re.search(rf"\b{re.escape(function)}\s*\(", code):
                yield f"{line}: {file} has no function {function}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page):
    assert list(missing(page.read_text(), (ROOT / "src", ROOT))) == []


def test_the_walks_are_read():
    steps = sum(len(functions) for page in PAGES for _, _, functions in named(page.read_text()))

    assert steps >= STEPS_MIN


@pytest.mark.parametrize("text, problem", [
    ("`core/runs.cc: end_run, lose`", None),
    ("`src/core/runs.cc`", None),
    ("`core/runs.cc:\nlose`", None),
    ("a\n\n`core/ledger.cc: end_run`", "3: there is no file core/ledger.cc"),
    ("`core/runs.cc: end_run, bury`", "1: core/runs.cc has no function bury"),
    ("`core/runs.cc: in_a_comment`", "1: core/runs.cc has no function in_a_comment"),
    ("```text\n`core/ledger.cc`\n```", None),
    ("| `src/core/` | `runs.cc` |", None),
    ("| `src/core/` | `runs.cc`, `ledger.cc` |", "1: there is no file src/core/ledger.cc"),
])
def test_a_name_that_is_gone_is_reported(tmp_path, text, problem):
    (tmp_path / "src/core").mkdir(parents=True)
    (tmp_path / "src/core/runs.cc").write_text("// in_a_comment()\nvoid end_run(int run) {}\nvoid lose() {}\n")

    assert list(missing(text, (tmp_path / "src", tmp_path))) == ([problem] if problem else [])
