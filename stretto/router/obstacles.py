"""Reasons against parallel generation of any shape: demands of the request, limits of backend and budget.

Each function returns the reason as half a sentence, or ``None`` if there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stretto.backends.base import Backend
from stretto.router.demands import wants_brevity, wants_format
from stretto.router.parse import Parse
from stretto.values.request import Request
from stretto.values.route import Forecast, Obstacle

if TYPE_CHECKING:
    from stretto.router.case import Case

MINIMUM_ANSWER_TOKENS = 600  # about eight points of the usual length; a lower limit would cut them
MINIMUM_SLOTS = 3
MINIMUM_CALLS = 5
MOST_POINTS = 10  # of an outline
SAVES = {"fastest": 0.0, "balanced": 0.1, "careful": 0.2}  # share of the direct answer's time, by preference


def to_any(request: Request, parse: Parse) -> str | None:
    """Return why the request itself rules out more than one generation; ``parse`` is its parsed question."""
    return next(_in_request(request, parse), None)


def to_parallel(
    case: Case, parallel: Forecast, *, straight: Forecast | None = None, saves: tuple[float, float] | None = None
) -> str | None:
    """Return why the backend, its load, the budget or the forecast rules out a parallel strategy.

    ``straight`` replaces the direct answer's forecast; ``saves``: the share of its time and the seconds that must be
    saved, by default a share that depends on the preference.
    """
    direct = straight or case.direct_forecast
    if (found := next(_in_means(case, parallel, direct), None)) is not None:
        return found
    share, least_s = saves or (SAVES[case.request.preference], 0.0)
    saved_s = direct.seconds - parallel.seconds
    if saved_s < share * direct.seconds or saved_s < least_s:
        return Obstacle(f"it would take {seconds_of(direct, parallel, case.measured_how)}, too little gained", "gain")
    return None


def seconds_of(direct: Forecast, parallel: Forecast, measured: str) -> str:
    """Describe how long both ways would take, and which measurement that is based on."""
    by = f", {measured}" if measured else ""
    return f"about {parallel.seconds:.1f} s against {direct.seconds:.1f} s{by}"


def to_skeleton(parse: Parse, most: int = MOST_POINTS) -> str | None:
    """Return why the question rules out an outline, or a plan of at most so many items."""
    if (wanted := parse.points.wanted) > most:
        return Obstacle(f"{wanted} points are asked for, and an outline has at most {most}", "demand")
    return _needs_finished_list(parse)


def beyond(backend: Backend, tokens: int) -> str | None:
    """Return the obstacle that the model itself handles a prompt longer than its window; ``None`` otherwise."""
    window = backend.capabilities.context_window
    if window is None or tokens <= window or not backend.capabilities.beyond_window:
        return None
    return Obstacle(
        f"the prompt is longer than the context window of {window:,} tokens, and the model reads it by itself", "window"
    )


def _needs_finished_list(parse: Parse) -> str | None:
    found = parse.tail
    return Obstacle(f'part of the answer needs the finished list ("{_shown(found)}")', "demand") if found else None


def _in_request(request: Request, parse: Parse) -> Iterator[str]:
    limit = request.options.max_tokens
    if whole := request.whole_reason:
        yield Obstacle(whole, "whole")
    if request.documents:
        yield Obstacle("documents come with the request, and they are read in one generation", "whole")
    if limit is not None and limit <= MINIMUM_ANSWER_TOKENS:
        yield Obstacle(f"max_tokens={limit} leaves no room for several points", "budget")
    if request.options.response_format is not None:
        yield Obstacle("response_format holds the answer as a whole", "demand")
    if request.options.stop:
        yield Obstacle("stop strings are set, which would cut the parts in the middle", "demand")
    if system := request.system:
        if found := wants_format(system):
            yield Obstacle(f'the system message demands a format ("{_shown(found)}")', "demand")
        if found := wants_brevity(system):
            yield Obstacle(f'the system message asks for short answers ("{_shown(found)}")', "demand")
    if found := parse.format:
        yield Obstacle(f'a format is asked for ("{_shown(found)}")', "demand")
    if found := parse.brevity:
        yield Obstacle(f'a short answer is asked for ("{_shown(found)}")', "demand")
    # Multiple lines can be a list of items, whose words do not count.
    if "\n" not in parse.text and (needed := _needs_finished_list(parse)):
        yield needed


def _in_means(case: Case, parallel: Forecast, direct: Forecast) -> Iterator[str]:
    window, budget = case.backend.capabilities.context_window, case.request.budget
    calls, tokens = budget.max_calls, budget.max_tokens_total
    least = min(parallel.calls, MINIMUM_CALLS)
    if found := case.limits.why_below(MINIMUM_SLOTS, case.backend.name):
        yield Obstacle(found, "busy")
    # What the rate limits leave for prompts and answers combined.
    if (left := case.load.limits_left.get("tokens")) is not None and left < parallel.tokens:
        yield Obstacle(
            f"the rate limit leaves {int(left)} tokens, and about {parallel.tokens} would be read and written", "busy"
        )
    if calls is not None and calls < least:
        yield Obstacle(
            f"the budget of {calls} call{'s' if calls != 1 else ''} is too small, {least} are needed", "budget"
        )
    if tokens is not None and tokens < parallel.tokens:
        yield Obstacle(
            f"the budget of {tokens} tokens is too small, about {parallel.tokens} would be read and written", "budget"
        )
    if window is not None and direct.tokens > window:
        yield Obstacle(f"the prompt about fills the context window of {window} tokens", "window")


def _shown(words: str) -> str:
    return words if len(words) <= 40 else words[:37] + "..."
