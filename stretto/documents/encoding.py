"""Decode bytes of unknown encoding."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator

from stretto.values.errors import DocumentError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, with whose byte order mark it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ESCAPED = (b"\x1b$B", b"\x1b$@", b"\x1b(J")  # of ISO-2022-JP, which is ASCII otherwise
_MOSTLY = 2  # UTF-8 characters per invalid byte that make a text faulty UTF-8
_SAMPLE_SIZE = 262_144  # bytes to guess an encoding from, sampled from the whole file
_SAMPLES = 256
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a]")
_HIGH = re.compile(rb"[\x80-\xff]")
_WORDS = re.compile(r"[^\W\d_¹²³¼½¾]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SYMBOLS = frozenset("€‚„…†‡‰‹‘’“”•–—™›¡¢£¥¦§©ª«¬®¯°±²³´µ¶·¸¹º»¼½¾¿×÷\xa0\xad")
_WITHIN_WORDS = frozenset("’‘·–—\xad\xa0")
_OPENING = frozenset("‚„")
_MIXED = re.compile(r"[A-Za-z][\u0370-\u06ff]|[\u0370-\u06ff][A-Za-z]")  # Latin next to Greek, Cyrillic, Hebrew, Arabic
_MOST_MIXED = 0.1  # share of the words beyond ASCII
_FEW_ZEROS = 0.1  # share of the bytes of a text with holes, as logs have after a crash
_LIKELY = 0.9  # share of characters in positions typical of text in Windows-1252
_WESTERN = frozenset({"windows-1252", "iso-8859-1", "iso8859-15", "iso-8859-15"})
# What outweighs that a text looks Western: chardet's confidence (0.5 for a clear Russian text), its lead over
# Windows-1252, and the number of words beyond ASCII.
_OUTWEIGHS = ((0.14, 1.15, 4), (0.07, 1.8, 2))
_SURE = 0.05  # enough for a text that does not look Western


def decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    r"""Decode bytes, and return the text with warnings: that its encoding was guessed, or that it has faults.

    UTF-8 if nearly all of it is; invalid bytes then become U+FFFD. Otherwise Windows-1252, unless another encoding is
    clearly more likely. Line ends become ``\n``. Raises `DocumentError` if it is not text.
    """
    name, mark, guessed = _named(data)
    if guessed and (holed := _with_holes(data)) is not None:
        text, name, guessed = holed, "utf-8", False
    elif name is None:
        try:
            text, name = data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, name, guessed = _unmarked(data)
    else:
        text = data[len(mark) :].decode(name, errors="replace")
    if "\0" in text:
        raise DocumentError("it is binary data, not text")
    shown = "Windows-1252" if name == "cp1252" else name
    warnings = (f"which is not UTF-8, the encoding was guessed: {shown}.",) if guessed else ()
    return text.replace("\r\n", "\n").replace("\r", "\n"), warnings + with_replacements(text)


def with_replacements(text: str) -> tuple[str, ...]:
    """Return a warning about the replacement characters of a text, if there are any."""
    if not (count := text.count("\ufffd")):
        return ()
    which = "1 character could" if count == 1 else f"{count:,} characters could"
    return (f"{which} not be read: U+FFFD replaces {'it' if count == 1 else 'them'} in the text.",)


def _named(data: bytes) -> tuple[str | None, bytes, bool]:
    """Return the encoding shown by a byte order mark, escapes or zeros; the mark; and whether it is still a guess."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name, mark, False
    if any(escape in data for escape in _ESCAPED) and not _HIGH.search(data):
        return "iso2022_jp", b"", True
    if b"\0" in data:
        return _without_mark(data), b"", True
    return None, b"", False


def _without_mark(data: bytes) -> str | None:
    """Detect UTF-16 or UTF-32 without a mark: the zeros of its ASCII characters are in the same positions."""
    # A few zeros in a text with one byte per letter. Russian in UTF-16 is ASCII too, but half of it control characters.
    if data.isascii() and 4 * data.count(0) < len(data) and not _CONTROLS.search(data):
        return None
    zeros = [data[place::4].count(0) for place in range(4)]
    likely = {
        "utf-32-le": zeros[0] == 0 and min(zeros[2:]) > 0,
        "utf-32-be": zeros[3] == 0 and min(zeros[:2]) > 0,
        "utf-16-le": zeros[1] + zeros[3] > 4 * (zeros[0] + zeros[2]),
        "utf-16-be": zeros[0] + zeros[2] > 4 * (zeros[1] + zeros[3]),
    }
    for name, fits in likely.items():
        width = 4 if "32" in name else 2
        if not fits:
            continue
        try:
            letters = set(data[: len(data) // width * width].decode(name))
        except UnicodeDecodeError:
            continue
        if all(each in "\t\n\r\f" or unicodedata.category(each) not in {"Cc", "Cn", "Co"} for each in letters):
            return name
    return None


def _with_holes(data: bytes) -> str | None:
    """Decode UTF-8 with zeros, which become U+FFFD; ``None`` if it is not UTF-8, or has too many."""
    if not 0 < data.count(0) <= _FEW_ZEROS * len(data) or _CONTROLS.search(data):
        return None
    try:
        return data.decode("utf-8").replace("\0", "\ufffd")
    except UnicodeDecodeError:
        return None


def _unmarked(data: bytes) -> tuple[str, str, bool]:
    """Return the text of bytes that are not all UTF-8, its encoding, and whether that is a guess."""
    text = data.decode("utf-8", errors="replace")
    faults = text.count("\ufffd")
    others = len(text) - len(text.encode("ascii", errors="ignore")) - faults
    if others >= _MOSTLY * faults:
        return text, "utf-8", False
    from chardet import detect_all  # noqa: PLC0415 - most texts are UTF-8

    sample = b"\n".join(_samples(data))
    found = [
        (each["encoding"], each["confidence"] or 0.0)
        for each in detect_all(sample, max_bytes=len(sample), ignore_threshold=True)
        if each["encoding"] is not None
    ]
    name = _likelier(sample, found)
    return data.decode(name, errors="replace"), name, True


def _samples(data: bytes) -> Iterator[bytes]:
    """Yield the non-ASCII passages of the whole text, cut at white space."""
    if len(data) <= _SAMPLE_SIZE:
        yield data
        return
    step = len(data) // _SAMPLES
    room = _SAMPLE_SIZE // _SAMPLES
    for start in range(0, len(data), step):
        if found := _HIGH.search(data, start, start + step):
            near = data[max(0, found.start() - room // 2) : found.start() + room // 2]
            yield near.partition(b" ")[2].rpartition(b" ")[0] or near


def _likelier(sample: bytes, found: list[tuple[str, float]]) -> str:
    """Return Windows-1252, by far the likeliest for mostly ASCII text, or what was found if it is clearly better.

    ``found``: the encodings that chardet suggests, likeliest first.
    """
    western = sample.decode("cp1252", errors="replace")
    found = [each for each in found if not _mixes_scripts(sample, each[0])]
    best, sure = found[0] if found else ("windows-1252", 0.0)
    of_western = max((each for name, each in found if name.lower() in _WESTERN), default=0.0)
    if best.lower() in _WESTERN:
        return "iso8859-15" if "¤" in western and not re.search("[\x80-\x9f€-™]", western) else "cp1252"
    likely, words = _likely_western(western)
    if likely >= _LIKELY:
        clearly = any(sure >= low and sure >= lead * of_western and words >= few for low, lead, few in _OUTWEIGHS)
    else:
        clearly = sure >= _SURE and sure > of_western
    return best if clearly else "cp1252"


def _mixes_scripts(sample: bytes, name: str) -> bool:
    """Return whether words of the text would mix two scripts in this encoding, as Italian does in Cyrillic ones."""
    text = sample.decode(name, errors="replace")
    words = [word for word in _WORDS.findall(text) if not word.isascii()]
    return sum(bool(_MIXED.search(word)) for word in words) > _MOST_MIXED * len(words)


def _likely_western(text: str) -> tuple[float, int]:
    """Return the share of non-ASCII characters in positions typical of Western texts, and how many words have any."""
    total = misplaced = words = 0
    end = 0
    for word in _WORDS.finditer(text):
        letters = word[0]
        others = len(_NOT_ASCII.findall(letters))
        if others:
            words += 1
            total += others
            # Western words are mostly ASCII letters, and have no capital after a lower-case letter.
            strange = re.search(r"[^\x00-\x7f]{3}", letters) or (others > 1 and 2 * others > len(letters) + 1)
            misplaced += others if strange or re.search(r"[a-z][À-ÖØ-ÞŠŽŒŸ]", letters) else 0
        gap = text[end : word.start()]
        inside = end > 0 and not gap.isascii() and not re.search(r"\s", gap)
        for sign in _NOT_ASCII.findall(gap):
            total += 1
            alone = len(gap) == 1 or sign in _OPENING
            misplaced += sign not in _SYMBOLS or (inside and alone and sign not in _WITHIN_WORDS)
        end = word.end()
    rest = _NOT_ASCII.findall(text[end:])
    total += len(rest)
    misplaced += sum(sign not in _SYMBOLS for sign in rest)
    return (1 - misplaced / total if total else 1.0), words
