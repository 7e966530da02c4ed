"""Completion of names that hold a colon: bash takes one for the end of a word, and hands over and replaces the rest."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

_BASH = "complete_bash"
_taken = [""]  # what stands before the cursor already and must not be offered again


def join_at_colons(environ: MutableMapping[str, str], asked: str = "_STRETTO_COMPLETE") -> None:
    """Put together, where bash asks for completions, the words that it took apart at colons."""
    if environ.get(asked) != _BASH or "COMP_WORDS" not in environ:
        return
    words, at = _joined(environ["COMP_WORDS"].split("\n"), int(environ.get("COMP_CWORD") or 0))
    if at < len(words):
        before, colon, words[at] = words[at].rpartition(":")
        _taken[0] = before + colon
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(words), str(at)


def completions(names: Sequence[str], incomplete: str) -> list[str]:
    """How these names go on from what was typed; behind a colon that the shell stands at, only what follows it."""
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
