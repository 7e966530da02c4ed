"""The decoding method ``head``. The drafter is imported on first use: importing torch takes seconds."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stretto.local_engine.drafting.heads.files import HeadFolder, find_head
from stretto.local_engine.drafting.method import USUAL_COSTS, DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost, step_clock
from stretto.local_engine.kernels.compiling.compiled_parts import BLOCKS, product
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.drafting.heads.head_drafter import HeadDrafter


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """Options of the method ``head``.

    Attributes:
        length: maximum number of tokens drafted ahead; fewer if the next ones would not pay.
        width: number of candidates for each position.
        paths: maximum number of nodes of one depth that are followed; by default 1 on a CPU and 4 elsewhere.
    """

    length: int = 7
    width: int = 3
    paths: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "width", "paths"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SettingsError(
                    f"{name}={value!r} of the method head cannot be used: give a whole number from 1 on."
                )


_loading = threading.Lock()
_log = logging.getLogger(__name__)


def _head(equipment: DraftEquipment) -> HeadDrafter:
    from stretto.local_engine.drafting.heads.account import Account  # noqa: PLC0415 - with the next one
    from stretto.local_engine.drafting.heads.eagle3 import layer_part  # noqa: PLC0415 - numba
    from stretto.local_engine.drafting.heads.group import DrafterGroup  # noqa: PLC0415 - torch
    from stretto.local_engine.drafting.heads.head_drafter import HeadDrafter  # noqa: PLC0415 - torch
    from stretto.local_engine.drafting.heads.load_head import load_head  # noqa: PLC0415 - torch
    from stretto.local_engine.kernels.compiling.compiler import are_ready, have_compiled  # noqa: PLC0415 - where a head is read

    model, kept = equipment.model, equipment.kept
    if model is None:
        raise SettingsError("The decoding method head needs a model with a head. Name a model, or choose auto.")
    with _loading:  # a thread that prepares requests and the engine's can both come first
        if "head" not in kept:
            folder = _folder(equipment)
            if folder is None:
                raise SettingsError(f"{model.name} has no head next to its weights.{_REMEDY}")
            rounded = model.device.type == "cpu" and model.compiled is not False
            if rounded:
                compiled = getattr(getattr(model.forward, "plain", model.forward), "compiled", None)
                whole = [] if compiled is None or compiled.embedding is None else [layer_part(compiled.embedding)]
                have_compiled([product(BLOCKS), *whole], wanted=model.compiled)
                rounded = are_ready([product(BLOCKS)])
            kept["head"] = (
                load_head(folder, model, rounded=rounded),
                DrafterGroup(step_clock(model.device)),
            )
    head, group = kept["head"]
    accounts = equipment.learned.setdefault("head", (Account(), Account()))
    options = HeadOptions(**equipment.options.get("head", {}))
    paths = options.paths or (1 if model.device.type == "cpu" else 4)
    return HeadDrafter(head, equipment.cost or StepCost(USUAL_COSTS), accounts, options, group, paths=paths)


def _folder(equipment: DraftEquipment) -> HeadFolder | None:
    """Return the folder of the head. The result is cached, because each request asks."""
    kept, model = equipment.kept, equipment.model
    if "folder of the head" not in kept:
        own_folder = None if model is None or model.changed else model.file or model.folder
        kept["folder of the head"] = find_head(own_folder, equipment.head)
    found: HeadFolder | None = kept["folder of the head"]
    return found


def _with_head(equipment: DraftEquipment, drafter: Drafter) -> Drafter:
    """Let `auto` draft with the head too, if there is one."""
    model, kept = equipment.model, equipment.kept
    if model is None or "no head" in kept:
        return drafter
    try:
        if _folder(equipment) is None:
            return drafter
        from stretto.local_engine.drafting.heads.head_drafter import DrafterThenHead  # noqa: PLC0415 - torch

        return DrafterThenHead(drafter, _head(equipment))
    except SettingsError as error:
        if equipment.head is not None:
            raise
        kept["no head"] = True  # nobody named it, so continue without
        _log.warning("%s drafts without the head next to its weights: %s", model.name, error)
        return drafter


def _missing(model: Path | None, head: Path | None) -> str:
    try:
        return "" if find_head(model, head) is not None else f" There is no head.{_REMEDY}"
    except SettingsError as error:
        if head is not None:
            raise
        return f" {error}"  # nobody named it, so other methods work without


_REMEDY = " Name the folder of one as head=, or choose auto."

METHODS = {"head": Method(_head, weighs=True, options=HeadOptions, missing=_missing, wrap=_with_head)}
