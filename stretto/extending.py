"""What backends, strategies and decoding methods of your own are made of.

The contracts are in the docstrings of `Backend`, `Strategy` and `Drafter`. What calls itself provisional may change in
any release: everything about drafters, what docs/extending.md does not use of the types around a strategy, and what a
backend may have beside the contract.
"""

import typing

from stretto.foundation.lazy import lazily as _lazily

if typing.TYPE_CHECKING:
    from stretto.backends.base import (
        AsksItsServer,
        Backend,
        Capabilities,
        Chunk,
        CountsText,
        LoadsAhead,
        Measured,
        MeasuresItself,
        ModelRequest,
        Stages,
        WrittenPaths,
    )
    from stretto.backends.load import Load, ReportsLoad
    from stretto.backends.providers.call_pieces import CallPiece
    from stretto.backends.providers.pieces import AnswerPiece, Thought
    from stretto.backends.providers.remote import RemoteBackend
    from stretto.backends.resilience.resilient import Endpoints, Resilience, resilient
    from stretto.local_engine.draft_tree import DraftTree
    from stretto.local_engine.drafting.catalogue import DraftEquipment
    from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome
    from stretto.router.case import Case
    from stretto.router.offer import Offer
    from stretto.strategies.base import Strategy, StrategyResult
    from stretto.strategies.direct import Direct
    from stretto.strategies.runtime.branch import RunningBranch
    from stretto.strategies.runtime.branch_spec import BranchSpec, TextWatch
    from stretto.strategies.runtime.merge import Merge, TextFilter, TextSource
    from stretto.strategies.runtime.runner import Runner

__all__ = [
    "AnswerPiece",
    "AsksItsServer",
    "Backend",
    "BranchSpec",
    "CallPiece",
    "Capabilities",
    "Case",
    "Chunk",
    "CountsText",
    "Direct",
    "DraftContext",
    "DraftEquipment",
    "DraftOutcome",
    "DraftTree",
    "Drafter",
    "Endpoints",
    "Load",
    "LoadsAhead",
    "Measured",
    "MeasuresItself",
    "Merge",
    "ModelRequest",
    "Offer",
    "RemoteBackend",
    "ReportsLoad",
    "Resilience",
    "Runner",
    "RunningBranch",
    "Stages",
    "Strategy",
    "StrategyResult",
    "TextFilter",
    "TextSource",
    "TextWatch",
    "Thought",
    "WrittenPaths",
    "resilient",
]

_HOMES = {
    "stretto.backends.base": (
        "AsksItsServer",
        "Backend",
        "Capabilities",
        "Chunk",
        "CountsText",
        "LoadsAhead",
        "Measured",
        "MeasuresItself",
        "ModelRequest",
        "Stages",
        "WrittenPaths",
    ),
    "stretto.backends.load": ("Load", "ReportsLoad"),
    "stretto.backends.providers.call_pieces": ("CallPiece",),
    "stretto.backends.providers.pieces": ("AnswerPiece", "Thought"),
    "stretto.backends.providers.remote": ("RemoteBackend",),
    "stretto.backends.resilience.resilient": ("Endpoints", "Resilience", "resilient"),
    "stretto.local_engine.draft_tree": ("DraftTree",),
    "stretto.local_engine.drafting.catalogue": ("DraftEquipment",),
    "stretto.local_engine.drafting.protocol": ("DraftContext", "DraftOutcome", "Drafter"),
    "stretto.router.case": ("Case",),
    "stretto.router.offer": ("Offer",),
    "stretto.strategies.runtime.branch": ("RunningBranch",),
    "stretto.strategies.runtime.branch_spec": ("BranchSpec", "TextWatch"),
    "stretto.strategies.base": ("Strategy", "StrategyResult"),
    "stretto.strategies.direct": ("Direct",),
    "stretto.strategies.runtime.merge": ("Merge", "TextFilter", "TextSource"),
    "stretto.strategies.runtime.runner": ("Runner",),
}

if not typing.TYPE_CHECKING:  # or a type checker would take any name for one of these
    __getattr__, __dir__ = _lazily(__name__, _HOMES)
