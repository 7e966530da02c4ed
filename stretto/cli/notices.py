"""What is said in more than one place."""

from __future__ import annotations


def demonstration() -> str:
    """What the pocket model is, and how to use a real one."""
    return (
        "local:pocket is a demonstration model: it knows 100 everyday topics, and its answers may be wrong. "
        "For real answers set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a model with --model."
    )
