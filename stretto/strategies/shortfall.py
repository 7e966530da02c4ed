"""Warnings about incomplete parts of an answer, each with the remedy."""

from __future__ import annotations

from stretto.request import Request
from stretto.strategies.branch import Running


def shortfall(running: Running, request: Request) -> str | None:
    """Why a part of the answer is incomplete, and the remedy; ``None`` if it is complete."""
    called = running.spec.called or repr(running.spec.title)
    if running.exception is not None:
        return f"{called} is incomplete: {running.exception}"
    match running.finish_reason:
        case "refusal":
            return "The model refused to answer. Ask in other words, or ask another model."
        case "content_filter":
            return "The filter of the model's server stopped the answer. Ask in other words, or ask another model."
        case "budget":
            return f"{called} was cut by the budget of max_tokens_total={request.budget.max_tokens_total}. Allow more."
        case "length":
            return f"{called} was cut {_limit(running, request)}"
    return None


def _limit(running: Running, request: Request) -> str:
    most, own = running.spec.options.max_tokens, request.options.max_tokens
    if most is None:
        return "by the limit of its model. Ask for a shorter answer, or in parts."
    if most == own:
        return f"at max_tokens={most}. Allow more."
    return f"at {most} tokens, the limit of a part. Ask for longer parts, or with strategy='direct'."
