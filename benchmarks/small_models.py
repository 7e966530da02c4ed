"""What small models make of `rewrite` and `fields`, compared with straight answers: seconds and faults.

    python benchmarks/small_models.py --model local:smollm2 --label SmolLM2-135M
    python benchmarks/small_models.py --model local:FILE.gguf --label Qwen2.5-1.5B
    python benchmarks/small_models.py --model local:smollm2 --label SmolLM2-135M --questions

A text of five paragraphs with eight mistakes is to be corrected, and a record with three long fields to be written, at
temperature 0. Faults of a text are mistakes that are left and other words that changed; those of a record, fields that
are missing or nearly empty, all of them where it does not fit its schema. Rows of other models are kept.

With ``--questions``, ten general questions are answered by `auto` and straight on, twice each in turns, 60 tokens long,
with nothing remembered between answers. How much two straight answers to one question differ is shown next to it.
"""

from __future__ import annotations

import argparse
import difflib
import json
import statistics
import time
from typing import Any

from measuring import RESULTS, machine, save
from pydantic import BaseModel, Field
from rich.console import Console
from rich.progress import track
from rich.table import Table

from stretto import Answer, Stretto
from stretto.local import LocalBackend

RIGHT = """The harbour of Vell was built by fishermen who believed that the bay was safe from every storm. They were wrong, and in their third winter the sea took half of the houses.

After that, the council decided to build a wall of stone. It took them eleven years, because the stone had to be brought across the bay in small boats, and because many of the boats were lost.

Today the wall is the best known sight of the town. Visitors walk along it in the evening, and children sell lemonade where the guards once stood. In summer there is music every Friday.

The market is held on Tuesday and Saturday. Farmers bring cheese, apples and honey from the hills. You should come early, since most of it is gone before noon, and bring a bag of your own.

If you want to stay for the night, ask at the mill. It has seven rooms, a quiet garden and a separate kitchen for guests. The owner speaks four languages and tells stories about each of the rooms."""  # noqa: E501 - a paragraph is one line
MISTAKES = {
    "believed": "beleived",
    "their third": "there third",
    "council": "counsil",
    "because the": "becuase the",
    "children": "childern",
    "Farmers": "Famers",
    "separate": "seperate",
    "languages": "langauges",
}
LONG = ("history", "food", "walks")
LEAST = 20  # characters of a long field that holds something


class Town(BaseModel):
    """A town in a travel guide."""

    name: str
    best_month: str
    history: str = Field(description="A paragraph")
    food: str = Field(description="A paragraph")
    walks: str = Field(description="A paragraph")


WAYS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("text", "straight", {"strategy": "direct"}),
    ("text", "pieces", {"strategy": "rewrite", "strategy_options": {"way": "pieces"}}),
    ("text", "edits", {"strategy": "rewrite", "strategy_options": {"way": "edits"}}),
    ("record", "straight", {"strategy": "direct"}),
    ("record", "fields", {"strategy": "fields"}),
)


QUESTIONS = (
    "How do I look after a bicycle?",
    "What should I check before buying a used car?",
    "Give me five tips for sleeping better.",
    "Explain how vaccines work.",
    "Compare tea and coffee.",
    "Should I rent or buy a flat?",
    "Plan a weekend in Vienna.",
    "List the planets with one fact each.",
    "How can a team make code reviews faster?",
    "What causes inflation?",
)
TOKENS = 60
OVER = ("time", "first text", "straight over itself")


def faults_of_text(text: str) -> tuple[int, int]:
    """Mistakes that are left, and other words that are not as they were."""
    left = sum(wrong in text for wrong in MISTAKES.values())
    wrong, now = _wrong().split(), text.split()
    of_mistakes = {word for pair in MISTAKES.items() for each in pair for word in each.split()}
    changed = 0
    for kind, a, b, c, d in difflib.SequenceMatcher(None, wrong, now, autojunk=False).get_opcodes():
        if kind != "equal":
            changed += max(*(sum(word not in of_mistakes for word in words) for words in (wrong[a:b], now[c:d])))
    return left, changed


def faults_of_record(answer: Answer) -> tuple[int, int]:
    """Long fields without a text; all where the record does not fit. There is nothing else to change."""
    if not isinstance(answer.parsed, Town):
        return len(LONG), 0
    return sum(len(getattr(answer.parsed, name).strip()) < LEAST for name in LONG), 0


def _wrong() -> str:
    text = RIGHT
    for right, wrong in MISTAKES.items():
        text = text.replace(right, wrong, 1)
    return text


def measured(model: str) -> list[dict[str, Any]]:
    """Each way once, after a first answer that loads the model."""
    rows = []
    with Stretto(model) as stretto:
        stretto.ask("Say yes.", strategy="direct", max_tokens=4)
        for what, way, options in WAYS:
            began = time.perf_counter()
            if what == "text":
                answer = stretto.ask(f"Correct the spelling of this text:\n\n{_wrong()}", temperature=0, **options)
                faults = faults_of_text(answer.text)
            else:
                question = "Describe the harbour town of Vell for a travel guide."
                answer = stretto.ask(question, temperature=0, response_format=Town, **options)
                faults = faults_of_record(answer)
            rows.append(
                {"what": what, "way": way, "seconds": time.perf_counter() - began, "left": faults[0]}
                | {"changed": faults[1], "tokens": answer.usage.completion_tokens, "written_by": answer.strategy}
            )
    return rows


def questions_of(model: str) -> dict[str, Any]:
    """Time and first text of `auto` over straight: median and worst of the questions."""
    over: dict[str, list[float]] = {name: [] for name in OVER}
    ways = set()
    with Stretto(LocalBackend(model, draft_history_tokens=0, prefix_cache_bytes=0)) as stretto:
        stretto.ask("What is tea made of?", max_tokens=TOKENS)
        for question in track(QUESTIONS, "Questions"):
            taken: dict[str, list[tuple[float, float]]] = {"auto": [], "direct": []}
            for way in ("direct", "auto", "auto", "direct"):
                began = time.perf_counter()
                with stretto.stream(question, strategy=way, temperature=0, max_tokens=TOKENS) as stream:
                    texts = [time.perf_counter() - began for text in stream.text() if text.strip()]
                taken[way].append((time.perf_counter() - began, texts[0]))
                ways |= {stream.answer.strategy} if way == "auto" else set()
            for at, name in enumerate(OVER[:2]):
                sums = {way: sum(each[at] for each in times) for way, times in taken.items()}
                over[name].append(sums["auto"] / sums["direct"])
            over[OVER[2]].append(taken["direct"][0][0] / taken["direct"][1][0])
    return {"auto chose": sorted(ways)} | {
        name: [statistics.median(found), min(found), max(found)] for name, found in over.items()
    }


def questions_page(results: dict[str, Any]) -> str:
    """The table of the general questions."""
    heads = ("model", "`auto` chose", "time over straight", "first text over straight", "straight over itself")
    rows = [
        (model, ", ".join(found["auto chose"]), *("{:.2f} ({:.2f} to {:.2f})".format(*found[name]) for name in OVER))
        for model, found in results.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows))


def page(results: dict[str, Any]) -> str:
    """The page of the results."""
    heads = ("model", "what", "way", "seconds", "mistakes left, or fields missing", "other words changed", "tokens")
    rows = [
        (model, row["what"], row["way"], f"{row['seconds']:.1f}", row["left"], row["changed"], row["tokens"])
        for model, kept in results["models"].items()
        for row in kept["rows"]
    ]
    table = "\n".join(f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows))
    notes = "\n".join(f"{model}: {kept['note']}" for model, kept in results["models"].items() if kept["note"])
    return f"""# Small models

A text of five paragraphs with eight mistakes to be corrected, and a record with three long fields. Each way once, at
temperature 0. Written by `python benchmarks/small_models.py`.

{table}

{notes}

## Ten general questions

Medians, with the least and the most of the questions. Written by the same program with `--questions`.

{questions_page(results["questions"])}

{results["machine"]}.
"""


def main() -> None:
    """Measure one model, and keep its rows with those of others."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--label", help="its name in the table")
    parser.add_argument("--questions", action="store_true", help="general questions instead")
    parser.add_argument("--note", default="", help="what else the machine was doing")
    options = parser.parse_args()
    file = RESULTS / "small_models.json"
    results = json.loads(file.read_text()) if file.exists() else {"models": {}}
    results.setdefault("questions", {})
    results["machine"], label = machine(), options.label or options.model
    if options.questions:
        results["questions"][label] = questions_of(options.model)
        write(results)
        return
    rows = measured(options.model)
    results["models"][label] = {"rows": rows, "note": options.note}
    shown = Table("what", "way", "seconds", "left", "changed", "tokens", "written by")
    for row in rows:
        shown.add_row(row["what"], row["way"], f"{row['seconds']:.1f}", *map(str, list(row.values())[3:]))
    Console().print(shown)
    write(results)


def write(results: dict[str, Any]) -> None:
    """Keep the results and their page."""
    save("small_models", results)
    (RESULTS / "small_models.md").write_text(page(results))


if __name__ == "__main__":
    main()
