"""One budget of rows over all requests of a batch: which drafted tokens the next forward evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.step_cost import PACE, StepCost

__all__ = ["divide"]


def divide(drafts: Sequence[DraftTree], limit: int, *, packed: bool) -> list[int]:
    """Say how many nodes of each draft to evaluate, those most likely to survive first.

    A draft without a `DraftTree.step_cost` gets what it asks for within an equal share. The nodes of all others stand
    in one order, by survival, and as many are taken as give the most expected tokens per millisecond of the whole
    batch; its own token is every request's in any case. So rows go where they are worth most, and to nobody when the
    batch alone fills the machine (Liu et al., arXiv:2406.14066). Nor may they slow those down that expect nothing of
    theirs: each is to get its tokens at least 0.97 times as fast as without these nodes.

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
    order = sorted(  # of equals, one of each request after the other
        (-survival, place, number) for number, own in enumerate(loose) for place, survival in enumerate(own)
    )
    rows, tokens, gains = requests + sum(counts), float(requests), [0.0] * requests
    base = cost.ahead(rows)
    best, chosen = tokens / base, 0
    for taken, (negative, _, number) in enumerate(order[: limit - sum(counts)], 1):
        tokens -= negative
        gains[number] -= negative
        took = cost.ahead(rows + taken)
        if tokens / took > best and _fair(gains, took, base):
            best, chosen = tokens / took, taken
    for _, _, number in order[:chosen]:
        counts[number] += 1
    return counts


def _fair(gains: Sequence[float], took: float, base: float) -> bool:
    """Whether each request gets its tokens about as fast as if no others drafted."""
    return 1 + min(gains) >= PACE * took / base


def _by_column(loose: Sequence[Sequence[float]], counts: Sequence[int], cost: StepCost, share: int) -> list[int]:
    """Choose the number of rows that all requests have; a row more is one more node of each."""
    requests, width = len(loose), max(counts)
    columns = [sum(column) for column in zip_longest(*loose, fillvalue=0.0)]
    tokens = requests + sum(columns[:width])
    base = cost.ahead(requests * (1 + width))
    best, chosen, gains = tokens / base, width, [sum(own[:width]) for own in loose]
    for rows in range(width + 1, min(share, len(columns)) + 1):
        tokens += columns[rows - 1]
        gains = [gain + sum(own[rows - 1 : rows]) for gain, own in zip(gains, loose, strict=True)]
        took = cost.ahead(requests * (1 + rows))
        if tokens / took > best and _fair(gains, took, base):
            best, chosen = tokens / took, rows
    return [min(chosen, count + len(own)) for count, own in zip(counts, loose, strict=True)]


def _loose(tree: DraftTree, share: int) -> list[float]:
    """Survival of the nodes that may be left out, the largest first; none of a draft that gets its share."""
    if tree.step_cost is None:
        return []
    if sum(tree.kept) > share:  # not even what it must have fits
        return []
    return sorted((s for s, kept in zip(tree.survival, tree.kept, strict=True) if not kept), reverse=True)
