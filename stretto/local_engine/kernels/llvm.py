"""Building blocks of LLVM code; see `stretto.local_engine.kernels.vectors`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from stretto.local_engine.kernels.sizes import PANEL

FLOAT = ir.FloatType()
INT, LONG = ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(FLOAT, PANEL)
WORDS = ir.VectorType(INT, PANEL)
_SERIES = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


class _BFloat(ir.Type):  # type: ignore[misc]  # llvmlite is not typed
    """LLVM's bfloat, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"


_BFLOATS = ir.VectorType(_BFloat(), 2 * PANEL)


def maximum(builder: Any, left: Any, right: Any) -> Any:
    """Return the larger of two numbers, or of each pair."""
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def exponential(builder: Any, number: Any) -> Any:
    """Compute e to the power of a number or a vector, to seven digits: a power of two and a polynomial."""
    kind, whole, many = number.type, INT, 1
    if isinstance(kind, ir.VectorType):
        many, whole = kind.count, ir.VectorType(INT, kind.count)

    def constant(value: float, kind: Any = kind) -> Any:
        return ir.Constant(kind, [value] * many if isinstance(kind, ir.VectorType) else value)

    for bound, side in ((-87.0, "<"), (88.0, ">")):  # NaN stays: no ordered comparison with it is true
        number = builder.select(builder.fcmp_ordered(side, number, constant(bound)), constant(bound), number)
    rounds = constant(1.5 * 2**23)  # adding and subtracting it rounds to an integer
    power = builder.fsub(builder.fadd(builder.fmul(number, constant(math.log2(math.e))), rounds), rounds)
    rest = builder.fsub(number, builder.fmul(power, constant(0.693359375)))
    rest = builder.fadd(rest, builder.fmul(power, constant(2.12194440e-4)))
    total = constant(_SERIES[0])
    for factor in _SERIES[1:]:
        total = builder.fadd(builder.fmul(total, rest), constant(factor))
    total = builder.fadd(builder.fadd(builder.fmul(builder.fmul(total, rest), rest), rest), constant(1.0))
    exponent = builder.add(builder.fptosi(power, whole), constant(127, whole))
    return builder.fmul(total, builder.bitcast(builder.shl(exponent, constant(23, whole)), kind))


def shuffle(builder: Any, left: Any, right: Any, elements: Iterable[int]) -> Any:
    """Take these elements of the concatenation of two vectors."""
    mask = list(elements)
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(INT, len(mask)), mask))


def int64(number: int) -> Any:
    """Return an i64 constant."""
    return ir.Constant(LONG, number)


def offset(builder: Any, address: Any, step: Any, times: int) -> Any:
    """Return the address this many steps further."""
    return builder.add(address, builder.mul(step, int64(times)))


def load(builder: Any, address: Any, kind: Any) -> Any:
    """Load from an address."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)


def broadcast(builder: Any, number: Any) -> Any:
    """Broadcast a number to all elements of a vector."""
    anything = ir.Constant(ir.VectorType(number.type, PANEL), ir.Undefined)
    first = builder.insert_element(anything, number, INT(0))
    return builder.shuffle_vector(first, anything, ir.Constant(WORDS, [0] * PANEL))


def widen_float16(builder: Any, words: Any) -> Any:
    """Widen the bits of float16, one per word, to float32: multiplying by 2 to the 112 moves the exponent."""

    def every(number: int) -> Any:
        return ir.Constant(WORDS, [number] * PANEL)

    size = builder.shl(builder.and_(words, every(0x7FFF)), every(13))
    scaled = builder.fmul(builder.bitcast(size, VECTOR), ir.Constant(VECTOR, [2.0**112] * PANEL))
    endless = builder.fcmp_unordered(">=", scaled, ir.Constant(VECTOR, [2.0**16] * PANEL))  # an infinity, or NaN
    bits = builder.select(endless, builder.or_(size, every(0x7F800000)), builder.bitcast(scaled, WORDS))
    sign = builder.shl(builder.and_(words, every(0x8000)), every(16))
    return builder.bitcast(builder.or_(bits, sign), VECTOR)


def multiply_add(builder: Any, left: Any, right: Any, total: Any) -> Any:
    """Multiply and add to the total, fused if the processor supports it."""
    operation = declare(builder, f"llvm.fmuladd.v{PANEL}f32", VECTOR, [VECTOR] * 3)
    return builder.call(operation, [left, right, total])


def dot_bfloat16(builder: Any, left: Any, right: Any, total: Any) -> Any:
    """Multiply pairs of bfloat16, and add both products to the total."""
    name = "llvm.x86.avx512bf16.dpbf16ps.512"
    operation = declare(builder, name, VECTOR, [VECTOR, _BFLOATS, _BFLOATS])
    return builder.call(operation, [total, *(builder.bitcast(pairs, _BFLOATS) for pairs in (left, right))])


def prefetch(builder: Any, address: Any) -> None:
    """Prefetch an address that will be read soon; invalid addresses do no harm."""
    byte = ir.IntType(8).as_pointer()
    operation = declare(builder, "llvm.prefetch.p0i8", ir.VoidType(), [byte, INT, INT, INT])
    builder.call(operation, [builder.inttoptr(address, byte), *(ir.Constant(INT, number) for number in (0, 3, 1))])


def declare(builder: Any, name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """Return the function of this name and these types, which can be defined elsewhere."""
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)  # type: ignore[no-untyped-call]  # numba leaves it untyped


@contextmanager
def loop(builder: Any, times: Any, starts: Sequence[Any]) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Count up to ``times``. The body appends the values for the next iteration to the last list."""
    before, (head, body, after) = builder.block, (builder.append_basic_block() for _ in range(3))
    following: list[Any] = []
    builder.branch(head)
    builder.position_at_end(head)
    at, carried = builder.phi(LONG), [builder.phi(start.type) for start in starts]
    at.add_incoming(int64(0), before)
    for value, start in zip(carried, starts, strict=True):
        value.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("<", at, times), body, after)
    builder.position_at_end(body)
    yield at, carried, following
    at.add_incoming(builder.add(at, int64(1)), builder.block)
    for value, coming in zip(carried, following, strict=True):
        value.add_incoming(coming, builder.block)
    builder.branch(head)
    builder.position_at_end(after)


def call_shared(context: Any, builder: Any, name: str, given: Sequence[Any], fill: Callable[[Any], None]) -> Any:
    """Call a function of this name that is defined once; otherwise every call would be inlined and compiled again."""
    function = declare(builder, name, ir.VoidType(), [value.type for value in given])
    if function.is_declaration:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        fill(function)
    builder.call(function, given)
    return context.get_dummy_value()


def horizontal_sums(builder: Any, sums: Sequence[Any]) -> Any:
    """Sum each of some vectors, whose number is a power of two, by adding halves.

    The order is fixed and no compiler can change it, so a row's sum is the same whatever other rows there are.
    """
    size, vectors = PANEL, list(sums)
    while size > 1:
        size //= 2
        low = [at for start in range(0, vectors[0].type.count, 2 * size) for at in range(start, start + size)]
        pairs = list(zip(vectors[::2], vectors[1::2], strict=True)) if len(vectors) > 1 else [(vectors[0], vectors[0])]
        if len(vectors) > 1:
            low += [at + PANEL for at in low]
        high = [at + size for at in low]
        vectors = [builder.fadd(*(shuffle(builder, *pair, half) for half in (low, high))) for pair in pairs]
    return vectors[0]
