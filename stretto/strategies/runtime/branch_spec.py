"""What a branch is to write: `BranchSpec`, and a watch over its text."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from stretto.backends.base import Backend, Capabilities, ModelRequest
from stretto.prompts import Template
from stretto.strategies.runtime.ledger import Ledger
from stretto.values.request import GenerationOptions
from stretto.values.tool_calls import ToolCall

if TYPE_CHECKING:
    from stretto.strategies.runtime.branch import RunningBranch

NOT_TEXT: frozenset[str] = frozenset({
    "outline", "plan", "terms", "sections", "edit", "edits", "passage", "collapse", "proposal", "judgement", "tool",
    "vote",
})  # fmt: skip
"""Kinds of branches whose text is not part of the answer."""


@dataclass(frozen=True)
class PromptTarget:
    """The model that a prompt is made for: that of the route, or another that writes a branch.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        backend: the model.
        capabilities: what it can do, with its prompt family and the calls that this answer may make there.
        template: returns the prompt template of a name, for its prompt family.
    """

    backend: Backend
    capabilities: Capabilities
    template: Callable[[str], Template]


@dataclass(frozen=True)
class BranchSpec:
    """The specification of a branch.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        id: unique within the answer.
        kind: of its text.
        options: for sampling.
        title: of what it writes, if that is not a section.
        heading: of its section.
        form: of its section, as its plan names it.
        index: of its section, from 1.
        after: branches that must have ended before it starts.
        until: what else it waits for.
        prompt: makes the prompt for the model that is asked, once everything it waits for is ready.
        fallback_prompt: makes the prompt for one retry after a failure, for the model that is asked, from the text
            received so far; ``None``: give up.
        restart_marker: separates the text received from that of the retry. It signals to readers of the stream that
            the incomplete line before it is cancelled and arrives again. Neither is part of the text.
        label: its name in warnings, as the subject of a sentence; by default, its `name` in quotes.
        on_end: called when the branch has ended, in any way.
        deadline_s: seconds after the request at which the branch fails, if before the deadline.
        allow_refusal: whether a refusal is a result, not a failure.
        allow_empty: whether an answer without text is a result, not a failure.
        choice: index of the answer it writes; from 1 on, its text is reported as that choice and not merged.
        watch: makes the watch over one attempt's text, which changes it and ends the call when it is spoiled.
        standalone: its text is an answer by itself: its tool calls are passed on, and its reasoning and refusals are
            streamed. Calls wait until its text has been read, so something must read it while it runs. Those of other
            branches are left out.
        version: which version of the whole answer it writes, if multiple are written and one is shown; each can use
            all of ``max_tokens``.
        backend: writes it; by default, that of the route.
        successors: the models to fall back to, in order; by default, the fallbacks for the backend of the route, or
            none if ``backend`` is given.
        on_call: receives each complete tool call with its index; its fragments are then not reported as events.
        work: writes it, if no model does.
        budgeted: its ``max_tokens`` is its share of the answer's budget, which ends it there.
        ledger: of its budget, which is part of the answer's.
        given: its text, written by another branch's call. If that ends with a `StrettoError`, or is spoiled, a
            separate call asks for the rest.
        written: called before the first call, once the branches in ``after`` have ended: writes the branch without a
            call, or returns False.
    """

    id: str
    kind: str
    prompt: Callable[[PromptTarget], ModelRequest]
    options: GenerationOptions
    title: str = ""
    heading: str = ""
    form: str = ""
    index: int | None = None
    label: str = ""
    after: Sequence[RunningBranch] = ()
    until: Callable[[], Awaitable[object]] | None = None
    fallback_prompt: Callable[[PromptTarget, str], ModelRequest | None] = lambda *_: None
    restart_marker: str = ""
    on_end: Callable[[RunningBranch], None] = lambda _: None
    deadline_s: float = math.inf
    allow_refusal: bool = False
    allow_empty: bool = False
    choice: int = 0
    watch: Callable[[], TextWatch] | None = None
    standalone: bool = False
    version: int = 0
    budgeted: bool = False
    ledger: Ledger | None = None
    given: Callable[[], AsyncGenerator[str]] | None = None
    backend: Backend | None = None
    successors: Sequence[Backend] | None = None
    on_call: Callable[[int, ToolCall], None] | None = None
    work: Callable[[RunningBranch], Awaitable[None]] | None = None
    written: Callable[[RunningBranch], bool] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """What events and the answer say about what it writes."""
        return {"title": self.title, "heading": self.heading, "form": self.form, "index": self.index}

    @property
    def name(self) -> str:
        """The heading of its section, or its title."""
        return self.heading or self.title


class TextWatch(Protocol):
    """Watches the text of one call; what it passes on does not depend on how the stream was chunked.

    Provisional: it may change in any release.
    """

    fault: str
    """Why the text ends here, as half a sentence; empty while it continues."""

    def feed(self, text: str) -> str:
        """Take new text; return what can be passed on already."""
        ...

    def finish(self) -> str:
        """Return what was held back, at the end of the text."""
        ...
