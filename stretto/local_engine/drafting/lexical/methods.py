"""The decoding methods of this folder. The drafter is imported when one is made: numba and torch take seconds."""

from __future__ import annotations

from functools import partial

from stretto.errors import SettingsError
from stretto.local_engine.drafting.lexical.lexical_options import FILE, LexicalOptions
from stretto.local_engine.drafting.method import USUAL_COSTS, DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost

__all__ = ["METHODS"]

_ON_A_CPU = 2  # [PAD]s at most: rows cost time there, see docs/lexical.md


def _lexical(equipment: DraftEquipment, *, lossy: bool = False) -> Drafter:
    if equipment.model is None:
        raise SettingsError("Lexical unit decoding needs a model with an adapter. Name a model, or choose auto.")
    from stretto.local_engine.drafting.lexical.adapter import attach  # noqa: PLC0415 - torch
    from stretto.local_engine.drafting.lexical.drafter import Lexical  # noqa: PLC0415 - numba
    from stretto.local_engine.drafting.lexical.experience import UnitExperience  # noqa: PLC0415 - numba

    name = "lexical_lossy" if lossy else "lexical"
    pads, options = attach(equipment.model), LexicalOptions(**equipment.options.get(name, {}))
    if options.tokens is not None and options.tokens > pads + 1:
        raise SettingsError(
            f"A unit of {options.tokens} tokens cannot be used: the adapter of {equipment.model.name} was trained for "
            f"{pads + 1}. Give that or fewer."
        )
    if options.tokens is not None:
        pads = options.tokens - 1
    elif equipment.model.device.type == "cpu":
        pads = min(pads, _ON_A_CPU)
    cost, alpha = equipment.cost or StepCost(USUAL_COSTS), options.alpha if lossy else None
    experience = equipment.kept.setdefault("lexical", (UnitExperience(), UnitExperience()))
    return Lexical(pads, cost, alpha=alpha, experience=experience)


_method = partial(Method, adapter=FILE, recipe="recipes.lexical.train", weighs=True, options=LexicalOptions)

METHODS = {"lexical": _method(_lexical), "lexical_lossy": _method(partial(_lexical, lossy=True), lossy=True)}
