"""Reads the header of a GGUF file: metadata and the positions of its tensors. Imports no other package.

The format is that of ggml's documentation, ``docs/gguf.md``. A file can contain anything, so no number in it is
trusted: a length, a count or a position that does not fit into the file is damage.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LENGTH = struct.Struct("<Q")  # precedes a string
_MOST_DIMENSIONS = 4
_MOST_KEY = 65_535
_KEPT = 4_096  # numbers of an array; longer ones belong to the vocabulary
_LEAST_FIELD, _LEAST_TENSOR = 13, 24  # bytes
_LARGEST_ALIGNMENT = 2**20

ARCHITECTURES = {
    **{name: name for name in ("llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "starcoder2", "nemotron")},
    "qwen2moe": "qwen2_moe",
    "qwen3moe": "qwen3_moe",
}
"""Supported architectures: ggml's names, and those of transformers' tables."""

FILE_TYPES: Mapping[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
}
"""The format of most weights, by ``general.file_type``."""

PLAIN_TYPES = frozenset({"F32", "F16", "BF16"})
"""Formats in which each weight is a separate number."""


class DamagedFileError(ValueError):
    """Not a GGUF file, or a damaged one; the message is half a sentence about it."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of the file.

    Attributes:
        name: ggml's, for instance ``blk.0.attn_q.weight``.
        shape: in torch's order, with the last dimension contiguous.
        kind: number of its storage format, as in ``gguf.GGMLQuantizationType``.
        offset: in bytes, from the beginning of the data.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file.

    Attributes:
        path: of the file.
        metadata: its fields by name: numbers, strings, and short arrays of numbers as tuples. For arrays of strings and
            long arrays only the length is stored.
        tensors: in the order of the file.
        data_start: where the data begins.
        size: of the file, in bytes.
    """

    path: Path
    metadata: Mapping[str, Any]
    tensors: tuple[TensorEntry, ...]
    data_start: int
    size: int

    @property
    def architecture(self) -> str:
        """Kind of model by ggml's name, for instance ``llama``; empty if the file has none."""
        found = self.metadata.get("general.architecture")
        return found if isinstance(found, str) else ""

    @property
    def context_window(self) -> int | None:
        """Tokens of the context window."""
        return self.count("context_length")

    @property
    def quantisation(self) -> str | None:
        """Name of the format of most weights, for instance ``Q4_K_M``."""
        return FILE_TYPES.get(self.metadata.get("general.file_type", -1))

    def count(self, name: str) -> int | None:
        """Return a positive integer field of this architecture, for instance ``block_count``."""
        value = self.metadata.get(f"{self.architecture}.{name}")
        return value if isinstance(value, int) and value > 0 else None


def nextn_layers(header: Header) -> int:
    """Return the number of multi-token prediction layers, which follow the model's own and count as blocks."""
    return header.count("nextn_predict_layers") or 0


def read_header(path: Path) -> Header:
    """Read the header of a file, or return it from the cache. Raises `DamagedFileError`, `OSError`."""
    found = path.stat()
    return _header_of(path, found.st_size, (found.st_ino, found.st_mtime_ns))


@lru_cache(maxsize=8)
def _header_of(path: Path, size: int, state: tuple[int, ...]) -> Header:  # noqa: ARG001 - distinguishes files
    return _read(path, size)


def read_arrays(header: Header, names: Collection[str]) -> dict[str, tuple[Any, ...]]:
    """Read some arrays of the header in full, such as those of a vocabulary. Raises `DamagedFileError`, `OSError`."""
    metadata = _read(header.path, header.size, names).metadata
    return {name: found for name in names if isinstance(found := metadata.get(name), tuple)}


def _read(path: Path, size: int, whole: Collection[str] = ()) -> Header:
    """Read the header of a file. ``whole``: arrays to store in full, whatever is in them."""
    if size < 24:
        raise DamagedFileError("it is too short to be a GGUF file")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = _Reader(data, size, whole)
        try:
            return reader.header(path)
        except struct.error as error:
            raise DamagedFileError("it ends within its head; it was cut short, or a length in it is wrong") from error
        except UnicodeDecodeError as error:
            raise DamagedFileError("a text in its head is no UTF-8") from error


def check_places(header: Header, sizes: Callable[[int], tuple[int, int] | None]) -> None:
    """Check that every tensor lies within the file. Raises `DamagedFileError`.

    ``sizes``: numbers and bytes of a block, by the number of its format; ``None`` for an unknown format.
    """
    for tensor in header.tensors:
        if (block := sizes(tensor.kind)) is None:
            raise DamagedFileError(f"{tensor.name} is stored in an unknown form (number {tensor.kind})")
        numbers, width = block
        if tensor.shape[-1] % numbers:
            raise DamagedFileError(f"{tensor.name} has rows of {tensor.shape[-1]}, which are no whole blocks")
        end = header.data_start + tensor.offset + prod(tensor.shape) // numbers * width
        if end > header.size:
            raise DamagedFileError(
                f"{tensor.name} ends at byte {end:,} of {header.size:,}, so the file was cut short or a size is wrong"
            )


class _Reader:
    """Reads from the beginning, and never beyond the end."""

    def __init__(self, data: mmap.mmap, size: int, whole: Collection[str]) -> None:
        self._data = data
        self._size = size
        self._whole = whole
        self._at = 0

    def header(self, path: Path) -> Header:
        if self._data[:4] != b"GGUF":
            raise DamagedFileError("it does not begin as a GGUF file does")
        self._at = 4
        version, tensors, fields = self._numbers("IQQ")
        if version not in (2, 3):
            raise DamagedFileError(f"it is of version {version} of the format, and 2 and 3 are known")
        self._fits(fields, _LEAST_FIELD)
        metadata: dict[str, Any] = {}
        for _ in range(fields):
            key = self._text(_MOST_KEY)
            if key in metadata:
                raise DamagedFileError(f"its field {key!r} is there twice")
            metadata[key] = self._value(self._numbers("I")[0], whole=key in self._whole)
        self._fits(tensors, _LEAST_TENSOR)
        entries: dict[str, TensorEntry] = {}
        for _ in range(tensors):
            entry = self._tensor()
            if entry.name in entries:
                raise DamagedFileError(f"its tensor {entry.name!r} is there twice")
            entries[entry.name] = entry
        step = metadata.get("general.alignment", 32)
        if not isinstance(step, int) or not 0 < step <= _LARGEST_ALIGNMENT or step & (step - 1):
            raise DamagedFileError(f"its alignment {step!r} is no power of two")
        return Header(path, metadata, tuple(entries.values()), -(-self._at // step) * step, self._size)

    def _numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _fits(self, count: int, least: int) -> None:
        if count * least > self._size - self._at:
            raise DamagedFileError(f"it promises {count:,} entries in its head and has no room for them")

    def _text(self, most: int | None = None) -> str:
        (length,) = self._numbers("Q")
        if most is not None and length > most:
            raise DamagedFileError(f"a name in its head has {length:,} bytes")
        self._fits(length, 1)
        begin, self._at = self._at, self._at + length
        return self._data[begin : self._at].decode()

    def _value(self, kind: int, *, whole: bool) -> Any:
        if kind in _NUMBERS:
            return self._numbers(_NUMBERS[kind])[0]
        if kind == _STRING:
            return self._text()
        if kind != _ARRAY:
            raise DamagedFileError(f"a field of its head is of an unknown kind ({kind})")
        kind, count = self._numbers("IQ")
        if kind == _STRING:
            self._fits(count, _LENGTH.size)
            if whole:
                return tuple(self._text() for _ in range(count))
            at = self._at
            for _ in range(count):  # hundreds of thousands, in a vocabulary
                at += _LENGTH.size + _LENGTH.unpack_from(self._data, at)[0]
                if at > self._size:
                    raise DamagedFileError("a text in its head extends past the end of the file")
            self._at = at
            return count
        if kind not in _NUMBERS:
            raise DamagedFileError(f"an array in its head is of an unknown kind ({kind})")
        width = struct.calcsize(f"<{_NUMBERS[kind]}")
        self._fits(count, width)
        if whole or count <= _KEPT:
            return self._numbers(f"{count}{_NUMBERS[kind]}")
        self._at += count * width
        return count

    def _tensor(self) -> TensorEntry:
        name = self._text(_MOST_KEY)
        (dimensions,) = self._numbers("I")
        if not 0 < dimensions <= _MOST_DIMENSIONS:
            raise DamagedFileError(f"{name} has {dimensions} dimensions")
        shape = self._numbers(f"{dimensions}Q")[::-1]
        if 0 in shape or prod(shape) > 2**48:
            raise DamagedFileError(f"{name} has the impossible shape {list(shape)}")
        kind, offset = self._numbers("IQ")
        return TensorEntry(name, shape, kind, offset)
