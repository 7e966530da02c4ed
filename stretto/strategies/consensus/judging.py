"""A model that chooses among longer texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.backends.base import Backend, ModelRequest
from stretto.language.echoes import refuses
from stretto.strategies.consensus.consensus_options import JUDGE_TOKENS
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.fencing import numbered
from stretto.strategies.runtime.parts import THINKING
from stretto.strategies.runtime.runner import Runner
from stretto.values.answer import REFUSALS
from stretto.values.generation_options import GenerationOptions
from stretto.values.request import Request

__all__ = ["chosen_by", "judged"]

_HOW_MANY = re.compile(r"\b\d{1,3}\s+answers\b", re.IGNORECASE)
_FIRST = re.compile(r"\W*(?:answer\W*)?(\d{1,3})\s*(?:[:;*)\]\n]|[.,](?!\d)|$)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<!\d)(?<!\d[.,])\d{1,3}(?!\d|[.,]\d)")


async def judged(request: Request, runner: Runner, judge: Backend, texts: Sequence[str]) -> int | None:
    """The index of the text that the judge prefers; ``None``, with a warning, where it names none.

    Where it names none, whatever the cause, a refusal too, each fallback of the client is asked in turn.
    """
    fence, answers = numbered(texts, "answer")
    messages = runner.target.template("consensus_judge").messages(
        question=request.question, answers=answers, fence=fence, count=str(len(texts))
    )
    causes: list[str] = []
    judges = [judge, *(each for each in runner.fallback.models if each is not judge)]
    for backend in judges:
        spec = BranchSpec(
            id="judge",
            kind="judgement",
            title="Judge",
            label="The judge",
            prompt=lambda _: ModelRequest(messages),
            options=GenerationOptions(max_tokens=JUDGE_TOKENS + (THINKING if backend.capabilities.reasoning else 0)),
            backend=backend,
            successors=(),
            allow_refusal=True,
        )
        running = runner.start(spec)
        await running.ended()
        answered = running.exception is None and running.finish_reason not in REFUSALS
        number = chosen_by(running.text) if answered else None
        if number is not None and 1 <= number <= len(texts):
            if causes:
                runner.warn(
                    f"{backend.name} was the judge, because another one chose no answer: {'; '.join(causes)}.", "votes"
                )
            return number - 1
        causes.append(str(running.exception or f"it answered {' '.join(running.text.split())[:60]!r}").rstrip("."))
    runner.warn(
        f"The judge chose no answer, so the one that is most like the others is shown: {'; '.join(causes)}.", "votes"
    )
    return None


def chosen_by(text: str) -> int | None:
    """The number that a judge begins with, or the only one that it names; ``None``: it names none, or several."""
    if refuses(text):
        return None
    if first := _FIRST.match(text):
        return int(first[1])
    named = set(map(int, _NUMBER.findall(_HOW_MANY.sub("", text))))
    return named.pop() if len(named) == 1 else None
