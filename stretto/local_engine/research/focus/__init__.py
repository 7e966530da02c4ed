"""Documents longer than the window: FocusLLM, around a frozen decoder; see `docs/long-context.md`.

Measured with the pocket model: 64 of 70 codes are found, with truncation none; the first token comes sooner than
with full attention from 2,048 tokens on, and each further one takes 6 to 7 times as long
(``benchmarks/results/long_context.md``). No other model has an adapter.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from stretto.local_engine.research_registry import Offers

__all__ = ["OFFERS"]

OFFERS = Offers(long_prompts=f"{__name__}.long_prompt_reader")
