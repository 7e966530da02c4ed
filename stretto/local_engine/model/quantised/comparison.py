"""Compares a forward with low-bit weights with transformers' model, while nobody waits for it.

Running the model takes seconds, so it happens after the first answer. That a file's forward agrees is cached for this
file, this compiled code and these versions: later loadings compare nothing. Programs that ask once end too early for
it; after a few of them, a warning explains how to compare once and for all.
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from stretto.foundation.ending_thread import EndingThread, lower_priority
from stretto.local_engine.kernels.panels import Panels
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.llama_layer import multiplied
from stretto.local_engine.model.forward.products import Weight
from stretto.local_engine.model.loading.kept_data import recall, remember
from stretto.local_engine.model.loading.numerics_check import Expected, disagreement
from stretto.local_engine.model.quantised.blocks import widened_product

OF_BLOCKS = 0.5
"""Maximum difference of logits in standard deviations, where rows are rounded to 8 bits."""

_KIND, _ENDED = "agreed", "uncompared"
_OFTEN = 3  # programs that ended before the comparison
_NICENESS = 10
_DELAY_S = 2.0  # time for another question, or the end, to come first
_PATIENCE_S = 5.0

_log = logging.getLogger(__name__)


class Comparison:
    """The pending comparison of a model; there is nothing to do if it was compared before.

    Args:
        name: of the model.
        in_transformers: creates the model of transformers, without the weights of its products.
        forward: of the model.
        key: identifies its weights; empty if nothing can be cached for them.
    """

    def __init__(self, name: str, in_transformers: Callable[[], Any], forward: LlamaForward, key: str) -> None:
        self._name, self._in_transformers, self._forward, self._key = name, in_transformers, forward, key
        self._expected: Expected | None = None
        self._ended = threading.Event()
        self._thread: EndingThread | None = None
        self._done, self._agrees = False, False
        self._pending = False  # begun, and not judged

    @property
    def due(self) -> bool:
        """Whether the expected logits for `judge` are ready."""
        return self._expected is not None

    def begin(self, then: Callable[[], None]) -> None:
        """Compute the expected logits in another thread, which then calls ``then``; only the first call does."""
        if self._is_known():
            return
        thread = EndingThread(lambda: self._run(then), self._ended.set, f"stretto compares {self._name}")
        thread.start()
        self._thread = thread

    def finish(self) -> bool:
        """Compare now unless that was done, and wait. Returns whether the forward agrees."""
        if not self._is_known():
            self._expect()
            with torch.inference_mode():
                self.judge()
        return self._agrees

    def end(self) -> None:
        """Stop comparing, and wait for the thread, which ends within a piece of a product."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_S)
        if self._pending:
            self._count()

    def judge(self) -> bool:
        """Compare the logits of the forward, and change it until it agrees. No request may be running.

        Returns whether the forward was changed: keys and values computed before cannot be used then.
        """
        expected, self._expected = self._expected, None
        if expected is None:
            return False
        forward, changed = self._forward, False
        while (cause := _cause(expected, forward)) and (instead := forward.step_back()):
            changed = True
            _log.warning(
                "%s does not agree with transformers (%s): %s from now on, more slowly. Answers so far may be wrong. "
                "Please report it, with the file and the processor.",
                self._name,
                cause,
                instead,
            )
        self._pending, self._agrees = False, not (changed or cause)
        if self._agrees and self._key:
            remember(_KIND, self._agreed, b"1")
        return changed

    def _is_known(self) -> bool:
        """Return whether nothing is left to compare, or it is under way; the first call decides."""
        if self._done:
            return True
        self._done = True
        self._agrees = bool(self._key) and any(recall(_KIND, self._agreed))
        self._pending = not self._agrees
        return self._agrees

    def _count(self) -> None:
        """Count a program that ended before its model was compared, and warn once there were several."""
        before = next((int(data) for data in recall(_ENDED, self._agreed) if data.isdigit()), 0)
        if not self._key or before >= _OFTEN:
            return
        remember(_ENDED, self._agreed, str(before + 1).encode())
        if before + 1 == _OFTEN:
            _log.warning(
                "%s has not been compared with transformers on this machine: %d programs ended before. To do it once, "
                "run: python -m stretto.local_engine.measuring.ahead %s",
                self._name,
                _OFTEN,
                shlex.quote(self._name),
            )

    @property
    def _agreed(self) -> str:
        return f"{self._key} {'whole' if self._forward.compiled is not None else 'products'}"

    def _run(self, then: Callable[[], None]) -> None:
        if self._ended.wait(_DELAY_S):
            return
        lower_priority(_NICENESS)
        torch.set_num_threads(1)
        self._expect()
        if self._expected is not None:
            then()

    def _expect(self) -> None:
        """Compute the expected logits for `judge`; nothing if that is stopped or fails."""
        try:
            with torch.inference_mode(mode=False):
                model = self._in_transformers()
            self._look()
            with torch.inference_mode(), _runnable(model, self._forward, self._look):
                self._expected = Expected.of(model)
        except _EndedError:
            return
        except Exception as error:  # noqa: BLE001 - the forward continues, and the next loading tries again
            self._pending = False  # a later program would fail, too
            _log.warning("%s could not be compared with transformers: %s: %s", self._name, type(error).__name__, error)

    def _look(self) -> None:
        if self._ended.is_set():
            raise _EndedError


class _EndedError(Exception):
    """Nobody waits for the comparison any more."""


def _cause(expected: Expected, forward: LlamaForward) -> str:
    """Return why the forward cannot be used; empty if it agrees."""
    try:
        gap = disagreement(expected, forward)
    except Exception as error:  # noqa: BLE001 - whatever compiled code raises
        return f"{type(error).__name__}: {error}"
    return "" if gap < OF_BLOCKS else f"logits are off by {gap:.2g} standard deviations"


@contextmanager
def _runnable(model: Any, forward: LlamaForward, look: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Make a model without its weights run in transformers' code. Memory contains one piece of a weight at a time.

    ``look``: called before each piece; it may raise, to end the run.
    """
    with ExitStack() as stack:

        def instead(module: Any, run: Callable[[Tensor], Tensor]) -> None:
            module.forward = run
            stack.callback(delattr, module, "forward")

        for layer, own in zip(model.model.layers, forward.weights.layers, strict=True):
            for name, modules in multiplied(layer).items():
                first = 0
                for module in modules:
                    instead(module, _product(own.products[name], first, module.out_features, module.bias, look))
                    first += module.out_features
        instead(model.model.embed_tokens, forward.read_in)
        instead(model.lm_head, _product(forward.weights.vocabulary, 0, forward.sizes[0], None, look))
        yield


def _product(
    weight: Weight, first: int, many: int, bias: Tensor | None, look: Callable[[], None]
) -> Callable[[Tensor], Tensor]:
    """Return the product with some lines of a weight."""
    if not isinstance(weight, Panels):
        return lambda states: linear(states, weight[first : first + many], bias)
    return lambda states: widened_product(weight, states, range(first, first + many), look, bias)
