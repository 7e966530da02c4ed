"""A little model writes and a big one takes back what it finds unlikely: lossy, and told by how much."""

import pytest
import torch
from one_batch import run
from test_draft_model import target_of

from stretto.errors import SettingsError
from stretto.local_engine.choosing.sampling import Sampler
from stretto.local_engine.choosing.verify import verify
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.autoregressive import Autoregressive
from stretto.local_engine.drafting.catalogue import LOSSY, DraftEquipment, check_options, make_drafter
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.rows import Rows

PROMPT = tuple((7 * place + 3) % 390 + 5 for place in range(20))


def drafter(loaded, **options):
    given = {"big_little": options}
    return make_drafter("big_little", DraftEquipment(model=loaded("llama"), draft=loaded("qwen3"), options=given))


def written(loaded, request, **options):
    return run(loaded("llama"), [request], [drafter(loaded, **options)])[0][0]


def test_with_no_surprise_allowed_every_token_is_the_big_models(loaded):
    plain = run(loaded("llama"), [Generation(PROMPT, 30)], [Autoregressive()])[0][0]
    assert written(loaded, Generation(PROMPT, 30), sure=0, surprise=0) == plain


def test_with_any_surprise_allowed_the_little_model_writes_between_two_forwards(loaded):
    text = [*PROMPT, *written(loaded, Generation(PROMPT, 13), sure=0, surprise=1e9, length=5)]
    big, little = target_of(loaded("llama")), target_of(loaded("qwen3"))
    writers = [big, *[little] * 5, big, *[little] * 5, big]  # the first token comes with the prompt
    expected = [model(text[:at])[0] for at, model in enumerate(writers, len(PROMPT))]
    assert text[len(PROMPT) :] == expected


@pytest.mark.parametrize("surprise", [5.9, 6.0, 6.1])
def test_what_surprises_the_big_model_too_much_is_taken_back(loaded, surprise):
    text = list(PROMPT)
    answer = written(loaded, Generation(PROMPT, 25), sure=0, surprise=surprise)
    model = loaded("llama")
    for token in answer:
        with torch.inference_mode():
            rows = Rows(torch.tensor([text]), torch.arange(len(text))[None], len(text))
            logits = model.forward(rows, KeyValueCache(1), torch.tensor([len(text) - 1]))[0, 0]
        best, told = int(logits.argmax()), -float(logits.log_softmax(-1)[token])
        assert token == best or told <= surprise + 1e-3
        text.append(token)


def chain(tokens, surprise):
    tree, parent = DraftTree(surprise=surprise), -1
    for token in tokens:
        parent = tree.add(token, parent, trust=True)
    return tree


def logits_of(*rows):
    return torch.tensor([rows]).log()


def test_the_walk_ends_where_a_token_is_too_unlikely_and_counts_what_it_changed():
    rows = logits_of([0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.9, 0.05, 0.05], [0.1, 0.1, 0.8])
    sampler = Sampler(Generation((1,), 9), torch.device("cpu"), None)
    (verdict,) = verify(rows, [chain([2, 0, 1], 1.5)], [sampler], [frozenset()])
    assert (verdict.tokens, verdict.nodes, verdict.changed) == ([2, 0, 0], [0, 1], 1)
    (verdict,) = verify(rows, [chain([2, 0, 1], 1e9)], [sampler], [frozenset()])
    assert (verdict.tokens, verdict.changed) == ([2, 0, 1, 2], 2)
    (verdict,) = verify(rows, [chain([2, 0, 1], 0.0)], [sampler], [frozenset()])
    assert (verdict.tokens, verdict.changed) == ([1], 0)


def test_an_unsure_little_model_writes_nothing(loaded):
    plain = run(loaded("llama"), [Generation(PROMPT, 12)], [Autoregressive()])
    assert run(loaded("llama"), [Generation(PROMPT, 12)], [drafter(loaded, sure=0.999999, surprise=1e9)]) == plain


def test_a_seed_gives_the_same_answer_twice_and_a_ban_holds(loaded):
    request = Generation(PROMPT, 20, temperature=0.8, seed=4)
    first = written(loaded, request, sure=0, surprise=4)
    assert first == written(loaded, request, sure=0, surprise=4)
    banned = Generation(PROMPT, 20, temperature=0.8, seed=4, logit_bias={first[3]: -100.0})
    assert first[3] not in written(loaded, banned, sure=0, surprise=4)


def test_it_is_lossy_and_its_options_are_checked(loaded):
    assert "big_little" in LOSSY
    for wrong in ({"sure": 1.0}, {"surprise": -1}, {"length": 0}, {"alpha": 1}):
        with pytest.raises(SettingsError):
            check_options({"big_little": wrong})
    with pytest.raises(SettingsError, match="big_little needs a little model"):
        make_drafter("big_little", DraftEquipment(model=loaded("llama")))
