"""What your own backends, strategies and decoding methods are made of.

The contracts are in the docstrings of `Backend`, `Strategy` and `Drafter`. What calls itself provisional may change in
any release: everything about drafters, what docs/extending.md does not use of the types around a strategy, and what a
backend may have beside the contract.
"""

import typing

from stretto.foundation.lazy import lazy_exports as _lazy_exports

if typing.TYPE_CHECKING:
    from stretto.backends.base import AsksItsServer as AsksItsServer
    from stretto.backends.base import Backend as Backend
    from stretto.backends.base import Capabilities as Capabilities
    from stretto.backends.base import Chunk as Chunk
    from stretto.backends.base import CountsText as CountsText
    from stretto.backends.base import LoadsAhead as LoadsAhead
    from stretto.backends.base import Measured as Measured
    from stretto.backends.base import MeasuresItself as MeasuresItself
    from stretto.backends.base import ModelRequest as ModelRequest
    from stretto.backends.base import Stages as Stages
    from stretto.backends.base import WrittenPaths as WrittenPaths
    from stretto.backends.load import Load as Load
    from stretto.backends.load import ReportsLoad as ReportsLoad
    from stretto.backends.providers.call_pieces import CallPiece as CallPiece
    from stretto.backends.providers.pieces import AnswerPiece as AnswerPiece
    from stretto.backends.providers.pieces import Thought as Thought
    from stretto.backends.providers.remote import RemoteBackend as RemoteBackend
    from stretto.backends.resilience.resilient import Endpoints as Endpoints
    from stretto.backends.resilience.resilient import Resilience as Resilience
    from stretto.backends.resilience.resilient import resilient as resilient
    from stretto.local_engine.draft_tree import DraftTree as DraftTree
    from stretto.local_engine.drafting.catalogue import DraftEquipment as DraftEquipment
    from stretto.local_engine.drafting.protocol import DraftContext as DraftContext
    from stretto.local_engine.drafting.protocol import Drafter as Drafter
    from stretto.local_engine.drafting.protocol import DraftOutcome as DraftOutcome
    from stretto.router.case import Case as Case
    from stretto.router.offer import Offer as Offer
    from stretto.strategies.base import Strategy as Strategy
    from stretto.strategies.base import StrategyResult as StrategyResult
    from stretto.strategies.direct import Direct as Direct
    from stretto.strategies.runtime.branch import RunningBranch as RunningBranch
    from stretto.strategies.runtime.branch_spec import BranchSpec as BranchSpec
    from stretto.strategies.runtime.branch_spec import TextWatch as TextWatch
    from stretto.strategies.runtime.merge import Merge as Merge
    from stretto.strategies.runtime.merge import TextFilter as TextFilter
    from stretto.strategies.runtime.merge import TextSource as TextSource
    from stretto.strategies.runtime.runner import Runner as Runner

_HOMES = {
    "stretto.backends.base": (
        "AsksItsServer Backend Capabilities Chunk CountsText LoadsAhead Measured MeasuresItself ModelRequest "
        "Stages WrittenPaths"
    ),
    "stretto.backends.load": "Load ReportsLoad",
    "stretto.backends.providers.call_pieces": "CallPiece",
    "stretto.backends.providers.pieces": "AnswerPiece Thought",
    "stretto.backends.providers.remote": "RemoteBackend",
    "stretto.backends.resilience.resilient": "Endpoints Resilience resilient",
    "stretto.local_engine.draft_tree": "DraftTree",
    "stretto.local_engine.drafting.catalogue": "DraftEquipment",
    "stretto.local_engine.drafting.protocol": "DraftContext DraftOutcome Drafter",
    "stretto.router.case": "Case",
    "stretto.router.offer": "Offer",
    "stretto.strategies.base": "Strategy StrategyResult",
    "stretto.strategies.direct": "Direct",
    "stretto.strategies.runtime.branch": "RunningBranch",
    "stretto.strategies.runtime.branch_spec": "BranchSpec TextWatch",
    "stretto.strategies.runtime.merge": "Merge TextFilter TextSource",
    "stretto.strategies.runtime.runner": "Runner",
}

if not typing.TYPE_CHECKING:  # or a type checker would take any name for one of these
    __all__, __getattr__, __dir__ = _lazy_exports(__name__, _HOMES)
