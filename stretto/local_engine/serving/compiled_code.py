"""Use of compiled code by an engine: from the start if it is ready, else once it was compiled in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from stretto.local_engine.drafting.suffix import DRAFTING, warm_up
from stretto.local_engine.kernels.compiling.compiled_parts import CHOOSING, Part
from stretto.local_engine.kernels.compiling.compiler import Compilation, are_ready, compile_now
from stretto.local_engine.kernels.compiling.jit import run_compiled, runs_compiled
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.model.loading.memory import give_back

_log = logging.getLogger(__name__)

_PARTS = (CHOOSING, DRAFTING)  # in addition to what the forwards need


class CompiledCode:
    """Decides whether the engine's thread runs compiled code, and switches to it once, while there is no request.

    Args:
        models: models of the engine. The first decides whether it waits for the compiler (`LoadedModel.compiled`).
        wake: called from another thread when compiled code may be ready.
    """

    def __init__(self, models: Sequence[LoadedModel], wake: Callable[[], None]) -> None:
        self._models, wanted = models, models[0].compiled
        self._running, self._wake = False, wake
        self._compilations: list[Compilation] = []
        self._uses: list[Callable[[], None]] = []  # functions that switch to further parts
        self._comparisons = [model.comparison for model in models if model.comparison is not None]
        if wanted is False:
            return
        if wanted:
            compile_now(_PARTS)
        parts = (*_PARTS, *(part for model in models if model.unpacked for part in model.unpacked.parts))
        self._running = are_ready(_PARTS) and _load()
        if wanted is None and (len(parts) > len(_PARTS) or not self._running):
            self._compilations = [Compilation(parts, then=wake)]

    @property
    def due(self) -> bool:
        """Whether compiled code may be ready to switch to."""
        compilations = self._compilations  # `stay` can be called by another thread
        compiled = bool(compilations) and all(each.done for each in compilations)
        return compiled or any(each.due for each in self._comparisons)

    def add(self, parts: Sequence[Part], use: Callable[[], None]) -> None:
        """Have further parts compiled, and call ``use`` in the engine's thread once they are. Safe from any thread.

        If the engine waited for compiled code, this waits too, and calls ``use`` at once.
        """
        if self._models[0].compiled:
            compile_now(parts)
            use()
        elif self._models[0].compiled is None and not are_ready(parts):
            self._uses.append(use)
            self._compilations = [*self._compilations, Compilation(parts, then=self._wake)]

    def begin(self) -> None:
        """Let the engine's thread, which calls this, run compiled code if it is ready."""
        run_compiled(self._running)

    def change(self) -> bool:
        """Switch to compiled code, or away from it. Only in the engine's thread, while it has no request.

        Returns whether it did: then keys and values that were computed before are no longer valid.
        """
        judged = [comparison.judge() for comparison in self._comparisons]
        changed = any(judged)
        if self._compilations and all(each.done for each in self._compilations):
            self._change_over()
            changed = True
        self.answered()
        return changed

    def answered(self) -> None:
        """Begin comparing with transformers what has not been compared yet, unless other code replaces it soon."""
        if not self._compilations:
            for comparison in self._comparisons:
                comparison.begin(self._wake)

    def end(self) -> None:
        """Stop comparing with transformers."""
        for comparison in self._comparisons:
            comparison.end()

    def _change_over(self) -> None:
        self._compilations, uses = [], self._uses
        self._uses = []
        self._running = self._running or (are_ready(_PARTS) and _load())
        for model in self._models:
            if model.unpacked is not None:
                model.unpacked.pack()
        for use in uses:
            use()
        give_back()
        self.begin()

    def stay(self) -> None:
        """Keep the forward unchanged, because other code uses it."""
        self._compilations = []


def _load() -> bool:
    """Load compiled code, and return whether it runs. It does not change what the calling thread uses."""
    before = runs_compiled()
    run_compiled(True)
    try:
        from stretto.local_engine.kernels.trials import choose  # noqa: PLC0415 - it imports numba

        choose()
        warm_up()
    except Exception as error:  # noqa: BLE001 - torch's operations and Python's remain
        _log.warning("torch chooses tokens, and Python drafts: %s: %s", type(error).__name__, error)
        return False
    finally:
        run_compiled(before)
    return True
