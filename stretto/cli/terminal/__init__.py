"""The full-screen chat: parts are shown side by side while being written, then as one text.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import typer


def fits() -> bool:
    """Return whether the chat can use the full screen; if not, it runs line by line."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)  # it is drawn on the last one
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    dumb = os.environ.get("TERM", "dumb" if os.name == "posix" else "").lower() in ("dumb", "unknown")
    if dumb or os.environ.get("NO_COLOR") or os.environ.get("STRETTO_LOG"):  # log records go to the terminal
        return False
    if not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf"):
        return False
    if find_spec("textual") is None:
        typer.echo("Points side by side need Textual: pip install 'stretto[chat]'. Line by line until then.", err=True)
        return False
    return True
