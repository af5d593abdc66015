"""The documentation, tried: what its pages tell a reader to type is typed, and what they say comes out must come out.

Of quick-start.md, runs.md, gateway.md, api.md, agents.md, page.md, operations.md, observability.md, several-nodes.md
and simulated-upstream.md, every ```bash block is run, page by page, in one shell and in order. It must end with 0, or with
what its fence says (```bash exit=1). A ```text block right behind it is what it prints. In there

    …                         is one or more letters and digits: run_… is any run
    <time>                    is an instant: 2026-11-15T09:00:00.123Z
    <ago>                     is how people say it: now, 3 s ago, in 10 h
    <n>                       is a number
    <size>                    is a number of bytes: 204.8 kB
    <home>, <here>, <data>    are absolute paths
    127.0.0.1:4100            is that address with any port
    ...                       alone on a line is any number of lines, also none

and any stretch of blanks is as good as any other. The reference in cli.md is made from the program's own help:

    /usr/bin/python3 tests/test_docs.py build/release/interlock     # writes it anew
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

from interlock_server import Server, eventually

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from with_postgres import Postgres  # noqa: E402

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("internals/*.md"))]
COLUMNS_MAX = 120
PAGE_SECONDS = 90

FENCE = re.compile(r"^```(.*)$")
STANDS_FOR = {
    "…": r"[0-9A-Za-z]+",
    "<time>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
    "<ago>": r"(now|in \d+ \w+( \d+ \w+)?|\d+ \w+( \d+ \w+)? ago)",
    "<n>": r"\d[\d.,]*",
    "<size>": r"\d[\d.,]* k?[MGT]?B",
    "<home>": r"/\S*?",
    "<here>": r"/\S*?",
    "<data>": r"/\S*?",
    "127.0.0.1:4100": r"127\.0\.0\.1:\d+",
}


# ---- blocks -------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Block:
    page: str
    line: int
    code: str
    exit: int = 0
    expected: str = None

    def __str__(self):
        return f"{self.page}:{self.line}"


def fences(text):
    """(line, info, content, what is between it and the fence before) of every fenced block."""
    found, between, info, begun, content = [], [], None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if info is None and fence:
            info, begun, content = fence[1].strip(), number, []
        elif info is not None and line == "```":
            found.append((begun, info, "\n".join(content) + "\n", "".join(between).strip()))
            info, between = None, []
        else:
            (between if info is None else content).append(line)
    assert info is None, f"the fence of line {begun} has no end"
    return found


def blocks_of(page, text):
    """The ```bash blocks, each with the ```text block that stands right behind it."""
    blocks, last = [], None
    for line, info, content, between in fences(text):
        language, *options = info.split()
        if language == "bash":
            last = Block(page, line, content)
            for option in options:
                name, _, value = option.partition("=")
                assert name == "exit", f"{last}: a fence has no option '{option}'"
                last.exit = int(value)
            blocks.append(last)
        else:
            assert not options, f"{page}:{line}: a fence of {language} has no options"
            if language == "text" and last is not None and not between:
                last.expected = content
            last = None
    return blocks


# ---- what is expected ---------------------------------------------------------------------------------------------

def tidy(text):
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def pattern_of(expected):
    parts = re.compile("(" + "|".join(map(re.escape, STANDS_FOR)) + ")")
    pattern = ""
    for line in tidy(expected):
        if line == "...":
            pattern += r"(.*\n)*"
        else:
            pattern += "".join(STANDS_FOR.get(part, re.escape(part)) for part in parts.split(line)) + "\n"
    return re.compile(pattern)


def fits(expected, printed):
    return pattern_of(expected).fullmatch("".join(line + "\n" for line in tidy(printed))) is not None


# ---- running ------------------------------------------------------------------------------------------------------

def script_of(blocks, out):
    """One script: each block prints into a file of its own, and leaves a note when it is done."""
    lines = ["set -euo pipefail"]
    for i, block in enumerate(blocks):
        lines.append(f"exec >'{out}/{i}' 2>&1")
        if block.exit == 0:
            lines.append(block.code)
        else:  # In a shell of its own, so that this one goes on.
            lines.append(f"set +e\n(\nset -e\n{block.code}\n)\nended=$?\nset -e\n"
                         f"[ $ended = {block.exit} ] || {{ echo \"[ended with $ended, not {block.exit}]\"; exit 1; }}")
        lines.append(f"touch '{out}/{i}.done'")
    return "\n".join(lines) + "\n"


def complaints_about(blocks, directory, environment):
    """Runs the blocks and returns what is wrong with them, as text. Nothing: all is as the page says."""
    out = directory / "printed"
    out.mkdir()
    work = directory / "work"
    work.mkdir(exist_ok=True)
    script = directory / "page.sh"
    script.write_text(script_of(blocks, out))
    try:
        done = subprocess.run(["bash", script], cwd=work, env=environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PAGE_SECONDS)
    except subprocess.TimeoutExpired:
        return f"the page takes longer than {PAGE_SECONDS} s"
    wrong = []
    for i, block in enumerate(blocks):
        printed = (out / str(i)).read_text(errors="replace") if (out / str(i)).exists() else ""
        if not (out / f"{i}.done").exists():
            wrong.append(f"{block}: failed with {done.returncode}:\n{block.code}--- printed\n{printed}{done.stdout}")
            break  # The rest was not run.
        if block.expected is not None and not fits(block.expected, printed):
            wrong.append(f"{block}: prints something else\n--- the page says\n{block.expected}--- printed\n{printed}")
    return "\n\n".join(wrong)


def environment_for(work, binary, **more):
    """What a newcomer has: a home of their own, and nothing set."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("INTERLOCK_", "XDG_")) and name not in ("NO_COLOR", "COLUMNS")}
    return {**kept, "HOME": str(work), "PATH": f"{pathlib.Path(binary).parent}:{os.environ['PATH']}", **more}


@pytest.fixture
def work(tmp_path, binary):
    """The directory a page is run in. Servers that the page started and left are ended afterwards."""
    for program in ("curl", "jq"):
        assert shutil.which(program), f"the pages use {program}: apt-get install {program}"
    directory = tmp_path / "work"
    directory.mkdir()
    yield directory
    for note in directory.rglob("server.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = json.loads(note.read_text())["pid"]
            if os.path.samefile(f"/proc/{pid}/exe", binary):
                os.kill(pid, signal.SIGKILL)


def read(page):
    return (DOCS / page).read_text()


def test_quick_start(binary, tmp_path, work):
    # `./dev up` builds and then starts the server. Here it is built already, and the usual port may be taken.
    (work / "dev").write_text("#!/bin/sh\nexec build/release/interlock up --detach --listen 127.0.0.1:0\n")
    (work / "dev").chmod(0o755)
    (work / "build/release").mkdir(parents=True)
    (work / "build/release/interlock").symlink_to(binary)
    blocks = blocks_of("quick-start.md", read("quick-start.md"))

    assert len(blocks) > 10
    assert not (wrong := complaints_about(blocks, tmp_path, environment_for(work, binary))), wrong


def test_runs(binary, tmp_path, work):
    blocks = blocks_of("runs.md", read("runs.md"))

    assert len(blocks) > 10
    assert not (wrong := complaints_about(blocks, tmp_path, environment_for(work, binary))), wrong


def test_gateway(binary, tmp_path, work):
    blocks = blocks_of("gateway.md", read("gateway.md"))

    assert len(blocks) > 15
    assert not (wrong := complaints_about(blocks, tmp_path, environment_for(work, binary))), wrong


def test_api(binary, tmp_path, work):
    blocks = blocks_of("api.md", read("api.md"))
    with Server(binary, tmp_path) as server:
        environment = environment_for(work, binary, INTERLOCK_URL="http://%s:%d" % server.address,
                                      INTERLOCK_KEY=server.admin.key)

        assert len(blocks) > 30
        assert not (wrong := complaints_about(blocks, tmp_path, environment)), wrong
        server.verify()


def test_agents(binary, tmp_path, work):
    blocks = blocks_of("agents.md", read("agents.md"))
    with Server(binary, tmp_path) as server:
        environment = environment_for(work, binary, INTERLOCK_DATA=str(server.data))

        assert len(blocks) == 5
        assert not (wrong := complaints_about(blocks, tmp_path, environment)), wrong
        server.verify()


def test_page(binary, tmp_path, work):
    blocks = blocks_of("page.md", read("page.md"))
    with Server(binary, tmp_path) as server:
        environment = environment_for(work, binary, INTERLOCK_DATA=str(server.data))

        assert len(blocks) == 2
        assert not (wrong := complaints_about(blocks, tmp_path, environment)), wrong


def test_operations(binary, tmp_path, work):
    blocks = blocks_of("operations.md", read("operations.md"))
    with Server(binary, tmp_path) as server:
        environment = environment_for(work, binary, INTERLOCK_DATA=str(server.data))

        assert len(blocks) > 5
        assert not (wrong := complaints_about(blocks, tmp_path, environment)), wrong


def test_observability(binary, tmp_path, work):
    blocks = blocks_of("observability.md", read("observability.md"))

    assert len(blocks) == 4
    assert not (wrong := complaints_about(blocks, tmp_path, environment_for(work, binary))), wrong


def test_several_nodes(binary, tmp_path, work):
    blocks = blocks_of("several-nodes.md", read("several-nodes.md"))
    with Postgres() as postgres:
        environment = environment_for(work, binary, DB=f"127.0.0.1:{postgres.port}", DBA=postgres.user)

        assert len(blocks) > 8
        assert not (wrong := complaints_about(blocks, tmp_path, environment)), wrong


def test_simulated_upstream(binary, tmp_path, work):
    blocks = blocks_of("simulated-upstream.md", read("simulated-upstream.md"))

    assert len(blocks) == 4
    assert not (wrong := complaints_about(blocks, tmp_path, environment_for(work, binary))), wrong


@pytest.mark.seconds_max(60)
def test_the_commands_that_up_suggests_work(binary, work):
    def run(command):
        return subprocess.run(command, shell=True, cwd=work, env=environment_for(work, binary), capture_output=True,
                              text=True, timeout=30, stdin=subprocess.DEVNULL)

    greeting = run("interlock up --detach --listen 127.0.0.1:0").stdout
    suggested = section(greeting, "Try")

    assert len(suggested) == 3, greeting
    for command in suggested:
        done = run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert run("interlock down").returncode == 0


# ---- the checker itself -------------------------------------------------------------------------------------------

PAGE = """
Text.

```bash
greeting=hello
echo "$greeting"  run_01m7fnj2f4ffra3980sn6b7h0e at 2026-11-15T13:15:16.836796Z
```

```text
hello run_… at <time>
```

```bash exit=3
echo "$greeting again"; exit 3
```

```text
hello again
```

```bash
echo one; echo two; echo three
```

```text
one
...
three
```
"""


def checked(page, directory):
    directory.mkdir()
    return complaints_about(blocks_of("page.md", page), directory, dict(os.environ))


def test_a_page_that_tells_the_truth_passes(tmp_path):
    assert [block.expected is not None for block in blocks_of("page.md", PAGE)] == [True, True, True]
    assert checked(PAGE, tmp_path / "page") == ""


@pytest.mark.parametrize("truth, lie, complaint", [
    ("hello run_… at <time>", "hello run_… at <n>", "page.md:4: prints something else"),
    ("hello run_…", "hello ses_…", "page.md:4: prints something else"),
    ("one\n...\nthree", "one\nthree", "page.md:21: prints something else"),
    ("one\n...\nthree", "one\n...\nthree\nfour", "page.md:21: prints something else"),
    ("exit=3", "exit=4", "page.md:13: failed"),
    (" exit=3", "", "page.md:13: failed"),
    ("; exit 3", "", "page.md:13: failed"),
    ("echo one;", "false; echo one;", "page.md:21: failed"),
    ("echo one;", "echo ${missing};", "page.md:21: failed"),
])
def test_a_page_that_does_not_is_found_out(tmp_path, truth, lie, complaint):
    assert truth in PAGE

    assert checked(PAGE.replace(truth, lie), tmp_path / "page").startswith(complaint)


def test_a_block_that_is_not_run_is_not_taken_for_one_that_is(tmp_path):
    page = "```bash\necho a\n```\n\nNot what it prints:\n\n```text\nb\n```\n\n```ini\n[Unit]\n```\n"

    assert checked(page, tmp_path / "page") == ""


# ---- the command line's reference ---------------------------------------------------------------------------------

BEGIN, END = "<!-- from the help: begin -->", "<!-- from the help: end -->"
EXPLAINED_ONCE = ("--idempotency-key", "--watch", "--limit N", "--all")  # At the top of the page, for all commands.


def help_of(binary, *command):
    done = subprocess.run([binary, *command, "--help"], capture_output=True, text=True, timeout=20,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def section(text, title):
    """The indented lines under `title:`."""
    found = re.search(rf"^{re.escape(title)}:\n((?:  .*\n)*)", text, re.M)
    return found[1].splitlines() if found else []


def names_in(lines):
    return [line.split()[0] for line in lines if re.match(r"  [a-z]", line)]


def groups_of(binary):
    """The commands of the program: local commands, nouns with verbs, other commands."""
    text = help_of(binary)
    return [names_in(section(text, title)) for title in ("Local commands", "Resources", "Other commands")]


def notes_in(text):
    """The lines between the flags and the examples."""
    return re.search(r"^Global flags:\n(?:  .*\n)+\n?(.*?)\n?(?:^Examples:|\Z)", text, re.M | re.S)[1].splitlines()


def entry(binary, *command):
    text = help_of(binary, *command)
    summary, usage = text.splitlines()[0], re.search(r"^Usage: (.*?)( \[FLAGS\])?$", text, re.M)[1]
    flags = []
    for line in section(text, "Flags"):
        if line.lstrip().startswith("-"):
            kept = not line.strip().startswith(EXPLAINED_ONCE)
        flags += [line] if kept else []
    notes = notes_in(text)
    lines = [f"**`{usage}`**", "", f"{summary}.", ""]
    if flags or notes:
        lines += ["```text", *flags, *([""] if flags and notes else []), *notes, "```", ""]
    return lines


def reference(binary):
    local, nouns, others = groups_of(binary)
    lines = [BEGIN, ""]
    for command in local:
        lines += [f"### {command}", ""] + entry(binary, command)
    for noun in nouns:
        text = help_of(binary, noun)
        lines += [f"### {noun}", "", f"{text.splitlines()[0]}.", ""]
        for verb in names_in(section(text, "Verbs")):
            lines += entry(binary, noun, verb)
    for command in others:
        lines += [f"### {command}", ""] + entry(binary, command)
    return "\n".join(lines + [END])


def reference_in(page):
    assert page.count(BEGIN) == page.count(END) == 1
    return page[page.index(BEGIN):page.index(END) + len(END)]


def test_the_reference_of_the_command_line_is_what_its_help_says(binary):
    assert reference_in(read("cli.md")) == reference(binary), \
        f"write it anew: /usr/bin/python3 tests/test_docs.py {binary}"


def test_the_reference_names_every_command_and_no_other(binary):
    told = re.findall(r"^### (\S+)$", read("cli.md"), re.M)

    assert told == [name for group in groups_of(binary) for name in group]


def test_exit_codes_are_told_as_the_program_tells_them(binary):
    done = subprocess.run([binary, "help", "exit-codes"], capture_output=True, text=True, timeout=20)
    codes = re.findall(r"^  (\d)  ", done.stdout, re.M)

    assert codes == re.findall(r"^\| (\d) \|", read("cli.md"), re.M)


# ---- facts that live in two places --------------------------------------------------------------------------------

def test_every_metric_is_listed_and_no_other(binary, tmp_path):
    with Server(binary, tmp_path, "--simulate-models") as server:
        server.admin.get("/v1/status").ok()
        # Most of the gateway's appear with the first call.
        caller = server.admin.make_key("agent", agent=server.admin.agent())
        call = {"model": "sim/small", "messages": [{"role": "user", "content": "Hello."}]}
        assert caller.post("/v1/chat/completions", call).status == 200
        # A request is counted behind its answer, so the first of them may still be missing.
        eventually(lambda: b"http_requests_total{" in server.admin.get("/metrics").body)
        served = re.findall(r"^# TYPE (\S+) (\S+)$", server.admin.get("/metrics").body.decode(), re.M)

    told = re.findall(r"^\| `(interlock_\w+)` \| (\w+) \|", read("operations.md") + read("observability.md"), re.M)
    assert sorted(told) == sorted(served)


def test_every_type_of_event_is_listed_and_no_other(server):
    detail = server.admin.get("/v1/events", type_="nothing").refused(400, "invalid_request")["detail"]
    told = re.search(r"^Types: (.*?)\.$", read("api.md"), re.M | re.S)[1]

    assert re.findall(r"\w+", detail.split(": ")[-1]) == re.findall(r"\w+", told)


def test_every_route_is_named(server):
    """By its path, or its last step under its resource: `POST …/close`, `pause`."""
    page = read("api.md")
    for path in server.admin.get("/openapi.json").ok()["paths"]:
        *resource, last = [step for step in path.split("/") if not step.startswith("{")]
        assert f"/{last}" in page or f"`{last}`" in page, path


def test_every_limit_is_listed_with_its_number():
    rows = re.findall(r"^\| .* \| ([\d,]+) .*\| `(\w+)` \|$", read("operations.md"), re.M)
    told = {name: int(number.replace(",", "")) for number, name in rows}
    limits = (ROOT / "src/core/limits.h").read_text()
    server = (ROOT / "src/net/http_server.h").read_text()
    numbers = dict(re.findall(r"constexpr \S+ (\w+) = ([^;]+);", limits))
    numbers |= dict(re.findall(r"std::size_t (\w+_m(?:ax|in)) = ([^;]+);", server))
    numbers |= dict(re.findall(r"std::chrono::milliseconds (\w+_timeout)\{([^}]+)\}", server))

    for name, text in numbers.items():
        number = 1
        if "<<" in text:
            value, shift = re.fullmatch(r"(\d+)u << (\d+)", text).groups()
            number = int(value) << int(shift)
        else:
            for factor in text.replace("'", "").split("*"):
                number *= int(factor)
        assert told.pop(name, None) == number, f"{name} is {number}, or has no row"
    assert not told, f"no such limits: {told}"


# ---- form ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short_and_links_lead_somewhere(path):
    text = path.read_text()
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)

    for number, line in enumerate(text.splitlines(), 1):
        assert len(line) <= COLUMNS_MAX or "](http" in line or line.startswith("|"), f"{path.name}:{number} is too long"
        assert line == line.rstrip(), f"{path.name}:{number} ends in blanks"
    for target in re.findall(r"\]\(([^)\s]+)\)", outside):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{path.name}: there is no {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", there.read_text(), re.M)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{path.name}: there is no {target}"


def test_the_index_names_every_page():
    index = read("README.md")

    for path in DOCS.glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index, path.name


if __name__ == "__main__":
    cli = DOCS / "cli.md"
    cli.write_text(cli.read_text().replace(reference_in(cli.read_text()), reference(sys.argv[1])))
