"""A text to be rewritten, and a model that does it, for tests over HTTP."""

import re

PARAGRAPHS = [f"Paragraph {number} of the letter says what has to be said of it. " * 6 for number in range(8)]
TEXT = "\n\n".join(each.strip() for each in PARAGRAPHS)
TRANSLATE = f"Translate this text into German:\n\n{TEXT}"
RENAME = f'Rename "letter" to "mail" in this text:\n\n{TEXT}'
_PIECE = re.compile(r"(?P<fence>=== [0-9a-f]+ ===) piece\n(?P<piece>.*?)\n(?P=fence) after", re.DOTALL)


def rewritten(received):
    """The reply to a call: its piece in capitals, the changes of a new name, or no terms."""
    said = received.body["messages"][-1]["content"]
    if '{"changes"' in said:
        return '{"changes": [{"old": "letter", "new": "mail"}]}'
    found = _PIECE.search(said)
    return found["piece"].upper() if found else "{}"
