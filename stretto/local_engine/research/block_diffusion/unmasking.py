"""Rules that choose which proposed tokens of a forward are kept. The others are masked and proposed again.

Each rule is a decoding method of the models that write blocks at once, and its fields are the method's options. All
are lossy: tokens of one forward are chosen without seeing each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from stretto.foundation.arguments import safe_repr
from stretto.local_engine.drafting.method import DraftEquipment
from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.values.errors import SettingsError

_CACHES = ("none", "prefix", "dual")
_ANY = 2**62
_COUNTS = {"block": _ANY, "steps": _ANY, "passes": 10}
_NUMBERS = {"threshold": 1, "bound": 1000}
"""Maximum of each option, by name; integers start at 1, the others at 0."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposals of one forward for the masked positions of a block, from left to right.

    For a rule that revises, they include the tokens that are kept so far.

    Attributes:
        confidence: probability of each proposed token at temperature 1.
        entropy: entropy of the distribution at each position, in nats; empty if the rule does not need it.
        passes: number of earlier forwards over these positions.
        masked: number of positions that were masked before the first of these.
    """

    confidence: Sequence[float]
    entropy: Sequence[float]
    passes: int
    masked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmaskingPolicy:
    """Base of all rules. Raises `SettingsError` for an option out of range.

    Attributes:
        block: number of tokens of a block, for models whose rows see everything; others are trained for one length.
        cache: for the same models, what is reused in each forward of a block. ``none``: nothing. ``prefix``: the keys
            and values before the block are those of the block's first forward, which did not know its tokens yet.
            ``dual``: those after it too (Wu et al., arXiv:2505.22618).
    """

    name: ClassVar[str] = ""
    revises: ClassVar[bool] = False
    """Whether kept tokens can be masked again before the block is finished."""
    wants_entropy: ClassVar[bool] = False

    block: int | None = None
    cache: Literal["none", "prefix", "dual"] = "none"

    def __post_init__(self) -> None:
        if self.cache not in _CACHES:
            raise SettingsError(f"cache={safe_repr(self.cache)} cannot be used: it is one of {', '.join(_CACHES)}.")
        for name, most in _COUNTS.items():
            value = getattr(self, name, 1)
            whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
            if not whole and (value is not None or name == "passes"):
                limits = "of at least 1" if most == _ANY else f"from 1 to {most}"
                raise SettingsError(f"{name}={safe_repr(value)} cannot be used: it is a whole number {limits}.")
        for name, highest in _NUMBERS.items():
            value = getattr(self, name, 0)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= highest:
                raise SettingsError(f"{name}={safe_repr(value)} cannot be used: it is a number from 0 to {highest}.")

    def keep(self, proposal: Proposal) -> list[int]:
        """Return the indices of the proposed tokens to keep, at least one."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold(UnmaskingPolicy):
    """Keep the most confident token, and all above a threshold (Fast-dLLM; Wu et al., arXiv:2505.22618).

    With ``steps``, enough are kept in each forward that the block takes no more forwards than that (SDAR; Cheng et
    al., arXiv:2510.06303).
    """

    name: ClassVar[str] = "threshold"
    threshold: float = 0.9
    steps: int | None = None

    def keep(self, proposal: Proposal) -> list[int]:
        sure = [number for number, value in enumerate(proposal.confidence) if value > self.threshold]
        least = _quota(proposal, self.steps)
        return sure if len(sure) >= least else _best(proposal.confidence, least)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyBound(UnmaskingPolicy):
    """Keep the tokens of lowest entropy, as long as all but the last add up to no more than a bound.

    The sum limits how much the tokens can depend on each other: Ben-Hamu et al., arXiv:2505.24857.
    """

    name: ClassVar[str] = "entropy_bound"
    wants_entropy: ClassVar[bool] = True
    bound: float = 0.1

    def keep(self, proposal: Proposal) -> list[int]:
        order = _best([-value for value in proposal.entropy], len(proposal.entropy))
        kept, total = [], 0.0
        for number in order:
            if total > self.bound:
                break
            kept.append(number)
            total += proposal.entropy[number]
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class LowConfidence(UnmaskingPolicy):
    """Keep a fixed number of the most confident tokens in each forward (Nie et al., arXiv:2502.09992).

    ``steps`` forwards write a block; by default one for each token.
    """

    name: ClassVar[str] = "low_confidence"
    steps: int | None = None

    def keep(self, proposal: Proposal) -> list[int]:
        return _best(proposal.confidence, _quota(proposal, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskPredict(UnmaskingPolicy):
    """Write the whole block at once, and rewrite the least confident tokens in each pass.

    Each pass rewrites fewer, so that a block takes ``passes`` forwards whatever its length: Ghazvininejad et al.,
    arXiv:1904.09324. A block is returned when it is finished. In a model whose rows see everything, the whole answer is
    one block, unless ``block`` says otherwise.
    """

    name: ClassVar[str] = "mask_predict"
    revises: ClassVar[bool] = True
    passes: int = 4

    def keep(self, proposal: Proposal) -> list[int]:
        masked = proposal.masked * (self.passes - 1 - proposal.passes) // self.passes
        return _best(proposal.confidence, len(proposal.confidence) - max(0, masked))


def _best(values: Sequence[float], count: int) -> list[int]:
    """Return the indices of the highest values; ties go to the first."""
    return sorted(range(len(values)), key=lambda number: -values[number])[:count]


def _quota(proposal: Proposal, steps: int | None) -> int:
    """Return this forward's share, so that ``steps`` forwards keep all: equal shares, the first ones larger by one."""
    steps = proposal.masked if steps is None else min(steps, proposal.masked)
    each, more = divmod(proposal.masked, steps)
    return min(each + (proposal.passes < more), len(proposal.confidence)) or 1


RULES: Mapping[str, type[UnmaskingPolicy]] = {
    rule.name: rule for rule in (EntropyBound, LowConfidence, MaskPredict, Threshold)
}
"""Rules by name. Each takes its options by name, and raises `SettingsError` for values that cannot be used."""


def rule_names(form: BlockForm) -> tuple[str, ...]:
    """Return the names of a model's rules, the default first."""
    if form.canvas:
        return (EntropyBound.name,)  # that of transformers' generate
    return (Threshold.name, *(name for name in RULES if name != Threshold.name))


def rules_for(name: str, form: BlockForm) -> Mapping[str, Callable[[DraftEquipment], UnmaskingPolicy]]:
    """Return for one model what makes the rule of a request, by the name of the decoding method."""
    return {rule: partial(_made, name, form, rule) for rule in rule_names(form)}


def _made(model: str, form: BlockForm, name: str, equipment: DraftEquipment) -> UnmaskingPolicy:
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
