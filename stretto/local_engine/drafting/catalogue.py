"""The decoding methods by name.

Drafters with compiled code are imported when one is made: importing numba takes a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stretto.errors import SettingsError
from stretto.local_engine.drafting.autoregressive import Autoregressive
from stretto.local_engine.drafting.draft_model import DraftModel, check_vocabulary
from stretto.local_engine.drafting.lexical.options import LexicalOptions
from stretto.local_engine.drafting.lookahead.jacobi import Jacobi
from stretto.local_engine.drafting.lookahead.lookahead import Lookahead
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.recycling.drafter import TokenRecycling
from stretto.local_engine.drafting.step_cost import StepCost

if TYPE_CHECKING:
    from stretto.local_engine.drafting.calibration import Experience
    from stretto.local_engine.drafting.lexical.experience import UnitExperience
    from stretto.local_engine.drafting.suffix import AnswerMemory
    from stretto.local_engine.model.load import LoadedModel

__all__ = ["DRAFTERS", "EQUIPPED", "LOSSY", "WEIGHING", "Equipment", "make_drafter"]

EQUIPPED = frozenset({"draft_model", "lexical", "lexical_lossy"})
"""Methods that need more than the model: a draft model, or an adapter beside the weights."""

LOSSY = frozenset({"lexical_lossy"})
"""Methods that change the answer; all others give what one token at a time gives."""

WEIGHING = frozenset({"auto", "lexical", "lexical_lossy"})
"""Methods that choose the size of a draft by the cost of rows."""

_USUAL = {1: 10.0, 8: 11.0, 64: 30.0}


@dataclass(frozen=True, slots=True)
class Equipment:
    """What drafters may need.

    Attributes:
        cost: of a step on this machine; without it, a typical table.
        memory: earlier answers.
        experience: what earlier requests have learned about guesses, sampled ones and greedy ones.
        unit_experience: the same of lexical units.
        model: the model that is drafted for.
        draft: a smaller model with the same tokenizer.
        lexical: options of lexical unit decoding.
    """

    cost: StepCost | None = None
    memory: AnswerMemory | None = None
    experience: tuple[Experience, Experience] | None = None
    unit_experience: tuple[UnitExperience, UnitExperience] | None = None
    model: LoadedModel | None = None
    draft: LoadedModel | None = None
    lexical: LexicalOptions = field(default_factory=LexicalOptions)


def _auto(equipment: Equipment) -> Drafter:
    from stretto.local_engine.drafting.auto import Auto  # noqa: PLC0415 - see above

    return Auto(equipment.cost or StepCost(_USUAL), equipment.memory, experience=equipment.experience)


def _draft_model(equipment: Equipment) -> Drafter:
    if equipment.draft is None:
        raise SettingsError("The decoding method draft_model needs a draft model. Name one, or choose auto.")
    if equipment.model is not None:
        check_vocabulary(equipment.model, equipment.draft)
    return DraftModel(equipment.draft)


def _lexical(equipment: Equipment, *, lossy: bool = False) -> Drafter:
    if equipment.model is None:
        raise SettingsError("Lexical unit decoding needs a model with an adapter. Name a model, or choose auto.")
    from stretto.local_engine.drafting.lexical.adapter import attach  # noqa: PLC0415 - torch, only where it is used
    from stretto.local_engine.drafting.lexical.drafter import Lexical  # noqa: PLC0415 - see above

    adapter, options = attach(equipment.model), equipment.lexical
    pads = len(adapter.places)
    if options.tokens is not None and options.tokens > pads + 1:
        raise SettingsError(
            f"A unit of {options.tokens} tokens cannot be used: the adapter of {equipment.model.name} was trained for "
            f"{pads + 1}. Give that or fewer."
        )
    if options.tokens is not None:
        pads = options.tokens - 1
    elif equipment.model.device.type == "cpu":  # rows cost time there: see docs/lexical.md
        pads = min(pads, 2)
    cost, alpha = equipment.cost or StepCost(_USUAL), options.alpha if lossy else None
    return Lexical(pads, cost, alpha=alpha, experience=equipment.unit_experience)


def _suffix(equipment: Equipment) -> Drafter:
    from stretto.local_engine.drafting.suffix import Suffix  # noqa: PLC0415 - see above

    return Suffix(equipment.memory)


DRAFTERS: dict[str, Callable[[Equipment], Drafter]] = {
    "auto": _auto,
    "autoregressive": lambda _: Autoregressive(),
    "draft_model": _draft_model,
    "jacobi": lambda _: Jacobi(),
    "lexical": _lexical,
    "lexical_lossy": lambda equipment: _lexical(equipment, lossy=True),
    "lookahead": lambda _: Lookahead(),
    "prompt_lookup": lambda _: PromptLookup(),
    "suffix": _suffix,
    "token_recycling": lambda _: TokenRecycling(),
}
"""Makes the drafter of one sequence, by the name of the method."""


def make_drafter(name: str, equipment: Equipment | None = None) -> Drafter:
    """Make a drafter for one sequence. Raises `SettingsError` for an unknown name or missing equipment."""
    if name not in DRAFTERS:
        raise SettingsError(f"There is no decoding method {name!r}. Choose one of {', '.join(DRAFTERS)}.")
    return DRAFTERS[name](equipment or Equipment())
