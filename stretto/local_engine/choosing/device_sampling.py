"""Choice of tokens for many rows at once, where the logits are in GPU memory.

On a GPU one more row costs almost nothing, and every copy to the host makes the GPU wait. So the rows of all drafts are
scored together, even those that verification will not reach. Random numbers depend on position and token, so the token
of a row does not depend on the number of rows. The settings are sent in one copy, and the tokens come back in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from stretto.local_engine.choosing.distribution import CANDIDATES, cut_tail, drop_unlikely, widen
from stretto.local_engine.choosing.noise import exponential
from stretto.local_engine.choosing.sampling import Sampler

_SETTINGS = slice(2, 6)


@dataclass(frozen=True, slots=True)
class _Given:
    """Settings and random keys of the rows, on the device.

    Attributes:
        keys: random keys of the positions # [rows, 2] int32
        settings: temperature, 0 where nothing is sampled, top_p, top_k and min_p # [rows, 4]
        drafted: uncommitted tokens before each row, padded with a committed one # [rows, depth]
    """

    keys: Tensor
    settings: Tensor
    drafted: Tensor


def choose_at_once(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> list[int]:
    """Choose the token that follows each row, as `stretto.local_engine.choosing.sampling.choose` does.

    A row's token is -1 if none can be chosen, because the highest score is NaN or infinite.

    One copy to the host; a second one where top-p needs more than the most probable 256 tokens of a row.

    Args:
        logits: # [rows, vocabulary]
        samplers: for each row, that of its request; the rows of a request are consecutive.
        paths: drafted tokens between the request's last committed token and what the row predicts.
    """
    sampled = [sampler.sampled for sampler in samplers]
    given = _given(samplers, paths, logits.device)
    wide = _adjusted(widen(logits), samplers, paths, given)
    if not any(sampled):
        return _listed(highest_or_none(wide))
    vocabulary = wide.shape[-1]
    limited = any(sampler.cuts for sampler in samplers)
    most = vocabulary if any(sampler.settings[2] > CANDIDATES for sampler in samplers) else CANDIDATES
    scores, short = _scores(wide, samplers, given, most)
    tokens = highest_or_none(scores)
    if not limited or most >= vocabulary:
        return _listed(tokens)
    chosen, missing = torch.stack((tokens, short.long())).tolist()
    if any(missing):
        whole = _listed(highest_or_none(_scores(wide, samplers, given, vocabulary)[0]))
        chosen = [again if lacks else token for token, again, lacks in zip(chosen, whole, missing, strict=True)]
    return list(chosen)


def highest_or_none(scores: Tensor) -> Tensor:
    """Return the index of each row's largest number, -1 if that is NaN or infinite # [..., vocabulary] -> [...]."""
    values, indices = widen(scores).max(-1)
    return torch.where(values < torch.inf, indices, -1)


def _listed(tokens: Tensor) -> list[int]:
    numbers: list[int] = tokens.tolist()
    return numbers


def _given(samplers: Sequence[Sampler], paths: Sequence[Sequence[int]], device: torch.device) -> _Given:
    """Pack everything into one table of 32-bit values and send it in one copy."""
    penalised = any(sampler.repeated is not None for sampler in samplers)
    depth = max(map(len, paths)) if penalised else 0
    table = np.zeros((len(samplers), _SETTINGS.stop + depth), np.int32)
    settings = np.array([sampler.settings for sampler in samplers], np.float32)
    settings[:, 0] *= [sampler.sampled for sampler in samplers]
    table[:, _SETTINGS] = settings.view(np.int32)
    for row, (sampler, path) in enumerate(zip(samplers, paths, strict=True)):
        if sampler.sampled:
            table[row, :2] = sampler.key(len(path))
        if sampler.repeated is not None:
            known = [token if token >= 0 else sampler.repeated for token in path]  # a blank node has none
            table[row, _SETTINGS.stop :] = [*known, *[sampler.repeated] * (depth - len(path))]
    sent = torch.from_numpy(table).to(device)
    return _Given(sent[:, :2], sent[:, _SETTINGS].view(torch.float32), sent[:, _SETTINGS.stop :].long())


def _adjusted(wide: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]], given: _Given) -> Tensor:
    """Return the logits after penalties, bias and constraints; without any of these, return them unchanged."""
    if not any(sampler.adjusts for sampler in samplers):
        return wide
    wide = wide.clone()
    for _, group in groupby(range(len(samplers)), key=lambda row: id(samplers[row])):
        rows = list(group)
        sampler, own = samplers[rows[0]], slice(rows[0], rows[-1] + 1)
        if sampler.adjusts and not sampler.constrained:
            sampler.adjust_all(wide[own], given.drafted[own], [paths[row] for row in rows])
        elif sampler.adjusts:
            for row in rows:
                sampler.adjust(wide[row], paths[row])
    return wide


def _scores(wide: Tensor, samplers: Sequence[Sampler], given: _Given, most: int) -> tuple[Tensor, Tensor]:
    """Score each token, as `stretto.local_engine.choosing.sampling.scores` does.

    Returns:
        # [rows, vocabulary], and for each row whether top-p needs more than the ``most`` probable tokens # [rows]
    """
    temperature, top_p, top_k, min_p = given.settings.unbind(1)
    sampled = temperature > 0
    probabilities = torch.softmax(wide / torch.where(sampled, temperature, 1.0)[:, None], dim=-1)
    short = torch.zeros_like(sampled)
    if not all(sampler.unlimited for sampler in samplers if sampler.sampled):
        limited = probabilities
        if any(sampler.cuts for sampler in samplers):
            cuts = sampled & ((top_p < 1) | (top_k > 0))
            cut, short = cut_tail(probabilities, top_p, top_k, most)
            limited, short = torch.where(cuts[:, None], cut, probabilities), short & cuts
        unlimited = (top_p >= 1) & (top_k <= 0) & (min_p <= 0)  # their probabilities must stay the same to the bit
        probabilities = torch.where(unlimited[:, None], probabilities, drop_unlikely(limited, min_p))
    drawn = probabilities.div_(exponential(given.keys, wide.shape[-1]))
    if all(sampler.sampled for sampler in samplers):
        return drawn, short
    return torch.where(sampled[:, None], drawn, wide), short
