"""One budget of rows over all requests of a batch: which drafted tokens the next forward evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from stretto.local_engine.drafting.protocol import DraftTree
from stretto.local_engine.drafting.step_cost import StepCost

__all__ = ["divide"]


def divide(drafts: Sequence[DraftTree], limit: int, *, packed: bool) -> list[int]:
    """Say how many nodes of each draft to evaluate, those most likely to survive first.

    A draft without a `DraftTree.step_cost` gets what it asks for within an equal share. The nodes of all others stand
    in one order, by survival, and as many are taken as give the most expected tokens per millisecond of the whole
    batch; its own token is every request's in any case. So rows go where they are worth most, and to nobody when the
    batch alone fills the machine (Liu et al., arXiv:2406.14066).

    Args:
        drafts: of the requests, at least one.
        limit: nodes of all drafts together.
        packed: whether a forward costs by the rows there are. If not, every request has as many rows as the one with
            the most, and all may use them.
    """
    requests = len(drafts)
    share = limit // requests
    counts = [min(len(tree) if tree.step_cost is None else sum(tree.kept), share) for tree in drafts]
    cost = next((tree.step_cost for tree in drafts if tree.step_cost is not None), None)
    if cost is None:
        return counts
    loose = [_loose(tree, share) for tree in drafts]
    if not packed and requests > 1:
        return _by_column(loose, counts, cost, share)
    fixed = sum(counts)
    order = sorted(((survival, number) for number, own in enumerate(loose) for survival in own), reverse=True)
    taken, _ = cost.best([survival for survival, _ in order], limit - fixed, fixed=requests - 1 + fixed, sure=requests)
    for _, number in order[:taken]:
        counts[number] += 1
    return counts


def _by_column(loose: Sequence[Sequence[float]], counts: Sequence[int], cost: StepCost, share: int) -> list[int]:
    """Choose the number of rows that all requests have; a row more is one more node of each."""
    requests, width = len(loose), max(counts)
    columns = [sum(column) for column in zip_longest(*loose, fillvalue=0.0)]
    tokens = requests + sum(columns[:width])
    best, chosen = tokens / cost(requests * (1 + width)), width
    for rows in range(width + 1, min(share, len(columns)) + 1):
        tokens += columns[rows - 1]
        speed = tokens / cost(requests * (1 + rows))
        if speed > best:
            best, chosen = speed, rows
    return [min(chosen, count + len(own)) for count, own in zip(counts, loose, strict=True)]


def _loose(tree: DraftTree, share: int) -> list[float]:
    """Survival of the nodes that may be left out, the largest first; none of a draft that gets its share."""
    if tree.step_cost is None:
        return []
    if sum(tree.kept) > share:  # not even what it must have fits
        return []
    return sorted((s for s, kept in zip(tree.survival, tree.kept, strict=True) if not kept), reverse=True)
