"""What your own backends, strategies and decoding methods are made of.

The contracts are in the docstrings of `Backend`, `Strategy` and `Drafter`. What calls itself provisional may change in
any release: everything about drafters, what docs/extending.md does not use of the types around a strategy, and what a
backend may have beside the contract.
"""

from stretto.foundation.lazy import lazy_exports as _lazy_exports

__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__)
