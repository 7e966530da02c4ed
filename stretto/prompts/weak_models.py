"""What is sent with the prompts of weak models: the texts that end an answer, and the penalty of what was said."""

from __future__ import annotations

import re

from stretto.prompts.catalogue import Template

PENALTY = 1.1  # of words that a weak model has said before, where its backend has one: it repeats itself else
_SECOND = " 2. "  # a weak model goes on from its sentence as from the first line of a list
_ASKED = re.compile(r"^(?P<lead>\w[^\n$]*?:) *\$question$", re.MULTILINE)


def outline_ends(template: Template) -> tuple[str, ...]:
    """What ends an outline: a blank line, or the next example, which begins as those of the prompt do.

    Where examples are turns, each is one paragraph. Examples of one turn are followed by blank lines.
    """
    if any(role == "assistant" for role, _ in template.parts):
        return ("\n\n",)
    for _, text in template.parts:
        if (asked := _ASKED.search(text.template)) and text.template.count(f"\n{asked['lead']}") > 1:
            return (f"\n{asked['lead']}",)
    return ()


def point_ends(template: Template) -> tuple[str, ...]:
    """What ends a point: what would end an outline, or the second line of a list in the line of the first."""
    return (*outline_ends(template), _SECOND)


def penalised(field: str) -> dict[str, float]:
    """The ``ModelRequest.extra`` of a backend whose penalty is sent in this ``field``; empty: it has none."""
    return {field: PENALTY} if field else {}
