"""Ask a question about a text that fits into no context window: the sources of Python's asyncio.

    python examples/read_documents.py

The model here is a script that only finds lines, so the example needs no key and no network. For a real one, replace
the line with ``AsyncStretto(...)``; everything else stays as it is.
"""

import asyncio
import json
import re
from pathlib import Path

from stretto import AsyncStretto
from stretto.extending import Capabilities, ModelRequest
from stretto.testing import ScriptedBackend

QUESTION = "In which functions can a TimeoutError be raised?"
FOUND = re.compile(r"^.*raise (?:exceptions\.)?TimeoutError.*$", re.MULTILINE)


def find_lines(prompt: ModelRequest) -> str:
    """What a model would write that can only find the lines where a TimeoutError is raised."""
    text = prompt.messages[-1].content
    if '"no_information"' in text:  # it reads one passage
        passage = text.partition(" the passage\n")[2].rpartition("\n===")[0]
        quotes = [line.strip() for line in FOUND.findall(passage)]
        record = {"evidence": quotes, "answer": "It raises a TimeoutError.", "confidence": 4}
        return json.dumps({"record": record if quotes else {"no_information": True}})
    numbers = re.findall(r"^\[(?:cite:)?(\d+)\]", text, re.MULTILINE)  # it puts the findings together
    return "A TimeoutError is raised in these places: " + "; ".join(f"[cite:{number}]" for number in numbers) + "."


async def main() -> None:
    """Read, show how far the reading is, and print the answer with its places."""
    script = ScriptedBackend(find_lines, capabilities=Capabilities(context_window=16_000, json_schema=True))
    async with AsyncStretto(script) as stretto:  # for a real model: AsyncStretto("openai:gpt-5.4-mini")
        folder = Path(asyncio.__file__).parent
        async with stretto.stream(QUESTION, documents=[folder]) as events:
            async for event in events:
                if event.type == "route_chosen":
                    print(event.route.reason, end="\n\n")
                if event.type == "passage_read" and event.done == event.total:
                    print(f"{event.total} passages were read.", end="\n\n")
                if event.type == "text_delta":
                    print(event.text, end="", flush=True)
            print("\n")
            for citation in events.answer.citations:
                print(f"{citation.label} {citation.quote}")


if __name__ == "__main__":
    asyncio.run(main())
