"""No holder of a key learns what another one has asked: not by texts, usage, work, routes, counters or errors."""

import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import anyio.to_thread
import pytest
from live_server import in_front_of, serving

from stretto import AsyncStretto, Document, Settings, SettingsError
from stretto.backends.tenants import asked_for
from stretto.server import ServerOptions
from stretto.server.limits.keys import Keyring
from stretto.strategies.document.library import DocumentCache
from stretto.testing import ScriptedBackend
from stretto.testing.server import HttpReply, RawResponse, ScriptedServer

pytestmark = pytest.mark.anyio

KEYS = {name: f"a-long-random-text-of-{name}" for name in ("anna", "ben")}
BEGINNING = "How do I look after the"
LONG = "How do I look after a bicycle that stands in the rain all through the winter? " * 20


def keys(tmp_path, **more):
    file = tmp_path / "keys.toml"
    file.write_text("".join(f'[{name}]\nkey = "{key}"\n{more.get(name, "")}\n' for name, key in KEYS.items()))
    file.chmod(0o600)
    return ServerOptions(port=0, keys=file)


@asynccontextmanager
async def sdks(live, *names):
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(live.openai(KEYS.get(name, "none"))) for name in names]


async def told(sdk, text, model="stretto-direct"):
    """The text of an answer, and how many tokens of its prompt were cached."""
    plain = {} if ":" in model else {"stretto": {"decoding": "autoregressive"}}
    answer = await sdk.chat.completions.create(
        model=model, max_tokens=6, temperature=0, messages=[{"role": "user", "content": text}], extra_body=plain
    )
    return answer.choices[0].message.content, answer.usage.prompt_tokens_details.cached_tokens


@pytest.mark.thorough
async def test_what_another_key_has_asked_tells_no_word_saves_no_work_and_changes_no_text(tmp_path, monkeypatch):
    words = ("chain", "bread", "tyres", "garden")
    async with (
        AsyncStretto("local:pocket") as client,
        serving(client, keys(tmp_path)) as live,
        sdks(live, "anna", "ben") as (anna, ben),
    ):
        engine = client.backends["main"]._loader.engine
        await anyio.to_thread.run_sync(engine.wait_measured)  # its steps are timed by forwards, too
        counted, kind = Counter(), type(engine.model.forward)
        forward = kind.__call__
        monkeypatch.setattr(
            kind,
            "__call__",
            lambda self, rows, *given: counted.update(rows=rows.tokens.numel()) or forward(self, rows, *given),
        )

        async def asked(sdk, text):
            counted.clear()
            return *await told(sdk, text), counted["rows"]

        first = await asked(anna, LONG)
        assert await asked(ben, LONG) == first
        text, cached, computed = await asked(ben, LONG)
        assert text == first[0]
        assert cached > 300
        assert computed < first[2] / 10  # his own prompt again

        await told(anna, f"{BEGINNING} tyres in the old house by the river.")
        await told(ben, BEGINNING)  # from here on, what he finds is his own
        found = [(await told(ben, f"{BEGINNING} {word} in"))[1] for word in words]
        again = [(await told(anna, f"{BEGINNING} {word} in"))[1] for word in words]
    assert len({*found}) == 1
    assert again.index(max(again)) == 2  # she sees her own


async def test_routes_tell_nothing_of_the_answers_to_another_key(tmp_path):
    prose = "The chain wants oil, and the tyres want air. " * 12
    replies = {"only the outline": "nothing of the kind", "": prose}
    question = {"model": "stretto", "messages": [{"role": "user", "content": "Why does a bicycle stay upright?"}]}
    points = {"model": "stretto", "messages": [{"role": "user", "content": "How do I look after a bicycle?"}]}
    scripted = AsyncStretto(ScriptedBackend(replies), prompt_family="small")
    async with scripted as client, serving(client, keys(tmp_path)) as live:

        async def routes(name):
            headers = {"authorization": f"Bearer {KEYS[name]}"}
            async with live.http(headers=headers) as http:
                found = [(await http.post("/v1/route", json=body)).json() for body in (question, points)]
            for route in found:
                del route["elapsed_ms"]
                for way in route["forecast"].values():
                    del way["seconds"]  # by the speed of the model, which is the same for all
            return found

        before = {name: await routes(name) for name in KEYS}
        async with sdks(live, "anna") as (anna,):
            for body in (question, points) * 4:
                await anna.chat.completions.create(**body)
        assert await routes("ben") == before["ben"]
        assert await routes("anna") != before["anna"]


@pytest.mark.thorough
async def test_forecasts_tell_of_no_steps_that_were_made_for_another_key(tmp_path):
    body = {"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "stretto": {"decoding": "auto"}}
    async with AsyncStretto("local:pocket") as client, serving(client, keys(tmp_path)) as live:

        async def steps(name):
            async with live.http(headers={"authorization": f"Bearer {KEYS[name]}"}) as http:
                forecast = (await http.post("/v1/route", json=body)).json()["decoding_forecast"]
            return forecast["measured_steps"], forecast["tokens_per_step"]

        async with live.http(headers={"authorization": f"Bearer {KEYS['anna']}"}) as http:
            await http.post("/v1/chat/completions", json=body)
        assert (await steps("anna"))[0] > 0
        assert await steps("ben") == (0, None)


async def test_counters_tell_of_all_keys_and_so_only_a_key_that_may_reads_them(tmp_path):
    async def status(live, name):
        async with live.http(headers={"authorization": f"Bearer {KEYS[name]}"}) as http:
            return (await http.get("/metrics")).status_code

    async with in_front_of("Hello.", options=keys(tmp_path, anna="metrics = true")) as live:
        assert [await status(live, name) for name in ("anna", "ben")] == [200, 403]
    alone = tmp_path / "alone.toml"
    alone.write_text(f'[ben]\nkey = "{KEYS["ben"]}"\n')
    alone.chmod(0o600)
    async with in_front_of("Hello.", options=ServerOptions(port=0, keys=alone)) as live:
        assert await status(live, "ben") == 200


def test_the_key_of_the_environment_shares_its_name_with_no_other(tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text(f'[environment]\nkey = "{KEYS["anna"]}"\n')
    file.chmod(0o600)
    assert len(Keyring.load(file, {"STRETTO_SERVER_KEY": KEYS["anna"]}).holders) == 1
    with pytest.raises(SettingsError, match="names a key environment"):
        Keyring.load(file, {"STRETTO_SERVER_KEY": KEYS["ben"]})


CACHED = HttpReply("Hello.", prompt_tokens=2000, cached_tokens=1024, cache_write_tokens=512)


@asynccontextmanager
async def before(model, options=None, replies=CACHED, **how):
    async with (
        ScriptedServer(replies, **how) as upstream,
        AsyncStretto(
            model,
            base_url=upstream.url if model.startswith("anthropic") else upstream.openai_url,
            api_key="any",
            settings=Settings(attempts=1),
        ) as client,
        serving(client, options) as live,
    ):
        yield live, upstream


@pytest.mark.parametrize("model", ["openai:m", "anthropic:m", "llamacpp:m"])
async def test_what_a_provider_had_cached_is_told_to_no_one_of_several_keys(model, tmp_path):
    async with before(model, keys(tmp_path)) as (live, _), sdks(live, "ben") as (ben,):
        assert await told(ben, LONG, model) == ("Hello.", 0)
    async with before(model) as (live, _), sdks(live, "ben") as (ben,):
        assert await told(ben, LONG, model) == ("Hello.", 1024)


@pytest.mark.parametrize("model", ["vllm:m", "sglang:m"])
async def test_servers_that_part_their_cache_are_given_a_salt_for_each_key(model, tmp_path):
    async with before(model, keys(tmp_path)) as (live, upstream), sdks(live, "anna", "ben") as (anna, ben):
        assert [await told(sdk, "Why?", model) for sdk in (anna, ben, ben)] == [("Hello.", 1024)] * 3
    salts = [each.body["cache_salt"] for each in upstream.requests]
    assert salts[0] != salts[1] == salts[2]
    assert all(len(salt) == 64 and "anna" not in salt for salt in salts)


async def test_a_caller_cannot_choose_the_salt_of_another(tmp_path):
    async with before("vllm:m", keys(tmp_path)) as (live, upstream), sdks(live, "anna", "ben") as (anna, ben):
        await told(anna, "Why?", "vllm:m")
        salt = upstream.requests[0].body["cache_salt"]
        await ben.chat.completions.create(
            model="vllm:m", messages=[{"role": "user", "content": "Why?"}], extra_body={"cache_salt": salt}
        )
    assert upstream.requests[-1].body["cache_salt"] != salt


USAGE = {
    "usage": {"prompt_tokens": 9, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 8}},
    "timings": {"cache_n": 8, "prompt_n": 1},
}


@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_passed_on_tells_nothing_of_the_cache_either(stream, tmp_path):
    said = {"choices": [{"index": 0, "text": 'say "cached_tokens": 5'}]}
    if stream:
        lines = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in (said, USAGE))
        reply = RawResponse(
            [lines[:90], lines[90:], b"data: [DONE]\n\n"], headers={"content-type": "text/event-stream"}
        )
    else:
        body = json.dumps(said | USAGE).encode()
        reply = RawResponse([body], headers={"content-type": "application/json"})
    functions = [{"name": "weather", "parameters": {"type": "object"}}]
    messages = [{"role": "user", "content": "Why?"}]
    body = {"model": "llamacpp:m", "messages": messages, "functions": functions, "stream": stream}
    found = []
    for options in (keys(tmp_path), None):
        headers = {"authorization": f"Bearer {KEYS['ben']}"}
        async with before("llamacpp:m", options, reply) as (live, _), live.http(headers=headers) as http:
            found.append((await http.post("/v1/chat/completions", json=body)).text)
    hidden, shown = found
    assert '"cached_tokens": 8' in shown
    assert '"cache_n": 8' in shown
    assert '"cached_tokens":0' in hidden
    assert "timings" not in hidden
    assert r"say \"cached_tokens\": 5" in hidden
    assert hidden.endswith("data: [DONE]\n\n") == stream


def test_how_a_document_was_cut_is_known_to_its_tenant_only():
    cache, made = DocumentCache(), []
    for tenant in ("anna", "ben", "anna", None):
        with asked_for(tenant):
            cache.keep(Document(text="Oil the chain."), "cut", lambda: made.append(1))
    assert len(made) == 3
