"""The number type that a model computes in."""

from __future__ import annotations

import os

import torch

from stretto.values.errors import SettingsError

_SWITCH = "STRETTO_CPU_BFLOAT16"
"""The environment variable by which tests run as if the processor computed in bfloat16 (1), or did not (0)."""

_COMPUTED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def chosen_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """Return the floating-point type of a name; by default half precision if ``device`` computes in it, else float32.

    Raises `SettingsError` for a name torch does not know, and for a type it does not compute in.
    """
    if name is not None:
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise SettingsError(
                f"dtype={name!r} is not a floating-point type of torch. Use float32, bfloat16 or float16."
            )
        if dtype not in _COMPUTED:
            raise SettingsError(
                f"dtype={name!r} cannot be used: torch stores numbers of that type and computes few operations in it. "
                "Use float32, bfloat16 or float16."
            )
        return dtype
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    # Without such instructions bfloat16 is emulated on a CPU, several times slower than float32.
    able = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if {"1": True, "0": False}.get(os.environ.get(_SWITCH, ""), able) else torch.float32
