"""Text of others made fit for a terminal.

What a model, a document or a server wrote may hold control characters, and with them sequences
that move the cursor, change the window's title or fill the clipboard. Newlines and tabs stay.
"""

from __future__ import annotations

import re

_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_RAW_IN_JSON = re.compile("[\x7f-\x9f]")


def plain(text: str) -> str:
    """Drop all control characters but newline and tab."""
    return text.translate(_CONTROLS)


def one_line(text: str) -> str:
    """The same on one line, runs of white space as one space."""
    return " ".join(plain(text).split())


def plain_json(text: str) -> str:
    """JSON with the controls escaped that the format would allow to stand as they are."""
    return _RAW_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
