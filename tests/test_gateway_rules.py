"""What people allow: rate limits, caps, cached answers, what is kept of a conversation, and whose key does what."""

import json
import threading
import time

import pytest

from checks import text_of
from gateway_lab import CHAT, MESSAGES, NANO, SPEAKING, UPSTREAM_KEY, WAYS, check_metered, nanos, way_name
from interlock_server import ON_POSTGRES, Server, eventually, fresh, together
from supervised import PYTHON, Runs

every_api = pytest.mark.parametrize("api", SPEAKING, ids=str)


# ---- how much may go -----------------------------------------------------------------------------------------------


def limit(lab, match, **body):
    name = fresh("limit")
    lab.admin.put(f"/v1/rate-limits/{name}", {"match": match, **body}).ok()
    return name


@every_api
def test_requests_beyond_a_rate_are_refused_until_there_is_room(lab, api):
    key = lab.agent_key("1.00")
    name = limit(lab, {"agent": key.agent}, requests_per_minute=3)

    answers = [lab.call(api, "output=1", key) for _ in range(4)]

    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining-requests"] for answer in answers] == ["2", "1", "0", "0"]
    assert {answer.headers["x-ratelimit-limit-requests"] for answer in answers} == {"3"}
    assert name in answers[3].refused(api, 429)
    assert 15 <= int(answers[3].headers["retry-after"]) <= 20
    assert "x-should-retry" not in answers[3].headers
    assert lab.row(answers[3])["refusal"] == "rate_limited" and lab.provider.asked(answers[3]) == []
    lab.call(api, key=lab.agent_key()).ok()  # Nobody else is meant.
    lab.admin.delete(f"/v1/rate-limits/{name}").ok()
    lab.call(api, key=key).ok()


def test_tokens_beyond_a_rate_are_refused_after_they_are_known(lab):
    key = lab.agent_key("1.00")
    limit(lab, {"agent": key.agent}, tokens_per_minute=1000)
    first = lab.call(CHAT, "input=1500;output=10", key).ok()
    assert first.headers["x-ratelimit-limit-tokens"] == "1000"
    refused = lab.call(CHAT, key=key)
    assert refused.refused(CHAT, 429) and 25 <= int(refused.headers["retry-after"]) <= 45


def test_a_rate_is_for_the_key_or_the_model_that_it_names(lab):
    agent = lab.admin.agent()
    one, other = lab.agent_key(agent=agent), lab.agent_key(agent=agent)
    limit(lab, {"key": one.key_id}, requests_per_minute=1)
    model = fresh("lab/rare")
    limit(lab, {"model": model + "*"}, requests_per_minute=1)

    assert [lab.call(CHAT, key=one).status for _ in range(2)] == [200, 429]
    assert [lab.call(CHAT, key=other).status for _ in range(2)] == [200, 200]
    assert [lab.call(CHAT, key=other, model=model + "-x").status for _ in range(2)] == [200, 429]


def test_no_more_get_through_at_once_than_the_rate_says(lab):
    key = lab.agent_key("10.00")
    limit(lab, {"agent": key.agent}, requests_per_minute=10)
    statuses = together(20, lambda _: lab.call(CHAT, "output=1", key).status)
    assert sorted(statuses) == [200] * 10 + [429] * 10


def test_a_cap_on_a_provider_holds_for_its_calls(lab):
    provider = fresh("capped")
    model = fresh("model")
    lab.price(model, provider=provider)
    lab.upstream(lab.provider, "openai", models=[model], provider=provider)
    lab.admin.put(f"/v1/caps/provider/{provider}", {"max_live": 2}).ok()
    key = lab.agent_key("10.00")

    answers = together(6, lambda _: lab.call(CHAT, "delay_ms=300;output=1", key, model=model))

    assert [answer.status for answer in answers] == [200] * 6, "they wait for each other"
    took = sorted(lab.row(answer)["duration_us"] for answer in answers)
    assert took[-1] >= 900_000 and took[3] >= 600_000, "two at a time"
    with lab.configured(wait_s=0):
        slow = threading.Thread(target=together, args=(2, lambda _: lab.call(CHAT, "delay_ms=1500", key, model=model)))
        slow.start()
        eventually(lambda: len(lab.admin.items("/v1/holds", agent=key.agent, status="open")) == 2)
        refused = lab.call(CHAT, key=key, model=model)
        sentence = refused.refused(CHAT, 429)
        assert provider in sentence and "a person can raise the cap" in sentence and refused.headers["retry-after"]
        lab.admin.put(f"/v1/caps/provider/{provider}", {"max_live": 3}).ok()
        lab.call(CHAT, key=key, model=model).ok()
        slow.join()


# ---- answers that are given again ----------------------------------------------------------------------------------


@pytest.mark.parametrize("api, stream", WAYS, ids=way_name)
def test_an_answer_that_is_given_again_costs_nothing_and_says_so(lab, api, stream):
    key = lab.agent_key("1.00")
    asking = {"stream": stream, "text": fresh("say"), "headers": {"x-interlock-cache": "60"}}

    first, second = [lab.call(api, "output=7", key, **asking).ok() for _ in range(2)]

    check_metered(lab, first, key, stream)
    assert "x-interlock-cache" not in first.headers
    assert (second.body, second.headers["content-type"]) == (first.body, first.headers["content-type"])
    assert (second.headers["x-interlock-cache"], second.headers["x-interlock-cost"]) == ("hit", "0.00")
    row = lab.row(second)
    assert (row["cached"], row["cost"], row["attempts"], row["settled"]) == (True, "0.00", 0, None)
    assert lab.provider.asked(second) == [] and len(lab.events(key)) == 1


def test_what_was_answered_to_one_is_not_given_to_another(lab):
    asking = {"text": fresh("say"), "headers": {"x-interlock-cache": "60"}}
    one, other = lab.agent_key("1.00"), lab.agent_key("1.00")
    again = lab.agent_key(agent=one.agent)
    lab.call(CHAT, "output=7", one, **asking).ok()

    assert lab.call(CHAT, "output=7", again, **asking).ok().headers.get("x-interlock-cache") == "hit"
    for key, change in ((other, {}), (one, {"text": "another"}), (one, {"output_max": 99}), (one, {"headers": {}}),
                        (one, {"stream": True})):
        answer = lab.call(CHAT, "output=7", key, **{**asking, **change}).ok()
        assert "x-interlock-cache" not in answer.headers and len(lab.provider.asked(answer)) == 1


def test_answers_are_kept_for_their_time_and_only_good_ones(lab):
    key = lab.agent_key("1.00")
    for script, ttl, pause in (("output=7", "1", 1.1), ("status=400", "60", 0), ("no_usage=1", "60", 0),
                               ("cut_after=2", "60", 0)):
        stream = "cut" in script
        asking = {"text": fresh("say"), "headers": {"x-interlock-cache": ttl}, "stream": stream}
        lab.call(CHAT, script, key, **asking)
        time.sleep(pause)
        answer = lab.call(CHAT, script, key, **asking)
        assert len(lab.provider.asked(answer)) == 1, script


def test_a_key_can_have_its_answers_kept_by_default(lab):
    key = lab.agent_key("1.00")
    with lab.configured(cache_ttl_s=60, cache_keys=[key.key_id]):
        text = fresh("say")
        hits = [lab.call(CHAT, key=key, text=text).ok().headers.get("x-interlock-cache") for _ in range(2)]
        assert hits == [None, "hit"]
        assert "x-interlock-cache" not in lab.call(CHAT, key=key, text=text, headers={"x-interlock-cache": "0"}).ok().headers
        assert "x-interlock-cache" not in lab.call(CHAT, key=lab.agent_key(agent=key.agent), text=text).ok().headers


# ---- what is kept of a conversation --------------------------------------------------------------------------------


@pytest.mark.parametrize("capture, api, stream", [("off", CHAT, True), ("usage", CHAT, False), ("usage", MESSAGES, True)] +
                         [("full", *way) for way in WAYS if way[0].speaks], ids=way_name)
def test_an_exchange_is_one_turn_of_the_runs_session(lab, api, stream, capture):
    agent = lab.admin.agent(capture=capture)
    key = lab.agent_key(agent=agent)
    session = lab.admin.session(agent=agent)
    run = lab.admin.run(agent, session=session)

    answer = lab.call(api, "input=123;output=7;text=understood", key, stream=stream, text="please",
                      headers={"x-interlock-run": run["id"]}).ok()

    row = lab.row(answer)
    assert (row["run"], row["session"]) == (run["id"], session)
    count = {"off": 0, "usage": 1, "full": 2}[capture]
    eventually(lambda: len(lab.admin.items(f"/v1/sessions/{session}/messages")) == count)
    messages = lab.admin.items(f"/v1/sessions/{session}/messages")
    if count:
        last = messages[-1]
        assert (last["role"], last["run"], last["input_tokens"], last["output_tokens"]) == ("assistant", run["id"], 123, 7)
        assert (last["metadata"]["call"], last["metadata"]["cost"]) == (answer.id, row["cost"])
        assert last["content"] == ("understood" if capture == "full" else "")
    if capture == "full":
        assert (messages[0]["role"], messages[0]["content"]) == ("user", "please")
    lab.admin.finish(run).ok()


@pytest.mark.parametrize("bound_to", ["agent", "run"])
def test_nobody_writes_into_a_session_of_another_agent(lab, bound_to):
    agent = lab.admin.agent()
    run = lab.admin.run(agent)
    key = lab.admin.make_key("agent", **{bound_to: {"agent": agent, "run": run["id"]}[bound_to]})
    session = lab.admin.session(agent=lab.admin.agent())

    answer = lab.call(CHAT, "output=5", key, headers={"x-interlock-session": session})
    lab.admin.finish(run).ok()

    assert answer.status in (400, 401, 404), answer
    assert lab.provider.asked(answer) == []
    assert lab.admin.items(f"/v1/sessions/{session}/messages") == []


# ---- who may, and on whose account ---------------------------------------------------------------------------------


def test_a_key_of_a_run_ends_with_it(lab):
    agent = lab.admin.agent()
    run = lab.admin.run(agent)
    key = lab.admin.make_key("agent", run=run["id"])

    answer = lab.call(MESSAGES, "output=9", key, headers={"x-interlock-run": run["id"]}).ok()

    row = lab.row(answer)
    assert (row["run"], row["agent"]) == (run["id"], agent)
    assert nanos(lab.admin.get(f"/v1/runs/{run['id']}").ok()["spent"]) == lab.bill(answer)
    assert "run" in lab.call(MESSAGES, key=key, headers={"x-interlock-run": lab.admin.run(lab.admin.agent())["id"]}).refused(
        MESSAGES, 401)
    lab.admin.finish(run).ok()
    refused = lab.call(MESSAGES, key=key)
    assert refused.refused(MESSAGES, 401) and lab.provider.asked(refused) == []


# Asks a model with what a run finds in its environment, and shows the key to whoever reads its output.
CALLER = """
import json, os, urllib.request
body = json.dumps({"model": "lab/small", "max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}).encode()
request = urllib.request.Request(os.environ["INTERLOCK_URL"] + "/v1/messages", body,
                                 {"x-api-key": os.environ["INTERLOCK_KEY"], "content-type": "application/json"})
with urllib.request.urlopen(request) as answer:
    print(answer.headers["x-interlock-call"], os.environ["INTERLOCK_KEY"], flush=True)
"""


def test_a_process_that_we_run_calls_on_its_runs_account_until_it_ends(lab):
    runs = Runs(lab.server)
    run = runs.start(*PYTHON[:1], "-c", CALLER, budget="0.01")

    assert runs.wait(run)["status"] == "succeeded", runs.output(run)

    call, key = runs.output(run).split()
    row = lab.row(call)
    assert (row["run"], nanos(row["cost"])) == (run, nanos(runs.show(run)["spent"])) and nanos(row["cost"]) > 0
    assert "no key" in lab.call(MESSAGES, key=key).refused(MESSAGES, 401)


def test_a_run_is_sent_to_an_upstream_of_any_name_and_to_no_simulated_one(binary, tmp_path):
    claude = tmp_path / "claude"
    claude.write_text("#!/bin/sh\necho base=$ANTHROPIC_BASE_URL\n")
    claude.chmod(0o755)
    (tmp_path / "data").mkdir()
    with Server(binary, tmp_path / "data", "--simulate-models") as server:
        runs = Runs(server)

        def base():
            run = runs.start(str(claude))
            assert runs.wait(run)["status"] == "succeeded", runs.output(run)
            return runs.output(run).strip()

        assert base() == "base="
        upstream = {"dialect": "anthropic", "url": "http://127.0.0.1:9", "models": ["*"]}
        server.admin.put("/v1/upstreams/sim-of-ours", upstream).ok()
        assert base().startswith("base=http://127.0.0.1:")


def test_a_run_does_not_pass_its_ceiling(lab):
    agent = lab.admin.agent()
    run = lab.admin.run(agent, budget="0.01")
    key = lab.admin.make_key("agent", run=run["id"])
    for _ in range(20):
        answer = lab.call(CHAT, "output=100", key, output_max=100)
        if answer.status != 200:
            break
    assert "ceiling" in answer.refused(CHAT, 402)
    spent = nanos(lab.admin.get(f"/v1/runs/{run['id']}").ok()["spent"])
    assert 0.4 * nanos("0.01") < spent <= nanos("0.01")
    lab.admin.finish(run).ok()


def test_a_key_that_is_bound_to_a_budget_calls_only_on_its_account(lab):
    agent, other = lab.admin.agent(), lab.admin.agent()
    budget = lab.admin.budget("1.00", scope={"agent": agent})
    key = lab.admin.make_key("agent", budget=budget)

    answer = lab.call(CHAT, "output=9", key, headers={"x-interlock-agent": agent}).ok()

    eventually(lambda: nanos(lab.admin.get(f"/v1/budgets/{budget}").ok()["settled"]) == lab.bill(answer))
    assert f"'{budget}'" in lab.call(CHAT, key=key, headers={"x-interlock-agent": other}).refused(CHAT, 401)
    assert lab.call(CHAT, key=key).status in (400, 401)


def test_a_key_without_an_agent_names_one(lab):
    key = lab.admin.make_key("agent")
    agent = lab.admin.agent()
    assert lab.row(lab.call(CHAT, key=key, headers={"x-interlock-agent": agent}).ok())["agent"] == agent
    assert "x-interlock-agent" in lab.call(CHAT, key=key).refused(CHAT, 400)
    assert "nobody-here" in lab.call(CHAT, key=key, headers={"x-interlock-agent": "nobody-here"}).refused(CHAT, 400)


def test_an_agents_key_is_for_no_other_agent(lab):
    key, other = lab.agent_key(), lab.admin.agent()
    answer = lab.call(CHAT, key=key, headers={"x-interlock-agent": other})
    assert answer.status in (200, 400, 401)
    if answer.status == 200:
        assert lab.row(answer)["agent"] == key.agent


@every_api
def test_a_paused_agent_does_not_call(lab, api):
    key = lab.agent_key("1.00")
    lab.admin.post(f"/v1/agents/{key.agent}/pause", {"reason": "too eager"}).ok()
    answer = lab.call(api, key=key)
    sentence = answer.refused(api, 402)
    assert "too eager" in sentence and "A person can resume it" in sentence and "interlock " not in sentence
    assert lab.provider.asked(answer) == []
    lab.admin.post(f"/v1/agents/{key.agent}/resume").ok()
    lab.call(api, key=key).ok()


@pytest.mark.parametrize("scope", ["org", "agent", "run", "session", "api_key", "provider", "model", "tags", "workflow"])
def test_every_scope_of_a_budget_holds_for_calls(lab, scope):
    agent = lab.admin.agent()
    key = lab.agent_key(agent=agent)
    session = lab.admin.session(agent=agent)
    run = lab.admin.run(agent, session=session)
    provider, model = fresh("scoped"), fresh("model")
    lab.price(model, provider=provider)
    lab.upstream(lab.provider, "openai", models=[model], provider=provider)
    scopes = {"org": {}, "agent": {"agent": agent}, "run": {"run": run["id"]}, "session": {"session": session},
              "api_key": {"api_key": key.key_id}, "provider": {"provider": provider}, "model": {"model": model},
              "tags": {"tags": {"team": agent}}, "workflow": {"workflow": agent}}
    headers = {"x-interlock-run": run["id"], "x-interlock-tags": f"team={agent},lab=0", "x-interlock-workflow": agent}
    with lab.budgeted("0.0001", scopes[scope]) as key.budget:
        refused = lab.call(CHAT, key=key, model=model, headers=headers)
        assert f"'{key.budget}'" in refused.refused(CHAT, 402)
        lab.admin.put(f"/v1/budgets/{key.budget}", {"limit": "10.00", "window": "total", "scope": scopes[scope]}).ok()
        before = nanos(lab.settled(key)["settled"])

        answer = lab.call(CHAT, "output=9", key, model=model, headers=headers).ok()

        assert nanos(lab.settled(key)["settled"]) - before == lab.bill(answer) > 0
    lab.admin.finish(run).ok()


@pytest.mark.parametrize("metric, limit, used", [("tokens", 4000, 550), ("calls", 3, 1)])
def test_budgets_of_tokens_and_calls_hold_too(lab, metric, limit, used):
    key = lab.agent_key(limit, metric=metric)
    calls = 0
    while (answer := lab.call(CHAT, "input=500;output=50", key, output_max=50)).status == 200:
        calls += 1
        assert int(lab.settled(key)["settled"]) == calls * used <= limit
    assert f"'{key.budget}'" in answer.refused(CHAT, 402)
    assert calls * used >= limit / 2


def test_what_is_left_of_the_budget_is_told(lab):
    key = lab.agent_key("1.00")
    answer = lab.call(CHAT, "output=9", key).ok()
    assert answer.headers["x-interlock-budget-left"] == text_of((10 ** 9 - lab.bill(answer)) * NANO)
    assert answer.headers["x-interlock-upstream"] and answer.id.startswith("call_")
    assert "x-interlock-budget-left" not in lab.call(CHAT, key=lab.agent_key()).ok().headers


@pytest.mark.skipif(ON_POSTGRES, reason="the disk is PostgreSQL's own")
def test_nothing_is_sent_that_cannot_be_held_and_nothing_is_lost_that_was_sent(lab):
    key = lab.agent_key("1.00")
    connection, number = lab.send(*lab.request(CHAT, "chunks=4;chunk_delay_ms=100;output=40", key, stream=True))
    response = connection.getresponse()
    response.read(20)
    with lab.server.fill_disk():
        refused = lab.call(CHAT, key=key)
        assert "nothing was sent" in refused.refused(CHAT, 503) and lab.provider.asked(refused) == []
        assert response.read().endswith(b"data: [DONE]\n\n")
        connection.close()

    assert nanos(lab.settled(key, 20)["settled"]) == lab.bill(number) > 0
    eventually(lambda: lab.call(CHAT, key=key).status == 200)


def test_keys_are_written_nowhere(lab):
    key = lab.agent_key()
    method, target, body, _ = lab.request(CHAT)
    lab.ask(method, f"{target}?key={key.key}", body).ok()
    files = [path for path in lab.directory.rglob("*") if path.is_file() and path != lab.provider.log]
    assert any(path.name == "server.log" for path in files)
    for path in files:
        text = path.read_bytes()
        assert UPSTREAM_KEY.encode() not in text and key.key.encode() not in text, path


# ---- what is told of calls -----------------------------------------------------------------------------------------


def test_calls_are_told_with_all_that_happened(lab):
    key = lab.agent_key("1.00")
    slow = lab.call(CHAT, "delay_ms=200;chunk_delay_ms=100;chunks=2;input=50;output=9", key, stream=True).ok()
    refused = lab.call(CHAT, key=key, model="lab/small", headers={"x-interlock-run": "run_x"})
    row = lab.row(slow)

    assert 200_000 <= row["first_byte_us"] < row["duration_us"] and row["duration_us"] >= 300_000
    assert (row["operation"], row["status"], row["attempts"], row["refusal"]) == ("openai.chat", 200, 1, None)
    assert (row["provider"], row["model"], row["api_key"]) == ("lab", "lab/small", key.key_id)
    assert row["upstream"].startswith("upstream-") and row["price"].startswith("lab/lab/*@set-")
    assert (row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == (50, 9)
    assert nanos(row["held"]["amount"]) == nanos(row["bound"]) > nanos(row["cost"]) > 0
    assert lab.row(refused)["refusal"] == "run_not_found"
    listed = eventually(lambda: len(rows := lab.admin.items("/v1/calls", agent=key.agent)) == 2 and rows)
    assert [each["id"] for each in listed] == [refused.id, slow.id], "the newest first"
    assert [each["id"] for each in lab.admin.items("/v1/calls", agent=key.agent, refused="true")] == [refused.id]
    assert [each["id"] for each in lab.admin.items("/v1/calls", agent=key.agent, status=200)] == [slow.id]
    assert [each["id"] for each in key.items("/v1/calls")] == [refused.id, slow.id], "an agent sees its own"
    lab.agent_key().get(f"/v1/calls/{slow.id}").refused(404, "not_found")


def test_calls_on_the_command_line(lab):
    key = lab.agent_key("1.00")
    answer = lab.call(CHAT, "input=50;output=9", key).ok()
    row = lab.row(answer)

    assert answer.id in lab.command("calls", "ls", "--agent", key.agent)
    shown = json.loads(lab.command("calls", "show", answer.id, "--json"))
    assert (shown["cost"], shown["hold"], shown["usage"]) == (row["cost"], row["hold"], row["usage"])
