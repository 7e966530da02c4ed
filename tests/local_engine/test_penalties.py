"""What changes logits by the tokens so far: as transformers does, whatever is drafted, at any batch size."""

import pytest
import torch
from asking import PROMPTS, submit_together, tokens
from corners import corners
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import build
from transformers import NoRepeatNGramLogitsProcessor
from wild_drafters import Oracle, RandomTrees

from stretto.local_engine.choosing.penalties import Penalties
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED
from stretto.local_engine.generation import Generation
from stretto.values.errors import InvalidRequestError

CPU = torch.device("cpu")
LENGTH = 30
METHODS = [*sorted(set(DRAFTERS) - EQUIPPED), "draft_model", "random", "oracle"]
SETTINGS = [
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8},
    {"no_repeat_ngram_size": 1},
    {"repetition_penalty": 0.6, "no_repeat_ngram_size": 2},
    {"suppress_tokens": tuple(range(5, 300))},
    {"begin_suppress_tokens": tuple(range(5, 390))},
    {
        "suppress_tokens": (7, 11, 13),
        "begin_suppress_tokens": tuple(range(200)),
        "repetition_penalty": 0.6,
        "no_repeat_ngram_size": 3,
    },
]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "architecture"),
    corners(
        SETTINGS,
        ["llama", "gemma2"],
        of=lambda settings, architecture: architecture == "llama" and settings in (SETTINGS[0], SETTINGS[-1]),
    ),
)
def test_every_method_and_batch_gives_what_transformers_generates(architecture, settings, loaded, start):
    """Every method with the settings that come together, some methods with each setting alone."""
    methods = METHODS if settings is SETTINGS[-1] else METHODS[SETTINGS.index(settings) :: len(SETTINGS)]
    model, answers, others = build(architecture).eval(), {}, {}
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    without_the_last = dict(list(given.items())[:-1])
    for prompt in PROMPTS[:3]:
        asked = {"max_new_tokens": LENGTH, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        ids = torch.tensor([prompt])
        for found, own in ((answers, given), (others, without_the_last)):
            with torch.inference_mode():
                text = model.generate(ids, attention_mask=torch.ones_like(ids), **asked, **own)
            found[prompt] = text[0, len(prompt) :].tolist()
    assert answers != others
    ready = loaded(architecture)
    drafters = DRAFTERS | {"random": lambda _: RandomTrees(), "oracle": lambda _: Oracle(answers)}
    engine = start(ready, draft=ready, drafters=drafters)
    for method in methods:
        requests = [Generation(prompt, LENGTH, decoding=method, **settings) for prompt in answers]
        for handles in ([engine.submit(requests[0])], submit_together(engine, requests)):
            expected = list(answers.values())[: len(handles)]
            assert [tokens(handle) for handle in handles] == expected, method


@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 4), min_size=1, max_size=12),
    st.lists(st.integers(0, 4), max_size=8),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_a_row_of_a_draft_repeats_no_run_of_its_own_path(size, prompt, answer, path):
    ours = Penalties(Generation(tuple(prompt), 20, no_repeat_ngram_size=size), CPU)
    for token in answer[:2]:
        ours.commit([token])
    ours.commit(answer[2:])
    found, before = torch.zeros(5), torch.tensor([[*prompt, *answer, *path]])
    ours.suppress(found, path)
    assert torch.equal(found, NoRepeatNGramLogitsProcessor(size)(before, torch.zeros(1, 5))[0])


def test_where_a_format_allows_only_what_is_suppressed_the_format_is_kept(loaded, start, tokenizer):
    engine = start(loaded("llama"))
    (letter,) = tokenizer("a")["input_ids"]
    settings = {"no_repeat_ngram_size": 1, "begin_suppress_tokens": (letter,)}
    request = Generation(PROMPTS[0], 20, frozenset({2}), response_format="a{6}", decoding="suffix", **settings)
    assert tokenizer.decode(tokens(engine.submit(request))) == "aaaaaa<end>"


@pytest.mark.parametrize("name", ["suppress_tokens", "begin_suppress_tokens"])
def test_a_token_the_model_does_not_have_cannot_be_suppressed(name, loaded, start):
    with pytest.raises(InvalidRequestError, match=f"{name} has the token id 400, .* are 0 to 399"):
        start(loaded("llama")).submit(Generation((5, 6), 5, **{name: (7, 400)}))


@pytest.mark.parametrize("name", ["suppress_tokens", "begin_suppress_tokens"])
def test_suppressing_all_tokens_is_refused(name, loaded, start):
    with pytest.raises(InvalidRequestError, match=f"{name} has all tokens of .* none is left to choose"):
        start(loaded("llama")).submit(Generation((5, 6), 5, **{name: tuple(range(400))}))
