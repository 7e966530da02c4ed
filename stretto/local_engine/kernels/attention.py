"""Attention, with the slots that each row sees, and the writing of keys and values."""

from __future__ import annotations

import math

import numpy as np

from stretto.local_engine.kernels.compiling.jit import inner, summing
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import stripe
from stretto.local_engine.kernels.vectors import dots, soften

_ROWS = 48  # rows times heads that attend together: few enough that their scores stay in the cache


@inner
def visible(batches, lines, slots, positions, sees, ancestry, window, seen, bounds, paths, bends):
    """Compute which positions each row sees, and the slots of their keys.

    A token is in the slot of its position, except nodes of a draft tree, which are in the order of their rows.
    `_attend` moves the scores of a node's ancestors into the order of their positions, in which the same tokens are
    summed without a tree.

    Args:
        batches: see `stretto.local_engine.kernels.forward.Inputs`; so are the next five.
        lines: see there.
        slots: see there.
        positions: see there; that of a node is the position of its sequence's first row plus its depth.
        sees: see there.
        ancestry: see there.
        window: maximum number of positions that a row sees, including its own.
        seen: output: which positions a row sees # [count, kv_len]
        bounds: output: the first slot that a row sees, rounded down to a multiple of `PANEL`, and one past the last
            slot # [count, 2]
        paths: output: the slots of a row and its ancestors in a tree, starting at the root # [count, rows], or without
            a tree # [count, 0]
        bends: output: the first visible element of a row's path whose slot is not its position; the length of the path;
            the position of its first element # [count, 3]
    """
    for row in range(len(batches)):
        batch, line = batches[row], lines[row]
        own = positions[batch, line]
        first, end, bend, length, start = max(0, own + 1 - window), sees[batch, line], 0, 0, slots[batch, 0]
        last = end
        if len(ancestry) > 0:
            for other in range(line + 1):
                if ancestry[batch, line, other]:
                    paths[row, length] = slots[batch, other]
                    if bend == length and paths[row, length] == start + length:
                        bend += 1
                    length += 1
            bend, last = max(bend, first - start), slots[batch, line] + 1
        for position in range(seen.shape[1]):
            seen[row, position] = first <= position < end
        bounds[row, 0], bounds[row, 1] = first // PANEL * PANEL, last
        bends[row, 0], bends[row, 1], bends[row, 2] = bend, length, start


@inner
def _gather(scores, first, path, bend, start):
    """Move the scores of ancestors from their slots to their positions; the first score is that of slot ``first``.

    A node's slot is never before its position, so no score is overwritten before it is moved.
    """
    for place in range(bend, len(path)):
        scores[start + place - first] = scores[path[place] - first]


@inner
def _scatter(scores, first, path, bend, start):
    """Undo `_gather`, and put zeros into the slots in between."""
    for place in range(len(path) - 1, bend - 1, -1):
        own, before = path[place], path[place - 1] if place > bend else start + bend - 1
        scores[own - first] = scores[start + place - first]
        for slot in range(before + 1, own):
            scores[slot - first] = np.float32(0)


@summing
def _turn(line, norm, epsilon, cosine, sine):
    """Apply the rotary embedding to a query or key, after the norm if there is one # [head_dim]."""
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
def _attend(
    like, heads, start, end, key, value, slot_step, seen, paths, bends, first, last, head, group, scratch, result
):
    """Compute attention for the rows from ``start`` to ``end``, all of one sequence, for some heads.

    Args:
        like: an array of float32.
        heads: see `write`; the queries are used # [count, heads + 2 * num_kv_heads, head_dim]
        start: see above.
        end: see above.
        key: address of the first slot's key; the next is ``slot_step`` bytes further.
        value: like ``key``.
        slot_step: see there.
        seen: see `visible`; kv_len is a multiple of `PANEL` # [count, kv_len]
        paths: see `visible`.
        bends: see `visible`.
        first: the first slot that any of the rows sees; a multiple of `PANEL`.
        last: one past the last such slot.
        head: the first query head of this key-value head.
        group: number of its query heads: each key is read once for all of them.
        scratch: scores # [rows * group, kv_len], queries and outputs # [rows * group, head_dim]
        result: # [count, heads, head_dim]
    """
    scores, queries, mixed = scratch
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
        row = start + number // group
        flags = seen.ctypes.data + row * seen.shape[1] + first
        bend, length, root = bends[row]
        if bend < length:
            _gather(scores[number], first, paths[row, :length], bend, root)
        soften(place + number * out, flags, filled, scale, totals.ctypes.data + 4 * number)
        if bend < length:
            _scatter(scores[number], first, paths[row, :length], bend, root)
    nothing, panels, target = np.int64(0), width // PANEL, mixed.ctypes.data
    stripe(like, place, out, count, slots, value, slot_step, 4 * PANEL, target, line, nothing, nothing, panels)
    for number in range(count):
        own, share = result[start + number // group, head + number % group], np.float32(1) / totals[number]
        for at in range(width):
            own[at] = mixed[number, at] * share


@inner
def write(heads, bias, norm, epsilon, cosine, sine, keys, values, batches, targets, queries, part, parts):
    """Apply the rotary embedding to queries and keys, and write keys and values, for one part of all rows' heads.

    Args:
        heads: queries, keys and values of each row, changed in place # [count, heads + 2 * num_kv_heads, head_dim]
        bias: of the heads # [heads + 2 * num_kv_heads, head_dim], or empty.
        norm: of queries and keys # [heads + num_kv_heads, head_dim], or empty.
        epsilon: of the norm.
        cosine: of the rotary angles # [count, head_dim / 2]
        sine: of the angles.
        keys: of the layer # [batch, slots, num_kv_heads, head_dim]
        values: of the layer.
        batches: the sequence of each row # [count]
        targets: the slot of each row # [count]
        queries: number of query heads.
        part: index of this part of the heads of all rows.
        parts: number of parts.
    """
    (count, every, width), num_kv_heads = heads.shape, keys.shape[2]
    for number in range(count * every * part // parts, count * every * (part + 1) // parts):
        row, head = number // every, number % every
        line = heads[row, head]
        if len(bias) > 0:
            own_bias = bias[head]
            for at in range(width):
                line[at] += own_bias[at]
        if head < queries + num_kv_heads:
            _turn(line, norm[head], epsilon, cosine[row], sine[row])
        if head >= queries:
            target = keys if head < queries + num_kv_heads else values
            spot = target[batches[row], targets[row], (head - queries) % num_kv_heads]
            for at in range(width):
                spot[at] = line[at]


@inner
def mix(heads, keys, values, batches, seen, bounds, paths, bends, result, part, parts):
    """Compute attention over all written slots, for one part of the query heads.

    Args:
        heads: see `write`; the queries are used # [count, heads + 2 * num_kv_heads, head_dim]
        keys: of the layer # [batch, slots, num_kv_heads, head_dim]
        values: of the layer.
        batches: the sequence of each row; rows of one are adjacent # [count]
        seen: see `visible`.
        bounds: see `visible`.
        paths: see `visible`.
        bends: see `visible`.
        result: # [count, heads, head_dim]
        part: index of this part of the query heads.
        parts: number of parts.
    """
    count, queries, num_kv_heads, width = len(heads), result.shape[1], keys.shape[2], keys.shape[3]
    sharing, like = queries // num_kv_heads, np.empty(0, np.float32)
    most = min(sharing, -(-queries // parts))
    rows = min(count, max(_ROWS // most, 1))
    scores, vectors = np.empty((rows * most, seen.shape[1]), np.float32), np.empty((2, rows * most, width), np.float32)
    scratch, slot_step = (scores, vectors[0], vectors[1]), 4 * num_kv_heads * width
    start = 0
    while start < count:
        end, first, last = start, bounds[start, 0], bounds[start, 1]
        while end < min(count, start + rows) and batches[end] == batches[start]:
            first, last, end = min(first, bounds[end, 0]), max(last, bounds[end, 1]), end + 1
        head, end_head = queries * part // parts, queries * (part + 1) // parts
        while head < end_head:
            own = head // sharing
            group = min((own + 1) * sharing, end_head) - head
            place = (batches[start] * keys.shape[1] + first) * slot_step + 4 * own * width
            key, value = keys.ctypes.data + place, values.ctypes.data + place
            rows_see = (seen, paths, bends, first, last)
            _attend(like, heads, start, end, key, value, slot_step, *rows_see, head, group, scratch, result)
            head += group
        start = end
