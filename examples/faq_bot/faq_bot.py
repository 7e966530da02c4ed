"""A bot that answers the customers of a shop from its list of frequent questions, and remembers what was said.

python faq_bot.py                                  talks to you
python faq_bot.py "What does delivery cost?"       answers and ends
"""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
from pathlib import Path

from stretto import AsyncStretto, Document, StrettoError

MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4-mini"
FAQ = Path(__file__).with_name("faq.md")
SYSTEM = (
    "You answer customers of a bicycle shop, briefly and kindly. Say only what the documents say. Where they do not "
    "have it, say that you do not know and that the shop answers calls on weekdays from 9 to 18 o'clock."
)
ALIKE = 0.85  # how much of a kept question has to be the same for its answer to be given as it is


def read(file: Path) -> dict[str, str]:
    """The answers by their questions, which are the headings of the second level."""
    sections = re.split(r"^## +", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    entries = (section.partition("\n") for section in sections)
    return {question.strip(): " ".join(answer.split()) for question, _, answer in entries}


class FaqBot:
    """One conversation with a customer."""

    def __init__(self, stretto: AsyncStretto, faq: dict[str, str]) -> None:
        self._stretto = stretto
        self._faq = faq
        self._said: list[dict[str, str]] = []

    async def say(self, question: str) -> str:
        """Print the answer as it is written, and return it."""
        kept = difflib.get_close_matches(question, self._faq, n=1, cutoff=ALIKE)
        if kept:  # no model words it better than the shop did
            answer = self._faq[kept[0]]
            print(answer)
        else:
            answer = await self._asked(question)
        self._said += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return answer

    async def _asked(self, question: str) -> str:
        messages = [*self._said, {"role": "user", "content": question}]
        documents = [Document(title=title, text=text) for title, text in self._faq.items()]
        said = ""
        async with self._stretto.stream(messages, system=SYSTEM, documents=documents, strategy="document") as stream:
            async for text in stream.text():
                print(text, end="", flush=True)
                said += text
        print()
        return said


async def main(questions: list[str]) -> None:
    """Answer these questions, or those that are typed."""
    async with AsyncStretto(MODEL) as stretto:
        bot = FaqBot(stretto, read(FAQ))
        waiting = iter(questions) if questions else iter(lambda: input("\n> ").strip(), "")
        for question in waiting:
            if questions:
                print(f"\n> {question}")
            try:
                await bot.say(question)
            except StrettoError as error:  # the next question may be answered
                print(f"Sorry, I cannot answer now. ({error})", file=sys.stderr)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except (KeyboardInterrupt, EOFError):
        print()
