"""[PAD] rows: they act on themselves only."""

import pytest
import torch
from lexical_adapters import adapted, random_adapter
from test_compiled_model import CLOSE, CPU, TEXTS, read, sharing, step, tree
from test_forward import family_member, packed
from tiny_models import VOCABULARY, build

from recipes.lexical.packing import TextCache, inside_units, pack
from recipes.lexical.train import Plan
from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import prepare

TEXT = [(7 * place + 3) % 390 + 5 for place in range(24)]


@pytest.fixture(params=["llama", "qwen3", "mistral"])
def model(request, tokenizer):
    return adapted(prepare("local:tiny", build(request.param).double(), tokenizer))


def with_pads(pads=True):
    tree = DraftTree()
    first = tree.add(31)
    second = tree.add(32, first)
    tree.add(33)
    for node in (second, ROOT, first) if pads else ():
        tree.add_path((-1, -2, -3), [1.0] * 3, node)
    return tree


def logits(model, trees):
    """Of the trees' rows, each behind the same text # [trees, rows, vocabulary]."""
    with torch.inference_mode():
        cache, before = KeyValueCache(len(trees)), len(TEXT) - 1
        ids, places = torch.tensor([TEXT[:-1]] * len(trees)), torch.arange(before).expand(len(trees), -1)
        model.forward(Rows(ids, places, before), cache, torch.tensor([0]))
        rows = flatten([TEXT] * len(trees), trees, model.device)
        return model.forward(rows, cache, torch.arange(rows.tokens.shape[1]))


def test_rows_of_tokens_are_as_without_pads(model):
    expected = logits(model, [with_pads(pads=False)])[0]
    mixed = logits(model, [with_pads(), with_pads(pads=False)])
    assert (mixed[0, :4] - expected).abs().max() < 1e-12
    assert (mixed[1, :4] - expected).abs().max() < 1e-12


def test_no_pad_can_be_chosen(model):
    assert logits(model, [with_pads()]).shape[-1] == VOCABULARY


def test_what_a_pad_says_depends_on_its_anchor_only(model):
    everything = logits(model, [with_pads()])[0]
    alone = DraftTree()
    alone.add_path((-1, -2, -3), [1.0] * 3)
    assert (logits(model, [alone])[0, 1:] - everything[7:10]).abs().max() < 1e-12
    assert (everything[4:7] - everything[7:10]).abs().max() > 1e-3
    other = adapted(prepare("local:other", build("llama").double(), model.tokenizer))
    other.forward.adapter = random_adapter(other, seed=4)
    if type(other.forward) is type(model.forward):
        assert (logits(other, [alone])[0, 1:] - everything[7:10]).abs().max() > 1e-3


def test_packed_pads_say_what_those_of_a_draft_say(model):
    """Training looks at many places of one text in one forward; each must be as it is when the text ends there."""
    every, places = torch.arange(len(TEXT)), 3
    cache = KeyValueCache(1)
    states = model.forward.states(Rows(torch.tensor([TEXT]), every[None], len(TEXT)), cache, every)
    rows = pack(torch.tensor([5, 14, len(TEXT) - 1]), places, states)
    packed = model.forward.read_out(model.forward.states(rows, TextCache(cache), torch.arange(9)))[0]
    alone = DraftTree()
    alone.add_path((-1, -2, -3), [1.0] * 3)
    assert (logits(model, [alone])[0, 1:] - packed[6:]).abs().max() < 1e-10


def test_a_unit_goes_on_as_long_as_the_model_is_sure():
    confidence = torch.tensor([0.0, 0.9, 0.2, 0.9, 0.9, 0.4, 0.9])
    inside = inside_units(confidence, torch.tensor([0, 1, 2, 3, 4, 5]), 3, 0.5)
    assert inside.tolist() == [
        [False, False, False],  # the second token after place 0 is the unsure one at place 2
        [True, True, False],
        [True, False, False],
        [False, False, False],
        [True, False, False],  # then the text ends
        [False, False, False],
    ]


@pytest.mark.thorough  # it compiles a forward of its own
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["llama", "qwen3 sliding"])
@torch.inference_mode()
def test_pads_are_scored_as_by_torch(name, tokenizer, threads):
    ready = adapted(
        prepare("local:tiny", family_member(name).bfloat16().float(), tokenizer, packed=False),
        Plan(tokens=4, beside=16, last=96),
    )
    plain, adapter = ready.forward, ready.forward.adapter
    compiled = packed(family_member(name).bfloat16().float())
    assert compile_now(compiled.parts_for(adapter))
    compiled.attach(adapter)
    drawn = tree((31, 32), (33,))
    for node in (1, ROOT, 0):
        drawn.add_path((-1, -2, -3), [1.0] * 3, node)
    trees = [drawn, tree((11,))]
    assert compiled.adapter.compiled(flatten(TEXTS[:2], trees, CPU), len(compiled.weights.layers)) is not None
    with sharing(threads):
        expected, found = (step(each, read(each, TEXTS[:2]), TEXTS[:2], trees) for each in (plain, compiled))
        without = step(compiled, read(compiled, TEXTS[:1]), TEXTS[:1], [tree((31, 32), (33,))])
    for one, other in zip(expected, found, strict=True):
        assert (one - other).abs().max() < CLOSE * one.std()
    assert torch.equal(found[0][:4], without[0])
