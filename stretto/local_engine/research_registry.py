"""What the folders of `research/` offer, found by name. Nothing else outside of them knows of them.

Each folder has ``OFFERS`` in its ``__init__``, which imports neither torch nor numba. Where one was deleted, what it
would offer is not there, and nothing else is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from stretto.local_engine.drafting.heads.decoder import Weights
    from stretto.local_engine.drafting.heads.files import HeadFolder
    from stretto.local_engine.drafting.heads.head import Head
    from stretto.local_engine.drafting.heads.target import Target
    from stretto.local_engine.drafting.method import DraftEquipment, Method
    from stretto.local_engine.generation import Generation
    from stretto.local_engine.model.forward.block_form import BlockForm, Recognised
    from stretto.local_engine.model.forward.forward import Forward
    from stretto.local_engine.model.loading.load import LoadedModel
    from stretto.local_engine.serving.batch_members import BatchMembers
    from stretto.local_engine.serving.engine import Engine
    from stretto.local_engine.serving.long_prompts import FocusOptions, LongPromptReader

    MakeHead = Callable[[Weights, Mapping[str, Any], Target], Head]

__all__ = [
    "BlockModels",
    "HeadReaders",
    "Offers",
    "block_models",
    "block_rules",
    "heads",
    "joining",
    "long_prompts",
    "methods",
    "recognised",
]

_ROOF = f"{__package__}.research"


class HeadReaders(Protocol):
    """Kinds of heads beside those of `stretto.local_engine.drafting.heads`: what their module has.

    Attributes:
        known: what they are called, for people.
        speculators: what makes each of its weights, by its ``speculators_model_type``.
    """

    known: tuple[str, ...]
    speculators: Mapping[str, MakeHead]

    def whole(self, folder: HeadFolder, model: LoadedModel, target: Target) -> Head | None:
        """Read a head that is more than weights; ``None`` for another kind. Raises `SettingsError`."""
        ...

    def kind(self, config: Mapping[str, Any], names: Collection[str]) -> tuple[str, MakeHead] | None:
        """Recognise a kind by its configuration and the names of its weights: what it is called, and what makes it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockModels:
    """Models that write blocks of tokens at once.

    Attributes:
        rules: their decoding methods, and what takes the options of each.
        recognised: recognises one by its ``config.json``. Raises `ValueError` for a variant that cannot be run.
        rule_names: the methods of one model, the usual one first.
        rules_for: what makes the rule of one request of a model, by the name of the method.
        check: raises `InvalidRequestError` for what a request cannot ask of a model.
        checked_form: the form with its mask token. Raises `BackendError` for a model that cannot be run so.
        block_forward: runs a model whose blocks transformers refines.
        batch: the loop of a model, given whether the request of a row is wanted no more.
    """

    rules: Mapping[str, Callable[..., object]]
    recognised: Callable[[Mapping[str, Any]], Recognised | None]
    rule_names: Callable[[BlockForm], tuple[str, ...]]
    rules_for: Callable[[str, BlockForm], Mapping[str, Callable[[DraftEquipment], object]]]
    check: Callable[[Generation, str, BlockForm], None]
    checked_form: Callable[[str, BlockForm, Forward, int, Any], BlockForm]
    block_forward: Callable[[Any], Forward]
    batch: Callable[[LoadedModel, Callable[[int], bool]], BatchMembers[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What a folder offers; what is left out, it does not. Modules are named, and imported when they are needed.

    Attributes:
        methods: decoding methods, by name.
        heads: module of kinds of heads; see `HeadReaders`.
        blocks: models that write blocks at once.
        joining: module for prompts that hold paths written side by side, whose keys and values are known. Its
            ``can_join`` says whether a forward's keys can be turned to other positions. Its ``JoinedPrefill`` reads
            such a prompt; it takes what `Prefill` takes, for one request.
        long_prompts: module whose ``FocusPrompts`` answers prompts that are longer than the window.
    """

    methods: Mapping[str, Method] = field(default_factory=dict)
    heads: str = ""
    blocks: BlockModels | None = None
    joining: str = ""
    long_prompts: str = ""


@cache
def _all() -> tuple[Offers, ...]:
    folders = sorted(found.name for found in iter_modules(import_module(_ROOF).__path__) if found.ispkg)
    return tuple(import_module(f"{_ROOF}.{folder}").OFFERS for folder in folders)


def methods() -> dict[str, Method]:
    """Decoding methods, by name."""
    return {name: method for offers in _all() for name, method in offers.methods.items()}


def heads() -> list[HeadReaders]:
    """Kinds of heads."""
    return [cast("HeadReaders", import_module(offers.heads)) for offers in _all() if offers.heads]


def block_models() -> BlockModels | None:
    """Models that write blocks at once."""
    return next((offers.blocks for offers in _all() if offers.blocks is not None), None)


def block_rules() -> Mapping[str, Callable[..., object]]:
    """The decoding methods of models that write blocks at once, and what takes the options of each."""
    return MappingProxyType({}) if (models := block_models()) is None else models.rules


def recognised(config: Mapping[str, Any]) -> Recognised | None:
    """Recognise a model that writes blocks at once; see `BlockModels`."""
    return None if (models := block_models()) is None else models.recognised(config)


def joining() -> ModuleType | None:
    """Prompts that hold paths; see `Offers`."""
    return next((import_module(offers.joining) for offers in _all() if offers.joining), None)


def long_prompts() -> Callable[[Engine, FocusOptions], LongPromptReader] | None:
    """What makes the reader of prompts that are longer than the window."""
    module = next((offers.long_prompts for offers in _all() if offers.long_prompts), None)
    return None if module is None else lambda *given: import_module(module).FocusPrompts(*given)
