"""Models in this process: the backend, its options, and the engine underneath.

The engine is provisional: it may change in any release.
"""

from stretto.foundation.lazy import lazy_exports as _lazy_exports

__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__)
