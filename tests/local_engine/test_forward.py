from dataclasses import replace

import pytest
import torch
from tiny_models import SIZES, VOCABULARY, build
from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.segments import parts
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.model.loading.numerics_check import Expected, disagreement
from stretto.values.errors import BackendError


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


def packed(model):
    """Its weights laid out for compiled code, where that is used."""
    forward = LlamaForward(model)
    assert compile_now(forward.parts())
    forward.pack()
    return forward


def family_member(name):
    if name == "llama3 rope":
        rope = {
            "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
        }  # fmt: skip
        return LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope)).eval()
    if name == "yarn rope":
        rope = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 64}
        return LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope)).eval()
    if name == "llama with biases":
        model = LlamaForCausalLM(LlamaConfig(**SIZES, attention_bias=True)).eval()
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        return model
    model = build(name).eval()
    for parameter_name, parameter in model.named_parameters():
        if name == "gemma3" and "norm" in parameter_name:  # all are 0 when it is made, and one number more when it runs
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return model


FAMILY = ["llama", "llama3 rope", "yarn rope", "llama with biases", "mistral", "qwen2", "qwen3", "qwen3 sliding"]
FAMILY += ["phi3", "gemma3"]


@pytest.mark.parametrize("name", FAMILY)
def test_the_lean_forward_gives_the_logits_of_transformers(name):
    model = family_member(name)
    assert is_llama_like(model)
    ids = torch.randint(0, VOCABULARY, (2, 40), generator=torch.Generator().manual_seed(2))
    expected = model(ids).logits
    lean, cache = LlamaForward(model), KeyValueCache(2)
    positions, got = torch.arange(40).expand(2, 40), []
    for start, stop in ((0, 20), (20, 33), *((i, i + 1) for i in range(33, 40))):
        rows = Rows(ids[:, start:stop], positions[:, start:stop], stop)
        got.append(lean(rows, cache, torch.arange(stop - start)))
    assert (torch.cat(got, 1) - expected).abs().max() < 1e-4 * expected.std()


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3 sliding", "gemma3"])
def test_a_long_prompt_read_in_parts_gives_the_logits_of_transformers(name):
    model = family_member(name)
    ids = torch.randint(0, VOCABULARY, (1, 300), generator=torch.Generator().manual_seed(2))
    expected = model(ids).logits
    lean, cache, positions, got = LlamaForward(model), KeyValueCache(1), torch.arange(300)[None], []
    for start, stop in ((0, 20), (20, 299), (299, 300)):
        divided = parts([slice(0, stop - start)], [stop])
        rows = Rows(ids[:, start:stop], positions[:, start:stop], stop, segments=divided)
        got.append(lean(rows, cache, torch.arange(stop - start)))
    assert len(parts([slice(0, 279)], [299])) == 3
    assert (torch.cat(got, 1) - expected).abs().max() < 1e-4 * expected.std()


@pytest.mark.parametrize("name", ["llama", "qwen3 sliding"])
def test_leaving_padding_out_changes_neither_logits_nor_what_is_written(name):
    lean, texts, trees = LlamaForward(build(name).eval()), [[*range(5, 25)], [*range(40, 70)], [9] * 20], []
    for size in (9, 0, 2):
        trees.append(DraftTree())
        for token in range(size):
            trees[-1].add(token, token // 2 - 1)
    positions, results = torch.arange(29).expand(3, 29), []
    rows = flatten(texts, trees, torch.device("cpu"))
    assert rows.real.tolist() == [*range(10), 10, 20, 21, 22]
    for step in (rows, replace(rows, segments=None), replace(rows, real=None, segments=None)):
        cache = KeyValueCache(3)
        lean(Rows(torch.tensor([(text * 2)[:29] for text in texts]), positions, 29), cache, torch.tensor([0]))
        logits = lean(step, cache, torch.arange(10)).flatten(0, 1)[rows.real]
        slots = rows.slots.reshape(-1)[rows.real]
        results.append((logits, torch.stack([keys[rows.real // 10, slots] for keys in cache._keys])))
    for divided, packed, padded in zip(*results, strict=True):
        assert torch.allclose(divided, padded, atol=1e-4)
        assert torch.allclose(packed, padded, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_sequences_of_different_lengths_do_not_see_each_other(name):
    model = build(name).eval()
    forward = LlamaForward(model) if is_llama_like(model) else TransformersForward(model)
    ids = torch.randint(0, VOCABULARY, (2, 20), generator=torch.Generator().manual_seed(3))
    cache, keep = KeyValueCache(2), torch.tensor([0])
    forward(Rows(ids[:, :15], torch.arange(15).expand(2, 15), 15), cache, keep)
    # The second sequence goes on from its tenth token: what stood in its slots beyond is forgotten.
    rows = Rows(torch.stack((ids[0, 15:16], ids[1, 15:16])), torch.tensor([[15], [10]]), 16)
    got = forward(rows, cache, keep)[:, 0]
    expected = model(ids[:1, :16]).logits[0, -1], model(torch.cat((ids[1:, :10], ids[1:, 15:16]), 1)).logits[0, -1]
    assert (got - torch.stack(expected)).abs().max() < 1e-4 * got.std()


def test_the_lean_forward_shares_its_weights_with_the_model():
    model = build("llama").eval()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    lean = LlamaForward(model)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    model.model.layers[0].self_attn.k_proj.weight.data.add_(1)
    model.model.layers[1].mlp.up_proj.weight.data.add_(1)
    assert disagreement(Expected.of(model), lean) < 1e-4


def test_a_model_with_a_recurrent_state_is_refused_with_its_name(tokenizer):
    model = MambaForCausalLM(MambaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=2))
    # Before transformers 5.14 the model does not name the kind of its layers, and is found out by its logits.
    words = (
        "local:odd cannot be run by the local engine: "
        "(layers of the kind 'linear_attention' keep a state other|with a cache and a mask MambaForCausalLM gives)"
    )
    with torch.inference_mode(False), pytest.raises(BackendError, match=words):
        prepare("local:odd", model, tokenizer)


def test_a_cache_grows_without_losing_what_it_holds():
    cache, width = KeyValueCache(3), 4
    written = torch.randn(3, 300, 2, width)
    for start in range(0, 300, 30):
        positions = torch.arange(start, start + 30).expand(3, -1)
        cache.begin(Rows(positions, positions, start + 30))
        part = written[:, start : start + 30]
        keys, values = cache.write(0, part, -part)
    assert torch.equal(keys, written)
    assert torch.equal(values, -written)
    cache.keep([2, 0])
    positions = torch.tensor([[300], [10]])
    cache.begin(Rows(positions, positions, 301))
    keys, _ = cache.write(0, torch.ones(2, 1, 2, width), torch.ones(2, 1, 2, width))
    assert torch.equal(keys[0, :300], written[2])
    assert torch.equal(keys[1, 11:300], written[0, 11:])
    assert (keys[0, 300] == 1).all()
    assert (keys[1, 10] == 1).all()


def test_a_window_hides_all_but_the_last_tokens():
    positions = torch.tensor([[3, 4]])
    mask = Rows(positions, positions, 6).mask(torch.float32, window=2)
    assert mask[0, 0].isinf().tolist() == [
        [True, True, False, False, True, True],
        [True, True, True, False, False, True],
    ]


@pytest.mark.parametrize("name", ["llama", "llama with biases", "qwen3"])
def test_weights_that_torch_packs_give_the_same_logits(name, monkeypatch):
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: True)
    monkeypatch.setattr("stretto.local_engine.model.forward.llama_weights._SMALL", 1)
    model = family_member(name).bfloat16()
    plain, fast = LlamaForward(model), packed(model)
    assert fast.dtype == torch.bfloat16
    tokens = torch.randint(0, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(5))
    rows = Rows(tokens, torch.arange(9).expand(2, -1), 9)
    expected, found = (forward(rows, KeyValueCache(2), torch.arange(9)) for forward in (plain, fast))
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", ["llama", "llama with biases", "qwen3"])
def test_float32_weights_of_a_model_published_in_half_precision_are_held_in_it_and_give_the_same_logits(name):
    model = family_member(name).bfloat16().float()
    plain, fast = LlamaForward(model), packed(model)
    weights = [weight for layer in fast.weights.layers for weight in layer.products.values()]
    assert all(isinstance(weight, Panels) and weight.held.dtype == torch.bfloat16 for weight in weights)
    tokens = torch.randint(0, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(5))
    rows = Rows(tokens, torch.arange(9).expand(2, -1), 9)
    expected, found = (forward(rows, KeyValueCache(2), torch.arange(9)) for forward in (plain, fast))
    assert (found - expected).abs().max() < 1e-5 * expected.std()
