"""The types for writing your own backends, strategies and decoding methods.

The contracts are in the docstrings of `Backend`, `Strategy` and `Drafter`. What is marked as provisional may change in
any release: everything about drafters, whatever docs/extending.md does not use of the types around a strategy, and what
a backend can have in addition to the contract.
"""

from stretto.foundation.lazy import lazy_exports as _lazy_exports

__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__)
