"""Expected cost of a call, by a simple model with explicit assumptions.

A call takes the time to its first token plus its tokens divided by the rate. Each strategy computes the cost of its
own calls, in the module of its offer. The figures are good for ranking strategies; they are no promises. A local
backend is measured once its model is loaded and has answered: the time of a step by its rows, which says how long a
short prompt takes to read and how much calls slow each other, and the tokens that the decoding method commits in one.
Of a server, the first answers show both times, by the number of calls that were under way.
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
SPECULATION = 1.5  # times as fast is a call that runs alone; calls side by side leave little room for drafts
# Drafts of points win no more than that either: what was measured may come from code, or from an answer that looped.
SHORT_PROMPT = 64  # tokens that a model in this process has to read of a usual prompt; what it has read, it keeps
READ_PER_S = 8_000.0  # prompt tokens a second, on a server that reads each prompt from its beginning


class Speed(NamedTuple):
    """Speed of a backend.

    Attributes:
        first_token_s: seconds to the first token.
        tokens_per_s: tokens per second of one call.
        concurrent_calls: calls that run side by side; at that speed, unless ``step_ms`` is known.
        alone: how many times as fast one call by itself is.
        read_per_s: prompt tokens per second of calls that have nothing in common for it.
        step_ms: milliseconds of a step by its rows, one for each call; ``None`` where calls do not slow each other.
        busy: calls of other answers that run beside.
        first_s: seconds to the first token by the number of calls, as the last ones took; empty: not seen.
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
        """Seconds to the first token of a call among so many, those of other answers not counted."""
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
    """The assumed speed of a backend: models in this process are slower per call, small remote ones are faster.

    Uses the measured time per token of the decoding method and the times of steps, if they are known, else ``kept``:
    tokens a second of a stream by the number of streams, as `stretto check` measured them.
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
    """Expected speed of a decoding method on a local backend, from measurements only.

    Time per token is the measured time of a step with the method's average number of rows, divided by the average
    number of tokens it commits. Without drafts, a step has one row and commits one token.
    """
    if measured is None:
        return DecodingForecast(summary=f"The speed of {method} is unknown: the model is not loaded yet.")
    table = measured.step_ms
    seen = measured.decodings.get(method)
    plain = method == "autoregressive"
    if not plain and (seen is None or not seen.steps):
        known = f" A step of one row takes {table[1]:.2f} ms." if table else ""
        return DecodingForecast(
            step_ms=table.get(1),
            summary=f"The speed of {method} is unknown: it has not been used here yet.{known}",
        )
    steps = seen.steps if seen is not None else 0
    tokens, rows = (1.0, 1.0) if plain or seen is None else (seen.tokens_per_step, seen.rows_per_step)
    committed = "1 token a step" if plain else f"{tokens:.2f} tokens from {rows:.1f} rows a step, seen in {steps} steps"
    found = DecodingForecast(tokens_per_step=tokens, rows_per_step=rows, measured_steps=steps)
    if not table:
        return found.model_copy(update={"summary": f"{committed}; the time of a step is not measured yet."})
    cost = StepCost(table)
    ms_per_token = cost(max(1, round(rows))) / tokens
    speed_up = cost(1) / ms_per_token
    gain = "" if plain else f", {speed_up:.2f} times as fast as one token a step"
    said = f"About {ms_per_token:.2f} ms a token{gain}: {committed}; a step of one row takes {cost(1):.2f} ms."
    return found.model_copy(
        update={"step_ms": cost(1), "ms_per_token": ms_per_token, "speed_up": speed_up, "summary": said}
    )


def answer_tokens(
    shape: Shape, *, words: int | None = None, max_tokens: int | None = None, seen: int | None = None
) -> int:
    """Expected tokens of an answer.

    ``words`` is the length that the prompt asks for, ``max_tokens`` the caller's limit, ``seen`` what direct answers
    of this model to such questions had.
    """
    tokens = round(words * TYPICAL_TOKENS_PER_WORD) if words else seen or TOKENS_BY_SHAPE[shape]
    return max(1, tokens if max_tokens is None else min(tokens, max_tokens))


def reading_s(speed: Speed, measured: Measured | None, tokens: int) -> float:
    """Expected seconds to read a prompt of so many tokens, beyond those in the time to a first token.

    A server reads a usual prompt in no time; what a model in this process takes was measured.
    """
    if measured is None or not measured.step_ms:
        return tokens / speed.read_per_s
    cost = StepCost(measured.step_ms)
    return max(0.0, cost(max(SHORT_PROMPT, tokens)) - cost(SHORT_PROMPT)) / 1000


def direct_forecast(speed: Speed, prompt_tokens: int, answer: int) -> Forecast:
    """Expected cost of one generation of ``answer`` tokens. ``Forecast.tokens`` counts prompt and answer."""
    total_s = seconds(speed, answer / speed.alone) + prompt_tokens / speed.read_per_s
    return Forecast(seconds=round(total_s, 2), tokens=prompt_tokens + answer, calls=1, written=answer)


def all_s(speed: Speed, tokens: float, calls: int) -> float:
    """Expected seconds of so many calls of that many tokens each, as many at a time as the backend takes."""
    side_by_side = max(1, min(calls, speed.concurrent_calls))
    return math.ceil(calls / side_by_side) * seconds(speed, tokens, calls=side_by_side)


def seconds(speed: Speed, tokens: float, *, calls: int = 1) -> float:
    """Expected seconds of one call that generates this many tokens, while so many ``calls`` of the answer run.

    Calls in one batch are not drafted for, so each commits a token a step.
    """
    together = calls + speed.busy
    rate = speed.tokens_per_s if together == 1 or speed.step_ms is None else 1000 / speed.step_ms(together)
    return round(speed.first_of(calls) + tokens / rate, 2)
