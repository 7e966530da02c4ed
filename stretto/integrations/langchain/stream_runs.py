"""The run of a streamed message, which LangChain does not pass to a chat model.

``BaseChatModel.stream`` calls ``_stream`` without the manager of its run. A handler added to the callbacks learns of
the run right before that, in the same context.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackManager, BaseCallbackHandler, CallbackManager
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config


@dataclass(frozen=True)
class Parent:
    """The run that other runs become children of."""

    run_id: UUID
    inheritable_handlers: list[BaseCallbackHandler]
    inheritable_tags: list[str] = field(default_factory=list)
    inheritable_metadata: dict[str, Any] = field(default_factory=dict)


under: ContextVar[Parent | BaseRunManager | None] = ContextVar("stretto_run_of_stream", default=None)


def parent_of_stream() -> Parent | BaseRunManager | None:
    """Return the run of the stream that is starting, and forget it."""
    parent = under.get()
    under.set(None)
    return parent


def with_stream_run(
    config: RunnableConfig | None, kind: type[CallbackManager] | type[AsyncCallbackManager]
) -> RunnableConfig:
    """Return the same configuration with a callback that records the run for `parent_of_stream`."""
    config = ensure_config(config)
    manager = kind.configure(config.get("callbacks"), None, False, config.get("tags"), None, config.get("metadata"))
    handlers = list(manager.inheritable_handlers)
    if handlers:
        manager.add_handler(_RunRecorder(handlers, list(manager.inheritable_tags)), inherit=False)
    return {**config, "callbacks": manager}


class _RunRecorder(BaseCallbackHandler):
    run_inline = True  # in the context of the code that streams

    def __init__(self, handlers: list[BaseCallbackHandler], tags: list[str]) -> None:
        self._handlers = handlers
        self._tags = tags

    def on_chat_model_start(self, *_: Any, run_id: UUID, metadata: dict[str, Any] | None = None, **__: Any) -> None:
        under.set(Parent(run_id, self._handlers, self._tags, dict(metadata or {})))
