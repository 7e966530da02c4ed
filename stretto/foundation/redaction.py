"""Makes the words of a server fit to be shown: without keys, without control characters, bounded.

A server may send anything, so each of these takes time in proportion to what it looks at.
"""

from __future__ import annotations

import re

SAID = 500  # characters of a server's words that an error repeats
_LOOKED_AT = 4 * SAID
_PLACEHOLDER = 4  # characters of a "key" for a server that wants none, such as "any": no part of another word is one

_WORD = re.compile(r"[\w*.-]{9,}")
_KEY_BEGINS = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|AIza|api|key)[-_]")  # vendors' keys
_SECRET = re.compile(
    r"(?<=[Bb]earer )(?=\S*[\d.])[^\s\"',]{8,}"
    r"|(?<=://)[^/\s@]+(?=@)"  # user and password of an address
)


def redact(text: str, *secrets: str) -> str:
    """Take keys out of a text: the secrets given, and whatever looks like one."""
    for secret in secrets:
        if len(secret) > _PLACEHOLDER:
            text = text.replace(secret, "[key]")
        elif secret:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "[key]", text)
    # The words are found first and each is looked through once: one expression for both would look
    # through the rest of the text at every place where a key might begin.
    return _SECRET.sub("[key]", _WORD.sub(_without_key, text))


def _without_key(found: re.Match[str]) -> str:
    word = found[0]
    begin = _KEY_BEGINS.search(word)
    if begin is None:
        return word
    rest = word[begin.end() :]
    # A key has digits, or the asterisks of one that is shown in part; ordinary words have neither.
    is_key = len(rest) >= 6 and any(char == "*" or char.isdigit() for char in rest)
    return f"{word[: begin.start()]}[key]" if is_key else word


def redacted_line(text: str, *secrets: str) -> str:
    """Give the beginning of what a server says, on one line, as part of an error."""
    longest = max(map(len, secrets), default=0)
    text = redact(text[: _LOOKED_AT + longest], *secrets)
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:SAID].rstrip(". ")
