"""Attention, and what stands before it: which slots a row sees, and where its keys and values go."""

from __future__ import annotations

import math

import numpy as np

from stretto.local_engine.compiled.jit import inner, summing
from stretto.local_engine.compiled.tiles import stripe
from stretto.local_engine.compiled.vectors import PANEL, dots, soften

__all__ = ["mix", "visible", "write"]

_ROWS = 48  # of a prompt and heads, that attend together: the scores of few stay near, and see little in vain


@inner
def visible(batches, lines, slots, positions, ancestry, window, seen, bounds):
    """Mark which slots each row sees # [count, extent]; the first of them, and the one behind the last # [count, 2].

    The first is one of a full block's, or what a row sees would be added up in another order beside other rows.
    """
    for row in range(len(batches)):
        batch, line = batches[row], lines[row]
        own = positions[batch, line]
        first, last = max(0, own + 1 - window), own + 1 if len(ancestry) == 0 else slots[batch, 0]
        for slot in range(seen.shape[1]):
            seen[row, slot] = first <= slot < last
        for other in range(line + 1 if len(ancestry) > 0 else 0):
            if ancestry[batch, line, other] and positions[batch, other] > own - window:
                last = slots[batch, other] + 1
                seen[row, last - 1] = True
        bounds[row, 0], bounds[row, 1] = min(first, last - 1) // PANEL * PANEL, last


@summing
def _turn(line, norm, epsilon, cosine, sine):
    """Turn a query or key to its position, normalised where there is a norm # [head_dim]."""
    half = len(cosine)
    if len(norm) > 0:
        squares = np.float32(0)
        for at in range(2 * half):
            squares += line[at] * line[at]
        scale = np.float32(1) / math.sqrt(squares / np.float32(2 * half) + epsilon)
        for at in range(2 * half):
            line[at] *= scale * norm[at]
    for at in range(half):
        left, right = line[at], line[at + half]
        line[at] = left * cosine[at] - right * sine[at]
        line[at + half] = right * cosine[at] + left * sine[at]


@inner
def _attend(like, heads, start, end, key, value, slot_step, seen, first, last, head, group, room, result):
    """Mix the values of one sequence for some heads of its rows, those from ``start`` up to ``end``.

    Args:
        like: an array of float32.
        heads: queries, and what else `write` had # [count, heads + 2 * key_value_heads, head_dim]
        start: see above.
        end: see above.
        key: address of the first slot's; ``slot_step`` bytes on is the next.
        value: like ``key``.
        slot_step: see there.
        seen: which slots each row sees; the extent is a multiple of `PANEL` # [count, extent]
        first: of the slots that any of the rows sees; a multiple of `PANEL`.
        last: of them, and one more.
        head: the first that attends to these keys.
        group: how many do: each key is read once for all of them.
        room: scores # [rows * group, extent], queries and what is mixed # [rows * group, head_dim]
        result: # [count, heads, head_dim]
    """
    scores, queries, mixed = room
    count, slots, width = (end - start) * group, last - first, result.shape[2]
    filled, line = -(-slots // PANEL) * PANEL, 4 * width
    for number in range(count):
        own = heads[start + number // group, head + number % group]
        for at in range(width):
            queries[number, at] = own[at]
    place, out, query = scores.ctypes.data, 4 * scores.shape[1], queries.ctypes.data
    row = 0
    while row < count:
        if count - row >= 4:
            dots(4, query + row * line, line, key, slot_step, filled, width, place + row * out, out)
            row += 4
        elif count - row >= 2:
            dots(2, query + row * line, line, key, slot_step, filled, width, place + row * out, out)
            row += 2
        else:
            dots(1, query + row * line, line, key, slot_step, filled, width, place + row * out, out)
            row += 1
    totals, scale = np.empty(count, np.float32), np.float32(1 / math.sqrt(width))
    for number in range(count):
        flags = seen.ctypes.data + (start + number // group) * seen.shape[1] + first
        soften(place + number * out, flags, filled, scale, totals.ctypes.data + 4 * number)
    nothing, panels, target = np.int64(0), width // PANEL, mixed.ctypes.data
    stripe(like, place, out, count, slots, value, slot_step, 4 * PANEL, target, line, nothing, nothing, panels)
    for number in range(count):
        own, share = result[start + number // group, head + number % group], np.float32(1) / totals[number]
        for at in range(width):
            own[at] = mixed[number, at] * share


@inner
def write(heads, bias, norm, epsilon, cosine, sine, keys, values, batches, targets, queries, part, parts):
    """Turn queries and keys to their positions, and write keys and values, for one part of all rows' heads.

    Args:
        heads: queries, keys and values of each row, changed in place # [count, heads + 2 * key_value_heads, head_dim]
        bias: of them # [heads + 2 * key_value_heads, head_dim], or empty.
        norm: of queries and keys # [heads + key_value_heads, head_dim], or without numbers.
        epsilon: of the norm.
        cosine: of the angles that they are turned by # [count, head_dim / 2]
        sine: of the angles.
        keys: of the layer # [batch, slots, key_value_heads, head_dim]
        values: of the layer.
        batches: the sequence of each row # [count]
        targets: the slot of each row # [count]
        queries: how many of the heads are.
        part: of the heads of all rows.
        parts: that they are divided into.
    """
    (count, every, width), stored = heads.shape, keys.shape[2]
    for number in range(count * every * part // parts, count * every * (part + 1) // parts):
        row, head = number // every, number % every
        line = heads[row, head]
        if len(bias) > 0:
            own_bias = bias[head]
            for at in range(width):
                line[at] += own_bias[at]
        if head < queries + stored:
            _turn(line, norm[head], epsilon, cosine[row], sine[row])
        if head >= queries:
            spot = (keys if head < queries + stored else values)[batches[row], targets[row], (head - queries) % stored]
            for at in range(width):
                spot[at] = line[at]


@inner
def mix(heads, keys, values, batches, seen, bounds, result, part, parts):
    """Attend to what is written, for one part of the query heads.

    Args:
        heads: queries, and what else `write` had # [count, heads + 2 * key_value_heads, head_dim]
        keys: of the layer # [batch, slots, key_value_heads, head_dim]
        values: of the layer.
        batches: the sequence of each row; rows of one stand side by side # [count]
        seen: see `visible`.
        bounds: see `visible`.
        result: # [count, heads, head_dim]
        part: of the query heads.
        parts: that they are divided into.
    """
    count, queries, stored, width = len(heads), result.shape[1], keys.shape[2], keys.shape[3]
    sharing, like = queries // stored, np.empty(0, np.float32)
    most = min(sharing, -(-queries // parts))
    rows = min(count, max(_ROWS // most, 1))
    scores, vectors = np.empty((rows * most, seen.shape[1]), np.float32), np.empty((2, rows * most, width), np.float32)
    room, slot_step = (scores, vectors[0], vectors[1]), 4 * stored * width
    start = 0
    while start < count:
        end, first, last = start, bounds[start, 0], bounds[start, 1]
        while end < min(count, start + rows) and batches[end] == batches[start]:
            first, last, end = min(first, bounds[end, 0]), max(last, bounds[end, 1]), end + 1
        head, behind = queries * part // parts, queries * (part + 1) // parts
        while head < behind:
            own = head // sharing
            group = min((own + 1) * sharing, behind) - head
            place = (batches[start] * keys.shape[1] + first) * slot_step + 4 * own * width
            key, value = keys.ctypes.data + place, values.ctypes.data + place
            _attend(like, heads, start, end, key, value, slot_step, seen, first, last, head, group, room, result)
            head += group
        start = end
