"""Text of others made fit for a terminal.

What a model, a document or a server wrote may hold control characters, and with them sequences
that move the cursor, change the window's title or fill the clipboard. Newlines and tabs stay. So do the characters of
scripts from right to left, but not those that turn the direction of others.
"""

from __future__ import annotations

import re

_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # overrides and isolates: they make text read otherwise
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0), *_DIRECTIONS) if chr(code) not in "\n\t"}
_RAW_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """Drop all control characters but newline and tab, and those that turn the direction of text."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """The same on one line, runs of white space as one space."""
    return " ".join(plain(text).split())


def plain_json(text: str) -> str:
    """JSON with the controls escaped that the format would allow to stand as they are."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
