"""Products of 8-bit rows with weights in blocks, in LLVM code; see `stretto.local_engine.kernels.vectors`.

The sums of a group are integers, so they are the same in whatever order a processor adds them. The later operations are
the same for each row, whatever other rows there are.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from stretto.local_engine.kernels.block_kinds import BLOCK_KINDS, BlockKind
from stretto.local_engine.kernels.llvm import (
    FLOAT,
    INT,
    VECTOR,
    WORDS,
    broadcast,
    call_shared,
    declare,
    int64,
    load,
    loop,
    multiply_add,
    prefetch,
    shuffle,
)
from stretto.local_engine.kernels.sizes import PANEL
from stretto.local_engine.kernels.vectors import FEATURES, load_halves

_FOUR_PRODUCTS = {"+avx512f", "+avx512vnni"} <= FEATURES
"""Whether one instruction multiplies four pairs of bytes for each of 16 outputs, and adds the products."""

_DOT = "+dotprod" in FEATURES and platform.machine() in {"aarch64", "arm64"}
"""The same for four outputs."""

_TWO_PRODUCTS = not _FOUR_PRODUCTS and "+avx2" in FEATURES
"""Whether one instruction multiplies pairs of bytes and adds two products, in 16 bits."""

MOST_ROWS = 8 if _FOUR_PRODUCTS else 4
"""Maximum rows of a tile: the codes of a block are unpacked once for all of them."""

_ALL, _FEW = tuple(range(1, MOST_ROWS + 1)), (1, MOST_ROWS)
"""Row counts that have their own code: all of them; and fewer where the first answer waits for the compiler."""

_BYTE = ir.IntType(8)
_HALF = ir.VectorType(_BYTE, 2 * PANEL)  # half a quad: eight outputs
_WHOLE = ir.VectorType(_BYTE, 4 * PANEL)
_SHORTS = ir.VectorType(ir.IntType(16), PANEL)
_EIGHT = ir.VectorType(INT, PANEL // 2)
_QUARTER, _FOUR = ir.VectorType(_BYTE, PANEL), ir.VectorType(INT, PANEL // 4)
_LINE = 64
_TYPED_BYTES = 22  # version of LLVM
_AHEAD = 2048  # bytes of a panel that are prefetched
_UNTIL_FULL = {4: 8, 5: 4, 6: 2}  # quads, by bits of a code, whose products can be summed in 16 bits


def _every(kind: Any, number: int) -> Any:
    return ir.Constant(kind, [number] * kind.count)


def _codes(builder: Any, kind: BlockKind, block: Any, quad: int) -> list[Any]:
    """Unpack the codes of a quad: those of outputs 0 to 7, and of 8 to 15."""

    def at(byte: int) -> Any:
        return load(builder, builder.add(block, int64(byte)), _HALF)

    if kind.bits == 8:
        return [at((2 * quad + half) * _HALF.count) for half in range(2)]
    both = at(quad * _HALF.count)
    halves = [builder.and_(both, _every(_HALF, 15)), builder.lshr(both, _every(_HALF, 4))]
    if not kind.high_bits:
        return halves
    mask = ((1 << kind.high_bits) - 1) << 4
    for half in range(2):
        byte, bit = kind.high_place(quad, half)
        high = at(byte)
        move = builder.shl if bit < 4 else builder.lshr
        moved = move(high, _every(_HALF, abs(4 - bit))) if bit != 4 else high
        halves[half] = builder.or_(halves[half], builder.and_(moved, _every(_HALF, mask)))
    return halves


def _call(builder: Any, name: str, result: Any, *given: Any) -> Any:
    return builder.call(declare(builder, name, result, [each.type for each in given]), given)


class _InPairs:
    """Sums of a group by products of pairs, in 16 bits as long as they fit."""

    def __init__(self, builder: Any, kind: BlockKind, starts: Sequence[Any]) -> None:
        self._builder, self._kind = builder, kind
        halves = (range(PANEL // 2), range(PANEL // 2, PANEL))
        self._totals = [[shuffle(builder, start, start, half) for half in halves] for start in starts]
        self._held: list[list[Any]] = [[None, None] for _ in starts]

    def add(self, quad: int, codes: Sequence[Any], numbers: Sequence[Any]) -> None:
        """Add the products of one quad; ``numbers``: four codes of each row in a word."""
        builder, signed = self._builder, self._kind.bits == 8
        full = signed or (quad + 1) % _UNTIL_FULL[self._kind.bits] == 0
        sizes = codes
        if signed:
            wraps = ir.Constant(ir.IntType(1), 0)
            sizes = [_call(builder, "llvm.abs.v32i8", _HALF, each, wraps) for each in codes]
        for row, number in enumerate(numbers):
            word = broadcast(builder, number)
            four = builder.bitcast(shuffle(builder, word, word, range(PANEL // 2)), _HALF)
            for half in range(2):
                other = _call(builder, "llvm.x86.avx2.psign.b", _HALF, four, codes[half]) if signed else four
                pairs = _call(builder, "llvm.x86.avx2.pmadd.ub.sw", _SHORTS, sizes[half], other)
                held = self._held[row][half]
                held = pairs if held is None else builder.add(held, pairs)
                if full:
                    words = _call(builder, "llvm.x86.avx2.pmadd.wd", _EIGHT, held, _every(_SHORTS, 1))
                    self._totals[row][half] = builder.add(self._totals[row][half], words)
                    held = None
                self._held[row][half] = held

    def sums(self) -> list[Any]:
        """Return the sums of all outputs, for each row."""
        return [shuffle(self._builder, low, high, range(PANEL)) for low, high in self._totals]


class _InFours:
    """Sums of a group by products of quads: in one instruction, if the processor has it."""

    def __init__(self, builder: Any, kind: BlockKind, starts: Sequence[Any]) -> None:
        self._builder, self._kind, self._totals = builder, kind, list(starts)

    def add(self, _quad: int, codes: Sequence[Any], numbers: Sequence[Any]) -> None:
        builder = self._builder
        low, high = codes
        whole = shuffle(builder, low, high, range(_WHOLE.count))
        if _FOUR_PRODUCTS and self._kind.bits == 8:
            whole = builder.xor(whole, _every(_WHOLE, -128))  # without a sign, see `_start`
        for row, number in enumerate(numbers):
            self._totals[row] = _dot(builder, self._totals[row], whole, number)

    def sums(self) -> list[Any]:
        return self._totals


def _dot(builder: Any, total: Any, codes: Any, number: Any) -> Any:
    """Multiply the codes of a quad with four codes of a row, and add the products of each output to its total."""
    if _FOUR_PRODUCTS:
        four = broadcast(builder, number)
        if binding.llvm_version_info[0] >= _TYPED_BYTES:  # earlier versions declare it with words
            four = builder.bitcast(four, _WHOLE)
        else:
            codes = builder.bitcast(codes, WORDS)
        return _call(builder, "llvm.x86.avx512.vpdpbusd.512", WORDS, total, codes, four)
    words = broadcast(builder, number)
    if _DOT:
        parts, four = [], builder.bitcast(words, _WHOLE)
        for quarter in range(4):
            outputs, places = range(4 * quarter, 4 * quarter + 4), range(PANEL * quarter, PANEL * (quarter + 1))
            given = (shuffle(builder, each, each, places) for each in (codes, four))
            own = shuffle(builder, total, total, outputs)
            parts.append(_call(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", _FOUR, own, *given))
        low, high = (shuffle(builder, parts[at], parts[at + 1], range(8)) for at in (0, 2))
        return shuffle(builder, low, high, range(PANEL))
    codes = builder.bitcast(codes, WORDS)
    for byte in range(4):
        left, right = (
            builder.ashr(builder.shl(each, _every(WORDS, 24 - 8 * byte)), _every(WORDS, 24)) for each in (codes, words)
        )
        total = builder.add(total, builder.mul(left, right))
    return total


def _start(builder: Any, kind: BlockKind, sums: Any, group: Any) -> Any:
    """Return the initial sum of a group: minus the offset of all codes times the sum of the row's codes."""
    shift = 128 if _FOUR_PRODUCTS and kind.bits == 8 else kind.offset
    if not shift:
        return _every(WORDS, 0)
    number = load(builder, builder.add(sums, builder.mul(group, int64(4))), INT)
    return broadcast(builder, builder.mul(number, INT(-shift)))


def _fill(function: Any, count: int, kind: BlockKind, *, padded: bool) -> None:
    """Write the code of a tile; see `block_tile`. ``padded``: there may be fewer rows, and the last one is repeated."""
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    rows, codes, scales, sums, lows, width, weight, target, out, add = function.args
    places = [int64(row) for row in range(count)]
    if padded:
        last = builder.sub(rows, int64(1))
        places = [builder.select(builder.icmp_signed("<", place, last), place, last) for place in places]
    groups = builder.sdiv(width, int64(kind.group))
    of_scale = builder.sdiv(width, int64(8))  # bytes of a row's scales: 4 for a group of 32
    of_sum = of_scale if kind.group == 32 else builder.sdiv(width, int64(4))
    lines, scaled, summed, lowest = (
        [builder.add(first, builder.mul(step, place)) for place in places]
        for first, step in ((codes, width), (scales, of_scale), (sums, of_sum), (lows, of_scale))
    )
    nothing = ir.Constant(VECTOR, [0.0] * PANEL)
    with loop(builder, groups, [nothing] * count) as (group, totals, new):
        block = builder.add(weight, builder.mul(group, int64(kind.nbytes)))
        for byte in range(0, kind.nbytes, _LINE):
            prefetch(builder, builder.add(block, int64(byte + _AHEAD)))
        begin = builder.mul(group, int64(kind.group))
        work = (_InPairs if _TWO_PRODUCTS else _InFours)(
            builder, kind, [_start(builder, kind, own, group) for own in summed]
        )
        for quad in range(kind.quads):
            place = builder.add(begin, int64(4 * quad))
            work.add(
                quad,
                _codes(builder, kind, block, quad),
                [load(builder, builder.add(line, place), INT) for line in lines],
            )
        scale = load_halves(builder, builder.add(block, int64(kind.scales_at)))
        of_row = builder.mul(builder.sdiv(begin, int64(32)), int64(4))
        for row, found in enumerate(work.sums()):
            own = broadcast(builder, load(builder, builder.add(scaled[row], of_row), FLOAT))
            total = multiply_add(builder, builder.sitofp(found, VECTOR), builder.fmul(scale, own), totals[row])
            if kind.has_minima:
                least = load_halves(builder, builder.add(block, int64(kind.scales_at + 2 * PANEL)))
                low = broadcast(builder, load(builder, builder.add(lowest[row], of_row), FLOAT))
                total = multiply_add(builder, least, low, total)
            new.append(total)
    keeps = builder.icmp_signed("!=", add, int64(0))
    spots = [builder.add(target, builder.mul(out, place)) for place in places]
    before = [builder.select(keeps, load(builder, spot, VECTOR), nothing) for spot in spots]  # a repeated row adds once
    for total, old, spot in zip(totals, before, spots, strict=True):
        builder.store(builder.fadd(total, old), builder.inttoptr(spot, VECTOR.as_pointer()), align=4)
    builder.ret_void()


@intrinsic
def block_tile(
    context: Any, like: Any, kind: Any, rows: Any, codes: Any, scales: Any, sums: Any, lows: Any, width: Any,
    weight: Any, target: Any, out: Any, add: Any,
) -> tuple[Any, Callable[..., Any]]:  # fmt: skip
    """Multiply 1 to `MOST_ROWS` rows by one panel of blocks.

    Args:
        context: numba's.
        like: see `stretto.local_engine.kernels.blocks.LIKE` and `AT_FIRST` there.
        kind: number of the kind.
        rows: number of rows.
        codes: address of the rows' codes, see `stretto.local_engine.kernels.blocks.Codes`.
        scales: address.
        sums: address of the sums for groups as large as the kind's.
        lows: address.
        width: inputs.
        weight: address of the panel.
        target: address of the result.
        out: bytes between its rows.
        add: 1 to add to the result, 0 to replace it.
    """
    counts = _FEW if like.dtype == types.int8 else _ALL

    def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        shape = builder.add(builder.mul(given[1], int64(PANEL)), given[2])
        no_other, after = builder.append_basic_block(), builder.append_basic_block()
        choice = builder.switch(shape, no_other)
        for each in BLOCK_KINDS:
            for fewer, count in zip((0, *counts), counts, strict=False):
                block, padded = builder.append_basic_block(), count - fewer > 1
                for real in range(fewer + 1, count + 1):
                    choice.add_case(int64(each.number * PANEL + real), block)
                builder.position_at_end(block)
                name = f"stretto_block_{each.number}_{count}{'_padded' * padded}"
                call_shared(context, builder, name, given[2:], partial(_fill, count=count, kind=each, padded=padded))
                builder.branch(after)
        builder.position_at_end(no_other)
        builder.unreachable()
        builder.position_at_end(after)
        return context.get_dummy_value()

    arguments = (like, kind, rows, codes, scales, sums, lows, width, weight, target, out, add)
    return types.void(*arguments), generate
