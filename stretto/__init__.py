"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

from stretto.foundation.lazy import lazy_exports as _lazy_exports

__version__ = "0.1.0"

# The program ``stretto`` begins with this package and must answer to Ctrl-C soon.
__all__, __getattr__, __dir__ = _lazy_exports(__name__, __file__, modules=("extending", "local"))
