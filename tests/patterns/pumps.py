"""Texts on which a backtracking matcher may need more than linear time, made from the pattern itself.

Time beyond linear comes from a repeat that can be entered in many places of one run, or from two repeats that share a
run. So each repeat of the pattern is pumped: what may come before it, its body many times, and an end that fails. The
two that share a run need no thought: the run of one is a run of the other.
"""

from __future__ import annotations

import _sre
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from re import _compiler
from re import _constants as C  # noqa: N812 - the names of the parser's own nodes
from re import _parser as parser

# One of each kind of character that patterns speak of.
_KINDS = " \t\n\r#*_-=+~`'\"“”„«»「」()[]{}<>|\\/.,;:!?@$%&0197aAzZéßЖ中的あ각ا١।、。：\0"
_FIXED = (
    *_KINDS,
    *(
        "a ",
        "A ",
        "1 ",
        "a, ",
        "a\n",
        "\n ",
        "\n\n",
        " \n",
        "# ",
        "- ",
        "1. ",
        "a1",
        "aA",
        "中a",
        "中 ",
        "中1",
        "的 ",
        "각 ",
    ),
    *(
        "[1",
        "[1,",
        "[ ",
        "(a",
        '{"a":',
        '"a',
        "“a",
        "**a",
        "a: ",
        "a | ",
        "`` ",
        '\\"',
        "\\u00",
        "<a",
        "</",
        "a-",
        "a.a",
        "1,",
    ),
)
_MANY = 30  # repeats of at most so many cannot be pumped
_SAMPLES = 4


def text_of(shape: tuple[str, str, str], size: int) -> str:
    """A text of about this many characters."""
    before, body, behind = shape
    return before + body * max(1, (size - len(before) - len(behind)) // len(body)) + behind


def shapes(pattern: re.Pattern) -> Iterator[tuple[str, str, str]]:
    """What texts that may take long are made of: a beginning, what is repeated, and an end."""
    seen: set[tuple[str, str, str]] = set()

    def fresh(*shapes: tuple[str, str, str]) -> Iterator[tuple[str, str, str]]:
        for shape in shapes:
            if shape[1] and shape not in seen:
                seen.add(shape)
                yield shape

    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    pumped = list(islice(dict.fromkeys(_pumped(list(tree), "", pattern.flags)), 120))
    for before, body in pumped:
        yield from fresh(("", body, "\0"), (before, body, "\0"), ("", before + body, "\0"))
    for body in _FIXED:
        yield from fresh(("", body, "\0"))
    for before, body in pumped:
        for behind in ("\0", "", "a\0", "\n\0"):
            yield from fresh((before, body, behind))
        yield from fresh(("", body, "\0"), ("", before + body, "\0"), ("", before, "\0"), ("", body + "\n", "\0"))
        yield from fresh((before, body + " ", "\0"), (before, before + body, "\0"))
    for body in _FIXED:
        yield from fresh(("", body, "\0"), ("a", body, "b"), ("\n", body, ""))
    for sample in islice(_samples(list(tree), pattern.flags), _SAMPLES):
        yield from fresh(("", sample, "\0"), ("", sample[:-1], "\0"), ("", sample + " ", "\0"))


def _pumped(nodes: list, before: str, flags: int) -> Iterator[tuple[str, str]]:
    """For each repeat: a text that leads to it, and one for its body."""
    for operator, argument in nodes:
        if operator in {C.MAX_REPEAT, C.MIN_REPEAT, C.POSSESSIVE_REPEAT}:
            _, most, inner = argument
            bodies = list(islice(_samples(list(inner), flags, several=True), 2 * _SAMPLES))
            if most > _MANY:
                for body in bodies:
                    yield before, body
            yield from _pumped(list(inner), before, flags)
        elif operator is C.BRANCH:
            for branch in argument[1]:
                yield from _pumped(list(branch), before, flags)
        else:
            for inner in _inside(operator, argument):
                yield from _pumped(inner, before, flags)
        before += next(_samples([(operator, argument)], flags), "")


def _inside(operator: object, argument: object) -> Iterable[list]:
    if operator is C.SUBPATTERN:
        return [list(argument[3])]
    if operator in {C.ASSERT, C.ASSERT_NOT}:
        return [list(argument[1])]
    if operator is C.ATOMIC_GROUP:
        return [list(argument)]
    if operator is C.GROUPREF_EXISTS:
        return [list(each) for each in argument[1:] if each is not None]
    return []


def _samples(nodes: list, flags: int, *, several: bool = False) -> Iterator[str]:
    """Texts that these nodes match, as far as lookaround allows; repeats as short as they may be, but not empty."""
    if not nodes:
        yield ""
        return
    operator, argument = nodes[0]
    firsts: Iterable[str]
    if operator is C.LITERAL:
        firsts = [chr(argument)]
    elif operator in {C.IN, C.NOT_LITERAL, C.ANY, C.CATEGORY}:
        found = _matched(operator, tuple(argument) if operator is C.IN else argument, flags)
        firsts = found[: 2 * _SAMPLES if several else 2] or [""]
    elif operator in {C.MAX_REPEAT, C.MIN_REPEAT, C.POSSESSIVE_REPEAT}:
        least, most, inner = argument
        count = max(least, 1 if most else 0)
        firsts = [each * count for each in islice(_samples(list(inner), flags, several=several), _SAMPLES)]
    elif operator is C.BRANCH:
        firsts = [each for branch in argument[1][:_SAMPLES] for each in islice(_samples(list(branch), flags), 2)]
    elif operator is C.SUBPATTERN:
        firsts = list(islice(_samples(list(argument[3]), flags, several=several), _SAMPLES))
    elif operator is C.ATOMIC_GROUP:
        firsts = list(islice(_samples(list(argument), flags, several=several), _SAMPLES))
    else:  # a place, lookaround, or a reference back
        firsts = [""]
    for first in firsts:
        yield first + next(_samples(nodes[1:], flags), "")


def _characters(node: tuple) -> Iterator[str]:
    operator, argument = node
    if operator is C.IN:
        for kind, value in argument:
            if kind is C.LITERAL:
                yield chr(value)
            elif kind is C.RANGE:
                yield chr(value[0])
    yield from "a 1.中A-\n#" + _KINDS


@cache  # compiling each of them anew for every text took nearly all of the time
def _matched(operator: object, argument: object, flags: int) -> tuple[str, ...]:
    """The characters that such a node matches."""
    node, state = (operator, argument), parser.State()
    state.flags, state.str = flags, ""
    code = _compiler._code(parser.SubPattern(state, [node]), flags)
    matches = _sre.compile("", flags, code, 0, {}, (None,)).match
    return tuple(filter(matches, _characters(node)))
