"""Choice of the token that follows a row, from its logits."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.choosing.constraint import Constraint
from stretto.local_engine.choosing.distribution import distribution, widen
from stretto.local_engine.choosing.noise import exponential, token_numbers
from stretto.local_engine.choosing.penalties import Penalties
from stretto.local_engine.failures import NoNumberError
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.compiling.jit import runs_compiled

_UNLIMITED = (1.0, 0.0, 0.0)  # top_p, top_k, min_p
_COLDEST = 1e-30  # float32 can represent it, and only the most probable token is drawn at it


class Sampler:
    """The way one request chooses its tokens: settings, random numbers and the tokens so far.

    Each position of the answer has a random key, drawn from the request's generator. The random number of a token is a
    hash of key and token. So an answer depends neither on the other requests in the batch, nor on the device, nor on
    how many tokens are committed at once.

    Args:
        request: has the settings.
        device: device of the logits.
        constraint: keeps the answer to its format. If it fails, ``failure`` is the error, and the answer must end.
    """

    def __init__(self, request: Generation, device: torch.device, constraint: Constraint | None = None) -> None:
        coldest = max(request.temperature, _COLDEST)
        self.settings = (coldest, request.top_p, float(request.top_k), request.min_p)
        self.sampled = request.temperature > 0
        self._penalties = Penalties(request, device)
        self.repeated = self._penalties.repeated
        self.adjusts = self._penalties.active or constraint is not None
        self.failure: Exception | None = None
        self._constraint = constraint
        self._device = device
        self._generator = random.Random(secrets.randbits(63) if request.seed is None else request.seed % 2**63)  # noqa: S311 - chance, not secrets
        self._keys: list[tuple[int, int]] = []
        self._committed = 0

    @property
    def plain(self) -> bool:
        """Whether it always takes the token with the model's highest logit."""
        return not self.sampled and not self.adjusts

    @property
    def unlimited(self) -> bool:
        """Whether it samples from all tokens, without limits."""
        return self.sampled and self.settings[1:] == _UNLIMITED

    @property
    def cuts(self) -> bool:
        """Whether top-k or top-p excludes tokens."""
        return self.sampled and (self.settings[1] < 1 or self.settings[2] > 0)

    @property
    def constrained(self) -> bool:
        """Whether a constraint decides which tokens can come next."""
        return self._constraint is not None

    def key(self, ahead: int = 0) -> tuple[int, int]:
        """Return the key, two 32-bit integers, of the position after ``ahead`` more tokens."""
        position = self._committed + ahead
        while len(self._keys) <= position:
            bits = self._generator.getrandbits(64)
            self._keys.append(((bits >> 32) - 2**31, (bits & 0xFFFFFFFF) - 2**31))
        return self._keys[position]

    def rank(self, logits: Tensor, path: Sequence[int], count: int = 1) -> list[int]:
        """Return the ``count`` tokens that this request ranks highest for these logits # [vocabulary], best first.

        ``path``: drafted tokens between the last committed token and what the logits predict. Raises if the
        constraint fails on it, which ends the draft, not the answer.
        """
        before = self.failure
        ranked = scores(logits.to(self._device)[None], [self], [path])[0]
        if self.failure is not before:
            assert self.failure is not None  # noqa: S101 - nothing else resets it
            failed, self.failure = self.failure, before
            if self._constraint is not None:
                self._constraint.recover()
            raise failed
        return [int(ranked.argmax())] if count == 1 else ranked.topk(count).indices.tolist()

    def adjust_all(self, logits: Tensor, drafted: Tensor, paths: Sequence[Sequence[int]]) -> None:
        """Apply `adjust` to many rows at once, in place # [rows, vocabulary]; only without a constraint.

        ``drafted``: the path of each row, padded with tokens that are penalised in any case # [rows, depth]
        """
        self._penalties.weigh_all(logits, drafted)
        if self._penalties.suppresses:
            self._penalties.suppress_all(logits, paths)

    def adjust(self, logits: Tensor, path: Sequence[int]) -> None:
        """Apply penalties, bias and constraint to the logits of a row, in place # [vocabulary].

        They depend on the tokens before the row, and so on its ``path``: the drafted tokens between the last committed
        token and what the row predicts. Where the penalties suppress everything that the constraint allows, the
        constraint wins.
        """
        self._penalties.weigh(logits, path)
        constrained = self._constraint is not None and self.failure is None
        if self._penalties.suppresses:
            kept = logits.clone() if constrained else logits
            self._penalties.suppress(logits, path)
        if constrained:
            self._restrict(logits, path)
            if self._penalties.suppresses and bool(logits.isneginf().all()):
                logits.copy_(kept)
                self._restrict(logits, path)

    def _restrict(self, logits: Tensor, path: Sequence[int]) -> None:
        assert self._constraint is not None  # noqa: S101 - for the type checker
        try:
            self._constraint.restrict(logits, path)
        except Exception as error:  # noqa: BLE001 - ends this request; the others in the batch go on
            self.failure = error

    def found_no_number(self) -> None:
        """End the answer with an error: its logits are NaN or infinite, so no token can be chosen."""
        self.failure = self.failure or NoNumberError()

    def commit(self, tokens: Sequence[int]) -> None:
        """Record tokens that now belong to the answer."""
        self._committed += len(tokens)
        self._penalties.commit(tokens)
        if self._constraint is not None and self.failure is None:
            try:
                self._constraint.commit(tokens)
            except Exception as error:  # noqa: BLE001 - as in `restrict`
                self.failure = error


def choose(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> list[int]:
    """Choose the token that follows each row: the one with the highest of its `scores`."""
    rows, chosen = _adjusted(logits, samplers, paths), [0] * len(samplers)
    compiled = _compiled(rows)
    for unlimited in (True, False):  # each kind by its own method, whatever else is in the batch
        own = [row for row, sampler in enumerate(samplers) if sampler.unlimited == unlimited]
        if own:
            some = rows if len(own) == len(samplers) else rows[torch.tensor(own, device=rows.device)]
            given = [samplers[row] for row in own], [paths[row] for row in own]
            drawn = unlimited and compiled
            scored = some if drawn else _scored(some, *given)
            tokens = _drawn(some, *given) if drawn else most_probable(scored).tolist()
            # For single numbers, numpy is many times as fast.
            numbers = scored.numpy() if scored.device.type == "cpu" else scored
            for place, (row, token) in enumerate(zip(own, tokens, strict=True)):
                chosen[row] = token
                if not numbers[place, token] < torch.inf:
                    samplers[row].found_no_number()
    return chosen


def _compiled(logits: Tensor) -> bool:
    """Return whether the compiled sampler accepts these rows; it is four to five times faster than torch."""
    return logits.device.type == "cpu" and logits.dtype == torch.float32 and runs_compiled()


def _drawn(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> list[int]:
    """Sample each row from all tokens: take the highest of the `scores`, without storing them."""
    from stretto.local_engine.kernels.draws import draw  # noqa: PLC0415 - it imports numba

    temperatures = [sampler.settings[0] for sampler in samplers]
    keys = [sampler.key(len(path)) for sampler, path in zip(samplers, paths, strict=True)]
    return draw(logits, temperatures, keys, token_numbers(logits.shape[-1], logits.device).numpy())


def scores(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> Tensor:
    """Score each token; a request chooses the one with the highest score in its row.

    Without sampling, the scores are the logits after penalties, bias and constraint. With sampling, they are the
    probabilities divided by exponential random numbers of position and token: the highest is then a draw from the
    distribution (the exponential race, or Gumbel-max trick; Maddison et al., arXiv:1411.0030). With the same numbers,
    the logits of another model mostly give the same token, which `DraftModel` uses.

    Args:
        logits: # [rows, vocabulary]
        samplers: for each row, that of its request.
        paths: drafted tokens between the request's last committed token and what the row predicts.

    Returns:
        # [rows, vocabulary]
    """
    return _scored(_adjusted(logits, samplers, paths), samplers, paths)


def _adjusted(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> Tensor:
    """Return the logits after penalties, bias and constraints; without any, possibly the same tensor."""
    logits = widen(logits)
    if any(sampler.adjusts for sampler in samplers):
        # torch copies with threads that wait for each other, for milliseconds, when other programs run.
        logits = torch.from_numpy(logits.numpy().copy()) if logits.device.type == "cpu" else logits.clone()
        for row, (sampler, path) in enumerate(zip(samplers, paths, strict=True)):
            if sampler.adjusts:
                sampler.adjust(logits[row], path)
    return logits


def _scored(logits: Tensor, samplers: Sequence[Sampler], paths: Sequence[Sequence[int]]) -> Tensor:
    return score_adjusted(logits, samplers, list(map(len, paths)))


def score_adjusted(logits: Tensor, samplers: Sequence[Sampler], ahead: Sequence[int]) -> Tensor:
    """Score each token by logits that are already adjusted; see `scores`.

    ``ahead``: tokens between the request's last committed token and what each row predicts.
    """
    sampled = [row for row, sampler in enumerate(samplers) if sampler.sampled]
    if not sampled:
        return logits
    everywhere = len(sampled) == len(samplers)
    indices = None if everywhere else torch.tensor(sampled, device=logits.device)
    rows = logits if indices is None else logits[indices]
    settings = [samplers[row].settings for row in sampled]
    temperature, *limits = torch.tensor(settings, dtype=torch.float32, device=logits.device).unbind(1)
    keys = [samplers[row].key(ahead[row]) for row in sampled]
    chances = exponential(torch.tensor(keys, dtype=torch.int32, device=logits.device), logits.shape[-1])
    if all(samplers[row].unlimited for row in sampled):  # the same result, three times faster
        drawn = torch.softmax(rows / temperature[:, None], dim=-1).div_(chances)
    else:
        drawn = distribution(rows, temperature, *limits).div_(chances)
    return drawn if indices is None else logits.index_copy(0, indices, drawn)


def most_probable(logits: Tensor) -> Tensor:
    """Return the token with the largest logit in each row # [..., vocabulary] -> [...]."""
    wide = widen(logits)  # in bfloat16, argmax is five times slower on a CPU
    if wide.device.type == "cpu":
        return torch.from_numpy(np.asarray(wide.numpy().argmax(-1)))  # ten times faster than torch
    return wide.argmax(dim=-1)


def first_rows(logits: Tensor, counts: Sequence[int]) -> Tensor:
    """Concatenate the first rows of each sequence.

    Args:
        logits: # [batch, rows, vocabulary]
        counts: number of rows of each sequence; can be 0.

    Returns:
        # [sum of counts, vocabulary]
    """
    flat = logits.flatten(0, 1)
    if sum(counts) == flat.shape[0]:
        return flat
    return flat.index_select(0, torch.tensor(_indices(logits, counts), device=logits.device))


def best_tokens(logits: Tensor, counts: Sequence[int], most: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the most probable tokens of each sequence's first rows, and their probabilities.

    Args:
        logits: # [batch, rows, vocabulary]
        counts: number of rows of each sequence; can be 0.
        most: number of tokens of each row.

    Returns:
        token ids and probabilities of each row, best first, sequence after sequence # [sum of counts, most], twice
    """
    if _compiled(logits):
        from stretto.local_engine.kernels.ranks import best  # noqa: PLC0415 - it imports numba

        return best(logits.flatten(0, 1), _indices(logits, counts), most)
    wide = widen(first_rows(logits, counts))
    found = wide.topk(most, dim=-1).indices  # [rows, most]
    probabilities = wide.softmax(-1).gather(-1, found).float()
    if wide.device.type == "cpu":
        return found.numpy(), probabilities.numpy()
    both = torch.stack((found.int(), probabilities.view(torch.int32))).cpu().numpy()  # one copy to the host
    return both[0].astype(np.int64), both[1].view(np.float32)


def _indices(logits: Tensor, counts: Sequence[int]) -> list[int]:
    """Return the indices of each sequence's first rows, if the rows of all sequences are concatenated."""
    rows = logits.shape[1]
    return [number * rows + row for number, count in enumerate(counts) for row in range(count)]
