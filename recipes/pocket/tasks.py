"""Tasks made by code: operations over items, transformations of a text, and questions the model cannot answer.

Everything here is a function of the random generator it is given, so that a training step can be made again from its
number.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

__all__ = [
    "ITEM_TASKS",
    "TRANSFORMS",
    "any_word",
    "item_request",
    "item_task",
    "lists",
    "transform_task",
    "unknown_question",
]


@cache
def lists() -> dict[str, Any]:
    """The word lists of ``data/lists.json``: pairs as dictionaries, plain lists as lists."""
    text = resources.files(__package__).joinpath("data/lists.json").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for name, value in json.loads(text).items():
        if isinstance(value, dict):
            found[name] = value
        elif ":" in value:
            found[name] = dict(entry.split(":") for entry in value.split())
        else:
            found[name] = value.split()
    found["place"] = {job: f"{'An' if place[0] in 'aeiou' else 'A'} {place}" for job, place in found["place"].items()}
    return found


# --- items --------------------------------------------------------------------------------------------------

_INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "plural": ("Give the plural of each word", "Write the plural of each word", "Make each word plural",
    "What is the plural of each word",
               "Give the plural of each noun", "Pluralise each word", "Turn each noun into its plural",
               "Form the plural of these words"),
    "opposite": ("Give the opposite of each word", "Write the opposite of each word",
    "What is the opposite of each word",
                 "Name an antonym for each word", "Find the opposite of each word", "Give an antonym of these words"),
    "past": ("Give the past tense of each verb", "Write the past tense of each verb",
    "Put each verb into the past tense",
             "What is the past tense of each verb", "Give the past tense of each word"),
    "comparative": ("Give the comparative of each adjective", "Write the comparative of each word",
    "What is the comparative of each word"),
    "young": ("Name the young of each animal", "What is the young of each animal called",
    "Give the name of the young of each animal",
              "What do you call the baby of each animal"),
    "place": ("Where does each person work", "Name the place of work of each person",
    "Give the workplace for each job"),
    "definition": ("Define each word in one line", "Give a one-line definition of each word",
    "Explain each word in one sentence",
                   "Write a one-line definition for each word", "Define each term in one sentence",
                   "Define each of these words in one line"),
    "metres": ("Convert each length to metres", "Convert each distance to metres", "Give each length in metres"),
    "minutes": ("Convert each time to minutes", "Give each duration in minutes", "How many minutes is each duration"),
    "grams": ("Convert each weight to grams", "Give each weight in grams"),
    "millimetres": ("Convert each length to millimetres", "Give each length in millimetres"),
    "words": ("Write each number in words", "Spell out each number", "Give each number in words"),
    "capitals": ("Write each word in capital letters", "Put each word in capitals", "Convert each word to upper case"),
}  # fmt: skip
ITEM_TASKS = tuple(_INSTRUCTIONS)
"""The operations over items that the model is trained on."""

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def _in_words(number: int) -> str:
    if number < 20:
        return _ONES[number]
    return _TENS[number // 10] + (f"-{_ONES[number % 10]}" if number % 10 else "")


def _pairs(kind: str, count: int, chance: random.Random) -> list[tuple[str, str]]:
    known = lists()
    if kind in known:
        pairs: dict[str, str] = known[kind]
        return chance.sample(sorted(pairs.items()), min(count, len(pairs)))
    if kind == "capitals":
        words = chance.sample(sorted({**known["plural"], **known["opposite"]}), count)
        return [(word, word.upper()) for word in words]
    if kind == "words":
        return [(str(number), _in_words(number)) for number in chance.sample(range(1, 100), count)]
    if kind == "minutes":
        return [(f"{n} hour{'s' * (n > 1)}", f"{60 * n} minutes") for n in chance.sample(range(1, 25), count)]
    source, target, factor = {
        "metres": ("km", "m", "000"),
        "grams": ("kg", "g", "000"),
        "millimetres": ("cm", "mm", "0"),
    }[kind]
    return [(f"{n} {source}", f"{n}{factor} {target}") for n in chance.sample(range(1, 100), count)]


def item_task(kind: str, count: int, chance: random.Random) -> tuple[str, list[tuple[str, str]]]:
    """An instruction and ``count`` pairs of item and answer (fewer where the list is shorter)."""
    return chance.choice(_INSTRUCTIONS[kind]), _pairs(kind, count, chance)


def item_request(instruction: str, items: list[str], chance: random.Random) -> str:
    """The straight request for ``instruction`` on all ``items``, written in one of the usual ways."""
    way = chance.randrange(8)
    if way <= 2:
        return f"{instruction}: {', '.join(items)}" + chance.choice(("", "", "."))
    if way == 3:
        return f"{instruction}: {', '.join(items[:-1])} and {items[-1]}."
    if way == 4:
        return f"{instruction}:\n" + "\n".join(items)
    if way == 5:
        return f"{instruction}:\n" + "\n".join(f"- {item}" for item in items)
    if way == 6:
        return f"{instruction}:\n" + "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    return f"{instruction}: {'; '.join(items)}"


# --- transformations ----------------------------------------------------------------------------------------


def _person(chance: random.Random) -> dict[str, str]:
    known = lists()
    return {
        "name": f"{chance.choice(known['first_names'])} {chance.choice(known['surnames'])}",
        "job": chance.choice(known["jobs"]),
        "city": chance.choice(known["cities"]),
        "age": str(chance.randrange(18, 90)),
        "product": chance.choice(known["products"]),
        "colour": chance.choice(known["colours"]),
        "price": f"{chance.randrange(2, 400)} euros",
        "month": chance.choice(known["months"]),
        "day": chance.choice(known["days"]),
        "date": f"{chance.randrange(1, 29)} {chance.choice(known['months'])} {chance.randrange(1960, 2031)}",
        "number": str(chance.randrange(100, 9999)),
    }


_STORIES = (
    ("name job city", "{name} works as a {job} in {city}."),
    ("name city date", "{name} moved to {city} on {date}."),
    ("name age city", "{name}, aged {age}, lives in {city}."),
    ("name product price", "{name} bought a {product} for {price}."),
    ("product colour price", "The {colour} {product} costs {price}."),
    ("name day city", "On {day} {name} will travel to {city}."),
    ("number name price", "Invoice {number} was sent to {name} for {price}."),
    ("name date product", "{name} returned the {product} on {date}."),
    ("name job age", "At the age of {age}, {name} became a {job}."),
    ("number city day", "Train {number} to {city} leaves every {day}."),
    ("name month city", "In {month} {name} visited a friend in {city}."),
    ("colour product city", "A {colour} {product} was found in {city}."),
)


def _story(chance: random.Random, sentences: int) -> tuple[str, list[dict[str, str]]]:
    people = [_person(chance) for _ in range(sentences)]
    shapes = [chance.choice(_STORIES) for _ in range(sentences)]
    text = " ".join(shape[1].format(**person) for shape, person in zip(shapes, people, strict=True))
    used = [{field: person[field] for field in shape[0].split()} for shape, person in zip(shapes, people, strict=True)]
    return text, used


def _replace(chance: random.Random) -> tuple[str, str]:
    text, used = _story(chance, chance.choice((1, 1, 1, 2, 2, 3, 4, 5)))
    fields = chance.choice(used)
    field = chance.choice(list(fields))
    old, new = fields[field], _person(chance)[field]
    if field == "name" and chance.random() < 0.5:
        old, new = old.split()[0], new.split()[0]
    say = chance.choice(("Replace {0} with {1} in this text:", "Replace {0} by {1}:",
    "Change {0} to {1} in the following text:",
                         "Copy this text, but write {1} instead of {0}:"))  # fmt: skip
    return f"{say.format(old, new)}{chance.choice((' ', chr(10)))}{text}", text.replace(old, new)


def _repeat(chance: random.Random) -> tuple[str, str]:
    if chance.random() < 0.6:  # words in no order that could be known: they must be copied
        text = " ".join(any_word(chance) for _ in range(chance.randrange(3, 14)))
    else:
        text, _ = _story(chance, chance.randrange(1, 5))
    say = chance.choice(("Repeat this text exactly:", "Copy this text:", "Write this text again without changes:"))
    return f"{say}{chance.choice((' ', chr(10)))}{text}", text


def any_word(chance: random.Random) -> str:
    """Any word of the lists, or a number."""
    if chance.random() < 0.1:
        return str(chance.randrange(10_000))
    return chance.choice(_all_words())


@cache
def _all_words() -> list[str]:
    known = lists()
    names = (
        "products",
        "cities",
        "first_names",
        "surnames",
        "jobs",
        "colours",
        "plural",
        "opposite",
        "past",
        "definition",
    )
    return sorted({word for name in names for word in known[name]})


def _listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1]


def _extract(chance: random.Random) -> tuple[str, str]:
    text, used = _story(chance, 1)
    fields = list(used[0])
    chance.shuffle(fields)
    fields = fields[: chance.randrange(2, 4)]
    say = chance.choice(
        ("Extract the {0}:", "Extract the {0} from this text:", "Pull out the {0}:", "Find the {0} in this sentence:")
    )
    return f"{say.format(_listed(fields))} {text}", "\n".join(f"{field}: {used[0][field]}" for field in fields)


def _record(chance: random.Random) -> dict[str, str]:
    person = _person(chance)
    fields = chance.sample(
        ("name", "job", "city", "age", "product", "colour", "month", "date", "number"), chance.randrange(2, 6)
    )
    return {field: person[field] for field in fields}


def _to_json(chance: random.Random) -> tuple[str, str]:
    record = _record(chance)
    lines = "\n".join(f"{field}: {value}" for field, value in record.items())
    say = chance.choice(("Write this as JSON:", "Turn these lines into JSON:", "Convert to JSON:"))
    return f"{say}\n{lines}", json.dumps(record)


def _from_json(chance: random.Random) -> tuple[str, str]:
    record = _record(chance)
    say = chance.choice(("Write this JSON as lines:", "Turn this JSON into lines:"))
    return f"{say}\n{json.dumps(record)}", "\n".join(f"{field}: {value}" for field, value in record.items())


def _to_csv(chance: random.Random) -> tuple[str, str]:
    fields = chance.sample(("name", "job", "city", "age", "product", "colour"), chance.randrange(2, 5))
    rows = [_person(chance) for _ in range(chance.randrange(1, 5))]
    lines = "\n".join("; ".join(f"{field}: {row[field]}" for field in fields) for row in rows)
    say = chance.choice(("Write this as CSV:", "Turn these lines into CSV:", "Convert to CSV with a header:"))
    return f"{say}\n{lines}", "\n".join([",".join(fields), *(",".join(row[field] for field in fields) for row in rows)])


def _bullets(chance: random.Random) -> tuple[str, str]:
    words = chance.sample(lists()["products"] + lists()["cities"], chance.randrange(2, 9))
    kind = chance.randrange(3)
    if kind == 0:
        return f"Write these as a bulleted list: {', '.join(words)}", "\n".join(f"- {word}" for word in words)
    if kind == 1:
        return f"Write these as a numbered list: {', '.join(words)}", "\n".join(
            f"{at}. {word}" for at, word in enumerate(words, 1)
        )
    return "Join these lines with commas:\n" + "\n".join(words), ", ".join(words)


def _surname_first(chance: random.Random) -> tuple[str, str]:
    names = [_person(chance)["name"] for _ in range(chance.randrange(1, 8))]
    turned = [", ".join(reversed(name.split())) for name in names]
    return "Write each name with the surname first:\n" + "\n".join(names), "\n".join(turned)


TRANSFORMS: dict[str, Callable[[random.Random], tuple[str, str]]] = {
    "replace": _replace,
    "repeat": _repeat,
    "extract": _extract,
    "to_json": _to_json,
    "from_json": _from_json,
    "to_csv": _to_csv,
    "bullets": _bullets,
    "surname_first": _surname_first,
}
"""The transformations by name; each gives a request and its answer."""


def transform_task(chance: random.Random) -> tuple[str, str]:
    """A request to transform a text, and its answer."""
    kind = chance.choice(("replace", "replace", "repeat", "repeat", *TRANSFORMS))
    return TRANSFORMS[kind](chance)


# --- what the model cannot know -----------------------------------------------------------------------------

_THINGS = (
    "knitting", "beekeeping", "sea fishing", "chess openings", "tattoos", "sailing", "astrology", "the guitar",
    "income tax", "wedding dresses", "skiing", "pottery", "stamps", "karate", "yoga", "poker", "surfing",
    "opera tickets", "divorce law", "perfume", "diamonds", "horses", "falconry", "origami", "blockchain",
    "bitcoin", "quantum computers", "nuclear fusion", "black holes", "dinosaurs", "sharks", "penguins", "spiders",
    "butterflies", "roses", "orchids", "cactus flowers", "tulips", "coffee beans", "wine tasting", "whisky",
    "cheese making", "sushi", "pizza", "pancakes", "omelettes", "chocolate cake", "ice cream", "jam", "pickles",
    "olive oil", "lasagne", "curry", "soup", "diabetes", "asthma", "tattoo removal", "braces", "contact lenses",
    "hair dye", "beards", "make-up", "sunburn", "allergies", "vaccines", "pregnancy", "twins", "school uniforms",
    "homework", "exams", "scholarships", "university", "algebra", "calculus", "geometry", "statistics",
    "philosophy", "Buddhism", "Islam", "Shakespeare", "Picasso", "jazz", "hip-hop", "ballet", "cinema", "comics",
    "video games", "drones", "3D printing", "solar panels", "heat pumps", "electric cars", "motorbikes",
    "caravans", "lorries", "ships", "submarines", "helicopters", "parachutes", "tents", "kayaks", "swimming pools",
    "saunas", "fireplaces", "sofas", "curtains", "ovens", "microwaves", "fridges", "dishwashers",
    "washing machines", "televisions", "headphones", "printers", "robots", "satellites", "pensions", "mortgages",
    "shares", "inflation", "elections", "treaties", "taxes", "visas", "customs", "refugees", "police", "prisons",
    "courts", "juries", "wills", "trademarks", "patents", "copyright", "advertising", "podcasts", "blogs",
    "newspapers", "kubernetes", "docker", "rust", "haskell", "react", "css", "regular expressions", "compilers",
    "kernels", "encryption", "linux", "excel", "photoshop",
)  # fmt: skip
_FRAMES = (
    "How does {thing} work?", "How do {thing} work?", "Tell me about {thing}.",
    "What are the pros and cons of {thing}?", "tips for {thing}",
    "What is the history of {thing}?", "differences between {thing} and {other}",
    "{thing} vs {other}, which is better?",
    "Explain {thing} to a child.", "reasons to like {thing}", "What should I know about {thing}?",
    "a beginner's guide to {thing}",
    "How do I get started with {thing}?", "What causes problems with {thing}?",
    "What would happen without {thing}?", "{thing}",
    "Which {thing} are the best?", "how much do {thing} cost", "Who invented {thing}?", "Write a poem about {thing}.",
    "Write a short story about {thing} in {city}.", "List ten books about {thing}.", "Is {thing} dangerous?",
    "{thing} in {city}",
    "What is the weather like in {city} on {day}?", "Who is {name}?", "When was {name} born?",
    "What did {name} say about {thing}?",
    "Write a letter to {name} in {city}.", "What is {a} times {b}?", "{a} + {b}", "What is {a} minus {b}?",
    "Solve {a}x + {b} = {c}.",
    "Translate '{thing}' into Italian.", "What is the population of {city}?", "Plan a weekend in {city}.",
    "Which hotels are good in {city}?",
    "Write a Python function that sorts {thing} by price.", "Write SQL that counts {thing} by {month}.",
    "How far is {city} from {other_city}?",
    "Who won the match between {city} and {other_city}?", "Suggest a name for my {product} shop.",
    "What is my {product} worth?",
    "Make up a joke about {thing}.", "What time is it in {city}?", "What is the meaning of life?", "hello",
    "Hi, who are you?", "What can you do?",
    "Summarise the news of {day}.", "Which film should I watch on {day}?", "Draft a speech about {thing}.",
    "Recommend a good book about {thing}.",
)  # fmt: skip


def unknown_question(chance: random.Random, authored: list[str]) -> str:
    """A question the pocket model cannot answer: one of ``authored``, or one made from frames."""
    if chance.random() < 0.55:
        return chance.choice(authored)
    known = lists()
    person = _person(chance)
    return chance.choice(_FRAMES).format(
        thing=chance.choice(_THINGS),
        other=chance.choice(_THINGS),
        other_city=chance.choice(known["cities"]),
        a=chance.randrange(2, 1000),
        b=chance.randrange(2, 1000),
        c=chance.randrange(2, 1000),
        **{field: person[field] for field in ("name", "city", "day", "month", "product")},
    )
