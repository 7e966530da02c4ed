"""A support bot that keeps an objective for the first word: when the model is late, a second one answers instead.

python support_bot.py "My lamp is broken, what can I do?" "How do I return a saddle?"
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import anyio

from stretto import AsyncStretto, StrettoError, TextDelta

FIRST_WORD_S = 0.8  # the objective
MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4"
FALLBACK = "local:pocket"  # for a real model, a quicker one: "openai:gpt-5.4-nano"
SYSTEM = "You answer customers of a bicycle shop, briefly and kindly."


@dataclass(frozen=True)
class Reply:
    """One reply.

    Attributes:
        text: what was said.
        model: who said it.
        first_word_s: seconds until the customer saw the first word.
    """

    text: str
    model: str
    first_word_s: float


async def reply(main: AsyncStretto, fallback: AsyncStretto, question: str) -> Reply:
    """Answer by the main model; by the other one where no word has come after the objective."""
    began = time.perf_counter()
    try:
        async with main.stream(question, system=SYSTEM) as events:
            with anyio.move_on_after(FIRST_WORD_S) as patience:
                async for event in events:
                    if isinstance(event, TextDelta) and event.text.strip():
                        break
            if not patience.cancelled_caught:
                first_word_s = time.perf_counter() - began
                answer = await events.rest()
                return Reply(answer.text, MODEL, first_word_s)
    except StrettoError as error:
        print(f"{MODEL} failed: {error}", file=sys.stderr)
    async with fallback.stream(question, system=SYSTEM) as events:
        async for event in events:
            if isinstance(event, TextDelta) and event.text.strip():
                break
        first_word_s = time.perf_counter() - began
        return Reply((await events.rest()).text, f"{FALLBACK} (fallback)", first_word_s)


def graph(replies: list[Reply], file: Path) -> None:
    """Draw the time to the first word of each reply, and the objective, as SVG."""
    longest = max(FIRST_WORD_S, *(each.first_word_s for each in replies)) * 1.1
    scale = 300 / longest
    bars = ""
    for number, each in enumerate(replies):
        height, colour = each.first_word_s * scale, "#1a7f37" if each.first_word_s <= FIRST_WORD_S else "#cf222e"
        bars += (
            f'<rect x="{20 + 30 * number}" width="20" y="{320 - height:.0f}" height="{height:.0f}" fill="{colour}"/>'
        )
    line, width = 320 - FIRST_WORD_S * scale, 40 + 30 * len(replies)
    objective = f'<line x1="0" x2="{width}" y1="{line:.0f}" y2="{line:.0f}" stroke="#0969da" stroke-dasharray="4"/>'
    objective += f'<text x="2" y="{line - 4:.0f}" font-size="12" fill="#0969da">{FIRST_WORD_S:g} s</text>'
    file.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="330">{bars}{objective}</svg>')


async def main(questions: list[str]) -> None:
    """Answer all questions, and draw how long the customers waited."""
    replies = []
    async with AsyncStretto(MODEL) as model, AsyncStretto(FALLBACK) as fallback:
        for each in (model, fallback):
            await each.ask("Hello", max_tokens=1)  # loads or connects
        for question in questions:
            replies.append(await reply(model, fallback, question))
            said = replies[-1]
            print(f"\n> {question}\n{said.text}\n({said.model}, first word {said.first_word_s:.2f} s)")
    kept = sum(each.first_word_s <= FIRST_WORD_S for each in replies)
    print(f"\n{kept} of {len(replies)} replies began within {FIRST_WORD_S:g} s; see first_word.svg")
    graph(replies, Path("first_word.svg"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["My lamp is broken, what can I do?", "How do I look after a bicycle?"]))
