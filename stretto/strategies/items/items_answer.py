"""One run of ``items``: the calls, the votes on each item, and the order of the results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise

from stretto.prompts import POCKET, SMALL
from stretto.router.parse import parse_of
from stretto.strategies.base import StrategyResult
from stretto.strategies.consensus.ballots import Ballot, VoteReader
from stretto.strategies.consensus.stopping import Tally, decided
from stretto.strategies.direct import Direct
from stretto.strategies.items.calls import Calls, evenly
from stretto.strategies.items.items_offer import ItemsOptions, kind_of
from stretto.strategies.items.layout import Entries, EntryLayout, layout_for
from stretto.strategies.items.plan import planned
from stretto.strategies.items.results import Check, ResultWatch
from stretto.strategies.items.samples import FINAL, Samples
from stretto.strategies.items.splitting import NotSplit, Split
from stretto.strategies.quality.text_guard import LowQualityTextError
from stretto.strategies.quality.words import medoid
from stretto.strategies.runtime.branch import BranchWriter, RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.parts import notes_for, warn_of_limits
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import sampled
from stretto.strategies.strategy_options import options_of
from stretto.values.answer import Branch, Decided
from stretto.values.events import BranchStarted
from stretto.values.request import Request
from stretto.values.route import Route

ONE_AT_A_TIME = (POCKET, SMALL)  # families of models that cannot handle a plan or a group of items
FEWEST_CALLS = 2
PLANNED_CALLS = 3  # a plan and two calls
SHORT_ITEM = 200  # characters; longer items do not share a call
MOST_TOGETHER = 12  # items per call, unless the budget of calls requires more


async def write_items(request: Request, route: Route, runner: Runner) -> StrategyResult:
    """Split the request, start a branch for each part, and merge them in order; else answer with `Direct`."""
    calls = Calls(request, runner)
    parse = parse_of(request, route)
    split = parse.split
    if isinstance(split, NotSplit) and not split.final and _may_plan(calls):
        split = await planned(calls)
    reason = split.reason if isinstance(split, NotSplit) else _obstacle(split, calls)
    if reason is None and isinstance(split, Split):
        warn_of_limits(request, runner)
        layout = replace(layout_for(split), notes=notes_for(request))
        if split.items:
            items = _Items(calls, split, layout)
            reason = await items.run()
            runner.known.note_track_record(kind_of(parse), request, managed=items.succeeded)
        else:
            reason = await Samples(calls, split, layout).run()
        if reason is None:
            return StrategyResult()
    runner.warn(f"Answered in one piece instead of item by item: {reason}.", "strategy")
    return await Direct().run(request, route, runner)


def _may_plan(calls: Calls) -> bool:
    budget = calls.request.budget.max_calls
    family = calls.runner.capabilities.prompt_family
    return family not in ONE_AT_A_TIME and calls.most >= FEWEST_CALLS and (budget is None or budget > PLANNED_CALLS)


def _obstacle(split: Split, calls: Calls) -> str | None:
    """Return why this backend or budget rules out splitting the request; ``None`` if it does not."""
    budget = calls.request.budget.max_calls
    if calls.most < FEWEST_CALLS:
        return "only one call at a time is possible"
    if calls.runner.capabilities.prompt_family in ONE_AT_A_TIME:
        if split.count:
            return "this model is too small for samples from different angles"
        if budget is not None and budget < len(split.items):
            return f"the budget of {budget} calls is too small for {len(split.items)} items"
    if split.count and budget is not None and budget <= PLANNED_CALLS:
        return f"the budget of {budget} calls is too small for a plan and its samples"
    return None


class _Items:
    """One run over the items of a request."""

    def __init__(self, calls: Calls, split: Split, layout: EntryLayout) -> None:
        self.calls = calls
        self.split = split
        self.layout = layout
        self.pocket = calls.runner.capabilities.prompt_family == POCKET
        self.alone = calls.runner.capabilities.prompt_family in ONE_AT_A_TIME
        self.check = Check.of(split, several=bool(layout.columns))
        options = options_of(calls.request, ItemsOptions) if calls.request.strategy_options else ItemsOptions()
        left = calls.runner.ledger.calls_left
        self.votes = options.samples if left is None else max(1, min(options.samples, left // len(split.items)))
        if self.votes < options.samples:
            calls.runner.warn(f"The budget leaves {self.votes} of {options.samples} samples of each item.", "budget")
        self.certainty = options.certainty
        self.reading = VoteReader(split.instruction, calls.runner.language, options.compare, self.check.labels)
        self.placed = 0  # entries that are placed in the answer
        self.begun = False  # there is a result; until then nothing is shown, not even a number
        self.kept = ""  # text before the first result
        self.alones: list[RunningBranch] = []  # calls for one item, in the order of the items

    async def run(self) -> str | None:
        """Write the items; if all are spoiled, return why nothing can be shown."""
        started = [(group, self._start(group)) for group in self._groups()]
        for group, running in started:
            if len(group) == 1:
                self._add(group[0], running)
            else:
                await self._take_apart(group, running)
        if await self._all_spoiled():
            for running in self.alones:
                running.drop("all is asked for in one piece")
            return f"no result could be used: {str(self.alones[0].exception).rstrip('.')}"
        merge = self.calls.runner.merge
        merge.add(self.layout.closing)
        await merge.finish()
        return None

    @property
    def succeeded(self) -> bool:
        """Whether the model wrote results for all but less than a third of the items."""
        spoiled = sum(isinstance(running.exception, LowQualityTextError) for running in self.alones)
        return 3 * spoiled < len(self.split.items)

    async def _all_spoiled(self) -> bool:
        """Return whether every item is spoiled and the whole can be requested in another way."""
        for running in self.alones:
            await running.ended()
            if not isinstance(running.exception, LowQualityTextError) or running.text.strip():
                return False
        whole = len(self.alones) == len(self.split.items)
        return whole and self.calls.runner.ledger.calls_left != 0

    def _groups(self) -> list[range]:
        """Return the ranges of item indices that share a call, in order."""
        count, budget = len(self.split.items), self.calls.request.budget.max_calls
        most = self.calls.most
        forced = budget is not None and budget < count
        short = max(map(len, self.split.items)) <= SHORT_ITEM and self.layout.name != "sections"
        if self.alone or self.votes > 1 or count <= most or not (short or forced):
            return [range(index, index + 1) for index in range(count)]
        size = -(-count // most)
        if not forced or (budget is not None and -(-count // MOST_TOGETHER) <= budget):
            size = min(size, MOST_TOGETHER)
        ends = list(accumulate(evenly(count, -(-count // size)), initial=0))
        return [range(first, end) for first, end in pairwise(ends)]

    def _start(self, group: range) -> RunningBranch:
        if len(group) == 1:
            return self._start_one(group[0])
        items = [self.split.items[index] for index in group]
        listed = "\n".join(f"{number}. {item}" for number, item in enumerate(items, start=1))
        return self.calls.start(
            f"item-{group[0] + 1}-{group[-1] + 1}",
            "item",
            "items",
            title=f"{items[0]} … {items[-1]}",
            plainly=f"{self._plainly()}\n\n{listed}",
            room=sum(self.calls.room(self.split.instruction, item) for item in items),
            parts=-(-len(self.split.items) // len(group)),
            instruction=self.split.instruction,
            context=self.split.context,
            count=str(len(items)),
            items=listed,
            form=self.layout.instruction,
        )

    def _start_one(self, index: int) -> RunningBranch:
        item, instruction = self.split.items[index], self.split.instruction
        spec = self.calls.spec(
            f"item-{index + 1}",
            "item",
            "item",
            title=item,
            plainly=f"{self._plainly()}\n\n{item}",
            room=self.calls.room(instruction, item),
            parts=len(self.split.items),
            instruction=f"{self.split.context}\n{instruction}".strip() if self.pocket else instruction,
            context=self.split.context,
            item=item,
            form=self.layout.instruction,
            watch=lambda: ResultWatch(self.check, item, self.calls.runner.leaks.screen),
            labels=self.check.labels,
        )
        runner = self.calls.runner
        if self.votes == 1:
            return runner.start(spec)
        # Each vote is requested with `spec` and has the client's fallbacks.
        vote = _Vote(spec, runner, self.reading, self.votes, self.certainty)
        return runner.start(replace(spec, work=vote.write, watch=None))

    def _plainly(self) -> str:
        return f"{self.split.context}\n\n{self.split.instruction}:".strip()

    def _add(self, index: int, running: RunningBranch) -> None:
        """Place an item in the answer; it is shown while it streams."""
        self.alones.append(running)
        merge = self.calls.runner.merge
        omits = self.calls.request.on_missing == "omit"
        opened = False

        def open_at_once() -> str:
            nonlocal opened
            opened = self.begun
            return self._before(index) if self.begun else ""

        def lead() -> str:
            text = "" if opened else self.kept + self._before(index)
            self.begun, self.kept = True, ""
            return text

        def ending(branch: Branch) -> str:
            text = self.layout.ending(branch, index)
            if self.begun or branch.text.strip():
                return text
            if not omits:
                self.kept += self._before(index) + text
            return ""

        if not omits:
            merge.add(open_at_once)
        merge.add_branch(running, lead=lead, filter_=self.layout.filter_(index), ending=ending)

    def _before(self, index: int) -> str:
        """Return the text before the entry of an item, which gets the next place."""
        self.placed += 1
        return self.layout.before(self.placed, index)

    def _entry(self, index: int, text: str) -> str:
        before, self.begun, self.kept = self.kept, True, ""
        return before + self._before(index) + self.layout.entry(text, index)

    async def _take_apart(self, group: range, running: RunningBranch) -> None:
        """Place the results of a group, and request missing ones item by item."""
        runner = self.calls.runner
        await running.ended()
        entries = Entries(len(group))
        found = [*entries.feed(running.text), *entries.finish()]
        whole = running.exception is None and running.finish_reason == "stop"
        if not whole:
            found = found[:-1]  # it broke off
        # A list that broke off is correct so far. One that ended with the wrong number of results may lack any item, so
        # it is kept only if it cannot be requested again.
        right = not entries.confused and (not whole or len(found) == len(group))
        left = runner.ledger.calls_left
        kept = found[: len(group)] if right or running.finish_reason in FINAL or left == 0 else []
        items = [self.split.items[index] for index in group]
        results = self.check.of_group(kept, items, runner.leaks.clean)
        wrong = results.count(None)
        results += [None] * (len(group) - len(kept))
        if wrong == len(kept):
            running.drop("its items are asked for one by one")
        elif None in results or not right:
            running.use = "replaced"
        if None in results or not right:
            runner.warn(
                f"{running.spec.title!r} {_lost(running, len(group), len(found), len(kept), wrong, right=right)}",
                "part_missing" if kept and not right else "strategy",  # what is asked for again may still come
                part=running.spec.id,
            )
        singles = [
            None if text is not None else self._start_one(index) for index, text in zip(group, results, strict=True)
        ]
        for index, text, single in zip(group, results, singles, strict=True):
            if single is not None:
                self._add(index, single)
            else:
                runner.merge.add(partial(self._entry, index, text or ""))


def _lost(running: RunningBranch, items: int, found: int, kept: int, wrong: int, *, right: bool) -> str:
    """Return what a group lacks and what happens to it, for a warning."""
    reason = str(running.exception or f"{found} results for {items} items").rstrip(".")
    if kept and not right:
        return f"came with {reason} and cannot be asked for again: its results may belong to other items"
    if kept == items:
        return f"has {wrong} of {items} results that are none; these are asked for item by item"
    if kept:
        return f"broke off after {kept} results, the others are asked for item by item: {reason}"
    return f"is asked for item by item: {reason}"


_NEEDLESS = "it was not needed any more: the vote was decided without it"


class _Vote:
    """The vote for one item, whose branch gets the text of the winner."""

    def __init__(self, spec: BranchSpec, runner: Runner, reading: VoteReader, samples: int, certainty: float) -> None:
        self._spec, self._runner, self._reading, self._certainty = spec, runner, reading, certainty
        self._tally = Tally(samples, self._decided, self._cancel)
        self._samples: list[RunningBranch] = []
        self._ended: list[tuple[RunningBranch, Ballot | None]] = []

    async def write(self, running: RunningBranch) -> None:
        """Request the samples, announce their votes, and write the winner into the branch of the item."""
        runner, spec = self._runner, self._spec
        running.progress.started_s = runner.now_s()
        await runner.announce(BranchStarted(branch_id=running.spec.id, kind=spec.kind, **spec.about))
        try:
            self._samples += [runner.start(self._sample(place)) for place in range(self._tally.left)]
            async for event in self._tally.news:
                await runner.announce(event)
        finally:
            self._cancel()
        self._take(running)

    def _sample(self, place: int) -> BranchSpec:
        return replace(
            self._spec,
            id=f"{self._spec.id}-vote-{place + 1}",
            kind="vote",
            options=sampled(self._spec.options, self._runner.capabilities, place),
            fallback_prompt=lambda *_: None,  # the others decide
            on_end=self._count,
        )

    def _count(self, sample: RunningBranch) -> None:
        if self._tally.rule is not None:  # it was cancelled
            return
        whole = sample.exception is None and sample.finish_reason == "stop"
        ballot = self._reading.ballot(sample.text) if whole else None
        self._ended.append((sample, ballot))
        self._tally.count(sample.spec.id, ballot)

    def _decided(self) -> Decided | None:
        return decided(self._tally.votes, self._tally.left, self._certainty)

    def _cancel(self) -> None:
        for each in self._samples:
            each.cancel(_NEEDLESS)

    def _take(self, running: RunningBranch) -> None:
        """Write the winner into the branch of the item; if there is none, the failure of the last sample."""
        most = max(self._tally.votes.values(), default=0)
        leaders = [key for key, count in self._tally.votes.items() if count == most]
        if len(leaders) > 1:
            self._runner.warn(
                f"The results for {self._spec.title!r} do not agree: {len(leaders)} have {most} votes each.", "votes"
            )
        voters = [sample for sample, ballot in self._ended if ballot is not None and ballot.key == leaders[0]]
        with_text = voters or [sample for sample, _ in self._ended if sample.text.strip()]
        if not with_text:
            running.outcome = self._ended[-1][0].outcome
            return
        winner = with_text[medoid([sample.text for sample in with_text])]
        running.writers.append(BranchWriter(winner.writers[-1].backend))
        running.outcome = replace(running.outcome, reason=winner.finish_reason)
        running.write(winner.text, self._runner.now_s())
        for each in self._samples:
            if each is not winner:
                each.drop("another result is shown")
