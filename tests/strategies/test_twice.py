"""No section tells again what an earlier one has told: sentences are cut, or asked for again."""

import pytest

from stretto import ServerFailedError, Stretto
from stretto.testing import Reply, ScriptedBackend

PLAN = """Opening: Clean the chain of your bicycle before you do anything else.
Sections: Every week | At the shop
1. steps, about 160 words: clean, oil
2. bullets, about 160 words: truing
Closing: none"""
FIRST = "Wipe the chain with a dry cloth every week. Good oil costs 8 euros. See https://bike.example/oil for more."
SAME = "Wipe the chain with a dry cloth every week."
PARTLY = "In the shop they wipe the chain with a dry cloth, and look at brakes, hubs, spokes and tyres."


def second(said, edit="New.", **options):
    """The second section as it is shown, and how many sentences were asked for again."""
    pieces = said if isinstance(said, Reply) else Reply(chunks=[said[at : at + 5] for at in range(0, len(said), 5)])
    script = {"You plan the answer": PLAN, "<next>": edit, '"Every week" and': FIRST, '"At the shop" and': pieces}
    backend = ScriptedBackend(script)
    with Stretto(backend) as stretto:
        answer = stretto.ask("How do I look after a bicycle?", strategy="skeleton", **options)
    assert FIRST in answer.text
    return answer.text.partition("## At the shop")[2].strip(), len(backend.calls) - 3


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"- Have it trued.\n- {SAME}\n- Oil it.", "- Have it trued.\n- Oil it."),
        (f"- {SAME} And pump it.\n- Oil it.", "- And pump it.\n- Oil it."),
        (f"Have it trued. {SAME} Oil it.\n\nMore.", "Have it trued. Oil it.\n\nMore."),
        ("Clean the chain of your bicycle before anything else. Oil it.", "Oil it."),
        (" ".join(map(str, range(700))), " ".join(map(str, range(700)))),  # a sentence without an end
        (SAME, SAME),  # else the section would be empty
        (f"1. {SAME}\n2. Oil it.", f"1. {SAME}\n2. Oil it."),  # a number would be missing
        (f"```\n{SAME}\n```", f"```\n{SAME}\n```"),
        (f"| {SAME} |\n|---|\n| a |", f"| {SAME} |\n|---|\n| a |"),
    ],
)
def test_a_sentence_that_is_told_already_is_cut_where_that_is_safe(said, shown):
    assert second(said) == (shown, 0)


@pytest.mark.parametrize("sentence", [PARTLY, "Here, good oil costs 9 euros.", "Look at https://bike.example/oil too."])
def test_a_sentence_that_is_partly_told_or_disagrees_is_asked_for_again(sentence):
    assert second(f"Go.\n- {sentence}\n- Oil it.") == ("Go.\n- New.\n- Oil it.", 1)
    assert second(f"Go.\n- {sentence}\n- Oil it.", edit='"None."') == ("Go.\n- Oil it.", 1)
    assert second(f"Go.\n- {sentence}\n- Oil it.", preference="fastest") == (f"Go.\n- {sentence}\n- Oil it.", 0)


def test_where_asking_again_fails_the_sentence_stays():
    failed = Reply("", fault=ServerFailedError("It broke."))
    assert second(f"{PARTLY} Go.", edit=failed)[0] == f"{PARTLY} Go."
    assert second(f"{PARTLY} Go.", edit=Reply("New and", finish_reason="length"))[0] == f"{PARTLY} Go."


def test_three_sentences_are_asked_for_again_at_most():
    parts = ("brakes squeal", "hubs turn hard", "spokes hang loose", "tyres lose air", "lights go out at night")
    lines = [f"- Where {part}, wipe the chain with a dry cloth and let somebody see why {part}." for part in parts]
    shown, calls = second("\n".join(lines))
    assert (shown.startswith("- New.\n- New.\n- New.\n- Where tyres lose air, wipe the chain"), calls) == (True, 3)
