import re

import pytest
from streaming import streamed

from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

CASES = {
    "Chinese": (
        "给我三个改善睡眠的建议",
        "1、规律作息\n2、少喝咖啡\n3、适量运动",
        ["规律作息", "少喝咖啡", "适量运动"],
        "睡得好。",
    ),
    "Japanese": (
        "よく眠るためのヒントを3つ教えて",
        "１．早く寝る\n２．運動する\n３．光を避ける",
        ["早く寝る", "運動する", "光を避ける"],
        "眠れます。",
    ),
    "Arabic": (
        "أعطني ثلاث نصائح للنوم بشكل أفضل",
        "١. نم مبكرا\n٢. قلل القهوة\n٣. تحرك كثيرا",
        ["نم مبكرا", "قلل القهوة", "تحرك كثيرا"],
        "ستنام جيدا.",
    ),
    "Hindi": (
        "बेहतर नींद के लिए तीन सुझाव दीजिए",
        "१. जल्दी सोएँ\n२. कॉफ़ी कम करें\n३. व्यायाम करें",
        ["जल्दी सोएँ", "कॉफ़ी कम करें", "व्यायाम करें"],
        "नींद आएगी।",
    ),
    "Russian": (
        "Дай три совета, как лучше спать",
        "1. Режим сна\n2. Меньше кофе\n3. Движение",
        ["Режим сна", "Меньше кофе", "Движение"],
        "Спится лучше.",
    ),
    "Turkish": (
        "Daha iyi uyumak için üç ipucu ver",
        "1. Erken yatın\n2. İçkiyi azaltın\n3. Işığı kısın",
        ["Erken yatın", "İçkiyi azaltın", "Işığı kısın"],
        "İyi uyursunuz.",
    ),
}


def script(outline, text):
    return {"Write only the outline": outline, "Write the text of point": text, "": "A straight answer."}


@pytest.mark.parametrize("language", CASES)
async def test_an_outline_asked_for_in_another_language_is_told_the_number_and_labels_its_points(language):
    question, outline, titles, text = CASES[language]
    backend = ScriptedBackend(script(outline, text), name="openai:any")
    answer, _ = await streamed(backend, question)
    assert answer.route.strategy == "skeleton"
    assert "exactly 3 points" in backend.calls[0][0].messages[-1].content
    assert answer.text == "\n".join(f"{n}. **{title}**: {text}" for n, title in enumerate(titles, 1))
    assert answer.warnings == ()


@pytest.mark.parametrize("language", CASES)
async def test_a_label_that_the_model_repeats_in_another_language_is_taken_off(language):
    question, outline, titles, text = CASES[language]
    backend = ScriptedBackend(script(outline, f"**{titles[0]}**: {text}"), name="openai:any")
    answer, _ = await streamed(backend, question)
    assert answer.text.startswith(f"1. **{titles[0]}**: {text}\n")


@pytest.mark.parametrize("language", CASES)
async def test_points_that_an_outline_lacks_are_named_whatever_the_language(language):
    question, outline, _, text = CASES[language]
    backend = ScriptedBackend(script(outline.rpartition("\n")[0], text), name="openai:any")
    answer, _ = await streamed(backend, question)
    assert any(re.search(r"3 points are asked for", warning) for warning in answer.warnings), answer.warnings
