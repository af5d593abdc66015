"""The gateway with the clients that people use: real packages and programs from npm, with no network but loopback.

Each of them asks for an answer in one piece, for a stream, for one that needs a tool, and for one that its budget does
not afford. What it spent is computed here, from the provider's own books and the price list, and must be what the
ledger says, to the nano-dollar.
"""

import dataclasses
import decimal
import json
import pathlib
import re
import urllib.parse

import pytest

from interlock_server import Server, eventually, fresh
from offline_clients import Offline, Provider, home_environment, installed_clients, node_major
from supervised import end_what_is_left

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = "sim/large"
WORDS = "one two three four five"
NOTE = "It rains marmalade in Oslo."
NANOS = 10**9
PLENTY, TOO_LITTLE = "5.00", "0.000001"

# What a provider of this dialect can bill besides input and output.
EXTRAS = {"openai": "cached=3 reasoning=2", "anthropic": "cached=3 cache_write=4 cache_write_1h=2",
          "gemini": "cached=3 reasoning=2"}


@dataclasses.dataclass
class Said:
    """What a client made of it."""
    text: str
    shown: str  # All that a person sees.
    usage: dict = None
    at: list = None  # When the pieces of a stream came, in milliseconds.
    unasked: int = 0  # Pieces that only somebody who asked for usage should see.


class Package:
    """A library, used by a script of tests/clients."""

    tool = 'tool=weather tool_args={"city":"Oslo"}'

    def __init__(self, script, api="", dialect=None, node=18):
        self.script, self.api, self.dialect, self.node = script, api, dialect or api, node
        self.name = f"{script}-{api}" if api else script

    def ask(self, gateway, purse, mode, prompt):
        task = {"mode": mode, "api": self.api, "url": gateway.url, "key": purse.make_key(), "model": MODEL,
                "prompt": prompt}
        done = gateway.machine.run(["node", f"{self.script}.mjs"], input=json.dumps(task),
                                   cwd=gateway.clients.directory, env=gateway.environment(self.name))
        assert done.returncode == 0, done
        said = json.loads(done.stdout.splitlines()[-1])
        error = said.pop("error", None)
        assert (error is not None) == (mode == "refused"), (said, error)
        if error:
            assert error["status"] in (402, None), error
            return Said("", error["message"])
        return Said(shown=said["text"], **said)


class Program:
    """An agent for the terminal, set up for the gateway by `interlock run`, or by hand."""

    def __init__(self, name, dialect, command, streaming, tool, answer, by_hand, before_prompt=(), stdin=False,
                 node=18):
        self.name, self.dialect, self.command, self.streaming = name, dialect, command, streaming
        self.tool, self.answer, self.by_hand = tool, answer, by_hand
        self.before_prompt, self.stdin, self.node = before_prompt, stdin, node

    def ask(self, gateway, purse, mode, prompt, by_hand=False, sandbox=()):
        words = [*self.command, *(self.streaming if mode == "streaming" else ())]
        words += [] if self.stdin else [*self.before_prompt, prompt]
        environment = gateway.environment(self.name)
        if by_hand:
            more, arguments = self.by_hand(gateway, purse.make_key())
            environment |= more
            words[1:1] = arguments
        else:
            environment["INTERLOCK_DATA"] = str(gateway.server.data)
            words = [gateway.binary, "run", "--agent", purse.agent, *sandbox, "--", *words]
        done = gateway.machine.run(words, cwd=gateway.workplace, env=environment,
                                   **({"input": prompt} if self.stdin else {}))
        shown = done.stdout + done.stderr
        if mode == "refused":
            return Said("", shown)
        assert done.returncode == 0, shown
        return Said(self.answer(done.stdout) if mode == "streaming" else done.stdout, shown)


# How people set them up who do not use `interlock run`: more of the environment, and arguments.


def claude_by_hand(gateway, key):
    return {"ANTHROPIC_BASE_URL": gateway.url, "ANTHROPIC_AUTH_TOKEN": key,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}, []


def codex_by_hand(gateway, key):
    provider = (f'{{name="Interlock",base_url="{gateway.url}/v1",env_key="INTERLOCK_API_KEY",wire_api="responses",'
                'request_max_retries=0,stream_max_retries=0}')
    # A search may bring in as much as the model takes, several times over: that is more than these budgets have.
    return {"INTERLOCK_API_KEY": key}, ["-c", "model_provider=interlock", "-c", f"model_providers.interlock={provider}",
                                        "-c", "web_search=disabled"]


def gemini_by_hand(gateway, key):
    settings = pathlib.Path(gateway.environment("gemini")["HOME"]) / ".gemini/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    return {"GOOGLE_GEMINI_BASE_URL": gateway.url, "GEMINI_API_KEY": key, "GEMINI_CLI_TRUST_WORKSPACE": "true"}, []


def opencode_by_hand(gateway, key):
    options = {"baseURL": f"{gateway.url}/v1", "apiKey": key}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"anthropic": {"options": options}}})}, []


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def claude_answer(text):
    said = events(text)
    deltas = [event["event"]["delta"]["text"] for event in said if event["type"] == "stream_event"
              and event["event"]["type"] == "content_block_delta"]
    assert len(deltas) > 2, said
    assert said[-1]["result"] == "".join(deltas), said
    return said[-1]["result"]


def codex_answer(text):
    return "".join(event["item"]["text"] for event in events(text) if event["type"] == "item.completed"
                   and event["item"]["type"] == "agent_message")


def gemini_answer(text):
    return "".join(event["content"] for event in events(text) if event["type"] == "message"
                   and event["role"] == "assistant")


def opencode_answer(text):
    return "".join(event["part"]["text"] for event in events(text) if event["type"] == "text")


PACKAGES = [
    Package("openai", "chat", "openai"),
    Package("openai", "responses", "openai"),
    Package("anthropic", dialect="anthropic"),
    Package("genai", dialect="gemini"),
    Package("ai", "openai"),
    Package("ai", "openai-chat", "openai"),
    Package("ai", "anthropic"),
    Package("ai", "google", "gemini"),
    Package("langchain", "openai"),
    Package("langchain", "anthropic"),
]
PROGRAMS = [
    Program("claude", "anthropic", ["claude", "--model", MODEL],
            ["--output-format", "stream-json", "--verbose", "--include-partial-messages"],
            'tool=Read tool_args={"file_path":"NOTE"}', claude_answer, claude_by_hand, ["-p"]),
    # What it would fetch for itself it waits for, in vain, before it ends.
    Program("codex", "openai",
            ["codex", "exec", "-m", MODEL, "--skip-git-repo-check", "--sandbox", "danger-full-access",
             "-c", "features.plugins=false", "-c", "analytics.enabled=false"],
            ["--json"], 'tool=exec_command tool_args={"cmd":"cat NOTE"}', codex_answer, codex_by_hand),
    Program("gemini", "gemini", ["gemini", "-m", MODEL], ["--output-format", "stream-json"],
            'tool=read_file tool_args={"file_path":"NOTE"}', gemini_answer, gemini_by_hand, ["-p"], node=20),
    # Words on its command line are put in quotes; without a title it asks another model for one.
    Program("opencode", "anthropic", ["opencode", "run", "--title", "test", "-m", f"anthropic/{MODEL}"],
            ["--format", "json"], 'tool=read tool_args={"filePath":"NOTE"}', opencode_answer, opencode_by_hand,
            stdin=True),
]


class Purse:
    """An agent and its budget."""

    def __init__(self, gateway, limit):
        self.gateway, self.agent, self.budget = gateway, fresh("agent"), fresh("budget")
        gateway.admin("PUT", f"agents/{self.agent}", {})
        scope = {"agent": self.agent}
        gateway.admin("PUT", f"budgets/{self.budget}", {"limit": limit, "window": "total", "scope": scope})

    def make_key(self):
        return self.gateway.admin("POST", "keys", {"scopes": ["agent"], "agent": self.agent})["key"]

    def calls(self):
        return self.gateway.items("calls", agent=self.agent)

    def charges(self):
        return self.gateway.items("charges", agent=self.agent)

    def left(self):
        return self.gateway.admin("GET", f"budgets/{self.budget}")

    def wait(self, count):
        """Until nothing is held any more, and so many calls are on record, which they are a little later."""
        eventually(lambda: nanos(self.left()["held"]) == 0, why=lambda: f": {self.left()}")
        eventually(lambda: len(self.calls()) >= count, why=lambda: f": {self.calls()}")


class Gateway:
    """A server with the simulated provider behind it, in all three dialects, and the clients before it."""

    def __init__(self, machine, binary, clients, server, provider, directory):
        self.machine, self.binary, self.clients = machine, binary, clients
        self.server, self.provider, self.directory = server, provider, directory
        self.refused = []  # Those who were, for a look at whether they have tried again meanwhile.
        self.url = "http://{}:{}".format(*server.address)
        self.workplace = directory / "workplace"
        self.workplace.mkdir()
        self.note = self.workplace / "note.txt"
        self.note.write_text(NOTE + "\n")
        # It knows no models but its own.
        (self.workplace / "opencode.json").write_text(json.dumps({"provider": {"anthropic": {"models": {MODEL: {}}}}}))
        for dialect in EXTRAS:
            self.admin("PUT", f"upstreams/provider-{dialect}",
                       {"dialect": dialect, "url": provider.url, "provider": "sim"})

    def environment(self, client):
        return home_environment(self.directory / f"home-{client}", self.clients.programs)

    def admin(self, method, path, body=None):
        """What the API says to somebody who may do everything. The server is on the other side of the namespace."""
        key = self.server.admin.key
        words = ["curl", "-sS", "--fail-with-body", "-X", method, "-H", f"Authorization: Bearer {key}"]
        if body is not None:
            words += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        done = self.machine.run([*words, f"{self.url}/v1/{path}"])
        assert done.returncode == 0, (method, path, body, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def items(self, path, **query):
        found = self.admin("GET", f"{path}?{urllib.parse.urlencode({'limit': 1000, **query})}")
        assert found["next"] is None
        return found["items"]

    def prompt(self, client, mode):
        script = {
            "plain": f'text="{WORDS}" output=40 {EXTRAS[client.dialect]}',
            "streaming": f'text="{WORDS}" output=40 chunks=5 chunk_delay_ms=100 {EXTRAS[client.dialect]}',
            "tool": f'{client.tool.replace("NOTE", str(self.note))} text="{WORDS}" output=40',
            "refused": f'text="{WORDS}"',
        }[mode]
        return f"What is the weather like in Oslo? [[sim {script}]]"

    def ask(self, client, mode, limit=PLENTY, **options):
        """(what the client said, who paid, what the provider was asked meanwhile)"""
        if node_major() < client.node:
            pytest.skip(f"{client.name} needs Node.js {client.node}, and this is {node_major()}")
        purse = Purse(self, limit)
        self.provider.new_lines()
        said = client.ask(self, purse, mode, self.prompt(client, mode), **options)
        lines = self.provider.new_lines()
        purse.wait(max(1, len(lines)))
        return said, purse, lines


@pytest.fixture(scope="module")
def gateway(binary, tmp_path_factory):
    """In the end the provider's books and the ledger agree as a whole, and every promise holds."""
    clients = installed_clients()
    directory = tmp_path_factory.mktemp("gateway")
    with Offline(directory) as machine, Server(machine.program(binary), directory) as server, \
            Provider(machine, binary, directory) as provider:
        gateway = Gateway(machine, binary, clients, server, provider, directory)
        try:
            yield gateway
        finally:
            end_what_is_left(server.data)
        for purse in gateway.refused:
            assert len(purse.calls()) == 1, f"it was asked for again: {purse.calls()}"
        assert sum(nanos(charge["cost"]) for charge in gateway.items("charges")) == \
            sum(cost_nanos(line) for line in billed(provider.all_lines()))
        assert gateway.items("holds", status="open") == []
        server.verify()


@pytest.fixture(params=[*PACKAGES, *PROGRAMS], ids=lambda client: client.name)
def client(request):
    return request.param


# What the provider bills, by the price list, in this file's own words.


def price_list():
    """Of the simulated provider's models: nano-dollars for one of each kind."""
    found = {}
    for line in (ROOT / "prices/extra.txt").read_text().splitlines():
        fields = line.split("\t")
        if fields[0] == "sim":
            # A million tokens cost so many dollars, so one costs a thousand times that in nano-dollars. Behind the
            # tier are the prices of long prompts.
            words = fields[4].split(" tier=")[0].split()
            found[f"sim/{fields[1]}"] = {name: decimal.Decimal(value) * 1000
                                         for name, value in (word.split("=") for word in words)}
    return found


def cost_nanos(line):
    usage, price = line["usage"], price_list()[line["model"]]
    assert usage["input"] < 200_000, "the price list has another price for that"
    assert usage["searches"] == usage["audio_in"] == usage["audio_out"] == 0
    fresh_input = usage["input"] - usage["cached"] - usage["cache_write"] - usage["cache_write_1h"]
    cost = (fresh_input * price["in"] + usage["cached"] * price["read"] + usage["cache_write"] * price["write"] +
            usage["cache_write_1h"] * price["write1h"] + usage["output"] * price["out"])
    assert cost == int(cost)
    return int(cost)


def billed(lines):
    return [line for line in lines if line["usage"] is not None]


def nanos(dollars):
    amount = decimal.Decimal(dollars) * NANOS
    assert amount == int(amount)
    return int(amount)


def assert_metered(purse, lines):
    """Every request that the provider billed is one call and one charge, and nothing else is."""
    expected = sorted(cost_nanos(line) for line in billed(lines))
    calls = [call for call in purse.calls() if call["hold"]]
    assert sorted(nanos(charge["cost"]) for charge in purse.charges()) == expected
    assert sorted(nanos(call["cost"]) for call in calls) == expected
    assert nanos(purse.left()["settled"]) == sum(expected)
    for call in calls:
        assert (call["status"], call["refusal"], call["attempts"], call["estimated"]) == (200, None, 1, False), call
        assert nanos(call["bound"]) >= nanos(call["cost"]) > 0, call


def one_line(text):
    """As a person reads it who does not care where lines end."""
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\\n", " ").split())


def test_the_machine_is_offline(gateway):
    devices = gateway.machine.run(["cat", "/proc/net/dev"]).stdout.splitlines()[2:]
    routes = gateway.machine.run(["cat", "/proc/net/route"]).stdout.splitlines()[1:]

    assert [line.split(":")[0].strip() for line in devices] == ["lo"]
    assert routes == []


def test_an_answer_reaches_the_client_and_costs_what_it_costs(gateway, client):
    said, purse, lines = gateway.ask(client, "plain")

    assert said.text.strip().endswith(WORDS)
    assert len(billed(lines)) == 1
    if client in PROGRAMS:
        assert None not in [call["run"] for call in purse.calls()], "interlock run says whose calls they are"
    if said.usage:
        assert said.usage == {kind: billed(lines)[0]["usage"][kind] for kind in ("input", "output")}
    assert_metered(purse, lines)


def test_a_stream_comes_piece_by_piece_and_costs_what_it_costs(gateway, client):
    said, purse, lines = gateway.ask(client, "streaming")

    assert said.text.strip().endswith(WORDS)
    assert said.unasked == 0
    assert [line["stream"] for line in billed(lines)] == [True]
    assert [call["streamed"] for call in purse.calls() if call["hold"]] == [True]
    if said.at:
        assert len(said.at) > 2 and said.at[-1] - said.at[0] > 100, said.at
    assert_metered(purse, lines)


def test_a_tool_is_called_and_its_result_goes_back(gateway, client):
    said, purse, lines = gateway.ask(client, "tool")

    asked, told = billed(lines)
    assert NOTE not in asked["body"]
    assert NOTE in told["body"]
    assert said.text.strip().endswith(WORDS)
    assert_metered(purse, lines)


def test_what_the_budget_does_not_afford_is_asked_for_once_and_the_reason_is_shown(gateway, client):
    said, purse, lines = gateway.ask(client, "refused", TOO_LITTLE)

    (call,) = purse.calls()
    gateway.refused.append(purse)
    assert (call["status"], call["refusal"]) == (402, "budget_exceeded")
    assert f"Budget '{purse.budget}' does not have enough left" in one_line(said.shown)
    assert "A person can raise it." in one_line(said.shown) and "interlock budgets" not in one_line(said.shown)
    assert billed(lines) == [] and purse.charges() == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_that_was_set_up_by_hand_is_metered_too(gateway, program):
    said, purse, lines = gateway.ask(program, "plain", by_hand=True)

    assert said.text.strip().endswith(WORDS)
    assert_metered(purse, lines)
    assert [call["run"] for call in purse.calls()] == [None]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
@pytest.mark.parametrize("level", ["files", "sealed"])
def test_a_program_works_at_each_sandbox_level(gateway, program, level):
    """Its home is empty, and where it is installed may be below a home."""
    said, purse, lines = gateway.ask(program, "tool", sandbox=[f"--sandbox={level}", "--readable", gateway.clients.directory])

    asked, told = billed(lines)
    assert NOTE in told["body"] and NOTE not in asked["body"]
    assert said.text.strip().endswith(WORDS)
    assert [call["status"] for call in purse.calls() if call["hold"]] == [200, 200]
    assert_metered(purse, lines)


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program.name in ("claude", "codex")],
                         ids=lambda program: program.name)
def test_a_budget_below_what_a_program_asks_for_is_enough_for_what_it_needs(gateway, program):
    said, purse, lines = gateway.ask(program, "plain", "0.50")

    request = json.loads(billed(lines)[0]["body"])
    cap = request.get("max_tokens") or request.get("max_output_tokens")
    assert cap * price_list()[MODEL]["out"] < nanos("0.50"), "the provider could have answered more than the budget has"
    assert said.text.strip().endswith(WORDS)
    assert_metered(purse, lines)
