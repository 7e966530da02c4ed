"""Functions in LLVM code, because they must use vector registers in a way that numba does not expose.

Addresses and steps are bytes.

Register tiles of a matrix product: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008.
"""

from __future__ import annotations

import math
import platform
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from stretto.local_engine.kernels.llvm import (
    FLOAT,
    INT,
    LONG,
    VECTOR,
    WORDS,
    broadcast,
    call_shared,
    declare,
    dot_bfloat16,
    exponential,
    horizontal_sums,
    int64,
    load,
    loop,
    maximum,
    multiply_add,
    offset,
    prefetch,
    shuffle,
    widen_float16,
)
from stretto.local_engine.kernels.sizes import PANEL

FEATURES = frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))
"""The features that numba compiles for, which ``NUMBA_CPU_NAME`` and others change: not those of the processor."""

_WIDE = "+avx512f" in FEATURES

PAIRED = _WIDE and "+avx512bf16" in FEATURES
"""Whether one instruction multiplies pairs of bfloat16 and adds both products to a float32."""

MOST = 12 if _WIDE else 6
"""Rows of a tile. Sums then take 24 of AVX-512's 32 registers, 12 of AVX2's 16, and 24 of NEON's 32 narrow ones."""

ABREAST = (1, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2) if _WIDE else (1, 4, 2, 2, 1, 1, 1)
"""Panels of a tile, by its rows: enough accumulators to hide the latency of a multiply-add."""

_HALVES = "+f16c" in FEATURES or platform.machine() not in {"x86_64", "AMD64"}
"""Whether the processor widens float16. Elsewhere LLVM calls a function that is missing here, and crashes."""

_ACROSS = 16 if _WIDE else 4
"""Sums of `dots` that are reduced together."""

_AHEAD = 2048  # bytes of a panel that are prefetched: the processor itself does not prefetch beyond a page
_SPINS = 4096  # before sched_yield()


def _loaded(builder: Any, address: Any, kind: Any) -> Any:
    """Load a panel's weights of one input as float32, or those of a pair of inputs unchanged.

    They are bfloat16, float16 or float32.
    """
    if kind == types.uint32:
        return load(builder, address, WORDS)
    if kind == types.float32:
        return load(builder, address, VECTOR)
    if kind == types.int16:
        return load_halves(builder, address)
    words = _load_words(builder, address)
    return builder.bitcast(builder.shl(words, ir.Constant(words.type, [16] * PANEL)), VECTOR)


def load_halves(builder: Any, address: Any) -> Any:
    """Load as many float16 as a panel has outputs, as float32."""
    if not _HALVES:
        return widen_float16(builder, _load_words(builder, address))
    halves = ir.VectorType(ir.HalfType(), PANEL)
    return builder.fpext(builder.load(builder.inttoptr(address, halves.as_pointer()), align=2), VECTOR)


def _load_words(builder: Any, address: Any) -> Any:
    """Load numbers of 16 bits as words."""
    shorts = ir.VectorType(ir.IntType(16), PANEL)
    return builder.zext(builder.load(builder.inttoptr(address, shorts.as_pointer()), align=2), WORDS)


def _fill(function: Any, count: int, many: int, kind: Any) -> None:
    """Write the code of a tile; see `tile`."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    source, stride, width, weight, step, panel_step, target, out, add = function.args
    lines = [offset(builder, source, stride, row) for row in range(count)]
    strips = [offset(builder, weight, panel_step, panel) for panel in range(many)]
    nothing = ir.Constant(VECTOR, [0.0] * PANEL)
    with loop(builder, width, [nothing] * (count * many)) as (at, sums, new):
        addresses = [builder.add(strip, builder.mul(at, step)) for strip in strips]
        weights = [_loaded(builder, address, kind) for address in addresses]
        for address in addresses:
            prefetch(builder, builder.add(address, int64(_AHEAD)))
        for row, line in enumerate(lines):
            place = builder.add(line, builder.mul(at, int64(4)))
            number = broadcast(builder, load(builder, place, INT if kind == types.uint32 else FLOAT))
            for vector, total in zip(weights, sums[row * many :], strict=False):
                new.append((dot_bfloat16 if kind == types.uint32 else multiply_add)(builder, number, vector, total))
    keeps = builder.icmp_signed("!=", add, int64(0))
    for number, total in enumerate(sums):
        row, panel = divmod(number, many)
        spot = builder.add(offset(builder, target, out, row), int64(4 * PANEL * panel))
        old = builder.select(keeps, load(builder, spot, VECTOR), nothing)
        builder.store(builder.fadd(total, old), builder.inttoptr(spot, VECTOR.as_pointer()), align=4)
    builder.ret_void()


def _fill_dots(function: Any, count: int) -> None:
    """Write the code of `dots`."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    queries, query_step, keys, key_step, slots, width, scores, score_step = function.args
    abreast = _ACROSS // count
    lines = [offset(builder, queries, query_step, row) for row in range(count)]
    with loop(builder, builder.sdiv(slots, int64(abreast)), []) as (block, _, _):
        slot = builder.mul(block, int64(abreast))
        first = builder.add(keys, builder.mul(slot, key_step))
        addresses = [offset(builder, first, key_step, number) for number in range(abreast)]
        nothing = ir.Constant(VECTOR, [0.0] * PANEL)
        with loop(builder, builder.sdiv(width, int64(PANEL)), [nothing] * _ACROSS) as (chunk, sums, new):
            place = builder.mul(chunk, int64(4 * PANEL))
            vectors = [load(builder, builder.add(key, place), VECTOR) for key in addresses]
            for row, line in enumerate(lines):
                query = load(builder, builder.add(line, place), VECTOR)
                for vector, total in zip(vectors, sums[row * abreast :], strict=False):
                    new.append(multiply_add(builder, query, vector, total))
        totals = horizontal_sums(builder, sums)
        for row in range(count):
            own = shuffle(builder, totals, totals, range(row * abreast, (row + 1) * abreast))
            spot = builder.add(offset(builder, scores, score_step, row), builder.mul(slot, int64(4)))
            builder.store(own, builder.inttoptr(spot, own.type.as_pointer()), align=4)
    builder.ret_void()


def _fill_soften(function: Any) -> None:
    """Write the code of `soften`."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    scores, seen, slots, scale, target = function.args
    blocks, scale = builder.sdiv(slots, int64(PANEL)), broadcast(builder, scale)
    lowest, nothing = (ir.Constant(VECTOR, [value] * PANEL) for value in (-math.inf, 0.0))

    def looked_up(block: Any) -> tuple[Any, Any]:
        spot = builder.add(scores, builder.mul(block, int64(4 * PANEL)))
        flags = ir.VectorType(ir.IntType(8), PANEL)
        place = builder.inttoptr(builder.add(seen, builder.mul(block, int64(PANEL))), flags.as_pointer())
        return builder.inttoptr(spot, VECTOR.as_pointer()), builder.icmp_unsigned(
            "!=", builder.load(place, align=1), ir.Constant(flags, [0] * PANEL)
        )

    with loop(builder, blocks, [lowest]) as (block, mosts, new):
        place, visible = looked_up(block)
        found = builder.select(visible, builder.fmul(builder.load(place, align=4), scale), lowest)
        builder.store(found, place, align=4)
        new.append(maximum(builder, found, mosts[0]))
    most = mosts[0]
    for size in (8, 4, 2, 1):
        most = maximum(builder, *(shuffle(builder, most, most, range(at, at + size)) for at in (0, size)))
    most = broadcast(builder, builder.extract_element(most, INT(0)))
    with loop(builder, blocks, [nothing]) as (block, totals, new):
        place, visible = looked_up(block)
        raised = exponential(builder, builder.fsub(builder.load(place, align=4), most))
        share = builder.select(visible, raised, nothing)
        builder.store(share, place, align=4)
        new.append(builder.fadd(totals[0], share))
    total = builder.extract_element(horizontal_sums(builder, totals), INT(0))
    builder.store(total, builder.inttoptr(target, FLOAT.as_pointer()))
    builder.ret_void()


@intrinsic
def tile(
    context: Any, like: Any, rows: Any, panels: Any, source: Any, stride: Any, width: Any, weight: Any, step: Any,
    panel_step: Any, target: Any, out: Any, add: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Multiply up to `MOST` rows by one panel, or by ``ABREAST[rows]`` or ``ABREAST[rows + 1]`` neighbouring ones.

    ``stride``, ``step``, ``panel_step`` and ``out`` are bytes: between rows, between a panel's inputs, between panels,
    and between rows of the result.
    """
    kind = like.dtype
    shapes = {(rows, many) for rows in range(1, MOST + 1) for many in (1, *ABREAST[rows : rows + 2])}

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        shape = builder.add(builder.mul(given[1], int64(PANEL)), given[2])
        no_other, after = builder.append_basic_block(), builder.append_basic_block()
        choice = builder.switch(shape, no_other)
        for count, many in sorted(shapes):
            block = builder.append_basic_block()
            choice.add_case(int64(count * PANEL + many), block)
            builder.position_at_end(block)
            name = f"stretto_tile_{kind}_{count}_{many}"
            call_shared(context, builder, name, given[3:], partial(_fill, count=count, many=many, kind=kind))
            builder.branch(after)
        builder.position_at_end(no_other)
        builder.unreachable()
        builder.position_at_end(after)
        return context.get_dummy_value()

    arguments = (like, rows, panels, source, stride, width, weight, step, panel_step, target, out, add)
    return types.void(*arguments), generate


@intrinsic(prefer_literal=True)
def dots(
    context: Any, count: Any, queries: Any, query_step: Any, keys: Any, key_step: Any, slots: Any, width: Any,
    scores: Any, score_step: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Multiply ``count`` queries, a compile-time constant, by keys.

    The width and the number of the keys are multiples of `PANEL`.
    """
    many = count.literal_value

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return call_shared(
            context, builder, f"stretto_dots_{many}", given[1:], lambda function: _fill_dots(function, many)
        )

    arguments = (count, queries, query_step, keys, key_step, slots, width, scores, score_step)
    return types.void(*arguments), generate


@intrinsic
def soften(context: Any, scores: Any, seen: Any, slots: Any, scale: Any, total: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute a softmax without the division: exp of the scaled scores minus the largest one, and their sum.

    Args:
        context: numba's.
        scores: their address; they are replaced, by 0 where a slot is not seen.
        seen: address of one byte per score; at least one is seen.
        slots: number of scores, a multiple of `PANEL`.
        scale: of the scores.
        total: address of the sum.
    """

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return call_shared(context, builder, "stretto_soften", given, _fill_soften)

    return types.void(scores, seen, slots, scale, total), generate


@intrinsic
def exp(context: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute exp of a float32, to seven digits, in operations that can be vectorised.

    Functions that may sum in any order must not call it: these operations would be reordered too, with wrong results.
    """

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return exponential(builder, given[0])

    return types.float32(types.float32), generate


@intrinsic
def pointer(context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    """Convert an address to a pointer for `numba.carray`."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def barrier(context: Any, counter: Any, parts: Any) -> tuple[Any, Callable[..., Any]]:
    """Wait until all threads have arrived; ``counter`` is the address of a number that starts at 0.

    If one of them will not come, setting the counter to `stretto.local_engine.kernels.sizes.STOPPED` releases the
    others, here and at all later barriers. They spin: in a step they are never far apart, and waking up takes longer.
    """

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        counter, parts = given
        place = builder.inttoptr(counter, LONG.as_pointer())
        before = builder.atomic_rmw("add", place, int64(1), "acq_rel")
        arrivals = builder.mul(builder.add(builder.sdiv(before, parts), int64(1)), parts)
        look, spin, go = (builder.append_basic_block(name) for name in ("look", "spin", "go"))
        entry = builder.block
        builder.branch(look)
        builder.position_at_end(look)
        turns = builder.phi(LONG)
        turns.add_incoming(int64(1), entry)
        here = builder.load_atomic(place, "acquire", 8)
        stopped = builder.icmp_signed("<", here, int64(0))
        builder.cbranch(builder.or_(stopped, builder.icmp_signed(">=", here, arrivals)), go, spin)
        builder.position_at_end(spin)
        if sys.platform != "win32":  # yields the processor to a waiting thread
            with builder.if_then(builder.icmp_signed("==", builder.srem(turns, int64(_SPINS)), int64(0))):
                builder.call(declare(builder, "sched_yield", INT, []), [])
        turns.add_incoming(builder.add(turns, int64(1)), builder.block)
        builder.branch(look)
        builder.position_at_end(go)
        return context.get_dummy_value()

    return types.void(counter, parts), generate
