"""The simulated provider as a process: its address, its key, its books, the ways it fails, and how it ends."""

import contextlib
import http.client
import json
import signal
import ssl
import subprocess
import time

import pytest

CHAT = "/v1/chat/completions"


class Upstream:
    """A running `interlock simulate-upstream`."""

    def __init__(self, binary, *flags, context=None):
        self.process = subprocess.Popen([binary, "simulate-upstream", *map(str, flags)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.context = context
        self.line = self.process.stdout.readline()
        self.port = int(self.line.rsplit(":", 1)[1])

    def connection(self):
        if self.context:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=self.context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def ask(self, path, body=None, script=None, **headers):
        """(status, headers, body as text)"""
        if script:
            headers["x-sim"] = script
        with contextlib.closing(self.connection()) as connection:
            connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body),
                               {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


@pytest.fixture
def started(binary):
    """Starts simulated providers; whatever still runs in the end is ended."""
    with contextlib.ExitStack() as stack:
        def start(*flags, **options):
            upstream = Upstream(binary, *flags, **options)
            stack.callback(upstream.process.communicate, timeout=20)
            stack.callback(upstream.process.kill)
            return upstream

        yield start


def chat(text="hello", **more):
    return {"model": "sim/small", "messages": [{"role": "user", "content": text}], **more}


def events(text):
    return [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]


def books(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_says_its_address_in_one_line_and_ends_in_order(started, number):
    upstream = started()

    assert upstream.line == f"simulated upstream on http://127.0.0.1:{upstream.port}\n"
    assert upstream.ask("/")[0] == 200
    assert upstream.end(number) == (0, "")


def test_every_language_is_spoken(started):
    upstream = started()
    message = {**chat(), "max_tokens": 50}
    contents = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}

    for path, body, tokens in [
        (CHAT, chat(), ("usage", "completion_tokens")),
        ("/v1/responses", {"model": "m", "input": "hello"}, ("usage", "output_tokens")),
        ("/v1/messages", message, ("usage", "output_tokens")),
        ("/v1beta/models/sim/small:generateContent", contents, ("usageMetadata", "candidatesTokenCount")),
    ]:
        status, headers, text = upstream.ask(path, body)
        assert (status, headers["content-type"]) == (200, "application/json"), text
        assert json.loads(text)[tokens[0]][tokens[1]] == 16
    for path, body, last in [
        (CHAT, chat(stream=True), "[DONE]"),
        ("/v1/responses", {"model": "m", "input": "hello", "stream": True}, '"type":"response.completed"'),
        ("/v1/messages", {**message, "stream": True}, '"type":"message_stop"'),
        ("/v1beta/models/sim/small:streamGenerateContent?alt=sse", contents, '"finishReason":"STOP"'),
    ]:
        status, headers, text = upstream.ask(path, body)
        assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8"), text
        assert last in events(text)[-1]
    assert len(json.loads(upstream.ask("/v1beta/models/m:streamGenerateContent", contents)[2])) == 4


def test_a_stream_comes_piece_by_piece(started):
    upstream = started("--chunks", 5, "--chunk-delay-ms", 150)
    with contextlib.closing(upstream.connection()) as connection:
        begun = time.monotonic()
        connection.request("POST", CHAT, json.dumps(chat(stream=True)))
        answer = connection.getresponse()
        assert b'"role":"assistant"' in answer.readline()
        first = time.monotonic() - begun
        rest = answer.read()
        took = time.monotonic() - begun

    assert rest.endswith(b"data: [DONE]\n\n")
    # The pauses alone take 0.75 s. On a busy machine the first piece may be read late, but not as late as the last.
    assert first + 0.3 <= took and 0.15 * 5 <= took


def test_a_cut_stream_ends_without_its_end_and_without_a_complaint(started):
    upstream = started()

    for body, script in [(chat(stream=True), "cut_after=1"), (chat(), "cut_after=20")]:
        with pytest.raises(http.client.IncompleteRead) as cut:
            upstream.ask(CHAT, body, script)
        assert cut.value.partial
    assert upstream.end() == (0, "")


def test_the_books_say_what_was_asked_and_billed(started, tmp_path):
    log = tmp_path / "books.jsonl"
    upstream = started("--log", log)

    upstream.ask(CHAT, chat("hello [[sim input=100 cached=30 output=7]]"), Authorization="Bearer mine")
    upstream.ask(CHAT, chat(), "status=429;retry_after=3")
    upstream.ask("/v1/models")

    paid, failed, free = books(log)
    assert paid["headers"]["authorization"] == "Bearer mine"
    assert json.loads(paid["body"])["model"] == "sim/small"
    assert paid["usage"] == {"input": 100, "cached": 30, "cache_write": 0, "cache_write_1h": 0, "audio_in": 0,
                             "output": 7, "reasoning": 0, "audio_out": 0, "searches": 0}
    assert (failed["status"], failed["usage"]) == (429, None)
    assert (free["path"], free["usage"]) == ("/v1/models", None)


def test_the_key_is_asked_for(started):
    upstream = started("--key", "secret")

    assert upstream.ask(CHAT, chat())[0] == 401
    assert upstream.ask(CHAT, chat(), Authorization="Bearer secret")[0] == 200
    assert upstream.ask(CHAT, chat(), x_api_key="secret")[0] == 200
    assert upstream.ask(CHAT + "?key=secret", chat())[0] == 200


def test_a_request_that_hangs_does_not_keep_the_process(started):
    upstream = started()
    with contextlib.closing(upstream.connection()) as connection:
        connection.request("POST", CHAT, json.dumps(chat("[[sim hang=1]]")))
        assert upstream.ask(CHAT, chat())[0] == 200
        begun = time.monotonic()

        code, _ = upstream.end()

        assert code == 0
        assert time.monotonic() - begun < 10
        assert connection.getresponse().status == 504


def test_failing_requests_succeed_after_their_time(started):
    upstream = started()

    answers = [upstream.ask(CHAT, chat("[[sim status=500 fail_times=2 fail_key=x]]"))[0] for _ in range(4)]

    assert answers == [500, 500, 200, 200]


def test_tls(started, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True)
    upstream = started("--tls-cert", cert, "--tls-key", key, context=ssl.create_default_context(cafile=cert))

    assert upstream.line.startswith("simulated upstream on https://127.0.0.1:")
    assert upstream.ask(CHAT, chat())[0] == 200
    assert events(upstream.ask(CHAT, chat(stream=True))[2])[-1] == "[DONE]"


@pytest.mark.parametrize("flags, code, why", [
    (("--listen", "nowhere"), 2, "is not an address and port such as"),
    (("--tls-cert", "cert.pem"), 2, "--tls-cert and --tls-key must be given together"),
    (("--log", "/nowhere/books"), 1, "/nowhere/books: No such file or directory"),
    (("--chunks", "0"), 2, "--chunks"),
])
def test_what_cannot_be_meant_is_refused(interlock, flags, code, why):
    done = interlock("simulate-upstream", *flags)

    assert (done.returncode, done.stdout) == (code, "")
    assert why in done.stderr
