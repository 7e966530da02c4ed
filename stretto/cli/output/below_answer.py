"""What stands below an answer: the places that it cites, and with ``--logprobs`` how probable its tokens were."""

from __future__ import annotations

import json
import math

from rich.text import Text

from stretto.cli.output.columns import Cell, columns
from stretto.cli.output.plain import one_line, plain_json
from stretto.values.answer import Answer

__all__ = ["footnotes_of", "logprobs_of"]

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


def logprobs_of(answer: Answer, width: int | None) -> list[Text]:
    """A row for each token: its probability, the logarithm of that, and the most probable tokens in its place.

    Tokens are shown as JSON strings, so that spaces and line breaks are seen.
    """
    head: tuple[Cell, ...] = tuple((each, "bold") for each in ("token", "probability", "logprob", "most probable"))
    rows = [head]
    for score in answer.logprobs:
        top = "  ".join(f"{_shown(token)} {_percent(logprob)}" for token, logprob in score.top)
        rows.append((_shown(score.token), _percent(score.logprob), f"{_rounded(score.logprob):.3f}", top))
    if not any(score.top for score in answer.logprobs):
        rows = [row[:-1] for row in rows]
    return columns(rows, width=width, right=(1, 2))


def _shown(token: str) -> str:
    return plain_json(json.dumps(token, ensure_ascii=False))


def _percent(logprob: float) -> str:
    probability = math.exp(logprob)
    return "<0.1%" if probability < 0.0005 else f"{probability:.1%}"


def _rounded(logprob: float) -> float:
    return round(logprob, 3) + 0.0  # -0.0 becomes 0.0
