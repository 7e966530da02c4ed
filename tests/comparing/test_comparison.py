import json

import anyio
import pytest

from stretto import AsyncStretto
from stretto.backends.tenants import UNKNOWN, asking
from stretto.comparing import Side, Spending, compare, compare_async, questions_in
from stretto.comparing.intervals import interval
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import AuthenticationError, InvalidRequestError, ServerFailedError, UnknownStrategyError

pytestmark = pytest.mark.anyio
QUESTIONS = ("How do I look after a bicycle?", "How can I sleep better?", "What speaks for working from home?")
BY_POINTS = {"strategy": "skeleton", "strategy_options": {"form": "points"}}
SCRIPT = {"outline": "1. Oil the chain\n2. Pump the tyres\n3. Test the brakes", "point ": "Do it.", "": "Straight on."}


def sides(backend):
    client = AsyncStretto(backend)
    return Side("in parts", client, BY_POINTS), Side("straight", client, {"strategy": "direct"})


async def test_every_question_is_answered_both_ways_and_measured():
    found = await compare_async(QUESTIONS, *sides(ScriptedBackend(SCRIPT)))
    assert [pair.question.id for pair in found.pairs] == ["q1", "q2", "q3"]
    assert {pair.one.strategy for pair in found.pairs} == {"skeleton"}
    assert {pair.other.text for pair in found.pairs} == {"Straight on."}
    rows = {row.name: row for row in found.rows}
    assert rows["points"].one.value == 3.0
    assert rows["points"].other.value == 0.0
    assert rows["calls"].difference.value == 3.0
    assert rows["repeated between points"].ahead == ""
    assert found.failed == (0, 0)
    assert json.loads(found.as_json())["compared"] == 3


async def test_answers_written_in_the_same_way_are_left_out_of_the_figures():
    client = AsyncStretto(ScriptedBackend(SCRIPT))
    found = await compare_async(QUESTIONS[:1], Side("a", client, {"strategy": "direct"}), Side("b", client, {}))
    assert len(found.pairs) == 1
    same = await compare_async(
        ["What is the capital of France?"],
        Side("a", client, {"strategy": "auto"}),
        Side("b", client, {"strategy": "direct"}),
    )
    assert same.in_parts == ()
    assert same.rows == ()
    assert same.time_ratio is None


async def test_seeds_follow_the_questions():
    backend = ScriptedBackend(SCRIPT)
    await compare_async(QUESTIONS, *sides(backend), seed=7)
    assert {options.seed for _, options in backend.calls} - {None} >= {7, 8, 9}


async def test_a_question_that_fails_loses_nothing_else():
    broken = Reply(fault=ServerFailedError("HTTP 500"))
    found = await compare_async(QUESTIONS, *sides(ScriptedBackend({"sleep better": broken, **SCRIPT})))
    assert found.failed == (1, 1)
    assert len(found.in_parts) == 2
    assert "HTTP 500" in found.pairs[1].one.warnings[0]


async def test_what_would_fail_for_every_question_ends_the_comparison():
    backend = ScriptedBackend({"": Reply(fault=AuthenticationError("The key is wrong."))})
    with pytest.raises(AuthenticationError, match="key is wrong"):
        await compare_async(QUESTIONS, *sides(backend))
    with pytest.raises(UnknownStrategyError, match="dirct"):
        client = AsyncStretto(ScriptedBackend(SCRIPT))
        await compare_async(QUESTIONS, Side("a", client, {"strategy": "dirct"}), Side("b", client))


async def test_an_interrupted_comparison_goes_on_where_it_ended(tmp_path):
    keep = tmp_path / "kept.jsonl"
    first = ScriptedBackend(SCRIPT)
    with anyio.CancelScope() as scope:

        def stop(done, whole, doing):
            if done == 4:
                scope.cancel()

        await compare_async(QUESTIONS, *sides(first), keep=keep, progress=stop)
    assert scope.cancelled_caught
    kept = keep.read_text()
    keep.write_text(kept + '{"question": "q3", "side": "in pa')  # torn by a crash
    second = ScriptedBackend(SCRIPT)
    found = await compare_async(QUESTIONS, *sides(second), keep=keep)
    assert len(found.pairs) == 3
    assert keep.read_text().startswith(kept)
    asked = [prompt.messages[-1].content for prompt, _ in second.calls]
    assert not any("bicycle" in text for text in asked)
    assert any("working from home" in text for text in asked)
    third = ScriptedBackend(SCRIPT)
    await compare_async(QUESTIONS, *sides(third), keep=keep)
    assert third.calls == []


async def test_a_kept_file_of_another_comparison_is_refused(tmp_path):
    keep = tmp_path / "kept.jsonl"
    await compare_async(QUESTIONS[:1], *sides(ScriptedBackend(SCRIPT)), keep=keep)
    with pytest.raises(InvalidRequestError, match="another comparison"):
        await compare_async(QUESTIONS, *sides(ScriptedBackend(SCRIPT)), keep=keep)
    whole = keep.read_text()
    slow = whole.splitlines()[-1].replace('"total_s": ', '"total_s": -')
    for damaged in ("[]", "[" * 100_000, slow):
        keep.write_text(f"{whole}{damaged}\n")
        with pytest.raises(InvalidRequestError, match=r"Line 4 .* damaged"):
            await compare_async(QUESTIONS[:1], *sides(ScriptedBackend(SCRIPT)), keep=keep)


async def test_a_first_line_that_was_torn_is_written_anew(tmp_path):
    keep = tmp_path / "kept.jsonl"
    await compare_async(QUESTIONS[:1], *sides(ScriptedBackend(SCRIPT)), keep=keep)
    keep.write_text(keep.read_text()[:20])
    await compare_async(QUESTIONS[:1], *sides(ScriptedBackend(SCRIPT)), keep=keep)
    assert len(keep.read_text().splitlines()) == 3


async def test_a_budget_ends_the_comparison_before_the_question_that_does_not_fit():
    one = await compare_async(QUESTIONS[:1], *sides(ScriptedBackend(SCRIPT)))
    tokens = one.pairs[0].tokens
    found = await compare_async(QUESTIONS, *sides(ScriptedBackend(SCRIPT)), budget=Spending(tokens=2 * tokens + 40))
    assert len(found.pairs) == 2
    assert found.asked == 3
    with pytest.raises(InvalidRequestError, match="price of a model is unknown"):
        await compare_async(QUESTIONS, *sides(ScriptedBackend(SCRIPT)), budget=Spending(usd=1.0))


async def test_the_page_shows_texts_of_models_as_text(tmp_path):
    backend = ScriptedBackend({"outline": "1. <script>alert(1)</script>\n2. <img src=x>", "": "<b>&amp;</b>"})
    found = await compare_async(["How do I <i>sleep</i> better?", *QUESTIONS], *sides(backend))
    page = found.save(tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;b&gt;&amp;amp;&lt;/b&gt;" in page
    assert json.loads(found.save(tmp_path / "page.json").read_text())["asked"] == 4
    with pytest.raises(InvalidRequestError, match="saved as"):
        found.save(tmp_path / "page.pdf")


async def test_no_side_is_drafted_from_what_the_other_wrote():
    tenants = []

    def reply(request):
        if "bicycle" in str(request.messages):  # not the greeting that loads the model
            tenants.append(asking())
        return "Straight on."

    await compare_async(QUESTIONS[:1], *sides(ScriptedBackend(reply)))
    assert set(tenants) == {UNKNOWN}


@pytest.mark.thorough
def test_synchronous_code_compares_too():
    found = compare(["Thank you!"], "local:pocket")
    assert found.sides == ("auto", "direct")
    assert found.pairs[0].one.text


def test_questions_are_read_from_lines(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text('"One?"\n\n{"question": "Two?", "points": 3, "documents": ["a.txt"]}\n', encoding="utf-8-sig")
    one, two = questions_in(file)
    assert (one.id, two.id) == ("q1", "q2")
    assert two.points_wanted == 3
    assert two.documents == (tmp_path / "a.txt",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "1 to 10,000 questions"),
        ("What?\n", "line 1 of .* is no JSON"),
        ('""\n', "line 1 .*question"),
        ('{"question": "a", "points": 0}\n', "points"),
        ('{"question": "a", "answer": "b"}\n', "answer: there is no such name"),
        ('{"question": "a", "id": "x"}\n{"question": "b", "id": "x"}\n', "Two questions have the id 'x'"),
        ("[1]\n", "line 1"),
        ("[" * 100_000 + "\n", "line 1 of .* is no JSON"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, text, words):
    file = tmp_path / "questions.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidRequestError, match=words):
        questions_in(file)


def test_an_interval_holds_the_value_and_shrinks_with_questions():
    few, many = interval([0.0, 1.0] * 5), interval([0.0, 1.0] * 500)
    assert few.low < few.value == many.value == 0.5 < few.high
    assert many.high - many.low < (few.high - few.low) / 3
    assert interval([1.0] * 5).low == interval([1.0] * 5).high == 1.0
    assert interval([]) is None
    assert interval([1.0, 2.0, 30.0], "median").value == 2.0
