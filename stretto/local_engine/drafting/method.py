"""Descriptions of decoding methods, as in the catalogue."""

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

USUAL_COSTS = {1: 10.0, 8: 11.0, 64: 30.0}
"""Milliseconds of a step by its number of rows, if none were measured."""


@dataclass(frozen=True, slots=True)
class DraftEquipment:
    """Resources that drafters can need.

    Provisional: it may change in any release.

    Attributes:
        cost: cost of a step on this machine; without it, a typical table is used.
        texts: texts outside of the request that are searched for drafts, such as earlier answers; at most two.
        files: further such texts, which do not change.
        writing: number of the request's own text among ``texts``.
        expected: tokens that the answer may resemble from its beginning.
        model: the model that is drafted for.
        draft: a smaller model with the same tokenizer.
        head: folder of a head that was named; without one, the folder of the model's weights is searched.
        options: options of methods, by name of the method.
        kept: what methods keep for later requests of the engine, by name of the method.
        learned: what methods have learned from earlier requests of the same tenant, by name of the method.
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
        make: makes the drafter of one sequence; raises `SettingsError` if equipment is missing.
        drafted: whether it needs a draft model.
        adapter: name of the file that it needs in the folder of the weights.
        recipe: the program of this repository that trains that file.
        lossy: whether it changes the answer; all others give the same answer as decoding token by token.
        weighs: whether it chooses the size of a draft by the cost of rows.
        options: takes its options by name, and raises `SettingsError` for values that cannot be used.
        missing: returns what it lacks, given the model's folder and that of a named head: a sentence with a space
            before it, or an empty string. It can raise `SettingsError`.
        wrap: wraps another method's drafter to add its own drafts, if the equipment allows it; `auto` uses this.
        source: makes a further source of drafts for ``auto``.
    """

    make: Callable[[DraftEquipment], Drafter]
    drafted: bool = False
    adapter: str | None = None
    recipe: str = ""
    lossy: bool = False
    weighs: bool = False
    options: Callable[..., Any] | None = None
    missing: Callable[[Path | None, Path | None], str] | None = None
    wrap: Callable[[DraftEquipment, Drafter], Drafter] | None = None
    source: Callable[[DraftEquipment], DraftSource] | None = None
