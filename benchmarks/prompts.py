"""The requests of the batching and soak benchmarks: the strategies' own prompts, and files to go on with."""

from __future__ import annotations

from pathlib import Path
from sysconfig import get_path

from recipes.pocket.source import HELD_OUT_FILES
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.prompts import Catalogue
from stretto.values.request import Message

QUESTIONS = (
    "How do I look after a bicycle?",
    "Why do meetings always run over?",
    "E-books or paper books?",
    "What are the advantages of working from home?",
    "How can I sleep better?",
    "Why is my bread not rising?",
    "What should I pack for a week in the mountains?",
    "How do I learn a language on my own?",
)
TITLES = ("Clean it often", "Oil the chain", "Check the brakes", "Keep it dry", "Pump the tyres", "Have it serviced")


def asked(model: LoadedModel, messages: tuple[Message, ...]) -> tuple[int, ...]:
    """Messages in the model's chat template; without one, their texts."""
    turns = [{"role": message.role, "content": message.content} for message in messages]
    if getattr(model.tokenizer, "chat_template", None) is None:
        return tuple(model.tokenizer("\n\n".join(turn["content"] for turn in turns)).input_ids)
    given = model.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)
    return tuple(given["input_ids"])


def points(model: LoadedModel, family: str, question: str = QUESTIONS[0]) -> list[tuple[int, ...]]:
    """The prompts of the points of one ``skeleton`` answer."""
    template, everything = Catalogue().get("point", family), {"outline": "\n".join(TITLES), "words": "50"}
    prompts = []
    for index, title in enumerate(TITLES, 1):
        values = {"question": question, "title": title, "index": str(index), **everything}
        given = dict.fromkeys(template.placeholders, "") | values
        prompts.append(asked(model, template.messages(**given)))
    return prompts


def mixed(model: LoadedModel, family: str, longest: int) -> list[tuple[int, ...]]:
    """Straight questions, outlines, points and Python files in turns; each cut to its last ``longest`` tokens."""
    outline, prompts = Catalogue().get("skeleton", family), []
    files = [file for name in HELD_OUT_FILES if (file := Path(get_path("stdlib")) / name).is_file()]
    for number, question in enumerate(QUESTIONS):
        prompts.append(asked(model, (Message(role="user", content=question),)))
        text = files[number % len(files)].read_text(encoding="utf-8")[:1200]
        prompts.append(tuple(model.tokenizer(text).input_ids))
        values = dict.fromkeys(outline.placeholders, "") | {"question": question}
        prompts.append(asked(model, outline.messages(**values)))
        prompts.append(points(model, family, question)[number % len(TITLES)])
    return [prompt[-longest:] for prompt in prompts]
