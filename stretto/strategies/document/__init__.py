"""``document``: reads the chunks of long documents in parallel, and writes one answer with citations."""

from stretto.strategies.document.strategy import LongDocument

__all__ = ["LongDocument"]
