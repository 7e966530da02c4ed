"""Where the tokens of `document.py` go: ``python benchmarks/document_prompt.py`` prints the parts of a map prompt."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter

from document_model import QUESTION, haystack, reply

from stretto import AsyncStretto, Document
from stretto.backends.base import Capabilities, ModelRequest
from stretto.testing import ScriptedBackend

__all__ = ["parts_of_prompts"]

_FENCE = re.compile(r"^(=== [0-9a-f]+ ===) ?(.*)\n", re.MULTILINE)
_CALLED = {"end": "question and instructions", "the documents, by their headings or first words": "outline"}


def parts_of_prompts(characters: int, needles: int, able: Capabilities) -> dict[str, float]:
    """Tokens of each part of a prompt for a passage, on average; four characters count as one, as the server counts."""
    sent: list[ModelRequest] = []

    def script(prompt: ModelRequest) -> str:
        text = "\n\n".join(message.content for message in prompt.messages)
        if '"no_information"' in text:
            sent.append(prompt)
        return reply(text)

    document = Document(text=haystack(characters, needles), title="report")
    asyncio.run(_ask(ScriptedBackend(script, capabilities=able), document))
    spent: Counter[str] = Counter()
    for prompt in sent:
        spent["system message"] += len(prompt.messages[0].content)
        text = prompt.messages[-1].content
        fences = list(_FENCE.finditer(text))
        for fence, end in zip(fences, [*(each.start() for each in fences[1:]), len(text)], strict=True):
            name = re.sub(r"passage \d+ of \d+ stands in", "title and place", fence[2])
            spent[_CALLED.get(name, name)] += end - fence.end()
            spent["fences"] += fence.end() - fence.start()
    return {"calls": len(sent)} | {name: round(size / 4 / len(sent), 1) for name, size in spent.most_common()}


async def _ask(backend: ScriptedBackend, document: Document) -> None:
    async with AsyncStretto(backend) as stretto:
        await stretto.ask(QUESTION, strategy="document", documents=[document])


if __name__ == "__main__":
    as_measured = Capabilities(context_window=4_000, concurrent_calls=8, json_schema=True)
    sys.stdout.write(json.dumps(parts_of_prompts(500_000, 72, as_measured), indent=2) + "\n")
