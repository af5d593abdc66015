"""A server whose models are simulated, for tests of the gateway, and an arithmetic of its own for what a call costs.

    with Lab(binary, directory) as lab:
        answer = lab.call(CHAT, "output=40", key=lab.agent_key())
        assert lab.row(answer)["cost"] == text_of(lab.bill(answer))

Nothing here asks the server what a price or a usage is: the provider's books say what was billed, and PRICES what a
token costs. A call is found again in the books by x-client-request-id, which changes no answer.
"""

import collections
import contextlib
import dataclasses
import http.client
import itertools
import json
import os
import pathlib
import re
import subprocess
import threading
import time
from decimal import Decimal

from checks import text_of
from interlock_server import Server, eventually, fresh

UPSTREAM_KEY = "sk-of-the-upstream"
PROVIDER = "lab"
NANO = Decimal(10) ** -9
# Dollars per million tokens. Crooked, so that what is rounded wrongly, or twice, shows.
PRICES = {"input_per_mtok": "1.234567", "output_per_mtok": "9.876543", "cache_read_per_mtok": "0.123457",
          "cache_write_5m_per_mtok": "1.543211", "cache_write_1h_per_mtok": "2.469137"}
numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Api:
    """One way to ask a model: where, and in which words."""
    name: str
    dialect: str
    path: str
    output_max: str = ""  # The member that limits the output.
    speaks: bool = True  # Can stream.
    takes_input: bool = False  # A text, and no messages.

    def __str__(self):
        return self.name

    def target(self, model, stream):
        if self.dialect != "gemini":
            return self.path
        action = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return f"/v1beta/models/{model}:{action}"

    def body(self, model, text, stream=False, output_max=None, **more):
        said = [{"role": "user", "content": text}]
        if self.dialect == "gemini":
            config = {} if output_max is None else {"generationConfig": {"maxOutputTokens": output_max}}
            return {"contents": [{"role": "user", "parts": [{"text": text}]}], **config, **more}
        body = {"model": model, **({"input": text} if self.takes_input else {"messages": said})}
        if output_max is not None and self.output_max:
            body[self.output_max] = output_max
        if stream:
            body["stream"] = True
        return {**body, **more}

    def limit_in(self, body):
        """What a request's body says about how much output there may be, as the provider got it."""
        body = json.loads(body)
        return body.get("generationConfig", body).get(self.output_max)


CHAT = Api("chat", "openai", "/v1/chat/completions", "max_completion_tokens")
RESPONSES = Api("responses", "openai", "/v1/responses", "max_output_tokens", takes_input=True)
EMBEDDINGS = Api("embeddings", "openai", "/v1/embeddings", speaks=False, takes_input=True)
MESSAGES = Api("messages", "anthropic", "/v1/messages", "max_tokens")
GENERATE = Api("generate", "gemini", "", "maxOutputTokens")
SPEAKING = (CHAT, RESPONSES, MESSAGES, GENERATE)
WAYS = [(api, stream) for api in SPEAKING for stream in (False, True)] + [(EMBEDDINGS, False)]


def way_name(value):
    return {True: "stream", False: "plain"}.get(value) if isinstance(value, bool) else str(value)


def nanos(amount):
    """Nano-dollars of an amount as the server writes it."""
    return int(Decimal(amount) / NANO)


def picos_per_token(dollars_per_mtok):
    return int(Decimal(dollars_per_mtok) * 10 ** 6)


def bill_of(usage, prices=PRICES):
    """Nano-dollars for one line of the provider's books: every kind of token by its own price, rounded up once."""
    def rate(name, otherwise):
        return picos_per_token(prices[f"{name}_per_mtok"]) if f"{name}_per_mtok" in prices else otherwise

    plain, said = rate("input", 0), rate("output", 0)
    written = rate("cache_write_5m", plain)
    kinds = [(usage["cached"], rate("cache_read", plain)), (usage["cache_write"], written),
             (usage["cache_write_1h"], rate("cache_write_1h", written)), (usage["audio_in"], rate("audio_input", plain))]
    spoken = [(usage["reasoning"], rate("reasoning", said)), (usage["audio_out"], rate("audio_output", said))]
    picos = sum(count * price for count, price in kinds + spoken)
    picos += (usage["input"] - sum(count for count, _ in kinds)) * plain
    picos += (usage["output"] - sum(count for count, _ in spoken)) * said
    fees = Decimal(prices.get("per_call", 0)) + usage["searches"] * Decimal(prices.get("per_paid_tool", 0))
    return -(-(picos + int(fees * 10 ** 12)) // 1000)


class Answer:
    """What a client of the gateway was told."""

    def __init__(self, number, status, headers, body):
        self.number, self.status, self.headers, self.body = number, status, headers, body

    def __repr__(self):
        return f"{self.status} {self.headers} {self.body[:2000].decode(errors='replace')}"

    @property
    def id(self):
        return self.headers["x-interlock-call"]

    def json(self):
        return json.loads(self.body)

    def ok(self):
        assert self.status == 200, self
        return self

    def events(self):
        """What follows each "data: " of a stream."""
        assert self.headers["content-type"].startswith("text/event-stream"), self
        return [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]

    def refused(self, api, status):
        """Refused in the words of the dialect. Returns the sentence."""
        assert self.status == status, self
        assert self.headers["content-type"] == "application/json", self
        error = self.json()["error"]
        if api.dialect == "openai":
            assert set(error) == {"message", "type", "param", "code"} and error["param"] is None, self
        elif api.dialect == "anthropic":
            assert self.json()["type"] == "error" and set(error) == {"type", "message"}, self
        else:
            assert set(error) == {"code", "message", "status"} and error["code"] == status, self
        if 400 <= status < 500 and status not in (408, 429):
            assert self.headers["x-should-retry"] == "false", self
        return error["message"]


class Provider:
    """A simulated provider as a process of its own, with its books."""

    def __init__(self, binary, directory, *flags, key=UPSTREAM_KEY):
        self.log = pathlib.Path(directory) / f"{fresh('books')}.jsonl"
        self.lines, self.offset, self.lock = collections.defaultdict(list), 0, threading.Lock()
        keyed = ["--key", key] if key else []
        self.process = subprocess.Popen(
            [binary, "simulate-upstream", "--listen", "127.0.0.1:0", "--log", str(self.log), *keyed, *map(str, flags)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def books(self):
        """All lines, in their order."""
        self.read_on()
        return list(itertools.chain.from_iterable(self.lines.values()))

    def read_on(self):
        with self.lock, open(self.log, "rb") as log:
            log.seek(self.offset)
            whole, newline, _ = log.read().rpartition(b"\n")
            self.offset += len(whole + newline)
            for text in whole.splitlines():
                line = json.loads(text)
                if line["usage"] and line["path"] == EMBEDDINGS.path:
                    line["usage"]["output"] = 0  # Nothing is said there, and its answer states no output.
                self.lines[line["headers"].get("x-client-request-id")].append(line)

    def connection(self):
        return http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=20)

    def asked(self, answer):
        """What it was asked on behalf of one call, attempt by attempt."""
        self.read_on()
        return list(self.lines[str(getattr(answer, "number", answer))])


class Lab:
    """A server with a provider behind it. Every model that is called lab/… goes there, at PRICES."""

    def __init__(self, binary, directory, **settings):
        self.binary, self.directory = binary, pathlib.Path(directory)
        self.stack = contextlib.ExitStack()
        self.settings = {"wait_s": 5, "hold_lease_s": 10, **settings}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.provider = stack.enter_context(Provider(self.binary, self.directory))
            self.server = stack.enter_context(Server(self.binary, self.directory))
            self.stack = stack.pop_all()
        for dialect in ("openai", "anthropic", "gemini"):
            self.upstream(self.provider, dialect, models=["lab/*"])
        self.price("lab/*")
        self.configure()
        return self

    def __exit__(self, *_):
        self.stack.close()

    @property
    def admin(self):
        return self.server.admin  # A new one after each start.

    # What people set.

    def configure(self, **settings):
        self.admin.put("/v1/gateway", {**self.settings, **settings}).ok()

    @contextlib.contextmanager
    def configured(self, **settings):
        """Inside, the gateway decides otherwise."""
        self.configure(**settings)
        try:
            yield
        finally:
            self.configure()

    def price(self, model, prices=PRICES, provider=PROVIDER, **more):
        self.admin.put("/v1/prices", {"provider": provider, "model": model, **prices, **more}).ok()

    def upstream(self, place, dialect, **more):
        """A new upstream: a provider, or whatever is at that address. Returns its name."""
        name = fresh("upstream")
        url = place if isinstance(place, str) else place.url
        limit = {"limit_name": CHAT.output_max} if dialect == "openai" else {}
        secret = fresh("secret")  # A secret goes to the host of its first upstream only.
        self.admin.put(f"/v1/secrets/{secret}", {"value": UPSTREAM_KEY}).ok()
        self.admin.put(f"/v1/upstreams/{name}", {"dialect": dialect, "url": url, "provider": PROVIDER, **limit,
                                                 "key": {"secret": secret}, "pass_headers": ["x-sim"],
                                                 **more}).ok()
        return name

    def another_provider(self, *flags, **options):
        return self.stack.enter_context(Provider(self.binary, self.directory, *flags, **options))

    def own_model(self, place, **more):
        """A model of its own, at PRICES, and the name of the only upstream that takes it."""
        model = fresh("model")
        self.price(model)
        return model, self.upstream(place, "openai", models=[model], **more)

    def agent_key(self, limit=None, agent=None, **budget):
        """The key of a new agent, and its budget where it has one: key.agent, key.budget."""
        agent = agent or self.admin.agent()
        key = self.admin.make_key("agent", agent=agent)
        key.agent = agent
        key.budget = limit and self.admin.budget(limit, scope={"agent": agent}, **budget)
        return key

    @contextlib.contextmanager
    def budgeted(self, limit, scope):
        """Inside, there is a budget; its name."""
        name = self.admin.budget(limit, scope=scope)
        try:
            yield name
        finally:
            self.admin.delete(f"/v1/budgets/{name}").ok()

    def command(self, *words):
        """The command line, as an administrator has it. Returns what it prints."""
        env = {**os.environ, "INTERLOCK_URL": "http://%s:%d" % self.server.address, "INTERLOCK_KEY": self.admin.key}
        done = subprocess.run([self.binary, *words], capture_output=True, text=True, timeout=20, env=env,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def follow(self, sentence, **values):
        """Does what a refusal says is to be done, with these in place of its words in capitals."""
        words = re.search(r"interlock ([a-z]+ [a-z]+ [^(.;,]*)", sentence).group(1).split()
        self.command(*(values.get(word, word) for word in words))

    # What clients do.

    def send(self, method, target, body=None, headers=None):
        """A request as it stands, on a connection of its own. Returns the connection and the number it is known by."""
        number = next(numbers)
        connection = http.client.HTTPConnection(*self.server.address, timeout=30)
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        connection.request(method, target, body, {"x-client-request-id": str(number), "x-interlock-tags": f"lab={number}",
                                                  "Content-Type": "application/json", **(headers or {})})
        return connection, number

    def ask(self, method, target, body=None, headers=None):
        connection, number = self.send(method, target, body, headers)
        with contextlib.closing(connection):
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(number, response.status, found, response.read())

    def request(self, api, script="", key=None, stream=False, model="lab/small", prefix="", headers=None, text="hello",
                body=None, output_max=100, **more):
        """What ask() and send() take."""
        found = {**({"Authorization": f"Bearer {getattr(key, 'key', key)}"} if key else {}),
                 **({"x-sim": script} if script else {}), **(headers or {})}
        made = body if body is not None else api.body(model, text, stream, output_max, **more)
        return "POST", prefix + api.target(model, stream), made, found

    def call(self, api, script="", key=None, **more):
        return self.ask(*self.request(api, script, key, **more))

    def told_operators(self, api, key, status, **more):
        """The refusal that an operator reads who makes the call of this key's agent. Agents are shown no commands."""
        own = self.call(api, key=key, **more).refused(api, status)
        assert "interlock " not in own and "person" in own, own
        return self.call(api, key=self.admin, headers={"x-interlock-agent": key.agent}, **more).refused(api, status)

    # What became of it.

    def row(self, answer, seconds=5):
        """The call as the server tells it: a moment after its end."""
        call_id = answer if isinstance(answer, str) else answer.id

        def find():
            reply = self.admin.get(f"/v1/calls/{call_id}")
            return reply.status == 200 and reply.json()

        return eventually(find, seconds)

    def row_of(self, key, count=1, seconds=10):
        """The last call of a key's agent, when there are so many of them."""
        def find():
            rows = self.admin.items("/v1/calls", agent=key.agent)
            return len(rows) >= count and rows[0]

        return self.row(eventually(find, seconds)["id"])

    def events(self, key):
        return self.admin.items("/v1/charges", agent=key.agent)

    def bill(self, answer, prices=PRICES, provider=None):
        """Nano-dollars that the provider wants for a call."""
        return sum(bill_of(line["usage"], prices) for line in (provider or self.provider).asked(answer) if line["usage"])

    def budget(self, key):
        return self.admin.get(f"/v1/budgets/{key.budget}").ok(200)

    def settled(self, key, seconds=5):
        """The budget of a key, when nothing is held in it any more."""
        return eventually(lambda: (told := self.budget(key))["open_holds"] == 0 and told, seconds,
                          lambda: f": {self.budget(key)}")


def read_until(response, what, seconds=10):
    """Reads a stream up to a word. Returns what came."""
    text, deadline = b"", time.monotonic() + seconds
    while what not in text:
        assert time.monotonic() < deadline, text
        line = response.readline()
        assert line, text
        text += line
    return text


def without_numbers(answer):
    """An answer of the simulated provider without what makes each of them another: its id and the time."""
    return re.sub(rb'"created(_at)?":\d+', b'"created"', re.sub(rb"sim\d{8}", b"sim", answer))


def check_metered(lab, answer, key, stream, prices=PRICES):
    """The call, its event and the books agree to the nano-dollar. Returns the row of the call."""
    bill = lab.bill(answer, prices)
    assert bill > 0
    row = lab.row(answer)
    assert (nanos(row["cost"]), row["estimated"], row["streamed"]) == (bill, False, stream)
    assert nanos(row["settled"]["cost"]) == bill and row["settled"]["usage"] == row["usage"]
    assert row["held"]["status"] == "settled" and nanos(row["bound"]) >= bill
    event, = [event for event in lab.events(key) if event["hold"] == row["hold"]]
    assert nanos(event["cost"]) == bill and event["tags"]["lab"] == str(answer.number)
    if not stream:
        assert answer.headers["x-interlock-cost"] == text_of(bill * NANO)
    return row
