"""Short points share a call where a first token takes longer than they do; each still streams into its own branch."""

import re

import pytest

from stretto import AsyncStretto, Budget
from stretto.backends.load import Load, meter_of
from stretto.display.rows import drawn, label_of
from stretto.errors import ServerFailedError
from stretto.extending import Capabilities
from stretto.strategies.grouped import Group, NotWrittenError
from stretto.strategies.skeleton_offer import points_together
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

ASKED = "What are the main benefits of regular exercise? Give me six tips, each in 15 words."
TITLES = ("Heart", "Sleep", "Mood", "Bones", "Weight", "Memory")
OUTLINE = "\n".join(f"{number}. {title}" for number, title in enumerate(TITLES, 1))
TEXTS = {number: f"Words{number} about{number} it{number}, all of its own{number}." for number in range(1, 7)}
WHOLE = "\n".join(f"{number}. **{title}**: {TEXTS[number]}" for number, title in enumerate(TITLES, 1))
ALONE = {f"text of point {number}, ": text for number, text in TEXTS.items()}


def marked(*numbers):
    return "\n\n".join(f"=== {number} ===\n{TEXTS[number]}" for number in numbers)


def grouped(prompt):
    """What the shared calls write, in the order in which they are asked for."""
    text = prompt.messages[-1].content
    asked = re.findall(r"^(\d)\. ", text.partition("Write the texts")[2], re.MULTILINE)
    return marked(*map(int, asked))


def measured(script, **able):
    """A backend whose first token takes 0.6 s, as it were, and that writes 60 tokens a second."""
    backend = ScriptedBackend({"Write only the outline": OUTLINE} | script, capabilities=Capabilities(**able))
    meter = meter_of(backend)
    meter.first_token_s.update(dict.fromkeys(range(1, 9), 0.6))
    meter.tokens_per_s.update(dict.fromkeys(range(1, 9), 60.0))
    return backend


async def ask(backend, question=ASKED, **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, **{"strategy": "skeleton", **options})


@pytest.mark.parametrize(
    ("load", "tokens", "together"),
    [
        (Load(), 20, 1),  # nothing is measured
        (Load(first_token_s={1: 0.6}, tokens_per_s={1: 70.0}), 27, 2),
        (Load(first_token_s={1: 0.6}, tokens_per_s={1: 70.0}), 81, 1),
        (Load(first_token_s={1: 0.05}, tokens_per_s={1: 70.0}), 27, 1),
        (Load(first_token_s={1: 5.0}, tokens_per_s={1: 70.0}), 27, 3),  # two calls remain
    ],
)
def test_a_call_writes_for_as_long_as_its_first_token_takes(load, tokens, together):
    assert points_together(load, tokens, 6) == together


async def test_short_points_share_calls_and_each_has_its_branch_and_place():
    backend = measured({"Write the texts of these points": grouped})
    answer = await ask(backend)
    assert answer.text == WHOLE
    assert answer.warnings == ()
    kinds = [(branch.kind, branch.id) for branch in answer.branches if branch.kind != "point"]
    assert kinds == [
        ("outline", "outline"),
        ("points", "points-1-2"),
        ("points", "points-3-4"),
        ("points", "points-5-6"),
    ]
    points = [branch for branch in answer.branches if branch.kind == "point"]
    assert [branch.text for branch in points] == list(TEXTS.values())
    assert all(branch.usage.calls == 0 for branch in points)
    assert answer.usage.calls == len(backend.calls) == 4
    assert answer.cost is None
    assert [label_of(row) for row in drawn(answer.branches)[0]] == [
        "outline",
        *(f"{number} {title}" for number, title in enumerate(TITLES, 1)),
    ]


async def test_the_forecast_says_when_points_are_written_together():
    backend = measured({})
    async with AsyncStretto(backend) as stretto:
        short = await stretto.route("What are the main benefits of regular exercise? Ten tips, each in 20 words.")
        usual = await stretto.route("What are the main benefits of regular exercise? Ten tips.")
        meter_of(backend).first_token_s.update(dict.fromkeys(range(1, 19), 0.1))
        quick = await stretto.route("What are the main benefits of regular exercise? Ten tips, each in 20 words.")
    assert "Its points are so short that a first token takes longer: 2 are written in a call." in short.reason
    assert [each.forecast["skeleton"].calls for each in (short, usual, quick)] == [6, 11, 11]


async def test_a_point_streams_before_the_next_one_of_its_call_has_begun():
    backend = measured({"Write the texts of these points": grouped})
    async with AsyncStretto(backend) as stretto, stretto.stream(ASKED, strategy="skeleton") as stream:
        deltas = [event async for event in stream if event.type == "branch_delta"]
    events = [event.branch_id for event in deltas if event.branch_id.startswith("point-")]
    assert events.index("point-2") > 0
    assert events[: events.index("point-2")].count("point-1") > 1


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (lambda _: "Here are the texts you asked for, without any mark.", 10),
        (lambda prompt: grouped(prompt).partition("\n\n")[0], 7),  # only the first of each two
        (lambda prompt: grouped(prompt).replace("===", "==== Point", 1), 7),
        (
            lambda prompt: Reply(grouped(prompt), fault=ServerFailedError("It broke off.", backend="x"), fault_after=5),
            10,
        ),
        (lambda _: Reply("", fault=ServerFailedError("Down.", backend="x")), 10),
        (lambda prompt: Reply(grouped(prompt)[:-8], finish_reason="length"), 7),
    ],
    ids=["no marks", "one missing", "odd mark", "breaks off", "fails at once", "cut at its limit"],
)
async def test_what_the_shared_call_does_not_write_is_asked_for_alone(reply, calls):
    rest = {r"text of point (\d)": lambda prompt: TEXTS[int(re.search(r"point (\d),", prompt.messages[-1].content)[1])]}
    going_on = {r"broke off|received so far": "and the rest."}
    backend = measured({"Write the texts of these points": reply} | ALONE | rest | going_on | {"": "and the rest."})
    answer = await ask(backend)
    assert answer.strategy == "skeleton"
    for number, title in enumerate(TITLES, 1):
        assert f"{number}. **{title}**: Words{number}" in answer.text
    assert "===" not in answer.text
    assert len(backend.calls) <= calls


async def test_a_point_that_is_spoiled_in_a_shared_call_is_asked_for_alone():
    looped = "the same words again and again, " * 30

    def reply(prompt):
        return grouped(prompt).replace(TEXTS[2], looped)

    answer = await ask(measured({"Write the texts of these points": reply} | ALONE | {"": TEXTS[2]}))
    assert "again and again, the same words again and again, the same words" not in answer.text
    assert TEXTS[1] in answer.text
    assert TEXTS[3] in answer.text


@pytest.mark.parametrize(
    ("able", "options"),
    [
        ({"prompt_family": "small"}, {}),
        ({"prompt_family": "pocket"}, {}),
        ({}, {"preference": "careful"}),
        ({}, {"max_tokens": 2_000}),
        ({"logprobs": True}, {"logprobs": 1}),
    ],
)
async def test_where_points_have_to_stand_alone_each_has_its_call(able, options):
    backend = measured(ALONE | {"": "Some words."}, **able)
    answer = await ask(backend, **options)
    assert not any(branch.kind == "points" for branch in answer.branches)


async def test_the_budget_counts_a_shared_call_once():
    answer = await ask(measured({"Write the texts of these points": grouped}), budget=Budget(max_calls=4))
    assert answer.text == WHOLE


async def read(group, number):
    return "".join([piece async for piece in group.text(number)])


@pytest.mark.parametrize("size", [1, 3, 1_000])
async def test_texts_do_not_depend_on_how_the_stream_was_cut(size):
    text = "Sure:\n" + marked(1, 2) + "\n=== 7 ===\nNobody asked.\n  **=== 3 ===**\nA == b\n= c\n"
    group = Group([1, 2, 3])
    reader = group.reader()
    for at in range(0, len(text), size):
        reader.feed(text[at : at + size])
    reader.finish()
    group.end(whole=True)
    texts = [await read(group, number) for number in (1, 2, 3)]
    assert texts == [TEXTS[1], TEXTS[2], "A == b\n= c"]


async def test_of_a_second_try_only_points_count_that_the_first_had_not_begun():
    group = Group([1, 2])
    group.reader().feed("=== 1 ===\nHalf a")
    second = group.reader()
    second.feed(marked(1, 2))
    second.finish()
    group.end(whole=True)
    assert (await read(group, 2)).strip() == TEXTS[2]
    with pytest.raises(NotWrittenError):
        await read(group, 1)
