"""Stretto makes language models answer faster by writing the parts of an answer in parallel."""

from stretto.foundation.lazy import lazy_exports as _lazy_exports

__version__ = "0.1.0"

# The ``stretto`` program imports this package first and must respond to Ctrl-C early.
__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__, modules=("extending", "local"))
