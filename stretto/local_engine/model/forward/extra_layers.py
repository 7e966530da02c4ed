"""Layers for multi-token prediction that models are published with, and that their own code does not run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["extra_layers", "is_extra"]

_COUNTS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
_NAMED = re.compile(r"(^|\.)mtp(\.|_)")
_NUMBERED = re.compile(r"(?:^|\.)layers\.(\d+)\.")


def extra_layers(config: Mapping[str, Any]) -> int:
    """How many there are, by what ``config.json`` says of the text model."""
    counts = [config.get(name) for name in _COUNTS]
    return max((count for count in counts if isinstance(count, int)), default=0)


def is_extra(name: str, config: Mapping[str, Any]) -> bool:
    """Whether a weight belongs to them: it is called so, or to a layer behind the model's last one."""
    if not (count := extra_layers(config)):
        return False
    if _NAMED.search(name):
        return True
    layer, last = _NUMBERED.search(name), config.get("num_hidden_layers")
    return layer is not None and isinstance(last, int) and last <= int(layer[1]) < last + count
