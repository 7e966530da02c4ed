import subprocess
import sys
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.router.rows import Row, load
from stretto.router import ShapeModel
from stretto.router.excerpt import HEAD_CHARACTERS, TAIL_CHARACTERS, excerpt, question_in_context
from stretto.router.features import Vocabulary, cues, lexicon
from stretto.router.shape import CLASSES, SHAPES
from stretto.values.request import Request


@pytest.fixture(scope="module")
def model():
    return ShapeModel.committed()


def test_the_committed_model_is_small():
    assert len(files("stretto.router").joinpath("model.npz").read_bytes()) <= 256 * 1024


def test_the_model_knows_the_seven_shapes():
    assert set(ShapeModel.committed().judge("anything").shapes) == set(SHAPES)
    assert len(SHAPES) == 7


def test_a_model_of_another_format_says_how_to_get_one_that_fits():
    with pytest.raises(ValueError, match=r"format 99.*python -m recipes\.router\.train"):
        ShapeModel({"format": 99})


def test_the_empty_text_is_judged_unsure(model):
    judgement = model.judge("")
    assert judgement.unsure
    assert sum(judgement.shapes.values()) == pytest.approx(1)


def test_a_plain_question_is_judged_sure(model):
    assert not model.judge("What are the causes of inflation?").unsure


def test_upper_case_is_read_like_lower_case(model):
    prompt = "what are the advantages of living by the sea?"
    assert model.judge(prompt.upper()).skeleton == pytest.approx(model.judge(prompt).skeleton)


def test_the_end_of_a_long_prompt_is_read(model):
    filler = "The weather in the valley was mild that year and the harvest came in early. " * 200
    assert model.judge(filler + "\n\nWrite a Python function that counts the words in this text.").shapes["code"] > 0.5
    assert model.judge(filler).shapes["code"] < 0.5


def test_the_middle_of_a_long_prompt_is_not_read():
    head, tail = "a" * HEAD_CHARACTERS, "b" * TAIL_CHARACTERS
    assert excerpt(head + "x" * 10_000 + tail) == f"{head}\n{tail}"


def test_a_short_prompt_is_read_whole():
    assert excerpt("How are you?") == "How are you?"


def test_the_explanation_names_the_cues_that_spoke_most(model):
    told = model.explain("What are the advantages and disadvantages of remote work?")
    assert any(cue.startswith("@sides") or "advantages" in cue for cue, _ in told)
    assert [abs(share) for _, share in told] == sorted((abs(share) for _, share in told), reverse=True)


def test_an_explanation_of_nothing_is_empty_or_structural(model):
    assert all(cue.startswith("=") for cue, _ in model.explain(""))


# --- cues


def test_words_pairs_places_and_concepts_become_cues():
    found = set(cues("Write a poem. Compare it with prose."))
    assert {"write", "write a", "|write", "|compare", "$prose", "~compa", "@write", "@compare"} <= found
    assert "poem compare" not in found


@pytest.mark.parametrize(
    ("prompt", "concept"),
    [
        ("Vorteile und Nachteile", "@sides"),
        ("avantages et inconvénients", "@sides"),
        ("ventajas y desventajas", "@sides"),
        ("преимущества и недостатки", "@sides"),
        ("远程工作的优点和缺点", "@sides"),
        ("メリットとデメリット", "@sides"),
        ("schreibe ein gedicht", "@fiction"),
        ("写一首诗", "@prose"),
    ],
)
def test_the_lexicon_names_the_same_concept_in_other_languages(prompt, concept):
    assert concept in cues(prompt)


@pytest.mark.parametrize(
    ("prompt", "fact"),
    [
        ("```python\nx = 1\n```", "=fence"),
        ("Rate these:\n- one\n- two\n- three", "=bullets3"),
        ("What? Why? How? When?", "=questions3"),
        ("Translate the following:", "=open-end"),
        ('Shorten this: "It was a dark and stormy night, and the rain fell in torrents."', "=quoted"),
    ],
)
def test_structure_becomes_cues(prompt, fact):
    assert fact in cues(prompt)


@pytest.mark.parametrize(
    ("prompt", "concept"),
    [
        ("ما فوائد القراءة؟", "@sides"),
        ("والفوائد", "@sides"),
        ("نصائح للنوم", "@advice"),
        ("नींद के लिए सुझाव", "@advice"),
        ("पाँच सुझाव", "@number"),
        ("पांच सुझाव", "@number"),
        ("Uyku için önerilerini yazar mısın?", "@advice"),
        ("İpuçları ver", "@advice"),
        ("Несколько советов", "@advice"),
        ("五个建议", "@number"),
        ("ヒントを5つ", "@number"),
    ],
)
def test_the_lexicon_sees_inflected_words_and_optional_letters(prompt, concept):
    assert concept in cues(prompt)


def test_a_script_without_blanks_is_seen_by_its_pairs_of_characters():
    found = set(cues("用Python写一个函数。给我看看"))
    assert {"^写一", "^一个", "^函数", "|给我", "$我看看", "python"} <= found
    assert "用python写一个函数" not in found


def test_a_question_mark_of_any_script_is_one():
    assert all("=asks-last" in cues(text) for text in ("为什么？", "لماذا؟", "Why?"))


def test_words_of_other_scripts_end_a_clause_at_their_own_marks():
    assert "|यह" in cues("मौसम अच्छा है। यह अच्छा है")


def test_no_cue_is_taken_for_another_of_the_same_hash():
    # Python hashes the bytes of a string, and those of "$±" in Latin-1 are those of "네" in UTF-16.
    votes = ShapeModel.committed().judge("| process, bytes more per request | 12 ± 3 |").votes
    assert votes is not None
    assert "$±" not in votes.names


@given(st.text())
def test_any_text_has_cues_each_once(text):
    found = cues(text)
    assert len(found) == len(set(found))


@pytest.fixture(scope="module")
def known():
    return Vocabulary.of({cue for row in load()[::97] for cue in cues(row.prompt)})


@given(st.lists(st.sampled_from([row.prompt for row in load()]) | st.text(), max_size=3).map("\n".join))
def test_cues_that_are_looked_up_are_those_whose_names_are_put_together(known, text):
    assert [cue for cue in cues(text, known) if cue in known.names] == [cue for cue in cues(text) if cue in known.names]


def test_every_concept_of_the_lexicon_has_words():
    known = lexicon()
    tables = (known.words, known.beginnings, known.unspaced)
    named = {concept for table in tables for found in table.values() for concept in found}
    text = files("stretto.router").joinpath("lexicon.txt").read_text("utf-8")
    assert {line for line in text.splitlines() if line.startswith("@")} == named


# --- turns


def turns(*texts):
    roles = ("user", "assistant")
    return Request.of([{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)])


@pytest.mark.parametrize(
    "question",
    [
        "And for cats?",
        "What about France?",
        "more",
        "and in winter?",
        "Und für Katzen?",
        "Et pour les chats ?",
        "¿Y para los gatos?",
        "E per i gatti?",
        "А для кошек?",
        "Peki ya kediler?",
        "وماذا عن القطط؟",
        "और बिल्लियों के लिए?",
        "那猫呢？",
        "では猫は？",
        "그럼 고양이는요?",
    ],
)
def test_an_elliptical_question_is_put_behind_the_one_before(question):
    assert question_in_context(turns("Tips for dogs?", "Walk them.", question)) == f"Tips for dogs?\n{question}"


@pytest.mark.parametrize(
    "question",
    [
        "Write a poem about dogs.",
        "Who wrote Emma?",
        "Wie pflege ich eine Katze?",
        "Y a-t-il de la vie sur Mars ?",
        "Почему небо голубое?",
        "怎么养猫？",
        "猫の飼い方を教えてください。",
        "고양이는 어떻게 키우나요?",
    ],
)
def test_a_whole_question_stands_alone(question):
    assert question_in_context(turns("Tips for dogs?", "Walk them.", question)) == question


# --- data


def test_every_row_has_a_class_and_a_prompt():
    rows = load()
    assert len(rows) > 2500
    assert {CLASSES[row.label] for row in rows} == set(CLASSES)
    assert all(row.prompt.strip() and row.certainty in {1, 2, 3} for row in rows)


def test_no_prompt_is_both_measured_and_written_later():
    rows = load()
    plain = {row.prompt.strip().lower() for row in rows if not row.late}
    assert not [row.prompt for row in rows if row.late and row.prompt.strip().lower() in plain]


def test_a_row_whose_shape_no_skeleton_serves_is_refused():
    with pytest.raises(ValueError, match="'prose'"):
        _ = Row("Write a poem", "prose", True, "authored").label


@pytest.mark.thorough
def test_nothing_heavy_is_loaded_before_the_first_decision_and_before_a_local_model_is_asked():
    code = (
        "import sys, stretto.router;"
        "print({'numpy', 'sklearn'} & set(sys.modules));"
        "import stretto.backends.local.backend, stretto.router.decoding, stretto.cli.app;"
        "from stretto.local_engine.drafting.catalogue import DRAFTERS;"
        "print({'numpy', 'numba', 'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nset()\n"
