"""Lexical units: [PAD] rows, read by a trained adapter, predict the tokens after the next one.

Measured with the pocket model on two cores: with three tokens `lexical` is 0.92 times as fast as decoding token by
token on text and 0.83 on code, with four 1.02 and 1.01; with SmolLM2 0.73 to 0.93 (``benchmarks/results/lexical.md``).
`lexical_lossy` reaches 1.2 to 1.4 if it changes a fifth to a half of the tokens.

Private: not part of the public API, and may change at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from stretto.local_engine.drafting.method import USUAL_COSTS, DraftEquipment, Method
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.research_registry import Offers
from stretto.values.errors import SettingsError

__all__ = ["FILE", "OFFERS", "LexicalOptions"]

FILE = "lexical.safetensors"
"""Name of the adapter's file next to the weights."""


@dataclass(frozen=True, slots=True)
class LexicalOptions:
    """Options of the methods ``lexical`` and ``lexical_lossy``.

    Attributes:
        tokens: k, maximum length of a unit, including the token that the model chooses itself; ``None`` for as many as
            the adapter was trained for, but at most 3 on a CPU.
        alpha: for ``lexical_lossy``: predicted tokens above this probability are accepted without verification.
    """

    tokens: int | None = None
    alpha: float = 0.9

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 2:
            raise SettingsError(f"A unit of {self.tokens} tokens cannot be used: give 2 or more, or None.")
        if not 0 < self.alpha < 1:
            raise SettingsError(f"alpha={self.alpha} cannot be used: give a probability between 0 and 1, such as 0.9.")


_ON_A_CPU = 2  # maximum number of [PAD]s: rows cost time there, see docs/research.md


def _lexical(equipment: DraftEquipment, *, lossy: bool = False) -> Drafter:
    if equipment.model is None:
        raise SettingsError("Lexical unit decoding needs a model with an adapter. Name a model, or choose auto.")
    from stretto.local_engine.research.lexical.lexical_drafter import Lexical, UnitExperience  # noqa: PLC0415 - numba
    from stretto.local_engine.research.lexical.pads import attach  # noqa: PLC0415 - torch

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
    experience = equipment.learned.setdefault("lexical", (UnitExperience(), UnitExperience()))
    return Lexical(pads, cost, alpha=alpha, experience=experience)


_method = partial(Method, adapter=FILE, recipe="recipes.lexical.train", weighs=True, options=LexicalOptions)

OFFERS = Offers(
    methods={"lexical": _method(_lexical), "lexical_lossy": _method(partial(_lexical, lossy=True), lossy=True)}
)
