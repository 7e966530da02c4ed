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
    """The model that a prompt is made for: that of the route, or another one that a branch is asked of.

    Provisional beyond what the guide to extending uses: it may change in any release.

    Attributes:
        backend: the model.
        capabilities: what it can do; with its family of prompts, and the calls that this answer may make there.
        template: the prompt template of a name, for its family of prompts.
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
        title: of what it writes, where that is no section.
        heading: of its section.
        form: of its section, as its plan names it.
        index: of its section, from 1.
        after: branches that must have ended before it starts.
        until: what it waits for besides.
        prompt: makes the prompt for the model that is asked, when the branch starts and what it waits for is there.
        fallback_prompt: makes the prompt for one retry after a failure, for the model that is asked, from the text
            received so far; ``None``: give up.
        restart_marker: stands between the text received and that of the retry. It tells readers of the pieces that
            the incomplete line before it is cancelled and arrives again. Neither is part of the text.
        label: its name in warnings, as the subject of a sentence; by default, its `name` in quotes.
        on_end: called when the branch has ended, in any way.
        deadline_s: seconds after the request at which the branch fails, if that is before the deadline.
        allow_refusal: whether a refusal is a result, not a failure.
        allow_empty: whether an answer without text is a result, not a failure.
        choice: index of the answer it writes; from 1 on, its text is reported as that choice and not merged.
        watch: makes what watches the text of one try, changes it, and ends the call where it is spoiled.
        standalone: its text is an answer by itself: its tool calls are handed on, and what it thinks and refuses is
            sent as it comes. Calls wait until its text has been read, so something must read it while it runs. Those
            of other branches are left out.
        version: which version of the whole answer it writes, where several are written and one is shown: each has all
            of ``max_tokens``.
        backend: writes it; by default, that of the route.
        successors: the models that go on where it fails, in their order; by default, the fallbacks for the backend of
            the route, and nobody where ``backend`` is given.
        on_call: takes each of its tool calls, with its place, as soon as it is whole; then no event tells its pieces.
        work: writes it, where no model does.
        ledger: of its budget, which lies within that of the answer.
        given: its text, as another branch's call writes it. Where that ends with a `StrettoError`, or is spoiled, the
            rest is asked for by a separate call.
        written: asked before the first call, when those in ``after`` have ended: writes the branch without one, or
            returns False.
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
    ledger: Ledger | None = None
    given: Callable[[], AsyncGenerator[str]] | None = None
    backend: Backend | None = None
    successors: Sequence[Backend] | None = None
    on_call: Callable[[int, ToolCall], None] | None = None
    work: Callable[[RunningBranch], Awaitable[None]] | None = None
    written: Callable[[RunningBranch], bool] | None = None

    @property
    def about(self) -> dict[str, Any]:
        """What events and the answer tell of what it writes."""
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
    """Why the text ends here, as half a sentence; empty while it goes on."""

    def feed(self, text: str) -> str:
        """Take new text; return what can be passed on already."""
        ...

    def finish(self) -> str:
        """Return what was held back, at the end of the text."""
        ...
