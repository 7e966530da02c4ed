"""Warnings about incomplete parts of an answer, each with the remedy."""

from __future__ import annotations

from collections.abc import Iterable

from stretto.request import Request
from stretto.strategies.branch import RunningBranch

MOST_NAMED = 20  # parts in a warning


def shortfalls(branches: Iterable[RunningBranch], request: Request) -> list[str]:
    """The warnings about these parts; those that were cut in the same way share one."""
    cut: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for running in branches:
        how, name = _cut(running, request), called(running)
        if how is None:
            if said := shortfall(running, request):
                found.setdefault(said, said)
            continue
        names = cut.setdefault(how, [])
        if name not in names:
            names.append(name)
        found[f" {how}"] = f"{named(names)} {'was' if len(names) == 1 else 'were'} cut {how}"
    return list(found.values())


def shortfall(running: RunningBranch, request: Request) -> str | None:
    """Why a part of the answer is incomplete, and the remedy; ``None`` if it is complete."""
    name = called(running)
    if running.exception is not None:
        return f"{name} is incomplete: {running.exception}"
    match running.finish_reason:
        case "refusal":
            return "The model refused to answer. Ask in other words, or ask another model."
        case "content_filter":
            return "The filter of the model's server stopped the answer. Ask in other words, or ask another model."
    how = _cut(running, request)
    return None if how is None else f"{name} was cut {how}"


def _cut(running: RunningBranch, request: Request) -> str | None:
    """How a part was cut, and the remedy; ``None`` if it ended otherwise."""
    if running.exception is not None:
        return None
    if running.finish_reason == "budget":
        name, most = "max_tokens_total", request.budget.max_tokens_total
        if (own := running.spec.ledger) is not None and own.budget.max_tokens_total is not None:
            name, most = own.names[1], own.budget.max_tokens_total
        return f"by the budget of {name}={most}. Allow more."
    return _limit(running, request) if running.finish_reason == "length" else None


def called(running: RunningBranch) -> str:
    """A part's name in a warning, as the subject of a sentence."""
    spec = running.spec
    return spec.label or (repr(spec.title) if spec.title else f"The {spec.kind}")


def named(names: list[str]) -> str:
    """Several names as one subject."""
    if len(names) == 1:
        return names[0]
    plain = [name.rstrip(",") for name in names]
    if len(plain) > MOST_NAMED:
        plain = [*plain[:MOST_NAMED], f"{len(plain) - MOST_NAMED} more"]
    between = "; " if any("," in name for name in plain) else ", "
    return f"{between.join(plain[:-1])} and {plain[-1]}"


def _limit(running: RunningBranch, request: Request) -> str:
    most, own = running.spec.options.max_tokens, request.options.max_tokens
    if running.cut_at is not None and (running.spec.kind != "direct" or most != own):
        return f"by max_tokens={running.cut_at}, which limits the whole answer. Allow more."
    if most is None:
        return "by the limit of its model. Ask for a shorter answer, or in parts."
    if most == own:
        return f"at max_tokens={most}. Allow more."
    if most == request.part_tokens:
        return f"at part_tokens={most}. Allow more."
    if own is not None and running.spec.kind != "direct":
        return f"at {most} tokens, its share of max_tokens={own}. Allow more."
    return f"at {most} tokens, the limit of a part. Ask for longer parts, or with strategy='direct'."
