"""The places that an answer cites, as footnotes below it."""

from __future__ import annotations

from rich.text import Text

from stretto.cli.output.plain import one_line
from stretto.values.answer import Answer

__all__ = ["footnotes_of"]

_MOST = 40
_LONGEST = 160  # characters of a quotation


def footnotes_of(answer: Answer) -> list[Text]:
    """One line a citation: its number, its label in the answer, the heading above it, and what it says."""
    lines = []
    for citation in answer.citations[:_MOST]:
        quote, heading = one_line(citation.quote), one_line(citation.heading)
        said = quote if len(quote) <= _LONGEST else quote[: _LONGEST - 1].rstrip() + "…"
        line = Text(f"{citation.number} {one_line(citation.label)}", "bold")
        line.append(f" {heading}:" if heading and heading != said else "", "not bold dim")
        lines.append(line.append(f" {said}", "not bold dim"))
    if (more := len(answer.citations) - _MOST) > 0:
        lines.append(Text(f"and {more:,} more, which --json prints", "dim"))
    return lines
