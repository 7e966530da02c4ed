"""Measuring the pocket model: ``python -m recipes.pocket.evaluate``.

Every figure on the model card comes from here.  All generation is greedy and in single precision, through
transformers, so that what is measured is what a user of the published folder gets.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from recipes.pocket import source, tasks
from recipes.pocket.augment import MEASURED_CHANGES, measured_change
from recipes.pocket.card import write_card
from recipes.pocket.corpus import (
    Corpus,
    Topic,
    outline_lines,
    render,
    straight_answer,
    unknown_questions,
    unseen_questions,
)
from stretto.local_engine.pocket import is_unknown, pocket_folder

__all__ = ["Writer", "distinct_share", "main", "measure", "nearest_topics", "parse_outline", "text_present"]

_SEED = 20_000  # far from the seeds of training


class Writer:
    """Greedy answers in batches from a transformers folder."""

    def __init__(self, folder: Path, *, batch: int = 128) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 - heavy

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.batch = batch

    def answers(self, questions: Sequence[str], longest: int) -> list[str]:
        """The answer to each question on its own, of at most ``longest`` tokens."""
        prompts = [
            self.tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
            for text in questions
        ]
        order = sorted(range(len(prompts)), key=lambda at: len(prompts[at]))
        found = [""] * len(prompts)
        for start in range(0, len(order), self.batch):
            group = order[start : start + self.batch]
            inputs = self.tokenizer(
                [prompts[at] for at in group], return_tensors="pt", padding=True, add_special_tokens=False
            ).to(self.model.device)
            inputs.pop("token_type_ids", None)
            with torch.no_grad():
                rows = self.model.generate(**inputs, max_new_tokens=longest, do_sample=False)
            texts = self.tokenizer.batch_decode(rows[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            for at, text in zip(group, texts, strict=True):
                found[at] = text
        return found

    def source_loss(self, texts: Sequence[str], window: int = 1024) -> tuple[float, float]:
        """The loss on ``texts`` in nats a token and in bits a byte, each window of tokens on its own."""
        nats, tokens, size = 0.0, 0, 0
        for text in texts:
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            for start in range(0, len(ids), window):
                piece = torch.tensor([[self.tokenizer.bos_token_id, *ids[start : start + window]]])
                with torch.no_grad():
                    nats += float(self.model(piece, labels=piece).loss) * (piece.shape[1] - 1)
                tokens += piece.shape[1] - 1
            size += len(text.encode())
        return nats / tokens, nats / math.log(2) / size


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _grams(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def text_present(text: str, answer: str, share: float = 0.8) -> bool:
    """Whether ``answer`` holds ``text``: at least ``share`` of its word triples."""
    wanted = _grams(_words(text), 3)
    had = set(_grams(_words(answer), 3))
    return bool(wanted) and sum(gram in had for gram in wanted) >= share * len(wanted)


def distinct_share(answer: str) -> float:
    """How many of the answer's sequences of four words are different ones; one for an answer of fewer words."""
    grams = _grams(_words(answer), 4)
    return len(set(grams)) / len(grams) if grams else 1.0


def parse_outline(text: str) -> list[str] | None:
    """The titles of an outline, or None where it is not lines ``1. Title`` in counting order, two at least."""
    lines = text.strip().splitlines()
    found = [re.fullmatch(rf"{number}\. (\S.*)", line.strip()) for number, line in enumerate(lines, 1)]
    if len(found) < 2 or not all(found):
        return None
    return [match[1] for match in found if match]


def _starts_alike(wanted: str, text: str) -> bool:
    text = text.strip()
    return len(text) >= 8 and (wanted.startswith(text) or text.startswith(wanted))


def nearest_topics(topics: Sequence[Topic], questions: Sequence[str], *, keywords: bool) -> list[str]:
    """The topic of the training wording nearest to each question by TF-IDF of words (scikit-learn's defaults).

    With ``keywords`` each topic's keywords are one further wording, so that the neighbour has read all the model has.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - only measuring needs it

    texts = [text for topic in topics for text in topic.questions]
    owners = [topic.id for topic in topics for _ in topic.questions]
    if keywords:
        for topic in topics:
            texts += [
                " ".join(topic.keywords),
                *(point.title for point in topic.points),
                topic.subject,
                straight_answer(topic),
            ]
            owners += [topic.id] * (len(topic.points) + 3)
    vectors = TfidfVectorizer()
    known = vectors.fit_transform(texts)
    scores = vectors.transform(questions) @ known.T
    return [owners[at] for at in scores.toarray().argmax(axis=1)]


def measure(
    writer: Writer, *, wordings: int = 2, quick: bool = False, say: Callable[[str], None] = lambda _: None
) -> dict[str, float]:
    """All figures by name; shares from 0 to 1.

    Every topic is asked with so many ``wordings``, each changed in another way.  ``quick`` measures tasks and source on
    a part only, for a first look.  ``say`` is called with every figure as soon as it is known.
    """
    corpus = Corpus(with_source=False)

    def chance(part: str) -> random.Random:
        return random.Random(f"{_SEED}: {part}")  # noqa: S311 - no secrets

    figures: dict[str, float] = {}
    parts: tuple[Callable[[], None], ...] = (
        lambda: _measure_unseen(writer, corpus, figures),
        lambda: _measure_unknown(writer, figures),
        lambda: _measure_facts(writer, corpus, chance("facts"), figures),
        lambda: _measure_tasks(writer, chance("tasks"), figures, count=60 if quick else 120),
        lambda: _measure_source(writer, figures, size=3_000 if quick else 6_000),
        lambda: _measure_known(writer, corpus, chance("known"), figures, wordings),
        lambda: _measure_expansions(writer, corpus, chance("expansions"), figures),
    )
    for part in parts:
        before = set(figures)
        part()
        for name, value in figures.items():
            if name not in before:
                say(f"{name} {value:.4f}")
    return figures


def _measure_known(
    writer: Writer, corpus: Corpus, chance: random.Random, figures: dict[str, float], wordings: int
) -> None:
    asked = [
        (topic, measured_change(MEASURED_CHANGES[(at + number) % len(MEASURED_CHANGES)], question, chance))
        for at, topic in enumerate(corpus.topics)
        for number, question in enumerate(chance.sample(topic.questions, wordings))
    ]
    questions = [question for _, question in asked]
    answers = writer.answers(questions, 640)
    present = [
        (text_present(p.text, a) and p.title in a)
        for (topic, _), a in zip(asked, answers, strict=True)
        for p in topic.points
    ]
    figures["known_straight_points"] = sum(present) / len(present)
    figures["known_straight_topic"] = _share(
        _starts_alike(t.opening, a[:60]) for (t, _), a in zip(asked, answers, strict=True)
    )
    figures["known_straight_refused"] = _share(is_unknown(answer) for answer in answers)
    shares = [distinct_share(answer) for answer in answers]
    figures["distinct_4_grams_mean"], figures["distinct_4_grams_least"] = sum(shares) / len(shares), min(shares)
    figures["distinct_4_grams_at_least_0.9"] = _share(share >= 0.9 for share in shares)

    outlines = writer.answers([render("skeleton", question=question) for question in questions], 120)
    figures["known_outline_refused"] = _share(is_unknown(text) for text in outlines)
    parsed = [parse_outline(text) for text in outlines if not is_unknown(text)]
    figures["outlines_parsed"] = _share(titles is not None for titles in parsed)
    jobs = [
        (at, render("point", question=questions[at], title=title))
        for at, text in enumerate(outlines)
        if (titles := parse_outline(text))
        for title in titles
    ]
    written = [""] * len(asked)
    for (at, _), text in zip(jobs, writer.answers([prompt for _, prompt in jobs], 90), strict=True):
        written[at] += text + "\n"
    present = [
        text_present(p.text, text) for (topic, _), text in zip(asked, written, strict=True) for p in topic.points
    ]
    figures["known_skeleton_points"] = sum(present) / len(present)


def _measure_expansions(writer: Writer, corpus: Corpus, chance: random.Random, figures: dict[str, float]) -> None:
    points = [(topic, at) for topic in corpus.topics for at in range(len(topic.points))]
    prompts = [
        render(
            "point",
            question=measured_change(chance.choice(MEASURED_CHANGES), chance.choice(topic.questions), chance),
            title=topic.points[at].title,
        )
        for topic, at in points
    ]
    expansions = writer.answers(prompts, 90)
    figures["expansions_own_text"] = _share(
        text_present(topic.points[at].text, text) for (topic, at), text in zip(points, expansions, strict=True)
    )


def _measure_unseen(writer: Writer, corpus: Corpus, figures: dict[str, float]) -> None:
    asked, _ = unseen_questions()
    by_id = {topic.id: topic for topic in corpus.topics}
    questions, wanted = [question for question, _ in asked], [by_id[name] for _, name in asked]
    openings = writer.answers(questions, 24)
    figures["unseen_straight_topic"] = _share(
        _starts_alike(topic.opening, text) for topic, text in zip(wanted, openings, strict=True)
    )
    figures["unseen_straight_refused"] = _share(is_unknown(text) for text in openings)
    outlines = writer.answers([render("skeleton", question=question) for question in questions], 24)
    figures["unseen_outline_topic"] = _share(
        _starts_alike(topic.outline, text) for topic, text in zip(wanted, outlines, strict=True)
    )
    for name, keywords in (("unseen_tfidf_wordings", False), ("unseen_tfidf_everything", True)):
        nearest = nearest_topics(corpus.topics, questions, keywords=keywords)
        figures[name] = _share(found == topic.id for found, topic in zip(nearest, wanted, strict=True))


def _measure_source(writer: Writer, figures: dict[str, float], size: int) -> None:
    """The loss on the first ``size`` characters of every held-out file."""
    texts = [text[:size] for text in source.held_out_source().values()]
    figures["source_nats_per_token"], figures["source_bits_per_byte"] = writer.source_loss(texts)


def _measure_unknown(writer: Writer, figures: dict[str, float]) -> None:
    questions = unknown_questions(held_out=True)
    figures["unknown_refused"] = _share(is_unknown(text) for text in writer.answers(questions, 24))
    outlines = writer.answers([render("skeleton", question=question) for question in questions], 24)
    figures["unknown_refused_as_outline"] = _share(is_unknown(text) for text in outlines)


def _measure_facts(writer: Writer, corpus: Corpus, chance: random.Random, figures: dict[str, float]) -> None:
    questions = [
        measured_change(chance.choice(MEASURED_CHANGES), chance.choice(fact.questions), chance) for fact in corpus.facts
    ]
    answers = writer.answers(questions, 40)
    figures["facts_known"] = _share(
        text.strip() == fact.answer for fact, text in zip(corpus.facts, answers, strict=True)
    )
    _, asked = unseen_questions()
    wanted = {fact.id: fact.answer for fact in corpus.facts}
    answers = writer.answers([question for question, _ in asked], 40)
    figures["facts_unseen"] = _share(
        text.strip() == wanted[name] for (_, name), text in zip(asked, answers, strict=True)
    )


def _measure_tasks(writer: Writer, chance: random.Random, figures: dict[str, float], count: int) -> None:
    singles = [tasks.item_task(chance.choice(tasks.ITEM_TASKS), 1, chance) for _ in range(count)]
    answers = writer.answers([render("item", instruction=say, item=pairs[0][0]) for say, pairs in singles], 40)
    figures["items_one_by_one"] = _share(
        text.strip() == pairs[0][1] for (_, pairs), text in zip(singles, answers, strict=True)
    )
    whole = [
        tasks.item_task(chance.choice(tasks.ITEM_TASKS), chance.randrange(3, 9), chance) for _ in range(count // 2)
    ]
    answers = writer.answers(
        [tasks.item_request(say, [item for item, _ in pairs], chance) for say, pairs in whole], 160
    )
    right = [
        line == wanted
        for (_, pairs), text in zip(whole, answers, strict=True)
        for wanted, line in zip(
            outline_lines([a for _, a in pairs]).splitlines(),
            [*text.strip().splitlines(), *[""] * len(pairs)],
            strict=False,
        )
    ]
    figures["items_straight"] = sum(right) / len(right)
    changes = [tasks.transform_task(chance) for _ in range(count)]
    answers = writer.answers([prompt for prompt, _ in changes], 200)
    figures["transforms_exact"] = _share(
        text.strip() == wanted for (_, wanted), text in zip(changes, answers, strict=True)
    )


def _share(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found) if found else float("nan")


def main(arguments: list[str] | None = None) -> None:
    """Measure the pocket model and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m recipes.pocket.evaluate", description=main.__doc__)
    parser.add_argument(
        "--folder", type=Path, default=pocket_folder(), help="the model's folder (default: the published one)"
    )
    parser.add_argument("--wordings", type=int, default=2, help="known wordings asked for each topic (default 2)")
    parser.add_argument("--quick", action="store_true", help="measure tasks and source on a part, for a first look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as JSON")
    parser.add_argument("--update-card", action="store_true", help="write the figures to the model card in the folder")
    parser.add_argument("--threads", type=int, help="how many threads to use")
    chosen = parser.parse_args(arguments)
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    console = Console()
    figures = measure(
        Writer(chosen.folder),
        wordings=chosen.wordings,
        quick=chosen.quick,
        say=lambda line: console.print(line, highlight=False),
    )
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if chosen.update_card:
        write_card(chosen.folder, figures)


if __name__ == "__main__":
    main()
