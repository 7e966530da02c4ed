"""Whether answers are held to JSON schemas: those that fit can be written, and those that do not fit are refused.

    python benchmarks/schemas.py                     the JSON Schema Test Suite, by keyword
    python benchmarks/schemas.py --update-docs       the same, and write the result and benchmarks/results/schemas.md
    python benchmarks/schemas.py --why               the same, and each instance that fits and cannot be written

Each instance is written token by token, as `json.dumps` writes it, under the constraint that a local model has. One
that can be written is then checked as every answer is.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from comparison.report import fill_block
from measuring import RESULTS, save
from pydantic import ValidationError
from transformers import AutoTokenizer

from stretto.local_engine.choosing.constraint import Constraint, Grammars
from stretto.local_engine.pocket import pocket_folder
from stretto.strategies.structured.fitting import fit
from stretto.values.errors import InvalidRequestError
from stretto.values.generation_options import GenerationOptions

SUITE = Path(__file__).parent / "schema_suite" / "draft2020-12.jsonl"
END = 2


@dataclass
class Count:
    """What came of the schemas of one keyword.

    Attributes:
        schemas: that were tried.
        refused: schemas that cannot be used at all.
        held: schemas that the constraint holds whole.
        valid: instances that fit.
        written: those of them that can be written.
        invalid: instances that do not fit.
        stopped: those of them that cannot be written.
        caught: those that can, and do not pass the check.
        missed: those that pass it.
    """

    schemas: int = 0
    refused: int = 0
    held: int = 0
    valid: int = 0
    written: int = 0
    invalid: int = 0
    stopped: int = 0
    caught: int = 0
    missed: int = 0


class Trial:
    """Tries schemas under the constraints of one tokenizer."""

    def __init__(self) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(pocket_folder())
        self._grammars = Grammars(self._tokenizer)
        self.why: list[str] = []

    def add(self, count: Count, schema: dict[str, Any], instances: Iterable[tuple[Any, bool]]) -> None:
        """Try a schema with its instances, each with whether it fits."""
        count.schemas += 1
        try:
            options = GenerationOptions(response_format=schema)
            constraint = self._grammars.constraint(schema, frozenset({END}))
        except (InvalidRequestError, ValidationError) as error:
            count.refused += 1
            if any(fits for _, fits in instances):
                self.why.append(f"refused: {json.dumps(schema)[:150]}: {str(error)[:250]}")
            return
        count.held += not constraint.unheld
        for value, fits in instances:
            text = json.dumps(value, ensure_ascii=False)
            written = self.can_write(text, self._grammars.constraint(schema, frozenset({END})))
            passes = not fit(text, options).wrong
            if fits:
                count.valid += 1
                count.written += written and passes
                if not (written and passes):
                    self.why.append(f"not written: {text[:60]} for {json.dumps(schema)[:150]}")
            else:
                count.invalid += 1
                count.stopped += not written
                count.caught += written and not passes
                count.missed += written and passes
                if written and passes:
                    self.why.append(f"missed: {text[:60]} for {json.dumps(schema)[:150]}")

    def can_write(self, text: str, constraint: Constraint) -> bool:
        """Whether each token of a text is allowed in its place, and the end after it."""
        for token in [*self._tokenizer(text, add_special_tokens=False)["input_ids"], END]:
            logits = torch.zeros(len(self._tokenizer))
            try:
                constraint.restrict(logits, [])
            except Exception:  # noqa: BLE001 - a parser that fails has refused it
                return False
            if logits[token] != 0:
                return False
            constraint.commit([token])
        return True


def measure() -> tuple[dict[str, Count], list[str]]:
    """The counts by keyword, and why instances that fit were not written."""
    trial, counts = Trial(), dict[str, Count]()
    for line in SUITE.read_text("utf-8").splitlines():
        case = json.loads(line)
        trial.add(counts.setdefault(case["keyword"], Count()), case["schema"], [tuple(each) for each in case["tests"]])
    return counts, trial.why


def table(counts: dict[str, Count]) -> str:
    """The counts as a table of Markdown, keywords with nothing but full counts in one row."""
    rows = [
        "| keyword | schemas | held whole | fit and can be written "
        "| do not fit: cannot be written | found by the check | missed |"
    ]
    rows.append("|---|---:|---:|---:|---:|---:|---:|")
    plain, names = Count(), []
    for name, count in counts.items():
        if count.held + count.refused == count.schemas and count.valid == count.written and not count.refused:
            names.append(name)
            plain = Count(*map(sum, zip(asdict(plain).values(), asdict(count).values(), strict=True)))
        else:
            rows.append(_row(f"`{name}`", count))
    total = Count(*(sum(asdict(count)[field] for count in counts.values()) for field in asdict(plain)))
    return "\n".join([*rows, _row(f"{len(names)} others", plain), _row("**all**", total)]) + "\n"


def _row(name: str, count: Count) -> str:
    return (
        f"| {name} | {count.schemas} | {count.held} | {count.written} of {count.valid} "
        f"| {count.stopped} of {count.invalid} | {count.caught} | {count.missed} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--update-docs", action="store_true", help="keep the result, and write benchmarks/results/schemas.md"
    )
    parser.add_argument("--why", action="store_true", help="print what fits and cannot be written")
    asked = parser.parse_args()
    counts, why = measure()
    sys.stdout.write(table(counts) + ("\n".join(why) + "\n" if asked.why else ""))
    if asked.update_docs:
        save("schemas", counts)
        fill_block(RESULTS / "schemas.md", table(counts).rstrip(), "schemas")


if __name__ == "__main__":
    main()
