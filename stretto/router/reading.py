"""Which text of a request the router reads: beginning and end of the last user turn."""

from __future__ import annotations

import re

from stretto.request import Request

HEAD_CHARACTERS = 800
TAIL_CHARACTERS = 500

_ELLIPTICAL = re.compile(
    r"^\W*(?:(?:and|but|ok(?:ay)?|so|now|then|also|yes|no|thanks|und|et|y|e|en|и)\W+)*"
    r"(?:what about|how about|and (?:for|in|with)|same (?:for|with)|(?:do|try) (?:the same|it|that|another)"
    r"|another(?: one)?\b"
    r"|more\b|go on|continue|again\b|in (?:french|german|spanish|italian|english|dutch|portuguese)"
    r"|for |with |without |wie ist es mit|und (?:für|bei)|et (?:pour|les|le|la)\b|y (?:para|los|las|el|la)\b)",
    re.IGNORECASE,
)
_ELLIPTICAL_LIMIT = 80


def excerpt(text: str) -> str:
    """Beginning and end of a long text, all of a short one: the task is at either end."""
    if len(text) <= HEAD_CHARACTERS + TAIL_CHARACTERS:
        return text
    return text[:HEAD_CHARACTERS] + "\n" + text[-TAIL_CHARACTERS:]


def question_in_context(request: Request) -> str:
    """The last user turn, after the previous one if it cannot be understood alone ("and for cats?")."""
    question = request.question
    if len(request.messages) > 2 and len(question) <= _ELLIPTICAL_LIMIT and _ELLIPTICAL.match(question):
        asked = [turn.content for turn in request.history if turn.role == "user"]
        if asked:
            return f"{asked[-1]}\n{question}"
    return question
