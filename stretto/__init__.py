"""Stretto: language models answer faster, because the parts of an answer are written in parallel."""

import typing

from stretto.foundation.lazy import lazy_exports as _lazy_exports

if typing.TYPE_CHECKING:  # what type checkers know of; tests hold that it is what `_HOMES` has
    from stretto.abilities.kept import Abilities as Abilities
    from stretto.abilities.kept import Ability as Ability
    from stretto.client.async_client import AsyncStretto as AsyncStretto
    from stretto.client.client_options import ClientOptions as ClientOptions
    from stretto.client.client_options import ModelLike as ModelLike
    from stretto.client.streams import AnswerStream as AnswerStream
    from stretto.client.streams import SyncAnswerStream as SyncAnswerStream
    from stretto.client.sync_client import Stretto as Stretto
    from stretto.config.settings import Settings as Settings
    from stretto.display.plot import TimelinePlot as TimelinePlot
    from stretto.observe.hooks import CallEnded as CallEnded
    from stretto.observe.hooks import Hooks as Hooks
    from stretto.observe.hooks import RetryPlanned as RetryPlanned
    from stretto.observe.structured_logs import log_json as log_json
    from stretto.prompts import Catalogue as Catalogue
    from stretto.prompts import Template as Template
    from stretto.router import Router as Router
    from stretto.router import SecondOpinion as SecondOpinion
    from stretto.values.answer import Agreement as Agreement
    from stretto.values.answer import Answer as Answer
    from stretto.values.answer import Branch as Branch
    from stretto.values.answer import Choice as Choice
    from stretto.values.answer import Cost as Cost
    from stretto.values.answer import CutBy as CutBy
    from stretto.values.answer import FinishReason as FinishReason
    from stretto.values.answer import Span as Span
    from stretto.values.answer import Timeline as Timeline
    from stretto.values.answer import Usage as Usage
    from stretto.values.answer import Writer as Writer
    from stretto.values.answer_warning import AnswerWarning as AnswerWarning
    from stretto.values.answer_warning import WarningCode as WarningCode
    from stretto.values.budget import Budget as Budget
    from stretto.values.citation import Citation as Citation
    from stretto.values.citation import Evidence as Evidence
    from stretto.values.citation import PassageRecord as PassageRecord
    from stretto.values.document import Document as Document
    from stretto.values.document import Heading as Heading
    from stretto.values.errors import AllModelsFailedError as AllModelsFailedError
    from stretto.values.errors import AuthenticationError as AuthenticationError
    from stretto.values.errors import BackendError as BackendError
    from stretto.values.errors import BreakerOpenError as BreakerOpenError
    from stretto.values.errors import BudgetExceededError as BudgetExceededError
    from stretto.values.errors import ConnectionFailedError as ConnectionFailedError
    from stretto.values.errors import ContextOverflowError as ContextOverflowError
    from stretto.values.errors import DeadlineExceededError as DeadlineExceededError
    from stretto.values.errors import DocumentError as DocumentError
    from stretto.values.errors import IncompleteAnswerError as IncompleteAnswerError
    from stretto.values.errors import InvalidRequestError as InvalidRequestError
    from stretto.values.errors import MissingDependencyError as MissingDependencyError
    from stretto.values.errors import ModelNotFoundError as ModelNotFoundError
    from stretto.values.errors import RateLimitedError as RateLimitedError
    from stretto.values.errors import RequestRejectedError as RequestRejectedError
    from stretto.values.errors import ServerFailedError as ServerFailedError
    from stretto.values.errors import SettingsError as SettingsError
    from stretto.values.errors import StalledError as StalledError
    from stretto.values.errors import StreamBrokenError as StreamBrokenError
    from stretto.values.errors import StrettoError as StrettoError
    from stretto.values.errors import UnknownModelError as UnknownModelError
    from stretto.values.errors import UnknownPromptError as UnknownPromptError
    from stretto.values.errors import UnknownStrategyError as UnknownStrategyError
    from stretto.values.events import AnswerFinished as AnswerFinished
    from stretto.values.events import BranchDelta as BranchDelta
    from stretto.values.events import BranchFailed as BranchFailed
    from stretto.values.events import BranchFinished as BranchFinished
    from stretto.values.events import BranchStarted as BranchStarted
    from stretto.values.events import ChoiceDelta as ChoiceDelta
    from stretto.values.events import Event as Event
    from stretto.values.events import FallbackStarted as FallbackStarted
    from stretto.values.events import PassageRead as PassageRead
    from stretto.values.events import RefusalStarted as RefusalStarted
    from stretto.values.events import RouteChosen as RouteChosen
    from stretto.values.events import SectionPlanned as SectionPlanned
    from stretto.values.events import TextDelta as TextDelta
    from stretto.values.events import TextEdited as TextEdited
    from stretto.values.events import ThoughtFinished as ThoughtFinished
    from stretto.values.events import ToolCallDelta as ToolCallDelta
    from stretto.values.events import ToolFinished as ToolFinished
    from stretto.values.events import ToolStarted as ToolStarted
    from stretto.values.events import VoteCounted as VoteCounted
    from stretto.values.request import GenerationOptions as GenerationOptions
    from stretto.values.request import Message as Message
    from stretto.values.request import PromptLike as PromptLike
    from stretto.values.request import Request as Request
    from stretto.values.request import RequestOptions as RequestOptions
    from stretto.values.route import DecodingForecast as DecodingForecast
    from stretto.values.route import Forecast as Forecast
    from stretto.values.route import Route as Route
    from stretto.values.token_records import DecodingStats as DecodingStats
    from stretto.values.token_records import TokenLogprob as TokenLogprob
    from stretto.values.tool_calls import ToolCall as ToolCall
    from stretto.values.tool_calls import ToolCallFragment as ToolCallFragment
    from stretto.values.tools import Tool as Tool

__version__ = "0.1.0"

_HOMES = {
    "abilities.kept": "Abilities Ability",
    "client.async_client": "AsyncStretto",
    "client.client_options": "ClientOptions ModelLike",
    "client.streams": "AnswerStream SyncAnswerStream",
    "client.sync_client": "Stretto",
    "config.settings": "Settings",
    "display.plot": "TimelinePlot",
    "extending": "",  # modules with public names of their own
    "local": "",
    "observe.hooks": "CallEnded Hooks RetryPlanned",
    "observe.structured_logs": "log_json",
    "prompts": "Catalogue Template",
    "router": "Router SecondOpinion",
    "values.answer": "Agreement Answer Branch Choice Cost CutBy FinishReason Span Timeline Usage Writer",
    "values.answer_warning": "AnswerWarning WarningCode",
    "values.budget": "Budget",
    "values.citation": "Citation Evidence PassageRecord",
    "values.document": "Document Heading",
    "values.errors": (
        "AllModelsFailedError AuthenticationError BackendError BreakerOpenError BudgetExceededError "
        "ConnectionFailedError ContextOverflowError DeadlineExceededError DocumentError IncompleteAnswerError "
        "InvalidRequestError MissingDependencyError ModelNotFoundError RateLimitedError RequestRejectedError "
        "ServerFailedError SettingsError StalledError StreamBrokenError StrettoError UnknownModelError "
        "UnknownPromptError UnknownStrategyError"
    ),
    "values.events": (
        "AnswerFinished BranchDelta BranchFailed BranchFinished BranchStarted ChoiceDelta Event FallbackStarted "
        "PassageRead RefusalStarted RouteChosen SectionPlanned TextDelta TextEdited ThoughtFinished ToolCallDelta "
        "ToolFinished ToolStarted VoteCounted"
    ),
    "values.request": "GenerationOptions Message PromptLike Request RequestOptions",
    "values.route": "DecodingForecast Forecast Route",
    "values.token_records": "DecodingStats TokenLogprob",
    "values.tool_calls": "ToolCall ToolCallFragment",
    "values.tools": "Tool",
}

if not typing.TYPE_CHECKING:  # or a type checker would take any name for one of these
    # The program ``stretto`` begins with this package and must answer to Ctrl-C soon.
    __all__, __getattr__, __dir__ = _lazy_exports(
        "stretto", {f"stretto.{home}": names for home, names in _HOMES.items()}
    )
