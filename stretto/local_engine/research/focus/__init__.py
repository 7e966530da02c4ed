"""Documents longer than the window: FocusLLM, around a frozen decoder; see `docs/long-context.md`.

Measured with the pocket model: 64 of 70 codes are found where truncation finds none, the first token comes sooner than
with full attention from 2,048 tokens on, and each further one takes 6 to 7 times as long
(``benchmarks/results/long_context.md``). No other model has an adapter.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.local_engine.research_registry import Offers

if TYPE_CHECKING:
    from stretto.local_engine.serving.engine import Engine
    from stretto.local_engine.serving.long_prompts import FocusOptions, LongPromptReader

__all__ = ["OFFERS"]


def _reader(engine: Engine, options: FocusOptions) -> LongPromptReader:
    from stretto.local_engine.research.focus.long_prompt_reader import FocusPrompts  # noqa: PLC0415 - torch

    return FocusPrompts(engine, options)


OFFERS = Offers(long_prompts=_reader)
