"""Find facts in a text that is longer than the model's window: Python's own sources, on the built-in model.

    python examples/find_in_sources.py

Three notes are hidden in two modules of asyncio. The built-in model can look up facts of this kind, and nothing harder;
for a real model and any question, replace the line with ``Stretto(...)``.
"""

import asyncio.locks
import asyncio.queues
from pathlib import Path

from stretto import Document, Stretto

NOTES = {
    0.2: "The code of Berta is 48213.",
    0.5: "The Lisbon conference takes place on 14 March 2031.",
    0.8: "The red lantern is kept in the cellar.",
}
QUESTIONS = (
    "What is the code of Berta?",
    "When is the Lisbon conference?",
    "Where is the red lantern?",
    "What does the green chair cost?",
)


def sources() -> Document:
    """The two modules with the notes between their lines."""
    modules = (asyncio.queues, asyncio.locks)
    lines = "".join(Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules).splitlines()
    for place, note in sorted(NOTES.items(), reverse=True):
        lines.insert(int(place * len(lines)), note)
    return Document(title="asyncio", text="\n".join(lines))


def main() -> None:
    """Ask each question and print the answer with the place it comes from."""
    document = sources()
    with Stretto("local:pocket") as stretto:  # for a real model: Stretto("openai:gpt-5.4-mini")
        for question in QUESTIONS:
            answer = stretto.ask(question, documents=[document])
            print(f"{question}\n  {answer.text}")
            for citation in answer.citations:
                print(f"  {citation.label} {citation.quote}")
        print(f"Each answer read {len(answer.passages)} passages, {len(document.text):,} characters.")


if __name__ == "__main__":
    main()
