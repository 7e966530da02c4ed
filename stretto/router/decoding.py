"""Choose the decoding method of a local backend: the one asked for, or else one that suits shape and sampling.

Every method named here gives the same answer, so a wrong choice costs time only. Drafts pay off in text that repeats
itself or the prompt: code, structured formats, edited text. In other text they must be cheap: ``auto`` keeps only the
draft tokens that pay off at the measured cost of a step, and stops drafting while none do. Other methods draft many
tokens even if few are accepted. Parts that are generated in one batch share each step, but each is drafted for
separately: if a step is short, drafting costs more than it saves, so these parts get no drafts unless a step is known
to be long. At a high temperature the most probable token is rarely sampled, so drafts are rarely accepted.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stretto.backends.base import Capabilities
from stretto.foundation.arguments import safe_repr
from stretto.router.demands import wants_format
from stretto.router.parse import Parse
from stretto.values.errors import InvalidRequestError
from stretto.values.request import Request
from stretto.values.route import Shape

HOT = 1.2  # temperature above which drafts are rarely accepted
DEEP = ("auto", "suffix", "prompt_lookup")
OPEN = ("draft_model", "auto", "prompt_lookup")
SIDE_BY_SIDE = ("auto",)
LONG_STEP_MS = 10.0  # drafting for one part takes about 0.3 ms
NONE = "autoregressive"
_COPIES: dict[Shape, str] = {
    "code": "code repeats its own names and structure",
    "transform": "most of the answer is in the prompt",
}


class Choice(NamedTuple):
    """A decoding method (``None`` if the backend has none) and the reason for it as one sentence."""

    method: str | None
    reason: str


def choose_decoding(
    request: Request,
    backend: str,
    capabilities: Capabilities,
    shape: Shape,
    parse: Parse,
    *,
    step_ms: float | None = None,
) -> Choice:
    """Choose the decoding method: the request's, or else the backend's, or else one that suits.

    ``step_ms``: measured time of a step with one row, if known.
    Raises `InvalidRequestError` for a method that does not exist, or that this backend does not have.
    """
    wanted, there = request.options.decoding, capabilities.decodings
    if wanted is not None:
        _check(wanted, backend, there)
    if not there:
        return Choice(None, "")
    if wanted is not None:
        return Choice(wanted, f"Decoded with {_called(wanted)}: asked for by the caller.")
    if (made_with := capabilities.decoding) is not None:
        return Choice(made_with, f"Decoded with {_called(made_with)}: {backend} was made with it.")
    if there[0] in _rules():  # the model has no other method
        return Choice(there[0], f"Decoded with {_called(there[0])}: {backend} writes blocks of tokens at once.")
    return _suited(request, there, shape, parse, step_ms)


def _suited(request: Request, there: tuple[str, ...], shape: Shape, parse: Parse, step_ms: float | None) -> Choice:
    """Choose a method if neither the request nor the backend names one."""
    temperature = request.options.temperature
    if temperature is not None and temperature > HOT:
        hot = f"at temperature {temperature:g}, above {HOT:g}, few drafts would be accepted"
        return Choice(_first((NONE,), there), f"Decoded without drafts: {hot}.")
    if foreseen := _deep(request, shape, parse):
        method = _first(DEEP, there)
        return Choice(method, f"Decoded with {method}, for deep drafts: {foreseen}.")
    if shape in ("points", "items"):
        return _side_by_side(there, step_ms)
    method = _first(OPEN, there)
    if method == "draft_model":
        return Choice(method, f"Decoded with {method}: a smaller model drafts text that appears nowhere yet.")
    return Choice(method, f"Decoded with {method}, for short drafts: this text repeats little.")


def _side_by_side(there: tuple[str, ...], step_ms: float | None) -> Choice:
    """Choose a method for parts that are generated in one batch."""
    if step_ms is not None and step_ms >= LONG_STEP_MS:
        method = _first(SIDE_BY_SIDE, there)
        if method != NONE:
            long = f"a step takes {step_ms:.0f} ms here, drafting for one part less than 1 ms"
            return Choice(method, f"Decoded with {method}, for parts in one batch: {long}.")
    known = "not measured yet" if step_ms is None else f"{step_ms:.1f} ms here, less than {LONG_STEP_MS:g}"
    why = f"parts in one batch share a step ({known}), and drafting for each would take longer than it saves"
    return Choice(_first((NONE,), there), f"Decoded without drafts: {why}.")


def _deep(request: Request, shape: Shape, parse: Parse) -> str | None:
    """Return why much of the answer can be predicted, if it can."""
    if shape in _COPIES:
        return _COPIES[shape]
    if request.documents:
        return "the answer draws on the documents of the request"
    if parse.format or wants_format(request.system):
        return "the requested format repeats its own syntax and names"
    return None


def _first(preferred: tuple[str, ...], there: tuple[str, ...]) -> str:
    return next((method for method in (*preferred, NONE) if method in there), there[0])


def _called(method: str) -> str:
    """Describe a method that was named, and whether it changes the answer."""
    from stretto.local_engine.drafting.catalogue import LOSSY  # noqa: PLC0415 - needed for such a request only

    return f"{method}, which is lossy" if method in LOSSY or method in _rules() else method


def _rules() -> Collection[str]:
    """Return the decoding methods of models that generate whole blocks."""
    from stretto.local_engine.research_registry import block_rules  # noqa: PLC0415 - needed for a local model only

    return block_rules()


def _check(wanted: str, backend: str, there: tuple[str, ...]) -> None:
    from stretto.local_engine.drafting.catalogue import all_drafters  # noqa: PLC0415 - needed for this request only

    drafters = all_drafters()

    if wanted in (there or drafters):
        return
    if wanted in drafters:
        needs = " draft_model needs a draft model: make the backend with draft=." if wanted == "draft_model" else ""
        raise InvalidRequestError(
            f"decoding={safe_repr(wanted)} cannot be used with {backend}.{needs} Use one of: {', '.join(there)}."
        )
    raise InvalidRequestError(
        f"There is no decoding method {safe_repr(wanted)}. Use one of: {', '.join(there or tuple(drafters))}."
    )
