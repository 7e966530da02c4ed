"""Sanitises text from servers for display: without keys or control characters, and truncated.

A server can send anything, so everything here runs in linear time.
"""

from __future__ import annotations

import re

SAID = 500  # characters of a server's message that an error includes
_LOOKED_AT = 4 * SAID
_PLACEHOLDER = 4  # characters of a dummy key for a server that needs none, such as "any": only redacted as a whole word

_WORD = re.compile(r"[\w*.-]{9,}")
_KEY_BEGINS = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|AIza|api|key)[-_]")  # vendors' keys
_SECRET = re.compile(
    r"(?<=[Bb]earer )(?=\S*[\d.])[^\s\"',]{8,}"
    r"|(?<=://)[^/\s@]+(?=@)"  # user and password in a URL
)


def redact(text: str, *secrets: str) -> str:
    """Redact keys in a text: the given secrets, and whatever looks like a key."""
    for secret in secrets:
        if len(secret) > _PLACEHOLDER:
            text = text.replace(secret, "[key]")
        elif secret:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "[key]", text)
    # The words are found first and each is searched once: a single expression would scan
    # the rest of the text from every place where a key might begin.
    return _SECRET.sub("[key]", _WORD.sub(_without_key, text))


def _without_key(found: re.Match[str]) -> str:
    word = found[0]
    begin = _KEY_BEGINS.search(word)
    if begin is None:
        return word
    rest = word[begin.end() :]
    # A key has digits, or asterisks if it is masked; ordinary words have neither.
    is_key = len(rest) >= 6 and any(char == "*" or char.isdigit() for char in rest)
    return f"{word[: begin.start()]}[key]" if is_key else word


def redacted_line(text: str, *secrets: str) -> str:
    """Return the beginning of a server's message on one line, for an error."""
    longest = max(map(len, secrets), default=0)
    text = redact(text[: _LOOKED_AT + longest], *secrets)
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:SAID].rstrip(". ")
