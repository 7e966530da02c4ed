"""What a key pays for, and which requests take a place: no way round."""

import json

import anyio
import pytest
from live_server import QUESTION, in_front_of, until
from patience import patience
from starlette.routing import Route

from stretto.server import ServerOptions, create_app
from stretto.testing.server import Fault, HttpReply, RawResponse

pytestmark = pytest.mark.anyio
KEY = "a-long-random-text-1"
LONG = "word " * 60
WAYS = [
    ("/v1/chat/completions", {"messages": QUESTION}),
    ("/v1/completions", {"prompt": "Why?"}),
    ("/v1/responses", {"input": "Why?"}),
    ("/v1/messages", {"messages": QUESTION, "max_tokens": 99}),
    ("/v1/chat/completions", {"messages": QUESTION, "functions": [{"name": "add"}]}),  # passed on as it is
]


def options(tmp_path, limits):
    file = tmp_path / "keys.toml"
    file.write_text(f'[anna]\nkey = "{KEY}"\n{limits}\n')
    file.chmod(0o600)
    return ServerOptions(port=0, keys=file)


def with_key(live):
    return live.http(headers={"authorization": f"Bearer {KEY}"})


def left_of(live):
    """Tokens that the key has left, to the nearest ten: they grow back all the time."""
    (holder,) = live.service.keyring.holders.values()
    return holder.tokens._left


@pytest.mark.parametrize(("path", "asked"), WAYS)
async def test_a_client_that_leaves_in_mid_stream_pays_for_what_was_written(tmp_path, path, asked):
    reply = HttpReply(LONG, fault=Fault("stall", after=50))
    limits = options(tmp_path, "tokens_per_minute = 40")
    async with in_front_of(reply, options=limits) as live, with_key(live) as http:
        body = {"model": "stretto-direct", "stream": True, **asked}
        text = ""
        async with http.stream("POST", path, json=body) as response:
            async for piece in response.aiter_text():
                text += piece
                if text.count("word") >= 45:
                    break
        await until(lambda: not live.service.admission.running)
        with anyio.fail_after(patience(20)):
            while left_of(live) > 0:  # it is taken when the answer has ended
                await anyio.lowlevel.checkpoint()
        refused = await http.post(path, json=body)
    assert refused.status_code == 429


@pytest.mark.parametrize(("path", "asked"), WAYS[:4])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_breaks_is_paid_for(tmp_path, path, asked, stream):
    reply = HttpReply(LONG, fault=Fault("reset", after=50))
    limits = options(tmp_path, "tokens_per_minute = 40")
    async with in_front_of(reply, options=limits) as live, with_key(live) as http:
        body = {"model": "stretto-direct", "stream": stream, **asked}
        await http.post(path, json=body)
        assert (await http.post(path, json=body)).status_code == 429


@pytest.mark.parametrize(("path", "asked"), WAYS)
async def test_a_prompt_for_which_too_few_tokens_are_left_reaches_no_model(tmp_path, path, asked):
    limits = options(tmp_path, "tokens_per_minute = 1000")
    longer = json.loads(json.dumps(asked).replace("Why?", LONG * 10).replace(QUESTION[0]["content"], LONG * 10))
    async with in_front_of("Hello.", options=limits) as live, with_key(live) as http:
        assert (await http.post(path, json={"model": "stretto-direct", **longer})).status_code == 200
        assert left_of(live) > 40
        refused = await http.post(path, json={"model": "stretto-direct", **longer})
        assert refused.status_code == 429
        assert "too few tokens left in this minute" in refused.text
        assert (await http.post(path, json={"model": "stretto-direct", **asked})).status_code == 200
        assert len(live.upstream.requests) == 2


async def test_what_the_model_refuses_costs_nothing(tmp_path):
    limits = options(tmp_path, "tokens_per_minute = 40")
    reply = RawResponse([b'{"error": {"message": "No."}}'], status=400, headers={"content-type": "application/json"})
    async with in_front_of(reply, options=limits) as live, with_key(live) as http:
        for path, asked in WAYS:
            body = {"model": "stretto-direct", **asked}
            assert (await http.post(path, json=body)).status_code == 400
        assert left_of(live) == pytest.approx(40)


async def test_the_prompts_of_a_batch_take_the_places_of_their_key(tmp_path):
    limits = options(tmp_path, "concurrent_answers = 2")
    together = []

    def reply(request):
        together.append(live.service.admission.running)
        return HttpReply("word " * 5)

    async with in_front_of(reply, options=limits) as live, with_key(live) as http:
        body = {"model": "stretto-direct", "prompt": [f"Why {number}?" for number in range(20)]}
        found = (await http.post("/v1/completions", json=body)).json()
    assert [choice["index"] for choice in found["choices"]] == list(range(20))
    assert len(together) == 20
    assert max(together) == 2


async def test_the_prompts_of_a_batch_take_the_places_of_the_server():
    stuck = HttpReply("word", time_to_first_token_s=3600)
    async with in_front_of(stuck, options=ServerOptions(port=0, concurrent_answers=3)) as live, live.http() as http:
        async with anyio.create_task_group() as tasks:
            body = {"model": "stretto-direct", "prompt": ["Why?"] * 20}
            tasks.start_soon(lambda: http.post("/v1/completions", json=body))
            await live.upstream.wait_until(lambda upstream: len(upstream.requests) == 3)
            assert live.service.admission.running == 3
            tasks.start_soon(lambda: http.post("/v1/chat/completions", json={"model": "stretto", "messages": QUESTION}))
            await until(lambda: live.service.admission.waiting == 1)
            assert len(live.upstream.requests) == 3
            tasks.cancel_scope.cancel()
        await until(lambda: not live.service.admission.running)


BODIES = {
    "/v1/chat/completions": {"messages": QUESTION},
    "/v1/completions": {"prompt": "Why?"},
    "/v1/responses": {"input": "Why?"},
    "/v1/messages": {"messages": QUESTION, "max_tokens": 9},
    "/v1/messages/count_tokens": {"messages": QUESTION},
    "/v1/route": {"messages": QUESTION},
    "/web/read?name=a.txt": "Some text.",
    "/web/page": {"question": "Why?", "answer": None},
}


async def test_every_path_that_takes_a_body_goes_through_the_gate(tmp_path):
    async with in_front_of("Hello.", options=options(tmp_path, "requests_per_minute = 1")) as live:
        app = create_app(live.service.client)
        paths = [route.path for route in app.routes if isinstance(route, Route) and "POST" in (route.methods or ())]
        refusing = {"/v1/responses/compact"}  # refused by name, whoever asks
        assert {path.partition("?")[0] for path in BODIES} == set(paths) - refusing
        async with with_key(live) as http:
            asked = {"model": "stretto-direct", "messages": QUESTION, "stretto": {"documents": ["x"]}}
            answer = (await http.post("/v1/chat/completions", json=asked)).json()
            assert "choices" in answer
            page = BODIES["/web/page"] | {"answer": (await live.service.client.ask("Why?")).model_dump(mode="json")}
            for path, body in (BODIES | {"/web/page": page}).items():
                sent = body if isinstance(body, str) else json.dumps(body | {"model": "stretto"})
                got = await http.post(path, content=sent, headers={"content-type": "application/json"})
                assert got.status_code == 429, path
