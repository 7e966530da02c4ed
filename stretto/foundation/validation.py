"""What pydantic refuses, in one line for a person."""

from __future__ import annotations

from pydantic import ValidationError

from stretto.errors import StrettoError
from stretto.foundation.arguments import looks_like_key, reason, shown

__all__ = ["explained"]


def explained(error: ValidationError, within: str = "") -> str:
    """The first thing that was found, without keys; ``within`` stands before the name."""
    first = error.errors()[0]
    if isinstance(cause := first.get("ctx", {}).get("error"), StrettoError):
        return str(cause)
    parts = (str(part) for part in first["loc"])
    name = ".".join("[hidden]" if looks_like_key(part) else part for part in parts) or "request"
    return f"{within}{name}={shown(first.get('input'))} cannot be used: {reason(first)}."
