"""What the catalogue knows of a decoding method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.local_engine.drafting.protocol import Drafter, DraftSource

if TYPE_CHECKING:
    from stretto.local_engine.drafting.sources.files import FileTexts
    from stretto.local_engine.drafting.sources.texts import Texts
    from stretto.local_engine.drafting.step_cost import StepCost
    from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["USUAL_COSTS", "DraftEquipment", "Method"]

USUAL_COSTS = {1: 10.0, 8: 11.0, 64: 30.0}
"""Costs of a step where none were measured."""


@dataclass(frozen=True, slots=True)
class DraftEquipment:
    """What drafters may need.

    Provisional: it may change in any release.

    Attributes:
        cost: of a step on this machine; without it, a typical table.
        texts: outside of the request, in which drafts are looked for: earlier answers; at most two.
        files: the same that do not change.
        writing: number of the request's own text among these.
        expected: tokens that the answer may resemble from its beginning on.
        model: the model that is drafted for.
        draft: a smaller model with the same tokenizer.
        head: folder of a head that was named; without one, it may lie beside the model's weights.
        options: of methods, by their names.
        kept: what a method keeps for later requests of the engine, by its name.
        learned: what it has learned from earlier requests of the same tenant, by its name.
    """

    cost: StepCost | None = None
    texts: tuple[Texts, ...] = ()
    files: FileTexts | None = None
    writing: int = 0
    expected: tuple[int, ...] = ()
    model: LoadedModel | None = None
    draft: LoadedModel | None = None
    head: Path | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    learned: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """A decoding method.

    Attributes:
        make: makes the drafter of one sequence; raises `SettingsError` where equipment is missing.
        drafted: whether it needs a draft model.
        adapter: name of the file beside the weights that it needs.
        recipe: the program of this repository that trains that file.
        lossy: whether it changes the answer; all others give what one token at a time gives.
        weighs: whether it chooses the size of a draft by the cost of rows.
        options: takes its options by their names, and raises `SettingsError` for values that cannot be used.
        missing: tells what it lacks, given the model's folder and that of a head that was named: a sentence with a
            space before it, or nothing. It may raise `SettingsError`.
        beside: adds what it can to another method's drafter, where the equipment allows it; `auto` asks for that.
        source: makes what ``auto`` drafts from as well.
    """

    make: Callable[[DraftEquipment], Drafter]
    drafted: bool = False
    adapter: str | None = None
    recipe: str = ""
    lossy: bool = False
    weighs: bool = False
    options: Callable[..., Any] | None = None
    missing: Callable[[Path | None, Path | None], str] | None = None
    beside: Callable[[DraftEquipment, Drafter], Drafter] | None = None
    source: Callable[[DraftEquipment], DraftSource] | None = None
