"""Catalogue of the decoding methods by name.

Drafters with compiled code are imported on first use: importing numba takes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import Any

from stretto.foundation import plugins
from stretto.foundation.arguments import safe_repr
from stretto.local_engine import research_registry
from stretto.local_engine.drafting.draft_model import DraftModel, check_vocabulary
from stretto.local_engine.drafting.method import USUAL_COSTS, DraftEquipment, Method
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import Autoregressive, Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.values.errors import SettingsError

__all__ = [
    "DRAFTERS",
    "EQUIPPED",
    "LOSSY",
    "METHODS",
    "WEIGHING",
    "DraftEquipment",
    "all_drafters",
    "check_options",
]

_FOLDERS = ("aggressive", "heads")
"""Folders of methods that nothing else uses. To remove one, remove its name here too."""


def _auto(equipment: DraftEquipment) -> Drafter:
    from stretto.local_engine.drafting.auto import Auto  # noqa: PLC0415 - see above
    from stretto.local_engine.drafting.calibration import Experience  # noqa: PLC0415 - with the last one

    drafter: Drafter = Auto(
        equipment.cost or StepCost(USUAL_COSTS),
        equipment.texts,
        equipment.files,
        writing=equipment.writing,
        extra_sources=[method.source(equipment) for method in METHODS.values() if method.source is not None],
        experience=equipment.learned.setdefault("auto", (Experience(), Experience())),
    )
    for method in METHODS.values():
        if method.wrap is not None:
            drafter = method.wrap(equipment, drafter)
    return drafter


def _draft_model(equipment: DraftEquipment) -> Drafter:
    if equipment.draft is None:
        raise SettingsError("The decoding method draft_model needs a draft model. Name one, or choose auto.")
    if equipment.model is not None:
        check_vocabulary(equipment.model, equipment.draft)
    return DraftModel(equipment.draft)


def _suffix(equipment: DraftEquipment) -> Drafter:
    from stretto.local_engine.drafting.suffix import Suffix  # noqa: PLC0415 - see above

    return Suffix(equipment.texts, equipment.files)


def _methods() -> dict[str, Method]:
    found = {
        "auto": Method(_auto, weighs=True),
        "autoregressive": Method(lambda _: Autoregressive()),
        "draft_model": Method(_draft_model, drafted=True),
        "prompt_lookup": Method(lambda _: PromptLookup()),
        "suffix": Method(_suffix),
    }
    for folder in _FOLDERS:
        found |= import_module(f"{__package__}.{folder}").METHODS
    return dict(sorted((found | research_registry.methods()).items()))


METHODS: Mapping[str, Method] = _methods()
"""Description of each method, by name."""

DRAFTERS: dict[str, Callable[[DraftEquipment], Drafter]] = {name: method.make for name, method in METHODS.items()}
"""Factory of the drafter of one sequence, by the name of the method."""

EQUIPPED = frozenset(name for name, method in METHODS.items() if method.drafted or method.adapter or method.missing)
"""Methods that need more than the model; see `Method`."""

LOSSY = frozenset(name for name, method in METHODS.items() if method.lossy)
"""Methods that change the answer."""

WEIGHING = frozenset(name for name, method in METHODS.items() if method.weighs)
"""Methods that choose the size of a draft by the cost of rows."""


def check_options(
    options: Mapping[str, Mapping[str, Any]], others: Mapping[str, Callable[..., Any]] = MappingProxyType({})
) -> None:
    """Raise `SettingsError` for options that a method does not have or cannot use.

    ``others``: callables that take the options of methods that draft nothing, by name.
    """
    if not (isinstance(options, Mapping) and all(isinstance(given, Mapping) for given in options.values())):
        raise SettingsError(
            f"method_options={safe_repr(options)} cannot be used. It holds the options of each method by its "
            'name: {"method": {"option": 0.5}}.'
        )
    for name, given in options.items():
        if name not in all_drafters() and name not in others:
            raise SettingsError(
                f"method_options has {safe_repr(name)}, which is no decoding method. "
                f"Use one of: {', '.join((*all_drafters(), *others))}."
            )
        if name not in METHODS and name not in others:
            continue  # of another package, which checks its own
        makes = METHODS[name].options if name in METHODS else others[name]
        known = () if makes is None else tuple(signature(makes).parameters)
        if unknown := sorted(given.keys() - known):
            remedy = f"It has: {', '.join(known)}." if known else "It has none."
            raise SettingsError(f"The decoding method {name} has no option {safe_repr(unknown[0])}. {remedy}")
        if makes is not None:
            makes(**given)


@cache
def all_drafters() -> Mapping[str, Callable[[DraftEquipment], Drafter]]:
    """Return `DRAFTERS` and those that other packages offer; see `stretto.foundation.plugins`."""
    return {**plugins.load_all("drafters", DRAFTERS), **DRAFTERS}
