"""Models in this process: the backend, the options that it takes, and the engine under it.

The engine itself calls itself provisional: it may change in any release.
"""

import typing

from stretto.foundation.lazy import lazy_exports as _lazy_exports

if typing.TYPE_CHECKING:
    from stretto.backends.local.backend import LocalBackend as LocalBackend
    from stretto.local_engine.generation import Finished as Finished
    from stretto.local_engine.generation import Generation as Generation
    from stretto.local_engine.generation import Piece as Piece
    from stretto.local_engine.model.loading.load import LoadedModel as LoadedModel
    from stretto.local_engine.model.loading.load import load_model as load_model
    from stretto.local_engine.model.loading.source import find_source as find_source
    from stretto.local_engine.serving.engine import Engine as Engine
    from stretto.local_engine.serving.engine import Handle as Handle
    from stretto.local_engine.serving.engine import Listener as Listener
    from stretto.local_engine.serving.long_prompts import FocusOptions as FocusOptions
    from stretto.local_engine.serving.step_timing import measure_step_cost as measure_step_cost

_HOMES = {
    "stretto.backends.local.backend": "LocalBackend",
    "stretto.local_engine.generation": "Finished Generation Piece",
    "stretto.local_engine.model.loading.load": "LoadedModel load_model",
    "stretto.local_engine.model.loading.source": "find_source",
    "stretto.local_engine.serving.engine": "Engine Handle Listener",
    "stretto.local_engine.serving.long_prompts": "FocusOptions",
    "stretto.local_engine.serving.step_timing": "measure_step_cost",
}

if not typing.TYPE_CHECKING:  # or a type checker would take any name for one of these
    __all__, __getattr__, __dir__ = _lazy_exports(__name__, _HOMES)
