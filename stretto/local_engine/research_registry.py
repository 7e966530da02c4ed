"""Registry of what the folders of `research/` offer. No other code outside of them refers to them.

Each folder has ``OFFERS`` in its ``__init__``, which imports neither torch nor numba. A folder can be deleted: then
what it offers is missing, and nothing else.
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

_ROOF = f"{__package__}.research"


class HeadReaders(Protocol):
    """Interface of a module with further kinds of heads, in addition to `stretto.local_engine.drafting.heads`.

    Attributes:
        known: names of the kinds, for error messages.
        speculators: function that makes a head of its weights, by ``speculators_model_type``.
    """

    known: tuple[str, ...]
    speculators: Mapping[str, MakeHead]

    def whole(self, folder: HeadFolder, model: LoadedModel, target: Target) -> Head | None:
        """Read a head that consists of more than weights; ``None`` for another kind. Raises `SettingsError`."""
        ...

    def kind(self, config: Mapping[str, Any], names: Collection[str]) -> tuple[str, MakeHead] | None:
        """Recognise a kind by its configuration and the names of its weights; return its name and what makes it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockModels:
    """Support for models that write blocks of tokens at once.

    Attributes:
        rules: callable that takes the options of each decoding method, by name.
        recognised: recognises such a model by its ``config.json``. Raises `ValueError` for a variant that cannot run.
        rule_names: returns the methods of a model, the default first.
        rules_for: returns for a model what makes the rule of one request, by the name of the method.
        check: raises `InvalidRequestError` for a request that a model cannot fulfil.
        checked_form: returns the form with its mask token. Raises `BackendError` for a model that cannot run.
        block_forward: returns the forward of a model whose blocks transformers refines.
        batch: returns the loop of a model, given a function that returns whether a row's request was cancelled.
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
    """Features that a folder offers. Modules are given by name, and imported when they are needed.

    Attributes:
        methods: decoding methods, by name.
        heads: module with kinds of heads; see `HeadReaders`.
        blocks: support for models that write blocks at once.
        joining: module for prompts with paths that were written in parallel, whose keys and values are known. Its
            ``can_join`` returns whether a forward's keys can be rotated to other positions. Its ``JoinedPrefill`` reads
            such a prompt; it takes the arguments of `Prefill`, for one request.
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
    """Return the decoding methods, by name."""
    return {name: method for offers in _all() for name, method in offers.methods.items()}


def heads() -> list[HeadReaders]:
    """Return the modules with further kinds of heads."""
    return [cast("HeadReaders", import_module(offers.heads)) for offers in _all() if offers.heads]


def block_models() -> BlockModels | None:
    """Return the support for models that write blocks at once, if any."""
    return next((offers.blocks for offers in _all() if offers.blocks is not None), None)


def block_rules() -> Mapping[str, Callable[..., object]]:
    """Return the decoding methods of models that write blocks at once: what takes the options of each, by name."""
    return MappingProxyType({}) if (models := block_models()) is None else models.rules


def recognised(config: Mapping[str, Any]) -> Recognised | None:
    """Recognise a model that writes blocks at once by its configuration; see `BlockModels`."""
    return None if (models := block_models()) is None else models.recognised(config)


def joining() -> ModuleType | None:
    """Return the module for prompts with joined paths, if any; see `Offers`."""
    return next((import_module(offers.joining) for offers in _all() if offers.joining), None)


def long_prompts() -> Callable[[Engine, FocusOptions], LongPromptReader] | None:
    """Return what makes the reader of prompts that are longer than the window, if any."""
    module = next((offers.long_prompts for offers in _all() if offers.long_prompts), None)
    return None if module is None else lambda *given: import_module(module).FocusPrompts(*given)
