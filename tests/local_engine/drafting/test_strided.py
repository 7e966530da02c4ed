"""Strided decoding: masks that an adapter reads, and the model's own answer."""

import json
from pathlib import Path

import pytest
import torch
from asking import outcome
from lexical_adapters import random_adapter
from safetensors.torch import load_file, save_file
from tiny_models import VOCABULARY, build
from transformers import AutoModelForCausalLM

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.strided import FOLDER, StridedOptions
from stretto.local_engine.research.strided.mask_rows import attach
from stretto.local_engine.research.strided.strided_drafter import MASK, Strided
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough

TOKEN = 3  # whose input vector masks have
PROMPT = tuple((11 * place + 5) % 380 + 10 for place in range(13))
RANK, ALPHA = 4, 8
CONTEXT = DraftContext([5, 6, 7], 2, VOCABULARY)


@pytest.fixture
def folder(tokenizer, tmp_path):
    def save(model=None) -> Path:
        """A model, and the adapter that peft would save for all its products."""
        model = model or build("qwen3")
        model.save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        own, generator = tmp_path / FOLDER, torch.Generator().manual_seed(2)
        own.mkdir()
        (own / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA}))
        tensors = {}
        for name, module in model.named_modules():
            if name.endswith("_proj"):
                narrow = {"A": (RANK, module.in_features), "B": (module.out_features, RANK)}
                for part, shape in narrow.items():
                    tensor = torch.randn(shape, generator=generator) * 0.2
                    tensors[f"base_model.model.{name}.lora_{part}.weight"] = tensor
        save_file(tensors, own / "adapter_model.safetensors")
        return tmp_path

    return save


def masked_by_hand(folder: Path, masks: int) -> torch.Tensor:
    """Logits of a text and masks behind it, whose products alone the adapter changes # [tokens, vocabulary]"""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        tensors = load_file(folder / FOLDER / "adapter_model.safetensors")
        for name, module in model.named_modules():
            if name.endswith("_proj"):
                down, up = (tensors[f"base_model.model.{name}.lora_{part}.weight"] for part in "AB")

                def changed(_, given, made, down=down, up=up):
                    made[:, -masks:] += (given[0][:, -masks:] @ down.T) @ up.T * (ALPHA / RANK)
                    return made

                module.register_forward_hook(changed)
        return model(input_ids=torch.tensor([[*PROMPT, *[TOKEN] * masks]]), use_cache=False).logits[0]


@pytest.mark.parametrize("compiled", [True, False])
def test_masks_are_read_through_the_adapter_and_tokens_without_it(folder, compiled):
    path = folder()
    model = load_model(find_source(str(path)), dtype="float32", compiled=compiled)
    attach(model, StridedOptions(mask=TOKEN))
    tree = DraftTree()
    tree.add(MASK, tree.add(MASK, ROOT))
    cache = KeyValueCache(1)
    with torch.inference_mode():
        before = Rows(torch.tensor([PROMPT[:-1]]), torch.arange(12)[None], 12)
        model.forward(before, cache, torch.tensor([11]))
        rows = flatten([list(PROMPT)], [tree], model.device)
        said = model.forward(rows, cache, torch.arange(3))[0]

    expected = masked_by_hand(path, 2)[-3:]

    assert torch.allclose(said, expected, atol=1e-3)
    assert not torch.allclose(
        said[1:],
        AutoModelForCausalLM.from_pretrained(path)(input_ids=torch.tensor([[*PROMPT, TOKEN, TOKEN]])).logits[0, -2:],
        atol=1e-1,
    )


@pytest.mark.parametrize("chance", [{}, {"temperature": 1.0, "seed": 3}, {"repetition_penalty": 1.3}])
def test_the_answer_is_that_of_one_token_at_a_time(folder, start, chance):
    model = load_model(find_source(str(folder())), dtype="float32")
    engine = start(model, method_options={"strided": {"mask": TOKEN}})
    answers = {}
    for method in ("autoregressive", "strided"):
        handle = engine.submit(Generation(PROMPT, 24, decoding=method, **chance))
        figures = outcome(handle)[1].figures
        answers[method] = handle.sequence.generated

    assert answers["strided"] == answers["autoregressive"]
    assert figures.drafted["mask"] > 24


def test_masks_that_predict_what_the_model_writes_make_a_step_as_long_as_the_stride(folder, start):
    constant = build("qwen3")
    constant.model.norm.weight.data.zero_()  # all tokens are equally probable, and the first one is taken
    model = load_model(find_source(str(folder(constant))), dtype="float32")
    engine = start(model, method_options={"strided": {"mask": TOKEN, "stride": 4}})

    figures = outcome(engine.submit(Generation(PROMPT, 42, decoding="strided")))[1].figures

    assert figures.tokens_per_step > 3


def said(drafter, tree, accepted):
    """The drafter learns that row n says token 100 + n."""
    tops = [[100 + row] for row in range(len(tree) + 1)]
    drafter.learn(
        CONTEXT, DraftOutcome(list(range(1, len(tree) + 1)), tops_of(tops), tops_of(tops) * 0 + 0.5, [1], accepted)
    )


def tops_of(rows):
    return torch.tensor(rows).numpy()


def test_the_masks_of_an_accepted_draft_are_the_next_draft_and_those_of_a_refused_one_are_not():
    drafter = Strided(3)
    first = drafter.propose(CONTEXT, 16)
    said(drafter, first, [])
    second = drafter.propose(CONTEXT, 16)
    said(drafter, second, [0])
    third = drafter.propose(CONTEXT, 16)

    assert first.tokens == [MASK, MASK]
    assert second.tokens == [101, 102, MASK, MASK]
    assert third.tokens == [MASK, MASK]


def test_the_adapter_says_its_mask_and_its_stride(folder):
    path = folder()
    config = path / FOLDER / "adapter_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"mask_token_id": TOKEN, "block_size": 2}))
    model = load_model(find_source(str(path)), dtype="float32", compiled=False)

    assert attach(model, StridedOptions()) == 3
    assert torch.equal(model.forward.adapter.mask, model.forward.read_in(torch.tensor(TOKEN)))


def test_a_model_without_a_mask_token_is_refused(folder):
    model = load_model(find_source(str(folder())), dtype="float32", compiled=False)

    with pytest.raises(SettingsError, match=r'method_options=\{"strided": \{"mask": 151669\}\}'):
        attach(model, StridedOptions())


def test_a_loaded_model_reads_blank_rows_by_one_adapter(folder):
    model = load_model(find_source(str(folder())), dtype="float32", compiled=False)
    attach(model, StridedOptions(mask=TOKEN))
    with pytest.raises(SettingsError, match="cannot be used with the same loaded model"):
        model.forward.attach(random_adapter(model))
