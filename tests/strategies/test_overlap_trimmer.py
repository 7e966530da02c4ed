"""A continuation repeats nothing of the text that it continues, however its stream is cut into pieces."""

import pytest

from stretto.strategies.runtime.overlap_trimmer import OverlapTrimmer


def joined(before, said, size):
    trimmer = OverlapTrimmer(before)
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    return before + "".join(trimmer.feed(piece) for piece in pieces) + trimmer.finish()


@pytest.mark.parametrize(
    ("before", "said", "whole"),
    [
        ("Oil it now", " and then.", "Oil it now and then."),
        ("Oil it now and", " and then.", "Oil it now and then."),
        ("Oil it now and", "and then.", "Oil it now and then."),
        ("Oil it now and ", "and then.", "Oil it now and then."),
        ("Oil it now ", " and then.", "Oil it now and then."),
        ("Oil it now and", "Oil it now and then.", "Oil it now and then."),
        ("Pump up. Oil it now and", "Oil it now and then.", "Pump up. Oil it now and then."),
        ("Pump up.\nOil it now and", "\nOil it now and then.", "Pump up.\nOil it now and then."),
        ("Pump th", "them up.", "Pump them up."),
        ("Pump th", "em up.", "Pump them up."),
        ("Pump up the", " then new tyres.", "Pump up the then new tyres."),
        ("Oil it now and then.", "Oil it now and then.", "Oil it now and then."),
        ("Two lines:\n\n", "\n\nOne.", "Two lines:\n\nOne."),
        ("if a:\n    end", "\nend", "if a:\n    end\nend"),
        ("f(g(x)", "))", "f(g(x)))"),
        ("1, 10, 10", ", 10", "1, 10, 10, 10"),
        ("It is 10", "10 times", "It is 1010 times"),
        ("我们今天去公园散步", "去公园散步，然后回家", "我们今天去公园散步，然后回家"),
        ("我们天天", "天气好", "我们天天天气好"),
        ("", "Anything at all.", "Anything at all."),
        ("A word.", "", "A word."),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_words_at_the_joint_are_there_once(before, said, whole, size):
    assert joined(before, said, size) == whole


def test_text_that_repeats_nothing_is_passed_on_at_once():
    trimmer = OverlapTrimmer("Oil it now")
    assert trimmer.feed(" and") == " and"


def test_a_repetition_is_held_back_only_until_it_is_known():
    trimmer = OverlapTrimmer("Oil it now and")
    assert [trimmer.feed(piece) for piece in ("Oil", " it", " now and", " then")] == ["", "", "", " then"]
