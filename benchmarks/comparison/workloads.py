"""The prompts: Python source to continue, encyclopaedic questions, texts to transform."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from recipes.pocket.source import held_out_source
from recipes.pocket.tasks import TRANSFORMS

__all__ = ["WORKLOADS", "Workload", "workloads"]

WORKLOADS = ("code", "questions", "transformations")
_CODE_CHARACTERS = 1500
_QUESTIONS = (
    "How do I look after a bicycle?",
    "Why is my house damp?",
    "How can I sleep better?",
    "What speaks for and against working from home?",
    "How do I save money on groceries?",
    "What should I think of before I get a dog?",
)
_DRAWS = 20


@dataclass(frozen=True, slots=True)
class Workload:
    """Prompts of one kind, as token ids."""

    name: str
    prompts: tuple[tuple[int, ...], ...]


def workloads(tokenizer: Any, count: int, names: tuple[str, ...] = WORKLOADS) -> list[Workload]:
    """At most ``count`` prompts for each of the workloads named; questions by the tokenizer's chat template."""
    made = {
        "code": [text[:_CODE_CHARACTERS] for text in list(held_out_source().values())[:count]],
        "questions": list(_QUESTIONS[:count]),
        "transformations": _requests(count),
    }
    return [
        Workload(name, tuple(tuple(_ids(tokenizer, text, chat=name != "code")) for text in made[name]))
        for name in names
    ]


def _requests(count: int) -> list[str]:
    """Transformations whose answers are long enough to be timed: of some draws of each kind, the longest."""
    longest = []
    for kind, make in TRANSFORMS.items():
        drawn = [make(random.Random(f"{kind} {number}")) for number in range(_DRAWS)]  # noqa: S311 - chance, no secret
        longest.append(max(drawn, key=lambda pair: len(pair[1])))
    longest.sort(key=lambda pair: -len(pair[1]))
    return [request for request, _ in longest[:count]]


def _ids(tokenizer: Any, text: str, *, chat: bool) -> list[int]:
    if not chat or tokenizer.chat_template is None:
        return list(tokenizer(text).input_ids)
    message = [{"role": "user", "content": text}]
    return list(tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)["input_ids"])
