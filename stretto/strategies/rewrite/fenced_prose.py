"""Distinguishes prose in code fences, such as a letter, a template or a prompt, from code, logs, tables and diagrams.

A fence that names a programming language is never prose. For any other, the content decides: sentences of words, and
hardly a line that looks like code. One that is labelled Markdown or a letter needs no sentences. If in doubt, it is
code, which is copied.
"""

from __future__ import annotations

import re

from stretto.router.given import Change
from stretto.strategies.quality.words import words_of

_EVERYWHERE: frozenset[Change] = frozenset({"translate", "correct", "tone", "simplify", "redact"})
"""Changes that apply to everything a reader reads, wherever it is."""
_NAMES_CODE = re.compile(
    r"```|~~~|back-?ticks?\b|\bfence[sd]?\b|\bsnippets?\b|code|código|codice|kod[uyie]?\b|код|كود|कोड|代[码碼]|コード|코드",
    re.IGNORECASE,
)
_WRITTEN = frozenset({"markdown", "md", "email", "e-mail", "mail", "eml", "letter", "prompt"})
"""Labels of fences that usually contain prose."""
_PLAIN = _WRITTEN | {"", "text", "txt", "plain", "plaintext"}
_JUDGED = 20_000  # characters
_FENCED = re.compile(r"^[ \t]*(?P<mark>`{3,}+|~{3,}+).*\n(?:(?![ \t]*(?P=mark)).*\n)*[ \t]*(?P=mark).*$", re.MULTILINE)
_LINK = re.compile(r"!?\[([^\[\]\n]{0,400})\]\([^()\n]{0,2000}\)")
_ADDRESS = re.compile(r"\bhttps?://\S{1,2000}(?<![.,;:!?)])|\b[\w.+-]{1,80}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,5}")
_LEVEL = r"(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL)\b"
_HOLES = re.compile(
    r"\{\{[^{}\n]{1,80}\}\}|\$?\{[\w.:!#-]{1,60}\}|<[^\W\d][\w .-]{0,40}>|%\(\w{1,60}\)s|%s"
    rf"|\[(?=[^\W\d_])(?!{_LEVEL}|[Yy]/)[^\[\]\n]{{1,60}}\]"
)
"""Placeholders of templates."""
_SIGN = re.compile(
    r"[\u2190-\u21ff\u2500-\u259f|{}\t]|^[ ]*(?:"
    r"[$%] |>>>|\+(?![\d ]*\d)|@\w|//|/\*|\*/|#!|#\w|[\w.\[\]\"']{1,60}[ ]?[-:+*/?]?=|(?:- )?[a-z_][\w.-]*:(?:[ ]|$)"
    rf"|\[?{_LEVEL}|(?:import|def|sudo|npm|npx|pip|git|docker|curl)[ ]|from [\w.]+ import"
    r"|Traceback|File \"|[\w.]*(?:Error|Exception)\b|msg(?:id|str)\b|commit [0-9a-f]{7}|\*\.|\(\w|[\w./*-]+/$"
    r")|[\\(\[]$|\\[a-zA-Z]|=>|->|<-|::|:=|[=!]=|&&|</|/>|\w\((?!(?:s|es|e|n|en|r|in|innen|a|as)\))"
    r"|[\w)\]]=[\w\"'(]|(?<!\S)--[a-zA-Z]|\d\d:\d\d:\d\d|[^\s.!?:,…][ ]{2,}\S|:[ ]{3,}\S|\[[Yy]/[Nn]\]|[^\W\d],[^\W\d]"
)
"""Signs of code: not found in a line of prose once links, addresses and placeholders are removed."""
_COMMENT = re.compile(r"^[ ]*(?:#+|--|;+)[ ].*[.!?:][ ]*$", re.MULTILINE)
"""A sentence after a comment mark; headings end without punctuation."""
_CLAUSE = 5  # words from which a line ending with a semicolon can be prose
_ODD = re.compile(r"[A-Za-z0-9][._/\\:@#$&*+^~][A-Za-z0-9]|[a-z][A-Z]|^[A-Z]{3}")
"""A word that is a path, an identifier, or a command in capitals."""
_END = re.compile(r"[^\W\d_][\"'”’»)*_]{0,3}[.!?…](?![.!?…])(?=[\"'”’»)*_]{0,3}(?:\s|\Z))|[。！？।؟۔]")
_GREETS = re.compile(r"\s*[^\n.]{2,60}[,!，！][ \t]*\n")
_FEW, _SOME = 8, 12  # words of a template, and of any other text
_SENTENCE = 40  # the most words per end of a sentence
_SIGNED = 0.2  # of the lines can have a sign of code
_ODD_WORDS = 0.15


def are_changed(change: Change, task: str) -> bool:
    """Return whether a change applies to prose in fences, too; a task that mentions code may mean to spare it."""
    return change in _EVERYWHERE and not _NAMES_CODE.search(task)


def is_prose(info: str, content: str) -> bool:
    """Return whether the content of a fence is prose.

    Args:
        info: the text after the opening mark.
        content: the lines between its marks, without their common indentation.
    """
    called = next(iter(info.lower().split()), "")
    if called not in _PLAIN:
        return False
    text = _ADDRESS.sub("x", _LINK.sub(r"\1", _FENCED.sub("", content[:_JUDGED])))
    text, holes = _HOLES.subn("x", text)
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    signed = [line for line in lines if _SIGN.search(line) or (line.endswith(";") and len(line.split()) < _CLAUSE)]
    words = text.split()
    odd = [word for word in words if _ODD.search(word)]
    if len(signed) > _SIGNED * len(lines) or len(odd) > _ODD_WORDS * len(words):
        return False
    if called not in _WRITTEN and _COMMENT.search(text):
        return False
    count, ends = len(words_of(text)), len(_END.findall(text))
    if called in _WRITTEN and not ends:  # a template of headings or points
        return count >= _FEW
    if holes or called in _WRITTEN or _GREETS.match(text):
        return count >= _FEW and ends * _SENTENCE >= count
    return count >= _SOME and ends > 1 and ends * _SENTENCE >= count
