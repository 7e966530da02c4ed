"""A ladder of models is asked questions, and what is learned is kept for the cascade."""

import json

import anyio
import pytest
from scored_backend import ScoredBackend

from stretto import AsyncStretto, InvalidRequestError
from stretto.backends.base import Capabilities
from stretto.calibrating import LabelledQuestion, calibrate_async
from stretto.calibrating.goodness import is_right
from stretto.comparing import Spending, questions_in
from stretto.strategies.cascade.learned import all_learned, learned_for
from stretto.testing import Reply, ScriptedBackend
from stretto.values.errors import AuthenticationError, ServerFailedError

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SMALL, LARGE = "openai:gpt-5.4-nano", "openai:gpt-5.4"  # whose prices are known, so that no clock decides
KNOWN = [LabelledQuestion(question=f"What is easy {n} and 1? A number.", answer=str(n)) for n in range(12)]
HARD = [LabelledQuestion(question=f"What is hard {n} and 1? A number.", answer=str(n)) for n in range(12)]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


def number_in(prompt):
    return next((word for word in prompt.messages[-1].content.split() if word.isdecimal()), "1")


def small(**changed):
    """Knows what is easy, and is sure of it; of what is hard it says 99, and is not sure."""
    script = {"easy": number_in, "hard": "99", "": "Hello."}
    script = {**changed, **{words: said for words, said in script.items() if words not in changed}}
    return ScoredBackend(script, name=SMALL, scores={"easy": -0.1, "hard": -2.0})


def main(script=None, name=LARGE, **able):
    return ScriptedBackend(script or {"": number_in}, name=name, capabilities=Capabilities(**able))


def client(*smaller, large=None):
    return AsyncStretto(large or main(), roles=dict(zip(("small", "smaller"), reversed(smaller), strict=False)))


async def test_what_is_learned_is_kept_and_the_cascade_goes_by_it():
    stretto = client(small())
    found = await calibrate_async([*KNOWN, *HARD], stretto, goal=0.9)
    assert found.judged_by == {"answer": 24}
    assert found.learned.steps[0].threshold == -1.05
    assert found.learned == learned_for([stretto.backends["small"]], stretto.backends["main"])
    assert found.at_goal.agreement.value == 1.0
    assert found.at_goal.share.value == 0.5
    assert found.at_goal.right.value == 1.0
    assert found.alone[0].right.value == 0.5
    assert found.gap_recovered > 0.7
    easy = await stretto.ask("What is easy 3 and 1?", strategy="cascade")
    hard = await stretto.ask("What is hard 3 and 1?", strategy="cascade")
    assert (easy.branches[-1].model, hard.branches[-1].model) == (SMALL, LARGE)
    assert all(value in easy.route.reason for value in ("-1.05", "24 questions"))


@pytest.mark.thorough
async def test_a_ladder_gets_a_threshold_for_each_step():
    smaller = small()
    smaller.name = "local:smaller"
    middle = ScoredBackend({"": number_in}, -0.3, name=SMALL)
    found = await calibrate_async([*KNOWN, *HARD], client(smaller, middle), goal=0.9)
    assert [step.model for step in found.learned.steps] == ["local:smaller", SMALL]
    assert None not in [step.threshold for step in found.learned.steps]
    assert found.at_goal.share.value == 0.0  # the middle one knows what is hard
    assert found.at_goal.right.value == 1.0


async def test_too_few_questions_are_told_and_nothing_is_kept():
    found = await calibrate_async(KNOWN[:5], client(small()))
    assert found.learned is None
    assert found.caution.startswith("5 questions are too few: that 95% of the answers are as good can only be learned")
    assert all_learned() == []
    assert (await calibrate_async(KNOWN, client(small()), goal=0.9)).caution.startswith("12 questions are few")


async def test_why_questions_failed_is_told_with_their_number():
    large = main({"": Reply(fault=ServerFailedError("The schema has a keyword that cannot be used."))})
    found = await calibrate_async(KNOWN[:3], client(small(), large=large))
    assert found.caution.endswith("3 failed, the first with: The schema has a keyword that cannot be used.")


async def test_an_interrupted_run_goes_on_where_it_ended_with_the_same_figures(tmp_path):
    kept = tmp_path / "kept.jsonl"
    with anyio.CancelScope() as scope:

        def stop(done, whole, doing):
            assert whole == 24
            if done == 9:
                scope.cancel()

        await calibrate_async(KNOWN, client(small()), keep=kept, progress=stop)
    large = main()
    found = await calibrate_async(KNOWN, client(small(), large=large), keep=kept)
    assert len(large.calls) == 12 - 4 + 1  # four were there; one to load the model
    again = await calibrate_async(
        KNOWN, client(ScoredBackend({"": "Never asked."}, name=SMALL), large=main({"": "Never."})), keep=kept
    )
    assert again.as_json() == found.as_json()
    with pytest.raises(InvalidRequestError, match="holds another calibration"):
        await calibrate_async(HARD, client(small()), keep=kept)


async def test_a_budget_ends_the_run_early():
    found = await calibrate_async(KNOWN, client(small()), budget=Spending(tokens=60), goal=0.5)
    assert 1 <= len(found.answered) < 12
    assert sum(each.tokens for pair in found.answered for each in (*pair.smaller, pair.main)) <= 60


@pytest.mark.parametrize(
    ("fields", "one", "other", "told"),
    [
        ({"answer": "Paris"}, "Paris.", "It is Lyon.", (True, "answer", (True, False))),
        ({"answer": "Paris"}, "It is Lyon.", "The capital is Paris.", (False, "answer", (False, True))),
        ({"answer": ["two", "2"]}, "I know 3", "There are 2", (False, "answer", (False, True))),
        ({}, "The same.", "The same.", (True, "equality", None)),
        ({}, "8", "There are eight.", (True, "equality", None)),
        ({}, "7", "There are eight.", (False, "equality", None)),
        ({"response_format": SCHEMA}, "Three.", '{"n": 3}', (False, "format", None)),
        ({"response_format": SCHEMA}, '{"n": 3}', '{"n":3.0}', (True, "equality", None)),
        ({"response_format": SCHEMA}, '{"n": 4}', '{"n": 3}', (False, "equality", None)),
    ],
)
async def test_code_tells_whether_an_answer_is_as_good(fields, one, other, told):
    question = LabelledQuestion(question="How many are there?", **fields)
    stretto = AsyncStretto(main({"": other}, json_schema=True), roles={"small": ScoredBackend({"": one})})
    [pair] = (await calibrate_async([question], stretto)).answered
    assert (pair.goodness[0].good, pair.goodness[0].judged_by, pair.goodness[0].right) == told


@pytest.mark.parametrize(("said", "good"), [("A", False), ("tie", True)])
async def test_longer_answers_are_compared_by_a_judge_in_both_orders(said, good):
    texts = [f"A text {word} of many words that says something else about the sea and the sky." for word in "ab"]
    stretto = AsyncStretto(main({"": texts[0]}), roles={"small": ScoredBackend({"": texts[1]})})
    swapped = {"A": "B", "tie": "tie"}

    def prefers(prompt):
        asked = prompt.messages[-1].content
        small_first = asked.index(texts[1]) < asked.index(texts[0])
        return json.dumps({"overall": swapped[said] if small_first else said})

    judge = ScriptedBackend({"": prefers}, name="own:judge")
    [pair] = (await calibrate_async(["Why?"], stretto, judge=AsyncStretto(judge))).answered
    assert (pair.goodness[0].good, pair.goodness[0].judged_by, len(judge.calls)) == (good, "judge", 2)


async def test_a_judge_that_says_nothing_of_use_leaves_the_question_out():
    texts = ["One text of many words about the sea, " * 2, "Another one of as many words about the sky, " * 2]
    stretto = AsyncStretto(main({"": texts[0]}), roles={"small": ScoredBackend({"": texts[1]})})
    judge = AsyncStretto(ScriptedBackend({"": "I like both."}, name="own:judge"))
    found = await calibrate_async(["Why?"], stretto, judge=judge)
    assert (found.failed, found.answered, found.curve) == (1, (), ())


async def test_longer_answers_without_a_judge_are_one_clear_error():
    texts = ["One text of many words about the sea, " * 2, "Another one of as many words about the sky, " * 2]
    stretto = AsyncStretto(main({"": texts[0]}), roles={"small": ScoredBackend({"": texts[1]})})
    with pytest.raises(InvalidRequestError, match=r"'q1' are longer texts.*Name a judge, or give the right \"answer\""):
        await calibrate_async(["Why?"], stretto)


async def test_a_model_that_fails_on_a_question_loses_nothing_else():
    down = Reply(fault=ServerFailedError("HTTP 500"))
    stretto = client(small(**{"easy 3": down}), large=main({"easy 5": down, "": number_in}))
    found = await calibrate_async(KNOWN, stretto)
    assert (found.failed, len(found.answered)) == (1, 11)
    assert [pair.question.id for pair in found.answered if not pair.goodness[0].good] == ["q4"]
    assert next(each for each in found.answered if each.question.id == "q4").smaller[0].score is None


async def test_what_would_fail_for_every_question_ends_the_run():
    broken = {"": Reply(fault=AuthenticationError("The key is wrong."))}
    with pytest.raises(AuthenticationError, match="key is wrong"):
        await calibrate_async(KNOWN, client(small(), large=main(broken)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"goal": 1.0}, r"goal=1.0 cannot be used"),
        ({"by": "check"}, r"The confidence of openai:gpt-5.4-nano cannot be measured with by='check'"),
    ],
)
async def test_a_wrong_argument_is_one_clear_error(options, words):
    with pytest.raises(InvalidRequestError, match=words):
        await calibrate_async(KNOWN, client(small()), **options)


async def test_a_client_without_a_smaller_model_is_one_clear_error():
    with pytest.raises(InvalidRequestError, match="There is no smaller model"):
        await calibrate_async(KNOWN, AsyncStretto(main()))


async def test_a_check_by_the_model_itself_is_measured_as_the_cascade_asks_for_it():
    sure = {"Is this answer correct": '{"stands": true}', "": number_in}
    stretto = AsyncStretto(main(), roles={"small": main(sure, "own:small", json_schema=True)})
    found = await calibrate_async(KNOWN, stretto, goal=0.9)
    assert {pair.smaller[0].score for pair in found.answered} == {1.0}
    assert all(pair.smaller[0].calls == 2 for pair in found.answered)


@pytest.mark.thorough
async def test_the_page_shows_texts_as_text_and_draws_the_curve(tmp_path):
    found = await calibrate_async([*KNOWN, *HARD], client(small(hard="<script>alert(1)</script>")), goal=0.9)
    page = found.save(tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<polyline" in page
    assert json.loads(found.save(tmp_path / "report.json").read_text())["answered"] == 24
    with pytest.raises(InvalidRequestError, match=r"saved as \.html or \.json"):
        found.save(tmp_path / "report.pdf")


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("The largest ocean is the Pacific Ocean, of course, and it is very large and deep indeed.", "Pacific", True),
        ("It is not the Pacific.", "Pacific", False),
        ("A spider has eight legs.", 8, True),
        ("12", "2", False),
        ("Yes, there is no doubt.", "no", False),
    ],
)
def test_a_right_answer_is_known_in_other_words(text, answer, right):
    question = "How many?" if isinstance(answer, int) else "Which ocean is the largest?"
    assert is_right(text, LabelledQuestion(question=question, answer=answer)) is right


def test_a_file_says_the_right_answer_and_the_format(tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text('"Why?"\n{"question": "How many?", "answer": 3, "response_format": {"type": "integer"}}\n')
    plain, labelled = questions_in(file, LabelledQuestion)
    assert (plain.answer, labelled.answer, labelled.response_format) == ((), ("3",), {"type": "integer"})
    for wrong, said in (
        ('"anwser": 3', "anwser"),
        ('"answer": NaN', "no JSON"),
        ('"answer": 1e999', "answer: it is no number"),
        ('"response_format": 3', "response_format"),
        ('"response_format": {"type": "numbr"}', "response_format"),
        ('"response_format": {"type": "json_schema"}', "response_format"),
    ):
        file.write_text(f'{{"question": "How many?", {wrong}}}\n')
        with pytest.raises(InvalidRequestError, match=rf"line 1 of .*{said}"):
            questions_in(file, LabelledQuestion)
