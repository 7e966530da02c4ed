"""What models of known families write, read as their chat templates tell it, however the text is cut."""

import json

import pytest
from model_families import LOCAL, TOOLS

from stretto.markup.calls import Parts
from stretto.markup.reading import reader_of
from stretto.strategies.runtime.written_calls import WrittenCalls


def heard(case, pieces):
    """Text, thoughts and calls of an answer in pieces: what its reader gives, and what is found in the text of that."""
    reader = reader_of(case.form, TOOLS, opened=case.form.opened_by(f"[assistant]{case.begins}"))
    written = WrittenCalls(TOOLS)
    text, thoughts, calls = "", [], []
    parts = [Parts(piece) if reader is None else reader.feed(piece) for piece in pieces]
    for part in [*parts, *([] if reader is None else [reader.finish()])]:
        text += written.feed(part.text) + (written.release() if part.calls else "")
        thoughts += [part.thought] if part.thought else []
        calls += [[name, json.loads(arguments)] for name, arguments in part.calls]
    calls += [] if calls else [[call.name, json.loads(call.arguments)] for call in written.finish()]
    return {"text": text + written.release(), "thoughts": "".join(thoughts), "calls": calls}


STEPS = pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.thorough)])
"""Between the places where a text is cut in two."""


@STEPS
@pytest.mark.parametrize("case", LOCAL, ids=lambda case: case.id)
def test_what_a_model_writes_is_read_however_it_is_cut(case, step):
    text, expected = case.text, {"text": "", "thoughts": "", "calls": [], **case.gives}
    assert expected.pop("finish") == ("tool_calls" if expected["calls"] else "stop")
    assert heard(case, [text]) == expected
    for size in (1, 3, 8):
        assert heard(case, [text[at : at + size] for at in range(0, len(text), size)]) == expected
    for at in range(1, len(text), step):
        assert heard(case, [text[:at], text[at:]]) == expected


@STEPS
@pytest.mark.parametrize("case", LOCAL, ids=lambda case: case.id)
def test_nothing_is_lost_where_the_text_is_cut_off(case, step):
    for at in range(1, len(case.text), step):
        found = heard(case, [case.text[:at]])
        shown = found["text"] + found["thoughts"] + json.dumps(found["calls"], ensure_ascii=False)
        wanted = [word for word in ("Let me look", "I look", "Hello", "greeting", "bike") if word in case.text[:at]]
        assert all(word in shown for word in wanted)
