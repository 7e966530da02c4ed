"""The rules by name: they are the decoding methods of models that write blocks at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from stretto.errors import SettingsError
from stretto.local_engine.drafting.method import DraftEquipment
from stretto.local_engine.model.refined.block_form import BlockForm
from stretto.local_engine.refining.rules import (
    EntropyBound,
    Factor,
    LowConfidence,
    MaskPredict,
    Rule,
    Sequential,
    Threshold,
)

__all__ = ["RULES", "rule_names", "rules_for"]

RULES: Mapping[str, type[Rule]] = {
    rule.name: rule for rule in (EntropyBound, Factor, LowConfidence, MaskPredict, Sequential, Threshold)
}
"""Each takes its options by their names, and raises `SettingsError` for values that cannot be used."""


def rule_names(form: BlockForm) -> tuple[str, ...]:
    """The rules of a model, the one first that is used where none is named."""
    if form.canvas:
        return (EntropyBound.name,)  # that of transformers' generate
    return (Threshold.name, *(name for name in RULES if name != Threshold.name))


def rules_for(name: str, form: BlockForm) -> Mapping[str, Callable[[DraftEquipment], Rule]]:
    """What makes the rule of one request, by the name of the decoding method; for one model."""
    return {rule: partial(_made, name, form, rule) for rule in rule_names(form)}


def _made(model: str, form: BlockForm, name: str, equipment: DraftEquipment) -> Rule:
    rule = RULES[name](**equipment.options.get(name, {}))
    if form.canvas and (rule.block or rule.cache != "none"):
        raise SettingsError(f"block and cache cannot be used with {model}: transformers refines it. Leave them out.")
    if form.sight == "block":
        if rule.block not in (None, form.block):
            raise SettingsError(
                f"block={rule.block} cannot be used with {model}: it was trained with blocks of {form.block} tokens. "
                "Leave it out."
            )
        if rule.cache != "none":
            raise SettingsError(
                f"cache={rule.cache} cannot be used with {model}: what it has written is cached without loss. "
                "Leave it out."
            )
    return rule
