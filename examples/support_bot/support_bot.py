"""A support bot that keeps an objective for the first word: when the model is late, a second one answers instead.

python support_bot.py                             three questions that the built-in model knows about
python support_bot.py "Why is my computer slow?"  your own
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

import anyio

from stretto import AsyncStretto, StrettoError, TextDelta

FIRST_WORD_S = 0.8  # the objective
MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4"
FALLBACK = "local:pocket"  # for a real model, a quicker one: "openai:gpt-5.4-nano"
LONGEST = 60  # characters of a question in the drawing
STYLE = """text{font:13px system-ui,sans-serif;fill:#1b1a1f}.dim{fill:#5c5a66}.back{fill:#fff}.kept{fill:#17713f}
.late{fill:#b3261e}.axis{stroke:#85828f}.goal{stroke:#4b3fc4;stroke-dasharray:4}
@media(prefers-color-scheme:dark){text{fill:#eceaf3}.dim{fill:#a9a6b6}.back{fill:#141318}.kept{fill:#4cc38a}
.late{fill:#ff8f85}.axis{stroke:#7b7789}.goal{stroke:#aca2ff}}"""
QUESTIONS = ["My account was hacked, what should I do?", "Why is my computer slow?", "How do I choose a laptop?"]
SYSTEM = "You answer customers of a computer shop, briefly and kindly."


@dataclass(frozen=True)
class Reply:
    """One reply.

    Attributes:
        question: what was asked.
        text: what was said.
        model: who said it.
        first_word_s: seconds until the customer saw the first word.
    """

    question: str
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
                return Reply(question, answer.text, MODEL, first_word_s)
    except StrettoError as error:
        print(f"{MODEL} failed: {error}", file=sys.stderr)
    async with fallback.stream(question, system=SYSTEM) as events:
        async for event in events:
            if isinstance(event, TextDelta) and event.text.strip():
                break
        first_word_s = time.perf_counter() - began
        return Reply(question, (await events.rest()).text, f"{FALLBACK} (fallback)", first_word_s)


def graph(replies: list[Reply], file: Path) -> None:
    """Draw the seconds to the first word of each reply beside the objective, as SVG."""
    longest = max(FIRST_WORD_S, *(each.first_word_s for each in replies)) * 1.15
    row, left, wide = 44, 16, 560
    scale, bottom = wide / longest, 40 + row * len(replies)
    shapes = []
    for number, each in enumerate(replies):
        y, kind = 40 + row * number, "kept" if each.first_word_s <= FIRST_WORD_S else "late"
        length = each.first_word_s * scale
        question = each.question if len(each.question) <= LONGEST else each.question[: LONGEST - 1] + "…"
        shapes += [
            f'<text x="{left}" y="{y + 10}">{escape(question)}</text>',
            f'<rect class="{kind}" x="{left}" y="{y + 16}" width="{length:.0f}" height="14" rx="3"/>',
            f'<text class="dim" x="{left + length + 6:.0f}" y="{y + 27}">'
            f"{each.first_word_s:.2f} s, {escape(each.model)}</text>",
        ]
    tick = 10 ** math.floor(math.log10(longest))  # a power of ten
    ticks = [tick * at / 2 for at in range(int(2 * longest / tick) + 1)]
    for at in ticks if len(ticks) < 12 else ticks[::2]:
        x = left + at * scale
        shapes.append(f'<line class="axis" x1="{x:.0f}" x2="{x:.0f}" y1="{bottom}" y2="{bottom + 5}"/>')
        shapes.append(f'<text class="dim" x="{x:.0f}" y="{bottom + 20}" text-anchor="middle">{at:g}</text>')
    goal = left + FIRST_WORD_S * scale
    shapes += [
        f'<line class="axis" x1="{left}" x2="{left + wide}" y1="{bottom}" y2="{bottom}"/>',
        f'<text class="dim" x="{left + wide}" y="{bottom + 36}" text-anchor="end">seconds to the first word</text>',
        f'<line class="goal" x1="{goal:.0f}" x2="{goal:.0f}" y1="24" y2="{bottom}"/>',
        f'<text class="dim" x="{goal:.0f}" y="18" text-anchor="middle">objective: {FIRST_WORD_S:g} s</text>',
    ]
    size = f'width="{wide + 220}" height="{bottom + 44}"'
    file.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{STYLE}</style>'
        f'<rect class="back" width="100%" height="100%"/>{"".join(shapes)}</svg>\n',
        encoding="utf-8",
    )


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
    asyncio.run(main(sys.argv[1:] or QUESTIONS))
