"""What is said in more than one place."""

from __future__ import annotations


def demonstration() -> str:
    """What the pocket model is, and how to use a real one."""
    return (
        "This is local:pocket, the demonstration model: it knows 100 everyday topics and 200 short facts by heart, "
        "and answers anything else badly or not at all. For real answers set OPENAI_API_KEY or ANTHROPIC_API_KEY, "
        "or use a model of your own:\n"
        "  pip install 'stretto[local]'\n"
        "  stretto ask --model local:FOLDER_OR_HUB_NAME ..."
    )
