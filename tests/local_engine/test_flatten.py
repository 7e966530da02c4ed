"""Property tests: what a tree's rows see, and what is left in the cache once a path is committed."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import VOCABULARY, build

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.transformers_forward import TransformersForward

CPU = torch.device("cpu")


@st.composite
def trees(draw, tokens=4, most=40):
    tree = DraftTree()
    for _ in range(draw(st.integers(0, most))):
        parent = draw(st.integers(ROOT, len(tree) - 1))
        tree.add(draw(st.integers(0, tokens - 1)), parent, draw(st.floats(0, 1)), keep=draw(st.booleans()))
    return tree


texts = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=30)
batches = st.lists(st.tuples(texts, trees()), min_size=1, max_size=3)


@given(batches)
def test_each_node_is_a_row_at_its_depth_behind_the_last_token(batch):
    rows = flatten([text for text, _ in batch], [tree for _, tree in batch], CPU)
    longest = max(len(tree) for _, tree in batch)
    assert rows.tokens.shape == rows.positions.shape == (len(batch), 1 + longest)
    assert rows.kv_len == max(len(text) for text, _ in batch) + longest
    for number, (text, tree) in enumerate(batch):
        here, last = slice(0, 1 + len(tree)), len(text) - 1
        assert rows.tokens[number, here].tolist() == [text[-1], *tree.tokens]
        assert rows.positions[number, here].tolist() == [last, *(last + depth for depth in tree.depths())]
        if longest:
            assert rows.slots[number].tolist() == list(range(last, last + 1 + longest))


@given(batches, st.one_of(st.none(), st.integers(1, 12)))
def test_a_row_sees_the_committed_tokens_and_its_ancestors_within_the_window(batch, window):
    rows = flatten([text for text, _ in batch], [tree for _, tree in batch], CPU)
    mask = rows.mask(torch.float32, window)
    assert mask.shape == (len(batch), 1, rows.tokens.shape[1], rows.kv_len)
    assert set(mask.unique().tolist()) <= {0.0, -torch.inf}
    assert not mask.isinf().all(-1).any()  # a row that sees nothing would be no number
    for number, (text, tree) in enumerate(batch):
        last = len(text) - 1
        for node in range(ROOT, len(tree)):
            path = [] if node == ROOT else tree.path(node)
            position = last + len(path)
            seen = {place: place for place in range(len(text))}  # slot: position
            seen |= {last + 1 + ancestor: last + depth for depth, ancestor in enumerate(path, 1)}
            expected = {slot for slot, place in seen.items() if window is None or place > position - window}
            assert set((mask[number, 0, node + 1] == 0).nonzero()[:, 0].tolist()) == expected


@given(trees(), st.integers(0, 40), st.integers(0, 6))
def test_pruning_keeps_the_likeliest_nodes_with_their_ancestors(tree, rows, depth):
    smaller, places = tree.prune(rows, depth)
    assert len(smaller) <= rows
    assert max(smaller.depths(), default=0) <= depth
    depths, allowed = tree.depths(), sum(found <= depth for found in tree.depths())
    assert len(smaller) == min(rows, allowed)
    for node, place in enumerate(places):
        if place >= 0:
            assert [smaller.tokens[step] for step in smaller.path(place)] == [
                tree.tokens[step] for step in tree.path(node)
            ]
    left_out = [tree.survival[node] for node, place in enumerate(places) if place < 0 and depths[node] <= depth]
    if not any(tree.kept):
        assert max(left_out, default=0) <= min(smaller.survival, default=1)


@given(trees(), trees())
def test_paths_that_begin_alike_are_kept_once(first, second):
    def paths(tree):
        return {tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))}

    both, expected = DraftTree(), paths(first) | paths(second)
    for tree in (first, second):
        for node, survival in enumerate(tree.survival):
            path = tree.path(node)
            nodes = both.add_path([tree.tokens[step] for step in path], [tree.survival[step] for step in path])
            assert both.survival[nodes[-1]] >= survival
    assert len(both) == len(expected)
    assert paths(both) == expected


ARCHITECTURES = ["llama", "mistral", "gemma2"]
FORWARDS = {}


def forward(name):
    if name not in FORWARDS:
        model = build(name).eval().double().requires_grad_(False)
        FORWARDS[name] = (LlamaForward(model) if is_llama_like(model) else TransformersForward(model)), model
    return FORWARDS[name]


def some_tree(chance, most=12):
    tree = DraftTree()
    for _ in range(chance.randrange(most)):
        tree.add(chance.randrange(4), chance.randrange(ROOT, len(tree)))
    return tree


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_committed_path_leaves_the_cache_as_if_it_had_been_read_as_text(name, seed):
    (run, model), chance = forward(name), random.Random(seed)  # noqa: S311 - chance, not secrets
    texts_ = [[chance.randrange(VOCABULARY) for _ in range(chance.randint(1, 30))] for _ in range(chance.randint(1, 3))]
    with torch.inference_mode():
        cache = KeyValueCache(len(texts_))
        longest = max(map(len, texts_)) - 1
        if longest:
            ids = torch.tensor([(text[:-1] + [0] * longest)[:longest] for text in texts_])
            run(Rows(ids, torch.arange(longest).expand(ids.shape), longest), cache, torch.tensor([0]))
        for _ in range(3):
            drafts = [some_tree(chance) for _ in texts_]
            rows = flatten(texts_, drafts, CPU)
            logits = run(rows, cache, torch.arange(rows.tokens.shape[1]))
            moves = []
            for number, (text, tree) in enumerate(zip(texts_, drafts, strict=True)):
                node = chance.randrange(ROOT, len(tree))
                path = [] if node == ROOT else tree.path(node)
                expected = model(torch.tensor([text + [tree.tokens[step] for step in path]])).logits[0, -1]
                assert (logits[number, node + 1] - expected).abs().max() <= 1e-4 * expected.std()  # a pad: 0
                moves += [(number, len(text) + step, len(text) + place) for place, step in enumerate(path)]
                text.extend([*(tree.tokens[step] for step in path), chance.randrange(VOCABULARY)])
            cache.move([move for move in moves if move[1] != move[2]])
        for number, text in enumerate(texts_):
            fresh, read = KeyValueCache(1), len(text) - 1
            if read:
                run(Rows(torch.tensor([text[:-1]]), torch.arange(read)[None], read), fresh, torch.tensor([0]))
                for held, new in ((cache._keys, fresh._keys), (cache._values, fresh._values)):
                    for layer, made in zip(held, new, strict=True):
                        assert (layer[number, :read] - made[0, :read]).abs().max() <= 1e-4 * made.std()


@given(seed=st.integers(0, 2**32))
def test_moves_towards_the_front_read_what_stood_there_before(seed):
    """In float32, as compiled forwards hold it; the test above is of float64."""
    chance, cache, slots, sequences = random.Random(seed), KeyValueCache(3), 24, 3  # noqa: S311 - chance, not secrets
    cache.addresses(slots, 2, (2, 16))
    layers = [*cache._keys, *cache._values]
    for layer in layers:
        layer.uniform_()
    before, moves = [layer.clone() for layer in layers], []
    for number in range(sequences):
        start, sources = chance.randrange(8), sorted(chance.sample(range(8, slots), chance.randrange(8)))
        moves += [(number, source, start + place) for place, source in enumerate(sources)]
    cache.move(moves)
    for layer, old in zip(layers, before, strict=True):
        for number, source, target in moves:
            old_slot = old[number, source]
            assert torch.equal(layer[number, target], old_slot)
