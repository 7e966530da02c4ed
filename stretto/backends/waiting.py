"""Whether a wait is worth beginning."""

from __future__ import annotations

import anyio


def why_not_wait(seconds: float, longest_s: float) -> str | None:
    """Say why a wait is not worth beginning; ``None``: it is.

    It is not if it passes the deadline of the calling task, or is longer than anybody would sit through.
    """
    if anyio.current_time() + seconds > anyio.current_effective_deadline():
        return f"the wait of {seconds:.1f} s passes the deadline"
    if seconds > longest_s:
        return f"the wait of {seconds:.1f} s is longer than the {longest_s:g} s allowed"
    return None
