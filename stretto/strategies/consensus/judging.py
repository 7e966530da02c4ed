"""A model that chooses among longer texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stretto.backends.base import Backend, ModelRequest
from stretto.generation_options import GenerationOptions
from stretto.request import Request
from stretto.strategies.branch import BranchSpec
from stretto.strategies.fencing import numbered
from stretto.strategies.limits import THINKING
from stretto.strategies.runner import Runner

__all__ = ["judged"]

_NUMBER = re.compile(r"(?<!\d)\d{1,3}(?!\d)")
_TOKENS = 64  # a choice is one word; one that goes on and on is paid for


async def judged(request: Request, runner: Runner, judge: Backend, texts: Sequence[str]) -> int | None:
    """The index of the text that the judge prefers; ``None``, with a warning, where it names none.

    Where it names none, whatever the cause, a refusal too, each fallback of the client is asked in turn.
    """
    fence, answers = numbered(texts, "answer")
    messages = runner.template("consensus_judge").messages(
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
            prompt=lambda: ModelRequest(messages),
            options=GenerationOptions(max_tokens=_TOKENS + (THINKING if backend.capabilities.reasoning else 0)),
            backend=backend,
            successors=(),
            allow_refusal=True,
        )
        running = runner.start(spec)
        await running.ended()
        found = _NUMBER.search(running.text)
        number = int(found[0]) if found and running.exception is None else 0
        if 1 <= number <= len(texts):
            if causes:
                runner.warn(f"{backend.name} was the judge, because another one chose no answer: {'; '.join(causes)}.")
            return number - 1
        causes.append(str(running.exception or f"it answered {' '.join(running.text.split())[:60]!r}").rstrip("."))
    runner.warn(f"The judge chose no answer, so the one that is most like the others is shown: {'; '.join(causes)}.")
    return None
