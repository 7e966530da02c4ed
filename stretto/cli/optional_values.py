"""Options whose value may be left out: ``--trace`` draws on the terminal, ``--trace FILE.html`` writes a page."""

from __future__ import annotations

from collections.abc import Sequence

TRACE_TO = "--trace-to"  # what the value goes to; typer has no option that takes one or none
_ENDINGS = (".html", ".svg")


def spelled_out(words: Sequence[str]) -> list[str]:
    """The command line with ``--trace FILE`` as ``--trace-to FILE``. A word behind it that ends otherwise is no value."""
    spelled: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*spelled, word, *rest]
        if word.startswith("--trace="):
            spelled += [TRACE_TO, word.removeprefix("--trace=")]
        elif spelled and spelled[-1] == "--trace" and word.lower().endswith(_ENDINGS):
            spelled[-1:] = [TRACE_TO, word]
        else:
            spelled.append(word)
    return spelled
