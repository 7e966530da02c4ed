"""The parts of a Word file, their relationships, and access to their elements.

Elements and attributes are matched by name without namespace, so files in the Strict format read like others.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from typing import Any
from urllib.parse import unquote

from lxml import etree

from stretto.values.errors import DocumentError

_MOST_UNPACKED = 256 * 2**20  # bytes of all parts together
_HIGHEST_RATIO = 200  # of unpacked to packed bytes; that of text is below 20
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # begins files of Word before 2007, and encrypted ones
_MOST_PARTS = 10_000


def opened(data: bytes) -> WordPackage:
    """Open the bytes of a Word file. Raises `DocumentError` if they are not one."""
    if data.startswith(_OLD):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DocumentError("it is locked with a password; save it without one")
        raise DocumentError("it is a file of Word before 2007; save it as .docx")
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        unpacked = sum(part.file_size for part in archive.infolist())
        if unpacked > _MOST_UNPACKED or unpacked > _HIGHEST_RATIO * max(len(data), 2**16):
            raise DocumentError(
                f"it unpacks from {len(data):,} to {unpacked:,} bytes, far more than a text does; it is not opened"
            )
        return WordPackage(archive)
    except (zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        raise DocumentError("it cannot be read as a Word file: it is no ZIP archive") from error


class WordPackage:
    """The parts of a Word file, and their relationships."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._names = {name.lower(): name for name in archive.namelist()}
        self.unread: set[str] = set()
        of_package = self.related("")
        self.main = next(
            (target for kind, target in of_package.values() if kind == "officeDocument"), "word/document.xml"
        )
        self._core = next((target for kind, target in of_package.values() if kind == "core-properties"), "")
        if self.part(self.main) is None:
            raise DocumentError("it cannot be read as a Word file: it has no part with a text")

    def title(self) -> str:
        """Return the title from the properties, if there are any."""
        core = self.part(self._core)
        found = None if core is None else next(core.iter("{*}title"), None)
        return " ".join((found.text or "").split()) if found is not None else ""

    def bytes_of(self, name: str) -> bytes | None:
        """Return a part as it is stored; ``None`` if it does not exist."""
        known = self._names.get(name.lower())
        return None if known is None else self._archive.read(known)

    def part(self, name: str) -> Any:
        """Return the XML of a part; ``None`` if it does not exist."""
        if not name or (data := self.bytes_of(name)) is None:
            return None
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
        root = etree.fromstring(data, parser)
        if root.getroottree().docinfo.doctype:
            raise DocumentError("it cannot be read as a Word file: a part of it defines entities")
        return root

    def related(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the relationships of a part by id: the kind, and the name of a part or a URL."""
        folder, _, own = name.rpartition("/")
        root = self.part(posixpath.join(folder, "_rels", f"{own}.rels"))
        found = {}
        for each in () if root is None else list(root.iterchildren("*"))[:_MOST_PARTS]:
            target = unquote(each.get("Target") or "")
            if each.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[each.get("Id") or ""] = (each.get("Type") or "").rpartition("/")[2], target
        return found


def value_of(element: Any, name: str) -> str | None:
    """Return the attribute ``val`` of a child; ``None`` without such a child."""
    for child in element.iterchildren(f"{{*}}{name}"):
        return attribute_of(child, "val")
    return None


def attribute_of(element: Any, name: str) -> str:
    """Return an attribute, whatever its namespace."""
    for key, value in element.attrib.items():
        if str(key).rpartition("}")[2] == name:
            return str(value)
    return ""


def integer(value: str | None, otherwise: int) -> int:
    """Parse a non-negative integer; return ``otherwise`` if the text is not one."""
    return int(value) if value and re.fullmatch(r"\d{1,9}", value) else otherwise


def name_of(element: Any) -> str:
    """Return the name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]
