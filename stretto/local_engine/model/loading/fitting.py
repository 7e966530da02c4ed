"""Checks what fits into memory: a model's weights before they are read, and requests while it runs."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

import torch

from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.stored import FORMS
from stretto.values.errors import BackendError

_LONGEST_HEADER = 2**27  # bytes
_NUMBERS = frozenset({"F64", "F32", "F16", "BF16"})
_HALF = torch.bfloat16
_GGUF_BYTES = 0.6  # per weight in a 4-bit file


def free_bytes(device: torch.device) -> int:
    """Return the free memory of a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    with suppress(OSError):  # Linux: includes cached files, which the system drops when needed
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        for line in lines:
            if line.startswith("MemAvailable:"):
                return min(int(line.split()[1]) * 1024, _free_in_container(Path("/sys/fs/cgroup")))
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2**34


def _free_in_container(folder: Path) -> int:
    """Return what is left of a container's limit, from the files in its folder; a large number without a limit."""
    with suppress(OSError, ValueError):  # no limit: its file is missing, or says "max"
        limit, used = (int((folder / f"memory.{name}").read_text(encoding="ascii")) for name in ("max", "current"))
        stat = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))  # cached files are dropped here as well
    return 2**62


def check_room(source: Source, dtype: torch.dtype, device: torch.device, *, stays: bool = False) -> None:
    """Raise `BackendError` if the weights alone exceed the free memory: reading them would end the process.

    Hub models are not checked. ``stays``: a GGUF file keeps its low-bit format.
    """
    if device.type != "cpu":
        return
    free = free_bytes(device)
    if source.file is not None and (size := bytes_in_blocks(source) or source.file.stat().st_size) > free:
        raise BackendError(
            f"{source.name} does not fit into the memory of {device}: as its file holds them, its weights take "
            f"{_gigabytes(size)}, and {_gigabytes(free)} are free. Use one with fewer bits for each weight, or a "
            "smaller model.",
            backend=source.name,
        )
    if not stays and (weights := weights_of(source)) * dtype.itemsize > free:
        raise does_not_fit(source.name, weights, dtype, device)


def bytes_in_blocks(source: Source) -> int:
    """Return the size of a GGUF file's weights in their own format, laid out for compiled code; 0 if not known."""
    if (header := source.header()) is None:
        return 0
    with suppress(ImportError, ValueError):
        from gguf import GGMLQuantizationType  # noqa: PLC0415 - an optional dependency

        total = 0
        for tensor in header.tensors:
            form = FORMS.get(GGMLQuantizationType(tensor.kind).name)
            outer, inner = prod(tensor.shape[:-1]), tensor.shape[-1]
            total += 4 * outer * inner if form is None else form.kind.size(outer, inner)
        return total
    return 0


def does_not_fit(name: str, weights: int, dtype: torch.dtype, device: torch.device) -> BackendError:
    """Return the error for a model that is too large, with what would fit. ``weights``: their number, 0 if unknown."""
    free = free_bytes(device)
    if not weights:
        return BackendError(
            f"{name} does not fit into the memory of {device}, where {_gigabytes(free)} are free. Use a smaller one.",
            backend=name,
        )
    if dtype.itemsize > _HALF.itemsize and weights * _HALF.itemsize < free:
        instead = f"dtype='bfloat16' takes {_gigabytes(weights * _HALF.itemsize)}."
    elif weights * _GGUF_BYTES < free:
        instead = (
            f"A GGUF file of it in 4 bits takes about {_gigabytes(int(weights * _GGUF_BYTES))} in llama.cpp's server: "
            "llamacpp:NAME."
        )
    else:
        instead = f"A model of {free / (2 * _HALF.itemsize) / 1e9:.2g} billion weights would fit."
    kind = str(dtype).removeprefix("torch.")
    return BackendError(
        f"{name} does not fit into the memory of {device}: its {weights / 1e9:.2g} billion weights take "
        f"{_gigabytes(weights * dtype.itemsize)} in {kind}, and {_gigabytes(free)} are free. {instead}",
        backend=name,
    )


def fitting_requests(device: torch.device, bytes_per_token: int, dtype: torch.dtype, window: int) -> str:
    """Return sentences on how many requests of which length fit next to a model now."""
    tokens = free_bytes(device) // 2 // max(1, bytes_per_token)  # growing the cache needs the old and the new one
    longest = min(tokens, window)
    halved = " dtype='bfloat16' makes room for more." if dtype.itemsize > _HALF.itemsize else ""
    return (
        f"What fits now, prompt and answer together: one request of {longest:,} tokens, or 8 at once of "
        f"{min(tokens // 8, window):,}.{halved}"
    )


def weights_of(source: Source) -> int:
    """Return the number of weights in a model's files, 0 if it is not known or they are packed in integers."""
    if source.file is not None:
        return source.parameters() or 0
    return 0 if source.folder is None else sum(map(_in_file, source.folder.glob("model*.safetensors")))


def _in_file(file: Path) -> int:
    """Return the number of weights in a safetensors file, from its header."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            head: Any = json.loads(opened.read(length)) if length < _LONGEST_HEADER else {}
        shapes = [each["shape"] for name, each in head.items() if name != "__metadata__" and each["dtype"] in _NUMBERS]
        return sum(map(prod, shapes))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return 0  # loading reports what is wrong with it


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.2g} GB" if size >= 1e8 else f"{size / 1e6:,.0f} MB"
