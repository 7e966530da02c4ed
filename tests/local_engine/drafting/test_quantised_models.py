"""Models whose weights are held in few bits."""

import logging

import pytest
import torch
from corners import corners
from gguf_files import write_gguf
from one_batch import run
from tiny_models import SIZES
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from stretto.errors import SettingsError
from stretto.local import LocalBackend
from stretto.local_engine.drafting.autoregressive import Autoregressive
from stretto.local_engine.drafting.catalogue import METHODS, DraftEquipment, make_drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.quantised.blocks import Blocks
from stretto.local_engine.model.rows import Rows
from stretto.local_engine.model.source import find_source

WHOLE = SIZES | {"intermediate_size": 96}
DRAFTED = sorted(
    name for name, method in METHODS.items() if name != "autoregressive" and not (method.adapter or method.missing)
)
START = [(11 * place + 3) % 390 + 5 for place in range(9)]
PROMPTS = [(*START * 3, 12), (7, 8, 9), (*START, 5, 6, *START, 5)]
FREE = StepCost({1: 10.0, 128: 10.1})
KINDS = {
    "phi3": ((Phi3ForCausalLM, Phi3Config), {}),
    "qwen3": ((Qwen3ForCausalLM, Qwen3Config), {}),
    "gemma3": ((Gemma3ForCausalLM, Gemma3TextConfig), {"sliding_window": 12, "query_pre_attn_scalar": 16}),
}


def made(kind, config, **more):
    torch.manual_seed(5)
    return kind(config(**WHOLE, **more)).eval()


def load(path, **options):
    return load_model(find_source(f"local:{path}"), compiled=True, **options)


def is_in_blocks(model):
    return isinstance(model.forward.vocabulary, Blocks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer):
    path = tmp_path_factory.mktemp("model") / "llama"
    made(LlamaForCausalLM, LlamaConfig).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def in_four_bits(folder):
    return load(folder, quantize="int4")


@pytest.fixture(scope="module")
def plain(in_four_bits):
    """What one token at a time gives."""
    requests = [Generation(prompt, 22 + 9 * number) for number, prompt in enumerate(PROMPTS)]
    return requests, [run(in_four_bits, [request], [Autoregressive()])[0][0] for request in requests]


@pytest.mark.parametrize("method", DRAFTED)
def test_drafts_change_no_token_alone_and_in_a_batch(method, in_four_bits, plain):
    requests, expected = plain

    def drafter():
        return make_drafter(method, DraftEquipment(cost=FREE, model=in_four_bits, draft=in_four_bits))

    assert run(in_four_bits, requests[2:], [drafter()])[0] == expected[2:]
    assert run(in_four_bits, requests, [drafter() for _ in requests])[0] == expected


def logits(loaded):
    """Those behind each token of a prompt."""
    ids = torch.tensor([PROMPTS[0]])
    count = ids.shape[1]
    with torch.inference_mode():
        return loaded.forward(Rows(ids, torch.arange(count)[None], count), KeyValueCache(1), torch.arange(count))


def gap(left, right):
    """The usual difference, in standard deviations."""
    return float((left - right).square().mean().sqrt() / right.std())


def test_rounded_weights_give_nearly_the_logits_of_the_model(folder):
    quantised = [load(folder, quantize=how) for how in ("int8", "int4")]
    assert all(is_in_blocks(each) and each.is_exact for each in quantised)
    exact = logits(load(folder))
    eight, four = (gap(logits(each), exact) for each in quantised)
    assert eight < 0.1
    assert eight < four < 0.6


@pytest.mark.parametrize(
    ("name", "form"),
    corners(
        ["llama", "llama tied", "qwen3", "phi3", "gemma3"],
        ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"],
        of=lambda name, form: (name, form) in (("llama", "Q8_0"), ("llama tied", "Q4_1"), ("gemma3", "Q4_1")),
    ),
)
def test_a_gguf_file_keeps_its_blocks(name, form, tmp_path, tokenizer):
    kinds, more = KINDS.get(name, ((LlamaForCausalLM, LlamaConfig), {"tie_word_embeddings": name.endswith("tied")}))
    path = write_gguf(tmp_path / "model.gguf", made(*kinds, **more), tokenizer, kind=form)
    held, unpacked = load(path), load(path, quantize="none")
    assert is_in_blocks(held)
    assert not is_in_blocks(unpacked)
    assert torch.equal(held.forward.vocabulary.dense(), unpacked.forward.vocabulary.dense())
    assert gap(logits(held), logits(unpacked)) < 0.1  # rows are rounded to 8 bits


def test_a_gguf_file_that_is_changed_is_unpacked_first(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q4_1")

    @torch.no_grad()
    def change(weights):
        weights["model.layers.0.self_attn.q_proj.weight"].mul_(3)

    changed = load(path, change=change)
    assert not is_in_blocks(changed)
    assert gap(logits(changed), logits(load(path, quantize="none"))) > 0.1


def test_the_check_runs_the_model_once_for_a_file_and_again_for_a_changed_one(tmp_path, tokenizer, monkeypatch):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    runs, run_model = [], LlamaForCausalLM.forward
    monkeypatch.setattr(
        LlamaForCausalLM, "forward", lambda *given, **named: runs.append(1) or run_model(*given, **named)
    )
    assert is_in_blocks(load(path))
    assert runs
    runs.clear()
    assert is_in_blocks(load(path))
    assert not runs
    write_gguf(path, made(LlamaForCausalLM, LlamaConfig, rms_norm_eps=0.5), tokenizer, kind="Q8_0")
    assert is_in_blocks(load(path))
    assert runs


def test_a_dtype_unpacks_a_gguf_file(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    assert not is_in_blocks(load(path, dtype="float32"))


@pytest.mark.parametrize("how", ["int8", "int4"])
def test_a_gguf_file_is_rounded_to_other_bits(tmp_path, tokenizer, how):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    assert is_in_blocks(load(path, quantize=how))


def test_types_that_compiled_code_cannot_read_are_named(tmp_path, tokenizer, caplog):
    torch.manual_seed(5)
    odd = LlamaForCausalLM(LlamaConfig(**SIZES)).eval()  # lines of 48 stay in float32
    path = write_gguf(tmp_path / "model.gguf", odd, tokenizer, kind="Q8_0")
    with caplog.at_level(logging.WARNING):
        assert not is_in_blocks(load(path))
    (told,) = [each.message for each in caplog.records if "unpacked" in each.message]
    assert told.startswith(f"local:{path} is unpacked: compiled code has no products for these types of weights: F32. ")
    assert told.endswith("llamacpp:NAME.")


def test_sizes_that_are_no_whole_groups_are_told(tmp_path, tokenizer, caplog):
    torch.manual_seed(5)
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert not is_in_blocks(load(tmp_path, quantize="int8"))
    assert "is not held in few bits: compiled code does not run LlamaForCausalLM of these sizes" in caplog.text


def test_without_compiled_code_weights_are_unpacked_and_one_warning_says_so(folder, caplog):
    with caplog.at_level(logging.WARNING):
        model = load_model(find_source(f"local:{folder}"), compiled=False, quantize="int8")
    assert isinstance(model.forward.vocabulary, torch.Tensor)
    assert [each.message for each in caplog.records] == [
        f"local:{folder} is not held in few bits: quantize=int8 needs compiled code on a CPU"
    ]


def test_another_value_is_refused_with_those_that_are_known():
    with pytest.raises(SettingsError, match=r"quantize='int3' cannot be used. Use one of: int8, int4, none."):
        LocalBackend("local:pocket", quantize="int3")
