"""Tied embeddings are held once, and a model that is loaded lets go of weights that are packed, but gets them back."""

import sys
from pathlib import Path

import pytest
import torch
from tiny_models import SIZES
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.panels import Layout, Panels
from stretto.local_engine.kernels.sizes import PAIRS
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading import numerics_check
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.numerics_check import choose_forward
from stretto.local_engine.model.loading.source import find_source

IDS = torch.arange(5, 25)[None]


def tied(dtype=torch.float32, kind=LlamaForCausalLM, config=LlamaConfig):
    torch.manual_seed(3)
    model = kind(config(**SIZES, tie_word_embeddings=True)).eval().requires_grad_(False)
    return model.to(dtype)


def packed(model):
    """Its forward, packed; the model is let go of its weights."""
    forward = LlamaForward(model)
    assert compile_now(forward.parts())
    forward.pack(model)
    return forward


def logits(forward):
    with torch.inference_mode():
        return forward(Rows(IDS, torch.arange(20)[None], 20), KeyValueCache(1), torch.arange(20)).float()


def said(model):
    with torch.inference_mode():
        return model(IDS, use_cache=False).logits.float()


def rounding_rows(model):
    """The model with rows rounded to bfloat16 before each product."""
    for part in model.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_pre_hook(lambda _, given: (given[0].bfloat16().float(),))
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("paired", [False, True])
def test_rows_of_panels_are_the_rows_of_the_weight(dtype, paired):
    weight = torch.randn(37, 24).to(dtype)
    panels = Panels.of(weight, Layout(dtype, paired and dtype == torch.bfloat16))
    numbers = torch.tensor([[0, 36, 15], [16, 17, 3]])
    assert torch.equal(panels.rows(numbers), weight[numbers].float())
    assert torch.equal(panels.dense(dtype), weight)


@pytest.mark.thorough
@pytest.mark.parametrize("published", [torch.float32, torch.bfloat16, torch.float16])
def test_a_tied_embedding_is_read_from_the_panels_of_the_last_product(published):
    model = tied(published).float()
    expected = said(model)
    forward = packed(model)
    assert forward.weights.embedding is forward.weights.vocabulary
    assert isinstance(forward.weights.vocabulary, Panels)
    assert forward.weights.vocabulary.held.dtype == published
    assert forward.is_exact  # the compiled forward runs it
    assert (logits(forward) - expected).abs().max() < 1e-4 * expected.std()
    tokens = torch.tensor([3, 399])
    assert torch.equal(forward.read_in(tokens), tied(published).float().lm_head.weight[tokens])


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)],  # its code is compiled for it
)
def test_a_tied_embedding_in_half_precision_too(dtype):
    forward = packed(tied(dtype))
    assert forward.weights.embedding is forward.weights.vocabulary
    exact = tied(dtype).float()
    # A processor that multiplies pairs of bfloat16 is given rows in bfloat16.
    expected = said(rounding_rows(exact) if forward.weights.vocabulary.layout == PAIRS else exact)
    assert (logits(forward) - expected).abs().max() < 1e-4 * expected.std()


@pytest.mark.parametrize(("kind", "config"), [(LlamaForCausalLM, LlamaConfig), (Qwen2ForCausalLM, Qwen2Config)])
def test_what_was_packed_can_be_unpacked_to_the_bit(kind, config):
    model = tied(kind=kind, config=config)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    forward = packed(model)
    assert model.lm_head.weight.numel() == model.model.layers[0].mlp.down_proj.weight.numel() == 0
    forward.unpack(model)
    after = model.state_dict()
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert not forward.is_packed
    assert (logits(forward) - said(model)).abs().max() < 1e-4


def test_a_model_whose_packed_weights_disagree_runs_as_it_was(monkeypatch, caplog):
    model, gaps = tied(), [7.0]
    expected = said(model)
    real = numerics_check.disagreement
    monkeypatch.setattr(numerics_check, "disagreement", lambda *given: gaps.pop() if gaps else real(*given))
    forward = choose_forward("local:tied", model, packed=True, owned=True)
    assert "packed weights are not used: logits are off by 7 standard deviations" in caplog.text
    assert not forward.is_packed
    assert (logits(forward) - expected).abs().max() < 1e-4 * expected.std()
    assert torch.equal(said(model), expected)


def test_a_model_of_somebody_else_keeps_its_weights():
    model = tied()
    expected = said(model)
    choose_forward("local:tied", model, packed=True)
    assert torch.equal(said(model), expected)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mapped files are listed in /proc")
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_file_of_a_loaded_model_is_not_kept_in_memory(dtype, is_tied, packed, tokenizer, tmp_path):
    torch.manual_seed(3)
    config = LlamaConfig(**SIZES, tie_word_embeddings=is_tied)
    LlamaForCausalLM(config).to(dtype).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load_model(find_source(str(tmp_path)), dtype=str(dtype).removeprefix("torch."), packed=packed)
    assert model.forward.is_packed == packed
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
