"""A smaller model drafts for a larger one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.errors import SettingsError
from stretto.local_engine.drafting.protocol import ROOT, Context, DraftTree, Outcome

if TYPE_CHECKING:
    from stretto.local_engine.load import LoadedModel

__all__ = ["DraftModel", "check_vocabulary"]

_READ_AT_ONCE = 512


def check_vocabulary(model: LoadedModel, draft: LoadedModel) -> None:
    """Make sure that token ids mean the same to both models. Raises `SettingsError`."""
    ours, theirs = model.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours == theirs:
        return
    odd = next(token for token in (ours | theirs) if ours.get(token) != theirs.get(token))
    raise SettingsError(
        f"{draft.name} cannot draft for {model.name}: it has another tokenizer (the token {odd!r} is "
        f"{theirs.get(odd, 'none')} there and {ours.get(odd, 'none')} here). Choose a smaller model of the same family."
    )


class DraftModel:
    """Runs a smaller model with the same tokenizer a few tokens ahead.

    Its most probable tokens are a chain; beside each of them stand its next best, as leaves. It stops where the
    chain has become less probable than ``floor``.

    Leviathan et al., arXiv:2211.17192; Chen et al., arXiv:2302.01318.

    Args:
        draft: the smaller model.
        length: tokens of the chain at most.
        width: candidates at each place, the chain's own included.
        floor: survival below which no token is drafted.
    """

    name = "draft_model"
    wants_top = 0

    def __init__(self, draft: LoadedModel, *, length: int = 5, width: int = 1, floor: float = 0.1) -> None:
        from stretto.local_engine.cache import KeyValueCache  # noqa: PLC0415 - torch, only where it is used

        self._forward = draft.forward
        self._device = draft.device
        self._window = draft.context_window
        self._length = length
        self._width = width
        self._floor = floor
        self._cache = KeyValueCache(1)
        self._cached: list[int] = []  # tokens whose keys and values the cache holds, slot by slot

    def propose(self, context: Context, rows: int) -> DraftTree:
        """See `Drafter`."""
        tree = DraftTree()
        tokens, parent, survival = list(context.tokens), ROOT, 1.0
        for _ in range(self._length):
            if len(tree) >= rows or len(tokens) >= self._window or survival < self._floor:
                break
            candidates, probabilities = self._next(tokens, context.vocabulary)
            nodes = [
                tree.add(token, parent, survival * probability)
                for token, probability in zip(candidates[: rows - len(tree)], probabilities, strict=False)
            ]
            parent, survival = nodes[0], survival * probabilities[0]
            tokens.append(candidates[0])
        return tree

    def learn(self, context: Context, outcome: Outcome) -> None:
        """See `Drafter`: the next draft goes back to where the two models went apart."""

    def _next(self, tokens: list[int], vocabulary: int) -> tuple[list[int], list[float]]:
        """The most probable tokens after ``tokens``, and how probable they are."""
        import torch  # noqa: PLC0415

        from stretto.local_engine.cache import Rows  # noqa: PLC0415

        limit = min(len(self._cached), len(tokens) - 1)
        held = next((place for place in range(limit) if self._cached[place] != tokens[place]), limit)
        for start in range(held, len(tokens), _READ_AT_ONCE):
            stop = min(start + _READ_AT_ONCE, len(tokens))
            ids = torch.tensor([tokens[start:stop]], device=self._device)
            positions = torch.arange(start, stop, device=self._device)[None]
            last = torch.tensor([stop - start - 1], device=self._device)
            logits = self._forward(Rows(ids, positions, stop), self._cache, last)  # [1, 1, vocabulary]
        self._cached = list(tokens)
        best = torch.softmax(logits[0, 0, :vocabulary].float(), -1).topk(self._width)
        return best.indices.tolist(), best.values.tolist()
