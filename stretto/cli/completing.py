"""Fixes for typer's completion: names with a colon in bash, the first TAB in zsh, long descriptions."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from contextlib import suppress

ASKED = "_STRETTO_COMPLETE"
_FIRST_TAB = """

# zsh reads this file at the first TAB, and takes what the file itself does for the answer.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  %(complete_func)s "$@"
fi"""
_taken = [""]  # the text before the cursor that must not be offered again


def prepare(environ: MutableMapping[str, str]) -> None:
    """Prepare for completion requests from a shell, and for the scripts installed into its start-up files."""
    _answer_the_first_tab()
    if ASKED in environ:
        environ["COLUMNS"] = "1000"  # keeps descriptions on one line: fish takes the next line for another completion
    if environ.get(ASKED) == "complete_bash" and "COMP_WORDS" in environ:
        _join_at_colons(environ)


def _answer_the_first_tab() -> None:
    with suppress(ImportError, AttributeError, KeyError):  # a typer version with its scripts elsewhere: TAB twice, then
        from typer import _completion_shared as shared  # noqa: PLC0415 - private, so it may be missing

        script = shared._completion_scripts["zsh"]  # typer has no public access to its scripts
        shared._completion_scripts["zsh"] = script.removesuffix(_FIRST_TAB) + _FIRST_TAB


def _join_at_colons(environ: MutableMapping[str, str]) -> None:
    """Rejoin the words that bash split at colons: it ends a word at each, and replaces only the rest."""
    words, at = _joined(environ["COMP_WORDS"].split("\n"), int(environ.get("COMP_CWORD") or 0))
    if at < len(words):
        before, colon, words[at] = words[at].rpartition(":")
        _taken[0] = before + colon
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(words), str(at)


def completions(names: Sequence[str], incomplete: str) -> list[str]:
    """Return the names that complete the typed text; after a colon that splits words, only the part that follows it."""
    taken = _taken[0]
    return [rest for name in names if name.startswith(taken + incomplete) and (rest := name.removeprefix(taken))]


def _joined(words: Sequence[str], at: int) -> tuple[list[str], int]:
    joined: list[str] = []
    place, glue = at, False
    for index, word in enumerate(words):
        colon = bool(word) and not word.strip(":")
        if joined and (colon or (glue and word)):
            joined[-1] += word
        else:
            joined.append(word)
        glue = colon
        if index == at:
            place = len(joined) - 1
    return joined, place if at < len(words) else len(joined)
