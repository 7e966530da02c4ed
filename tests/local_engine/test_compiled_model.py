"""The compiled forward: what torch's operations give, and the same bits for a row whatever stands beside it."""

import random
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from corners import corners
from test_forward import FAMILY, family_member, packed
from tiny_models import SIZES, VOCABULARY
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.kernels import thread_team
from stretto.local_engine.kernels.sharing import Sharing
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import prepare

CPU = torch.device("cpu")
TEXTS = [[(7 * place + 3) % 390 + 5 for place in range(length)] for length in (30, 7, 21)]
CLOSE = 5e-5  # of the standard deviation of logits: what two orders of sums differ by
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@contextmanager
def sharing(threads):
    """So many threads for every product, small as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thread_team, "_WORK", 1)
        patch.setattr(Sharing, "parts", lambda _, __, most: most)
        thread_team.limit_threads(threads)
        try:
            yield
        finally:
            thread_team.limit_threads(0)


def tree(*paths):
    drawn = DraftTree()
    for path in paths:
        drawn.add_path(path, [1.0] * len(path))
    return drawn


TREES = [tree((11, 12, 13), (11, 14), (15,)), tree(), tree((21, 22, 23, 24), (25,))]


def forwards(model):
    """The same model with torch's operations and compiled."""
    plain, compiled = LlamaForward(model), packed(model)
    assert compiled.compiled is not None
    return plain, compiled


def read(forward, texts, capacity=0):
    """A cache that holds all but the last token of each text."""
    caches = []
    for text in texts:
        cache, before = KeyValueCache(1), len(text) - 1
        forward(Rows(torch.tensor([text[:-1]]), torch.arange(before)[None], before), cache, torch.tensor([0]))
        caches.append(cache)
    joined = KeyValueCache(0)
    for cache in caches:
        joined.join(cache)
    return joined


def step(forward, cache, texts, trees):
    rows = flatten(texts, trees, CPU)
    wide = rows.tokens.shape[1]
    logits = forward(rows, cache, torch.arange(wide))
    return [logits[number, : 1 + len(drawn)] for number, drawn in enumerate(trees)]


@pytest.mark.parametrize(
    ("name", "published", "threads"),
    corners(
        FAMILY,
        TYPES,
        [1, 3],  # more than there are key-value heads
        of=lambda name, published, threads: threads == 3 and (published == "bfloat16" or name == "llama"),
    ),
)
def test_a_batch_of_trees_is_scored_as_by_torch(name, published, threads):
    model = family_member(name).to(TYPES[published]).float()
    with sharing(threads):
        expected, found = (step(each, read(each, TEXTS), TEXTS, TREES) for each in forwards(model))
    for one, other in zip(expected, found, strict=True):
        assert (one - other).abs().max() < CLOSE * one.std()


@pytest.mark.parametrize("published", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", FAMILY)
def test_in_half_precision_it_is_nearer_to_float32_than_torch(name, published):
    model = family_member(name).to(published)
    (exact, _), (plain, compiled) = forwards(deepcopy(model).float()), forwards(model)
    runs = [step(each, read(each, TEXTS), TEXTS, TREES) for each in (exact, plain, compiled)]
    expected, other, found = map(torch.cat, runs)
    assert (found - expected).abs().mean() < 0.8 * (other - expected).abs().mean()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILY)
def test_a_row_of_a_draft_gives_the_bits_that_it_gives_alone(name, dtype):
    _, compiled = forwards(family_member(name).bfloat16().to(dtype))
    drafted = step(compiled, read(compiled, TEXTS), TEXTS, TREES)
    alone = read(compiled, TEXTS[:1])
    text = list(TEXTS[0])
    for row, token in enumerate((11, 12, 13, 0)):
        (logits,) = step(compiled, alone, [text], [tree()])
        assert torch.equal(drafted[0][row], logits[0])
        text.append(token)


SHAPES = {
    "two heads share a key": {},
    "every head has its key": {"num_key_value_heads": 4},
    "six wide heads share a key": {
        "hidden_size": 96,
        "num_attention_heads": 6,
        "num_key_value_heads": 1,
        "head_dim": 32,
    },
    "a window": {"sliding_window": 12},
    "wider rows": {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "head_dim": 32},
}


def random_tree(chance, nodes):
    """Every node hangs on any node before it, or on the root: ancestors mostly stand in scattered slots."""
    drawn = DraftTree()
    while len(drawn) < nodes:
        drawn.add(chance.randrange(5, VOCABULARY), chance.randrange(ROOT, len(drawn)))
    return drawn


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_node_of_any_tree_gives_the_bits_that_its_tokens_give_one_at_a_time(shape, dtype):
    torch.manual_seed(3)
    kind = (MistralConfig, MistralForCausalLM) if shape == "a window" else (LlamaConfig, LlamaForCausalLM)
    _, compiled = forwards(kind[1](kind[0](**SIZES | SHAPES[shape])).eval().bfloat16().to(dtype))
    chance, scattered = random.Random(8), 0  # noqa: S311 - chance, not secrets
    for length in (2, 9, 16, 17, 30, 47, 90):
        texts = [[chance.randrange(5, VOCABULARY) for _ in range(own)] for own in (length, 5)]
        trees = [random_tree(chance, chance.randrange(2, 40)), random_tree(chance, 3)]
        drafted, _ = step(compiled, read(compiled, texts), texts, trees)
        drawn, alone = trees[0], read(compiled, texts[:1])
        for leaf in sorted(set(range(len(drawn))) - set(drawn.parents)):
            text = list(texts[0])
            for node in (ROOT, *drawn.path(leaf)):
                text += [] if node == ROOT else [drawn.tokens[node]]
                (logits,) = step(compiled, alone, [text], [tree()])
                assert torch.equal(drafted[node + 1], logits[0]), (length, drawn.path(node))
            scattered += drawn.path(leaf) != list(range(len(drawn.path(leaf))))
    assert scattered > 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["llama", "qwen3 sliding"])
def test_the_bits_are_the_same_for_any_number_of_threads(name, dtype):
    _, compiled = forwards(family_member(name).bfloat16().to(dtype))
    cache = read(compiled, TEXTS)
    alone = step(compiled, cache, TEXTS, TREES)
    for threads in (2, 3, 5):
        with sharing(threads):
            shared = step(compiled, cache, TEXTS, TREES)
        assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True))


@pytest.mark.parametrize(
    "sizes",
    [
        {"vocab_size": 397},
        {"hidden_size": 96},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1, "head_dim": 32},
        {"hidden_size": 96, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 48},
    ],
    ids=str,
)
def test_sizes_of_other_models(sizes):
    model = LlamaForCausalLM(LlamaConfig(**SIZES | sizes, tie_word_embeddings=False)).eval().bfloat16().float()
    expected, found = (step(each, read(each, TEXTS), TEXTS, TREES) for each in forwards(model))
    for one, other in zip(expected, found, strict=True):
        assert (one - other).abs().max() < CLOSE * one.std()


@pytest.mark.parametrize("sizes", [{"head_dim": 24}, {"intermediate_size": 44}, {"hidden_size": 56}], ids=str)
def test_a_model_whose_sizes_do_not_fill_panels_runs_without(sizes, tokenizer):
    model = LlamaForCausalLM(LlamaConfig(**SIZES | sizes)).eval()
    ready = prepare("local:odd", model, tokenizer)
    assert ready.forward.compiled is None
    tokens = torch.arange(9)[None]
    found = ready.forward(Rows(tokens, tokens, 9), KeyValueCache(1), torch.arange(9))
    torch.testing.assert_close(found, model(tokens).logits, rtol=1e-4, atol=1e-4)


def lay_out(texts, starts):
    """The rest of each text from its start on, as the rows of one forward that end together."""
    counts = [len(text) - start for text, start in zip(texts, starts, strict=True)]
    wide = max(counts)
    tokens, positions, real = [], [], []
    for number, (text, start, count) in enumerate(zip(texts, starts, counts, strict=True)):
        tokens.append([0] * (wide - count) + text[start:])
        positions.append([len(text)] * (wide - count) + list(range(start, len(text))))
        real += range(number * wide + wide - count, (number + 1) * wide)
    padded = torch.tensor(real) if len(real) < wide * len(texts) else None
    extent = max(map(max, positions)) + 1
    rows = Rows(torch.tensor(tokens), torch.tensor(positions), extent, real=padded)
    return rows, torch.tensor([wide - 1])


def given(texts, starts, cache):
    rows, last = lay_out(texts, starts)
    return rows, cache, last


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", FAMILY)
def test_prompts_of_different_lengths_are_read_as_by_torch(name, threads):
    plain, compiled = forwards(family_member(name).bfloat16().float())
    texts = [TEXTS[0] * 5, *TEXTS[1:]]
    rows, last = lay_out(texts, [0, 0, 0])
    assert compiled.compiled.takes(rows, last)
    caches = [KeyValueCache(3), KeyValueCache(3)]
    with sharing(threads):
        expected, found = (each(rows, cache, last) for each, cache in zip((plain, compiled), caches, strict=True))
    assert found.shape == (3, 1, VOCABULARY)
    assert (found - expected).abs().max() < CLOSE * expected.std()
    texts = [[*text, 9] for text in texts]
    steps = [step(plain, cache, texts, [tree()] * 3) for cache in caches]
    for one, other in zip(*steps, strict=True):
        assert (one - other).abs().max() < CLOSE * one.std()


@pytest.mark.parametrize("name", ["llama", "qwen3 sliding"])
def test_a_prompt_gives_the_same_bits_alone_beside_others_and_in_parts(name):
    _, compiled = forwards(family_member(name).bfloat16().float())
    texts = [TEXTS[0] * 5, *TEXTS[1:]]
    caches = [KeyValueCache(1), KeyValueCache(1), KeyValueCache(3)]
    alone = compiled(*given(texts[:1], [0], caches[0]))
    for start, end in pairwise((0, 1, 40, 41, 111, 150)):
        parts = compiled(*given([texts[0][:end]], [start], caches[1]))
    beside = compiled(*given(texts, [0, 0, 0], caches[2]))
    assert torch.equal(parts[0], alone[0])
    assert torch.equal(beside[0], alone[0])
    assert caches[1].equals(caches[0], 150)


def test_a_prompt_gives_the_same_bits_for_any_number_of_threads():
    _, compiled = forwards(family_member("llama").bfloat16().float())
    texts, found = [TEXTS[0] * 5, *TEXTS[1:]], []
    for threads in (1, 2, 3, 5):
        cache = KeyValueCache(3)
        with sharing(threads):
            found.append((compiled(*given(texts, [0, 0, 0], cache)), cache))
    for logits, cache in found[1:]:
        assert torch.equal(logits, found[0][0])
        assert cache.equals(found[0][1], 7)


def test_what_stands_behind_a_sequence_is_not_read():
    """Leftovers of a sequence that ended, for instance; here they are no numbers."""
    _, compiled = forwards(family_member("llama").bfloat16().float())
    clean, dirty = read(compiled, TEXTS[:1]), read(compiled, TEXTS[:1])
    for layer in (*dirty._keys, *dirty._values):
        layer[:, 34:] = torch.nan  # the tree's last rows come to stand before
    trees = [tree((11, 12, 13), (11,))]
    assert torch.equal(*(step(compiled, cache, TEXTS[:1], trees)[0] for cache in (clean, dirty)))


def test_a_sequence_that_is_read_already_has_no_rows_and_no_logits():
    plain, compiled = forwards(family_member("llama").bfloat16().float())
    rows, last = lay_out(TEXTS, [0, 7, 0])
    assert rows.real.tolist() == [*range(30), *range(69, 90)]
    expected, found = (each(rows, KeyValueCache(3), last) for each in (plain, compiled))
    assert (found - expected)[[0, 2]].abs().max() < CLOSE * expected.std()
    assert not found[1].any()


def test_a_window_shorter_than_a_draft_is_deep():
    plain, compiled = forwards(family_member("mistral").bfloat16().float())
    trees = [tree(tuple(range(5, 25)), (3, 4))]
    (expected,), (found,) = (step(each, read(each, TEXTS[:1]), TEXTS[:1], trees) for each in (plain, compiled))
    assert (found - expected).abs().max() < CLOSE * expected.std()


def test_padding_and_many_rows_are_read_too():
    """Padding is left out of batches where that is worth it; here it is not."""
    plain, compiled = forwards(family_member("qwen2").bfloat16().float())
    trees = [tree(tuple(range(5, 95)), tuple(range(100, 160))), tree((1,) * 140)]
    rows = replace(flatten(TEXTS[:2], trees, CPU), real=None, segments=None)
    expected, found = (
        each(rows, read(each, TEXTS[:2]), torch.arange(rows.tokens.shape[1])) for each in (plain, compiled)
    )
    assert (found - expected)[0].abs().max() < CLOSE * expected.std()
    assert (found - expected)[1, :141].abs().max() < CLOSE * expected.std()


def test_a_cache_that_grows_shrinks_and_takes_others_in_between_steps():
    plain, compiled = forwards(family_member("llama").bfloat16().float())
    logits = []
    for forward in (plain, compiled):
        cache, texts = read(forward, TEXTS[:2]), [list(text) for text in TEXTS[:2]]
        for turn in range(60):  # the first sequence outgrows 64 slots
            said = step(forward, cache, texts, [tree()] * len(texts))
            logits.append(said)
            for number, text in enumerate(texts):
                text.append((turn * 5 + number) % 390 + 5)
            if turn == 20:
                cache.keep([1])
                texts = texts[1:]
            if turn == 40:
                cache.join(read(forward, TEXTS[2:]))
                texts.append(list(TEXTS[2]))
    for expected, found in zip(logits[:60], logits[60:], strict=True):
        for one, other in zip(expected, found, strict=True):
            assert (one - other).abs().max() < CLOSE * one.std()


@pytest.mark.parametrize("token", [VOCABULARY, 2**40, -1])
def test_a_token_that_the_model_has_not_is_an_error(token):
    _, compiled = forwards(family_member("llama"))
    with pytest.raises(IndexError, match=r"none of the model's 400"):
        compiled(Rows(torch.tensor([[token]]), torch.tensor([[0]]), 1), KeyValueCache(1), torch.tensor([0]))


def test_what_is_no_number_stays_none():
    model = family_member("llama").bfloat16().float()
    model.model.layers[1].self_attn.k_proj.weight[0] = torch.nan
    _, compiled = forwards(model)
    assert step(compiled, read(compiled, TEXTS[:1]), TEXTS[:1], [tree()])[0].isnan().all()


def test_where_the_compiler_fails_the_model_runs_without(tokenizer, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no such processor")

    monkeypatch.setattr("stretto.local_engine.model.forward.compiled.run", fail)
    ready = prepare("local:tiny", family_member("llama"), tokenizer)
    assert not ready.forward.is_packed
    assert "no such processor" in caplog.text


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_half_precision_keeps_its_weights_so_and_all_else_in_float32(tokenizer, dtype):
    ready = prepare("local:tiny", family_member("llama with biases").to(dtype), tokenizer)
    assert ready.dtype == dtype
    assert ready.is_exact
    weights = [weight for layer in ready.forward.weights.layers for weight in layer.products.values()]
    assert {weight.held.dtype for weight in weights} == {dtype}
    cache = read(ready.forward, TEXTS)
    sizes = family_member("llama").config
    assert cache.bytes_per_slot == 2 * 4 * sizes.num_hidden_layers * sizes.num_key_value_heads * sizes.head_dim


def test_a_large_model_in_bfloat16_is_left_to_torch_where_the_processor_multiplies_matrices(tokenizer, monkeypatch):
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: True)
    small = prepare("local:tiny", family_member("llama").bfloat16(), tokenizer)
    monkeypatch.setattr("stretto.local_engine.model.forward.llama_weights._SMALL", 1)
    large = prepare("local:tiny", family_member("llama").bfloat16(), tokenizer)
    assert [small.is_exact, large.is_exact] == [True, False]
    assert [small.forward.dtype, large.forward.dtype] == [torch.float32, torch.bfloat16]


def test_keys_and_values_are_those_that_torch_writes_and_reads():
    """One forward may follow the other."""
    plain, compiled = forwards(family_member("qwen3").bfloat16().float())
    cache = read(compiled, TEXTS[:1])
    (first,) = step(compiled, cache, TEXTS[:1], [tree()])
    text = [*TEXTS[0], 33]
    (second,) = step(plain, cache, [text], [tree()])
    whole = plain(
        Rows(torch.tensor([text]), torch.arange(len(text))[None], len(text)), KeyValueCache(1), torch.arange(31)
    )
    assert (first[0] - whole[0, 29]).abs().max() < CLOSE * whole.std()
    assert (second[0] - whole[0, 30]).abs().max() < CLOSE * whole.std()
