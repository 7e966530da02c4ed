"""What is said in more than one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.cli.plain import one_line

if TYPE_CHECKING:
    from stretto.client import AsyncStretto


def demonstration() -> str:
    """What the pocket model is, and how to use a real one."""
    return (
        "local:pocket is a demonstration model: it knows 100 everyday topics, and its answers may be wrong. "
        "For real answers set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a model with --model."
    )


def notice_of(client: AsyncStretto, *, named: bool) -> tuple[str, bool]:
    """Which model answers where the user has not ``named`` one, and whether that is a warning; or nothing."""
    main = client.backends["main"].name
    if main == "local:pocket":
        return demonstration(), True
    return ("" if named else client.model_reason or f"{one_line(main)} answers: the settings say so."), False
