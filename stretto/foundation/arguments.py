"""Checks and display of arguments: unknown names with the closest known one, values without API keys."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ForwardRef, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MOST_THREADS = 1024
"""With many more, OpenMP aborts the process."""

_LONGEST_SHOWN = 60
_VENDOR_KEY = re.compile(
    r"\b(?:sk-|gsk_|xai-|hf_|ghp_|AIza|[Bb]earer\s+)[\w.-]{6,}"
    r"|\b(?:pk|rk|api|key|pat)[-_](?=[\w.-]{0,80}?\d)[\w.-]{8,}"  # words in a name have no digits
)
_HOW_IT_WAS_READ = re.compile(r", unable to (?:parse|interpret) .*$")
_RANDOM = re.compile(r"\b(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{20,}|\b[0-9a-f]{8}(?:-[0-9a-f]{4,12}){3,}")


def looks_like_key(text: str) -> bool:
    """Return whether a text might be an API key: by a vendor's prefix or a long run of letters and digits."""
    return bool(_VENDOR_KEY.search(text) or _RANDOM.search(text))


def begins_like_key(text: str) -> bool:
    """Return whether a text begins with a vendor's API key prefix."""
    return _VENDOR_KEY.match(text) is not None


def safe_repr(value: object) -> str:
    """Format a value for an error message: shortened, or ``[hidden]`` if it might be an API key."""
    try:
        text = repr(value)
    except RecursionError:  # lists nested thousands deep
        return f"[hidden: a {type(value).__name__} that is nested too deeply]"
    if looks_like_key(text):
        return "[hidden: it looks like a key]"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def reason(problem: Mapping[str, Any]) -> str:
    """Return why pydantic rejects a value, from its `ErrorDetails`, as the end of a sentence."""
    if problem["type"] == "extra_forbidden":
        return "there is no such name"
    message = _HOW_IT_WAS_READ.sub("", problem["msg"])
    return message[:1].lower() + message[1:]


def unknown_names(
    given: Iterable[str], known: Iterable[str], where: str, instead: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Return an error message for names that ``where`` does not have, without values; ``None`` if it has all.

    ``instead`` maps names used by other libraries to a sentence.
    """
    there = sorted(known)
    wrong = [name for name in given if name not in there]
    if not wrong:
        return None
    if looks_like_key(wrong[0]):
        return f"{where} was given a name that looks like a key, which is not shown. It takes: {', '.join(there)}."
    nearest = difflib.get_close_matches(wrong[0], there, n=1, cutoff=0.6)
    nearest_name = f"Did you mean {nearest[0]}=?" if nearest else ""
    hint = instead.get(wrong[0], nearest_name)
    return f"{where} has no argument {wrong[0]}=.{' ' if hint else ''}{hint} Its arguments are: {', '.join(there)}."


def expand_kwargs(options: type) -> Callable[[F], F]:
    """Show the keys of a TypedDict as keyword arguments of a function that takes ``**kwargs: Unpack[options]``.

    Type checkers and editors read the TypedDict; this is for ``help()``, IPython and `inspect.signature`.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_written(annotation))
            for name, annotation in options.__annotations__.items()
        ]
        shown_as = signature.replace(parameters=[*own, *keywords])
        function.__signature__ = shown_as  # type: ignore[attr-defined]  # functions have it, but not in their type
        return function

    return decorate


def _written(annotation: object) -> object:
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
