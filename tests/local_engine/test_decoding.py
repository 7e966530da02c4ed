"""Every method gives, token for token, what one token at a time gives; whatever is drafted, at any batch size."""

import queue
import threading
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import pytest
import torch
from asking import PROMPTS, SHARED, outcome, submit_together, tokens
from corners import corners
from forwards import Watched
from patience import patience
from tiny_models import SIZES, build
from transformers import LlamaConfig, LlamaForCausalLM
from wild_drafters import Oracle, RandomTrees

from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.serving import step_timing
from stretto.local_engine.serving.step_timing import measure_step_cost, measuring
from stretto.values.errors import InvalidRequestError, SettingsError

ARCHITECTURES = ["llama", "qwen3", "mistral", "gemma2"]
METHODS = sorted(set(DRAFTERS) - EQUIPPED - {"autoregressive"})
LENGTH = 30


def with_drafters(answers):
    """The catalogue, and drafters for tests."""
    return DRAFTERS | {"random": lambda _: RandomTrees(), "oracle": lambda _: Oracle(answers)}


@pytest.fixture(scope="module")
def in_double(tokenizer):
    """The tiny models with weights of 64 bits."""
    return {name: prepare(f"local:{name}", build(name).double(), tokenizer) for name in ARCHITECTURES}


@pytest.mark.parametrize(
    ("architecture", "precision"),
    corners(
        ARCHITECTURES,
        ["fp32", "fp64"],
        of=lambda name, precision: (name, precision) == ("llama", "fp32"),
    ),
)
def test_greedy_answers_do_not_depend_on_the_method(architecture, precision, loaded, in_double, start):
    model = loaded(architecture) if precision == "fp32" else in_double[architecture]
    answers = {}
    engine = start(model, drafters=with_drafters(answers), draft_nodes=24)
    prompts = [*PROMPTS, (9, 8), PROMPTS[0] * 2, (4,) * 40]
    for prompt in prompts:
        answers[prompt] = tokens(engine.submit(Generation(prompt, LENGTH)))
    # The long run, every method at every size of batch over more prompts, is benchmarks/exactness.py.
    runs = [("random", 1), ("random", 8), ("oracle", 3), ("oracle", 8)] + [(method, 3) for method in METHODS]
    for method, batch in runs:
        asked = prompts[-batch:]
        handles = submit_together(engine, [Generation(prompt, LENGTH, decoding=method) for prompt in asked])
        got = [outcome(handle)[1] for handle in handles]
        assert [handle.sequence.generated for handle in handles] == [answers[prompt] for prompt in asked], method
        assert all(finished.figures.decoding == method for finished in got)
        if method == "oracle":
            assert min(finished.figures.tokens_per_step for finished in got) > 1.2


SETTINGS = {
    "sampled": {"temperature": 1.0},
    "limited": {"temperature": 0.8, "top_k": 30, "top_p": 0.9, "min_p": 0.02},
    "penalty": {"repetition_penalty": 1.3},
    "sampled without repeats": {"temperature": 0.8, "no_repeat_ngram_size": 2, "suppress_tokens": (7, 9)},
    "sampled with penalty and bias": {
        "temperature": 0.9,
        "repetition_penalty": 1.2,
        "logit_bias": {7: 3.0, 11: -100.0},
    },
}


@pytest.mark.parametrize(
    ("architecture", "name"),
    corners(["llama", "mistral"], SETTINGS, of=lambda architecture, _: architecture == "llama"),
)
def test_a_seed_gives_the_same_answer_under_every_method(architecture, name, in_double, start):
    """Every method samples; some methods under each of the other settings."""
    answers, settings, methods = {}, SETTINGS[name], ["random", "oracle", *METHODS]
    chosen = methods if name == "sampled" else methods[list(SETTINGS).index(name) % 3 :: 3]
    engine = start(in_double[architecture], drafters=with_drafters(answers))
    requests = [
        partial(Generation, prompt, LENGTH, seed=seed, **settings) for seed, prompt in enumerate([(9, 8), *PROMPTS[:2]])
    ]
    for request in requests:
        answers[request().prompt] = tokens(engine.submit(request()))
    for method in chosen:
        handles = submit_together(engine, [request(decoding=method) for request in requests])
        assert [tokens(handle) for handle in handles] == list(answers.values()), method


def test_methods_and_settings_mix_in_one_batch(loaded, start):
    answers = {}
    engine = start(loaded("gemma2"), drafters=with_drafters(answers))
    methods = ["oracle", "autoregressive", "lookahead", "random", "suffix"]
    settings = [{}, {"temperature": 1.0, "seed": 3}, {"repetition_penalty": 1.5}, {}, {"temperature": 0.7, "seed": 4}]
    requests = [partial(Generation, *given) for given in zip(PROMPTS, (30, 9, 25, 1, 2), strict=True)]
    for request, own in zip(requests, settings, strict=True):
        answers[request().prompt] = tokens(engine.submit(request(**own)))
    mixed = [request(decoding=m, **own) for request, m, own in zip(requests, methods, settings, strict=True)]
    assert [tokens(handle) for handle in submit_together(engine, mixed)] == list(answers.values())


@pytest.mark.parametrize("method", ["oracle", "suffix"])
def test_an_end_token_inside_an_accepted_span_ends_there(method, loaded, start, tokenizer):
    answers = {}
    engine = start(loaded("llama"), drafters=with_drafters(answers))
    free = answers[PROMPTS[0]] = tokens(engine.submit(Generation(PROMPTS[0], LENGTH)))
    ends = frozenset({free[9], free[14], 2})
    length = min(free.index(end) for end in ends if end in free)
    handle = engine.submit(Generation(PROMPTS[0], LENGTH, end_ids=ends, decoding=method))
    text, finished = outcome(handle)
    assert finished.reason == "stop"
    assert handle.sequence.generated == free[: length + 1]
    assert finished.completion_tokens == finished.figures.tokens + 1 == length + 1
    assert text.rstrip("\ufffd") == tokenizer.decode(free[:length], skip_special_tokens=True).rstrip("\ufffd")


def test_a_stop_text_inside_an_accepted_span_ends_there(loaded, start):
    answers = {}
    engine = start(loaded("llama"), drafters=with_drafters(answers))
    request = partial(Generation, PROMPTS[0], 60, temperature=1.0, seed=5)
    handle = engine.submit(request())
    text, _ = outcome(handle)
    answers[PROMPTS[0]] = handle.sequence.generated
    cut, finished = outcome(engine.submit(request(stop=(text[20:24],), decoding="oracle")))
    assert cut == text[: text.index(text[20:24])]
    assert finished.reason == "stop"


def test_the_whole_context_window_can_be_filled_with_drafts(loaded, start):
    answers = {}
    for architecture in ("llama", "gpt2"):
        engine = start(loaded(architecture), drafters=with_drafters(answers))
        for method in ("autoregressive", "random", "auto"):
            pair = [Generation((9,) * 240, 16, decoding=method), Generation((9,) * 200, 56, decoding=method)]
            handles = submit_together(engine, pair)
            got = {handle.sequence.request.prompt: tokens(handle) for handle in handles}
            assert got == answers or not answers
            answers.update(got)
        answers.clear()


def test_the_figures_account_for_steps_rows_and_tokens(loaded, start):
    answers = {}
    engine = start(loaded("llama"), drafters=with_drafters(answers))
    answers[PROMPTS[0]] = tokens(engine.submit(Generation(PROMPTS[0], LENGTH)))
    figures = outcome(engine.submit(Generation(PROMPTS[0], LENGTH)))[1].figures
    assert (figures.steps, figures.rows, figures.tokens) == (LENGTH - 1,) * 3
    assert figures.tokens_per_step == figures.rows_per_step == 1.0
    figures = outcome(engine.submit(Generation(PROMPTS[0], LENGTH, decoding="oracle")))[1].figures
    assert figures.tokens == LENGTH - 1 == figures.steps + figures.accepted["oracle"]
    assert figures.rows == figures.steps + figures.drafted["oracle"]


def test_an_unknown_method_is_refused_with_the_names_of_all(loaded, start):
    engine = start(loaded("llama"))
    with pytest.raises(InvalidRequestError, match=r"'turbo'.*auto.*lookahead"):
        engine.submit(Generation((1, 2), 5, decoding="turbo"))
    assert tokens(engine.submit(Generation((1, 2), 5)))


def test_a_method_that_lacks_its_model_is_refused(loaded, start):
    with pytest.raises(SettingsError, match="needs a draft model"):
        start(loaded("llama")).submit(Generation((1, 2), 5, decoding="draft_model"))


def test_a_draft_model_drafts_for_the_model(loaded, start):
    engine = start(loaded("llama"), draft=loaded("llama"))
    expected = tokens(engine.submit(Generation(PROMPTS[0], LENGTH)))
    handle = engine.submit(Generation(PROMPTS[0], LENGTH, decoding="draft_model"))
    assert outcome(handle)[1].figures.tokens_per_step > 2
    assert handle.sequence.generated == expected


def test_requests_that_come_later_join_the_running_batch(loaded, start):
    engine = start(loaded("llama"), drafters=with_drafters({}))
    alone = [tokens(engine.submit(Generation(prompt, 60))) for prompt in PROMPTS]
    joined, running, ended = [], [], threading.Event()

    def listen(event):
        if isinstance(event, Finished):
            ended.set()
        elif len(joined) < len(PROMPTS) - 1:
            joined.append(engine.submit(Generation(PROMPTS[len(joined) + 1], 60, decoding="random")))
        elif joined[-1].sequence.generated:
            running.append(len(joined[0].sequence.generated))

    first = engine.submit(Generation(PROMPTS[0], 60), listen)
    assert ended.wait(patience(60))
    assert first.sequence.generated == alone[0]
    assert [tokens(handle) for handle in joined] == alone[1:]
    # What they have in common with a request that runs is not computed again.
    assert min(handle.sequence.cached for handle in joined) >= len(SHARED)
    assert running  # all had begun before the first was at its end


def test_a_long_prompt_does_not_hold_up_those_that_run(loaded, start):
    engine = start(loaded("llama"), prefill_tokens=16)
    progress, ended = [], threading.Event()

    def listen(event):
        if isinstance(event, Finished):
            ended.set()
        else:
            if not progress:
                later.append(engine.submit(Generation((3,) * 160, 5)))
            progress.append(bool(later[0].sequence.generated))

    later = []
    engine.submit(Generation(PROMPTS[0], 60), listen)
    assert ended.wait(patience(60))
    assert len(tokens(later[0])) == 5
    assert progress.count(False) >= 4  # pieces between the ten parts of the other's prompt
    assert any(progress)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "letters"),
    [
        pytest.param("random", 4),
        pytest.param("oracle", 4, marks=pytest.mark.thorough),
        pytest.param("draft_model", 3, marks=pytest.mark.thorough),
    ],
)
def test_samples_follow_the_distribution_of_the_model(method, letters, tokenizer, start):
    """Chi-square of whole answers of three tokens against their exact probabilities."""
    # The chi-square that one in a thousand exceeds; a draft model is slow, so it draws less, from fewer answers.
    prompt, draws, limit = {4: ((1, 3), 1500, 103.4), 3: ((0, 1), 500, 54.1)}[letters]
    length = 3
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(**(SIZES | {"vocab_size": letters, "initializer_range": 0.12})))
    loaded = prepare("local:letters", model.double(), tokenizer)
    temperature = 2.5
    answers = list(product(range(letters), repeat=length))
    with torch.inference_mode():
        logits = model(torch.tensor([prompt + answer for answer in answers])).logits[:, len(prompt) - 1 : -1]
    log_probabilities = torch.log_softmax(logits / temperature, -1)
    expected = draws * log_probabilities.gather(2, torch.tensor(answers)[:, :, None]).sum((1, 2)).exp()
    drafters = DRAFTERS | {
        "random": lambda _: RandomTrees(alphabet=letters),
        "oracle": lambda _: Oracle({prompt: answers[int(expected.argmax())]}),
    }
    torch.manual_seed(2)
    other = LlamaForCausalLM(LlamaConfig(**(SIZES | {"vocab_size": letters, "initializer_range": 0.12}))).double()
    draft = prepare("local:other letters", other, tokenizer)
    engine = start(loaded, drafters=drafters, batch_size=64, draft_nodes=64 * 6, draft=draft)
    requests = [
        Generation(prompt, length, temperature=temperature, seed=seed, decoding=method) for seed in range(draws)
    ]
    got = [tuple(tokens(handle)) for handle in submit_together(engine, requests)]
    counts = torch.tensor([got.count(answer) for answer in answers], dtype=torch.float64)
    assert float(expected.min()) > 3
    assert float(((counts - expected) ** 2 / expected).sum()) < limit


def test_the_numbers_of_rows_are_timed_in_turns_so_that_other_programs_slow_all_of_them_down(loaded):
    model, seen = loaded("llama"), []

    def forward(rows, cache, keep):
        seen.append(rows.tokens.shape[1])
        return model.forward(rows, cache, keep)

    with torch.inference_mode():
        steps = measuring(replace(model, forward=Watched(model.forward, forward)))
        tables = [table for _, table in zip(range(80), steps, strict=False)]
    timed = seen[1:]  # the first one reads a text
    assert timed.count(1) > 3
    assert all(after == 2 for rows, after in pairwise(timed) if rows == 1)
    assert [bool(table) for table in tables[:2]] == [False, False]
    assert any(tables)
    assert all(1 in table for table in tables if table)


def test_rows_are_timed_before_the_first_request_is_answered(loaded, start, monkeypatch):
    monkeypatch.setattr(step_timing, "_AT_FIRST_S", patience(60))
    engine, known = start(loaded("llama"), measure=True), queue.SimpleQueue()
    engine.submit(Generation(PROMPTS[0], 3), lambda _: known.put(engine.step_ms))
    assert known.get(timeout=patience(60))[8] > 0


def test_the_cost_of_a_step_is_measured_by_rows(loaded):
    with torch.inference_mode():
        *_, table = filter(None, measuring(loaded("llama")))
    assert {*range(1, 17)} <= set(table), "a draft may have any number of rows"
    assert measure_step_cost(loaded("llama"))(64) > 0
    assert measure_step_cost(replace(loaded("gpt2"), context_window=12))(1) > 0
    few_tokens = LlamaForCausalLM(LlamaConfig(**{**SIZES, "vocab_size": 20})).eval()
    assert measure_step_cost(replace(loaded("llama"), forward=LlamaForward(few_tokens)))(64) > 0
