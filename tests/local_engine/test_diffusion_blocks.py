"""Blocks that are refined: the tokens of a plain loop, alone and in a batch, and everything around them as usual."""

import pytest
import torch
from asking import outcome, submit_together, tokens
from diffusion_loops import PlainLoop, entropy_bound, low_confidence, mask_predict, threshold
from tiny_models import build

from stretto.local_engine.drafting.method import DraftEquipment
from stretto.local_engine.drafting.sources.texts import EarlierAnswers
from stretto.local_engine.generation import Generation
from stretto.local_engine.measuring.bench import bench
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.research.block_diffusion.denoising import Denoising
from stretto.local_engine.research.block_diffusion.unmasking import MaskPredict, rules_for
from stretto.local_engine.serving.handle import Handle
from stretto.local_engine.serving.scheduler import Scheduler
from stretto.local_engine.serving.sequence import Sequence
from stretto.values.errors import InvalidRequestError, SettingsError

MASK, BLOCK = 3, 8
PROMPT = tuple((11 * place + 5) % 380 + 10 for place in range(21))  # two blocks, and five tokens of the third
BLOCKS = BlockForm("blocks", BLOCK, MASK)
RULES = {
    "threshold": ({"threshold": 0.06}, threshold(0.06)),
    "entropy_bound": ({"bound": 6.0}, entropy_bound(6.0)),
    "low_confidence": ({"steps": 3}, low_confidence(3)),
}
THRESHOLD = RULES["threshold"][1]
OPTIONS = {name: options for name, (options, _) in RULES.items()}


def asked(prompt=PROMPT, length=22, decoding="threshold", **options) -> Generation:
    return Generation(tuple(prompt), length, decoding=decoding, **options)


@pytest.fixture(scope="module")
def model(tokenizer):
    return prepare("local:blocks", build("qwen3"), tokenizer, diffusion=BLOCKS)


@pytest.fixture
def engine(model, start):
    return start(model, method_options=OPTIONS)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_writes_the_tokens_of_a_plain_loop(engine, rule):
    loop = PlainLoop(build("qwen3"), MASK, RULES[rule][1])
    expected = loop.in_blocks(PROMPT, 22, BLOCK)

    handle = engine.submit(asked(decoding=rule))
    figures = outcome(handle)[1].figures

    assert handle.sequence.generated == expected
    assert figures.steps <= loop.forwards < 27  # the masks of all blocks
    assert figures.tokens == 22
    assert figures.decoding == rule


@pytest.mark.parametrize(("architecture", "compiled"), [("llama", True), ("qwen2", False), ("gpt2", False)])
def test_compiled_code_torch_and_transformers_write_the_same(tokenizer, start, architecture, compiled):
    expected = PlainLoop(build(architecture), MASK, THRESHOLD).in_blocks(PROMPT, 14, BLOCK)
    model = prepare("local:blocks", build(architecture), tokenizer, diffusion=BLOCKS, compiled=compiled)

    engine = start(model, method_options=OPTIONS)

    assert tokens(engine.submit(asked(length=14))) == expected


def test_a_batch_writes_what_each_request_writes_alone(engine):
    requests = [
        asked(PROMPT[: 4 + 5 * number], 9 + 4 * number, decoding=rule, **chance)
        for number, (rule, chance) in enumerate(
            [*((rule, {}) for rule in RULES), ("threshold", {"temperature": 1.0, "seed": 4, "top_k": 30})]
        )
    ]
    alone = [tokens(engine.submit(request)) for request in requests]

    together = submit_together(engine, requests)

    assert [tokens(handle) for handle in together] == alone


def test_a_finished_block_is_cached_for_later_prompts(model, start):
    engine = start(model, method_options=OPTIONS, prefix_cache_bytes=2**20)
    first = engine.submit(asked())
    outcome(first)
    longer = (*PROMPT, *first.sequence.generated, 20, 21)
    expected = PlainLoop(build("qwen3"), MASK, THRESHOLD).in_blocks(longer, 10, BLOCK)

    second = engine.submit(asked(longer, 10))

    assert outcome(second)[1].cached_tokens == 40  # five whole blocks
    assert second.sequence.generated == expected


def test_an_answer_ends_at_an_end_token_within_a_block(engine):
    whole = tokens(engine.submit(asked()))
    end = whole[5]

    handle = engine.submit(asked(end_ids=frozenset({end})))

    assert tokens(handle) == whole[: whole.index(end) + 1]


def test_an_answer_ends_at_a_stop_text_within_a_block(engine):
    text, _ = outcome(engine.submit(asked()))
    stop = text[len(text) // 2 : len(text) // 2 + 2]

    stopped, end = outcome(engine.submit(asked(stop=(stop,))))

    assert stopped == text[: text.index(stop)]
    assert end.reason == "stop"


@pytest.mark.parametrize("length", [1, 3, 4, 12])
def test_an_answer_ends_at_its_length_within_a_block(engine, length):
    handle = engine.submit(asked(length=length))

    assert outcome(handle)[1].reason == "length"
    assert handle.sequence.generated == tokens(engine.submit(asked()))[:length]


def test_text_comes_block_by_block_and_a_cancelled_request_leaves_the_batch(engine):
    pieces = []

    def listen(event):
        pieces.append(event)
        if len(pieces) == 1:
            handle.cancel()

    with engine.announced():
        handle = engine.submit(asked(length=200), listen)
        other = engine.submit(asked(PROMPT[:9], 30))
    expected = PlainLoop(build("qwen3"), MASK, THRESHOLD).in_blocks(PROMPT[:9], 30, BLOCK)

    assert tokens(other) == expected
    assert pieces[-1].reason == "cancelled"
    assert len(handle.sequence.generated) <= 2 * BLOCK
    assert engine.occupancy.running == 0


def test_a_seed_gives_the_same_answer_and_another_seed_another_one(engine):
    answers = [tokens(engine.submit(asked(temperature=1.0, seed=seed))) for seed in (1, 1, 2)]

    assert answers[0] == answers[1] != answers[2]
    assert MASK not in {token for answer in answers for token in answer}


def test_penalties_and_biases_apply_at_every_position(engine):
    plainly = tokens(engine.submit(asked()))

    without = tokens(engine.submit(asked(suppress_tokens=tuple(set(plainly)))))
    begins = tokens(engine.submit(asked(begin_suppress_tokens=(plainly[0],))))
    biased = tokens(engine.submit(asked(logit_bias={77: 1000.0})))

    assert set(without).isdisjoint(plainly)
    assert begins[0] != plainly[0]
    assert biased == [77] * 22


@pytest.mark.parametrize("wanted", [{"logprobs": 2}, {"response_format": "[0-9]+"}, {"no_repeat_ngram_size": 2}])
def test_what_needs_one_token_after_the_other_is_refused(engine, wanted):
    with pytest.raises(InvalidRequestError, match=f"{next(iter(wanted))} cannot be used with local:blocks"):
        engine.submit(asked(end_ids=frozenset({2}), **wanted))


def test_a_drafting_method_is_refused(engine):
    with pytest.raises(InvalidRequestError, match=r"no decoding method 'suffix'.*threshold"):
        engine.submit(asked(decoding="suffix"))


def test_there_are_no_drafting_methods_to_measure(model):
    with pytest.raises(SettingsError, match="writes blocks of tokens at once"):
        bench(model)


def test_blocks_of_another_length_are_refused_where_a_model_was_trained_for_one(model, start):
    engine = start(model, method_options={"threshold": {"block": 4}})

    with pytest.raises(SettingsError, match="trained with blocks of 8 tokens"):
        engine.submit(asked())


@pytest.fixture
def everything(tokenizer):
    return prepare(
        "local:everything", build("llama"), tokenizer, diffusion=BlockForm("everything", 8, MASK, "everything")
    )


@pytest.mark.parametrize("passes", [1, 3, 10])
def test_mask_predict_writes_an_answer_in_as_many_passes(everything, start, passes):
    engine = start(everything, method_options={"mask_predict": {"passes": passes}})
    loop = PlainLoop(build("llama"), MASK, THRESHOLD)
    expected = mask_predict(loop, PROMPT, 24, passes)

    handle = engine.submit(asked(length=24, decoding="mask_predict"))

    assert outcome(handle)[1].figures.steps == loop.forwards == passes
    assert handle.sequence.generated == expected


def test_the_first_pass_of_mask_predict_says_how_long_the_answer_is(everything, start):
    engine = start(everything, method_options={"mask_predict": {"passes": 3}})
    loop = PlainLoop(build("llama"), MASK, THRESHOLD)
    ends = frozenset(mask_predict(loop, PROMPT, 24, 1)[-6:])
    expected = mask_predict(loop, PROMPT, 24, 3, ends)

    handle = engine.submit(asked(length=24, decoding="mask_predict", end_ids=ends))

    first = next((place for place, token in enumerate(expected, 1) if token in ends), len(expected))
    assert len(expected) <= 19
    assert tokens(handle) == expected[:first]


def test_a_length_that_the_first_pass_said_stays_however_unsure_the_model_was():
    form = BlockForm("everything", 8, MASK, "everything")
    denoising = Denoising([1, 2], 6, form, MaskPredict(passes=2), frozenset({9}))

    denoising.take(denoising.plan(), [10, 11, 12, 9, 9, 9], [0.9, 0.9, 0.5, 0.1, 0.1, 0.1], [])
    second = denoising.plan()

    assert denoising.take(second, [20] * len(second.targets), [0.5] * len(second.targets), [])[-1] == 9


def test_mask_predict_writes_every_block_in_as_many_passes(everything, start):
    engine = start(everything, method_options={"mask_predict": {"passes": 3, "block": 8}})

    figures = outcome(engine.submit(asked(length=24, decoding="mask_predict")))[1].figures

    assert figures.steps == 9


@pytest.mark.parametrize(("architecture", "shifted"), [("llama", False), ("qwen2", True), ("gpt2", False)])
@pytest.mark.parametrize("rule", ["threshold", "low_confidence"])
def test_a_model_that_sees_everything_writes_the_tokens_of_a_plain_loop(tokenizer, start, architecture, shifted, rule):
    form = BlockForm("everything", 8, MASK, "everything", shifted=shifted)
    model = prepare("local:everything", build(architecture), tokenizer, diffusion=form)
    loop = PlainLoop(build(architecture), MASK, RULES[rule][1], shifted)
    expected = loop.seeing_everything(PROMPT, 20, 8)

    handle = start(model, method_options=OPTIONS).submit(asked(length=20, decoding=rule))

    assert outcome(handle)[1].figures.steps == loop.forwards
    assert handle.sequence.generated == expected


@pytest.mark.parametrize("cache", ["prefix", "dual"])
def test_a_block_cache_evaluates_fewer_rows(tokenizer, start, cache):
    form = BlockForm("everything", 8, MASK, "everything", shifted=True)
    model = prepare("local:everything", build("qwen2"), tokenizer, diffusion=form)
    found = {}
    for kind in ("none", cache):
        engine = start(model, method_options={"low_confidence": {"cache": kind, "steps": 4}})
        found[kind] = outcome(engine.submit(asked(length=24, decoding="low_confidence")))[1].figures

    assert found[cache].steps == found["none"].steps == 12
    assert found[cache].rows < 0.7 * found["none"].rows


def test_shifted_logits_begin_each_block_with_what_the_last_row_predicts(tokenizer, start):
    form = BlockForm("shifted", 8, MASK, shifted=True, part=4)
    model = prepare("local:shifted", build("qwen2"), tokenizer, diffusion=form)
    for prompt in (PROMPT, PROMPT[:16], PROMPT[:5]):
        loop = PlainLoop(build("qwen2"), MASK, THRESHOLD, shifted=True)
        expected = loop.in_blocks(prompt, 20, 8, part=4)

        handle = start(model, method_options=OPTIONS).submit(asked(prompt, 20))

        assert outcome(handle)[1].figures.steps <= loop.forwards
        assert handle.sequence.generated == expected


def test_a_rule_that_cannot_be_made_ends_its_own_request_and_no_other(model):
    def made(request, writing):
        if request.prompt == PROMPT[:9]:
            raise ValueError("it cannot be made")
        return rules_for(model.name, BLOCKS)[request.decoding](DraftEquipment())

    scheduler = Scheduler(
        model, made, prefill_tokens=64, draft_nodes=8, prefixes=PrefixCache(0, 0), answers=EarlierAnswers(100)
    )
    kept, lost = (
        Handle(Sequence(asked(prompt, 9), model.decode), lambda handle: None, None) for prompt in (PROMPT, PROMPT[:9])
    )
    with torch.inference_mode():
        for handle in (kept, lost):  # the first one runs when the other comes
            scheduler.admit([(handle, None)])
            scheduler.turn()
        while scheduler.handles:
            scheduler.turn()
    assert "it cannot be made" in str(outcome(lost)[1].error)
    assert outcome(kept)[1].reason == "length"
