"""Adapters, heads and drafts that come and go while others are at work: every answer is the one given alone."""

import json
import random
from contextlib import asynccontextmanager
from itertools import cycle

import anyio
import pytest
import torch
from head_folders import eagle3, medusa
from head_folders import write as write_head
from safetensors.torch import save_file
from tiny_models import SIZES, VOCABULARY
from transformers import LlamaConfig, LlamaForCausalLM

from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.anyio

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LONG = "".join(f"{number * number}; " for number in range(250))  # some 1,400 tokens, read in three forwards
TOKENS = 16


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """A model that compiled code runs, whose window holds long prompts."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(5)
    model = LlamaForCausalLM(LlamaConfig(**SIZES | {"max_position_embeddings": 2048, "eos_token_id": None}))
    model.lm_head.weight.data[len(tokenizer) :] = 0  # it writes tokens that have a text
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def adapters(folder, tmp_path_factory):
    """Folders as peft saves them, by name; ranks differ, and every third one sets lengths (DoRA)."""
    model = LlamaForCausalLM.from_pretrained(folder)
    return {f"a{number}": save_adapter(tmp_path_factory.mktemp("adapter"), model, number) for number in range(6)}


def save_adapter(folder, model, number):
    rank, lengths = (48, 16, 48, 9)[number % 4], number % 4 == 3
    generator, tensors = torch.Generator().manual_seed(number), {}

    def drawn(*shape):
        return torch.randn(*shape, generator=generator) / 6

    for name, weight in model.named_parameters():
        module = name.removesuffix(".weight")
        if module.rpartition(".")[2] in MODULES:
            key = f"base_model.model.{module}"
            tensors[f"{key}.lora_A.weight"] = drawn(rank, weight.shape[1])
            tensors[f"{key}.lora_B.weight"] = drawn(weight.shape[0], rank)
            if lengths:
                tensors[f"{key}.lora_magnitude_vector"] = weight.norm(dim=1) * (1 + drawn(weight.shape[0]))
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": rank, "use_dora": lengths, "target_modules": [*MODULES]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


@asynccontextmanager
async def opened(folder, **options):
    backend = LocalBackend(f"local:{folder}", dtype="float32", device="cpu", **options)
    try:
        yield backend
    finally:
        with anyio.CancelScope(shield=True):
            await backend.aclose()


async def answer(backend, adapter, question=LONG, decoding="autoregressive", most=2**20):
    """The text of an answer, or of its first chunks."""
    asked = ModelRequest((Message(role="user", content=question),))
    given = GenerationOptions(adapter=adapter, max_tokens=TOKENS, temperature=0, decoding=decoding)
    text = ""
    async with backend.stream(asked, given) as chunks:
        async for chunk in chunks:
            text += chunk.text
            most -= 1
            if not most:
                break
    return text


async def alone(folder, adapters, questions):
    """What each adapter says where it is the only one: no other is read before the end of an answer."""
    said = {}
    for name in adapters:
        chosen = {} if name is None else {"adapters": {name: adapters[name]}}
        async with opened(folder, prefix_cache_bytes=0, **chosen) as backend:
            for question in questions:
                said[name, question] = await answer(backend, name, question)
    return said


@pytest.mark.thorough
async def test_adapters_that_are_read_leave_a_running_answer_as_it_is(folder, adapters):
    expected, found = (await alone(folder, {"a0": adapters["a0"]}, [LONG]))["a0", LONG], []
    async with opened(folder, adapters=adapters) as backend:

        async def ask(name):
            found.append((name, await answer(backend, name)))

        async with anyio.create_task_group() as group:
            for name in adapters:  # the others are read while the prompt of the first one is
                group.start_soon(ask, name)
        assert dict(found)["a0"] == expected
        assert await answer(backend, "a0") == expected  # nothing wrong is known of its prompt


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2))
async def test_all_answers_stay_the_same_while_everything_comes_and_goes(seed, folder, adapters, tmp_path):
    chance = random.Random(seed)  # noqa: S311 - no secret
    questions = [LONG, "How do I oil a chain?", "Why? " * 60]
    expected = await alone(folder, {None: None, **adapters}, questions)
    heads = {"eagle3": eagle3(words=torch.arange(5, VOCABULARY, 2)), "medusa": medusa()}
    own = {kind: {"head": write_head(tmp_path / kind, *each)} for kind, each in heads.items()}
    kinds = cycle([{}, own["eagle3"], {"draft": f"local:{folder}"}, own["medusa"]])
    methods = {"head": ["head", "auto"], "draft": ["draft_model", "auto"]}
    answered = []

    async def ask(backend, options, name, question, most):
        await anyio.sleep(chance.random() / 4)  # so that they meet at other moments of a step each time
        method = chance.choice(["autoregressive", "suffix", *methods.get([*options, ""][0], [])])
        text = await answer(backend, name, question, method, most)
        whole = expected[name, question]
        assert text == whole if most > TOKENS else whole.startswith(text)
        answered.append(method)

    async def serve(options):
        some = dict(chance.sample([*adapters.items()], 5))
        async with opened(folder, adapters=some, **options) as backend, anyio.create_task_group() as group:
            for name in (None, *some, *some, *some):
                group.start_soon(
                    ask, backend, options, name, chance.choice(questions), chance.choice([2**20, 2**20, 3])
                )

    async with anyio.create_task_group() as group:  # two backends at a time, and each pair behind the one before
        for start in range(2):
            group.start_soon(serve, next(kinds))
            await anyio.sleep(start / 10)
    for _ in range(4):
        await serve(next(kinds))
    assert len(answered) == 6 * 16
