"""What `docs/architecture.md` names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PLACES = [ROOT / each for each in (".", "stretto", "stretto/local_engine", "stretto/backends/local", "tests")]
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| change", "|---"))]
PATH = re.compile(r"`([\w./-]+(?:/|\.(?:py|toml|md|js)))`")


def missing(text):
    """The paths in a text that are nowhere. A name without a folder may be in one that the text names before it."""
    places, wrong = [*PLACES], []
    for path in PATH.findall(text):
        found = [place / path for place in places if (place / path).exists()]
        wrong += [] if found else [path]
        places += [each if each.is_dir() else each.parent for each in found]
    return wrong


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_path_in_the_table_of_changes_exists(row):
    assert missing(row) == []


def test_every_path_in_the_text_exists():
    assert len(ROWS) > 30
    text = "\n".join(line for line in PAGE.splitlines() if line not in ROWS)
    assert [path for paragraph in re.split(r"\n(?=##)|\n\n", text) for path in missing(paragraph)] == []


def test_a_path_that_is_nowhere_is_found():
    assert missing("`stretto/nowhere.py`, `strategies/runtime/` with `runner.py` and `no.py`") == [
        "stretto/nowhere.py",
        "no.py",
    ]


def test_the_drawings_name_every_folder():
    drawn = " ".join(re.findall(r"^```\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    rooms = [
        each.name
        for package in (ROOT / "stretto", ROOT / "stretto/local_engine")
        for each in package.iterdir()
        if (each / "__init__.py").exists()
    ]
    assert [name for name in rooms if not re.search(rf"\b{name}\b", drawn)] == []
