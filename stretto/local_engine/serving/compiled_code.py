"""Compiled code for an engine: used from the start where it is there, else compiled beside the first answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from stretto.local_engine.drafting.warm_up import DRAFTING, warm_up
from stretto.local_engine.kernels.compiler import Compilation, are_ready, compile_now
from stretto.local_engine.kernels.parts import CHOOSING
from stretto.local_engine.kernels.switch import run_compiled
from stretto.local_engine.model.load import LoadedModel

__all__ = ["CompiledCode"]

_log = logging.getLogger(__name__)

_PARTS = (CHOOSING, DRAFTING)  # and what the forwards need


class CompiledCode:
    """Says what the engine's thread runs, and changes it once, while no request is there.

    Args:
        models: that the engine runs. Whether it waits for the compiler is said by the first (`LoadedModel.compiled`).
        wake: called from another thread when there is something to change to.
    """

    def __init__(self, models: Sequence[LoadedModel], wake: Callable[[], None]) -> None:
        self._models, wanted = models, models[0].compiled
        self._running = False
        self._compilation: Compilation | None = None
        if wanted is False:
            return
        if wanted:
            compile_now(_PARTS)
        parts = (*_PARTS, *(part for model in models if model.unpacked for part in model.unpacked.parts))
        self._running = are_ready(_PARTS) and _load()
        if wanted is None and (len(parts) > len(_PARTS) or not self._running):  # what may be ready by now
            self._compilation = Compilation(parts, then=wake)

    @property
    def due(self) -> bool:
        """Whether there may be something to change to."""
        return self._compilation is not None and self._compilation.done

    def begin(self) -> None:
        """Let this thread, which is the engine's, run what there is."""
        run_compiled(self._running)

    def change(self) -> None:
        """Change over to what was compiled. In the engine's thread, while it has no request."""
        self._compilation = None
        self._running = self._running or (are_ready(_PARTS) and _load())
        for model in self._models:
            if model.unpacked is not None:
                model.unpacked.pack()
        self.begin()

    def stay(self) -> None:
        """Leave all as it is: somebody has taken the forward as it was."""
        self._compilation = None


def _load() -> bool:
    """Load what was compiled; whether it runs."""
    run_compiled(True)
    try:
        from stretto.local_engine.kernels.trials import choose  # noqa: PLC0415 - it imports numba

        choose()
        warm_up()
    except Exception as error:  # noqa: BLE001 - torch's operations and Python's remain
        _log.warning("torch chooses tokens, and Python drafts: %s: %s", type(error).__name__, error)
        return False
    finally:
        run_compiled(False)
    return True
