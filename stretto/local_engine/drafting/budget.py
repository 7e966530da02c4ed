"""Row budget of a batch: which drafted tokens of its requests the next forward evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.step_cost import PACE, StepCost


def divide(drafts: Sequence[DraftTree], limit: int, *, packed: bool) -> list[int]:
    """Choose how many nodes of each draft to evaluate, those most likely to survive first.

    A draft without a `DraftTree.step_cost` gets what it asks for within an equal share. The nodes of all others are
    ranked together by survival, and the batch takes as many as maximise its expected tokens per millisecond, none
    if it fills the machine without drafts (Liu et al., arXiv:2406.14066). They must not slow down requests that
    do not benefit: each request gets its tokens at least `PACE` times as fast as without these nodes.

    Args:
        drafts: draft of each request, at least one.
        limit: maximum number of nodes over all drafts.
        packed: whether the cost of a forward depends on the number of real rows. If not, every request has as many
            rows as the one with the most, and all can use them.
    """
    requests = len(drafts)
    share = limit // requests
    counts = [min(len(tree), share) if tree.step_cost is None else 0 for tree in drafts]
    cost = next((tree.step_cost for tree in drafts if tree.step_cost is not None), None)
    if cost is None:
        return counts
    ranked = [[] if tree.step_cost is None else sorted(tree.survival, reverse=True) for tree in drafts]
    if not packed and requests > 1:
        return _by_column(ranked, counts, cost, share)
    order = sorted(  # ties are taken in turn, one node of each request
        (-survival, rank, number) for number, own in enumerate(ranked) for rank, survival in enumerate(own)
    )[: limit - sum(counts)]
    rows, tokens, gains = requests + sum(counts), float(requests), [0.0] * requests
    base, *steps = cost.ahead_of(range(rows, rows + len(order) + 1))
    best, chosen = tokens / base, 0
    for taken, ((negative, _, number), took) in enumerate(zip(order, steps, strict=True), 1):
        tokens -= negative
        gains[number] -= negative
        if tokens / took > best and _is_fair(gains, took, base):
            best, chosen = tokens / took, taken
    for _, _, number in order[:chosen]:
        counts[number] += 1
    return counts


def _is_fair(gains: Sequence[float], took: float, base: float) -> bool:
    """Return whether each request gets its tokens about as fast as if no others drafted."""
    return 1 + min(gains) >= PACE * took / base


def _by_column(ranked: Sequence[Sequence[float]], counts: Sequence[int], cost: StepCost, share: int) -> list[int]:
    """Choose a common number of rows for all requests; each further row is one more node of each."""
    requests, width = len(ranked), max(counts)
    columns = [sum(column) for column in zip_longest(*ranked, fillvalue=0.0)]
    tokens = requests + sum(columns[:width])
    base = cost.ahead(requests * (1 + width))
    best, chosen, gains = tokens / base, width, [sum(own[:width]) for own in ranked]
    for rows in range(width + 1, min(share, len(columns)) + 1):
        tokens += columns[rows - 1]
        gains = [gain + sum(own[rows - 1 : rows]) for gain, own in zip(gains, ranked, strict=True)]
        took = cost.ahead(requests * (1 + rows))
        if tokens / took > best and _is_fair(gains, took, base):
            best, chosen = tokens / took, rows
    return [min(chosen, count + len(own)) for count, own in zip(counts, ranked, strict=True)]
