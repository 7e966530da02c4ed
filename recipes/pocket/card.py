"""The model card of the pocket model, written from the measured figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["card", "write_card"]

_ROWS: tuple[tuple[str, str, str], ...] = (
    (
        "known_straight_points",
        "Points of the topic present in a straight answer, known wordings changed by code",
        "95%",
    ),
    ("known_skeleton_points", "The same in a skeleton answer (outline, then every point on its own)", "95%"),
    ("known_straight_topic", "Right topic in a straight answer, known wordings changed by code", ""),
    ("known_straight_refused", "Known wordings refused as unknown", ""),
    ("unseen_straight_topic", "Right topic on unseen wordings, straight answer", "60%"),
    ("unseen_outline_topic", "Right topic on unseen wordings, outline", "60%"),
    ("unseen_tfidf_wordings", "For comparison: TF-IDF nearest neighbour over the same training wordings", ""),
    ("unseen_tfidf_everything", "For comparison: the same over wordings, keywords, titles and texts", ""),
    ("unseen_straight_refused", "Unseen wordings refused as unknown", ""),
    ("outlines_parsed", "Outlines that parse", "98%"),
    ("expansions_own_text", "Points whose expansion carries their own text", "100%"),
    ("distinct_4_grams_at_least_0.9", "Straight answers whose distinct 4-grams are at least 0.9", "100%"),
    ("facts_known", "Short facts answered word for word, known wordings changed by code", ""),
    ("facts_unseen", "Short facts answered word for word, unseen wordings", ""),
    ("items_one_by_one", "Item tasks right, one item a request", ""),
    ("items_straight", "Item tasks right, all items in one request", ""),
    ("transforms_exact", "Transformations right to the letter", ""),
    ("unknown_refused", "Held-out questions it cannot know, refused", ""),
    ("unknown_refused_as_outline", "The same, asked for an outline", ""),
)

_HEAD = """---
license: apache-2.0
language: en
library_name: transformers
pipeline_tag: text-generation
---

# Stretto's pocket model

A Llama-architecture model of 8.4 million parameters ({size:.1f} MB of weights), trained from nothing on two
processor cores. **It is an instrument and a demonstration, not a source of knowledge.** It knows 100 everyday
topics, 200 short facts and a few mechanical tasks by heart, so that every strategy of Stretto can be shown
for real without a key, a network or a download. Asked anything else, it often answers all the same, with certainty
and wrongly; the table below says how often it refuses what it cannot know. What it says about health, money or law is
general knowledge learned by rote and no advice.

## What it was trained on

- A small encyclopaedia written for the project: 100 topics with 5 to 7 independent points each, 200 short
  facts, and many wordings of every question. Learned as straight answers, as outlines under the library's own
  skeleton prompt and as expansions under its own point prompt.
- Tasks made by code: operations over items (plurals, opposites, conversions, one-line definitions) and
  transformations of a text (an edit, extraction of fields, another format).
- Questions it cannot know, all answered with one fixed text.
- The Python standard library's own source (Python Software Foundation License), read from the interpreter and
  not copied into the project. The files named in `HELD_OUT_FILES` of `recipes/pocket/source.py`
  are kept out for benchmarks.

Nothing was downloaded for it.

## How it was trained

`python -m recipes.pocket.train`: seeded, resumable, scheduled by the clock. Muon for the
matrices, AdamW for the rest, warm-up, constant and falling learning rate, loss on the answers only (on
everything for source code).

These weights come from one run of 72 minutes by the clock, from nothing to the end, on two cores that multiply
bfloat16 and on which the project's tests ran at times: 5,192 steps, at the end 7,322 tokens a second. What the
lessons are, and when, had been found out in earlier runs, by the known wordings. The unseen questions were put to
these weights once, when the run was over, as they had been to those of earlier runs.

## Figures

Measured by `python -m recipes.pocket.evaluate --update-card`, greedy, single precision. The
wordings measured as unseen are not in the training data and were written to differ from it.

| figure | aim | measured |
| --- | --- | --- |
"""

_TAIL = """
## Next to the weights

`reading.safetensors` is an adapter for prompts that show documents: it looks up codes, dates, places, homes and prices
in texts of any length, in passages. Its figures are in `docs/pocket.md`. `focus.safetensors` lets the sum of both look
up such facts in prompts longer than the window; its figures are in `docs/long-context.md`. No other prompt is answered
with either of them.

## Limits

English only. Facts and texts are recited, not reasoned about. Longer code continuations are Python-shaped
rather than right. Positions beyond about 1,500 tokens were not trained, although the context window is
declared as 2,048."""


def card(figures: Mapping[str, float], size: float) -> str:
    """The text of the card for measured ``figures`` and ``size`` megabytes of weights."""
    lines = [f"| {text} | {aim} | {figures[name]:.1%} |" for name, text, aim in _ROWS if name in figures]
    lines.append(f"| Distinct 4-grams of a straight answer, mean and least | | {_spread(figures)} |")
    loss, bits = figures["source_nats_per_token"], figures["source_bits_per_byte"]
    lines.append(f"| Loss on held-out Python source | | {loss:.3f} nats a token, {bits:.3f} bits a byte |")
    return _HEAD.format(size=size) + "\n".join(lines) + "\n" + _TAIL


def _spread(figures: Mapping[str, float]) -> str:
    return f"{figures['distinct_4_grams_mean']:.3f}, {figures['distinct_4_grams_least']:.3f}"


def write_card(folder: Path, figures: Mapping[str, float]) -> None:
    """Write the card of the model in ``folder``."""
    size = (folder / "model.safetensors").stat().st_size / 1e6
    (folder / "README.md").write_text(card(figures, size), encoding="utf-8")
