"""One run of ``forking``: a model writes, its text forks, the paths are written in parallel, and it continues.

Every call continues a text: the answer up to a fork and, for a path, how it begins. So the calls share a prefix, which
a local engine and servers with prefix caching prefill once. Joining is one more such call, after the texts of all
paths. A server prefills them again, since each was written without the others; a local engine can concatenate their KV
caches instead.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from stretto.backends.base import ModelRequest, WrittenPaths
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import Direct, template_messages
from stretto.strategies.research.forking.fork_reading import Announced, Fork, Prose, Tags, fork_in, forms
from stretto.strategies.research.forking.forking_options import ForkingOptions
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.ledger import LEAST_ANSWER
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.strategy_options import options_of
from stretto.values.request import Message, Request
from stretto.values.route import Route


async def write_forking(request: Request, route: Route, runner: Runner) -> StrategyResult:
    """Write an answer that forks where its model says so, or a direct one if that is impossible."""
    if why := _why_not(request, runner):
        runner.warn(f"Answered in one piece instead of forking: {why}.", "strategy")
        return await Direct().run(request, route, runner)
    await _Forking(request, runner).run()
    return StrategyResult(strategy="forking")


def _why_not(request: Request, runner: Runner) -> str | None:
    if request.whole_reason is not None:
        return request.whole_reason
    if request.options.response_format is not None:
        return "the answer is constrained to a format"
    if not runner.capabilities.continues:
        return (
            f"{runner.model} is not known to go on exactly where a text stops, as local models, vllm: and llamacpp: do"
        )
    return None


@dataclass(frozen=True)
class _Place:
    """A position where a text continues.

    Attributes:
        written: all of the answer's text before it, with its tags.
        depth: number of forks around it.
        path_ends: what ends the path around it.
        left_out: closing tags of the fork before it.
        joined: forks in ``written`` whose paths' KV caches are joined.
    """

    written: str = ""
    depth: int = 0
    path_ends: str = ""
    left_out: tuple[str, ...] = ()
    joined: tuple[WrittenPaths, ...] = ()


class _Forking:
    """One run."""

    def __init__(self, request: Request, runner: Runner) -> None:
        self._request, self._runner = request, runner
        self._options = options_of(request, ForkingOptions)
        named = self._options.tags
        self._forms: Collection[Tags] = [forms()[named]] if named else list(forms().values())
        self._forks = self._pieces = 0
        self._prompt = template_messages(request, runner.target, "fork")

    async def run(self) -> None:
        """Write the whole answer."""
        whole = self._write(_Place())
        self._show(whole, _Place())
        await self._follow(whole, _Place())
        if not self._forks:
            self._runner.warn("Answered in one piece: the model wrote no tags of a fork.", "strategy")
        await self._runner.merge.finish()

    async def _follow(self, running: RunningBranch, place: _Place) -> str:
        """Continue a text that is being shown through all forks at its end; return it with its tags."""
        while True:
            await running.ended()
            written = place.written + running.text
            fork = self._fork(running, place)
            if fork is not None:
                place = await self._join(written, fork, place)
            elif (tag := self._plain_tag(running)) is not None:
                self._runner.merge.add(tag)
                place = replace(place, written=written + tag, depth=self._options.depth)
            else:
                return written
            running = self._write(place)
            self._show(running, place)

    def _fork(self, running: RunningBranch, place: _Place) -> Fork | None:
        if not self._may_fork(place):
            return None
        return fork_in(running.text, self._forms, _stopped_by(running), self._options.paths)

    def _plain_tag(self, running: RunningBranch) -> str | None:
        """Return the tag that a text stopped at if it opens no fork: ordinary text, which continues after it.

        It is empty if the server does not name what stopped it; ``None`` if the text has ended.
        """
        stopped_by = _stopped_by(running)
        # Other paths may have used up the forks since it began, so the stop texts it was given count.
        known = [tags for tags in self._forms if tags.forks in running.spec.options.stop]
        if stopped_by is None:
            return "" if any(tags.opens in running.text for tags in known) else None
        return stopped_by if any(tags.forks == stopped_by for tags in known) else None

    async def _join(self, written: str, fork: Fork, place: _Place) -> _Place:
        """Write the paths of a fork in parallel; return where the text continues after them."""
        self._forks += 1
        tags, shared = fork.tags, written + fork.tags.forks
        begin, ends = len(shared), list[int]()
        begun = [tags.path.format(number=path.number, title=path.title) for path in fork.paths]
        places = [_Place(shared + each, place.depth + 1, tags.path_ends, joined=place.joined) for each in begun]
        paths = [
            self._write(where, path, concurrent=len(places)) for where, path in zip(places, fork.paths, strict=True)
        ]
        for path, running, where, begins in zip(fork.paths, paths, places, begun, strict=True):
            self._add_paragraph(path.before)
            self._show(running, where)
            text = await self._follow(running, where)
            shared += begins + text.removeprefix(where.written).rstrip() + "\n" + tags.path_ends
            ends.append(len(shared))
        self._add_paragraph(fork.after)
        joined = place.joined
        if self._options.join != "read":
            joined = (*joined, WrittenPaths(begin, tuple(ends), self._options.join == "beside"))
        return _Place(shared + tags.joins, place.depth, place.path_ends, tags.left_out, joined)

    def _add_paragraph(self, text: str) -> None:
        if text.strip():
            self._runner.merge.add(lambda: self._gap() + text.strip())

    def _gap(self) -> str:
        return "\n\n" if self._runner.merge.text else ""

    def _write(self, place: _Place, path: Announced | None = None, *, concurrent: int = 1) -> RunningBranch:
        """Start a call that continues the answer or writes a path of it; ``concurrent``: how many run in parallel."""
        self._pieces += 1
        options = self._request.options
        stop = tuple(dict.fromkeys((*options.stop, *self._stops(place))))
        most = options.max_tokens if concurrent == 1 or options.max_tokens is None else options.max_tokens // concurrent
        limit = None if most is None else max(most, LEAST_ANSWER)
        return self._runner.start(
            BranchSpec(
                id=f"path-{self._pieces}" if path else f"piece-{self._pieces}",
                kind="section" if path else "direct",
                heading=path.title if path else "",
                index=path.number if path else None,
                label="" if path else "A piece of the answer",
                prompt=lambda _: self._request_for(place),
                fallback_prompt=lambda _, received: self._request_for(place, received),
                options=options.model_copy(update={"stop": stop, "max_tokens": limit}),
                allow_empty=bool(place.written),
            )
        )

    def _request_for(self, place: _Place, received: str = "") -> ModelRequest:
        written = place.written + received
        plain = ModelRequest(self._prompt, reads=bool(self._request.documents), extra=self._options.extra)
        if not written.strip():
            return plain
        begun = Message(role="assistant", content=written.rstrip())
        return replace(plain, messages=(*self._prompt, begun), shared=len(begun.content), paths=place.joined)

    def _stops(self, place: _Place) -> tuple[str, ...]:
        """Return the stop texts at this position: the ends of possible forks, and that of its path."""
        inside = tuple(tags.forks for tags in self._forms) if self._may_fork(place) else ()
        return (*inside, place.path_ends) if place.path_ends else inside

    def _may_fork(self, place: _Place) -> bool:
        return place.depth < self._options.depth and self._forks < self._options.forks

    def _show(self, running: RunningBranch, place: _Place) -> None:
        """Add a text without its tags to the answer, as a separate paragraph."""
        known = self._forms if self._may_fork(place) else ()
        prose = Prose(known, self._options.paths, lambda: _stopped_by(running), place.left_out)
        self._runner.merge.add_branch(running, filter_=prose, lead=self._gap)


def _stopped_by(running: RunningBranch) -> str | None:
    """Return the stop text that ended a text, as for `fork_in`."""
    return running.metadata.stop_text if running.exception is None and running.finish_reason == "stop" else ""
