"""How many of the words that docling's tests expect in a file are found in it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from stretto.documents import read_document

FILES = Path(__file__).parent / "of_docling"
# What is missing: `H2O`, which docling writes as three words, and cells that span columns, written once.
LEAST = {"formatting.html": 0.95, "html_rich_table_cells.html": 0.97}


def words(text):
    return Counter(re.findall(r"\w+", re.sub("<!--.*?-->", "", text).lower()))


@pytest.mark.usefixtures("forked_parsers")
@pytest.mark.parametrize("file", sorted({*FILES.glob("*.html"), *FILES.glob("*.docx")}), ids=lambda file: file.name)
def test_the_words_of_a_file_are_found(file):
    expected, found = words(Path(f"{file}.md").read_text()), words(read_document(file).text)
    assert (expected & found).total() / expected.total() >= LEAST.get(file.name, 0.99)
