"""Providers that fail: cut streams, silence, refusals, nobody there. And clients that leave.

What was dispatched is paid for, exactly or by its bound; what was not costs nothing.
"""

import contextlib
import http.server
import json
import os
import subprocess
import threading
import time

import pytest

from gateway_lab import CHAT, SPEAKING, WAYS, check_metered, nanos, read_until, way_name
from interlock_server import eventually, fresh, reserve_port, together

every_way = pytest.mark.parametrize("api, stream", WAYS, ids=way_name)
every_api = pytest.mark.parametrize("api", SPEAKING, ids=str)


@every_way
def test_an_answer_without_usage_is_charged_at_what_it_can_be(lab, api, stream):
    key = lab.agent_key("1.00")

    answer = lab.call(api, "no_usage=1;output=20", key, stream=stream).ok()

    row = lab.row(answer)
    assert row["estimated"] and row["settled"]["estimated"]
    assert lab.bill(answer) <= nanos(row["cost"]) <= nanos(row["bound"])
    assert nanos(lab.settled(key)["settled"]) == nanos(row["cost"])


LAST_WORDS = {"chat": lambda events: "upstream_failed" in events[-2] and events[-1] == "[DONE]",
              "responses": lambda events: json.loads(events[-1])["type"] == "response.failed",
              "messages": lambda events: json.loads(events[-1])["type"] == "error",
              "generate": lambda events: json.loads(events[-1])["error"]["status"] == "UNAVAILABLE"}


@every_api
@pytest.mark.parametrize("cut", [0, 2])
def test_a_stream_that_is_cut_ends_cleanly_and_is_charged(lab, api, cut):
    """With all that the model may have thought and not said."""
    key = lab.agent_key("1.00")

    answer = lab.call(api, f"cut_after={cut};output=200;reasoning=190", key, stream=True, output_max=400)

    row = lab.row_of(key)
    assert row["estimated"] and lab.bill(answer) <= nanos(row["cost"]) <= nanos(row["bound"])
    if answer.status == 200:
        assert LAST_WORDS[api.name](answer.events()), answer
        assert "broke off" in row["detail"]
    else:
        assert cut == 0 and answer.refused(api, 502)
    assert lab.settled(key)["open_holds"] == 0


def test_an_answer_in_one_piece_that_is_cut_is_charged_and_not_asked_for_again(lab):
    key = lab.agent_key("1.00")
    answer = lab.call(CHAT, "cut_after=20;output=20", key)
    assert "did not answer" in answer.refused(CHAT, 502)
    row = lab.row(answer)
    assert row["estimated"] and row["attempts"] == 1 == len(lab.provider.asked(answer))
    assert row["cost"] == row["bound"] and nanos(row["cost"]) >= lab.bill(answer)


@every_api
def test_a_client_that_leaves_in_the_middle_pays_exactly(lab, api):
    key = lab.agent_key("1.00")
    connection, number = lab.send(*lab.request(api, "chunks=8;chunk_delay_ms=60;output=64", key, stream=True))
    response = connection.getresponse()
    read_until(response, b"data: ")
    response.close()
    connection.close()

    row = lab.row_of(key)

    assert (nanos(row["cost"]), row["estimated"]) == (lab.bill(number), False)
    assert row["duration_us"] >= 400_000, "the rest was read"
    assert nanos(lab.settled(key)["settled"]) == lab.bill(number)


@pytest.mark.parametrize("stream", [False, True], ids=way_name)
def test_a_client_that_leaves_before_the_first_byte_pays_exactly(lab, stream):
    key = lab.agent_key("1.00")
    connection, number = lab.send(*lab.request(CHAT, "delay_ms=400;output=64", key, stream=stream))
    eventually(lambda: lab.provider.asked(number))
    connection.close()

    row = lab.row_of(key)

    assert (nanos(row["cost"]), row["estimated"]) == (lab.bill(number), False)
    assert lab.settled(key)["open_holds"] == 0


def test_a_drain_that_takes_too_long_is_given_up_and_charged(lab):
    key = lab.agent_key("1.00")
    with lab.configured(drain_s=1):
        connection, number = lab.send(*lab.request(CHAT, "chunks=40;chunk_delay_ms=100;output=64", key, stream=True))
        response = connection.getresponse()
        read_until(response, b"data: ")
        response.close()
        connection.close()
        row = lab.row_of(key)
    assert row["estimated"] and nanos(row["cost"]) > 0 and row["detail"] == "the client has left"
    assert row["duration_us"] < 4_000_000, "less than the whole stream takes"


@pytest.mark.parametrize("stream", [False, True], ids=way_name)
def test_a_provider_that_is_too_slow_is_paid_the_bound(lab, stream):
    model, upstream = lab.own_model(lab.provider, first_byte_timeout_ms=300)
    key = lab.agent_key("1.00")

    answer = lab.call(CHAT, "delay_ms=2000;output=10", key, stream=stream, model=model)

    assert upstream in answer.refused(CHAT, 504)
    row = lab.row(answer)
    assert (row["attempts"], row["estimated"], row["cost"]) == (1, True, row["bound"])
    assert nanos(row["cost"]) >= lab.bill(answer) > 0


def test_a_stream_that_falls_silent_ends_cleanly(lab):
    model, _ = lab.own_model(lab.provider, silence_timeout_ms=300)
    key = lab.agent_key("1.00")
    answer = lab.call(CHAT, "chunk_delay_ms=1500;chunks=2;output=10", key, stream=True, model=model).ok()
    assert LAST_WORDS["chat"](answer.events())
    assert lab.row(answer)["estimated"]


@pytest.fixture
def nowhere():
    """An address where no server listens."""
    with reserve_port() as reserved:
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}"


def test_a_provider_that_is_not_there_costs_nothing(lab, nowhere):
    model, upstream = lab.own_model(nowhere, retries=2, backoff_ms=10)
    key = lab.agent_key("1.00")
    answer = lab.call(CHAT, key=key, model=model)
    assert upstream in answer.refused(CHAT, 502)
    row = lab.row(answer)
    assert (row["attempts"], row["cost"], row["refusal"]) == (3, "0.00", "upstream_failed")
    assert lab.settled(key)["settled"] == "0.00" and lab.events(key) == []


def test_an_upstream_without_its_key_is_not_tried_again(lab):
    model, _ = lab.own_model(lab.provider, key={"env": "NOBODY_HAS_SET_THIS"})
    answer = lab.call(CHAT, key=lab.agent_key("1.00"), model=model)
    assert "NOBODY_HAS_SET_THIS" in answer.refused(CHAT, 502) and lab.row(answer)["attempts"] == 1


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_failures_before_the_first_byte_are_tried_again_with_growing_pauses(lab, status):
    model, _ = lab.own_model(lab.provider, retries=3, backoff_ms=50)
    key = lab.agent_key("1.00")
    begun = time.monotonic()

    answer = lab.call(CHAT, f"status={status};fail_times=3;fail_key={fresh('fail')};output=10", key, stream=True,
                      model=model).ok()

    assert time.monotonic() - begun >= (50 + 100 + 200) / 1000
    assert [line["status"] for line in lab.provider.asked(answer)] == [status] * 3 + [200]
    assert answer.headers["x-interlock-attempts"] == "4"
    row = check_metered(lab, answer, key, True)
    assert row["attempts"] == 4 and len(lab.events(key)) == 1


@pytest.mark.parametrize("status, told", [(400, 400), (401, 502), (403, 502), (404, 404), (422, 422)])
def test_what_would_fail_again_is_not_tried_again(lab, status, told):
    """A provider that does not take our key says nothing about the client's."""
    model, _ = lab.own_model(lab.provider)
    key = lab.agent_key("1.00")
    answer = lab.call(CHAT, f"status={status}", key, model=model)
    assert answer.status == told and len(lab.provider.asked(answer)) == 1
    assert lab.settled(key)["settled"] == "0.00"


def test_a_provider_that_asks_for_patience_gets_it(lab):
    model, _ = lab.own_model(lab.provider, retries=1, backoff_ms=1)
    begun = time.monotonic()
    answer = lab.call(CHAT, f"status=429;retry_after=1;fail_times=1;fail_key={fresh('fail')}", lab.agent_key(), model=model)
    assert answer.ok() and time.monotonic() - begun >= 1
    begun = time.monotonic()
    answer = lab.call(CHAT, "status=429;retry_after=60", lab.agent_key(), model=model)
    assert (answer.status, answer.headers["retry-after"]) == (429, "60") and time.monotonic() - begun < 30


def test_the_second_upstream_is_asked_when_the_first_has_failed(lab, nowhere):
    key = lab.agent_key("1.00")
    other = lab.another_provider()
    model, first = lab.own_model(nowhere, priority=1, retries=0)
    second = lab.upstream(other, "openai", models=[model], priority=2)

    answer = lab.call(CHAT, "output=10", key, model=model).ok()

    assert answer.headers["x-interlock-upstream"] == second != first
    row = lab.row(answer)
    assert (row["upstream"], row["attempts"], nanos(row["cost"])) == (second, 2, lab.bill(answer, provider=other))
    assert lab.provider.asked(answer) == []


@pytest.mark.parametrize("stream", [False, True], ids=way_name)
def test_both_are_paid_when_the_second_answers_for_one_that_was_too_slow(lab, stream):
    other = lab.another_provider()
    model, _ = lab.own_model(lab.provider, priority=1, first_byte_timeout_ms=200)
    second = lab.upstream(other, "openai", models=[model], priority=2)
    key = lab.agent_key("1.00")

    answer = lab.call(CHAT, "delay_ms=600;output=10", key, model=model, stream=stream).ok()

    row = lab.row(answer)
    assert (row["attempts"], row["upstream"]) == (2, second)
    events = {event["estimated"]: nanos(event["cost"]) for event in lab.events(key)}
    assert len(events) == 2 and events[False] == lab.bill(answer, provider=other)
    assert events[True] >= lab.bill(answer) > 0
    assert sum(events.values()) == nanos(row["cost"]) == nanos(lab.settled(key)["settled"])


def test_an_upstream_that_keeps_failing_is_left_alone_for_a_while(lab, nowhere):
    model, _ = lab.own_model(nowhere, priority=1, retries=0, cooldown_after=2, cooldown_s=1)
    second = lab.upstream(lab.provider, "openai", models=[model], priority=2)
    key = lab.agent_key("1.00")

    def attempts():
        answer = lab.call(CHAT, "output=1", key, model=model).ok()
        assert answer.headers["x-interlock-upstream"] == second
        return lab.row(answer)["attempts"]

    assert [attempts() for _ in range(4)] == [2, 2, 1, 1]
    time.sleep(1)
    assert attempts() == 2


def test_upstreams_of_one_rank_share_by_weight(lab):
    providers = [lab.another_provider(), lab.another_provider()]
    model, light = lab.own_model(providers[0], weight=1)
    lab.upstream(providers[1], "openai", models=[model], weight=3)
    key = lab.agent_key("100.00")

    together(8, lambda _: [lab.call(CHAT, "output=1", key, model=model).ok() for _ in range(25)])

    shares = [len(provider.books()) for provider in providers]
    assert sum(shares) == 200
    assert 25 <= shares[0] <= 75, "about a quarter"  # Five deviations wide.


class Kept(http.server.BaseHTTPRequestHandler):
    """Answers as a provider does, and keeps its connections open."""
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections += 1

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        answer = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
                             "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(handler):
    """A provider of our own, for what the simulated one does not do."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads, server.connections, server.asked = True, 0, []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_connections_to_a_provider_are_kept(lab, key):
    with served(Kept) as server:
        model, _ = lab.own_model(f"http://127.0.0.1:{server.server_port}")
        for _ in range(30):
            lab.call(CHAT, key=key, model=model).ok()
    assert server.connections <= os.cpu_count() + 2, "each of the server's threads keeps its own"


def test_a_provider_that_does_not_stream_is_metered_all_the_same(lab):
    with served(Kept) as server:
        model, _ = lab.own_model(f"http://127.0.0.1:{server.server_port}")
        answer = lab.call(CHAT, key=lab.agent_key("1.00"), model=model, stream=True).ok()
    assert answer.json()["usage"]["total_tokens"] == 10
    row = lab.row(answer)
    assert not row["estimated"] and (row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == (5, 5)


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """Sends everybody to another place."""

    def do_POST(self):
        self.server.asked.append(self.headers)
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(307)
        self.send_header("Location", self.server.location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_redirects_are_not_followed(lab):
    key = lab.agent_key("1.00")
    with served(Elsewhere) as server:
        server.location = lab.provider.url + CHAT.path
        model, _ = lab.own_model(f"http://127.0.0.1:{server.server_port}", retries=0)
        answer = lab.call(CHAT, key=key, model=model)
    assert "redirect" in answer.refused(CHAT, 502)
    assert len(server.asked) == 1 and lab.provider.asked(answer) == []
    assert lab.settled(key)["settled"] == "0.00"


def test_a_certificate_that_nobody_vouches_for_is_refused(lab, tmp_path):
    cert, secret = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", secret, "-out", cert], check=True, capture_output=True)
    provider = lab.another_provider("--tls-cert", cert, "--tls-key", secret)
    key = lab.agent_key("1.00")

    model, _ = lab.own_model(provider, retries=0)
    answer = lab.call(CHAT, key=key, model=model)
    assert answer.refused(CHAT, 502)
    assert provider.books() == [] and lab.settled(key)["settled"] == "0.00"

    model, _ = lab.own_model(provider, ca_file=str(cert))
    for stream in (False, True):
        answer = lab.call(CHAT, "output=10", key, model=model, stream=stream).ok()
        assert nanos(lab.row(answer)["cost"]) == lab.bill(answer, provider=provider) > 0


def test_a_provider_that_breaks_its_word_is_recorded_and_freezes_the_budget(lab):
    key = lab.agent_key("1.00")

    answer = lab.call(CHAT, "exceed=50000", key, output_max=100).ok()

    row = lab.row(answer)
    assert nanos(row["cost"]) == lab.bill(answer) > nanos(row["bound"])
    assert nanos(row["settled"]["overage"]) == lab.bill(answer) - nanos(row["bound"])
    told = lab.budget(key)
    assert told["frozen"] and nanos(told["settled"]) == lab.bill(answer)
    refused = lab.call(CHAT, key=key)
    assert "A person has to look." in refused.refused(CHAT, 402) and lab.provider.asked(refused) == []
    assert f"interlock budgets unfreeze {key.budget}" in lab.told_operators(CHAT, key, 402)
    lab.admin.post(f"/v1/budgets/{key.budget}/unfreeze").ok()
    lab.call(CHAT, key=key).ok()
