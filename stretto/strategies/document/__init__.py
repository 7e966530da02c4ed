"""``document``: reads the chunks of long documents in parallel, and writes one answer with citations.

Private: not part of the public API, and may change at any time.
"""

from stretto.strategies.document.strategy import LongDocument

__all__ = ["LongDocument"]
