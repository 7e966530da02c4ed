"""Which decoding method of a local backend an answer gets: by its shape, by how it is sampled, or as somebody said.

Every method named here gives the same answer; a wrong choice costs time, never a word. A draft is worth its rows where
much of what comes next has stood in the text before: code, fields, a text to be changed. Where little has, drafts must
cost little: ``auto`` cuts its own to the rows that pay by the measured cost of a step, and rests while none do. Parts
written side by side share the rows of a step, and the time that drafting takes is spent once for each of them: where a
step is short, that alone is more than drafts of open text can win, so they get none unless a step is known to be long.
Other methods draft many rows even where few are accepted.
The hotter the sampling, the rarer the token that a draft can foresee: what is likeliest is then seldom what is drawn.
"""

from __future__ import annotations

from typing import NamedTuple

from stretto.arguments import shown
from stretto.backends.base import Capabilities
from stretto.errors import InvalidRequestError
from stretto.request import Request
from stretto.route import Shape
from stretto.router.demands import wants_format

HOT = 1.2  # temperature; above it a token is drawn from so many that drafts are seldom right
DEEP = ("auto", "suffix", "prompt_lookup")
OPEN = ("draft_model", "auto", "prompt_lookup")
SIDE_BY_SIDE = ("auto",)
LONG_STEP_MS = 10.0  # drafting for one part takes some 0.3 ms
NONE = "autoregressive"
_COPIES: dict[Shape, str] = {
    "code": "code repeats its own names and forms",
    "transform": "most of the answer stands in the prompt",
}


class Choice(NamedTuple):
    """A decoding method, or none where the backend has none, and the reason as one sentence."""

    method: str | None
    cause: str


def choose_decoding(
    request: Request,
    backend: str,
    capabilities: Capabilities,
    shape: Shape,
    text: str,
    *,
    step_ms: float | None = None,
) -> Choice:
    """Name the decoding method for a request; the request's own goes first, then the one its backend was made with.

    Args:
        request: what is asked.
        backend: name of the backend, for errors.
        capabilities: what it can do.
        shape: of the answer.
        text: the question as the router reads it.
        step_ms: what a step of one row takes, where that is measured.

    Raises `InvalidRequestError` for a method that does not exist, or that this backend does not have.
    """
    wanted, there = request.options.decoding, capabilities.decodings
    if wanted is not None:
        _check(wanted, backend, there)
    if not there:
        return Choice(None, "")
    if wanted is not None:
        return Choice(wanted, f"Decoded with {wanted}: asked for by the caller.")
    if capabilities.decoding is not None:
        return Choice(capabilities.decoding, f"Decoded with {capabilities.decoding}: {backend} was made with it.")
    return _suited(request, there, shape, text, step_ms)


def _suited(request: Request, there: tuple[str, ...], shape: Shape, text: str, step_ms: float | None) -> Choice:
    """What nobody has said: by sampling first, then by what can be foreseen of the answer."""
    temperature = request.options.temperature
    if temperature is not None and temperature > HOT:
        hot = f"at temperature {temperature:g}, above {HOT:g}, few drafts would be accepted"
        return Choice(_first((NONE,), there), f"Decoded without drafts: {hot}.")
    if foreseen := _deep(request, shape, text):
        method = _first(DEEP, there)
        return Choice(method, f"Decoded with {method}, for deep drafts: {foreseen}.")
    if shape in ("points", "items"):
        return _side_by_side(there, step_ms)
    method = _first(OPEN, there)
    if method == "draft_model":
        return Choice(method, f"Decoded with {method}: a smaller model guesses what stands nowhere yet.")
    return Choice(method, f"Decoded with {method}, for drafts of few rows: open text repeats little.")


def _side_by_side(there: tuple[str, ...], step_ms: float | None) -> Choice:
    """For parts that share a step, and each of which is drafted for."""
    if step_ms is not None and step_ms >= LONG_STEP_MS:
        method = _first(SIDE_BY_SIDE, there)
        if method != NONE:
            long = f"a step takes {step_ms:.0f} ms here, drafting for one part a fraction of one"
            return Choice(method, f"Decoded with {method}, for parts side by side: {long}.")
    known = "not measured yet" if step_ms is None else f"{step_ms:.1f} ms here, less than {LONG_STEP_MS:g}"
    why = f"parts side by side share a step, and it is {known}: drafting for each would take longer than it saves"
    return Choice(_first((NONE,), there), f"Decoded without drafts: {why}.")


def _deep(request: Request, shape: Shape, text: str) -> str | None:
    """Why much of the answer can be foreseen, if it can."""
    if shape in _COPIES:
        return _COPIES[shape]
    if request.documents:
        return "the answer draws on documents that come with the request"
    if wants_format(text) or wants_format(request.system):
        return "the format asked for repeats its own marks and names"
    return None


def _first(preferred: tuple[str, ...], there: tuple[str, ...]) -> str:
    return next((method for method in (*preferred, NONE) if method in there), there[0])


def _check(wanted: str, backend: str, there: tuple[str, ...]) -> None:
    from stretto.local_engine.drafting.catalogue import DRAFTERS  # noqa: PLC0415 - needed for this request only

    if wanted in (there or DRAFTERS):
        return
    if wanted in DRAFTERS:
        needs = " draft_model needs a draft model: make the backend with draft=." if wanted == "draft_model" else ""
        raise InvalidRequestError(
            f"decoding={shown(wanted)} cannot be used with {backend}.{needs} Use one of: {', '.join(there)}."
        )
    raise InvalidRequestError(
        f"There is no decoding method {shown(wanted)}. Use one of: {', '.join(there or tuple(DRAFTERS))}."
    )
