"""What clients were told, compared with what the server says afterwards. For one server and for several nodes alike.

Each check takes only answers, so that answers of a server that gets it wrong can be given to it as well.
"""

import datetime
import threading
from decimal import Decimal

from interlock_server import together

COST = Decimal("0.00075")


def text_of(amount):
    """As the server writes money: at least two decimals, no more than needed."""
    whole, _, decimals = f"{amount:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def spend_together(client, agent, threads, each):
    """Charges from many threads, each without waiting for the others. Returns the numbers that were acknowledged."""
    def spend(_):
        return [client.post("/v1/charges", {"agent": agent, "cost": str(COST)}).ok(201)["seq"] for _ in range(each)]

    return [number for numbers in together(threads, spend) for number in numbers]


def write_together(client, session, writers, each):
    """Messages from many threads. Returns what was acknowledged: number and content."""
    def write(i):
        return [(client.post(f"/v1/sessions/{session}/messages", {"role": "user", "content": f"{i}-{j}"}).ok(201)["seq"],
                 f"{i}-{j}") for j in range(each)]

    return [done for part in together(writers, write) for done in part]


def check_pair(replies):
    """Of two starts on one place one has won, and the other was told who. Returns the winner."""
    winner, loser = sorted(replies, key=lambda reply: reply.status)
    assert (winner.status, loser.status) == (201, 409), replies
    assert loser.refused(409, "workspace_busy")["holder"]["run"] == winner.json()["id"]
    return winner.json()


def check_money(admin, agent, budget, events):
    """What `events` charges of COST must have come to, to the last digit, everywhere it is told."""
    total = text_of(COST * events)
    told = admin.get(f"/v1/agents/{agent}").ok(200)
    assert (told["spent"], told["events"]) == (total, events)
    assert admin.get(f"/v1/budgets/{budget}").ok(200)["settled"] == total
    spend = {item["agent"]: item for item in admin.get("/v1/spend", by="agent").ok(200)["items"]}
    assert (spend[agent]["cost"], spend[agent]["events"]) == (total, events)


def check_messages(admin, session, acknowledged):
    """Numbers 0, 1, 2, … without gap or duplicate, and every acknowledged message where its answer said."""
    messages = admin.items(f"/v1/sessions/{session}/messages")
    assert [message["seq"] for message in messages] == list(range(len(messages)))
    assert [(message["seq"], message["content"]) for message in messages] == sorted(acknowledged)


def check_nothing_is_held(admin, agent, budget):
    told = admin.get(f"/v1/budgets/{budget}").ok(200)
    assert (told["held"], told["open_holds"]) == ("0.00", 0)
    assert admin.items("/v1/holds", agent=agent) == []
    assert admin.items("/v1/runs", agent=agent, status="queued,starting,running,paused") == []
    assert agent not in {place["agent"] for place in admin.get("/v1/places").ok(200)["items"]}


class Load:
    """Clients that charge and write until they have done their share or are told to stop. Every request has a key of its
    own and is repeated with it until it is answered. What was acknowledged is written down."""

    def __init__(self, server, client=None):
        self.server = server
        self.client = client or server.admin
        self.agent = self.admin.agent(max_concurrent_runs=1000)
        self.budget = self.admin.budget("1000.00", scope={"agent": self.agent})
        self.session = self.admin.session(agent=self.agent)
        self.lock = threading.Lock()
        self.charges, self.messages, self.finished, self.repeated = {}, {}, 0, 0
        self.stopped = threading.Event()

    @property
    def admin(self):
        return self.server.admin  # A new one after each start.

    def charge(self, key):
        done = self.client.insist("POST", "/v1/charges", {"agent": self.agent, "cost": str(COST), "key": key}).ok(201)
        with self.lock:
            assert key not in self.charges
            self.charges[key] = done["seq"]
            self.repeated += done["repeated"]

    def write(self, key):
        done = self.client.insist("POST", f"/v1/sessions/{self.session}/messages",
                                  {"role": "user", "content": key, "key": key}).ok(201)
        with self.lock:
            assert done["seq"] not in self.messages, "two messages were told the same number"
            self.messages[done["seq"]] = key
            self.repeated += done["repeated"]

    def run(self, key):
        run = self.client.insist("POST", "/v1/runs", {"agent": self.agent, "resources": [key], "hold": "0.10", "key": key})
        run = run.ok(201)
        done = self.client.insist("POST", f"/v1/runs/{run['id']}/finish",
                                  {"fence": run["fence"], "charge": {"cost": str(COST)}, "key": key + "-end"}).ok(200)
        assert done["status"] == "succeeded"
        with self.lock:
            self.finished += 1
            self.repeated += done["repeated"]

    def work(self, name, count):
        for i in range(count):
            if self.stopped.is_set():
                return
            (self.charge, self.write, self.run)[i % 3](f"{self.agent}-{name}-{i}")

    def check(self):
        """Everything that was acknowledged is there once, and nothing else."""
        assert len(set(self.charges.values())) == len(self.charges), "two charges were told the same number"
        check_money(self.admin, self.agent, self.budget, len(self.charges) + self.finished)
        check_messages(self.admin, self.session, self.messages.items())
        assert len(self.admin.items("/v1/runs", agent=self.agent, status="succeeded")) == self.finished
        check_nothing_is_held(self.admin, self.agent, self.budget)


def attempt(work):
    try:
        work()
    except BaseException as failure:
        return [failure]
    return []


def check_feed(events, after):
    """Numbers from `after` on without gap or duplicate, and in order."""
    assert [event["seq"] for event in events] == list(range(after + 1, after + len(events) + 1))


def check_ticks(events, schedule, seconds):
    """Every `seconds` one tick, none of them twice, none left out, each with a run of its own."""
    fired = [event["data"] for event in events if event["type"] == "schedule_fired" and event["data"]["schedule"] == schedule]
    ticks = [datetime.datetime.fromisoformat(each["tick"]) for each in fired]
    assert len({each["run"] for each in fired}) == len(fired), "two ticks have one run"
    gaps = {(after - before).total_seconds() for before, after in zip(ticks, ticks[1:])}
    assert gaps <= {float(seconds)}, f"between ticks there are {sorted(gaps)} seconds"
    return ticks
