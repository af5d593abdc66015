#!/usr/bin/python3
"""Checks what a machine can check about the look of the project. Each problem is one line: where, which rule, what.

    tools/tidy.py [root]
"""

import pathlib
import re
import subprocess
import sys

# Which folders of src/ a folder may include, besides itself. The CMake targets link along the same arrows.
ALLOWED = {
    "base": (),
    "core": ("base",),
    "store": ("core", "base"),
    "engine": ("core", "store", "base"),
    "verify": ("store", "base"),
    "shim": (),
    "supervisor": ("engine", "core", "store", "shim", "base"),
    "net": ("base",),
    "api": ("engine", "core", "store", "net", "base"),
    "nodes": ("engine", "core", "store", "net", "base"),
    "gateway": ("engine", "core", "net", "base"),
    "simulated": ("net", "base"),
    "cli": ("net", "shim", "base"),
}
ALLOWED["server"] = tuple(ALLOWED)
ALLOWED["demo"] = tuple(ALLOWED)
ALLOWED["program"] = tuple(ALLOWED)
BESIDE_SRC = ("sim", "crash", "fuzz", "bench", "examples", "tests")  # These may include everything.

# What would make the core depend on more than its rows, the command and the time it was handed.
FORBIDDEN_IN_CORE = {
    "core reads no clock": r"::now\s*\(|(?<![\w.>])time\s*\(|\bclock_gettime\b|\bgettimeofday\b",
    "core draws no random numbers": r"<random>|(?<![\w.>])s?rand\s*\(|\brandom_device\b|\bgetrandom\b",
    "core has no threads and no locks":
        r"<(?:thread|mutex|shared_mutex|atomic|condition_variable|future|semaphore|latch|barrier|stop_token|pthread\.h)>"
        r"|\bthread_local\b",
    "core does no input or output":
        r"<(?:fstream|iostream|filesystem|cstdio|stdio\.h|unistd\.h|fcntl\.h|sys/\w+\.h)>|\b\w*printf\s*\(|\bfmt::print\b"
        r"|\bfopen\s*\(|(?:[=(,!{;]|\breturn\b)\s*open\s*\(|(?<![\w>])::open\s*\(|\bsqlite3\w*",
}
# A client that knows the hash slows such a container down; base/by_text.h has those with a key.
HASHED_TEXT = r"\bunordered_\w+<(?:std::)?string(?:_view)?\b(?!\s*,[^;]*KeyedTextHash)|\bhash<(?:std::)?string\w*>|\bboost::hash\b"
LINES_MAX = 900
LINES_KNOWN = {}  # path: lines. A file listed here may be as long as it is, and not one line longer.
# Names of types that several folders define, and why. Any other type name has one meaning in all of src/.
MIRRORED = "interlock verify has a model of its own, so that no mistake of core's can hide itself"
SHARED_TYPE_NAMES = {
    "Attribution": MIRRORED,
    "Claim": MIRRORED,
    "HoldPart": MIRRORED,
    "Place": MIRRORED,
    "Scope": MIRRORED,
    "Session": MIRRORED,
    "Tags": MIRRORED,
    "Message": "a stored message, and a message that the simulated provider reads",
}
COLUMNS_MAX = 120
UNFINISHED = r"\b(?:" + "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK")) + r")\b"
MACHINE_PATH = r"(?<![\w.~/-])/(?:work|home|root)/\S*"
CODE = (".h", ".cc")
WRITTEN = (*CODE, ".py", ".ts", ".tsx", ".css", ".mjs")  # By people, for people to read.
SKIPPED_FOLDERS = {".git", "build", "__pycache__", ".cache", "node_modules"}

# A comment, a raw string, a string, a character. A quote after a digit or letter only separates digits: 1'000.
NOT_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])+'""", re.S)


# A definition at namespace scope, seen from its opening brace; and an alias, seen from its semicolon.
TYPE = re.compile(r"(?<![\w<,])(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[\w+\]\]\s*)?(\w+)\s*(?:<[^{}();]*>\s*)?"
                  r"(?:final\s*)?(?::(?!:)[^(){}]*)?$")
ALIAS = re.compile(r"(?<![\w<,])using\s+(\w+)\s*=")
NAMESPACE = re.compile(r"(?<!using )\bnamespace\b[^;()=]*$")


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    files = project_files(root)
    problems = [problem for path in files for problem in check(root, path)] + list(check_type_names(root, files))
    for problem in problems:
        print(problem)
    sources = sum(path.suffix in CODE for path in files)
    print(f"tidy: {len(problems)} problems in {len(files)} files, {sources} of them C++")
    # Having looked at nothing is no reason to be content.
    sys.exit(1 if problems or not sources else 0)


def project_files(root):
    """What git knows or would add; in a tree without git, everything but what a build leaves behind."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        paths = [pathlib.Path(name) for name in listed.stdout.split("\0") if name]
    else:
        paths = [path.relative_to(root) for path in root.rglob("*")]
    return sorted(path for path in set(paths)
                  if (root / path).is_file() and not (root / path).is_symlink() and not SKIPPED_FOLDERS & set(path.parts))


def check(root, path):
    data = (root / path).read_bytes()
    if b"\0" in data:
        return  # Not text.
    text = data.decode(errors="replace")
    yield from found(path, text, "nothing is left for later", UNFINISHED)
    yield from found(path, text, "no path of one machine", MACHINE_PATH)
    if path.suffix in WRITTEN:
        yield from check_length(path, text)
    if path.name == "package-lock.json":
        yield from found(path, text, "a lock file names no registry", r'"resolved":[^\n]*')
    if path.suffix in CODE:
        yield from check_includes(root, path, text)
        yield from check_code(path, NOT_CODE.sub(blank, text))
        yield from check_comments(path, text)
    if path.suffix == ".h":
        yield from check_header(path, text)


def check_length(path, text):
    lines, lines_max = len(text.splitlines()), LINES_KNOWN.get(str(path), LINES_MAX)
    if lines > lines_max:
        yield f"{path}:{lines_max + 1}: files stay readable: {lines} lines, {lines_max} are allowed"


def check_includes(root, path, text):
    folder = path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        name = match[2]
        parts = name.split("/")
        ours = match[1] == '"' or (root / "src" / name).exists()
        if ours and (match[1] != '"' or len(parts) not in (2, 3) or ".." in parts
                     or parts[0] not in (*ALLOWED, *BESIDE_SRC)):
            yield f'{path}:{number}: includes are written "folder/file.h": {line.strip()}'
        elif ours and folder and parts[0] != folder and parts[0] not in ALLOWED.get(folder, ()):
            yield f"{path}:{number}: {folder} does not include {parts[0]}: {line.strip()}"


def check_code(path, code):
    test = path.stem.endswith("_test") or path.parts[0] == "tests"
    # So is the life of a run, which the simulator tells in its own time.
    pure = path.parts[:2] == ("src", "core") or path.parts[:2] == ("src", "supervisor") and path.stem == "watch"
    if pure and not test:
        for rule, pattern in FORBIDDEN_IN_CORE.items():
            yield from found(path, code, rule, pattern)
    if path.parts[0] == "src" and not test:
        yield from found(path, code, "texts are hashed with a key, as in base/by_text.h", HASHED_TEXT)
    in_store = path.parts[:2] == ("src", "store")
    if not (test or in_store and path.name.startswith("sqlite_") or path.parts[0] in ("crash", "bench")):
        yield from found(path, code, "sqlite3 is named only in src/store/sqlite_*", r"\bsqlite3\w*")
    if not (in_store and path.name.startswith("postgres_")):
        yield from found(path, code, "libpq is named only in src/store/postgres_*", r"<libpq|\bPQ\w+|\bPG(?:conn|result)\b")
    if not (test or path.parts[:2] in (("src", "server"), ("src", "program")) or path.parts[0] in ("sim", "crash", "bench")):
        yield from found(path, code, "only src/server and src/program read the environment", r"\b(?:secure_)?getenv\b")


def check_comments(path, text):
    """clang-format leaves comments as they are, because it breaks numbered items into lines with one word."""
    indent = None  # Of the text of the numbered item that these lines belong to.
    for number, line in enumerate(text.splitlines(), 1):
        comment = re.match(r"\s*//( *)(.*)", line)
        item = comment and re.match(r"\((\d+)\) (.*)", comment[2])
        words = item[2] if item else comment[2] if comment else ""
        if item:
            indent = len(comment[1]) + len(comment[2]) - len(words)
        elif not words or len(comment[1]) < 2:
            indent = None
        if indent and not item and len(comment[1]) < indent:
            yield f"{path}:{number}: lines of a numbered item are indented like its text: {line.strip()}"
        if indent and re.search(r"(?<!invariant) \(\d\) [A-Z]", words):
            yield f"{path}:{number}: a numbered item begins a line: {line.strip()}"
        if comment and len(line) > COLUMNS_MAX:
            yield f"{path}:{number}: comments have up to {COLUMNS_MAX} columns: {line.strip()}"


def check_type_names(root, files):
    """Tests are left out: a reader looks for no type there. Files are compiled together, so unnamed namespaces count."""
    where = {}  # name: {folder: "path:line"}
    for path in files:
        if path.parts[0] == "src" and len(path.parts) > 2 and path.suffix in CODE and not re.search("_(for_)?test", path.stem):
            for name, line in types_in(NOT_CODE.sub(blank, (root / path).read_text(errors="replace"))):
                where.setdefault(name, {}).setdefault(path.parts[1], f"{path}:{line}")
    for name, places in where.items():
        if len(places) > 1 and name not in SHARED_TYPE_NAMES:
            first, *others = places.values()
            for other in others:
                yield f"{other}: a type name has one meaning: {name} is also in {first}"
    if pathlib.Path("tools/tidy.py") in files:
        for name in SHARED_TYPE_NAMES:
            if len(where.get(name, ())) < 2:
                yield f"tools/tidy.py:1: SHARED_TYPE_NAMES has only what several folders define: {name}"


def types_in(code):
    """Name and line of each type that is defined at namespace scope."""
    inside = []  # For each open brace, whether it is a namespace's.
    begin = 0
    for match in re.finditer(r"[{};]|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", code, re.M):
        head, begin = code[begin:match.start()].strip(), match.end()
        outside = all(inside)
        if match[0] == "{":
            inside.append(outside and NAMESPACE.search(head) is not None)
        elif match[0] == "}":
            inside = inside[:-1]
        defined = outside and {"{": TYPE, ";": ALIAS}.get(match[0], ALIAS).search(head)
        if defined:
            yield defined[1], code.count("\n", 0, match.start()) + 1


def check_header(path, text):
    if not re.search(r"^#pragma once$", text, re.M):
        yield f"{path}:1: a header has #pragma once: there is none"
    first = text.lstrip().split("\n", 1)[0]
    if not first.startswith(("//", "/*")):
        yield f"{path}:1: a header opens by saying what it is: {first}"


def found(path, text, rule, pattern):
    for match in re.finditer(pattern, text):
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {rule}: {match[0].strip()}"


def blank(match):
    return re.sub(r"[^\n]", " ", match[0])


if __name__ == "__main__":
    main()
