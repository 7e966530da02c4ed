"""Documents that are to be changed: several, longer than the window, and asked for by the name of another strategy."""

import re

import pytest
from streaming import streamed
from test_rewrite import TEXT, writer

from stretto import AsyncStretto, Document
from stretto.backends.base import Capabilities
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

TRANSLATE = "Translate this into German."
NARROW = Capabilities(context_window=2_000, concurrent_calls=2)


@pytest.mark.parametrize("strategy", ["auto", "rewrite", "document"])
async def test_a_document_beyond_the_window_is_rewritten_in_pieces_that_fit(strategy):
    backend = writer()
    backend.capabilities = NARROW
    documents = [Document(text="\n\n".join([TEXT] * 6), title="long.md")]
    answer = (await streamed(backend, TRANSLATE, strategy=strategy, documents=documents))[0]
    assert answer.text == documents[0].text.upper()
    assert max(sum(len(each.content) for each in prompt.messages) for prompt, _ in backend.calls) < 4 * 2_000


async def test_several_documents_are_rewritten_behind_each_other():
    documents = [Document(text=TEXT, title="one.md"), Document(text=TEXT[::-1], title="two.md")]
    answer = (await streamed(writer(), TRANSLATE, strategy="rewrite", documents=documents))[0]
    assert answer.text == f"{TEXT}\n\n{TEXT[::-1]}".upper()


@pytest.mark.parametrize(
    ("question", "options", "code", "says"),
    [
        ("Translate this text and explain what you changed.", {}, "demand", '"and explain"'),
        (TRANSLATE, {"response_format": {"type": "object"}}, "demand", "response_format"),
        (TRANSLATE, {"stop": "x"}, "demand", "stop strings"),
        (TRANSLATE, {"max_tokens": 300}, "budget", "max_tokens=300"),
    ],
)
async def test_a_route_that_stays_straight_says_why(question, options, code, says):
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        route = await stretto.route(question, documents=[Document(text=TEXT, title="a.md")], **options)
    assert (route.strategy, route.code) == ("direct", code)
    assert says in route.reason


@pytest.mark.parametrize("question", [TRANSLATE, "Correct the spelling of this text."])
async def test_small_models_change_a_text_in_one_piece_unless_it_is_beyond_their_window(question):
    backend = ScriptedBackend({"": "x"})
    backend.capabilities = Capabilities(prompt_family="small", context_window=4_000)
    async with AsyncStretto(backend) as stretto:
        short = await stretto.route(question, documents=[Document(text=TEXT, title="a.md")])
        long = await stretto.route(question, documents=[Document(text="\n\n".join([TEXT] * 6), title="a.md")])
        pasted = await stretto.route(f"{question}\n\n{TEXT}")
    assert pasted.code == "ability"
    assert [each.strategy for each in (short, pasted, long)] == ["direct", "direct", "rewrite"]


async def test_a_route_forecasts_the_whole_text_and_takes_the_quicker_way():
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        translated = await stretto.route(f"Translate this text into German:\n\n{TEXT}")
        corrected = await stretto.route(f"Correct the spelling of this text:\n\n{TEXT}")
    assert translated.forecast["direct"].written > len(TEXT) // 4
    assert (translated.strategy, corrected.strategy) == ("rewrite", "rewrite")
    assert corrected.forecast["rewrite"].written < translated.forecast["rewrite"].written // 3


async def test_a_list_with_one_task_for_each_is_left_to_items():
    entries = "\n".join(f"{number}. The guest of room {number} liked the view and the tea." for number in range(1, 13))
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        route = await stretto.route(f"Translate each of these reviews into German:\n{entries}")
    assert route.strategy == "items"


CONTRACT = "SERVICE AGREEMENT\n\n" + "\n\n".join(
    f"{number}. Duty {number}\n{number}.1 The Provider shall deliver the services of Annex {number} in time.\n"
    f"{number}.2 The Client shall pay the fee of {number},500.00 euros within thirty days of receipt in full."
    for number in range(1, 13)
)


@pytest.mark.parametrize(
    "question",
    [
        "Rate the translation below.",
        "Could you please tell me how to translate this?",
        "Translate only the title into German.",
        "Translate the first paragraph into German.",
        "Translate this into German. What does the first word mean?",
        "Ich möchte wissen, was die Übersetzung dieses Textes kostet.",
        "Übersetze nur die Überschrift ins Deutsche.",
        "Ist diese Übersetzung richtig?",
        "Combien coûterait la traduction de ce texte ?",
        "Traduis seulement le titre.",
        "¿Cuánto costaría traducir este texto?",
        "Traduce la primera frase al inglés.",
        "Quanto costerebbe la traduzione di questo testo?",
        "Quanto custaria a tradução deste texto?",
        "Wat kost de vertaling van deze tekst?",
        "Хорош ли этот перевод?",
        "Czy to tłumaczenie jest dobre?",
        "Bu çeviri doğru mu?",
        "هل ترجمة هذا النص صحيحة؟",
        "इस अनुवाद में क्या गलत है?",
        "这个翻译对吗？",
        "请问这篇文章怎么翻译？",
        "この翻訳は正しいですか？",
        "この文章を翻訳するのにいくらかかりますか？",
        "이 번역이 맞나요?",
    ],
)
@pytest.mark.parametrize("text", [TEXT, CONTRACT], ids=["letter", "contract"])
async def test_what_is_asked_about_a_text_or_of_a_part_of_it_does_not_rewrite_it(question, text):
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        for prompt in (f"{question}\n\n{text}", f"{question}\n{text}", f"{text}\n\n{question}"):
            assert (await stretto.route(prompt)).strategy == "direct"


@pytest.mark.parametrize(
    "question",
    [
        "Please correct the spelling.",
        "Can you translate this into Italian?",
        "Give me a German translation of this text.",
        "Kannst du diesen Text bitte übersetzen?",
        "Peux-tu traduire ce texte ?",
        "¿Puedes traducir este texto?",
        "Bu metni Almancaya çevirir misin?",
        "هل يمكنك ترجمة هذا النص إلى الإنجليزية؟",
        "你能把这篇文章翻译成英文吗？",
        "英語に翻訳してください。",
        "この文章を英語に翻訳してくれますか？",
        "이 글을 영어로 번역해 주세요.",
        "이 글을 번역해 줄 수 있나요?",
    ],
)
async def test_an_order_with_a_question_mark_or_a_please_rewrites_the_text(question):
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        assert (await stretto.route(f"{question}\n\n{TEXT}")).strategy == "rewrite"


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("Summarise this mail:", "Please translate this text into German by Monday."),
        ("What do you think of this?", "Please translate this text into German."),
        ("Please translate the letter below by Monday.", "What should I answer to this mail?"),
        ("Don't translate this text. Tell me what it is about.", ""),
        ("Continue this text. Keep its tone, and do not rewrite it.", ""),
        ("Übersetze diesen Text nicht. Sage mir, worum es geht.", ""),
        ("Ne traduis pas ce texte.", ""),
        ("No traduzcas este texto.", ""),
        ("不要翻译这篇文章。", ""),
        ("この文章を翻訳しないでください。", ""),
        ("Make a quiz about this text. Translate the questions into German.", ""),
        ("Extract all names from this text. Translate them.", ""),
        ("Extract the key points of this text and translate them into German.", ""),
    ],
)
async def test_another_task_that_names_a_change_does_not_rewrite_the_text(before, behind):
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        assert (await stretto.route(f"{before}\n\n{TEXT}\n\n{behind}")).strategy == "direct"


async def test_two_texts_in_fences_are_not_copied_as_code():
    question = f"Translate both texts into German:\n\n```\n{TEXT}\n```\n\n```\n{TEXT}\n```"
    async with AsyncStretto(ScriptedBackend({"": "x"})) as stretto:
        route = await stretto.route(question)
    assert (route.strategy, route.code) == ("direct", "doubt")
    assert "several fences" in route.reason


@pytest.mark.parametrize("task", ["Translate into French.", "Correct the spelling mistakes."])
@pytest.mark.parametrize("text", [CONTRACT, re.sub(r"\n\d+\.\d", "", CONTRACT)], ids=["clauses", "titled"])
async def test_numbered_clauses_are_one_text_and_keep_their_title(task, text):
    backend = writer()
    backend.script, pieces = (
        (lambda prompt: '{"changes": []}' if "spelling" in task else pieces(prompt)),
        backend.script,
    )
    answer = (await streamed(backend, f"{task}\n\n{text}"))[0]
    assert answer.strategy == "rewrite"
    assert answer.text == (text if "spelling" in task else text.upper())
