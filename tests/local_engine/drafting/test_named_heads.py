"""`LocalBackend(head=FOLDER)`, as a user names a head: each kind drafts, and no answer changes with it."""

import pytest
from head_folders import write
from reading_heads import HEADS
from tiny_models import build

from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.anyio

ASKED = ModelRequest((Message(role="user", content="The bicycle needs oil, air and a dry place."),))


@pytest.fixture(scope="module")
def model(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    made = build("llama")
    made.lm_head.weight.data[len(tokenizer) :] = 0  # it writes tokens that have a text
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain(model):
    """What the model says without a head, greedily and by a seed; asked once."""
    said = {}

    async def plain(options):
        if not said:
            backend = LocalBackend(f"local:{model}", dtype="float32", device="cpu")
            for each in WAYS:
                said[each] = (await answer(backend, "autoregressive", WAYS[each]))[0]
            await backend.aclose()
        return said[options]

    return plain


WAYS = {"greedy": {"temperature": 0}, "seed": {"temperature": 1.0, "seed": 3}}


async def answer(backend, decoding, options):
    """The text of an answer, and how many tokens each source has drafted for it."""
    given = GenerationOptions(max_tokens=24, decoding=decoding, **options)
    async with backend.stream(ASKED, given) as chunks:
        found = [chunk async for chunk in chunks]
    assert not any("drafts no" in str(warning) for warning in found[-1].warnings)  # no drafter has failed
    return "".join(chunk.text for chunk in found), found[-1].decoding.drafted


@pytest.mark.parametrize("kind", HEADS)
async def test_a_head_that_is_named_drafts_for_its_model(kind, model, plain, tmp_path):
    backend = LocalBackend(
        f"local:{model}", dtype="float32", device="cpu", head=write(tmp_path / "its head", *HEADS[kind]())
    )
    try:
        drafts = 0
        for way, options in WAYS.items():
            for _ in range(5):  # it rests where the machine was busy in its first step
                text, drafted = await answer(backend, "head", options)
                assert text == await plain(way)
                drafts += drafted.get("head", 0)
                if drafts:
                    break
            assert (await answer(backend, "auto", options))[0] == text
        assert drafts
    finally:
        await backend.aclose()
