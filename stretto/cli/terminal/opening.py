"""What stands on the screen before the first question: what this is, which model answers, and what can be asked."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from stretto.cli.plain import one_line
from stretto.cli.terminal.lines import words
from stretto.display.palette import TERMINAL

__all__ = ["EXAMPLES", "OF_ANY", "opening"]

# The web chat offers the same (server/web/page/examples.js).
OF_ANY = (
    "How do I look after a bicycle?",
    "What makes a city pleasant to live in?",
    "How should I prepare for a job interview?",
)
EXAMPLES = {
    "local:pocket": (
        "How do I look after a bicycle?",
        "How do I prepare for a job interview?",
        "What helps against a damp house?",
    )
}
_BARS = ((0, 9), (2, 12), (4, 10))  # where each begins, and how long it is


def opening(model: str) -> Iterator[Text]:
    """Its lines, for a model's name."""
    beside = (Text(""), Text("Stretto", "bold"), Text("Answers that are written in several places at once", "dim"))
    for (begins, long), said in zip(_BARS, beside, strict=True):
        yield Text.assemble((" " * begins + "━" * long).ljust(18), said, style=TERMINAL.accent, end="")
    yield words("")
    yield Text.assemble((one_line(model), "bold"), (" answers. Ask something, for instance:", "dim"), end="")
    first, *others = EXAMPLES.get(model, OF_ANY)
    yield from (words(f"  {question}") for question in (first, *others))
    yield Text.assemble((f"  /compare {first}", ""), ("   both ways, side by side", "dim"), end="")
