"""``cascade``: a small model answers, and a larger one only where that answer does not stand."""

from stretto.strategies.cascade.strategy import Cascade

__all__ = ["Cascade"]
