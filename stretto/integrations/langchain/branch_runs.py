"""The branches of an answer as child runs, so that a tracer shows its plan and its sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForChainRun, BaseCallbackManager
from langchain_core.callbacks.manager import BaseRunManager

from stretto.backends.allowance import Caller
from stretto.backends.providers.langchain import run_of_branch
from stretto.integrations.langchain.stream_runs import Parent
from stretto.values.answer import Branch
from stretto.values.events import BranchFailed, BranchFinished, BranchStarted, Event

_LEAVING_S = 10.0
_ABOUT = {"title", "heading", "form", "index"}


class BranchRuns:
    """The branches of an answer for callbacks: each is a chain run below the run of the answer.

    They are not model runs, because a token counter would count their tokens twice. If another LangChain chat model
    answers, its calls are runs below the branch they belong to.
    """

    def __init__(self, parent: Parent | BaseRunManager | None) -> None:
        self._manager: AsyncCallbackManager | None = None
        self._runs: dict[str, AsyncCallbackManagerForChainRun] = {}
        self._lock = anyio.Lock()
        if parent is not None and parent.inheritable_handlers:
            self._manager = AsyncCallbackManager(handlers=[], parent_run_id=parent.run_id)
            self._manager.set_handlers(parent.inheritable_handlers)
            self._manager.add_tags(parent.inheritable_tags)
            self._manager.add_metadata(parent.inheritable_metadata)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Provide the callbacks for the calls of an answer that starts in this context."""
        token = run_of_branch.set(self._callbacks)
        try:
            yield
        finally:
            run_of_branch.reset(token)

    async def note(self, event: Event) -> None:
        """Report an event of the answer."""
        if self._manager is None:
            return
        if isinstance(event, BranchStarted):
            await self._begun(event.branch_id, event.kind, event.model_dump(include=_ABOUT))
        elif isinstance(event, BranchFinished | BranchFailed):
            await self._ended(event.branch)

    async def leave(self, because: Exception | None = None) -> None:
        """End the runs of branches that the answer abandoned; does not wait long for a callback that hangs."""
        with anyio.move_on_after(_LEAVING_S, shield=True):
            for name in tuple(self._runs):
                await self._runs.pop(name).on_chain_error(because or RuntimeError("The answer was left."))

    async def _callbacks(self, caller: Caller) -> BaseCallbackManager | None:
        """Return the callbacks for a call of a branch, which can start before the reader has seen the branch."""
        if self._manager is None:
            return None
        return (await self._begun(caller.part, caller.kind, caller.about)).get_child()

    async def _begun(self, branch_id: str, kind: str, about: Mapping[str, Any]) -> AsyncCallbackManagerForChainRun:
        assert self._manager is not None  # noqa: S101 - the callers have checked; for the type checker
        async with self._lock:
            if branch_id not in self._runs:
                known = {name: value for name, value in about.items() if value}
                name = known.get("heading") or known.get("title")
                self._runs[branch_id] = await self._manager.on_chain_start(
                    None, {"branch": branch_id, "kind": kind} | known, name=f"{kind}: {name}" if name else branch_id
                )
            return self._runs[branch_id]

    async def _ended(self, branch: Branch) -> None:
        run = self._runs.pop(branch.id, None)
        run = run or await self._begun(branch.id, branch.kind, branch.model_dump(include=_ABOUT))
        self._runs.pop(branch.id, None)
        if branch.status == "failed":
            await run.on_chain_error(RuntimeError(branch.error or "The branch failed."))
        else:
            calls = {"tool_calls": [call.model_dump() for call in branch.tool_calls]} if branch.tool_calls else {}
            usage = {"usage": branch.usage.model_dump(exclude_defaults=True)}
            await run.on_chain_end({"text": branch.text, "finish_reason": branch.finish_reason, **usage, **calls})
