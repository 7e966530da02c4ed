"""Attention, and what stands before it: which slots a row sees, and where its keys and values go."""

from __future__ import annotations

import math

import numpy as np

from stretto.local_engine.kernels.jit import inner, summing
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.tiles import stripe
from stretto.local_engine.kernels.vectors import dots, soften

__all__ = ["mix", "visible", "write"]

_ROWS = 48  # of a prompt and heads, that attend together: the scores of few stay near, and see little in vain


@inner
def visible(batches, lines, slots, positions, ancestry, window, seen, bounds, paths, bends):
    """Say which positions each row sees, and where their keys stand.

    A token stands in the slot of its position, but for the nodes of a draft tree: these stand one behind the other in
    the order of their rows. `_attend` puts the scores of a node's ancestors into the order of their positions, the
    order in which the same tokens are added up without a tree.

    Args:
        batches: see `stretto.local_engine.kernels.forward.Asked`; so are the next five.
        lines: see there.
        slots: see there.
        positions: see there; a node's is that of its sequence's first row and its depth.
        ancestry: see there.
        window: positions a row sees at most, itself included.
        seen: written: which positions a row sees # [count, extent]
        bounds: written: the first slot a row sees, rounded down to a multiple of `PANEL`, as it is for any other
            rows; the slot behind the last # [count, 2]
        paths: written: the slots of a row and its ancestors in a tree, the first row's first # [count, rows], or
            without a tree # [count, 0]
        bends: written: the first place of a row's path whose slot is not its position, and that the row sees; the
            length of the path; the position of its first place # [count, 3]
    """
    for row in range(len(batches)):
        batch, line = batches[row], lines[row]
        own = positions[batch, line]
        first, last, bend, length, start = max(0, own + 1 - window), own + 1, 0, 0, slots[batch, 0]
        if len(ancestry) > 0:
            for other in range(line + 1):
                if ancestry[batch, line, other]:
                    paths[row, length] = slots[batch, other]
                    if bend == length and paths[row, length] == start + length:
                        bend += 1
                    length += 1
            bend, last = max(bend, first - start), slots[batch, line] + 1
        for position in range(seen.shape[1]):
            seen[row, position] = first <= position <= own
        bounds[row, 0], bounds[row, 1] = first // PANEL * PANEL, last
        bends[row, 0], bends[row, 1], bends[row, 2] = bend, length, start


@inner
def _gather(scores, first, path, bend, start):
    """Move the scores of ancestors from their slots to their positions; the first score is that of slot ``first``.

    A node's slot is never before its position, so no score is written over before it is moved.
    """
    for place in range(bend, len(path)):
        scores[start + place - first] = scores[path[place] - first]


@inner
def _scatter(scores, first, path, bend, start):
    """Move what `_gather` moved back, and put zeros into the slots in between."""
    for place in range(len(path) - 1, bend - 1, -1):
        own, before = path[place], path[place - 1] if place > bend else start + bend - 1
        scores[own - first] = scores[start + place - first]
        for slot in range(before + 1, own):
            scores[slot - first] = np.float32(0)


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
def _attend(like, heads, start, end, key, value, slot_step, seen, paths, bends, first, last, head, group, room, result):
    """Mix the values of one sequence for some heads of its rows, those from ``start`` up to ``end``.

    Args:
        like: an array of float32.
        heads: queries, and what else `write` had # [count, heads + 2 * key_value_heads, head_dim]
        start: see above.
        end: see above.
        key: address of the first slot's; ``slot_step`` bytes on is the next.
        value: like ``key``.
        slot_step: see there.
        seen: see `visible`; the extent is a multiple of `PANEL` # [count, extent]
        paths: see `visible`.
        bends: see `visible`.
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
def mix(heads, keys, values, batches, seen, bounds, paths, bends, result, part, parts):
    """Attend to what is written, for one part of the query heads.

    Args:
        heads: queries, and what else `write` had # [count, heads + 2 * key_value_heads, head_dim]
        keys: of the layer # [batch, slots, key_value_heads, head_dim]
        values: of the layer.
        batches: the sequence of each row; rows of one stand side by side # [count]
        seen: see `visible`.
        bounds: see `visible`.
        paths: see `visible`.
        bends: see `visible`.
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
            rows_see = (seen, paths, bends, first, last)
            _attend(like, heads, start, end, key, value, slot_step, *rows_see, head, group, room, result)
            head += group
        start = end
