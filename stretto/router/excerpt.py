"""The text of a request that the router reads: beginning and end of the last user turn."""

from __future__ import annotations

import re
from functools import cache

from stretto.language import tables_in
from stretto.language.folding import fold
from stretto.values.request import Request

HEAD_CHARACTERS = 800
TAIL_CHARACTERS = 500
LONGEST = 80  # characters; a longer question needs no context


def excerpt(text: str) -> str:
    """Return the beginning and end of a long text, or all of a short one: the task is at either end."""
    if len(text) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
        return text
    return text[:HEAD_CHARACTERS] + "\n" + text[-TAIL_CHARACTERS:]


def question_in_context(request: Request) -> str:
    """Return the last user turn, preceded by the previous one if it cannot be understood alone ("and for cats?")."""
    question = request.question
    if len(request.messages) > 2 and len(question) <= LONGEST and _follow_up().match(fold(question)):
        questions = [turn.content for turn in request.history if turn.role == "user"]
        if questions:
            return f"{questions[-1]}\n{question}"
    return question


@cache
def _follow_up() -> re.Pattern[str]:
    tables = tables_in("follow_ups.toml").values()
    lead = {fold(word.strip()) for table in tables for word in table["lead"].split(",")}
    begins = (fold(pattern) for table in tables for pattern in table["begins"])
    return re.compile(rf"\W*(?:(?:{'|'.join(sorted(lead, key=len, reverse=True))})\W+)*(?:{'|'.join(begins)})")
