"""Where the text is that a request gives to be changed, what is asked for, and what the forecast counts."""

import pytest

from stretto import AsyncStretto, Document
from stretto.router.given import Doubt, Given, given_in, ordered_change, unseen_tokens
from stretto.testing import ScriptedBackend
from stretto.values.request import Message, Request

pytestmark = pytest.mark.anyio

PARAGRAPH = "The museum by the river opens at nine, and whoever comes early has its halls nearly alone. "
TEXT = "\n\n".join((PARAGRAPH * 4).strip() for _ in range(10))
LINE = (PARAGRAPH * 8).strip()
README = f"# Museum\n\n{TEXT}\n\n```sh\nmake museum\n```\n\nIt is built in a minute."


def request_of(question, **more):
    return Request(messages=(Message(role="user", content=question),), **more)


def found_in(question, **more):
    return given_in(request_of(question, **more))


async def direct_of(question, **more):
    """The forecast of a straight answer."""
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        return (await stretto.route(question, **more)).forecast["direct"]


@pytest.mark.parametrize(
    "question",
    [
        f"Translate this text into German and explain what you changed:\n\n{TEXT}",
        f"Correct this text. What is it about?\n\n{TEXT}",
        f"Translate this text into German.\n\n{TEXT}\n\nTranslate this text into German, please.",
        f"Translate both:\n\n```\n{TEXT}\n```\n\n```\n{TEXT}\n```",
        f"Put the following sentences into the past tense:\n\n{TEXT}",
        f"Could you put the following sentences into the past tense?\n\n```\n{TEXT}\n```",
    ],
)
async def test_a_text_that_is_written_anew_in_one_piece_is_counted(question):
    assert not isinstance(found_in(question), Given)
    assert (await direct_of(question)).written > len(TEXT) // 8


@pytest.mark.parametrize(
    "question",
    [
        f"Translate only the title of this text.\n\n{TEXT}",
        f"Summarise this text.\n\n{TEXT}",
        f"{TEXT}\n\nWhich of these sentences are in the past tense?",
    ],
)
async def test_what_is_said_of_a_text_or_of_a_part_of_it_is_not_counted(question):
    assert (await direct_of(question)).written < 600


async def test_limits_and_lengths_that_are_asked_for_count_first():
    question = f"Translate this text into German and explain what you changed:\n\n{TEXT}"
    assert (await direct_of(question, max_tokens=90)).written == 90


def test_an_order_of_no_known_words_is_given_no_text_it_asks_about():
    assert unseen_tokens(f"Put all verbs into the past tense.\n\n{TEXT}") > 500
    assert unseen_tokens(f"List all verbs of the text below.\n\n{TEXT}") == 0
    assert unseen_tokens("Put all verbs into the past tense.") == 0


@pytest.mark.parametrize("marks", ["````", "~~~", "`````"])
async def test_a_fence_within_a_longer_one_is_text(marks):
    found = found_in(f"Translate this README into German:\n\n{marks}markdown\n{README}\n{marks}")
    assert isinstance(found, Given)
    assert (found.text, found.source, found.lead) == (README, "fence", "")


@pytest.mark.parametrize(
    "texts",
    [
        f"```\n{TEXT}\n```\n\n```\n{TEXT}\n```",
        f"````\n{TEXT}\n````\n\n~~~\n{TEXT}\n~~~",
        f"```markdown\n{README}\n```",  # the first ``` without a word ends it, and the last one opens another
    ],
)
def test_two_fences_are_refused(texts):
    found = found_in(f"Translate this into German:\n\n{texts}")
    assert isinstance(found, Doubt)
    assert "several fences" in found.why


def test_a_line_with_a_word_closes_no_fence():
    found = found_in(f"Correct the spelling of this text:\n\n```\n{TEXT}\n```sh\nmore\n```")
    assert isinstance(found, Given)
    assert found.text.endswith("```sh\nmore")


QUOTED = [
    (f'Correct the spelling in "{LINE}"', "correct"),
    (f"Correct the spelling in “{LINE}”.", "correct"),
    (f"Please translate «{LINE}» into English.", "translate"),
    (f"Übersetze „{LINE}“ ins Englische.", "translate"),
    (f"Übersetze »{LINE}« bitte ins Englische.", "translate"),
    (f'Rename "museum" to "gallery" in "{LINE}"', "rename"),
    (f'"{LINE}" – translate this into German.', "translate"),
    (f'Shorten "He said: {LINE}" by half', "shorten"),
    (f'Could you translate "{LINE}" into French?', "translate"),
    (f'Translate into German "{LINE}"', "translate"),
    (f'Translate the following text "{LINE}" into German', "translate"),
    (f'Correct this text "{LINE}". Keep the names.', "correct"),
    (f"Korrigiere die Rechtschreibung in „{LINE}“.", "correct"),
    (f"Corrige la ortografía de «{LINE}».", "correct"),
]


@pytest.mark.parametrize(("question", "change"), QUOTED)
def test_a_long_text_between_quotes_in_the_line_of_its_order_is_the_text(question, change):
    found = found_in(question)
    assert isinstance(found, Given)
    assert found.change == change
    assert found.text.removeprefix("He said: ") == LINE
    assert LINE not in found.task


def test_paragraphs_and_quotations_may_stand_within_it():
    inner = f'{LINE}\n\nShe asked: "Where is it?" Nobody knew.'
    found = found_in(f'Correct the spelling in "{inner}"')
    assert isinstance(found, Given)
    assert found.text == inner


@pytest.mark.parametrize(
    "question",
    [
        f'Correct my translation of "{LINE}": Das Treffen war am Montag.',
        f'Correct my translation of "{LINE}". Mine is: Das Treffen war am Montag.',
        f'Replace "foo" with "{LINE}".',
        f'Shorten my reply to "{LINE}". My reply: I will come at 5 and bring cake.',
        f'Translate the title of "{LINE}" into German.',
        f'Translate "{LINE}" into German. It was written by Anna in May.',
        f'Translate into German: "{LINE}" Then tell me who said it.',
        f'Translate into German: "{LINE}" and explain the grammar.',
        f"Kürze meine Antwort auf „{LINE}“.",
        f"Corrige ma traduction de «{LINE}».",
        f'Insert "{LINE}" after the title.',
    ],
)
def test_a_quotation_that_is_not_what_the_order_is_meant_for_is_not_the_text(question):
    assert not isinstance(found_in(question), Given)


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (f'Correct the spelling in "{LINE} a 5" screen {LINE}"', "quotation marks do not show"),
        (f'Correct the spelling in "{LINE}\n\n{LINE}', "may be the beginning of the text"),
        (f'Translate "{LINE}" into German and explain why.', "more than the changed text"),
        (f'Translate the first sentence of "{LINE}"', "a part of the text"),
    ],
)
def test_where_the_marks_or_the_order_leave_doubt_it_says_so(question, why):
    found = found_in(question)
    assert isinstance(found, Doubt)
    assert why in found.why


@pytest.mark.parametrize(
    "question",
    [
        f'What does "{LINE}" mean?',
        f'Who said "{LINE}"?',
        f'The guide said "{LINE}" and left.',
        f'Translate "{LINE}" and "{LINE}" into German.',
        f'Translate the title. The text is "{LINE}" and it is long.',
    ],
)
def test_a_quotation_that_is_not_ordered_to_be_changed_is_left(question):
    assert not isinstance(found_in(question), Given)


def test_a_text_that_ends_in_a_quotation_is_whole():
    text = f'{LINE}\n\nShe said: "{LINE}"'
    found = found_in(f"Translate this text into German:\n\n{text}")
    assert isinstance(found, Given)
    assert found.text == text


ORDERS = {
    "tone": [
        "Edit this text for clarity.", "Improve the style of this text.", "Please improve this paragraph.",
        "Make this read more naturally.", "Verbessere den Stil dieses Textes.", "Kannst du diesen Text verbessern?",
        "Améliore le style de ce texte.", "Peux-tu améliorer ce texte ?", "Mejora la redacción de este texto.",
        "¿Puedes mejorar este texto?",
    ],
    "correct": [
        "Edit this text for grammar.", "Change this text from British to American spelling.",
        "Convert the following text to American English.", "Verbessere die Rechtschreibung in diesem Text.",
        "Bring diesen Text in Schweizer Rechtschreibung.", "Passe ce texte en orthographe rectifiée.",
        "Adapta este texto al español de México.",
    ],
    "change": [
        "Remove all links from this text.", "Delete all headings in this text.", "Capitalise every heading.",
        "Put all headings in title case.", "Entferne alle Links aus diesem Text.",
        "Bitte alle Überschriften in diesem Text löschen.", "Supprime tous les liens de ce texte.",
        "Elimina todos los enlaces de este texto.", "Pon todos los títulos en mayúsculas.",
    ],
    "reformat": [
        "Wrap the lines of this text at 72 characters.", "Rewrap this text at 80 columns.",
        "Reformat this text as a Markdown list.", "Turn this text into bullet points.",
        "Brich die Zeilen nach 72 Zeichen um.", "Coupe les lignes de ce texte à 72 caractères.",
        "Corta las líneas de este texto a 72 caracteres.",
    ],
    "expand": [
        "Expand this paragraph.", "Make this text longer.", "Flesh out the following draft.",
        "Erweitere diesen Text.", "Mach diesen Text ausführlicher.", "Développe ce texte.",
        "Rends ce texte plus long.", "Amplía este texto.", "Haz este texto más largo.",
    ],
}  # fmt: skip
OTHERS = [
    "How can I improve this text?", "Suggest how to improve the style of this text.",
    "Give me tips on how to improve this text.", "Should I remove all links from this text?",
    "Do not remove any links from this text.", "Continue this text. Make it longer.",
    "Here is a guide on how to improve the text of a page.", "Recommend ways to expand this text.",
    "What would you change to improve the flow of this text?", "Why are all headings capitalised?",
    "Wie kann ich diesen Text verbessern?", "Sage mir, wie ich den Stil verbessern kann.",
    "Entferne keine Links, sondern nenne sie.", "Schlage Verbesserungen für diesen Text vor.",
    "Comment améliorer ce texte ?", "Dis-moi comment améliorer le style de ce texte.",
    "Propose des idées pour développer ce texte.", "Ne supprime pas les liens.",
    "¿Cómo puedo mejorar este texto?", "Sugiere cómo ampliar este texto.", "No elimines los enlaces.",
    "Dime cómo mejorar la redacción de este texto.",
]  # fmt: skip


@pytest.mark.parametrize(("change", "order"), [(change, each) for change, all_ in ORDERS.items() for each in all_])
def test_an_order_is_known(change, order):
    found = found_in(f"{order}\n\n{TEXT}")
    assert isinstance(found, Given), found
    assert (found.change, found.text) == (change, TEXT)


@pytest.mark.parametrize("question", OTHERS)
def test_a_question_or_another_order_changes_no_text(question):
    assert ordered_change(question) is None
    for prompt in (f"{question}\n\n{TEXT}", f"{TEXT}\n\n{question}", f"{question}\n\n```\n{TEXT}\n```"):
        assert not isinstance(found_in(prompt), Given)


@pytest.mark.parametrize("order", ["Turn this text into a numbered list.", "Reformat this text as a list of names."])
def test_a_list_that_pieces_cannot_write_is_no_such_order(order):
    assert not isinstance(found_in(f"{order}\n\n{TEXT}"), Given)


async def test_expanding_is_left_to_one_writer_unless_only_time_counts():
    question = f"Expand this text.\n\n{TEXT}"
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        assert (await stretto.route(question)).strategy == "direct"
        assert (await stretto.route(question, preference="fastest")).strategy == "rewrite"


@pytest.mark.parametrize("name", ["guide.rst", "guide.adoc"])
async def test_a_file_whose_blocks_of_code_are_not_known_is_written_in_one_piece(name):
    documents = [Document(text=f"{TEXT}\n\nRun it::\n\n    make museum\n", title=name)]
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        route = await stretto.route("Translate this into German.", documents=documents)
        renamed = await stretto.route('Rename "museum" to "gallery" in this file.', documents=documents)
    assert (route.strategy, route.code) == ("direct", "demand")
    assert name.removeprefix("guide") in route.reason
    assert route.forecast["direct"].written > len(TEXT) // 8
    assert renamed.strategy == "rewrite"


def test_a_fence_of_such_a_language_is_written_in_one_piece():
    assert isinstance(found_in(f"Translate this into German:\n\n```rst\n{TEXT}\n```"), Doubt)
