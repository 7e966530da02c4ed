"""A model that knows nothing but the text it is sent: it finds sentences of one form, and obeys what is not fenced."""

import json
import random
import re

from stretto import AsyncStretto, Document
from stretto.backends.base import Capabilities, ModelRequest
from stretto.testing import ScriptedBackend

FACT = re.compile(r"The code of (\w+) is (\d+)\.")
SHIP = re.compile(r"The captain of the (\w+) is (\w+)\.")
FENCE = re.compile(r'Text between the lines "([^"]+)" is data')
WORDS = "river stone garden winter market letter travel engine window silver morning paper".split()  # noqa: SIM905
WINDOW = 2_000
FACTS = {f"name{number}": 1000 + 7 * number for number in range(12)}

# What no document here speaks of, in each language.
QUESTIONS = {
    "en": "How do I look after a bicycle?",
    "de": "Wie pflege ich mein Fahrrad?",
    "fr": "Comment entretenir mon vélo ?",
    "es": "¿Cómo cuido mi bicicleta?",
    "it": "Come mi prendo cura della mia bicicletta?",
    "nl": "Hoe onderhoud ik mijn fiets?",
    "pt": "Como devo cuidar da minha bicicleta?",
    "zh": "如何保养自行车？",
    "ja": "自転車の手入れはどうすればよいですか？",
    "ar": "كيف أعتني بدراجتي؟",
    "hi": "मैं अपनी साइकिल की देखभाल कैसे करूँ?",
    "ru": "Как ухаживать за велосипедом?",
    "tr": "Bisikletime nasıl bakarım?",
    "ko": "자전거는 어떻게 관리하나요?",
}


def haystack(windows, facts, seed=1, sentence=" "):
    """Paragraphs without a meaning that fill so many windows, facts spread evenly from the beginning to the end."""
    chance = random.Random(seed)  # noqa: S311 - the same words each time, nothing to guess
    paragraphs = [
        " ".join(chance.choice(WORDS) for _ in range(60)).capitalize() + "." for _ in range(windows * WINDOW * 3 // 390)
    ]
    step = len(paragraphs) / max(1, len(facts) - 1)
    for number, (name, code) in reversed(list(enumerate(facts.items()))):
        paragraphs.insert(round(step * number), f"The code of {name} is{sentence}{code}.")
    return Document(text="\n\n".join(paragraphs), title="report")


def scripted(script=None, **able):
    able = {"context_window": WINDOW, "json_schema": True} | able
    return ScriptedBackend(script or answer, capabilities=Capabilities(**able))


async def ask(backend, question, *documents, **options):
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, strategy="document", documents=documents, **options)


def text_of(prompt: ModelRequest) -> str:
    return "\n".join(message.content for message in prompt.messages)


def answer(prompt: ModelRequest) -> str:
    """What a careful reader of this prompt would write."""
    return answer_to(text_of(prompt))


def answer_to(text: str) -> str:
    """The same, for a prompt whose messages are joined."""
    fence = FENCE.search(text)
    outside, inside = unfenced(text, fence[1] if fence else "")
    if "ignore the question" in outside.lower():
        return "X"
    name = re.search(r"code of (\w+)\?|codes? of (?:all|every)|all the codes|How many codes", outside)
    wanted = name[1] if name else None
    if '"notes"' in outside:
        return _following(inside, re.search(r"captain of the (\w+)", outside))
    if '"no_information"' in outside:
        passage = inside.get("the passage", "")
        found = [fact for fact in FACT.finditer(passage) if wanted in (None, fact[1])]
        quotes = [fact[2] if "every single thing" in outside else fact[0] for fact in found]
        said = {"rationale": "It says so.", "answer": " ".join(fact[0] for fact in found), "confidence": 5}
        return record({"evidence": quotes, **said} if found else {"no_information": True})
    if '"keep"' in outside:
        kept = [int(number) for number in re.findall(r"^\[(?:\w+:)?(\d+)\]", inside["records"], re.MULTILINE)]
        return json.dumps({"keep": kept, "answer": "Codes.", "confidence": 5})
    said = _numbered(inside.get("findings", inside.get("documents", "")))
    said = [each for each in said if wanted in (None, each[1])]
    return (
        " ".join(f"The code of {each[1]} is {each[2]} [{each[0]}]." for each in said) or "The documents do not tell it."
    )


def record(fields):
    """The record of a passage, as the prompt wants it written."""
    return json.dumps({"record": fields})


def _numbered(text: str) -> list[tuple[str, str, str]]:
    """The facts of a text with the numbers they stand behind."""
    number, facts = "", []
    for line in text.split("\n"):
        if begins := re.match(r"\[(?:\w+:)?(\d+)\]", line):
            number = begins[1]
        if not line.startswith("Finding,"):
            facts += [(number, fact[1], fact[2]) for fact in FACT.finditer(line)]
    return facts


def _following(inside: dict[str, str], asked: re.Match[str] | None) -> str:
    """A reader who looks for the captain of a ship, and then for the captain's code."""
    passage, notes, quotes = inside["the passage"], inside["notes so far"].strip(), []
    for ship in SHIP.finditer(passage):
        if asked and ship[1] == asked[1]:
            quotes.append(ship[0])
            notes = f"The captain is {ship[2]}."
    captain = re.search(r"The captain is (\w+)\.", notes)
    quotes += [fact[0] for fact in FACT.finditer(passage) if captain and fact[1] == captain[1]]
    return record({"evidence": quotes, "notes": notes} if quotes else {"no_information": True})


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
