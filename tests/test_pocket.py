"""The pocket model: its data, its training and the published weights."""

# ruff: noqa: S311 - seeded draws are no secrets; transformers is imported where it is needed

from __future__ import annotations

import json
import random
import re
from importlib.resources import files

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from recipes.pocket import augment, source, tasks  # noqa: E402
from recipes.pocket.card import card  # noqa: E402
from recipes.pocket.corpus import (  # noqa: E402
    Corpus,
    outline_lines,
    render,
    straight_answer,
    unknown_questions,
    unseen_questions,
)
from recipes.pocket.evaluate import (  # noqa: E402
    Writer,
    distinct_share,
    nearest_topics,
    parse_outline,
    text_present,
)
from recipes.pocket.network import Network, NetworkConfig  # noqa: E402
from recipes.pocket.schedule import PHASES  # noqa: E402
from stretto.local_engine.pocket import UNKNOWN, is_unknown, pocket_folder  # noqa: E402

TINY = NetworkConfig(vocabulary=1024, hidden=32, layers=2, heads=4, key_value_heads=2, intermediate=64, context=256)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(with_source=False)


@pytest.fixture(scope="module")
def writer() -> Writer:
    return Writer(pocket_folder())


# --- data ---------------------------------------------------------------------------------------------------


def test_the_encyclopaedia_has_100_topics_with_5_to_7_points_and_200_facts(corpus: Corpus) -> None:
    assert len(corpus.topics) == 100
    assert len(corpus.facts) == 200
    assert all(5 <= len(topic.points) <= 7 for topic in corpus.topics)
    assert all(len(fact.answer.split()) <= 12 for fact in corpus.facts)


def test_every_topic_has_at_least_15_added_wordings_and_keywords_of_its_own(corpus: Corpus) -> None:
    assert min(len(topic.questions) for topic in corpus.topics) >= 50
    assert min(len(topic.keywords) for topic in corpus.topics) >= 14


def test_no_wording_belongs_to_two_topics(corpus: Corpus) -> None:
    owners = [question for topic in corpus.topics for question in topic.questions]
    assert len(owners) == len(set(owners))


def test_unseen_wordings_are_in_no_training_wording(corpus: Corpus) -> None:
    known = {question.lower() for topic in corpus.topics for question in topic.questions}
    known |= {question.lower() for fact in corpus.facts for question in fact.questions}
    topics, facts = unseen_questions()
    assert len(topics) == 200
    assert not known & {question.lower() for question, _ in [*topics, *facts]}


def test_held_out_unknown_questions_are_not_trained_on(corpus: Corpus) -> None:
    held = set(unknown_questions(held_out=True))
    assert len(held) >= 80
    assert not held & set(corpus.unknown)


@pytest.mark.thorough
def test_held_out_source_is_not_training_source() -> None:
    held, trained = source.held_out_source(), source.training_source()
    assert len(held) >= 15
    assert not held.keys() & trained.keys()


@pytest.mark.parametrize("task", sorted({name for _, mix in PHASES for name in mix} - {"code"}))
def test_an_example_follows_from_the_task_and_the_seed_alone(corpus: Corpus, task: str) -> None:
    assert corpus.draw(task, random.Random(3)) == corpus.draw(task, random.Random(3))
    assert len({corpus.draw(task, random.Random(seed)) for seed in range(20)}) > 10


# --- prompts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("skeleton", {"question": "Q?"}),
        ("point", {"question": "Q?", "outline": "1. A\n2. B", "index": 2, "title": "B"}),
        ("item", {"instruction": "Give the plural of each word", "item": "child"}),
    ],
)
def test_training_prompts_are_the_library_templates_filled_in(name: str, values: dict[str, object]) -> None:
    path = files("stretto") / f"prompts/templates/pocket/v1/{name}.md"
    body = path.read_text(encoding="utf-8").split("--- user ---\n")[1].rstrip("\n")
    for key, value in values.items():
        body = body.replace(f"${key}", str(value))
    assert render(name, **values) == body
    assert "$" not in body


def test_a_straight_answer_numbers_its_points_between_opening_and_closing(corpus: Corpus) -> None:
    topic = corpus.topics[0]
    answer = straight_answer(topic)
    assert answer.startswith(topic.opening + "\n\n1. **")
    assert answer.endswith("\n\n" + topic.closing)
    assert all(f"{n}. **{p.title}**: {p.text}\n" in answer for n, p in enumerate(topic.points, 1))


def test_every_outline_parses_to_its_titles(corpus: Corpus) -> None:
    for topic in corpus.topics:
        assert parse_outline(topic.outline) == [point.title for point in topic.points]


@pytest.mark.parametrize("text", ["", "1. Only one", "1. A\n3. B", "A\nB", "1. A\nand more\n2. B", UNKNOWN])
def test_what_is_no_outline_does_not_parse(text: str) -> None:
    assert parse_outline(text) is None


def test_the_answer_to_the_unknown_is_recognised() -> None:
    assert is_unknown(UNKNOWN)
    assert is_unknown("\n" + UNKNOWN + " And more.")
    assert not is_unknown("I am a teapot.")


# --- changes of wording -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", augment.MEASURED_CHANGES)
def test_every_measured_change_changes_most_questions(corpus: Corpus, kind: str) -> None:
    chance = random.Random(4)
    questions = [chance.choice(topic.questions) for topic in corpus.topics]
    changed = [augment.measured_change(kind, question, chance) for question in questions]
    assert sum(one != other for one, other in zip(questions, changed, strict=True)) >= 70


def test_a_typo_touches_one_word_only() -> None:
    for seed in range(50):
        before, after = (
            ["please", "repair", "the", "bicycle"],
            augment.typo("please repair the bicycle", random.Random(seed)).split(),
        )
        assert len(after) == 4
        assert sum(one != other for one, other in zip(before, after, strict=True)) <= 1


def test_scrambling_keeps_a_telling_word() -> None:
    words = ["how", "do", "i", "look", "after", "the", "bicycle"]
    texts = [augment.scramble(words, {"bicycle": 1}, random.Random(seed), ["zzz"]).lower() for seed in range(200)]
    assert len(set(texts)) > 150
    assert sum("bicycle" in text for text in texts) > 170  # a typo may hit the word


# --- tasks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", tasks.ITEM_TASKS)
def test_item_requests_name_every_item(kind: str) -> None:
    chance = random.Random(5)
    for _ in range(20):
        say, pairs = tasks.item_task(kind, 4, chance)
        request = tasks.item_request(say, [item for item, _ in pairs], chance)
        assert request.startswith(say)
        assert all(item in request for item, _ in pairs)


def test_numbers_are_spelled_out_and_units_converted() -> None:
    chance = random.Random(6)
    spelled = dict(tasks.item_task("words", 99, chance)[1])
    assert (spelled["7"], spelled["13"], spelled["40"], spelled["86"]) == ("seven", "thirteen", "forty", "eighty-six")
    assert dict(tasks.item_task("metres", 99, chance)[1])["3 km"] == "3000 m"
    assert dict(tasks.item_task("minutes", 24, chance)[1])["1 hour"] == "60 minutes"


def test_json_transformations_are_json() -> None:
    chance = random.Random(7)
    for _ in range(30):
        assert isinstance(json.loads(tasks.TRANSFORMS["to_json"](chance)[1]), dict)


def test_an_edit_puts_the_new_word_for_the_old_one() -> None:
    chance = random.Random(8)
    for _ in range(50):
        request, answer = tasks.TRANSFORMS["replace"](chance)
        found = re.match(r"Replace (.+?) (?:with|by) (.+?)(?: in this text)?:", request)
        if found:
            assert found[2] in answer


# --- measuring ------------------------------------------------------------------------------------------------


def test_a_text_is_present_whole_or_nearly_but_not_in_part() -> None:
    text = "Squeeze the tyres every week and top them up with a pump that has a gauge on it."
    assert text_present(text, f"1. **Title**: {text}\n2. More")
    assert text_present(text, text.replace("gauge", "dial"))
    assert not text_present(text, " ".join(text.split()[:9]))
    assert not text_present(text, "")


def test_a_loop_has_few_distinct_sequences_of_words() -> None:
    assert distinct_share("one two three four five six seven eight") == 1.0
    assert distinct_share("again and again and " * 20) < 0.1


def test_the_nearest_neighbour_knows_the_training_wordings(corpus: Corpus) -> None:
    pytest.importorskip("sklearn")
    asked = [topic.questions[3] for topic in corpus.topics]
    assert nearest_topics(corpus.topics, asked, keywords=False) == [topic.id for topic in corpus.topics]


def test_the_card_states_every_figure_it_is_given() -> None:
    figures = {
        "known_straight_points": 0.9712,
        "distinct_4_grams_mean": 0.99,
        "distinct_4_grams_least": 0.91,
        "source_nats_per_token": 3.25,
        "source_bits_per_byte": 1.5,
    }
    text = card(figures, 16.8)
    assert "97.1%" in text
    assert "16.8 MB" in text
    assert "3.250 nats" in text


# --- the published model --------------------------------------------------------------------------------------


def test_the_published_folder_is_small_and_of_the_declared_kind() -> None:
    config = json.loads((pocket_folder() / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert sum(file.stat().st_size for file in pocket_folder().glob("*.safetensors")) <= 25_000_000
    network = Network(NetworkConfig())
    assert 8e6 <= sum(parameter.numel() for parameter in network.parameters()) <= 15e6
    assert "## Figures" in (pocket_folder() / "README.md").read_text(encoding="utf-8")


@pytest.mark.thorough  # 800 tokens without the engine; `server/test_page_examples.py` asks the engine
def test_the_published_model_answers_a_question_with_its_points(writer: Writer, corpus: Corpus) -> None:
    (answer,) = writer.answers(["How do I look after a bicycle?"], 800)
    assert all(point.title in answer and text_present(point.text, answer) for point in corpus.topics[0].points)


@pytest.mark.thorough
def test_the_published_model_outlines_a_question_by_its_points(writer: Writer, corpus: Corpus) -> None:
    topic = corpus.topics[0]
    (outline,) = writer.answers([render("skeleton", question="How do I look after a bicycle?")], 120)
    assert parse_outline(outline) == [point.title for point in topic.points]


@pytest.mark.thorough
def test_the_published_model_expands_a_point_of_a_half_written_outline(writer: Writer, corpus: Corpus) -> None:
    topic = corpus.topics[0]
    titles = [point.title for point in topic.points]
    prompts = [
        render(
            "point",
            question="How do I look after a bicycle?",
            outline=outline_lines(titles[:n]),
            index=n,
            title=titles[n - 1],
        )
        for n in (2, 4)
    ]
    for number, text in zip((2, 4), writer.answers(prompts, 120), strict=True):
        assert text_present(topic.points[number - 1].text, text)


def test_the_published_model_answers_items_one_by_one(writer: Writer) -> None:
    say = "Give the plural of each word"
    answers = writer.answers([render("item", instruction=say, item=item) for item in ("cat", "child", "mouse")], 12)
    assert [answer.strip() for answer in answers] == ["cats", "children", "mice"]


@pytest.mark.thorough
def test_the_published_model_mostly_says_what_it_is_when_it_cannot_know(writer: Writer) -> None:
    answers = [answer.strip() for answer in writer.answers(unknown_questions(held_out=True), 80)]
    assert answers.count(UNKNOWN) > len(answers) / 2
