"""``cascade``: a small model answers, and a larger one only if that answer is rejected.

Private: not part of the public API, and may change at any time.
"""

from stretto.strategies.cascade.strategy import Cascade

__all__ = ["Cascade"]
