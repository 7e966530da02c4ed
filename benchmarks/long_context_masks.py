"""Draws which token sees which when a long document is read, as SVG, for docs/long-context.md.

    python benchmarks/long_context_masks.py

Rows are tokens that are computed, columns tokens that they see; numbers are positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from measuring import IMAGES
from plots import svg_style

from stretto.display.palette import Palette
from stretto.local_engine.research.focus.document_chunks import cut

__all__ = ["Token", "picture", "tokens"]

_DOCUMENT, _PIECE, _APPENDED, _LOCAL = 9, 3, 2, 3
_CELL, _LEFT, _TOP = 17, 116, 60
_TITLE = "focus: chunks with the end of the question; candidates (red) move to 0, 1, 2"


@dataclass(frozen=True)
class Token:
    """One token that is computed.

    Attributes:
        name: what is written next to its row.
        kind: by which it is coloured.
        position: at which it is computed.
        sees: numbers of the tokens before it that it sees.
        place: position at which later rows see it, where that is another.
    """

    name: str
    kind: str
    position: int
    sees: tuple[int, ...]
    place: int | None = None


def tokens() -> list[Token]:
    """All tokens of a small document, in the order in which they are computed."""
    pieces = cut(range(_DOCUMENT), _PIECE)
    found: list[Token] = []
    candidates = []
    for number, piece in enumerate(pieces):
        first = len(found)
        names = [(f"d{token}", "document") for token in piece]
        names += [(f"q{token}", "local") for token in range(_LOCAL - _APPENDED, _LOCAL)]
        for position, (name, kind) in enumerate(names):
            sees = tuple(range(first, first + position))
            if position == len(names) - 1:
                found.append(Token(name, "candidate", position, sees, number))
            else:
                found.append(Token(name, kind, position, sees))
        candidates.append(len(found) - 1)
    first = len(found)
    for position in range(_LOCAL):
        before = (*candidates, *range(first, first + position))
        found.append(Token(f"q{position}", "local", len(pieces) + position, before))
    return found


def _colours(colours: Palette) -> str:
    return (
        f"text{{fill:{colours.text}}}.back{{fill:{colours.back}}}.empty{{fill:{colours.raised}}}"
        f".document{{fill:{colours.voices[4]}}}.anchor{{fill:{colours.voices[4]};opacity:.5}}"
        f".local,.query{{fill:{colours.voices[1]}}}.candidate{{fill:{colours.bad}}}"
    )


def picture() -> str:
    """The mask."""
    every = tokens()
    size = _LEFT + _CELL * len(every) + 12, _TOP + _CELL * len(every) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" font-family="sans-serif" font-size="10">',
        f"<style>{svg_style(_colours)}</style>",
        f'<rect class="back" width="{size[0]}" height="{size[1]}"/>',
        f'<text x="8" y="16" font-size="12">{_TITLE}</text>',
        '<text x="8" y="52">token, at position</text>',
    ]
    for row, token in enumerate(every):
        top, across = _TOP + _CELL * row, _LEFT + _CELL * row
        moved = "" if token.place is None or token.place == token.position else f" &#8594; {token.place}"
        lines.append(f'<text x="8" y="{top + 12}">{escape(token.name)} at {token.position}{moved}</text>')
        lines.append(f'<text x="{across + 2}" y="{_TOP - 6}" font-size="8">{escape(token.name)}</text>')
        for column in range(row + 1):
            seen = column in token.sees or column == row
            kind, x = every[column].kind if seen else "empty", _LEFT + _CELL * column
            lines.append(f'<rect class="{kind}" x="{x}" y="{top}" width="{_CELL - 1}" height="{_CELL - 1}"/>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write the picture."""
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "long-context-focus.svg").write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
