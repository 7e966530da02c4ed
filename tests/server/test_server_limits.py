"""Keys, limits and hostile requests."""

import hashlib
import json
import logging
import socket
from contextlib import suppress

import anyio
import openai
import pytest
from live_server import QUESTION, in_front_of, serving, until
from patience import patience

from stretto import AsyncStretto, SettingsError
from stretto.backends.tenants import UNKNOWN, asking
from stretto.server import ServerOptions
from stretto.server.limits.keys import Keyring
from stretto.testing import ScriptedBackend
from stretto.testing.server import Fault, HttpReply, RawResponse

pytestmark = pytest.mark.anyio
KEY = "a-long-random-text-1"
ASKED = {"model": "stretto-direct", "messages": QUESTION}
SLOW = HttpReply("Slowly.", time_to_first_token_s=3600)


def keys(tmp_path, text):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    file.chmod(0o600)
    return file


async def test_only_a_key_lets_in(tmp_path):
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\n')
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=file)) as live:
        for key in ("wrong", "a-long-random-text-2", KEY[:-1], "ключ"):
            async with live.http() as http:
                response = await http.post(
                    "/v1/chat/completions", json=ASKED, headers={"authorization": f"Bearer {key}".encode()}
                )
            assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
        async with live.openai(KEY) as client:
            assert (await client.chat.completions.create(**ASKED)).choices[0].message.content == "Hello."
        async with live.anthropic(KEY) as client:  # sends it as x-api-key
            assert (await client.messages.create(**ASKED, max_tokens=9)).content[0].text == "Hello."
        async with live.http() as http:
            for path, status in (("/health", 200), ("/ready", 200), ("/metrics", 401), ("/v1/models", 401)):
                assert (await http.get(path)).status_code == status
        assert KEY not in json.dumps([request.body for request in live.upstream.requests])


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])  # of SDKs, and of browsers
async def test_a_key_may_have_letters_of_any_language(tmp_path, encoding):
    file = keys(tmp_path, '[anna]\nkey = "ein-schlüssel-für-annà"\n')
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=file)) as live, live.http() as http:
        headers = {"authorization": "Bearer ein-schlüssel-für-annà".encode(encoding)}
        assert (await http.post("/v1/chat/completions", json=ASKED, headers=headers)).status_code == 200


async def test_either_header_may_hold_the_key(tmp_path):
    """Anthropic's clients send both where their environment holds a token of another service."""
    file = keys(tmp_path, f'[anna]\nkey = " {KEY} "\n')
    both = {"authorization": "Bearer a-token-of-another", "x-api-key": KEY}
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=file)) as live, live.http() as http:
        for headers in (both, {"authorization": "Basic YTpi", "x-api-key": KEY}, {"authorization": f"bearer  {KEY}"}):
            assert (await http.get("/v1/models", headers=headers)).status_code == 200


async def test_no_key_at_all_is_never_a_key(tmp_path):
    file = keys(tmp_path, f'[anna]\nsha256 = "{hashlib.sha256().hexdigest()}"\n')
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=file)) as live, live.http() as http:
        for headers in ({}, {"authorization": "Bearer"}, {"x-api-key": ""}):
            assert (await http.get("/v1/models", headers=headers)).status_code == 401


async def test_the_key_of_the_provider_stays_here():
    async with in_front_of(SLOW, environ={"STRETTO_SERVER_KEY": KEY}) as live, live.openai("wrong") as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(**ASKED)
        assert live.upstream.requests == []


async def test_keys_have_limits_of_their_own(tmp_path):
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\nrequests_per_minute = 2\n[ben]\nkey = "{KEY}-of-ben"\n')
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=file)) as live:
        async with live.openai(KEY) as client:
            for _ in range(2):
                await client.chat.completions.create(**ASKED)
            with pytest.raises(openai.RateLimitError) as refused:
                await client.chat.completions.create(**ASKED)
        assert 1 <= int(refused.value.response.headers["retry-after"]) <= 60
        assert "anna" in refused.value.message
        async with live.openai(f"{KEY}-of-ben") as client:
            await client.chat.completions.create(**ASKED)


async def test_tokens_of_a_key_are_counted(tmp_path):
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\ntokens_per_minute = 5\n')
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=file)) as live, live.openai(KEY) as client:
        await client.chat.completions.create(**ASKED)
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(**ASKED)


@pytest.mark.parametrize("given", [{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}])
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_tokens_of_a_key_are_counted_where_its_bodies_are_passed_on(tmp_path, path, given):
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\ntokens_per_minute = 5\n')
    body = {"model": "stretto-direct", "input": "Why?", "previous_response_id": "resp_1", "stream": "stream" in given}
    if "chat" in path:
        body = ASKED | {"functions": [{"name": "add"}]} | given
    pages = {"/v1/responses": {"usage": {"total_tokens": 9}}}
    async with (
        in_front_of("Hello there, you.", options=ServerOptions(port=0, keys=file), pages=pages) as live,
        live.http(headers={"authorization": f"Bearer {KEY}"}) as http,
    ):
        got = [(await http.post(f"/v1/{path}", json=body)) for _ in range(2)]
    assert [each.status_code for each in got] == [200, 429]
    assert "passed on" in got[0].headers["x-stretto-route"]


@pytest.mark.parametrize("tokens", [50, 101])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_passed_on_costs_a_key_what_its_usage_tells(tmp_path, tokens, stream):
    """Not what its bytes make: each event of a stream has many."""
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\ntokens_per_minute = 100\n')
    whole = json.dumps({"usage": {"total_tokens": tokens}, "choices": [], "system_fingerprint": "a" * 1000}).encode()
    kind = "text/event-stream" if stream else "application/json"
    event = b'data: {"type": "response.completed", "response": ' + whole + b"}\n\n"
    pieces = [event[:20], event[20:]] if stream else [whole]
    async with (
        in_front_of(
            RawResponse(pieces, headers={"content-type": kind}), options=ServerOptions(port=0, keys=file)
        ) as live,
        live.http(headers={"authorization": f"Bearer {KEY}"}) as http,
    ):
        asked = ASKED | {"functions": [{"name": "add"}], "stream": stream}
        got = [(await http.post("/v1/chat/completions", json=asked)).status_code for _ in range(2)]
    assert got == [200, 200 if tokens == 50 else 429]


async def test_an_empty_list_of_functions_asks_for_nothing():
    async with in_front_of("Hello.") as live, live.http() as http:
        answer = await http.post("/v1/chat/completions", json=ASKED | {"functions": []})
    assert "passed on" not in answer.headers["x-stretto-route"]
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert "functions" not in live.upstream.requests[0].body


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key = 'short'",
        "[anna]\nkey = 'short'",
        "[anna]\n",
        f"[anna]\nkey = '{KEY}'\nlimit = 3",
        f"[anna]\nkey = '{KEY}'\n[ben]\nkey = '{KEY}'",
        f"[anna]\nkey = {KEY}",
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_named_and_no_key_is_shown(tmp_path, text):
    with pytest.raises(SettingsError, match=r"keys\.toml") as wrong:
        Keyring.load(keys(tmp_path, text), {})
    assert KEY not in str(wrong.value)
    assert "short" not in str(wrong.value)


def test_a_key_may_be_kept_as_a_hash_only(tmp_path):
    file = keys(tmp_path, f'[anna]\nsha256 = "{hashlib.sha256(KEY.encode()).hexdigest()}"\n')
    ring = Keyring.load(file, {})
    assert ring.find({"authorization": f"bearer {KEY}"}).name == "anna"
    assert ring.find({"authorization": "Bearer "}) is None


def test_a_file_of_keys_that_others_can_read_is_told_of(tmp_path):
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\n')
    file.chmod(0o644)
    assert "chmod 600" in Keyring.load(file, {}).notices[0]


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b"[]", 400, None),
        (b"\xff\xfe", 400, None),
        (b'{"model": NaN}', 400, None),
        (b'{"model": "stretto", "messages": ' + b"[" * 100_000, 400, None),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400, None),
        (b'{"model": "stretto"}', 400, "messages"),
        (b'{"messages": [{"role": "user", "content": "Why?"}]}', 400, "model"),
        (b'{"model": 3, "messages": []}', 400, "model"),
        (b'{"model": "stretto", "messages": "Why?"}', 400, "messages"),
        (b'{"model": "stretto", "messages": [3]}', 400, "messages.0"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": 3}]}', 400, "messages.0.content"),
        (b'{"model": "stretto", "messages": [{"role": "king", "content": "Why?"}]}', 400, "messages.0.role"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": [[]]}]}', 400, "messages.0"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "stream": "yes"}', 400, "stream"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "temperature": 1e999}', 400, "temp"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 0}', 400, "max_tok"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "stretto": 3}', 400, "stretto"),
        (b'{"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "stretto": {"x": 1}}', 400, "stret"),
        (
            b'{"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "stretto": {"strategy": "no"}}',
            400,
            "stretto.strategy",
        ),
        (b'{"model": "\\ud800", "messages": [{"role": "user", "content": "Why?"}]}', 404, "model"),
        (b'{"model": "../../etc", "messages": [{"role": "user", "content": "Why?"}]}', 404, "model"),
        (b'{"model": "local:/etc", "messages": [{"role": "user", "content": "Why?"}]}', 404, "model"),
    ],
)
async def test_bodies_that_cannot_be_used_have_one_clear_error(live, body, status, named):
    async with live.http() as http:
        response = await http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert (error["param"] or "").startswith(named or "")
    assert live.upstream.requests == []


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("stop", 5, "stop"),
        ("stretto", {"documents": [5]}, "stretto.documents.0"),
        ("stretto", {"documents": [{"text": "x", "titel": "y"}]}, "stretto.documents.0"),
    ],
)
async def test_a_field_of_several_types_is_named_without_them(live, field, value, named):
    async with live.http() as http:
        error = (await http.post("/v1/chat/completions", json=ASKED | {field: value})).json()["error"]
    assert error["param"] == named
    assert error["message"].startswith(f"{named}=")


async def test_half_a_character_is_mended(live):
    content = b'"Why \\ud83d? \\ud83d\\ude00 \\\\ud83d"'
    body = b'{"model": "stretto-direct", "messages": [{"role": "user", "content": ' + content + b"}]}"
    async with live.http() as http:
        response = await http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200
    assert live.upstream.requests[-1].body["messages"][0]["content"] == "Why �? \U0001f600 \\ud83d"


async def test_deep_fields_for_the_model_do_no_harm(live):
    deep = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}
    async with live.http() as http:
        response = await http.post("/v1/chat/completions", json=ASKED | {"metadata": deep})
    assert response.status_code in (200, 400), response.text


async def test_a_large_body_is_refused_and_the_client_that_is_still_sending_hears_why():
    async def pieces():
        for _ in range(50):
            yield b" " * (1 << 20)

    async with in_front_of("Hello.", options=ServerOptions(port=0, body_bytes=1000)) as live, live.http() as http:
        for content in (b" " * (21 << 20), pieces()):
            response = await http.post(
                "/v1/chat/completions", content=content, headers={"content-type": "application/json"}
            )
            assert response.status_code == 413
            assert response.json()["error"]["code"] == "request_too_large"
        assert (await http.get("/health")).status_code == 200


async def test_no_more_than_some_of_a_body_that_is_too_large_is_read():
    options = ServerOptions(port=0, body_bytes=1000, body_s=0.05)
    async with (
        in_front_of("Hello.", options=options) as live,
        await anyio.connect_tcp("127.0.0.1", int(live.url.rpartition(":")[2])) as stream,
    ):
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        await stream.send(f"{head}content-type: application/json\r\ncontent-length: 10000000000\r\n\r\n{{".encode())
        answer = b""
        with anyio.fail_after(patience(20)), suppress(anyio.EndOfStream):
            while True:
                answer += await stream.receive()
    assert answer.startswith(b"HTTP/1.1 413")


async def test_a_body_that_does_not_come_is_not_waited_for():
    options = ServerOptions(port=0, body_s=0.05)
    async with (
        in_front_of("Hello.", options=options) as live,
        await anyio.connect_tcp("127.0.0.1", int(live.url.rpartition(":")[2])) as stream,
    ):
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        await stream.send(f"{head}content-type: application/json\r\ncontent-length: 10\r\n\r\n{{".encode())
        assert (await stream.receive()).startswith(b"HTTP/1.1 408")


async def test_headers_are_bounded_before_anything_is_checked(live):
    """Whoever has no key can send them, too."""
    said = await anyio.to_thread.run_sync(_with_long_header, int(live.url.rpartition(":")[2]))
    assert said.startswith(b"HTTP/1.1 431 ")
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "headers_too_large"
    async with live.http() as http:
        many = {f"x-{number}": "a" * 100 for number in range(300)}
        assert [(await http.get("/health", headers=many)).status_code for _ in range(3)] == [200, 200, 200]
        assert (await http.post("/v1/chat/completions", json=ASKED | {"user": "a" * 200_000})).status_code == 200


def _with_long_header(port):
    with socket.create_connection(("127.0.0.1", port), timeout=patience(20)) as opened:
        with suppress(OSError):  # closed while it is being sent
            opened.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-long: " + b"a" * (1 << 22))
        return opened.recv(4096)


async def test_other_paths_and_methods_are_errors_in_the_same_form(live):
    async with live.http() as http:
        missing = await http.get("/v1/nothing")
        wrong = await http.get("/v1/chat/completions")
        text = await http.post("/v1/chat/completions", content=b"{}", headers={"content-type": "text/plain"})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_url")
    assert wrong.status_code == 405
    assert "GET" in wrong.json()["error"]["message"]
    assert text.status_code == 415


async def test_pages_of_other_sites_may_not_ask(live):
    async with live.http() as http:
        for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
            response = await http.post("/v1/chat/completions", json=ASKED, headers=headers)
            assert response.status_code == 403
            assert "access-control-allow-origin" not in response.headers
        own = await http.post("/v1/chat/completions", json=ASKED, headers={"origin": live.url})
    assert own.status_code == 200


async def test_pages_of_an_origin_that_was_named_may_ask():
    origin = "https://chat.example"
    async with in_front_of("Hello.", options=ServerOptions(port=0, cors=(origin,))) as live, live.http() as http:
        asking = {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,x-stainless-os",
        }
        asked = await http.options("/v1/chat/completions", headers=asking | {"origin": origin})
        answer = await http.post("/v1/chat/completions", json=ASKED, headers={"origin": origin})
        other = await http.post("/v1/chat/completions", json=ASKED, headers={"origin": "https://evil.example"})
        refused = await http.options("/v1/chat/completions", headers=asking | {"origin": "https://evil.example"})
        no_host = await http.post(
            "/v1/chat/completions", json=ASKED, headers={"origin": origin, "host": "evil.example"}
        )
    assert asked.status_code == 200
    assert "authorization" in asked.headers["access-control-allow-headers"]
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == origin
    assert "x-stretto-route" in answer.headers["access-control-expose-headers"]
    assert (other.status_code, no_host.status_code, refused.status_code) == (403, 403, 400)
    assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("origin", ["chat.example", "https://chat.example/page", ""])
def test_what_is_no_origin_is_named(origin):
    with pytest.raises(SettingsError, match="cors="):
        ServerOptions(cors=(origin,))


async def test_all_origins_may_ask_only_where_there_are_keys(tmp_path):
    every = ("*",)
    with pytest.raises(SettingsError, match="there is no key"):
        async with in_front_of("Hello.", options=ServerOptions(port=0, cors=every)):
            pass
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\n')
    async with in_front_of("Hello.", options=ServerOptions(port=0, cors=every, keys=file)) as live, live.http() as http:
        headers = {"origin": "https://any.example", "authorization": f"Bearer {KEY}"}
        answer = await http.post("/v1/chat/completions", json=ASKED, headers=headers)
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_a_full_server_sends_away_with_the_time_to_come_back():
    async with (
        in_front_of(SLOW, options=ServerOptions(port=0, concurrent_answers=1, queue=1)) as live,
        live.http() as http,
    ):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: http.post("/v1/chat/completions", json=ASKED))
            await until(lambda: (live.service.admission.running, live.service.admission.waiting) == (1, 1))
            refused = await http.post("/v1/chat/completions", json=ASKED)
            metrics = (await http.get("/metrics")).text
            tasks.cancel_scope.cancel()
        await until(lambda: not live.service.admission.running and not live.service.admission.waiting)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "vllm:num_requests_running 1.0" in metrics
    assert "vllm:num_requests_waiting 1.0" in metrics


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (Fault("status", status=429, headers={"retry-after": "500"}), 429, "rate_limit_exceeded"),
        (Fault("status", status=400, message="no such thing"), 400, "rejected_by_backend"),
        (Fault("status", status=500), 502, "backend_failed"),
        (Fault("status", status=401), 502, "backend_authentication"),
        (Fault("reset"), 502, "backend_failed"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_failures_of_the_model_have_a_status_even_for_a_stream(live, fault, status, code, stream):
    live.upstream.script(*[fault] * 4)
    async with live.http() as http:
        response = await http.post("/v1/chat/completions", json=ASKED | {"stream": stream})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    if status == 429:
        assert response.headers["retry-after"] == "500"


async def test_an_error_of_the_program_tells_the_client_nothing_of_it(live, caplog, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(live.service.models, "find", fail)  # no request can reach a defect on purpose
    with caplog.at_level(logging.ERROR):
        async with live.http() as http:
            response = await http.post("/v1/chat/completions", json=ASKED, headers={"x-request-id": "mine-1"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["x-request-id"] == "mine-1"
    assert "mine-1" in caplog.text


class Noting(ScriptedBackend):
    """Notes for whom each of its calls is made."""

    def __init__(self):
        super().__init__({"": "Hello."})
        self.tenants = []

    def stream(self, prompt, options):
        self.tenants.append(asking())
        return super().stream(prompt, options)


async def test_calls_are_for_the_key_that_asked_so_that_nothing_is_kept_of_one_for_another(tmp_path):
    file = keys(tmp_path, f'[anna]\nkey = "{KEY}"\n[ben]\nkey = "{KEY}-of-ben"\n')
    backend = Noting()
    async with AsyncStretto(backend) as client:
        for options, given in ((ServerOptions(port=0, keys=file), (KEY, f"{KEY}-of-ben")), (None, ("none",))):
            async with serving(client, options) as live:
                for key in given:
                    async with live.openai(key) as http:
                        await http.chat.completions.create(**ASKED)
        await client.ask("Hello?", strategy="direct")
    assert backend.tenants == ["anna", "ben", UNKNOWN, None]
