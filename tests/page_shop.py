"""A server in which a little of everything has happened, for tests of the page."""


class Shop:
    def __init__(self, server):
        self.server = server
        self.workplace = server.directory / "workplace"
        self.workplace.mkdir()
        admin = self.admin = server.admin
        admin.put("/v1/agents/reviewer", {"max_concurrent_runs": 2, "capture": "full"}).ok()
        admin.put("/v1/agents/tester", {"workspace": str(self.workplace)}).ok()
        admin.put("/v1/budgets/all-day", {"limit": "10.00", "window": "day"}).ok()
        admin.put("/v1/budgets/crumbs", {"limit": "0.0001", "window": "day", "scope": {"agent": "tester"}}).ok()
        admin.put("/v1/schedules/often", {"agent": "reviewer", "every_s": 3600}).ok()
        self.session = admin.post("/v1/sessions", {"agent": "reviewer", "title": "A talk about tests"}).ok()["id"]
        for text in ("What do we test?", "Everything that can break."):
            self.say(text)
        self.fork = admin.post(f"/v1/sessions/{self.session}/fork", {"at_seq": 0}).ok()["id"]
        self.key = self.key_of("reviewer")
        self.run = self.start("reviewer", session=self.session, lease_s=600)
        self.ask("Hello", run=self.run)
        self.ask("Hello", model="sim/no-such-model")

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.port}"

    def link(self):
        return self.admin.post("/v1/login").ok()["link"]

    def key_of(self, agent):
        return self.admin.post("/v1/keys", {"scopes": ["agent"], "agent": agent}).ok()["key"]

    def say(self, text, session=None, role="user"):
        messages = [{"role": role, "content": text}]
        self.admin.post(f"/v1/sessions/{session or self.session}/messages", {"messages": messages}).ok()

    def start(self, agent, **more):
        return self.admin.post("/v1/runs", {"agent": agent, **more}).ok()["id"]

    def finish(self, run, outcome="succeeded"):
        fence = self.admin.get(f"/v1/runs/{run}").ok()["fence"]
        self.admin.post(f"/v1/runs/{run}/finish", {"fence": fence, "outcome": outcome}).ok()

    def charge(self, cost, agent="reviewer", **more):
        self.admin.post("/v1/charges", {"agent": agent, "cost": cost, **more}).ok()

    def ask(self, text, run=None, model="sim/small", key=None):
        """A call to a model, through the gateway."""
        headers = {"x-interlock-run": run} if run else {}
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        return self.admin.with_key(key or self.key).post("/v1/chat/completions", body, headers=headers)
