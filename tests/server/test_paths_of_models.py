"""A model that is a file of this machine is named by its name, not by its path."""

import pytest
from live_server import serving

from stretto import AsyncStretto, BackendError
from stretto.local import LocalBackend
from stretto.local_engine.model.loading.loading_progress import timed_loading
from stretto.local_engine.serving.request_progress import Wait, report_waits_of
from stretto.server.limits.keys import Holder, Keyring
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

POINTS = "1. **One**\n2. **Two**\n3. **Three**"


@pytest.fixture
def places(tmp_path):
    found = [tmp_path / "sécret" / "a" / "model.gguf", tmp_path / "sécret" / "b" / "model.gguf"]
    for each in found:
        each.parent.mkdir(parents=True)
        each.touch()
    return found


def backend(place, reply="Hello."):
    return ScriptedBackend({"": reply}, name=f"local:{place}")


def paths_in(text):
    return [word for word in ("sécret", "s\\u00e9cret", "/a/", "/b/") if word in text]


async def test_no_answer_of_a_server_holds_the_path_of_its_model(places):
    main, small = (backend(place) for place in places)
    async with AsyncStretto(main, roles={"small": small}) as client, serving(client) as live, live.http() as http:
        listed = await http.get("/v1/models")
        names = [each["id"] for each in listed.json()["data"]]
        assert {"local:model.gguf", "local:model-2.gguf", "stretto:local:model.gguf"} <= set(names)
        body = {"messages": [{"role": "user", "content": "How do I look after a bicycle?"}]}
        events = {"stream": True, "stretto": {"events": True}}
        for name in ("stretto", "local:model.gguf", "local:model-2.gguf", f"local:{places[0]}", "stretto-skeleton"):
            for more in ({}, events):
                answer = await http.post("/v1/chat/completions", json={**body, "model": name, **more})
                assert answer.status_code == 200
                assert not paths_in(answer.text)
                assert not paths_in(str(answer.headers))
        for path in ("/v1/models", "/v1/models/local:model.gguf", "/metrics", "/"):
            assert not paths_in((await http.get(path)).text)
        said = await http.post("/v1/chat/completions", json={**body, "model": "local:model.gguf"})
        assert said.json()["model"] == "local:model.gguf"
        route = await http.post("/v1/route", json={**body, "model": "stretto"})
        assert not paths_in(route.text)
        lost = await http.post("/v1/messages", json={**body, "model": f"local:{places[0]}x", "max_tokens": 9})
        assert lost.status_code == 404


async def test_failures_and_warnings_of_a_model_do_not_tell_where_it_is(places):
    place = places[0]
    failing = backend(
        place, Reply("", fault=BackendError(f"The file '{place}' is damaged; local:{place} cannot go on."))
    )
    async with AsyncStretto(failing) as client, serving(client) as live, live.http() as http:
        body = {"model": "stretto", "messages": [{"role": "user", "content": "Why?"}]}
        for more in ({}, {"stream": True, "stretto": {"events": True}}):
            answer = await http.post("/v1/chat/completions", json={**body, **more})
            assert "The file 'model.gguf' is damaged; local:model.gguf cannot go on." in answer.text
            assert not paths_in(answer.text)


@pytest.mark.parametrize(
    "kind",
    ["draft_corpus", "adapter", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("adapters", "head"))],
)
async def test_failures_of_what_a_model_is_loaded_with_do_not_tell_where_that_is(tmp_path, kind):
    place = tmp_path / "sécret" / "notes"
    place.mkdir(parents=True)
    (place / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 4, "lora_alpha": 8}')
    (place / "config.json").write_text("{}")
    for name in ("model.safetensors", "adapter_model.safetensors"):
        (place / name).write_bytes(b"\xff")
    given = {"draft_corpus": [place / "model.safetensors"], "adapters": {"a": place}}.get(kind, place)
    backend = LocalBackend("local:pocket", **{kind: given})
    async with AsyncStretto(backend) as client, serving(client) as live, live.http() as http:
        more = {"strategy": "direct"} | ({"adapter": "a"} if kind == "adapters" else {})
        body = {"model": "stretto", "messages": [{"role": "user", "content": "Why?"}], "stretto": more}
        answer = await http.post("/v1/chat/completions", json=body)
    await backend.aclose()
    assert answer.status_code >= 400
    assert "notes" in answer.text or "model.safetensors" in answer.text
    assert not paths_in(answer.text)


async def test_text_of_a_model_and_names_of_the_hub_stay_as_they_are(places):
    said = "and/or org/name local:other"
    hub = ScriptedBackend({"": said}, name="local:org/name")
    async with AsyncStretto(hub) as client, serving(client) as live, live.http() as http:
        body = {"model": "local:org/name", "messages": [{"role": "user", "content": "Why?"}]}
        answer = (await http.post("/v1/chat/completions", json=body)).json()
    assert answer["choices"][0]["message"]["content"] == said
    assert answer["model"] == answer["stretto"]["route"]["backend"] == "local:org/name"


async def test_an_address_that_holds_the_path_of_a_model_stays_as_it_is(places):
    place = places[0]
    said = f"Read https://example.org{place} and {place}s.\n{place}/config.json is damaged."
    async with AsyncStretto(backend(place, said)) as client, serving(client) as live, live.http() as http:
        body = {"model": "local:model.gguf", "messages": [{"role": "user", "content": "Why?"}]}
        answer = (await http.post("/v1/chat/completions", json=body)).json()
    shown = f"Read https://example.org{place} and {place}s.\nmodel.gguf/config.json is damaged."
    assert answer["choices"][0]["message"]["content"] == shown


async def test_health_tells_whether_models_are_still_being_loaded(places):
    async with AsyncStretto(backend(places[0])) as client, serving(client) as live, live.http() as http:
        assert (await http.get("/health")).json() == {"status": "ok", "prepared": True}
        live.service.prepared = False
        assert (await http.get("/health")).json() == {"status": "ok", "prepared": False}
        with timed_loading("local:model.gguf", "a file that nobody has loaded"):
            told = (await http.get("/health")).json()
            assert told["loading"].startswith("importing libraries (")
        assert (await http.get("/ready")).status_code == 503


class Reads:
    """An engine whose request is being read."""

    def waits(self):
        return Wait(-60.0, "reading the prompt, 512 of 1,000 tokens")


@pytest.mark.parametrize("keys", [(), ("mine",)])
async def test_health_tells_what_requests_wait_for_where_there_are_no_keys(places, keys):
    engine = Reads()
    report_waits_of("local:model.gguf", engine)
    async with AsyncStretto(backend(places[0])) as client, serving(client) as live, live.http() as http:
        live.service.keyring = Keyring({key.encode(): Holder(key) for key in keys})
        told = (await http.get("/health")).json()
    assert told.get("waiting") == (None if keys else "reading the prompt, 512 of 1,000 tokens")
