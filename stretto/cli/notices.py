"""What is said in more than one place."""

from __future__ import annotations


def demonstration() -> str:
    """What the pocket model is, and how to use a real one."""
    return (
        "This is local:pocket, the demonstration model. It knows 100 everyday topics and 200 short facts by heart;\n"
        "asked anything else, it says so or answers badly. For real answers:\n"
        "  set OPENAI_API_KEY or ANTHROPIC_API_KEY, or\n"
        "  pip install 'stretto[local]', then stretto ask --model local:FOLDER_OR_HUB_NAME ..."
    )
