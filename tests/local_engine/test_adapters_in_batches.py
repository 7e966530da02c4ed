"""Adapters beside the weights: requests with different ones, and with none, run in one batch and change nothing."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from asking import PROMPTS, tokens
from test_compiled_model import TEXTS, TREES, sharing
from tiny_models import SIZES, build
from transformers import LlamaConfig, LlamaForCausalLM

from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.thread_team import share
from stretto.local_engine.model.adapters.attached_lora import attach_lora
from stretto.local_engine.model.adapters.lora import LoraAdapter, LoraDelta
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward import compiled
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.loading.load import load_model, prepare
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import InvalidRequestError, SettingsError

ADAPTERS = [None, "lora", "dora", "lora", None]
FOUR_BITS = pytest.param("four bits", marks=pytest.mark.thorough)  # forty seconds of compiling
WAYS = ["compiled", FOUR_BITS, "torch", "phi3 longrope"]
DRAFTED = ("lookahead", "suffix", "lookahead", "suffix", "autoregressive")


def change(outer, inner, *, lengths):
    magnitude = 0.5 + torch.rand(outer) if lengths else None
    return LoraDelta(torch.randn(3, inner) / 2, torch.randn(outer, 3), magnitude)


def adapter(model, folder, *, lengths):
    """Changes of all linear layers but one: some products are changed in part."""
    torch.manual_seed(len(folder) + lengths)
    names = {name: each for name, each in model.named_parameters() if "proj.weight" in name and "k_proj" not in name}
    changes = {name.removesuffix(".weight"): change(*each.shape, lengths=lengths) for name, each in names.items()}
    return LoraAdapter(folder, changes)


@pytest.fixture(scope="module")
def ready(tokenizer, tmp_path_factory):
    """A model by the way it runs, and its two adapters."""
    made = {}

    def get(way):
        if way not in made:
            name = way if way == "phi3 longrope" else "llama"
            model = build(name)
            adapters = {each: adapter(model, each, lengths=each == "dora") for each in ("lora", "dora")}
            if way == "four bits":
                torch.manual_seed(5)
                model = LlamaForCausalLM(LlamaConfig(**SIZES | {"intermediate_size": 96}))
                adapters = {each: adapter(model, each, lengths=each == "dora") for each in ("lora", "dora")}
                folder = tmp_path_factory.mktemp("model")
                model.save_pretrained(folder)
                tokenizer.save_pretrained(folder)
                loaded = load_model(find_source(f"local:{folder}"), compiled=True, quantize="int4")
            else:
                loaded = prepare("local:model", model, tokenizer, compiled=way != "torch")
            made[way] = loaded, adapters
        return made[way]

    return get


def engine_with(start, ready, way, **options):
    model, adapters = ready(way)
    engine = start(model, **options)
    for name, each in adapters.items():
        engine.attach_lora(name, each)
    return engine


def requests(methods):
    all_of = zip(PROMPTS, ADAPTERS, methods, strict=True)
    return [Generation(prompt, 14 + 2 * len(prompt) % 7, adapter=name, decoding=way) for prompt, name, way in all_of]


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_several_adapters_gives_each_the_tokens_it_gives_alone(way, ready, start):
    engine = engine_with(start, ready, way)
    plain = ("autoregressive",) * len(ADAPTERS)
    alone = [tokens(engine.submit(each)) for each in requests(plain)]
    assert alone[1] != tokens(engine.submit(replace(requests(plain)[1], adapter=None)))
    for methods in (plain, DRAFTED):
        with engine.announced():
            handles = [engine.submit(each, watched=True) for each in requests(methods)]
        assert [tokens(handle) for handle in handles] == alone
        assert max(batch.requests for batch in handles[0].batches) == len(ADAPTERS)


@pytest.mark.parametrize("way", ["compiled", FOUR_BITS])
def test_compiled_code_runs_adapters_and_a_row_has_the_same_bits_beside_any_others(way, ready):
    model, adapters = ready(way)
    forward = model.forward
    with torch.inference_mode():
        for name, each in adapters.items():
            assert attach_lora(model, name, each) is forward
        assert compile_now(forward.lora_parts)
        forward.look_for_code()
        assert forward._changes_compiled
        names = ("dora", None, "lora")
        with sharing(3):
            together = logits_of(forward, TEXTS, TREES, names)
        for number, name in enumerate(names):
            (alone,) = logits_of(forward, [TEXTS[number]], [TREES[number]], (name,))
            assert torch.equal(together[number], alone)
        plain = logits_of(forward, TEXTS, TREES, None)
        assert torch.equal(together[1], plain[1])
        forward._changes_compiled = False
        in_torch = logits_of(forward, TEXTS, TREES, names)
    assert all((one - other).abs().max() < 1e-2 * other.std() for one, other in zip(together, in_torch, strict=True))


def test_a_step_keeps_what_it_reads_while_another_adapter_is_kept_beside(ready, monkeypatch):
    model, adapters = ready("compiled")
    forward = model.forward

    def in_the_middle(*work):
        for number in range(2):  # as another thread may, in the middle of a step
            attach_lora(model, f"other {number}", adapters["dora"])
        fills = [np.full(1 + size, np.nan, np.float32) for size in range(256) for _ in range(8)]  # memory that is free
        share(*work)
        assert fills

    with torch.inference_mode():
        attach_lora(model, "lora", adapters["lora"])
        assert compile_now(forward.lora_parts)
        forward.look_for_code()
        expected = logits_of(forward, TEXTS, TREES, ("lora",) * 3)
        monkeypatch.setattr(compiled, "share", in_the_middle)
        found = logits_of(forward, TEXTS, TREES, ("lora",) * 3)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def logits_of(forward, texts, trees, names):
    """Those of the trees behind some texts, in one forward."""
    joined = KeyValueCache(0)
    for number, text in enumerate(texts):
        cache, before = KeyValueCache(1), len(text) - 1
        own = None if names is None or names[number] is None else (names[number],)
        rows = Rows(torch.tensor([text[:-1]]), torch.arange(before)[None], before, adapters=own)
        forward(rows, cache, torch.tensor([0]))
        joined.join(cache)
    rows = replace(flatten(texts, trees, torch.device("cpu")), adapters=names)
    logits = forward(rows, joined, torch.arange(rows.tokens.shape[1]))
    return [logits[number, : 1 + len(tree)] for number, tree in enumerate(trees)]


@pytest.mark.parametrize("name", ["phi3", "gemma3"])
def test_the_lean_forward_adds_to_other_layers_what_is_added_in_transformers_code(name):
    model, ids = build(name).eval(), torch.tensor([TEXTS[0]])
    own, count, found = adapter(model, "dora", lengths=True), ids.shape[1], []
    with torch.inference_mode():
        for forward in (LlamaForward(model), TransformersForward(model)):
            attach_lora(SimpleNamespace(forward=forward, name=name), "dora", own)
            rows = Rows(ids, torch.arange(count)[None], count, adapters=("dora",))
            found.append(forward(rows, KeyValueCache(1), torch.arange(count)))
        plain = model(ids).logits
    assert (found[0] - found[1]).abs().max() < 1e-4 * plain.std()
    assert (found[0] - plain).abs().max() > plain.std()


def test_an_output_layer_is_changed_beside_in_transformers_code_where_its_own_weight_comes_along():
    model, ids = build("qwen3").eval(), torch.tensor([TEXTS[0]])
    torch.manual_seed(3)
    weight, own = model.lm_head.weight, change(*model.lm_head.weight.shape, lengths=True)
    forward, count = TransformersForward(model), ids.shape[1]
    rows = Rows(ids, torch.arange(count)[None], count, adapters=("last",))
    with torch.inference_mode():
        brought = LoraAdapter("last", {"lm_head": own}, {"lm_head.weight": weight.clone()})
        attach_lora(SimpleNamespace(forward=forward, name="qwen3"), "last", brought)
        beside = forward(rows, KeyValueCache(1), torch.arange(count))
        other = LoraAdapter("other", {"lm_head": own}, {"lm_head.weight": weight + 1})
        with pytest.raises(SettingsError, match=r"changes lm_head\.weight, which cannot be attached to qwen3"):
            attach_lora(SimpleNamespace(forward=forward, name="qwen3"), "other", other)
        brought.merge(dict(model.named_parameters()))
        expected = model(ids).logits
    torch.testing.assert_close(beside, expected, rtol=1e-4, atol=1e-4)


def test_what_is_known_of_a_prompt_is_known_for_its_adapter_only(ready, start):
    engine = engine_with(start, ready, "compiled", prefix_cache_bytes=2**24)
    cached = []
    for name in (None, "lora", "dora", None, "lora", "dora"):
        handle = engine.submit(Generation(PROMPTS[0], 4, adapter=name))
        tokens(handle)
        cached.append(handle.sequence.cached)
    assert cached == [0, 0, 0, *[len(PROMPTS[0]) - 1] * 3]
    with engine.announced():  # what is read together is not copied either
        handles = [engine.submit(Generation(PROMPTS[1], 4, adapter=name)) for name in ("lora", "dora")]
    assert [len(tokens(handle)) and handle.sequence.cached for handle in handles] == [30, 30]


def test_an_adapter_that_was_not_loaded_is_refused(ready, start):
    with pytest.raises(InvalidRequestError, match="has no adapter 'law'"):
        start(ready("compiled")[0]).submit(Generation((5,), 1, adapter="law"))
