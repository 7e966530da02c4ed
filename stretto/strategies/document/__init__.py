"""``document``: long documents read in chunks, all at the same time, and one answer that names its places."""

from stretto.strategies.document.strategy import LongDocument

__all__ = ["LongDocument"]
