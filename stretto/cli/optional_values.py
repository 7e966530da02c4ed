"""Options whose value may be left out.

``--trace`` draws on the terminal, ``--trace FILE.html`` writes a page. ``--resume`` goes on with the last chat,
``--resume ID`` with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

TRACE_TO = "--trace-to"  # what the values go to; typer has no option that takes one or none
RESUMED = "--resumed"
DRAWN = (".html", ".svg")  # how a file ends that --trace writes
_FILES = (*DRAWN, ".htm", ".pdf", ".png", ".jpg", ".jpeg", ".json")  # and files that somebody may mean: no questions


def spelled_out(words: Sequence[str]) -> list[str]:
    """The command line with ``ask --trace FILE`` as ``--trace-to FILE``, and ``chat --resume ID`` as ``--resumed ID``.

    A word that ends otherwise than such a file is no value of ``--trace``, a word with a dash none of ``--resume``.
    """
    match list(words[:1]):
        case ["ask"]:
            return _spelled(words, "--trace", TRACE_TO, lambda word: word.lower().endswith(_FILES))
        case ["chat"]:
            return _spelled(words, "--resume", RESUMED, lambda word: not word.startswith("-"))
    return list(words)


def _spelled(words: Sequence[str], option: str, with_value: str, is_value: Callable[[str], bool]) -> list[str]:
    spelled: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*spelled, word, *rest]
        if word.startswith(f"{option}="):
            spelled += [with_value, word.removeprefix(f"{option}=")]
        elif spelled and spelled[-1] == option and is_value(word):
            spelled[-1:] = [with_value, word]
        else:
            spelled.append(word)
    return spelled
