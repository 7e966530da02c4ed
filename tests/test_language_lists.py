import re
import tomllib
from importlib.resources import files

import pytest

from recipes.router.rows import HELD_OUT, read
from stretto.language.lists import anywhere, first_letter_first, in_ascii, languages, listed, spaced, unspaced
from stretto.strategies.items.splitting import Split, split

SOURCE = files("stretto.language").joinpath("lists.toml").read_text("utf-8")
TABLES = tomllib.loads(SOURCE)
TEXTS = [row.prompt for row in read(HELD_OUT)]
KEYS = {key for table in TABLES.values() for key in table} - {"whole-words"}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_is_explained_and_every_pattern_compiles(key):
    assert re.search(rf"(?<![\w-]){key}(?![\w-])", SOURCE[: SOURCE.index("[en]")])
    for table in TABLES.values():
        for pattern in table.get(key, ()):
            re.compile(pattern)


def test_a_key_that_no_language_has_is_an_error():
    with pytest.raises(LookupError, match="has no 'eech' in any language"):
        listed("eech")


def test_words_count_as_a_whole_where_there_are_blanks_between_words():
    assert listed("each").search("Translate EACH word")
    assert not listed("each").search("Reach for the stars")
    assert listed("each").search("次の単語をそれぞれ訳して")
    assert re.search(unspaced("each"), "それぞれ")
    assert not re.search(spaced("each"), "それぞれ")


@pytest.mark.parametrize("any_case", [False, True])
@pytest.mark.parametrize("key", sorted(KEYS))
def test_branches_by_their_first_letter_match_what_the_patterns_in_a_row_match(key, any_case):
    patterns = dict.fromkeys(pattern for table in TABLES.values() for pattern in table.get(key, ()))
    flags = re.IGNORECASE if any_case else 0
    row = re.compile("|".join(f"(?:{pattern})" for pattern in patterns), flags)
    by_letter = re.compile(first_letter_first(patterns, any_case=any_case), flags)
    for text in (*TEXTS, *patterns, " ".join(patterns).upper()):
        assert [found.span() for found in by_letter.finditer(text)] == [found.span() for found in row.finditer(text)]


@pytest.mark.parametrize("any_case", [False, True])
@pytest.mark.parametrize("key", sorted(KEYS))
def test_patterns_of_other_scripts_match_as_in_a_row(key, any_case):
    others = [table for table in TABLES.values() if not table.get("whole-words", True)]
    patterns = list(dict.fromkeys(pattern for table in others for pattern in table.get(key, ())))
    flags = re.IGNORECASE if any_case else 0
    row = re.compile("|".join(f"(?:{pattern})" for pattern in patterns), flags)
    guarded = re.compile(anywhere(patterns, any_case=any_case), flags)
    for text in (*TEXTS, *patterns, " ".join(patterns)):
        assert [found.span() for found in guarded.finditer(text)] == [found.span() for found in row.finditer(text)]


@pytest.mark.parametrize("key", sorted(KEYS))
def test_what_a_pattern_finds_in_an_ascii_text_is_not_passed_over(key):
    tables = [table for table in TABLES.values() if table.get("whole-words", True)]
    patterns = [pattern for table in tables for pattern in table.get(key, ())]
    any_of_them = re.compile(rf"\b(?:{in_ascii(patterns) or '(?!)'})")
    for text in filter(str.isascii, map(str.lower, (*TEXTS, *patterns))):
        if any(re.search(rf"\b(?:{pattern})", text) for pattern in patterns):
            assert any_of_them.search(text), text


def test_languages_are_those_that_list_the_key():
    assert languages("counters") == ["zh", "ja", "ko"]


@pytest.mark.parametrize(
    "prompt",
    [
        "Translate each word into Latin: cat, dog, bird",
        "Übersetze jedes Wort ins Lateinische: Katze, Hund, Vogel",
        "Traduis chaque mot en latin : chat, chien, oiseau",
        "Traduce cada palabra al latín: gato, perro, pájaro",
        "Traduci ogni parola in latino: gatto, cane, uccello",
        "Traduza cada palavra para o latim: gato, cão, pássaro",
        "Vertaal elk woord in het Latijn: kat, hond, vogel",
        "Переведи каждое слово на латынь: кот, собака, птица",
        "Przetłumacz każde słowo na łacinę: kot, pies, ptak",
        "Översätt varje ord till latin: katt, hund, fågel",
        "把以下每个词翻译成英语：猫，狗，鸟",
        "次の単語をそれぞれ英語に訳してください：猫、犬、鳥",
    ],
)
def test_a_task_for_each_item_is_seen_in_every_language(prompt):
    taken = split(prompt)
    assert isinstance(taken, Split)
    assert len(taken.items) == 3
