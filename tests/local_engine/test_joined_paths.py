"""Paths that were written side by side are placed behind each other, as one forward with their mask would see them."""

import pytest
import torch
from asking import PROMPTS, SHARED, outcome, submit_together, tokens
from tiny_models import build
from transformers import DynamicCache
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from stretto.local_engine.generation import Generation, JoinedPaths
from stretto.values.errors import InvalidRequestError

KEEP = {"prefix_cache_bytes": 2**24}
BEGUN = ((21, 22), (23,), (24, 25, 26))
BEHIND = (31, 32, 33)


def by_one_forward(model, shared, paths, behind, count):
    """Greedy tokens and their log-probabilities, with the mask and the positions of Multiverse."""
    ids = [*shared, *(token for path in paths for token in path), *behind]
    owner = [-1] * len(shared) + [number for number, path in enumerate(paths) for _ in path]
    positions = [*range(len(shared)), *(len(shared) + at for path in paths for at in range(len(path)))]
    last = len(shared) + max(map(len, paths))
    found, scores = [], []
    for _ in range(count):
        after = len(ids) - len(owner)
        owners = torch.tensor([*owner, *[-2] * after])
        own, other = owners[:, None], owners[None]
        sees = torch.ones(len(ids), len(ids)).tril().bool() & ((own == other) | (other == -1) | (own == -2))
        mask = torch.zeros(1, 1, *sees.shape).masked_fill(~sees, -torch.inf)
        places = torch.tensor([[*positions, *range(last, last + after)]])
        with torch.no_grad():
            said = model(input_ids=torch.tensor([ids]), attention_mask=mask, position_ids=places).logits[0, -1]
        found.append(int(said.argmax()))
        scores.append(float(said.log_softmax(-1)[found[-1]]))
        ids.append(found[-1])
    return found, scores


def by_turned_keys(model, shared, paths, behind, count):
    """Greedy tokens behind paths that were read alone, whose keys transformers' own rotation turns on."""
    whole, offset = DynamicCache(config=model.config), 0
    for number, path in enumerate(paths):
        own = DynamicCache(config=model.config)
        with torch.no_grad():
            model(input_ids=torch.tensor([[*shared, *path]]), past_key_values=own)
        for layer, kept in enumerate(own.layers):
            cosine, sine = model.model.rotary_emb(kept.keys, torch.tensor([[offset]]))
            keys, _ = apply_rotary_pos_emb(kept.keys, kept.keys, cosine, sine)
            if not number:
                whole.update(kept.keys, kept.values, layer)
            else:
                whole.update(keys[:, :, len(shared) :], kept.values[:, :, len(shared) :], layer)
        offset += len(path)
    found, ids, last = [], list(behind), len(shared) + offset
    for _ in range(count):
        places = torch.arange(last, last + len(ids))[None]
        with torch.no_grad():
            said = model(input_ids=torch.tensor([ids]), past_key_values=whole, position_ids=places).logits[0, -1]
        last, ids = last + len(ids), [int(said.argmax())]
        found += ids
    return found


def written(engine):
    """The paths of a fork, written side by side."""
    begun = submit_together(engine, [Generation(SHARED + begins, 5 + len(begins)) for begins in BEGUN])
    return [(*begins, *tokens(handle)) for begins, handle in zip(BEGUN, begun, strict=True)]


def joining(paths, behind=BEHIND, *, beside=True, **options):
    prompt = (*SHARED, *(token for path in paths for token in path), *behind)
    return Generation(prompt, 12, joined=(JoinedPaths(len(SHARED), tuple(map(len, paths)), beside),), **options)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_what_follows_joined_paths_is_what_one_forward_with_their_mask_says(architecture, loaded, start):
    engine = start(loaded(architecture), **KEEP)
    paths = written(engine)
    expected, scores = by_one_forward(build(architecture), SHARED, paths, BEHIND, 12)

    handle = engine.submit(joining(paths, logprobs=0))
    said = [score.logprob for piece in list(handle)[:-1] for score in piece.logprobs]

    assert handle.sequence.generated == expected
    assert said == pytest.approx(scores, abs=1e-3)
    assert handle.sequence.cached == len(SHARED) + sum(map(len, paths)) - len(paths)  # the last tokens were never read


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_paths_may_be_placed_at_positions_behind_each_other(architecture, loaded, start):
    engine = start(loaded(architecture), **KEEP)
    paths = written(engine)
    expected = by_turned_keys(build(architecture), SHARED, paths, BEHIND, 12)

    assert tokens(engine.submit(joining(paths, beside=False))) == expected


def test_paths_of_which_nothing_is_known_are_read_each_on_its_own(loaded, start):
    paths = written(start(loaded("llama")))
    engine = start(loaded("llama"), prefill_tokens=16)
    expected, _ = by_one_forward(build("llama"), SHARED, paths, BEHIND, 12)

    assert tokens(engine.submit(joining(paths))) == expected


def test_a_join_shares_the_batch_with_other_requests(loaded, start):
    engine = start(loaded("llama"), **KEEP)
    paths = written(engine)
    plain = [Generation(prompt, 20) for prompt in PROMPTS[:3]]
    expected = [tokens(start(loaded("llama")).submit(request)) for request in (*plain, joining(paths))]

    found = submit_together(engine, [*plain, joining(paths)])

    assert [tokens(handle) for handle in found] == expected


def test_what_was_joined_is_copied_for_the_same_fork_only(loaded, start):
    engine = start(loaded("llama"), **KEEP)
    paths = written(engine)
    joined = joining(paths)
    more = (*BEHIND, *tokens(engine.submit(joined)), 41, 42)
    expected, _ = by_one_forward(build("llama"), SHARED, paths, more, 12)
    in_a_row = Generation(joining(paths, more).prompt, 12)

    handle, plain = engine.submit(joining(paths, more)), engine.submit(in_a_row)

    assert tokens(handle) == expected
    assert handle.sequence.cached == len(in_a_row.prompt) - 3
    assert tokens(plain) == tokens(start(loaded("llama")).submit(in_a_row))


@pytest.mark.parametrize("architecture", ["mistral", "gpt2"])
def test_a_model_whose_keys_cannot_be_turned_reads_the_paths_again(architecture, loaded, start):
    engine = start(loaded(architecture), **KEEP)
    request = joining(written(engine))

    plain = tokens(engine.submit(Generation(request.prompt, 12)))

    assert tokens(engine.submit(request)) == plain


@pytest.mark.parametrize("lengths", [(3, 0), (3, 30), ()])
def test_paths_that_are_not_in_the_prompt_are_refused(lengths):
    with pytest.raises(InvalidRequestError, match="joined cannot hold"):
        Generation(tuple(range(20)), 4, joined=(JoinedPaths(8, lengths),))


def test_a_join_that_fails_ends_its_own_request_and_no_other(loaded, start, monkeypatch):
    monkeypatch.setattr("stretto.local_engine.research.joined_paths.joined_prefill.joined", lambda *_: 1 / 0)
    engine = start(loaded("llama"), **KEEP)
    failing, other = submit_together(engine, [joining([(21, 22), (23,)]), Generation(PROMPTS[0], 8)])

    assert outcome(failing)[1].reason == "error"
    assert len(tokens(other)) == 8
