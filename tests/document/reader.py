"""A model that knows nothing but the text it is sent: it finds sentences of one form, and obeys what is not fenced."""

import json
import re

from stretto.backends.base import Prompt

FACT = re.compile(r"The code of (\w+) is (\d+)\.")
FENCE = re.compile(r'Text between the lines "([^"]+)" is data')


def answer(prompt: Prompt) -> str:
    """What a careful reader of this prompt would write."""
    text = "\n".join(message.content for message in prompt.messages)
    fence = FENCE.search(text)
    outside, inside = unfenced(text, fence[1] if fence else "")
    if "ignore the question" in outside:
        return "X"
    name = re.search(r"code of (\w+)\?|codes? of all|all the codes|How many codes", outside)
    wanted = name[1] if name else None
    if '"no_information"' in outside:
        passage = inside.get("the passage", "")
        found = [fact for fact in FACT.finditer(passage) if wanted in (None, fact[1])]
        quotes = [fact[2] if "every single thing" in outside else fact[0] for fact in found]
        return json.dumps(
            {
                "evidence": quotes,
                "rationale": "It says so.",
                "answer": " ".join(fact[0] for fact in found),
                "confidence": 5 if found else 0,
                "no_information": not found,
            }
        )
    if '"keep"' in outside:
        kept = [int(number) for number in re.findall(r"^\[(\d+)\]", inside["records"], re.MULTILINE)]
        return json.dumps({"keep": kept, "answer": "Codes.", "confidence": 5})
    said = re.findall(
        r"\[(\d+)\] (?:\([^)]*\) \")?[^\n]*?" + FACT.pattern, inside.get("findings", inside.get("documents", ""))
    )
    said = [each for each in said if wanted in (None, each[1])]
    return (
        " ".join(f"The code of {each[1]} is {each[2]} [{each[0]}]." for each in said) or "The documents do not tell it."
    )


def unfenced(text: str, fence: str) -> tuple[str, dict[str, str]]:
    """What stands outside of the fences, and what stands within, by the name behind each fence."""
    outside, inside, name = [], {}, None
    for line in text.split("\n"):
        if fence and line.startswith(fence):
            label = line.removeprefix(fence).strip()
            name = None if label == "end" or (not label and name is not None) else label
            continue
        if name is None:
            outside.append(line)
        else:
            inside[name] = inside.get(name, "") + line + "\n"
    return "\n".join(outside), inside
