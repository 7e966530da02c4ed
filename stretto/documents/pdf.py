"""PDF files, read with PDFium: the text of each page, form values and notes, and the outline as headings."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from stretto.documents.columns import in_columns
from stretto.documents.layout import MOST_CHARACTERS
from stretto.values.document import Document, Heading
from stretto.values.errors import DocumentError

MOST_PAGES = 20_000
_MOST_NAMED = 20  # pages in a warning
_MOST_ENTRIES = 50_000  # of an outline
_MOST_MARKS = 10_000  # fields and notes of a page
_DEEPEST = 8  # levels of an outline
_FEW = 200  # characters on a page that is otherwise a picture: a stamp, a number
_MOST_OF_IT = 0.5  # of the area of a page
_HIDDEN = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW
_PASSWORD = 1 << 13  # a flag of a text field
_TICKED = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
_CHOSEN = (pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
_NEAR = 3.0  # points by which a label can overlap its field
_FAR = 250.0  # points beyond which a text is not a label
_SMALLER, _RAISED = 0.85, 0.1  # size and elevation of a superscript number, as shares of the type height
_NUMBERS = re.compile(r"\d[\d,.]{0,20}[-\u2212\u2013+]?\d{1,20}")
_BROKEN = re.compile(r"[\x02\ufffe]\s*(\S?)")  # PDFium's character for a hyphen at the end of a line


def read_pdf(data: bytes, title: str) -> Document:
    """Return the text of a PDF, page by page. Field values are next to their labels, notes below their page.

    Words hyphenated at the end of a line are joined, and columns follow one another. Pages without text, or with a
    stamp on a scan, are named in a warning. Raises `DocumentError` for a file that is encrypted, broken or without
    text.
    """
    opened = _opened(data)
    try:
        if opened.get_formtype() != pdfium.FORMTYPE_NONE:
            opened.init_forms()
        parts: list[str] = []
        starts: list[int] = []
        unread: list[int] = []
        pictures: list[int] = []
        length = 0
        for number in range(len(opened)):
            starts.append(length)
            part = _page(opened, number)
            if not part:
                unread.append(number + 1)
                continue
            if len(part) < _FEW and _is_picture(opened, number):
                pictures.append(number + 1)
            parts.append(f"{part}\n\n")
            length += len(parts[-1])
            if length > MOST_CHARACTERS:
                raise DocumentError(f"its text is longer than {MOST_CHARACTERS:,} characters; split it")
        if not parts:
            raise DocumentError(
                "it holds no text that can be read, only pictures perhaps; run text recognition on it first"
            )
        named = " ".join(opened.get_metadata_value("Title").split())
        named = "" if named.lower() == "untitled" else named
        headings = tuple(_headings(opened, starts, length))
        warnings = _warnings(unread, pictures, opened.get_formtype())
    finally:
        opened.close()
    text = "".join(parts)
    return Document(
        text=text,
        title=named or title,
        pages=tuple(starts),
        headings=headings,
        unread_pages=tuple(unread),
        warnings=warnings,
    )


def _opened(data: bytes) -> pypdfium2.PdfDocument:
    try:
        opened = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if pdfium.FPDF_GetLastError() == pdfium.FPDF_ERR_PASSWORD or "password" in str(error).lower():
            raise DocumentError("it is locked, and needs a password; save it without one") from error
        raise DocumentError("it cannot be read as a PDF: it is broken, or none") from error
    if len(opened) > MOST_PAGES:
        raise DocumentError(f"it has {len(opened):,} pages, and {MOST_PAGES:,} are the most; split it")
    return opened


def _warnings(unread: list[int], pictures: list[int], form: int) -> tuple[str, ...]:
    warnings: list[str] = []
    if unread:
        were = "were" if len(unread) > 1 else "was"
        warnings.append(f"{_named(unread)} {were} left out: no text could be read there.")
    if pictures:
        are = "are pictures" if len(pictures) > 1 else "is a picture"
        warnings.append(f"{_named(pictures)} {are} with few words on it: what the picture holds could not be read.")
    if form in {pdfium.FORMTYPE_XFA_FULL, pdfium.FORMTYPE_XFA_FOREGROUND}:
        warnings.append("the form is made with XFA: what was filled in may be missing. Print it to a PDF to read it.")
    return tuple(warnings)


def _named(pages: list[int]) -> str:
    named = ", ".join(map(str, pages[:_MOST_NAMED])) + (" and more" if len(pages) > _MOST_NAMED else "")
    return f"pages {named}" if len(pages) > 1 else f"page {named}"


def _is_picture(opened: pypdfium2.PdfDocument, number: int) -> bool:
    """Return whether one picture covers most of a page, as in a scan."""
    page = opened[number]
    try:
        for at in range(min(pdfium.FPDFPage_CountObjects(page.raw), _MOST_MARKS)):
            thing = pdfium.FPDFPage_GetObject(page.raw, at)
            left, bottom, right, top = (ctypes.c_float() for _ in range(4))
            if pdfium.FPDFPageObj_GetType(thing) != pdfium.FPDF_PAGEOBJ_IMAGE:
                continue
            if not pdfium.FPDFPageObj_GetBounds(thing, left, bottom, right, top):
                continue
            if (right.value - left.value) * (top.value - bottom.value) > _MOST_OF_IT * math.prod(page.get_size()):
                return True
        return False
    finally:
        page.close()


def _page(opened: pypdfium2.PdfDocument, number: int) -> str:
    """Return the text of a page; empty if it cannot be read."""
    try:
        page = opened[number]
    except pypdfium2.PdfiumError:
        return ""
    try:
        written = page.get_textpage()
    except pypdfium2.PdfiumError:
        page.close()
        return ""
    try:
        fields, notes = _marks(opened, page)
        letters = _letters(written)
        text = _with_fields(written.raw, letters, fields) if fields else in_columns(letters, partial(_box, written))
        text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
        text = _BROKEN.sub(lambda found: ("" if found[1].islower() else "-") + found[1], text)
        return "\n\n".join(part for part in (text.strip(), *notes) if part)
    finally:
        written.close()
        page.close()


@dataclass(frozen=True, slots=True)
class _Field:
    """A filled form field, and its position on the page."""

    value: str
    name: str
    ticked: bool
    left: float
    right: float
    bottom: float
    top: float


def _marks(opened: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> tuple[list[_Field], list[str]]:
    """Return the fields of a page with their values, and the texts of its notes."""
    fields: list[_Field] = []
    notes: list[str] = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), _MOST_MARKS)):
        if not (mark := pdfium.FPDFPage_GetAnnot(page.raw, index)):
            continue
        kind = pdfium.FPDFAnnot_GetSubtype(mark)
        if pdfium.FPDFAnnot_GetFlags(mark) & _HIDDEN:
            pass
        elif kind == pdfium.FPDF_ANNOT_WIDGET:
            if opened.formenv is not None and (field := _field(opened.formenv.raw, mark)) is not None:
                fields.append(field)
        elif kind not in {pdfium.FPDF_ANNOT_LINK, pdfium.FPDF_ANNOT_POPUP} and (
            note := _string(lambda *room: pdfium.FPDFAnnot_GetStringValue(mark, b"Contents", *room)).strip()
        ):
            notes.append(note if kind == pdfium.FPDF_ANNOT_FREETEXT else f"[Note: {note}]")
        pdfium.FPDFPage_CloseAnnot(mark)
    return fields, notes


def _field(form: Any, mark: Any) -> _Field | None:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form, mark)
    ticked = kind in _TICKED
    if ticked:
        value = "[x]" if pdfium.FPDFAnnot_IsChecked(form, mark) else "[ ]"
    elif kind == pdfium.FPDF_FORMFIELD_TEXTFIELD:
        if pdfium.FPDFAnnot_GetFormFieldFlags(form, mark) & _PASSWORD:
            return None
        value = _string(lambda *room: pdfium.FPDFAnnot_GetFormFieldValue(form, mark, *room))
    elif kind in _CHOSEN:
        chosen = [
            _string(lambda *room, at=at: pdfium.FPDFAnnot_GetOptionLabel(form, mark, at, *room))
            for at in range(min(pdfium.FPDFAnnot_GetOptionCount(form, mark), _MOST_MARKS))
            if pdfium.FPDFAnnot_IsOptionSelected(form, mark, at)
        ]
        value = ", ".join(chosen) or _string(lambda *room: pdfium.FPDFAnnot_GetFormFieldValue(form, mark, *room))
    else:
        return None
    place = pdfium.FS_RECTF()
    if not value.strip() or not pdfium.FPDFAnnot_GetRect(mark, place):
        return None
    name = _string(lambda *room: pdfium.FPDFAnnot_GetFormFieldAlternateName(form, mark, *room)) or _string(
        lambda *room: pdfium.FPDFAnnot_GetFormFieldName(form, mark, *room)
    )
    value = " ".join(value.split())
    return _Field(value, name.strip(), ticked, place.left, place.right, place.bottom, place.top)


def _string(get: Callable[..., int]) -> str:
    """Return a text that PDFium writes as UTF-16 into a buffer, after reporting the size it needs."""
    size = get(None, 0)
    if size <= 2:  # only the terminator
        return ""
    room = (ctypes.c_ushort * (size // 2 + 1))()
    get(room, size)
    return bytes(room)[: size - 2].decode("utf-16-le", errors="replace").replace("\0", "")


@dataclass(frozen=True, slots=True)
class _Sign:
    index: int
    left: float
    right: float
    bottom: float
    top: float


def _letters(written: pypdfium2.PdfTextPage) -> list[str]:
    """Return the characters of a page, with ``^`` before a superscript number that would merge with the one before."""
    letters = list(written.get_text_range())
    if len(letters) != (count := pdfium.FPDFText_CountChars(written.raw)):
        letters = [chr(pdfium.FPDFText_GetUnicode(written.raw, at)) for at in range(count)]
    for found in _NUMBERS.finditer("".join(letters)):
        base, end = found.start(), found.end()
        if (number := _box(written, base)) is None or not _is_raised(_box(written, end - 1), number):
            continue
        at = next(at for at in range(base, end) if _is_raised(_box(written, at), number))
        letters[at] = f"^{letters[at]}"
        after = end
        while letters[after : after + 1] and letters[after] in "\r\n":
            after += 1
        following = _box(written, after) if end < after < len(letters) else None
        if following is not None and abs(following.bottom - number.bottom) < _RAISED * (number.top - number.bottom):
            letters[end:after] = [""] * (after - end)  # PDFium treats what follows as another line
    return letters


def _box(written: pypdfium2.PdfTextPage, at: int) -> Any:
    """Return the box of a character, from the descent of its font to the ascent."""
    box = pdfium.FS_RECTF()
    return box if pdfium.FPDFText_GetLooseCharBox(written.raw, at, box) else None


def _is_raised(box: Any, base: Any) -> bool:
    """Return whether a character is higher than another one, in smaller type."""
    height = base.top - base.bottom
    return box is not None and box.top - box.bottom < _SMALLER * height and box.bottom > base.bottom + _RAISED * height


def _with_fields(written: Any, letters: list[str], fields: list[_Field]) -> str:
    """Return the text of a page with each field's value next to its label, or below the text with the field's name."""
    signs = []
    for index, letter in enumerate(letters):
        left, right, bottom, top = (ctypes.c_double() for _ in range(4))
        if letter.strip() and pdfium.FPDFText_GetCharBox(written, index, left, right, bottom, top):
            signs.append(_Sign(index, left.value, right.value, bottom.value, top.value))
    after: dict[int, list[str]] = {}
    before: dict[int, list[str]] = {}
    below: list[str] = []
    for field in sorted(fields, key=lambda each: (-each.top, each.left)):
        place, is_after = _label_place(field, signs)
        if place is None:
            below.append(f"{field.name}: {field.value}" if field.name else field.value)
        elif is_after:
            while letters[place + 1 : place + 2] and letters[place + 1].strip():
                place += 1  # to the end of the word
            after.setdefault(place, []).append(f" {field.value}")
        else:
            while place > 0 and letters[place - 1].strip():
                place -= 1
            before.setdefault(place, []).append(f"{field.value} ")
    pieces = ("".join((*before.get(at, ()), letter, *after.get(at, ()))) for at, letter in enumerate(letters))
    return "\n".join(("".join(pieces).rstrip(), *below))


def _label_place(field: _Field, signs: list[_Sign]) -> tuple[int | None, bool]:
    """Return the character that a field is next to, and whether the field comes after it.

    A label is left of its field on the same line; for a checkbox, left or right, whichever is nearer; or else above.
    """
    middle = (field.bottom + field.top) / 2
    on_line = [sign for sign in signs if sign.bottom <= middle + _NEAR and sign.top >= middle - _NEAR]
    left = max(
        (sign for sign in on_line if sign.right <= field.left + _NEAR), key=lambda sign: sign.right, default=None
    )
    right = min(
        (sign for sign in on_line if sign.left >= field.right - _NEAR), key=lambda sign: sign.left, default=None
    )
    to_left = _FAR if left is None else field.left - left.right
    to_right = _FAR if right is None or not field.ticked else right.left - field.right
    if right is not None and to_right < min(to_left, _FAR):
        return right.index, False
    if left is not None and to_left < _FAR:
        return left.index, True
    above = [
        sign for sign in signs if sign.bottom >= field.top - _NEAR and field.left - _NEAR <= sign.left <= field.right
    ]
    if not above:
        return None, True
    lowest = min(sign.bottom for sign in above)
    if lowest - field.top > field.top - field.bottom + 2 * _NEAR:
        return None, True
    return max((sign for sign in above if sign.bottom <= lowest + 2 * _NEAR), key=lambda sign: sign.right).index, True


def _headings(opened: pypdfium2.PdfDocument, pages: list[int], length: int) -> Iterator[Heading]:
    """Yield the headings of the outline; an entry is at the beginning of its page."""
    found: list[tuple[int, int, str]] = []
    for entry in opened.get_toc(max_depth=_DEEPEST):
        destination = entry.get_dest()
        number = None if destination is None else destination.get_index()
        if number is not None and 0 <= number < len(pages):
            found.append((pages[number], entry.level + 1, " ".join(entry.get_title().split())))
        if len(found) >= _MOST_ENTRIES:
            break
    for offset, level, text in sorted(found, key=lambda each: each[0]):
        if text and offset < length:
            yield Heading(offset=offset, level=level, text=text)
