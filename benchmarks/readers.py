"""Share of the expected words that readers of files find: Stretto's, markitdown's, docx2python's and others'.

    pip install 'markitdown[docx]' docx2python html2text   # those that are missing are left out
    python benchmarks/readers.py [FOLDER]

The folder holds files with their expected text in Markdown next to them, as `a.docx` and `a.docx.md`; without one it is
nine of docling's tests. Words are counted as a multiset.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stretto.documents import read_document

FOLDER = Path(__file__).parent.parent / "tests" / "document" / "of_docling"


def words(text: str) -> Counter[str]:
    """The words of a text, without comments of Markdown."""
    return Counter(re.findall(r"\w+", re.sub("<!--.*?-->", "", text).lower()))


def by_markitdown(file: Path) -> str:
    """As Markdown."""
    return str(importlib.import_module("markitdown").MarkItDown().convert(str(file)).text_content)


def by_mammoth(file: Path) -> str:
    """The text alone."""
    with file.open("rb") as data:
        return str(importlib.import_module("mammoth").extract_raw_text(data).value)


def by_docx2python(file: Path) -> str:
    """The text alone."""
    return str(importlib.import_module("docx2python").docx2python(str(file)).text)


def by_html2text(file: Path) -> str:
    """As Markdown."""
    return str(importlib.import_module("html2text").html2text(file.read_text(encoding="utf-8", errors="replace")))


def by_lexbor(file: Path) -> str:
    """The text nodes alone."""
    return str(importlib.import_module("selectolax.lexbor").LexborHTMLParser(file.read_bytes()).text(separator=" "))


READERS: dict[str, dict[str, Callable[[Path], str]]] = {
    "docx": {
        "stretto": lambda file: read_document(file).text,
        "markitdown": by_markitdown,
        "mammoth": by_mammoth,
        "docx2python": by_docx2python,
    },
    "html": {
        "stretto": lambda file: read_document(file).text,
        "markitdown": by_markitdown,
        "html2text": by_html2text,
        "lexbor": by_lexbor,
    },
}


def main(folder: Path) -> None:
    """Print a row for each reader: how many files it finds nearly all words of, how many it does not, and the mean."""
    print("| reader | files | >= 99% | under 90% | mean |\n|---|---|---|---|---|")
    for kind, readers in READERS.items():
        files = [file for file in sorted(folder.glob(f"*.{kind}")) if Path(f"{file}.md").exists()]
        for name, read in readers.items():
            found = []
            try:
                for file in files:
                    expected = words(Path(f"{file}.md").read_text(encoding="utf-8"))
                    found.append((expected & words(read(file))).total() / max(1, expected.total()))
            except ImportError:
                continue
            all_of, few = sum(share >= 0.99 for share in found), sum(share < 0.9 for share in found)
            print(f"| {name} | {len(files)} {kind} | {all_of} | {few} | {sum(found) / max(1, len(found)):.3f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
