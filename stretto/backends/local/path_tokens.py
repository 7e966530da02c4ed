"""The tokens of a prompt whose last turn holds paths that were written side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from stretto.backends.base import ModelRequest
from stretto.local_engine.generation import JoinedPaths

__all__ = ["tokens_with_paths"]

_Ids = tuple[int, ...]


def tokens_with_paths(
    prompt: ModelRequest, encode: Callable[[ModelRequest], _Ids]
) -> tuple[_Ids, tuple[JoinedPaths, ...]]:
    """The tokens of a prompt, and where its paths are in them.

    A token that reaches over the beginning of a path, as ``>`` with the new line behind it, belongs to what is before.
    """
    ids, joined = encode(prompt), list[JoinedPaths]()
    for fork in prompt.paths:
        ends = [_tokens_before(end, prompt, ids, encode) for end in (fork.begin, *fork.ends)]
        lengths = tuple(end - begin for begin, end in pairwise(ends))
        if not lengths or min(lengths) < 1 or ends[-1] >= len(ids):
            return ids, ()
        joined.append(JoinedPaths(ends[0], lengths, fork.beside))
    return ids, tuple(joined)


def _tokens_before(at: int, prompt: ModelRequest, ids: _Ids, encode: Callable[[ModelRequest], _Ids]) -> int:
    """How many tokens begin before a character of the last turn."""
    last = prompt.messages[-1]
    cut = last.model_copy(update={"content": last.content[:at]})
    before = encode(replace(prompt, messages=(*prompt.messages[:-1], cut)))
    same = next((place for place, pair in enumerate(zip(before, ids, strict=False)) if pair[0] != pair[1]), len(before))
    return same + (same < len(before))
