from pathlib import Path

from stretto.local_engine.drafting.catalogue import METHODS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_method_is_documented():
    pages = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("decoding.md", "research.md"))
    assert [name for name in METHODS if f"`{name}`" not in pages] == []
