"""Code that has to use the processor's vectors in one certain way, written for LLVM: numba would leave it to luck.

Addresses and steps are bytes.

Register tiles of a matrix product: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["ABREAST", "MOST", "PAIRED", "PANEL", "STOPPED", "dots", "exp", "meet", "pointer", "soften", "tile"]

PANEL = 16
"""Outputs whose weights stand side by side: a register of AVX-512, two of AVX2, four of NEON."""

_FEATURES = binding.get_host_cpu_features()
_WIDE = bool(_FEATURES.get("avx512f", False))

PAIRED = _WIDE and bool(_FEATURES.get("avx512bf16", False))
"""Whether one operation multiplies pairs of bfloat16 and adds both products to a float32."""

MOST = 12 if _WIDE else 6
"""Rows of a tile. Of AVX-512's 32 registers 24 hold sums then, of AVX2's 16 twelve, of NEON's 32 narrow ones 24."""

ABREAST = (1, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2) if _WIDE else (1, 4, 2, 2, 1, 1, 1)
"""Panels of a tile, by its rows: so many sums that few wait for their last one."""

_ACROSS = 16 if _WIDE else 4
"""Sums of `dots` that are folded together."""

STOPPED = -(2**62)
"""See `meet`."""

_FLOAT = ir.FloatType()
_INT, _LONG = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, PANEL)
_WORDS = ir.VectorType(_INT, PANEL)
_AHEAD = 2048  # bytes of a panel that are fetched ahead: by itself the processor does not go beyond a page
_PATIENCE = 4096  # looks at a counter before another thread is let in
_SERIES = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


class _BFloat(ir.Type):  # type: ignore[misc]  # llvmlite is not typed
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"


_BFLOATS = ir.VectorType(_BFloat(), 2 * PANEL)


def _loaded(builder: Any, address: Any, kind: Any) -> Any:
    """Load a panel's weights of one input as float32, or those of a pair of inputs as they are.

    They are bfloat16, float16 or float32.
    """
    if kind == types.uint32:
        return _load(builder, address, _WORDS)
    if kind == types.float32:
        return _load(builder, address, _VECTOR)
    held = ir.IntType(16) if kind == types.uint16 else ir.HalfType()
    vector = builder.load(builder.inttoptr(address, ir.VectorType(held, PANEL).as_pointer()), align=2)
    if kind == types.int16:
        return builder.fpext(vector, _VECTOR)
    words = builder.zext(vector, _WORDS)
    return builder.bitcast(builder.shl(words, ir.Constant(words.type, [16] * PANEL)), _VECTOR)


def _fill(function: Any, count: int, many: int, kind: Any) -> None:
    """Write the code of a tile; see `tile`."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    source, stride, width, weight, step, panel_step, target, out, add = function.args
    lines = [_far(builder, source, stride, row) for row in range(count)]
    strips = [_far(builder, weight, panel_step, panel) for panel in range(many)]
    nothing = ir.Constant(_VECTOR, [0.0] * PANEL)
    with _loop(builder, width, [nothing] * (count * many)) as (at, sums, new):
        places = [builder.add(strip, builder.mul(at, step)) for strip in strips]
        weights = [_loaded(builder, place, kind) for place in places]
        for place in places:
            _prefetch(builder, builder.add(place, _long(_AHEAD)))
        for row, line in enumerate(lines):
            place = builder.add(line, builder.mul(at, _long(4)))
            spread = _spread(builder, _load(builder, place, _INT if kind == types.uint32 else _FLOAT))
            for vector, total in zip(weights, sums[row * many :], strict=False):
                new.append((_paired if kind == types.uint32 else _added)(builder, spread, vector, total))
    keeps = builder.icmp_signed("!=", add, _long(0))
    for number, total in enumerate(sums):
        row, panel = divmod(number, many)
        spot = builder.add(_far(builder, target, out, row), _long(4 * PANEL * panel))
        old = builder.select(keeps, _load(builder, spot, _VECTOR), nothing)
        builder.store(builder.fadd(total, old), builder.inttoptr(spot, _VECTOR.as_pointer()), align=4)
    builder.ret_void()


def _fill_dots(function: Any, count: int) -> None:
    """Write the code of `dots`."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    queries, query_step, keys, key_step, slots, width, scores, score_step = function.args
    abreast = _ACROSS // count
    lines = [_far(builder, queries, query_step, row) for row in range(count)]
    with _loop(builder, builder.sdiv(slots, _long(abreast)), []) as (block, _, _):
        slot = builder.mul(block, _long(abreast))
        first = builder.add(keys, builder.mul(slot, key_step))
        beside = [_far(builder, first, key_step, number) for number in range(abreast)]
        nothing = ir.Constant(_VECTOR, [0.0] * PANEL)
        with _loop(builder, builder.sdiv(width, _long(PANEL)), [nothing] * _ACROSS) as (chunk, sums, new):
            place = builder.mul(chunk, _long(4 * PANEL))
            vectors = [_load(builder, builder.add(key, place), _VECTOR) for key in beside]
            for row, line in enumerate(lines):
                query = _load(builder, builder.add(line, place), _VECTOR)
                for vector, total in zip(vectors, sums[row * abreast :], strict=False):
                    new.append(_added(builder, query, vector, total))
        folded = _folded(builder, sums)
        for row in range(count):
            own = _chosen(builder, folded, folded, range(row * abreast, (row + 1) * abreast))
            spot = builder.add(_far(builder, scores, score_step, row), builder.mul(slot, _long(4)))
            builder.store(own, builder.inttoptr(spot, own.type.as_pointer()), align=4)
    builder.ret_void()


def _folded(builder: Any, sums: Sequence[Any]) -> Any:
    """Add up each of some vectors, as many as a power of two: halves onto each other, in an order of our own.

    Whatever stands beside it, a row's sum is the same then: no compiler may choose another order.
    """
    size, held = PANEL, list(sums)
    while size > 1:
        size //= 2
        low = [at for start in range(0, held[0].type.count, 2 * size) for at in range(start, start + size)]
        pairs = list(zip(held[::2], held[1::2], strict=True)) if len(held) > 1 else [(held[0], held[0])]
        if len(held) > 1:
            low += [at + PANEL for at in low]
        high = [at + size for at in low]
        held = [builder.fadd(*(_chosen(builder, *pair, places) for places in (low, high))) for pair in pairs]
    return held[0]


def _fill_soften(function: Any) -> None:
    """Write the code of `soften`."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    scores, seen, slots, scale, target = function.args
    blocks, scale = builder.sdiv(slots, _long(PANEL)), _spread(builder, scale)
    lowest, nothing = (ir.Constant(_VECTOR, [value] * PANEL) for value in (-math.inf, 0.0))

    def looked_up(block: Any) -> tuple[Any, Any]:
        spot = builder.add(scores, builder.mul(block, _long(4 * PANEL)))
        flags = ir.VectorType(ir.IntType(8), PANEL)
        place = builder.inttoptr(builder.add(seen, builder.mul(block, _long(PANEL))), flags.as_pointer())
        return builder.inttoptr(spot, _VECTOR.as_pointer()), builder.icmp_unsigned(
            "!=", builder.load(place, align=1), ir.Constant(flags, [0] * PANEL)
        )

    with _loop(builder, blocks, [lowest]) as (block, mosts, new):
        place, visible = looked_up(block)
        found = builder.select(visible, builder.fmul(builder.load(place, align=4), scale), lowest)
        builder.store(found, place, align=4)
        new.append(_larger(builder, found, mosts[0]))
    most = mosts[0]
    for size in (8, 4, 2, 1):
        most = _larger(builder, *(_chosen(builder, most, most, range(at, at + size)) for at in (0, size)))
    most = _spread(builder, builder.extract_element(most, _INT(0)))
    with _loop(builder, blocks, [nothing]) as (block, totals, new):
        place, visible = looked_up(block)
        raised = _exponential(builder, builder.fsub(builder.load(place, align=4), most))
        share = builder.select(visible, raised, nothing)
        builder.store(share, place, align=4)
        new.append(builder.fadd(totals[0], share))
    total = builder.extract_element(_folded(builder, totals), _INT(0))
    builder.store(total, builder.inttoptr(target, _FLOAT.as_pointer()))
    builder.ret_void()


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _exponential(builder: Any, number: Any) -> Any:
    """Raise e to a number or to a vector of them, to seven digits: a power of two and a polynomial."""
    kind, whole, many = number.type, _INT, 1
    if isinstance(kind, ir.VectorType):
        many, whole = kind.count, ir.VectorType(_INT, kind.count)

    def constant(value: float, kind: Any = kind) -> Any:
        return ir.Constant(kind, [value] * many if isinstance(kind, ir.VectorType) else value)

    for bound, side in ((-87.0, "<"), (88.0, ">")):  # in this form what is no number stays none
        number = builder.select(builder.fcmp_ordered(side, number, constant(bound)), constant(bound), number)
    rounds = constant(1.5 * 2**23)  # added, it leaves no room for a fraction
    power = builder.fsub(builder.fadd(builder.fmul(number, constant(math.log2(math.e))), rounds), rounds)
    rest = builder.fsub(number, builder.fmul(power, constant(0.693359375)))
    rest = builder.fadd(rest, builder.fmul(power, constant(2.12194440e-4)))
    total = constant(_SERIES[0])
    for factor in _SERIES[1:]:
        total = builder.fadd(builder.fmul(total, rest), constant(factor))
    total = builder.fadd(builder.fadd(builder.fmul(builder.fmul(total, rest), rest), rest), constant(1.0))
    exponent = builder.add(builder.fptosi(power, whole), constant(127, whole))
    return builder.fmul(total, builder.bitcast(builder.shl(exponent, constant(23, whole)), kind))


def _chosen(builder: Any, left: Any, right: Any, places: Iterable[int]) -> Any:
    mask = list(places)
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT, len(mask)), mask))


def _long(number: int) -> Any:
    return ir.Constant(_LONG, number)


def _far(builder: Any, address: Any, step: Any, times: int) -> Any:
    return builder.add(address, builder.mul(step, _long(times)))


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)


def _spread(builder: Any, number: Any) -> Any:
    """Put a number into all places of a vector."""
    anything = ir.Constant(ir.VectorType(number.type, PANEL), ir.Undefined)
    first = builder.insert_element(anything, number, _INT(0))
    return builder.shuffle_vector(first, anything, ir.Constant(_WORDS, [0] * PANEL))


def _added(builder: Any, left: Any, right: Any, total: Any) -> Any:
    """Multiply, and add to the total, rounded once where the processor can."""
    function = _function(builder, f"llvm.fmuladd.v{PANEL}f32", _VECTOR, [_VECTOR] * 3)
    return builder.call(function, [left, right, total])


def _paired(builder: Any, left: Any, right: Any, total: Any) -> Any:
    """Multiply pairs of bfloat16, and add both products to the total."""
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    function = _function(builder, name, _VECTOR, [_VECTOR, _BFLOATS, _BFLOATS])
    return builder.call(function, [total, *(builder.bitcast(pairs, _BFLOATS) for pairs in (left, right))])


def _prefetch(builder: Any, address: Any) -> None:
    """Have the processor fetch what will be read soon; nothing happens where there is no memory."""
    byte = ir.IntType(8).as_pointer()
    function = _function(builder, "llvm.prefetch.p0i8", ir.VoidType(), [byte, _INT, _INT, _INT])
    builder.call(function, [builder.inttoptr(address, byte), *(ir.Constant(_INT, number) for number in (0, 3, 1))])


def _function(builder: Any, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)  # type: ignore[no-untyped-call]  # numba leaves it untyped


@contextmanager
def _loop(builder: Any, times: Any, starts: Sequence[Any]) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Count up to ``times``, and carry values from turn to turn: the body leaves the next ones in the last list."""
    before, (head, body, after) = builder.block, (builder.append_basic_block() for _ in range(3))
    following: list[Any] = []
    builder.branch(head)
    builder.position_at_end(head)
    at, carried = builder.phi(_LONG), [builder.phi(start.type) for start in starts]
    at.add_incoming(_long(0), before)
    for value, start in zip(carried, starts, strict=True):
        value.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", at, times), body, after)
    builder.position_at_end(body)
    yield at, carried, following
    at.add_incoming(builder.add(at, _long(1)), builder.block)
    for value, coming in zip(carried, following, strict=True):
        value.add_incoming(coming, builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def _called(context: Any, builder: Any, name: str, given: Sequence[Any], fill: Callable[[Any], None]) -> Any:
    """Call a function of that name, written once: called from many places, it would be compiled at each otherwise."""
    function = _function(builder, name, ir.VoidType(), [value.type for value in given])
    if function.is_declaration:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        fill(function)
    builder.call(function, given)
    return context.get_dummy_value()


@intrinsic
def tile(
    context: Any, like: Any, rows: Any, panels: Any, source: Any, stride: Any, width: Any, weight: Any, step: Any,
    panel_step: Any, target: Any, out: Any, add: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Multiply at most `MOST` rows with one, or with `ABREAST` neighbouring panels, by their number or one more.

    ``stride``, ``step``, ``panel_step`` and ``out`` are bytes: between rows, between a panel's inputs, between panels,
    and between rows of the result.
    """
    kind = like.dtype
    shapes = {(rows, many) for rows in range(1, MOST + 1) for many in (1, *ABREAST[rows : rows + 2])}

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        shape = builder.add(builder.mul(given[1], _long(PANEL)), given[2])
        no_other, after = builder.append_basic_block(), builder.append_basic_block()
        choice = builder.switch(shape, no_other)
        for count, many in sorted(shapes):
            block = builder.append_basic_block()
            choice.add_case(_long(count * PANEL + many), block)
            builder.position_at_end(block)
            name = f"stretto_tile_{kind}_{count}_{many}"
            _called(context, builder, name, given[3:], partial(_fill, count=count, many=many, kind=kind))
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
    """Multiply so many queries, known when it is compiled, with keys.

    These are as wide as a multiple of `PANEL`, and as many.
    """
    many = count.literal_value

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return _called(context, builder, f"stretto_dots_{many}", given[1:], lambda function: _fill_dots(function, many))

    arguments = (count, queries, query_step, keys, key_step, slots, width, scores, score_step)
    return types.void(*arguments), generate


@intrinsic
def soften(context: Any, scores: Any, seen: Any, slots: Any, scale: Any, total: Any) -> tuple[Any, Callable[..., Any]]:
    """Raise e to scores, scaled and without the largest of them, and write down what that comes to.

    Args:
        context: numba's.
        scores: address of as many as a multiple of `PANEL`, which are replaced; what is not seen becomes 0.
        seen: address of a byte for each; at least one is seen.
        slots: how many.
        scale: of the scores.
        total: address of the sum.
    """

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return _called(context, builder, "stretto_soften", given, _fill_soften)

    return types.void(scores, seen, slots, scale, total), generate


@intrinsic
def exp(context: Any, number: Any) -> tuple[Any, Callable[..., Any]]:
    """Raise e to a float32, to seven digits, in operations that vectors have.

    Not for a function that sums in any order: its operations would be taken in another order too, and be wrong.
    """

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return _exponential(builder, given[0])

    return types.float32(types.float32), generate


@intrinsic
def pointer(context: Any, address: Any) -> tuple[Any, Callable[..., Any]]:
    """Make an address what `numba.carray` takes."""

    def generate(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return builder.inttoptr(given[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@intrinsic
def meet(context: Any, counter: Any, parts: Any) -> tuple[Any, Callable[..., Any]]:
    """Wait until all threads have come here; ``counter`` is the address of a number that begins with 0.

    Whoever sets it to `STOPPED` lets all go, here and wherever they meet again: one of them will not come.
    They wait awake: in a step they are never far apart, and waking up takes longer than what they wait for.
    """

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        counter, parts = given
        place = builder.inttoptr(counter, _LONG.as_pointer())
        before = builder.atomic_rmw("add", place, _long(1), "acq_rel")
        arrivals = builder.mul(builder.add(builder.sdiv(before, parts), _long(1)), parts)
        look, spin, go = (builder.append_basic_block(name) for name in ("look", "spin", "go"))
        entry = builder.block
        builder.branch(look)
        builder.position_at_end(look)
        turns = builder.phi(_LONG)
        turns.add_incoming(_long(1), entry)
        here = builder.load_atomic(place, "acquire", 8)
        stopped = builder.icmp_signed("<", here, _long(0))
        builder.cbranch(builder.or_(stopped, builder.icmp_signed(">=", here, arrivals)), go, spin)
        builder.position_at_end(spin)
        if sys.platform != "win32":  # lets a thread that has no processor have this one
            with builder.if_then(builder.icmp_signed("==", builder.srem(turns, _long(_PATIENCE)), _long(0))):
                builder.call(_function(builder, "sched_yield", _INT, []), [])
        turns.add_incoming(builder.add(turns, _long(1)), builder.block)
        builder.branch(look)
        builder.position_at_end(go)
        return context.get_dummy_value()

    return types.void(counter, parts), generate
