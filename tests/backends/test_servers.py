"""Compatible servers: recognised by what they answer, asked once, and taken at their word."""

from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute
from engines import MODEL, llamacpp, lmstudio, ollama, sglang, vllm
from patience import patience
from talking import asking, hear, settled

from stretto import AsyncStretto, Settings
from stretto.backends.base import Capabilities, ask_servers
from stretto.backends.providers.learned import MOST_KEPT, forget, learned
from stretto.backends.providers.openai import OpenAIBackend
from stretto.backends.registry import open_backend
from stretto.testing.server import Page, ScriptedServer
from stretto.values.errors import ConnectionFailedError

pytestmark = pytest.mark.anyio

QUESTION = "How do I look after a bicycle?"


async def told_by(server, name="openai:some-model", **where):
    """What a backend is able to do once its server was asked."""
    async with server:
        backend = open_backend(name, **(where or {"base_url": server.openai_url}))
        await ask_servers([backend])
        await backend.aclose()
    return backend.capabilities


# --- who it is


@pytest.mark.parametrize(
    ("server", "model"),
    [
        (vllm(), MODEL),
        (sglang(), MODEL),
        (llamacpp(), "model.gguf"),
        (llamacpp(listed=False), "model.gguf"),
        (ollama(), "llama3.2"),
        (ollama(owner="somebody"), "llama3.2"),
        (lmstudio(), "qwen/qwen3-8b"),
        (lmstudio(owner="somebody"), "qwen/qwen3-8b"),
    ],
    ids=["vllm", "sglang", "llamacpp", "llamacpp-loading", "ollama", "ollama-own", "lmstudio", "lmstudio-own"],
)
async def test_a_server_is_recognised_by_what_it_answers(server, model, request):
    async with server:
        backend = OpenAIBackend(model, base_url=server.openai_url)
        await backend.ask_server(5.0)
    assert backend._learned.engine == request.node.callspec.id.partition("-")[0]


async def test_the_form_of_a_servers_weights_is_known_through_all_that_wraps_its_backend():
    async with llamacpp() as server:
        backend = open_backend("openai:model.gguf", base_url=server.openai_url)
        before = backend.quantisation
        await ask_servers([backend])
        await backend.aclose()
    assert (before, backend.quantisation) == (None, "Q4_K - Medium")


async def test_a_server_that_says_nothing_of_itself_stays_what_its_name_says():
    able = await told_by(ScriptedServer(pages={"/v1/models": Page({"detail": "Not Found"}, 404)}))
    assert able == open_backend("openai:some-model", base_url="http://localhost:1/v1").capabilities


# --- what it can do


async def test_vllm_tells_its_window_its_cache_its_drafts_and_in_development_its_slots():
    able = await told_by(vllm(slots=12, speculation=True), f"openai:{MODEL}")
    assert (able.context_window, able.concurrent_calls) == (40_960, 12)
    assert (able.prefix_caching, able.speculation) == (True, True)
    assert (able.json_schema, able.schema_in_words, able.choices, able.logprobs) == (True, True, True, True)
    able = await told_by(vllm(caching=False), f"openai:{MODEL}")
    assert (able.prefix_caching, able.speculation) == (False, False)
    assert able.concurrent_calls == Capabilities(concurrent_calls=8).concurrent_calls  # it does not tell in production


async def test_a_vllm_without_metrics_leaves_open_what_they_would_tell():
    server = vllm()
    server._pages["/metrics"] = Page({"detail": "Not Found"}, 404)
    able = await told_by(server, f"openai:{MODEL}")
    assert (able.context_window, able.prefix_caching, able.speculation) == (40_960, None, None)


@pytest.mark.parametrize("newer", [False, True])
async def test_sglang_tells_all_of_it(newer):
    able = await told_by(sglang(speculation="EAGLE3", newer=newer), f"openai:{MODEL}")
    assert (able.context_window, able.concurrent_calls) == (40_960, 24)  # twelve in each of two replicas
    assert (able.prefix_caching, able.speculation) == (True, True)
    able = await told_by(sglang(caching=False), f"openai:{MODEL}")
    assert (able.prefix_caching, able.speculation) == (False, False)


async def test_llama_cpp_tells_the_window_of_a_slot_and_not_that_of_its_training():
    able = await told_by(llamacpp(slots=3), "openai:model.gguf")
    assert (able.context_window, able.concurrent_calls, able.speculation) == (8_192, 3, False)
    assert (able.choices, able.logprobs) == (False, True)


@pytest.mark.parametrize(
    ("how", "window"), [({"loaded": 32_768, "num_ctx": 4_096}, 32_768), ({"num_ctx": 4_096}, 4_096), ({}, None)]
)
async def test_ollama_tells_the_window_that_it_uses_and_not_the_models_own(how, window):
    assert (await told_by(ollama(**how), "openai:llama3.2")).context_window == window


@pytest.mark.parametrize(("loaded", "window"), [(8_192, 8_192), (None, None)])
async def test_lm_studio_tells_the_window_of_a_model_that_is_loaded(loaded, window):
    able = await told_by(lmstudio(loaded=loaded), "openai:qwen/qwen3-8b")
    assert (able.context_window, able.json_schema, able.choices) == (window, True, False)


@pytest.mark.parametrize("field", ["context_length", "context_window", "max_context_length"])
async def test_the_window_in_a_providers_list_is_read_under_its_usual_names(field):
    data = [{"id": "other", field: 7}, {"id": "some-model", "object": "model", "owned_by": "them", field: 65_536}]
    able = await told_by(ScriptedServer(pages={"/v1/models": {"data": data}}))
    assert (able.context_window, able.json_schema) == (65_536, False)


HOSTILE = [
    [],
    "no JSON",
    "[" * 100_000,
    {"data": {}},
    {"data": [1, None, [], {"id": 7}, {"id": "some-model", "owned_by": ["vllm"], "max_model_len": "many"}]},
    {"data": [{"id": "some-model", "owned_by": "vllm", "max_model_len": -5, "meta": []}]},
    {"data": [{"id": "some-model", "owned_by": "sglang", "max_model_len": True}]},
    {"data": [{"id": "some-model", "owned_by": "llamacpp", "max_model_len": 10**30}]},
    {"data": [{"id": "some-model", "owned_by": "library"}]},
    {"data": [{"id": "some-model", "owned_by": "organization_owner"}]},
]


@pytest.mark.parametrize("models", HOSTILE)
@pytest.mark.parametrize(
    "page", ["", {}, [], {"internal_states": [3], "data": 1, "models": {}, "total_slots": -1}, "x{" * 9]
)
async def test_whatever_a_server_tells_no_answer_fails_for_it(models, page):
    paths = ("/metrics", "/server_info", "/get_server_info", "/props", "/api/ps", "/api/show", "/api/v0/models")
    pages = dict.fromkeys((*paths, "/api/version"), page) | {"/v1/models": models}
    async with (
        ScriptedServer(pages=pages) as server,
        AsyncStretto("openai:some-model", base_url=server.openai_url, settings=Settings()) as stretto,
    ):
        answer = await stretto.ask("Why?", strategy="direct")
        able = stretto.backends["main"].capabilities
    assert answer.text == "OK."
    assert (able.context_window, able.concurrent_calls) == (None, 8)


async def test_a_body_without_end_is_not_read_to_it():
    async with ScriptedServer(pages={"/v1/models": "x" * 20_000_000}) as server:
        backend = OpenAIBackend("some-model", base_url=server.openai_url)
        await backend.ask_server(5.0)
    assert backend._learned.facts is not None
    assert backend._learned.facts.models == ()


# --- asked once, for a short time


async def test_ollama_is_asked_again_after_a_while_for_the_window_of_a_model_that_was_not_loaded(monkeypatch):
    async with (
        ollama() as server,
        AsyncStretto("openai:llama3.2", base_url=server.openai_url, settings=Settings()) as stretto,
    ):
        for _ in range(2):
            await stretto.ask("Why?", strategy="direct")
        once = len(server.inquiries)
        server._pages["/api/ps"] = {"models": [{"model": "llama3.2:latest", "context_length": 16_384}]}
        monkeypatch.setattr("stretto.backends.providers.openai._ASK_AGAIN_S", 0.0)
        learned("openai", server.openai_url, "llama3.2").ask_again = 0.0
        for _ in range(2):
            await stretto.ask("Why?", strategy="direct")
        assert stretto.backends["main"].capabilities.context_window == 16_384
    assert len(server.inquiries) == 2 * once


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503])
async def test_a_server_that_could_not_tell_is_asked_again_after_a_while(status):
    async with vllm() as server:
        told = server._pages["/v1/models"]
        server._pages["/v1/models"] = Page({"detail": "Not now"}, status)
        backend = OpenAIBackend(MODEL, base_url=server.openai_url)
        for _ in range(2):
            await backend.ask_server(5.0)
        assert backend._learned.facts is None
        assert [each.path for each in server.inquiries] == ["/v1/models"]
        server._pages["/v1/models"] = told
        backend._learned.ask_again = 0.0
        await backend.ask_server(5.0)
        assert backend.capabilities.context_window == 40_960


async def test_a_llama_cpp_that_was_loading_is_asked_again_for_its_window():
    async with llamacpp(listed=False) as server:
        props = server._pages["/props"]
        server._pages["/props"] = server._pages["/v1/models"]
        backend = OpenAIBackend("model.gguf", base_url=server.openai_url)
        await backend.ask_server(5.0)
        assert (backend._learned.engine, backend.capabilities.context_window) == ("llamacpp", None)
        server._pages["/props"] = props
        backend._learned.ask_again = 0.0
        await backend.ask_server(5.0)
        assert backend.capabilities.context_window == 8_192


async def test_an_address_that_wants_another_key_says_so():
    async with (
        vllm(key="sk-another-0123456789") as server,
        AsyncStretto(server.url, settings=Settings(attempts=1)) as stretto,
    ):
        server._pages["/v1/models"] = Page({"error": "Unauthorized"}, 401)
        with pytest.raises(ConnectionFailedError, match=r"did not say\. Check the address, the key"):
            await stretto.ask("Why?")


async def test_a_server_is_asked_once_for_all_requests_and_clients():
    async with vllm() as server:
        for _ in range(2):
            async with (
                AsyncStretto(f"openai:{MODEL}", base_url=server.openai_url) as stretto,
                anyio.create_task_group() as tasks,
            ):
                for _ in range(3):
                    tasks.start_soon(stretto.ask, "Why?")
        asked = [each.path for each in server.inquiries]
    assert asked == ["/v1/models", "/metrics", "/server_info", "/tokenize"]
    assert len(server.requests) == 6


async def test_openai_itself_is_not_asked(monkeypatch):
    async with vllm() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        async with AsyncStretto("openai:gpt-4.1", settings=Settings()) as stretto:
            await stretto.ask("Why?", strategy="direct")
    assert server.inquiries == []


async def test_the_key_goes_along_and_the_keys_in_what_is_told_go_nowhere(caplog):
    async with sglang(key="sk-my-own-0123456789") as server:
        where = {"base_url": server.openai_url, "api_key": "sk-my-own-0123456789"}
        async with AsyncStretto(f"sglang:{MODEL}", **where) as stretto:
            answer = await stretto.ask("Why?", strategy="direct")
            kept = repr(stretto.backends["main"]._learned) if hasattr(stretto.backends["main"], "_learned") else ""
    assert answer.text == "OK."
    assert "sk-of-the-server" not in f"{kept}{answer.model_dump_json()}{caplog.text}"


@asynccontextmanager
async def silent():
    """A server that takes connections and says nothing."""

    arrived = anyio.Event()

    async def hold(connection):
        async with connection:
            await connection.receive()
            arrived.set()
            await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hold)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's
        yield OpenAIBackend("some-model", base_url=f"http://127.0.0.1:{port}/v1"), arrived
        tasks.cancel_scope.cancel()


async def test_a_server_that_stays_silent_holds_an_answer_up_for_a_moment_only():
    async with silent() as (backend, _):
        with anyio.fail_after(patience(20)):
            await ask_servers([backend], deadline_s=0.5)
            await ask_servers([backend], deadline_s=3_600)  # it was asked a moment ago: not again
    assert backend._learned.facts is None


async def test_a_server_that_is_not_there_is_the_error_of_the_call():
    async with AsyncStretto(
        "vllm:some-model", base_url="http://127.0.0.1:9/v1", settings=Settings(attempts=1)
    ) as stretto:
        with pytest.raises(ConnectionFailedError, match=r"127\.0\.0\.1:9"):
            await stretto.ask("Why?")


async def test_a_cancelled_question_to_a_server_leaves_nothing_behind():
    async with silent() as (backend, arrived):
        before = await settled()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(backend.ask_server, 3_600.0)
            await arrived.wait()
            tasks.cancel_scope.cancel()
        after = await settled()
        assert (after.tasks, after.sockets) == (before.tasks + 1, before.sockets + 1)  # those of the silent server


# --- what is refused


async def test_what_one_client_learned_the_next_one_knows():
    async with ScriptedServer(rejects=("temperature", "seed", "logprobs")) as server:
        for _ in range(2):
            async with AsyncStretto("openai:some-model", base_url=server.openai_url) as stretto:
                answer = await stretto.ask("Why?", strategy="direct", temperature=0.5, seed=1, logprobs=2)
            assert [warning.code for warning in answer.warnings] == ["option", "option"]
    assert len(server.requests) == 5
    assert not {"temperature", "seed", "logprobs", "top_logprobs"} & server.requests[-1].body.keys()


async def test_several_answers_become_several_calls_where_n_is_refused():
    async with (
        ScriptedServer(rejects=("n",)) as server,
        AsyncStretto("openai:some-model", base_url=server.openai_url) as stretto,
    ):
        first = await stretto.ask("Why?", n=2)
        second = await stretto.ask("Why?", n=2)
    assert [warning.code for warning in first.warnings] == ["option"]
    assert (len(second.choices), second.warnings) == (2, ())


async def test_a_llama_cpp_is_not_asked_for_several_answers_at_once():
    async with llamacpp() as server, AsyncStretto("openai:model.gguf", base_url=server.openai_url) as stretto:
        answer = await stretto.ask("Why?", n=2)
    assert (len(answer.choices), answer.warnings) == (2, ())
    assert all("n" not in each.body for each in server.requests)


@pytest.mark.parametrize("name", ["llamacpp:model.gguf", "openai:model.gguf"])
async def test_tools_that_may_not_be_called_are_not_shown_by_servers_of_open_models(name):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
    async with llamacpp() as server, AsyncStretto(name, base_url=server.openai_url, api_key="none") as stretto:
        await stretto.ask(QUESTION, tools=tools)
        await stretto.ask(QUESTION, tools=tools, tool_choice="none")
    shown, hidden = (request.body for request in server.requests[-2:])
    assert shown["tools"] == tools
    assert not {"tools", "tool_choice"} & hidden.keys()


async def test_what_is_known_of_one_server_is_not_held_against_another():
    async with ScriptedServer(rejects=("seed",)) as strict, ScriptedServer() as lenient:
        for server in (strict, lenient):
            backend = OpenAIBackend("some-model", base_url=server.openai_url)
            async with AsyncStretto(backend) as stretto:
                await stretto.ask("Why?", strategy="direct", seed=1)
            await backend.aclose()
    assert lenient.requests[0].body["seed"] == 1


def test_what_is_kept_is_bounded():
    first = learned("openai", "http://first", "m")
    for number in range(MOST_KEPT):
        learned("openai", f"http://{number}", "m")
    assert learned("openai", "http://first", "m") is not first
    forget()


# --- what the router makes of it


async def test_the_router_knows_the_slots_of_the_server():
    async with (
        llamacpp(slots=1) as server,
        AsyncStretto("llamacpp:model.gguf", base_url=server.openai_url, settings=Settings()) as stretto,
    ):
        assert (await stretto.route(QUESTION, preference="fastest")).strategy == "skeleton"
        answer = await stretto.ask(QUESTION, preference="fastest")
    assert (answer.strategy, len(server.requests)) == ("direct", 1)
    assert answer.route.code == "busy"


async def test_the_router_knows_whether_a_long_prompt_is_read_again_for_each_section():
    prompt = [{"role": "system", "content": "You know bicycles. " * 2_000}, {"role": "user", "content": QUESTION}]
    found = {}
    for caching in (True, False):
        async with (
            vllm(caching=caching) as server,
            AsyncStretto(f"vllm:{MODEL}", base_url=server.openai_url, settings=Settings()) as stretto,
        ):
            await stretto.ask("Why?", strategy="direct")
            found[caching] = await stretto.route(prompt, preference="fastest")
    assert (found[True].strategy, found[False].strategy) == ("skeleton", "direct")
    assert found[False].code == "gain"


async def test_the_router_expects_drafts_to_speed_up_a_call_that_runs_alone():
    seconds = {}
    for speculation in (True, False):
        async with (
            vllm(speculation=speculation) as server,
            AsyncStretto(f"vllm:{MODEL}", base_url=server.openai_url, settings=Settings()) as stretto,
        ):
            await stretto.ask("Why?", strategy="direct")
            seconds[speculation] = (await stretto.route(QUESTION)).forecast["direct"].seconds
    assert seconds[True] < seconds[False]


async def test_a_prompt_that_fills_the_window_of_the_server_is_not_written_in_parts():
    async with (
        llamacpp(window=1_000) as server,
        AsyncStretto("llamacpp:model.gguf", base_url=server.openai_url, settings=Settings()) as stretto,
    ):
        prompt = [{"role": "system", "content": "You know bicycles. " * 300}, {"role": "user", "content": QUESTION}]
        answer = await stretto.ask(prompt, preference="fastest")
    assert answer.route.code == "window"


async def test_names_of_servers_stand_for_the_same_without_an_answer():
    async with ScriptedServer() as server:
        backend = open_backend("vllm:some-model", base_url=server.openai_url)
        assert (await hear(backend, asking())).text == "OK."
        await backend.aclose()
