"""P-EAGLE heads: EAGLE-3 that drafts all tokens in one run, with mask rows for the tokens it does not know yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stretto.local_engine.drafting.heads.decoder import Weights, whole_number
from stretto.local_engine.drafting.heads.eagle3 import Eagle3
from stretto.local_engine.drafting.heads.recurrent import READ_AT_ONCE
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import Rows

_MOST = 1000
_FORESEEN = 8  # if the configuration has no number; speculators' default


class PEagle:
    """P-EAGLE: arXiv 2602.01469.

    The last committed row is followed by rows of a mask token and a learned state, which see what comes before them.
    The i-th of them predicts the token i places after the one that the committed row predicts, whatever is in between.

    Args:
        weights: weights under the names of speculators: those of EAGLE-3, and ``mask_hidden``.
        config: ``config.json``, with the sizes of the layers at the top level.
        target: the model.
    """

    kind = "peagle"

    def __init__(self, weights: Weights, config: Mapping[str, Any], target: Target) -> None:
        self.layer, self.target = Eagle3(weights, config, target), target
        self.layers, self.words = self.layer.layers, self.layer.words
        field = "mask_token_id" if config.get("mask_token_id") is not None else "ptd_token_id"
        field = field if config.get(field) is not None else "mask_token_id"
        self.mask = whole_number(config, field, weights.where, least=0, below=target.vocabulary)
        self.foresees = _foreseen(config, weights.where)
        self.blank = weights.get("mask_hidden", 1, 1, len(self.layers) * target.hidden)[0]

    def reader(self) -> _PEagleReader:
        return _PEagleReader(self)


def _foreseen(config: Mapping[str, Any], where: str) -> int:
    """Return the number of tokens to draft at a time, by the configuration."""
    of_speculators = config.get("speculators_config")
    methods = of_speculators.get("proposal_methods") if isinstance(of_speculators, dict) else None
    methods = methods if isinstance(methods, list) else []
    proposed = [method.get("speculative_tokens") for method in methods if isinstance(method, dict)]
    number = next((each for each in (*proposed, config.get("para_depths")) if each), _FORESEEN)
    return whole_number({"speculative_tokens": number}, "speculative_tokens", where, below=_MOST)


class _PEagleReader:
    """Reader of one sequence, with the keys and values of its committed rows; those of masks are overwritten."""

    sure: Sequence[float] | None = None
    begins = 0

    def __init__(self, head: PEagle) -> None:
        self._head, self._device = head, head.target.device
        self._cache, self._committed = KeyValueCache(1), 0
        self._tokens: list[int] = []  # that were not read yet; `_states` has the states before them
        self._states: list[Tensor] = []
        self._foreseen = torch.empty(0)  # logits by place # [foresees, words]
        self._depths: list[int] = []  # of the nodes that were followed

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        """See `Reader`. The work is delayed until the next draft begins, or many rows have accumulated."""
        self._tokens += tokens
        self._states.append(states)
        while len(self._tokens) > READ_AT_ONCE:
            self._run(READ_AT_ONCE, masks=0)

    def first(self) -> Tensor:
        if self._tokens:
            masks = self._head.foresees - 1
            final = self._run(len(self._tokens), masks)
            self._foreseen = self._head.layer.logits(final[-1 - masks :])
        self._depths = []
        return self._foreseen[:1]

    def after(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor | None:
        depths = [self._depths[parent] + 1 if parent >= 0 else 1 for parent in parents]
        self._depths += depths
        place = depths[0]
        return self._foreseen[place].expand(len(tokens), -1) if place < self._head.foresees else None

    def _run(self, count: int, masks: int) -> Tensor:
        """Read the first ``count`` waiting rows, then masks, and return the final states # [rows, own]."""
        head, states = self._head, torch.cat(self._states)
        tokens, own = [*self._tokens[:count], *[head.mask] * masks], states[:count]
        if masks:
            own = torch.cat((own, head.blank.to(own.dtype).expand(masks, -1)))
        rows = Rows.following(tokens, self._committed, self._device)
        _, final = head.layer.run(rows.tokens, head.layer.enter(own)[None], [(rows, self._cache)])
        self._committed += count
        self._tokens, self._states = self._tokens[count:], [states[count:]] if count < len(states) else []
        return final[0]
