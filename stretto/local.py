"""Models in this process: the backend, the options that it takes, and the engine under it.

The engine itself calls itself provisional: it may change in any release.
"""

from stretto.foundation.lazy import lazy_exports as _lazy_exports

__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__)
