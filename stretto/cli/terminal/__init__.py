"""The chat in a whole terminal: points being written side by side, and one text when they are done.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import typer


def fits() -> bool:
    """Whether this chat can have the whole terminal; if not, it goes line by line."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)  # the last is where it is drawn
    if not all(stream is not None and stream.isatty() for stream in streams):
        return False
    dumb = os.environ.get("TERM", "dumb" if os.name == "posix" else "").lower() in ("dumb", "unknown")
    if dumb or os.environ.get("NO_COLOR") or os.environ.get("STRETTO_LOG"):  # records of the log go to the terminal
        return False
    if not (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf"):
        return False
    if find_spec("textual") is None:
        typer.echo("Points side by side need Textual: pip install 'stretto[chat]'. Line by line until then.", err=True)
        return False
    return True
