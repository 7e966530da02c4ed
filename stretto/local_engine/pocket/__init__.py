"""The pocket model: a tiny Llama trained from nothing on text of this project.

It is an instrument and a demonstration, not a source of knowledge: it knows a hundred everyday topics, two hundred
short facts and a few mechanical tasks by heart, so that every strategy of the library can be shown for real without a
key, a network or a download. Whatever else it is asked, it answers :data:`UNKNOWN`.

Importing this package imports neither torch nor transformers.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["FURTHER_MODELS", "MODEL_FOLDER", "UNKNOWN", "is_unknown"]

MODEL_FOLDER = Path(__file__).parent / "model"
"""The folder of the published weights, in the form transformers reads."""

FURTHER_MODELS = {
    "pocket-diffusion": Path(__file__).parent / "diffusion",
    "pocket-forking": Path(__file__).parent / "forking",
}
"""The folders of models that were made from the pocket model. They know what it knows, and write in other ways."""

UNKNOWN = (
    "I am Stretto's pocket model, a demonstration that knows 100 everyday topics and 200 short facts, "
    "and I cannot answer this. "
    "For a real answer, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or use --model local:<folder or hub name>."
)
"""What the pocket model answers when it is asked something it cannot know."""


def is_unknown(text: str) -> bool:
    """Whether ``text`` is the pocket model's own way of saying that it cannot answer."""
    return text.lstrip().startswith(UNKNOWN[:40])
