"""What stands against parallel generation, whatever the shape: demands of the caller, limits of backend and budget.

Each function gives the reason as half a sentence, or None where nothing stands in the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from stretto.backends.base import Backend
from stretto.language.counting import points_wanted
from stretto.request import Request
from stretto.route import Forecast
from stretto.router.demands import wants_brevity, wants_format
from stretto.router.reading import excerpt
from stretto.router.tails import wants_finished_list

MINIMUM_ANSWER_TOKENS = 600  # eight points of a usual length; a limit below would have to cut them
MINIMUM_SLOTS = 3
MINIMUM_CALLS = 5
MOST_POINTS = 10  # of an outline; strategies.outline, which no decision loads, cuts there
WORTH_FACTOR = {"fastest": 1.0, "balanced": 0.9, "careful": 0.8}


def to_any(request: Request, text: str) -> str | None:
    """What makes the request itself unsuitable for more than one generation; ``text`` is the question read."""
    return next(_in_request(request, text), None)


def to_parallel(request: Request, backend: Backend, direct: Forecast, parallel: Forecast) -> str | None:
    """What in backend, budget or forecast stands against running a parallel strategy."""
    return next(_in_means(request, backend, direct, parallel), None)


def to_skeleton(text: str) -> str | None:
    """What makes the question unsuitable for an outline."""
    if (wanted := points_wanted(excerpt(text))) > MOST_POINTS:
        return f"{wanted} points are asked for, and an outline has at most {MOST_POINTS}"
    return _needs_finished_list(text)


def _needs_finished_list(text: str) -> str | None:
    found = wants_finished_list(text)
    return found and f'part of the answer needs the finished list ("{_shown(found)}")'


def _in_request(request: Request, text: str) -> Iterator[str]:
    limit = request.options.max_tokens
    if whole := request.whole_because:
        yield whole
    if request.documents:
        yield "documents come with the request, and they are read in one generation"
    if limit is not None and limit <= MINIMUM_ANSWER_TOKENS:
        yield f"max_tokens={limit} leaves no room for several points"
    if request.options.response_format is not None:
        yield "response_format holds the answer as a whole"
    if request.options.stop:
        yield "stop strings are set, which would cut the parts in the middle"
    if system := request.system:
        if found := wants_format(system):
            yield f'the system message demands a format ("{_shown(found)}")'
        if found := wants_brevity(system):
            yield f'the system message asks for short answers ("{_shown(found)}")'
    if found := wants_format(text):
        yield f'a format is asked for ("{_shown(found)}")'
    if found := wants_brevity(text):
        yield f'a short answer is asked for ("{_shown(found)}")'
    if "\n" not in text and (needed := _needs_finished_list(text)):  # lines may be a list supplied, whatever they say
        yield needed


def _in_means(request: Request, backend: Backend, direct: Forecast, parallel: Forecast) -> Iterator[str]:
    slots = backend.capabilities.parallel_slots
    window = backend.capabilities.context_window
    calls, tokens = request.budget.max_calls, request.budget.max_tokens_total
    least = min(parallel.calls, MINIMUM_CALLS)
    if slots < MINIMUM_SLOTS:
        yield f"{backend.name} runs only {slots} call{'s' if slots != 1 else ''} at once"
    if calls is not None and calls < least:
        yield f"the budget of {calls} call{'s' if calls != 1 else ''} is too small, {least} are needed"
    if tokens is not None and tokens < parallel.tokens:
        yield f"the budget of {tokens} tokens is too small, about {parallel.tokens} would be read and written"
    if window is not None and direct.tokens > window:
        yield f"the prompt about fills the context window of {window} tokens"
    if parallel.seconds > direct.seconds * WORTH_FACTOR[request.preference]:
        yield f"it would take about {parallel.seconds:.1f} s against {direct.seconds:.1f} s, too little gained"


def _shown(words: str) -> str:
    return words if len(words) <= 40 else words[:37] + "..."
