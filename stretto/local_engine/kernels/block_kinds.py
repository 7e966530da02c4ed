"""Kinds of blocks: how compiled code reads weights of 4 to 8 bits. Imports neither numba nor torch.

A block contains one group of inputs for the outputs of one panel: codes, then the scales of the outputs in float16,
then their minima in float16 if the kind has them. A number is ``(code - offset) * scale``, or
``code * scale + minimum``.

Codes are stored in quads: four adjacent inputs of an output, because processors multiply and sum these at once. A quad
of 8-bit codes is 64 bytes, output by output. For narrower codes, the low four bits of a quad are 32 bytes: those of
output ``n`` are in the low half of a byte, those of output ``n + 8`` in the high half. The remaining bits of multiple
quads share 32 bytes after all of these; see `high_place`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stretto.local_engine.kernels.sizes import PANEL

GROUP = 32
"""Inputs whose codes share a scale, in rows and in all kinds but one."""

QUAD = 4

_HALF = PANEL * QUAD // 2  # bytes of the low four bits of a quad


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A storage format of numbers.

    Attributes:
        number: in tables of compiled code.
        bits: of a code: 4, 5, 6, or 8 with a sign.
        group: inputs that share a scale: 32, or 16.
        offset: subtracted from a code.
        has_minima: whether outputs have a minimum in addition to the scale.
    """

    number: int
    bits: int
    group: int = GROUP
    offset: int = 0
    has_minima: bool = False

    @property
    def quads(self) -> int:
        return self.group // QUAD

    @property
    def high_bits(self) -> int:
        """Bits of a code beyond the low four; 0 for codes of 8 bits, which are stored together."""
        return 0 if self.bits == 8 else self.bits - 4

    @property
    def low_bytes(self) -> int:
        """Bytes of the codes without the high bits."""
        return self.quads * _HALF * (2 if self.bits == 8 else 1)

    @property
    def scales_at(self) -> int:
        """Offset of the scales in a block."""
        return self.low_bytes + self.quads * _HALF * self.high_bits // 4

    @property
    def nbytes(self) -> int:
        return self.scales_at + 2 * PANEL * (2 if self.has_minima else 1)

    def size(self, outer: int, inner: int) -> int:
        """Return the bytes of a weight of that shape, with the last panel padded."""
        return -(-outer // PANEL) * (inner // self.group) * self.nbytes

    def high_place(self, quad: int, half: int) -> tuple[int, int]:
        """Return the byte and bit of a block where the high bits of a quad begin, for outputs from ``8 * half`` on."""
        shared = 4 // self.high_bits  # quads whose high bits share bytes
        at = self.low_bytes + quad // shared * _HALF
        return at, (2 * (quad % shared) + half) * self.high_bits


BLOCK_KINDS = (
    BlockKind(0, bits=8),
    BlockKind(1, bits=6, group=16, offset=32),
    BlockKind(2, bits=5, offset=16),
    BlockKind(3, bits=5, has_minima=True),
    BlockKind(4, bits=4, offset=8),
    BlockKind(5, bits=4, has_minima=True),
)
"""Kinds by their numbers."""


def block_kind(bits: int, *, has_minima: bool = False) -> BlockKind:
    """Return the kind with codes of that many bits."""
    return next(kind for kind in BLOCK_KINDS if (kind.bits, kind.has_minima) == (bits, has_minima))
