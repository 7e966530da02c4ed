"""One stage of a pipeline: it runs its layers on one part of the rows while the next stage runs on another.

transformers divides the layers over the stages (`DistributedConfig.pp_size`). Its own forward runs one stage after the
other. Here the rows are divided into microbatches (Huang et al., arXiv:1811.06965): sequences of a batch, or pieces of
one prompt, whose rows see only those before them. With m microbatches and p stages that take equally long, a stage has
nothing to do for (p - 1) / (m + p - 1) of the time, the *bubble*. Each microbatch reads all weights of a stage again,
so few rows stay together.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.transformers_forward import TransformersForward

__all__ = ["StageForward", "microbatches"]

_ROWS = {"cpu": 16, "cuda": 256}  # of a microbatch, from which on a step takes as long as it has rows
_MICROBATCHES = 4  # for each stage, at most


class StageForward(TransformersForward):
    """The layers of this process; the last stage gives logits, and the others zeros.

    While a model is compared with transformers, every stage has to come to the same result: then all give logits.

    Args:
        model: of transformers, divided by `DistributedConfig`.
        alone: see `TransformersForward`.
        rows: of a microbatch at least; by default as many as suit the device.

    Attributes:
        compares: whether all stages give logits.
        busy_s: seconds in which the last forward ran layers here.
    """

    def __init__(self, model: Any, *, alone: bool = False, rows: int | None = None) -> None:
        super().__init__(model, alone=alone)
        self._stage = model._pp_stage
        config = model.config.get_text_config(decoder=True)
        self._first_layer, _ = self._stage.layer_range_for_rank(self._stage.pp_rank, config.num_hidden_layers)
        self._hidden: int = config.hidden_size
        self._inner = getattr(model, model.base_model_prefix)
        self._last: Callable[..., Any] = type(model).forward.__get__(model)  # transformers has replaced the model's own
        self._rows = rows or _ROWS.get(model.device.type, _ROWS["cuda"])
        self._sending: list[tuple[Any, Tensor]] = []
        self.compares, self.busy_s = True, 0.0

    def __call__(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """See `Forward`."""
        self.busy_s = 0.0
        logits = super().__call__(rows, cache, keep)
        for work, _ in self._sending:
            work.wait()
        self._sending.clear()
        if not self.compares:
            return logits
        everywhere: Tensor = self._stage.broadcast_from_last(logits, dtype=self._model.dtype, device=rows.tokens.device)
        return everywhere

    def _run(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        if self.alone:  # each sequence is a microbatch
            return self._through(rows, cache, keep)
        parts, along = microbatches(rows, self._rows, _MICROBATCHES * self._stage.pp_size)
        said, start = [], 0
        for part in parts:
            batch, count = part.tokens.shape
            cache.begin_alone(part, start if along == 0 else 0)
            wanted = keep if along == 0 else keep[(keep >= start) & (keep < start + count)] - start
            said.append(self._through(part, cache, wanted))
            start += batch if along == 0 else count
        return said[0] if len(said) == 1 else torch.cat(said, along)

    def _through(self, rows: Rows, cache: KeyValueCache, keep: Tensor) -> Tensor:
        """Run one microbatch through the layers of this stage."""
        stage, inputs = self._stage, self._inputs(rows, cache, keep)
        given = {"input_ids": rows.tokens} if stage.pp_is_first_stage else {"inputs_embeds": self._received(rows)}
        began = time.perf_counter()
        if stage.pp_is_last_stage:
            logits: Tensor = self._last(**given, **inputs).logits
            logits = logits if logits.shape[1] == len(keep) else logits[:, keep]
        else:
            inputs.pop("logits_to_keep", None)
            self._send(self._inner(**given, **inputs).last_hidden_state)
            logits = rows.tokens.new_zeros(len(rows.tokens), len(keep), 1)
        if logits.is_cuda:
            torch.cuda.synchronize(logits.device)
        self.busy_s += time.perf_counter() - began
        return logits

    def _received(self, rows: Rows) -> Tensor:
        stage = self._stage
        device = "cpu" if stage.comm_on_cpu else rows.tokens.device
        states = torch.empty(*rows.tokens.shape, self._hidden, dtype=self._model.dtype, device=device)
        dist.recv(states, dist.get_global_rank(stage.pp_group, stage.pp_prev_rank), group=stage.pp_group)
        return states.to(rows.tokens.device)

    def _send(self, states: Tensor) -> None:
        """Send to the next stage, without waiting for it."""
        stage = self._stage
        states = (states.cpu() if stage.comm_on_cpu else states).contiguous()
        next_rank = dist.get_global_rank(stage.pp_group, stage.pp_next_rank)
        self._sending.append((dist.isend(states, next_rank, group=stage.pp_group), states))


def microbatches(rows: Rows, least: int, most: int) -> tuple[list[Rows], int]:
    """Divide the rows of a forward.

    Args:
        rows: of all sequences.
        least: rows of a microbatch, if there are as many.
        most: microbatches.

    Returns:
        the microbatches, and along which axis they lie: 0 for sequences, 1 for the rows of each.
    """
    batch, count = rows.tokens.shape
    wanted = min(most, batch * count // least)
    if batch > 1 or rows.ancestry is not None or wanted < 2:
        return [_sequences(rows, *span) for span in _spans(batch, min(batch, max(1, wanted)))], 0
    return [_lines(rows, *span) for span in _spans(count, wanted)], 1


def _spans(count: int, parts: int) -> list[tuple[int, int]]:
    edges = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(edges))


def _sequences(rows: Rows, first: int, stop: int) -> Rows:
    slots, ancestry = rows.slots, rows.ancestry
    return Rows(
        rows.tokens[first:stop],
        rows.positions[first:stop],
        rows.kv_len,
        slots=None if slots is None else slots[first:stop],
        ancestry=None if ancestry is None else ancestry[first:stop],
    )


def _lines(rows: Rows, first: int, stop: int) -> Rows:
    positions = rows.positions[:, first:stop]
    slots = None if rows.slots is None else rows.slots[:, first:stop]
    return Rows(rows.tokens[:, first:stop], positions, int((positions if slots is None else slots).max()) + 1, slots)
