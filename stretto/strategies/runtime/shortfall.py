"""Warnings about incomplete parts of an answer, each with the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.parts import THINKING
from stretto.values.answer import FinishReason
from stretto.values.answer_warning import AnswerWarning, WarningCode
from stretto.values.request import Request

MOST_NAMED = 20  # parts in a warning
_FULL = ("because too much of it waited to be read", "Ask for a shorter answer, or with strategy='direct'.")
_CODES: Mapping[FinishReason, WarningCode] = {
    "deadline": "deadline",
    "budget": "budget",
    "refusal": "refusal",
    "content_filter": "refusal",
}


def shortfalls(branches: Iterable[RunningBranch], request: Request) -> list[AnswerWarning]:
    """Return the warnings about these parts; parts that were cut in the same way share one."""
    alike: dict[str, list[str]] = {}
    found: dict[str, AnswerWarning] = {}
    for running in branches:
        how, name = cut(running, request), called(running)
        if how is None:
            if warning := shortfall(running, request):
                found.setdefault(warning, warning)
            continue
        names = alike.setdefault(how, [])
        if name not in names:
            names.append(name)
        text = f"{named(names)} {'was' if len(names) == 1 else 'were'} cut {how}"
        found[f" {how}"] = AnswerWarning(
            text, code_of(running, "part_cut"), running.spec.id if len(names) == 1 else None
        )
    return list(found.values())


def shortfall(running: RunningBranch, request: Request) -> AnswerWarning | None:
    """Return why a part of the answer is incomplete, and the remedy; ``None`` if it is complete."""
    name, part = called(running), running.spec.id
    if running.exception is not None:
        return AnswerWarning(f"{name} is incomplete: {running.exception}", code_of(running, "part_missing"), part)
    match running.finish_reason:
        case "refusal":
            text = "The model refused to answer. Ask in other words, or ask another model."
            return AnswerWarning(text, "refusal", part)
        case "content_filter":
            text = "The filter of the model's server stopped the answer. Ask in other words, or ask another model."
            return AnswerWarning(text, "refusal", part)
    how = cut(running, request)
    return None if how is None else AnswerWarning(f"{name} was cut {how}", code_of(running, "part_cut"), part)


def code_of(running: RunningBranch, otherwise: WarningCode) -> WarningCode:
    """Return the code for what cut a part, or ``otherwise``."""
    return _CODES.get(running.finish_reason, otherwise)


def cut(running: RunningBranch, request: Request) -> str | None:
    """Return how a part was cut, and the remedy; ``None`` if it ended otherwise."""
    if running.exception is not None:
        return None
    if running.finish_reason == "budget":
        name, most = "max_tokens_total", request.budget.max_tokens_total
        if (own := running.spec.ledger) is not None and own.budget.max_tokens_total is not None:
            name, most = own.names[1], own.budget.max_tokens_total
        return f"by the budget of {name}={most}{_without_text(running)}. Allow more."
    if running.finish_reason != "length":
        return None
    where, remedy = _FULL if running.outcome.limit == "buffer" else _place(running, request)
    return f"{where}{_without_text(running)}. {remedy}"


def called(running: RunningBranch) -> str:
    """Return a part's name in a warning, as the subject of a sentence."""
    spec = running.spec
    return spec.label or (repr(spec.name) if spec.name else f"The {spec.kind}")


def named(names: list[str]) -> str:
    """Join names into one subject."""
    if len(names) == 1:
        return names[0]
    plain = [name.rstrip(",") for name in names]
    if len(plain) > MOST_NAMED:
        plain = [*plain[:MOST_NAMED], f"{len(plain) - MOST_NAMED} more"]
    between = "; " if any("," in name for name in plain) else ", "
    return f"{between.join(plain[:-1])} and {plain[-1]}"


def _without_text(running: RunningBranch) -> str:
    return "" if running.text.strip() else ", before any text was written"


def _place(running: RunningBranch, request: Request) -> tuple[str, str]:
    """Return which limit cut a part, and the remedy."""
    most, own = running.spec.options.max_tokens, request.options.max_tokens
    if running.outcome.limit == "answer" and (running.spec.kind != "direct" or most != own):
        return f"by max_tokens={own}, which limits the whole answer", "Allow more."
    if most is None:
        return "by the limit of its model", "Ask for a shorter answer, or in parts."
    if most == own:
        return f"at max_tokens={most}", "Allow more."
    if request.part_tokens in (most, most - THINKING):
        return f"at part_tokens={request.part_tokens}", "Allow more."
    if own is not None and running.spec.kind != "direct":
        return f"at {most} tokens, its share of max_tokens={own}", "Allow more."
    return f"at {most} tokens, the limit of a part", "Ask for longer parts, or with strategy='direct'."
