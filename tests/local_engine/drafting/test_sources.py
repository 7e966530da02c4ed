"""Texts outside of a request in which drafts are looked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto.local_engine.draft_tree import ROOT
from stretto.local_engine.drafting.auto import TextsWatch
from stretto.local_engine.drafting.protocol import DraftContext
from stretto.local_engine.drafting.sources import text_files
from stretto.local_engine.drafting.sources.files import FileTexts, tokenized
from stretto.local_engine.drafting.sources.grams import SIZE, Grams
from stretto.local_engine.drafting.sources.text_files import check_paths, read_texts
from stretto.local_engine.drafting.sources.texts import EarlierAnswers, Texts
from stretto.local_engine.drafting.suffix import Suffix
from stretto.local_engine.generation import Generation
from stretto.values.errors import SettingsError

TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=30), min_size=1, max_size=3)


def drafted(text, *sources, rows=9):
    others = [each for each in sources if isinstance(each, Texts)]
    files = next((each for each in sources if isinstance(each, FileTexts)), None)
    return Suffix(others, files).propose(DraftContext(list(text), len(text), 50), rows)


def written(texts, answer, prompt=()):
    writing = texts.begin(prompt)
    writing.write(answer, whole=True)
    return writing


# Texts that grow


def test_earlier_answers_are_continued_and_their_ends_are_not_crossed():
    texts = Texts(100)
    written(texts, [1, 2, 3, 4])
    written(texts, [9, 8])
    assert drafted([7, 2, 3], texts).tokens == [4]
    assert len(drafted([7, 2, 3])) == 0


def test_an_answer_is_drafted_from_its_very_beginning_where_another_began_after_the_same_tokens():
    texts = Texts(100)
    written(texts, [1, 2, 3], prompt=[40, 41, 42, 43])
    assert drafted([30, 42, 43], texts).tokens == [1, 2, 3]


def test_answers_that_are_being_written_draft_for_each_other():
    texts = Texts(1000)
    one, other = texts.begin([]), texts.begin([])
    for end in range(1, 41):
        one.write(list(range(end)))
        other.write(list(range(100, 100 + end)))
    assert drafted([9, 10, 11], texts).tokens[:5] == [12, 13, 14, 15, 16]
    assert drafted([9, 110, 111], texts).tokens[:5] == [112, 113, 114, 115, 116]


def test_what_is_kept_is_bounded():
    texts = Texts(50)
    for start in range(100):
        written(texts, list(range(start, start + 20)))
        assert texts.automaton.arrays.own[0] <= 2 * (50 + 1)
    assert drafted([116, 117], texts).tokens == [118]
    written(texts, list(range(1000)))
    assert texts.automaton.arrays.own[0] <= 2 * 51


def test_the_oldest_answers_are_forgotten_and_the_latest_stay():
    texts = Texts(60)
    for start in range(0, 400, 100):
        written(texts, list(range(start, start + 20)))
    assert drafted([301, 302], texts).tokens[:2] == [303, 304]
    assert drafted([211, 212], texts).tokens[:2] == [213, 214]  # half of what is kept was left for these two
    assert texts.grams.has([211, 212, 213, 214], 4, 99)
    assert not len(drafted([101, 102], texts))


def test_an_answer_that_is_being_written_goes_on_where_others_are_forgotten():
    texts = Texts(60)
    written(texts, list(range(100, 120)))
    slow = texts.begin([])
    slow.write(list(range(20)))
    slow.write(list(range(45)))
    assert drafted([9, 18, 19], texts).tokens[:2] == [20, 21]


def test_an_answer_goes_on_where_what_was_kept_began_anew():
    texts = Texts(30)
    slow = texts.begin([])
    slow.write(list(range(8)))
    written(texts, list(range(100, 129)))
    reader, context = Suffix([texts]), DraftContext([101, 102], 2, 500)
    assert reader.propose(context, 2).tokens == [103, 104]
    slow.write(list(range(24)))  # which leaves no room for the others
    context.tokens.extend([9, 10])
    assert reader.propose(context, 2).tokens == [11, 12]


@given(TEXTS, st.integers(0, 3))
def test_the_quick_look_finds_all_that_occurs(texts, reader):
    grams, long = Grams(sum(map(len, texts))), Grams(1000)
    for number, text in enumerate(texts):
        grams.add(text, 0, number)
        long.add_all(text)
    for number, text in enumerate(texts):
        for end in range(SIZE, len(text) + 1):
            others = [each for place, each in enumerate(texts) if place > number]
            last = not any(text[end - SIZE : end] == o[k : k + SIZE] for o in others for k in range(len(o)))
            assert grams.has(text, end, 9)
            assert long.has(text, end, 9)
            assert not last or grams.has(text, end, number) is False or len(texts) > 1


def test_a_text_is_no_news_to_itself():
    texts = Texts(1000)
    own = written(texts, list(range(20)))
    assert TextsWatch([texts], own.number).match([*range(20)], 0) == 0
    assert TextsWatch([texts], own.number + 1).match([*range(20)], 0) == 20
    assert TextsWatch([texts], own.number + 1).match([*range(10), 99, 1, 2, 3, 4, 5], 0) == 5


def test_a_text_that_says_what_another_said_goes_on_finding_it_while_it_is_written_itself():
    texts = Texts(1000)
    written(texts, list(range(20)))
    own = texts.begin([])
    watch = TextsWatch([texts], own.number)
    for end in range(1, 21):
        own.write(list(range(end)))
        assert watch.match([*range(end)], 0) == (end if end >= SIZE else 0)


@pytest.mark.parametrize("reader", [0, 1, 254, 255])
def test_what_is_in_files_is_news_to_every_reader(reader):
    assert TextsWatch([FileTexts([list(range(9))])], reader).match([*range(9)], 0) == 9


# Kept apart


def request(tenant=None, answer=None):
    return Generation((1, 2), 5, tenant=tenant, answer=answer)


def test_each_tenant_has_answers_of_its_own_and_nothing_is_kept_of_one_who_is_unknown():
    answers = EarlierAnswers(100)
    mine, owner = answers.of(request("mine")), answers.of(request())
    assert answers.of(request("mine")) is mine
    assert answers.of(request("another")) is not mine
    assert owner not in {mine, None}
    assert answers.of(request("")) is None
    assert answers.of(request("", answer=3)) not in {mine, owner, None}


def test_where_no_answers_are_kept_the_parts_of_one_still_draft_for_each_other():
    answers = EarlierAnswers(0)
    assert answers.of(request("mine")) is None
    one = answers.of(request("mine", answer=1))
    assert one is not None
    assert answers.of(request("mine", answer=1)) is one
    assert answers.of(request("mine", answer=2)) is not one


def test_the_tenants_who_asked_last_are_kept():
    answers = EarlierAnswers(10)
    first = answers.of(request("0"))
    for number in range(1, 33):
        answers.of(request(str(number)))
    assert answers.of(request("32")) is answers.of(request("32"))
    assert answers.of(request("0")) is not first


# Files


@given(TEXTS, st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_what_followed_the_longest_match_in_files_is_drafted_by_its_frequency(texts, end):
    text = [7, *end]  # 7 is in no file
    matched = next(
        (size for size in range(len(end), 0, -1) if any(followers(each, end[-size:]) is not None for each in texts)), 0
    )
    tree = drafted(text, FileTexts(texts), rows=40)
    roots = [node for node, parent in enumerate(tree.parents) if parent == ROOT and tree.survival[node]]
    if not matched:
        return
    following = [token for each in texts for token in followers(each, end[-matched:]) or []]
    places = sum(occurrences(each, end[-matched:]) for each in texts)
    own = {tree.tokens[node]: tree.survival[node] for node in roots}
    for token in set(following):
        expected = matched / (matched + 1) * following.count(token) / places
        # what the text itself has repeated may claim more
        assert own[token] >= expected - 1e-9 or expected < 0.02


def occurrences(text, part):
    return sum(text[start : start + len(part)] == part for start in range(len(text) - len(part) + 1))


def followers(text, part):
    """The tokens behind each occurrence; `None` where there is none."""
    if not occurrences(text, part):
        return None
    return [
        text[start + len(part)] for start in range(len(text) - len(part)) if text[start : start + len(part)] == part
    ]


def test_files_are_drafted_as_a_tree_that_follows_both_ways():
    files = FileTexts([[1, 2, 3, 4, 5], [1, 2, 3, 8, 9], [1, 2, 3, 4, 6]])
    tree = drafted([40, 1, 2], files)
    three = tree.child(ROOT, 3)
    four, eight = tree.child(three, 4), tree.child(three, 8)
    assert tree.survival[four] == pytest.approx(2 * tree.survival[eight])
    assert {tree.tokens[node] for node, parent in enumerate(tree.parents) if parent == four} == {5, 6}


def test_text_files_and_folders_are_read_and_what_is_no_text_there_is_passed_over(tmp_path):
    (tmp_path / "b.py").write_text("b = 1\n", encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.txt").write_text("Grüße", encoding="utf-8-sig")
    (tmp_path / "deep/photo.png").write_bytes(b"\x89PNG\0\1")
    (tmp_path / "deep/latin.txt").write_bytes(b"Gr\xfc\xdfe")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("secret")
    (tmp_path / "link.py").symlink_to(tmp_path / "b.py")
    assert read_texts(check_paths([tmp_path])) == ["b = 1\n", "Grüße"]
    assert read_texts([tmp_path / "b.py", tmp_path]) == ["b = 1\n", "Grüße"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b"\0\1\2"), "no text in UTF-8"),
        (lambda path: path.write_bytes(b"ab\xff"), "no text in UTF-8"),
        (lambda path: path.write_bytes(b""), "holds no text"),
        (lambda path: path.mkdir(), "holds no text"),
        (lambda path: None, "which cannot be read: No such file"),
    ],
)
def test_a_file_that_was_named_and_is_no_text_is_refused(make, said, tmp_path):
    make(tmp_path / "x")
    with pytest.raises(SettingsError, match=f"draft_corpus.*x'.*{said}"):
        read_texts([tmp_path / "x"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["/nowhere/at/all"], r"draft_corpus names '/nowhere/at/all', which is not there"),
        ("src", r"draft_corpus='src' cannot be used: give a list"),
        ([3], r"draft_corpus has 3, which is no path"),
        ([""], r"draft_corpus has '', which is no path"),
    ],
)
def test_paths_that_cannot_be_are_refused_before_a_model_is_loaded(given, said):
    with pytest.raises(SettingsError, match=said):
        check_paths(given)


def test_too_much_text_is_refused_without_reading_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "MOST_BYTES", 10_000)
    (tmp_path / "a").write_text("x" * 9_000)
    (tmp_path / "b").write_text("x" * 2_000)
    with pytest.raises(SettingsError, match=r"draft_corpus holds more than .*/b'.*Name fewer files"):
        read_texts([tmp_path])


def test_too_many_tokens_are_refused(monkeypatch):
    monkeypatch.setattr("stretto.local_engine.drafting.sources.files.MOST_TOKENS", 10)
    with pytest.raises(SettingsError, match="more than 10 tokens"):
        tokenized(["a" * 6, "b" * 6], lambda text: [1] * len(text))
