"""``--logprobs``: how probable the model found each token of its answer."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from stretto.cli.output.columns import Cell, columns
from stretto.cli.output.plain import plain_json

if TYPE_CHECKING:
    from rich.text import Text

    from stretto.values.answer import Answer


def table(answer: Answer, width: int | None) -> list[Text]:
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
