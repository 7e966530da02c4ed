"""What all ways of reading share: the request without its documents, counting, prompts, and starting branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from stretto.answer import BranchKind
from stretto.backends.base import Prompt
from stretto.request import Message, Request
from stretto.strategies.branch import BranchSpec, Running
from stretto.strategies.direct import asked
from stretto.strategies.document.library import Library, Place
from stretto.strategies.document.sizes import Sizes, density, estimate, sizes_of
from stretto.strategies.document.task import Task, task_of
from stretto.strategies.fan_out import FanOut

__all__ = ["Reading", "reading_of"]


_READING_SHARE = 0.65  # of the time to the deadline; the rest is for putting together and answering


@dataclass(frozen=True)
class Reading:
    """One run over documents.

    Attributes:
        request: as it came, its documents taken out: no prompt may hold them whole by accident.
        runner: starts branches and merges them.
        library: the documents, cut into passages.
        task: what is to be done.
        sizes: tokens for each kind of call.
        count: tokens of a text.
    """

    request: Request
    runner: FanOut
    library: Library
    task: Task
    sizes: Sizes
    count: Callable[[str], int]

    def messages(self, template: str, **values: str) -> tuple[Message, ...]:
        """A template filled for this request, its conversation before it."""
        return asked(self.request, self.runner, template, **values)

    def passage_prompt(
        self, template: str, place: Place, *, schema: Mapping[str, Any] | None = None, **values: str
    ) -> Prompt:
        """The prompt that shows one passage; all up to the passage is the same for all of them."""
        shown = self.library.shown(place) | values
        messages = self.messages(template, outline=self.library.outline(), task=self.task.instruction, **shown)
        at = messages[-1].content.find(f"\n{shown['fence']} passage {place.number} of ")
        return Prompt(messages, response_schema=self.schema(schema), shared=max(at, 0))

    def schema(self, schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The schema, if this backend can be held to one."""
        return schema if self.runner.capabilities.json_schema else None

    def _until_s(self) -> float:
        """When reading must end so that the last call can still be made before the deadline."""
        deadline = self.request.options.deadline_s
        return math.inf if deadline is None or self.task.kind == "rewrite" else deadline * _READING_SHARE

    def start(
        self,
        name: str,
        kind: BranchKind,
        prompt: Callable[[], Prompt],
        *,
        room: int | None,
        title: str = "",
        another_way: Callable[[str], Prompt | None] | None = None,
        on_end: Callable[[Running], None] = lambda _: None,
    ) -> Running:
        """Start a branch of at most ``room`` tokens; after a failure it is asked for once more from the beginning."""
        options = self.request.options.model_copy(update={"max_tokens": room, "stop": (), "response_format": None})
        return self.runner.start(
            BranchSpec(
                id=name,
                kind=kind,
                title=title,
                prompt=prompt,
                options=options,
                another_way=another_way or (lambda _: prompt()),
                on_end=on_end,
                until_s=self._until_s(),
            )
        )


async def reading_of(request: Request, runner: FanOut) -> Reading:
    """Cut the documents of a request for the backend of this answer. Raises `ContextOverflowError`.

    Counting and cutting megabytes takes a moment, so it is done beside the event loop.
    """
    count = await runner.text_counter() or estimate
    return await anyio.to_thread.run_sync(_reading_of, request, runner, count)


def _reading_of(request: Request, runner: FanOut, count: Callable[[str], int]) -> Reading:
    library = Library(request.documents)
    bare = request.model_copy(update={"documents": ()})
    task = task_of(request.question, len(request.documents))
    empty = {"fence": "=" * 20, "before": "", "after": "", "passage": "", "number": "0", "total": "0", "title": ""}
    prompt = asked(bare, runner, "document_map", outline=library.outline(), task=task.instruction, **empty)
    overhead = sum(count(message.content) + 8 for message in prompt) + 160
    total = sum(count(document.text) for document in request.documents)
    sizes = sizes_of(request, runner, overhead, total)
    library.cut(sizes.chunk, count, None if task.kind == "rewrite" else density(request.question))
    return Reading(bare, runner, library, task, sizes, count)
