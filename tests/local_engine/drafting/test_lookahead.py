"""Lookahead decoding against the paper, and what its published code does wrong."""

import pytest
from simulated import became, generate, looping, markov, noise, plain, prose

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.research.lookahead.lookahead import Lookahead


def ancestors(tree, node):
    return set(tree.path(node)[:-1])


def settled(width, ngram, steps=0):
    """A drafter, its context, and a target that gives every row another token: no two rows are the same."""
    context = DraftContext(list(range(1000, 1100)), 100, 9999)
    return Lookahead(width, ngram, guesses=3), context


@pytest.mark.parametrize(("width", "ngram"), [(5, 4), (3, 3), (15, 5), (1, 3), (2, 6)])
def test_every_row_sees_what_the_paper_says(width, ngram):
    """The window's rows are made distinct, so that none are one."""
    drafter, context = settled(width, ngram)
    drafter.propose(context, 0)
    drafter._context = [10 * 100 + index for index in range(width - 1)]
    for index, column in enumerate(drafter._columns):
        column.tokens = [2000 + 100 * level + index for level in range(1, ngram - 1)]
    root = context.tokens[-1]
    drafter._pool.add(root, range(3000, 3000 + ngram - 1))
    drafter._pool.add(root, range(4000, 4000 + ngram - 1))
    tree = drafter.propose(context, 500)
    depths = tree.depths()
    at = {token: node for node, token in enumerate(tree.tokens)}
    window = {(0, index): at[1000 + index] for index in range(width - 1)}
    window |= {
        (level, index): at[2000 + 100 * level + index] for level in range(1, ngram - 1) for index in range(width)
    }
    assert len(window) == width * (ngram - 1) - 1
    for (level, index), node in window.items():
        context_seen = {window[0, place] for place in range(index)}
        own_column = {window[lower, index] for lower in range(1, level)}
        assert ancestors(tree, node) == context_seen | own_column
        assert depths[node] == (1 + index if level == 0 else level + index)
        assert tree.kept[node]
    for first in (3000, 4000):
        guess = [at[first + place] for place in range(ngram - 1)]
        for place, node in enumerate(guess):
            assert ancestors(tree, node) == set(guess[:place])
            assert depths[node] == place + 1
            assert not tree.kept[node]
    assert len(tree) == len(window) + 2 * (ngram - 1)


def learn(drafter, context, tree, path, accepted=()):
    """Behind each row stands 5000 and its number."""
    rows = list(range(1, len(tree) + 1))
    context.tokens.extend(path)
    drafter.learn(context, became(rows, [[5000 + row] for row in range(len(tree) + 1)], [[1.0]], path, accepted))


def test_the_levels_move_down_and_the_new_tokens_are_the_last_level():
    drafter, context = settled(4, 4)
    tree = drafter.propose(context, 30)
    levels = [[drafter._columns[index].tokens[level] for index in range(4)] for level in range(2)]
    last = [nodes[-1] for nodes in drafter._nodes]
    learn(drafter, context, tree, [7])
    assert drafter._context == levels[0][1:]
    assert [column.tokens[0] for column in drafter._columns] == levels[1]
    assert [column.tokens[1] for column in drafter._columns] == [5001 + node for node in last]


@pytest.mark.parametrize("accepted", [2, 3, 4])
def test_the_window_moves_by_as_many_tokens_as_were_accepted(accepted):
    """In the published code it moves by one, and every trajectory then stands before its place."""
    drafter, context = settled(6, 4)
    tree = drafter.propose(context, 30)
    start = len(context.tokens)
    # Where the text will have the token that a trajectory holds now.
    places = {}
    for index, nodes in enumerate(drafter._nodes):
        for level, token in enumerate(drafter._columns[index].tokens, 1):
            places[token, level, index] = start + index + level - 1
        places[5001 + nodes[-1], 3, index] = start + index + 2
    learn(drafter, context, tree, list(range(accepted)))
    drafter.propose(context, 30)
    start = len(context.tokens)
    for index in range(6 - accepted + 1):
        for level, token in enumerate(drafter._columns[index].tokens, 1):
            assert places[token, level + 1, index + accepted - 1] == start + index + level - 1
    for index, token in enumerate(drafter._context[: 6 - accepted]):
        assert places[token, 1, index + accepted] == start + index


def test_an_n_gram_is_the_column_with_the_token_before_it_and_the_one_behind():
    drafter, context = settled(3, 4)
    for _ in range(3):
        tree = drafter.propose(context, 40)
        before = drafter._context[0]
        column, row = list(drafter._columns[1].tokens), drafter._nodes[1][-1] + 1
        learn(drafter, context, tree, [8])
    assert drafter._pool.get(before)[0] == (*column, 5000 + row)


def test_no_n_gram_has_a_token_that_was_drawn_at_random():
    drafter, context = settled(5, 4)
    drawn = set(context.tokens)
    for step in range(12):
        tree = drafter.propose(context, 60)
        learn(drafter, context, tree, list(range(step % 3 + 1)))
        for key in range(5000, 5100):
            assert not any(drawn & set(rest) for rest in drafter._pool.get(key))


def test_a_guess_that_matches_wholly_is_followed_by_the_models_own_token():
    """The published code commits the guess alone and leaves out the token that the model gives behind it."""
    prompt = plain(looping(), [], 60)
    run = generate(Lookahead(4, 4), looping(), prompt, 60)
    assert {len(outcome.path) for outcome in run.outcomes} == {4}  # 3 of the guess, and one
    assert run.text == plain(looping(), prompt, len(run.text) - len(prompt))


@pytest.mark.parametrize("target", [looping, prose])
def test_the_pool_holds_what_the_text_says_when_several_tokens_are_accepted(target):
    """The published code enters n-grams across the gap that the accepted tokens leave."""
    target = target()
    prompt = plain(target, [], 80)
    drafter = Lookahead(0, 4, guesses=1000)
    run = generate(drafter, target, prompt, 100)
    assert max(len(outcome.path) for outcome in run.outcomes) > 1
    grams = {tuple(run.text[start : start + 4]) for start in range(len(run.text) - 3)}
    assert {(key, *rest) for key in range(400) for rest in drafter._pool.get(key)} == grams


def test_equal_rows_are_one():
    """L0[0] and L1[0] both follow the root; the same token there is evaluated once."""
    drafter, context = settled(3, 3)
    drafter.propose(context, 0)
    drafter._context = [5, 6]
    for column in drafter._columns:
        column.tokens = [5]
    tree = drafter.propose(context, 40)
    assert len(tree) == 4  # [5 | L0: 5 6; L1: 5 5 5] less the first of L1
    assert tree.child(ROOT, 5) == 0


def test_a_window_that_was_cut_begins_again_where_it_was_cut():
    target = markov()
    prompt = plain(target, [1, 2, 3], 50)
    for limit in (0, 3, 10):
        run = generate(Lookahead(8, 4), target, prompt, 60, rows=60, limit=limit)
        assert run.text == plain(target, prompt, len(run.text) - len(prompt))


def test_the_window_finds_n_grams_that_the_text_does_not_have():
    """What follows depends on the last token only, so a trajectory that began elsewhere says what the text will say."""

    def target(text):
        return [(text[-1] * 7 + 3) % 101, 1, 2]  # a cycle of 100 tokens

    prompt = [20, 40, 60, 80]
    window = generate(Lookahead(15, 5), target, prompt, 80, rows=120)
    text_only = generate(Lookahead(0, 5, guesses=15), target, prompt, 80, rows=120)
    assert window.text == plain(target, prompt, len(window.text) - 4)
    assert window.tokens_per_step > 1.5 > text_only.tokens_per_step == 1


def test_an_n_gram_of_two_tokens_is_refused():
    with pytest.raises(ValueError, match="ngram=2"):
        Lookahead(ngram=2)


def test_nothing_is_drafted_where_no_window_is_wanted_and_nothing_matches():
    run = generate(Lookahead(0), noise(), plain(noise(), [], 20), 30)
    assert all(tree == DraftTree() for tree in run.trees)
