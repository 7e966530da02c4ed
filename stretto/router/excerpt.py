"""Which text of a request the router reads: beginning and end of the last user turn."""

from __future__ import annotations

from stretto.language.follow_ups import is_follow_up
from stretto.values.request import Request

HEAD_CHARACTERS = 800
TAIL_CHARACTERS = 500


def excerpt(text: str) -> str:
    """Beginning and end of a long text, all of a short one: the task is at either end."""
    if len(text) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
        return text
    return text[:HEAD_CHARACTERS] + "\n" + text[-TAIL_CHARACTERS:]


def question_in_context(request: Request) -> str:
    """The last user turn, after the previous one if it cannot be understood alone ("and for cats?")."""
    question = request.question
    if len(request.messages) > 2 and is_follow_up(question):
        asked = [turn.content for turn in request.history if turn.role == "user"]
        if asked:
            return f"{asked[-1]}\n{question}"
    return question
