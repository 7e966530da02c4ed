"""Options whose value may be left out: ``--trace`` draws on the terminal, ``--trace FILE.html`` writes a page."""

from __future__ import annotations

from collections.abc import Sequence

TRACE_TO = "--trace-to"  # what the value goes to; typer has no option that takes one or none
_ENDINGS = (".html", ".svg")


def spelled_out(words: Sequence[str]) -> list[str]:
    """The command line of ``stretto ask`` with ``--trace FILE`` as ``--trace-to FILE``.

    A word that ends otherwise than such a file is no value of it.
    """
    if list(words[:1]) != ["ask"]:
        return list(words)
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
