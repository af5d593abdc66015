"""Calls to models through the gateway, seen from both ends: what clients are told and what the provider was asked.

What each call costs is worked out here a second time, from the provider's books (gateway_lab.py).
"""

import base64
import contextlib
import json
import time

import pytest

from checks import text_of
from gateway_lab import (CHAT, EMBEDDINGS, GENERATE, MESSAGES, NANO, PRICES, RESPONSES, SPEAKING, UPSTREAM_KEY, WAYS,
                         bill_of, check_metered, nanos, picos_per_token, read_until, way_name, without_numbers)
from interlock_server import eventually, fresh, together

every_way = pytest.mark.parametrize("api, stream", WAYS, ids=way_name)
every_api = pytest.mark.parametrize("api", SPEAKING, ids=str)


# ---- every dialect, metered --------------------------------------------------------------------------------------


@every_way
def test_a_call_costs_what_the_provider_bills(lab, api, stream):
    key = lab.agent_key("1.00")

    answer = lab.call(api, "input=1001;output=37", key, stream=stream).ok()

    row = check_metered(lab, answer, key, stream)
    spoken = 0 if api is EMBEDDINGS else 37
    assert (row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == (1001, spoken)
    told = lab.settled(key)
    assert nanos(told["settled"]) == lab.bill(answer) and nanos(told["held"]) == 0
    asked, = lab.provider.asked(answer)
    assert asked["usage_told"]


@every_way
def test_the_answer_is_the_providers_byte_for_byte(lab, key, api, stream):
    """But for the numbers that make each answer another."""
    through = lab.call(api, "output=12;chunks=3", key, stream=stream).ok()
    asked, = lab.provider.asked(through)
    with contextlib.closing(lab.provider.connection()) as connection:
        target = asked["path"] + ("?" + asked["query"] if asked["query"] else "")
        connection.request("POST", target, asked["body"], {"x-sim": "output=12;chunks=3", "x-api-key": UPSTREAM_KEY})
        response = connection.getresponse()
        direct = response.read()

    assert through.headers["content-type"] == response.headers["content-type"]
    if api is CHAT and stream:  # Its last chunk but one is what the client has not asked for.
        chunks = direct.split(b"\n\n")
        assert b'"choices":[]' in chunks.pop(-3)
        direct = b"\n\n".join(chunks)
    assert without_numbers(through.body) == without_numbers(direct)


@every_api
def test_a_stream_is_passed_on_piece_by_piece(lab, key, api):
    connection, number = lab.send(*lab.request(api, "chunks=5;chunk_delay_ms=150;output=40", key, stream=True))
    with contextlib.closing(connection):
        response = connection.getresponse()
        read_until(response, b"lazy")
        first = time.monotonic()
        response.read()

    # Four pieces come after the first; how long it takes in all is the machine's business.
    assert time.monotonic() - first >= 0.3
    row = lab.row(response.headers["x-interlock-call"])
    assert nanos(row["cost"]) == lab.bill(number) and row["duration_us"] - row["first_byte_us"] >= 300_000


@pytest.mark.parametrize("api, stream", [way for way in WAYS if way[0].speaks], ids=way_name)
def test_calls_of_tools_are_metered_like_words(lab, key, api, stream):
    answer = lab.call(api, 'tool=look;tool_args={"city":"Bern","usage":{"input_tokens":1,"output_tokens":1}};output=29', key,
                      stream=stream).ok()
    assert b"look" in answer.body
    check_metered(lab, answer, key, stream)


@pytest.mark.parametrize("api, stream", [way for way in WAYS if way[0].speaks], ids=way_name)
def test_words_that_look_like_usage_are_words(lab, key, api, stream):
    said = json.dumps('"usage":{"prompt_tokens":1,"completion_tokens":1},"usageMetadata":{"promptTokenCount":1}} data: [DONE]')
    answer = lab.call(api, f"text={said};output=400", key, stream=stream, output_max=500).ok()
    check_metered(lab, answer, key, stream)


@pytest.mark.parametrize("stream", [False, True], ids=way_name)
def test_audio_has_its_own_price(lab, key, stream):
    model = fresh("lab/audio")
    prices = {**PRICES, "audio_input_per_mtok": "32.000001", "audio_output_per_mtok": "64.000003"}
    lab.price(model, prices)
    answer = lab.call(CHAT, "input=500;audio_in=301;output=90;audio_out=71", key, stream=stream, model=model,
                      modalities=["text", "audio"]).ok()
    check_metered(lab, answer, key, stream, prices)


@pytest.mark.parametrize("api, stream, script", [
    (CHAT, False, "input=5000;cached=3001;output=10"),
    (CHAT, True, "input=5000;cached=3001;cache_write=1000;output=10"),
    (RESPONSES, False, "input=5000;cached=3001;output=10"),
    (RESPONSES, True, "input=5000;cached=4999;output=10"),
    (MESSAGES, False, "input=5000;cached=1001;cache_write=2003;cache_write_1h=1005;output=10"),
    (MESSAGES, True, "input=5000;cached=1001;cache_write=2003;cache_write_1h=1005;output=10"),
    (GENERATE, False, "input=5000;cached=3001;output=10"),
    (GENERATE, True, "input=5000;cached=3001;output=10"),
], ids=way_name)
def test_cached_tokens_have_their_own_price(lab, key, api, stream, script):
    answer = lab.call(api, script, key, stream=stream, text="x" * 6000,
                      **({"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}
                         if api is MESSAGES else {})).ok()

    usage = check_metered(lab, answer, key, stream)["usage"]

    asked, = lab.provider.asked(answer)
    assert (usage["cache_read_tokens"], usage["cache_write_5m_tokens"], usage["cache_write_1h_tokens"]) == (
        asked["usage"]["cached"], asked["usage"]["cache_write"], asked["usage"]["cache_write_1h"])


@pytest.mark.parametrize("api, stream", [way for way in WAYS if way[0] in (CHAT, RESPONSES, GENERATE)], ids=way_name)
def test_reasoning_has_its_own_price(lab, key, api, stream):
    model = fresh("lab/reasoner")
    prices = {**PRICES, "reasoning_per_mtok": "21.000001"}
    lab.price(model, prices)

    answer = lab.call(api, "output=50;reasoning=31", key, stream=stream, model=model).ok()

    assert check_metered(lab, answer, key, stream, prices)["usage"]["reasoning_tokens"] == 31


def test_a_long_prompt_reprices_the_whole_call(lab, key):
    model = fresh("lab/long")
    long = {name: str(2 * float(price)) for name, price in PRICES.items()}
    lab.price(model, tiers=[{"from_prompt_tokens": 200_000, **long}])
    for tokens, prices in ((199_999, PRICES), (200_000, long), (250_000, long)):
        answer = lab.call(MESSAGES, f"input={tokens};output=10", key, model=model, text="x" * 250_000).ok()
        check_metered(lab, answer, key, False, prices)


def test_fees_by_the_call_and_by_the_search_are_added(lab, key):
    model = fresh("lab/fees")
    prices = {**PRICES, "per_call": "0.003", "per_paid_tool": "0.01"}
    lab.price(model, prices, input_max=100_000)

    answer = lab.call(MESSAGES, "searches=2;output=10", key, model=model,
                      tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]).ok()

    check_metered(lab, answer, key, False, prices)


def test_several_choices_are_all_paid_for(lab, key):
    answer = lab.call(CHAT, "output=20", key, n=3).ok()
    assert lab.provider.asked(answer)[0]["usage"]["output"] == 60
    check_metered(lab, answer, key, False)


def test_an_array_of_gemini_is_metered_like_its_events(lab, key):
    method, target, body, headers = lab.request(GENERATE, "output=23", key, stream=True)
    answer = lab.ask(method, target.replace("?alt=sse", ""), body, headers).ok()
    assert len(answer.json()) == 4
    check_metered(lab, answer, key, True)


def test_catalog_prices_hold_for_models_that_nobody_has_priced(lab, key):
    """The numbers are the provider's published ones, not the server's."""
    for provider, model, dialect, api, prices in [
        ("openai", "gpt-4o-mini", "openai", CHAT, {"input_per_mtok": "0.15", "output_per_mtok": "0.6"}),
        ("anthropic", "claude-haiku-4-5", "anthropic", MESSAGES, {"input_per_mtok": "1", "output_per_mtok": "5"}),
        ("google", "gemini-2.5-flash-lite", "gemini", GENERATE, {"input_per_mtok": "0.1", "output_per_mtok": "0.4"}),
    ]:
        lab.upstream(lab.provider, dialect, models=[model], provider=provider)
        answer = lab.call(api, "input=777;output=33", key, model=model).ok()
        assert model in check_metered(lab, answer, key, False, prices)["price"]


def test_a_price_that_a_person_sets_is_used_at_once(lab, key):
    model = fresh("lab/dear")
    for price in ("1.00", "2.00", "3.00"):
        lab.price(model, {"input_per_mtok": price, "output_per_mtok": "100"})
        answer = lab.call(CHAT, "input=1000000;output=1", key, model=model, text="x" * 1_000_000).ok()
        assert nanos(lab.row(answer)["cost"]) == nanos(price) + nanos("0.0001")


# ---- how one gets in ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/openai", "/anthropic", "/gemini"])
def test_prefixes_lead_to_their_dialects(lab, key, prefix):
    of_dialect = {"/openai": [CHAT, RESPONSES], "/anthropic": [MESSAGES], "/gemini": [GENERATE]}
    for api in of_dialect.get(prefix, SPEAKING):
        answer = lab.call(api, key=key, prefix=prefix).ok()
        asked, = lab.provider.asked(answer)
        assert asked["path"] == api.target("lab/small", False)
    if prefix == "/openai":  # With or without its version.
        method, target, body, headers = lab.request(CHAT, key=key)
        assert lab.ask(method, "/openai" + target.removeprefix("/v1"), body, headers).ok()


@every_api
def test_a_run_is_named_by_the_path(lab, api):
    agent = lab.admin.agent()
    run = lab.admin.run(agent)
    key = lab.agent_key(agent=agent)
    for prefix in (f"/s/{run['id']}", f"/s/{run['id']}/{api.dialect}"):
        answer = lab.call(api, key=key, prefix=prefix).ok()
        assert lab.row(answer)["run"] == run["id"]

    assert "run" in lab.call(api, key=key, prefix="/s/run_nobody").refused(api, 401)
    assert "run" in lab.call(api, key=lab.agent_key(), prefix=f"/s/{run['id']}").refused(api, 400)
    lab.admin.finish(run).ok()
    assert "not live" in lab.call(api, key=key, prefix=f"/s/{run['id']}").refused(api, 401)


@every_api
def test_keys_are_found_wherever_clients_put_them_and_stay_here(lab, key, api):
    ways = [{"Authorization": f"Bearer {key.key}"}, {"authorization": f"bearer {key.key}"}, {"x-api-key": key.key},
            {"x-goog-api-key": key.key}, {}]
    for headers in ways:
        method, target, body, found = lab.request(api, headers=headers)
        if not headers:
            target += ("&" if "?" in target else "?") + f"key={key.key}&more=1"
        answer = lab.ask(method, target, body, found).ok()
        asked, = lab.provider.asked(answer)
        own = {"openai": ("authorization", f"Bearer {UPSTREAM_KEY}"), "anthropic": ("x-api-key", UPSTREAM_KEY),
               "gemini": ("x-goog-api-key", UPSTREAM_KEY)}[api.dialect]
        assert asked["headers"][own[0]] == own[1]
        assert key.key not in json.dumps(asked) and "lab=" not in json.dumps(asked["headers"])
        assert UPSTREAM_KEY not in repr(answer)
        if not headers:
            assert asked["query"] == "more=1"


@every_api
def test_who_may_not_come_in_is_told_so_in_the_dialect(lab, api):
    reader = lab.admin.make_key("read")
    revoked = lab.agent_key()
    lab.admin.delete(f"/v1/keys/{revoked.key_id}").ok()
    for key, why in (("nonsense", "no key"), (None, "no key"), (revoked, "no key"), (reader, "only read")):
        answer = lab.call(api, key=key)
        assert why in answer.refused(api, 401)
        assert lab.provider.asked(answer) == []


@every_api
def test_a_budget_that_is_used_up_refuses_and_says_what_to_do(lab, api):
    key = lab.agent_key("0.0001")

    answer = lab.call(api, key=key, stream=True)

    sentence = answer.refused(api, 402)
    error = answer.json()["error"]
    assert {"openai": error.get("type") == "insufficient_quota" and error.get("code") == "budget_exceeded",
            "anthropic": error.get("type") == "billing_error",
            "gemini": error.get("status") == "RESOURCE_EXHAUSTED"}[api.dialect], answer
    for part in (f"'{key.budget}'", "$0.0001", "spent", "held", "may need $"):
        assert part in sentence
    assert lab.provider.asked(answer) == []
    row = lab.row(answer)
    assert (row["status"], row["refusal"], row["attempts"], row["cost"]) == (402, "budget_exceeded", 0, "0.00")
    if api.dialect == "anthropic":
        assert answer.json()["request_id"] == answer.id
    told = lab.budget(key)
    assert (told["settled"], told["open_holds"]) == ("0.00", 0)
    assert "A person can raise it." in sentence
    lab.follow(lab.told_operators(api, key, 402, stream=True), AMOUNT="1.00")
    lab.call(api, key=key, stream=True).ok()


@pytest.mark.parametrize("method, target, dialect", [
    ("POST", "/v1/completions", CHAT), ("POST", "/v1/images/generations", CHAT), ("POST", "/v1/audio/speech", CHAT),
    ("POST", "/v1/batches", CHAT), ("POST", "/v1/files", CHAT), ("POST", "/v1/fine_tuning/jobs", CHAT),
    ("GET", "/v1/responses/resp_1", CHAT), ("POST", "/openai/v1/anything", CHAT), ("POST", "/v1/messages/batches", MESSAGES),
    ("POST", "/v1/complete", MESSAGES), ("POST", "/anthropic/v1/chat/completions", MESSAGES),
    ("POST", "/v1beta/models/lab/small:predict", GENERATE), ("POST", "/v1beta/models/lab/small:embedContent", GENERATE),
    ("POST", "/v1beta/models/..%2F..%2Fx:generateContent", GENERATE), ("POST", "/v1beta/files", GENERATE),
])
def test_what_cannot_be_metered_is_not_passed_on(lab, key, method, target, dialect):
    answer = lab.ask(method, target, {"model": "lab/small"}, {"Authorization": f"Bearer {key.key}"})
    assert answer.refused(dialect, 404)
    assert lab.provider.asked(answer) == []


@pytest.mark.parametrize("body", [{"background": True}, {"background": True, "stream": True}])
def test_answers_that_come_later_elsewhere_are_refused(lab, key, body):
    answer = lab.call(RESPONSES, key=key, **body)
    assert "background" in answer.refused(RESPONSES, 400)
    assert lab.provider.asked(answer) == []


def test_wrong_methods_and_upgrades_are_refused_in_the_dialect(lab, key):
    bearer = {"Authorization": f"Bearer {key.key}"}
    for api in SPEAKING:
        assert "POST" in lab.ask("GET", api.target("lab/small", False), None, bearer).refused(api, 405)
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "a"}
    assert "POST" in lab.ask("GET", "/v1/responses", None, bearer | upgrade).refused(RESPONSES, 426)


@pytest.mark.parametrize("body", ["", "nonsense", "[]", '{"model": "lab/small"} {}', '{"model": 1}', '{"messages": []}',
                                  '{"model":"a","model":"lab/small","messages":[]}', b'{"model":"lab/small\xff"}',
                                  '{"model":"lab/small","max_completion_tokens":-1}',
                                  '{"model":"lab/small","max_completion_tokens":5,"max_tokens":6}',
                                  '{"model":"lab/small","stream":"yes"}'])
def test_bodies_that_could_mean_two_things_are_refused(lab, key, body):
    answer = lab.call(CHAT, key=key, body=body)
    assert answer.refused(CHAT, 400)
    assert lab.provider.asked(answer) == []


def test_a_model_that_nobody_takes_is_refused(lab, key):
    for api in SPEAKING:
        sentence = lab.told_operators(api, key, 404, model="nobodys-model")
        assert "nobodys-model" in sentence and "interlock upstreams add" in sentence


# ---- what passes through -----------------------------------------------------------------------------------------


@every_api
def test_headers_and_unknown_members_arrive_as_they_were_sent(lab, key, api):
    """Blanks, order, escapes and numbers of the body too: what needs no change gets none."""
    sent = {"anthropic-version": "2023-06-01", "anthropic-beta": "a-2025-01-01,b-2025-02-02", "x-claude-code-session-id": "s1",
            "user-agent": "client/1.0 (test)", "openai-beta": "  a  b ", "x-stainless-retry-count": "0", "accept": "*/*"}
    body = json.dumps(api.body("lab/small", "caf\u00e9 \\u00e9", output_max=50, unknown={"deep": [1.0, 1e3, None]}), indent=3)
    body = body.replace("1000.0", "1E+3").replace("null", " null ")

    answer = lab.call(api, key=key, body=body, headers=sent).ok()

    asked, = lab.provider.asked(answer)
    assert asked["body"] == body
    for name, value in sent.items():
        assert asked["headers"][name] == value.strip(), name
    assert not [name for name in asked["headers"] if name.startswith("x-interlock")]
    assert asked["headers"]["accept-encoding"] == "identity"
    assert asked["headers"]["host"] == lab.provider.url.removeprefix("http://")


def test_headers_of_one_connection_end_here(lab, key):
    answer = lab.call(CHAT, key=key, headers={"Connection": "keep-alive, x-hop", "x-hop": "1"}).ok()
    assert "x-hop" not in lab.provider.asked(answer)[0]["headers"]


def test_a_query_goes_on_as_it_was_sent(lab, key):
    answer = lab.ask("POST", "/v1/messages?beta=true&x=%20y", MESSAGES.body("lab/small", "hi", output_max=5),
                     {"x-api-key": key.key}).ok()
    assert lab.provider.asked(answer)[0]["query"] == "beta=true&x=%20y"


@pytest.mark.parametrize("options, wanted", [({}, False), ({"stream_options": None}, False), ({"stream_options": {}}, False),
                                             ({"stream_options": {"include_usage": False}}, False),
                                             ({"stream_options": {"include_usage": True}}, True)])
def test_usage_is_asked_for_and_only_those_who_asked_get_to_see_it(lab, key, options, wanted):
    answer = lab.call(CHAT, "output=9", key, stream=True, **options).ok()

    asked, = lab.provider.asked(answer)
    assert json.loads(asked["body"])["stream_options"]["include_usage"] is True
    events = answer.events()
    assert events[-1] == "[DONE]"
    last = json.loads(events[-2])
    assert (last["choices"] == [] and last["usage"]["completion_tokens"] == 9) is wanted
    if not wanted:
        assert all(json.loads(event)["choices"] for event in events[:-1])
    check_metered(lab, answer, key, True)


@every_api
def test_count_tokens_and_models_are_free(lab, api):
    key = lab.agent_key("0.000001")  # A call would be refused.
    bearer = {"Authorization": f"Bearer {key.key}", "anthropic-version": "2023-06-01"}
    asks = {"openai": [("GET", "/openai/v1/models", None)],
            "anthropic": [("GET", "/anthropic/v1/models", None),
                          ("POST", "/v1/messages/count_tokens", MESSAGES.body("lab/small", "hello there"))],
            "gemini": [("GET", "/v1beta/models", None),
                       ("POST", "/v1beta/models/lab/small:countTokens", GENERATE.body("lab/small", "hello there"))]}
    for method, target, body in asks[api.dialect]:
        answer = lab.ask(method, target, body, bearer).ok()
        asked, = lab.provider.asked(answer)
        assert asked["usage"] is None and (asked["body"] == (json.dumps(body) if body else ""))
        if body:
            assert 3 in answer.json().values()
    assert lab.events(key) == [] and lab.budget(key)["settled"] == "0.00"


def test_the_providers_own_refusals_are_passed_on_and_cost_nothing(lab):
    key = lab.agent_key("1.00")
    for api in SPEAKING:
        answer = lab.call(api, "status=400", key)
        assert answer.status == 400 and "simulated" in answer.json()["error"]["message"]
        assert lab.row(answer)["cost"] == "0.00"
    assert lab.settled(key)["settled"] == "0.00"


# ---- the bound ---------------------------------------------------------------------------------------------------


@every_api
def test_a_limit_on_output_is_put_in_where_there_is_none(lab, key, api):
    if api is MESSAGES:  # There it must be stated.
        assert "max_tokens" in lab.call(api, key=key, output_max=None).refused(api, 400)
        return
    answer = lab.call(api, "output=10", key, output_max=None).ok()

    asked, = lab.provider.asked(answer)
    rest = json.loads(asked["body"])
    limit = rest.get("generationConfig", rest).pop(api.output_max)
    assert limit == 32_000 == int(answer.headers["x-interlock-max-output-tokens"])
    assert {name: value for name, value in rest.items() if value != {}} == api.body("lab/small", "hello")


def test_openai_itself_is_given_the_limit_by_its_newer_name(lab, key):
    model = fresh("gpt")
    lab.price(model, provider="openai")
    lab.upstream(lab.provider, "openai", models=[model], provider="openai")
    answer = lab.call(CHAT, "output=10", key, model=model, output_max=None).ok()
    body = json.loads(lab.provider.asked(answer)[0]["body"])
    assert (body["max_completion_tokens"], body.get("max_tokens")) == (32_000, None)


@every_api
def test_a_limit_that_the_budget_does_not_afford_is_lowered_and_told(lab, api):
    key = lab.agent_key("0.10")

    answer = lab.call(api, "output=10", key, output_max=64_000).ok()

    told = int(answer.headers["x-interlock-max-output-tokens"])
    asked, = lab.provider.asked(answer)
    assert 2048 <= told < 64_000 and api.limit_in(asked["body"]) == told
    bound = nanos(lab.row(answer)["bound"])
    assert bound <= nanos("0.10")
    # No token less than what was held affords, after the dearest input that this body can be.
    assert told * picos_per_token(PRICES["output_per_mtok"]) <= bound * 1000


@every_api
def test_below_the_floor_a_call_is_refused_rather_than_crippled(lab, api):
    floor = bill_of({"input": 1024 + 20, "output": 2048, "cached": 0, "cache_write": 0, "cache_write_1h": 0, "audio_in": 0,
                     "reasoning": 0, "audio_out": 0, "searches": 0})
    key = lab.agent_key(text_of(floor * NANO))

    answer = lab.call(api, key=key, output_max=64_000)

    assert "may need $" in answer.refused(api, 402)
    assert lab.provider.asked(answer) == []
    lab.call(api, "output=10", key, output_max=500).ok()  # Who asks for little gets it.


def test_a_limit_that_fits_is_left_alone(lab, key):
    for api in SPEAKING:
        answer = lab.call(api, key=key, output_max=77).ok()
        assert "x-interlock-max-output-tokens" not in answer.headers
        assert api.limit_in(lab.provider.asked(answer)[0]["body"]) == 77


def test_who_finds_the_budget_held_by_another_waits_for_it(lab):
    key = lab.agent_key("0.012")  # Enough for one of them.
    with lab.configured(share_percent=100):
        slow, _ = lab.send(*lab.request(CHAT, "chunk_delay_ms=200;output=5", key, stream=True, output_max=900))
        eventually(lambda: lab.budget(key)["open_holds"] == 1)
        begun = time.monotonic()
        answer = lab.call(CHAT, "output=5", key, output_max=900).ok()
        waited = time.monotonic() - begun
        slow.getresponse().read()
        slow.close()

    assert waited > 0.1, "it waited for the other"
    assert lab.row(answer)["attempts"] == 1


def test_who_has_left_while_it_waited_is_not_sent_on(lab):
    key = lab.agent_key("0.012")
    with lab.configured(share_percent=100):
        slow, _ = lab.send(*lab.request(CHAT, "delay_ms=1000;output=5", key, output_max=900))
        eventually(lambda: lab.budget(key)["open_holds"] == 1)
        waiting, number = lab.send(*lab.request(CHAT, "output=5", key, output_max=900))
        time.sleep(0.3)
        waiting.close()
        slow.getresponse().read()
        slow.close()
        row = lab.row_of(key, 2)
    assert lab.provider.asked(number) == [] and (row["cost"], row["attempts"]) == ("0.00", 0)


def test_room_for_many_is_given_to_many_at_once(lab):
    key = lab.agent_key("0.10")
    with lab.configured(share_percent=100):
        large, _ = lab.send(*lab.request(CHAT, "output=10;delay_ms=500", key, output_max=9800))
        eventually(lambda: lab.budget(key)["open_holds"] == 1)
        answers = together(20, lambda _: lab.call(CHAT, "output=1;delay_ms=1000", key, output_max=10).ok())
        large.getresponse().read()
        large.close()
    took = sorted(lab.row(answer)["duration_us"] for answer in answers)
    assert took[-1] - took[0] < 1_000_000, took


def test_a_sure_no_is_told_to_all_who_wait(lab):
    key = lab.agent_key("0.01")
    answers = together(40, lambda _: lab.call(CHAT, "output=395;delay_ms=300;input=1000", key, output_max=400))
    took = sorted(lab.row(answer)["duration_us"] for answer in answers)
    assert took[-1] < 4_000_000, took  # They would wait for 5 s: wait_s.


def test_waiting_has_an_end(lab):
    key = lab.agent_key("0.012")
    with lab.configured(share_percent=100, wait_s=1):
        slow, _ = lab.send(*lab.request(CHAT, "delay_ms=1800;output=5", key, output_max=900))
        eventually(lambda: lab.budget(key)["open_holds"] == 1)
        begun = time.monotonic()
        answer = lab.call(CHAT, "output=5", key, output_max=900)
        assert time.monotonic() - begun > 0.9
        assert "is held" in answer.refused(CHAT, 402)
        slow.getresponse().read()
        slow.close()


@every_api
def test_the_second_call_of_a_conversation_holds_much_less(lab, key, api):
    """What it repeats is known by what the provider said it was, and no longer by its bytes."""
    long = "word " * 10_000 + "[[sim input=9000 output=10]]"
    same = {"headers": {"x-lab": fresh("same")}}  # It goes on, and what goes on may change a count.
    first = lab.call(api, key=key, text=long + api.name, **same).ok()
    body = api.body("lab/small", long + api.name, output_max=100)
    go_on = "go on [[sim input=9010 output=10]]"
    said = {"role": "model", "parts": [{"text": "fine"}]} if api is GENERATE else {"role": "assistant", "content": "fine"}
    more = {"role": "user", "parts": [{"text": go_on}]} if api is GENERATE else {"role": "user", "content": go_on}
    name = {GENERATE: "contents", RESPONSES: "input"}.get(api, "messages")
    if api is RESPONSES:
        body["input"] = [{"role": "user", "content": long + api.name}]
        first = lab.call(api, key=key, body=body, **same).ok()
    body[name] = body[name] + [said, more]

    second = lab.call(api, key=key, body=body, **same).ok()

    bounds = [nanos(lab.row(answer)["bound"]) for answer in (first, second)]
    assert bounds[1] < bounds[0] / 3
    assert bounds[1] >= nanos(lab.row(second)["cost"]) > 0
    other = lab.call(api, key=key, body=body, model="lab/other", **same) if api is GENERATE else lab.call(
        api, key=key, body={**body, "model": "lab/other"}, **same)
    assert nanos(lab.row(other.ok())["bound"]) > bounds[0], "another model counts otherwise"


def test_images_are_not_counted_by_their_bytes(lab, key):
    data = base64.b64encode(b"x" * 300_000).decode()
    answer = lab.call(MESSAGES, "output=10", key, body={
        "model": "lab/small", "max_tokens": 100, "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}]}]}).ok()
    assert nanos(lab.row(answer)["bound"]) < 20_000 * picos_per_token("2")


def test_input_that_is_elsewhere_is_bounded_by_what_the_model_takes(lab, key):
    model = fresh("lab/limited")
    lab.price(model, input_max=50_000)
    answer = lab.call(RESPONSES, "output=10", key, model=model, previous_response_id="resp_1").ok()
    assert nanos(lab.row(answer)["bound"]) >= 50_000 * picos_per_token(PRICES["input_per_mtok"]) // 1000


# ---- models without a price --------------------------------------------------------------------------------------


@pytest.fixture
def unpriced(lab):
    """A model that nobody has priced, on an upstream of its own."""
    model = fresh("unknown")
    lab.upstream(lab.provider, "openai", models=[model], provider="nobody")
    return model


def test_a_model_without_a_price_is_refused_under_a_hard_budget(lab, key, unpriced):
    answer = lab.call(CHAT, key=key, model=unpriced)
    assert "a person can set one" in answer.refused(CHAT, 404)
    assert answer.json()["error"]["code"] == "unknown_model" and lab.provider.asked(answer) == []
    assert lab.row(answer)["refusal"] == "unknown_model"
    told, = [each for each in lab.admin.get("/v1/prices/unpriced").ok()["items"] if each["model"] == unpriced]
    assert (told["provider"], told["calls"], told["refused"]) == ("nobody", 1, 1)

    lab.follow(lab.told_operators(CHAT, key, 404, model=unpriced), DOLLARS="3")
    prices = {"input_per_mtok": "3", "output_per_mtok": "3"}
    check_metered(lab, lab.call(CHAT, key=key, model=unpriced).ok(), key, False, prices)


def test_a_model_without_a_price_is_refused_under_a_runs_ceiling(lab, unpriced):
    run = lab.admin.run(lab.admin.agent(), budget="0.01")
    answer = lab.call(CHAT, "output=5", lab.admin.make_key("agent", run=run["id"]), model=unpriced)
    assert "a person can set one" in answer.refused(CHAT, 404) and lab.provider.asked(answer) == []
    lab.admin.finish(run).ok()


def test_a_model_without_a_price_can_be_counted_without_cost(lab, unpriced):
    key = lab.agent_key()  # No budget.
    with lab.configured(unknown_model="unpriced"):
        row = lab.row(lab.call(CHAT, "input=50;output=10", key, model=unpriced).ok())
    assert (row["cost"], row["unpriced"], row["settled"]["unpriced"]) == ("0.00", True, True)
    assert (row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == (50, 10)


def test_a_model_without_a_price_can_cost_what_another_does(lab, key, unpriced):
    with lab.configured(unknown_model="assume", assume_price="lab/lab/assumed"):
        check_metered(lab, lab.call(CHAT, "input=50;output=10", key, model=unpriced).ok(), key, False)
