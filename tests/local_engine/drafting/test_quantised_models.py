"""Models whose weights are held in few bits."""

import logging

import pytest
import torch
from asking import tokens
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

from stretto.local import LocalBackend
from stretto.local_engine.drafting.catalogue import DRAFTERS, METHODS, DraftEquipment
from stretto.local_engine.drafting.protocol import Autoregressive
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.store import Store
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.measuring import ahead
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.compiled import CompiledModel
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading import kept_data
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.model.quantised import comparison
from stretto.local_engine.model.quantised.blocks import Blocks
from stretto.values.errors import SettingsError

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
    return isinstance(model.forward.weights.vocabulary, Blocks)


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


@pytest.mark.thorough
@pytest.mark.parametrize("method", DRAFTED)
def test_drafts_change_no_token_alone_and_in_a_batch(method, in_four_bits, plain):
    requests, expected = plain

    def drafter():
        return DRAFTERS[method](DraftEquipment(cost=FREE, model=in_four_bits, draft=in_four_bits))

    assert run(in_four_bits, requests[2:], [drafter()])[0] == expected[2:]
    assert run(in_four_bits, requests, [drafter() for _ in requests])[0] == expected


@pytest.mark.parametrize(
    "method", [method if method == "auto" else pytest.param(method, marks=pytest.mark.thorough) for method in DRAFTED]
)
def test_drafts_change_no_token_while_only_the_products_are_compiled(method, partly):
    """Products by themselves have code for fewer numbers of rows than a whole forward."""
    requests = [Generation(prompt, 22 + 9 * number) for number, prompt in enumerate(PROMPTS)]
    for compiled in (False, True):
        assert (partly.forward.compiled is not None) is compiled
        expected = [run(partly, [request], [Autoregressive()])[0][0] for request in requests]
        drafters = [
            DRAFTERS[method](DraftEquipment(cost=FREE, model=partly, draft=partly)) for _ in range(len(requests))
        ]
        assert run(partly, requests, drafters)[0] == expected
        partly.unpacked.pack()


def test_a_row_has_the_same_bits_with_any_number_of_rows_behind_it(in_four_bits):
    whole = logits(in_four_bits, 20)
    for count in range(1, 20):
        assert torch.equal(logits(in_four_bits, count), whole[:, :count])


def logits(loaded, count=None):
    """Those behind each token of the beginning of a prompt."""
    ids = torch.tensor([PROMPTS[0][:count]])
    count = ids.shape[1]
    with torch.inference_mode():
        return loaded.forward(Rows(ids, torch.arange(count)[None], count), KeyValueCache(1), torch.arange(count))


def gap(left, right):
    """The usual difference, in standard deviations."""
    return float((left - right).square().mean().sqrt() / right.std())


@pytest.mark.thorough
def test_rounded_weights_give_nearly_the_logits_of_the_model(folder):
    quantised = [load(folder, quantize=how) for how in ("int8", "int4")]
    assert all(is_in_blocks(each) and each.is_exact for each in quantised)
    exact = logits(load(folder, dtype="float32"))
    eight, four = (gap(logits(each), exact) for each in quantised)
    assert eight < 0.1
    assert eight < four < 0.6


@pytest.mark.thorough
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
    held, unpacked = load(path), load(path, quantize="none", dtype="float32")
    assert is_in_blocks(held)
    assert not is_in_blocks(unpacked)
    assert torch.equal(held.forward.weights.vocabulary.dense(), unpacked.forward.weights.vocabulary.dense())
    assert gap(logits(held), logits(unpacked)) < 0.1  # rows are rounded to 8 bits


@pytest.mark.thorough
def test_a_gguf_file_that_is_changed_is_unpacked_first(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q4_1")

    @torch.no_grad()
    def change(weights):
        weights["model.layers.0.self_attn.q_proj.weight"].mul_(3)

    changed = load(path, change=change)
    assert not is_in_blocks(changed)
    assert gap(logits(changed), logits(load(path, quantize="none", dtype="float32"))) > 0.1


@pytest.fixture
def partly(folder, monkeypatch):
    """A model for which only the products were compiled when it was loaded; the rest is by now."""
    load(folder, quantize="int8")
    with monkeypatch.context() as patch:
        patch.setattr("stretto.local_engine.model.loading.load.are_ready", lambda parts: not parts)
        return load_model(find_source(f"local:{folder}"), compiled=None, quantize="int8")


@pytest.mark.thorough
def test_weights_are_in_blocks_before_the_whole_forward_is_compiled(partly):
    assert is_in_blocks(partly)
    assert partly.forward.compiled is None
    before = logits(partly)
    partly.unpacked.pack()
    assert partly.forward.compiled is not None
    assert gap(logits(partly), before) < 0.1


class Compared:
    """Engines of a file, each asked once, and what they have compared."""

    def __init__(self, start, monkeypatch):
        self.start, self.runs, run_model = start, [], LlamaForCausalLM.forward
        monkeypatch.setattr(comparison, "_DELAY_S", 0.0)
        monkeypatch.setattr(
            LlamaForCausalLM, "forward", lambda *given, **named: self.runs.append(1) or run_model(*given, **named)
        )

    def asked(self, path):
        """Ask until what follows the first answer is done.

        When the second request ends, the comparison runs. The third one is followed by the judgement, and the fourth
        one by nothing.
        """
        self.runs.clear()
        model = load(path)
        assert not self.runs, "an answer does not wait for it"
        engine = self.start(model)
        for _ in range(4):
            assert tokens(engine.submit(Generation(PROMPTS[0], 4)))
            thread = model.comparison._thread
            if thread is not None:
                thread.join()
        return engine, model


@pytest.fixture
def compared(start, monkeypatch, tmp_path):
    monkeypatch.setattr(kept_data, "stores", lambda: [Store(tmp_path)])
    monkeypatch.setattr(kept_data, "writable_store", lambda: Store(tmp_path))
    Store(tmp_path).folder.mkdir()
    return Compared(start, monkeypatch)


@pytest.mark.thorough
def test_the_model_is_compared_after_the_first_answer_once_for_a_file_and_again_for_a_changed_one(
    tmp_path, tokenizer, compared
):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    for _ in range(2):
        engine, _ = compared.asked(path)
        assert compared.runs
        engine.close()
        compared.asked(path)
        assert not compared.runs
        write_gguf(path, made(LlamaForCausalLM, LlamaConfig, rms_norm_eps=0.5), tokenizer, kind="Q8_0")


@pytest.mark.thorough
def test_programs_that_end_before_the_comparison_are_told_how_to_do_it_once(
    tmp_path, tokenizer, compared, monkeypatch, caplog
):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    monkeypatch.setattr(comparison, "_DELAY_S", 600.0)
    for _ in range(5):  # programs that ask and leave
        engine = compared.start(load(path))
        for _ in range(2):
            assert tokens(engine.submit(Generation(PROMPTS[0], 4)))
        engine.close()
    assert [each.message for each in caplog.records] == [
        f"local:{path} has not been compared with transformers on this machine: 3 programs ended before. To do it "
        f"once, run: python -m stretto.local_engine.measuring.ahead local:{path}"
    ]
    assert not compared.runs
    ahead.main([f"local:{path}"])
    assert compared.runs
    monkeypatch.setattr(comparison, "_DELAY_S", 0.0)
    compared.asked(path)
    assert not compared.runs, "it was compared once and for all"


@pytest.mark.thorough
def test_compiled_code_that_disagrees_is_not_used_any_more_and_that_is_told(
    tmp_path, tokenizer, compared, monkeypatch, caplog
):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    expected = logits(load(path, quantize="none", dtype="float32"))
    monkeypatch.setattr(CompiledModel, "__call__", wrong)
    monkeypatch.setattr(Blocks, "__call__", lambda self, rows: Panels.__call__(self, rows) * 0)
    _, model = compared.asked(path)
    told = [each.message for each in caplog.records if "does not agree" in each.message]
    assert ["torch runs all but its products" in told[0], "torch runs it" in told[1]] == [True, True]
    assert f"local:{path} does not agree with transformers (logits are off by" in told[0]
    assert len(told) == 2
    assert gap(logits(model), expected) < 1e-3
    assert not [*tmp_path.rglob("agreed-*")]


def wrong(_, rows, _cache, keep, _adapter=None):
    """Logits of a compiler that is none."""
    return torch.arange(400.0).expand(len(rows.tokens), len(keep), 400)


def test_a_model_that_is_closed_while_it_is_compared_ends_at_once(tmp_path, tokenizer, compared, monkeypatch, caplog):
    path = write_gguf(tmp_path / "model.gguf", made(LlamaForCausalLM, LlamaConfig), tokenizer, kind="Q8_0")
    monkeypatch.setattr(comparison, "_DELAY_S", 600.0)
    model = load(path)
    engine = compared.start(model)
    assert tokens(engine.submit(Generation(PROMPTS[0], 4)))
    engine.free()
    assert model.comparison is None or not vars(model.comparison)
    assert not caplog.records


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
    assert "is not kept quantised in memory: compiled code does not run LlamaForCausalLM of these sizes" in caplog.text


def test_without_compiled_code_weights_are_unpacked_and_one_warning_says_so(folder, caplog):
    with caplog.at_level(logging.WARNING):
        model = load_model(find_source(f"local:{folder}"), compiled=False, quantize="int8")
    assert isinstance(model.forward.weights.vocabulary, torch.Tensor)
    assert [each.message for each in caplog.records] == [
        f"local:{folder} is not kept quantised in memory: quantize=int8 needs compiled code on a CPU"
    ]


def test_another_value_is_refused_with_those_that_are_known():
    with pytest.raises(SettingsError, match=r"quantize='int3' cannot be used. Use one of: int8, int4, none."):
        LocalBackend("local:pocket", quantize="int3")
