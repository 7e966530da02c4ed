"""Expected cost of a call, by a simple model with explicit assumptions.

A call takes the time to its first token plus its tokens divided by the rate. Each strategy computes the cost of its
calls in the module of its offer. The figures are good for ranking strategies; they are not promises. A local backend is
measured once its model is loaded and has answered: the time of a step by number of rows, which shows how long a short
prefill takes and how much calls slow each other down, and the tokens that the decoding method commits per step. For a
server, the first answers show both times, by the number of calls in flight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from stretto.backends.base import Capabilities, Measured
from stretto.backends.load import between
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.values.route import DecodingForecast, Forecast, Shape

TOKENS_BY_SHAPE: dict[Shape, int] = {
    "short": 40, "points": 550, "steps": 400, "prose": 450, "items": 350, "code": 400, "transform": 250,
}  # fmt: skip
TYPICAL_TOKENS_PER_WORD = 1.35
INSTRUCTION_TOKENS = 220  # of the prompt of one part, besides the question
SLOWEST_PART = 1.5  # times the mean
SPECULATION = 1.5  # speed-up of a call that runs alone; parallel calls leave little room for drafts
# Drafts of points gain no more than that either: what was measured may come from code, or from an answer that looped.
SHORT_PROMPT = 64  # tokens of a usual prompt that a model in this process has to prefill; the rest is in its KV cache
READ_PER_S = 8_000.0  # prompt tokens per second, on a server without a prefix cache


class Speed(NamedTuple):
    """Speed of a backend.

    Attributes:
        first_token_s: seconds to the first token.
        tokens_per_s: tokens per second of one call.
        concurrent_calls: calls that run in parallel; at that speed, unless ``step_ms`` is known.
        alone: speed-up of a call that runs alone.
        read_per_s: prompt tokens per second of calls without a cached prefix.
        step_ms: milliseconds of a step by its rows, one for each call; ``None`` if calls do not slow each other down.
        busy: concurrent calls of other answers.
        first_s: seconds to the first token by the number of calls, as last measured; empty: not measured.
    """

    first_token_s: float
    tokens_per_s: float
    concurrent_calls: int
    alone: float = 1.0
    read_per_s: float = math.inf
    step_ms: Callable[[int], float] | None = None
    busy: int = 0
    first_s: Mapping[int, float] = {}

    def first_of(self, calls: int) -> float:
        """Return the seconds to the first token of one of so many calls, not counting those of other answers."""
        return between(self.first_s, calls + self.busy) if self.first_s else self.first_token_s


def speed_of(
    name: str,
    capabilities: Capabilities,
    role: str = "main",
    decoding: DecodingForecast | None = None,
    measured: Measured | None = None,
    *,
    kept: Mapping[int, float] | None = None,
    shape: Shape | None = None,
) -> Speed:
    """Return the assumed speed of a backend: models in this process are slower per call, small remote ones are faster.

    Uses the measured time per token of the decoding method and the times of steps if known, or else ``kept``: tokens
    per second of a stream by the number of streams, as measured by `stretto check`.
    """
    concurrent_calls = capabilities.concurrent_calls
    if decoding is not None and decoding.ms_per_token:
        step_ms = StepCost(measured.step_ms) if measured is not None and measured.step_ms else None
        first_s = 0.15 if step_ms is None else step_ms(SHORT_PROMPT) / 1000
        ms_per_token = decoding.ms_per_token
        if shape == "points" and decoding.step_ms is not None:
            ms_per_token = max(ms_per_token, decoding.step_ms / SPECULATION)
        return Speed(first_s, 1000 / ms_per_token, concurrent_calls, step_ms=step_ms)
    if kept and 1 in kept:
        ms = {streams: 1000 / rate for streams, rate in kept.items() if rate > 0}
        return Speed(0.15 if name.startswith("local:") else 0.6, kept[1], concurrent_calls, step_ms=StepCost(ms))
    if name.startswith("local:"):
        return Speed(0.15, 25.0, concurrent_calls)
    alone = SPECULATION if capabilities.speculation else 1.0
    read_per_s = READ_PER_S if capabilities.prefix_caching is False else math.inf
    first_s, rate = (0.4, 120.0) if role == "small" else (0.6, 70.0)
    return Speed(first_s, rate, concurrent_calls, alone, read_per_s)


def decoding_forecast(method: str, measured: Measured | None) -> DecodingForecast:
    """Forecast the speed of a decoding method on a local backend, from measurements only.

    The time per token is the measured time of a step with the method's average number of rows, divided by the average
    number of tokens it commits. Without drafts, a step has one row and commits one token.
    """
    if measured is None:
        return DecodingForecast(summary=f"The speed of {method} is unknown: the model is not loaded yet.")
    table = measured.step_ms
    observed = measured.decodings.get(method)
    plain = method == "autoregressive"
    if not plain and (observed is None or not observed.steps):
        known = f" A step of one row takes {table[1]:.2f} ms." if table else ""
        return DecodingForecast(
            step_ms=table.get(1),
            summary=f"The speed of {method} is unknown: it has not been used here yet.{known}",
        )
    steps = observed.steps if observed is not None else 0
    tokens, rows = (1.0, 1.0) if plain or observed is None else (observed.tokens_per_step, observed.rows_per_step)
    committed = "1 token a step" if plain else f"{tokens:.2f} tokens from {rows:.1f} rows a step, seen in {steps} steps"
    found = DecodingForecast(tokens_per_step=tokens, rows_per_step=rows, measured_steps=steps)
    if not table:
        return found.model_copy(update={"summary": f"{committed}; the time of a step is not measured yet."})
    cost = StepCost(table)
    ms_per_token = cost(max(1, round(rows))) / tokens
    speed_up = cost(1) / ms_per_token
    gain = "" if plain else f", {speed_up:.2f} times as fast as one token a step"
    summary = f"About {ms_per_token:.2f} ms a token{gain}: {committed}; a step of one row takes {cost(1):.2f} ms."
    return found.model_copy(
        update={"step_ms": cost(1), "ms_per_token": ms_per_token, "speed_up": speed_up, "summary": summary}
    )


def answer_tokens(
    shape: Shape, *, words: int | None = None, max_tokens: int | None = None, usual_tokens: int | None = None
) -> int:
    """Estimate the tokens of an answer.

    ``words`` is the length that the prompt asks for, ``max_tokens`` the caller's limit, and ``usual_tokens`` the
    usual tokens of this model's direct answers to such questions.
    """
    tokens = round(words * TYPICAL_TOKENS_PER_WORD) if words else usual_tokens or TOKENS_BY_SHAPE[shape]
    return max(1, tokens if max_tokens is None else min(tokens, max_tokens))


def reading_s(speed: Speed, measured: Measured | None, tokens: int) -> float:
    """Estimate the prefill seconds of a prompt, beyond those included in the time to a first token.

    A server's prefill of a usual prompt counts as instant; that of a model in this process was measured.
    """
    if measured is None or not measured.step_ms:
        return tokens / speed.read_per_s
    cost = StepCost(measured.step_ms)
    return max(0.0, cost(max(SHORT_PROMPT, tokens)) - cost(SHORT_PROMPT)) / 1000


def direct_forecast(speed: Speed, prompt_tokens: int, answer: int) -> Forecast:
    """Forecast the cost of one generation of ``answer`` tokens. ``Forecast.tokens`` counts prompt and answer."""
    total_s = seconds(speed, answer / speed.alone) + prompt_tokens / speed.read_per_s
    return Forecast(seconds=round(total_s, 2), tokens=prompt_tokens + answer, calls=1, written=answer)


def all_s(speed: Speed, tokens: float, calls: int) -> float:
    """Estimate the seconds of so many calls of that many tokens each, as many at a time as the backend runs."""
    side_by_side = max(1, min(calls, speed.concurrent_calls))
    return math.ceil(calls / side_by_side) * seconds(speed, tokens, calls=side_by_side)


def seconds(speed: Speed, tokens: float, *, calls: int = 1) -> float:
    """Estimate the seconds of one call that generates this many tokens, while ``calls`` calls of the answer run.

    Calls in one batch get no drafts, so each commits one token per step.
    """
    together = calls + speed.busy
    rate = speed.tokens_per_s if together == 1 or speed.step_ms is None else 1000 / speed.step_ms(together)
    return round(speed.first_of(calls) + tokens / rate, 2)
