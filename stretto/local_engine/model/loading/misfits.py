"""Describes weights and configuration entries that do not fit together."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

_COUNTS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")
_NEXTN = re.compile(r"(^|\.)mtp(\.|_)")
_NUMBERED = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_NAMED = 3
_HARMLESS = ("inv_freq", ".masked_bias", ".attn.bias", ".attention.bias", "position_ids", "num_batches_tracked")
"""Suffixes of buffers that old versions of transformers saved; they are computed now."""


def misfit(found: dict[str, Any]) -> str:
    """Describe the misfits that transformers reports for a model that was read; empty if all weights fit."""
    parts = []
    if resized := sorted(found["mismatched_keys"]):
        name, saved, wanted = resized[0]
        parts.append(f"{len(resized)} of another size ({name} is {list(saved)}, not {list(wanted)})")
    if missing := sorted(found["missing_keys"]):
        parts.append(f"{len(missing)} missing ({_some(missing)})")
    if surplus := sorted(name for name in found["unexpected_keys"] if not name.endswith(_HARMLESS)):
        parts.append(f"{len(surplus)} that the model does not have ({_some(surplus)})")
    return ", ".join(parts)


def _some(names: Collection[str]) -> str:
    named = ", ".join([*names][:_NAMED])
    return named if len(names) <= _NAMED else f"{named}, ..."


def extra_layers(config: Mapping[str, Any]) -> int:
    """Return how many multi-token prediction layers the ``config.json`` of a text model adds to its own.

    The code of published models does not run them.
    """
    counts = [config.get(name) for name in _COUNTS]
    return max((count for count in counts if isinstance(count, int)), default=0)


def is_extra(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether a weight belongs to the extra layers: by its name, or by a layer number after the last one."""
    if not (count := extra_layers(config)):
        return False
    if _NEXTN.search(name):
        return True
    layer, last = _NUMBERED.search(name), config.get("num_hidden_layers")
    return layer is not None and isinstance(last, int) and last <= int(layer[1]) < last + count
