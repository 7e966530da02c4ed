import ast
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stretto.language
from stretto.language.counting import numbers_in, points_in
from stretto.language.folding import fold
from stretto.language.words import words

FIVE = [
    "Give me five tips.",
    "Nenne fünf Gründe.",
    "Donne-moi cinq idées.",
    "Dame cinco consejos.",
    "Dammi cinque consigli.",
    "Geef vijf redenen.",
    "Dê cinco dicas.",
    "Дай пять советов.",
    "Bana beş ipucu ver.",
    "Daha iyi uyumak için beş öneri yazar mısın?",
    "أعطني خمس نصائح.",
    "اذكر خمسة أسباب للتلوث.",
    "मुझे पाँच सुझाव दीजिए।",
    "बेहतर नींद के पांच उपाय बताओ",
    "给我五个建议。",
    "请给我五条关于健康饮食的建议",
    "給我五個建議",
    "5つのヒントを教えて",
    "五つの方法を教えてください",
    "コツを5つ教えて",
    "팁 다섯 가지를 알려줘",
    "أعطني ٥ نصائح",
    "मुझे ५ सुझाव दीजिए",
    "给我５个建议",
    "پنج؟ ۵ نصائح من فضلك",
]


@pytest.mark.parametrize("question", FIVE)
def test_five_is_read_in_words_and_native_digits_by_router_and_outline(question):
    assert points_in(question).wanted == 5
    assert points_in(question).asked == 5


@pytest.mark.parametrize(
    ("question", "number", "plainly"),
    [
        ("Liste 12 avantages du vélo", 12, True),
        ("Dammi 12 consigli", 12, True),
        ("Geef me twaalf redenen", 12, True),
        ("Nenne zwölf Vorteile", 12, True),
        ("Give me a dozen ideas", 12, False),
        ("On iki neden say", 12, False),
        ("اذكر اثني عشر سببا", 12, False),
        ("أعطني خمس عشرة نصيحة", 15, False),
        ("पंद्रह तरीके बताइए", 15, True),
        ("Назови двадцать причин", 20, True),
        ("列出二十五个方法", 25, True),
        ("12の理由を挙げて", 12, True),
        ("理由を十二個", 12, True),
        ("top 20", 20, False),
    ],
)
def test_more_points_than_an_outline_has_are_counted(question, number, plainly):
    assert points_in(question).wanted == number
    assert points_in(question).asked == (number if plainly else None)


@pytest.mark.parametrize(
    "question",
    [
        "为什么这五个理由不成立？",
        "给我三到五个建议",
        "给我3~5个建议",
        "每个城市三个建议",
        "第三个建议是什么？",
        "各都市についてヒントを3つずつ",
        "この3つの理由は正しいですか？",
        "Her şehir için üç öneri ver",
        "Bu üç nedeni açıkla",
        "इन तीन कारणों को समझाइए",
        "हर शहर के लिए तीन सुझाव दीजिए",
        "Эти пять причин верны?",
        "Дай по три совета для каждого города",
        "أعطني ثلاث نصائح لكل مدينة",
        "هذه خمسة أسباب مشهورة",
    ],
)
def test_a_number_that_does_not_hold_for_the_whole_answer_is_not_one_in_any_language(question):
    assert points_in(question).asked is None


@pytest.mark.parametrize(
    "text",
    [
        "3点开会有什么建议？",
        "on the whole, once you have ideas",
        "two elf costumes and due dates",
        "2030",
        "It is 5 minutes from here",
        "",
    ],
)
def test_what_only_looks_like_a_number_of_points_is_none(text):
    assert points_in(text).wanted == 0


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("写十句关于友情的短句", [10]),
        ("造三个句子", [3]),
        ("Придумай десять названий", [10]),
        ("Kafem için on iki isim öner", [12]),
        ("दस नाम सुझाओ", [10]),
        ("اقترح عشرة أسماء", [10]),
        ("on once due", []),
        ("Write 8 haikus in 2030", [8]),
    ],
)
def test_numbers_are_read_wherever_they_stand(text, numbers):
    assert list(numbers_in(fold(text))) == numbers


@given(st.text())
def test_folding_twice_gives_what_folding_once_gives(text):
    assert fold(fold(text)) == fold(text)


@given(st.text())
def test_any_text_can_be_counted(text):
    assert points_in(text).wanted >= 0
    assert points_in(text).asked is None or 3 <= points_in(text).asked <= 10


def test_every_language_has_the_numbers_of_an_outline():
    tables = tomllib.loads(files("stretto.language").joinpath("words.toml").read_text("utf-8"))
    for name, table in tables.items():
        assert name in {"zh", "ja"} or {str(number) for number in range(3, 11)} <= set(table["numbers"]), name
    assert words().numbers["five"] == {"en": 5}


def test_the_room_of_languages_imports_nothing_else_of_the_library():
    for file in Path(stretto.language.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                assert module.startswith("stretto.language") or module.split(".")[0] in sys.stdlib_module_names
