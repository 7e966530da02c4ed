"""The samples of one answer: how they are requested, the model's confidence in each, and their outcome.

As in DeepConf (Fu et al., arXiv 2508.15260), samples are ended if the model is less confident in them than in the
finished ones. The confidence in a sample is its weakest window: the lowest mean log-probability of ``window`` tokens in
a row. The threshold is the weakest finished sample, once enough have finished: of equally good samples, one in n + 1
falls below the weakest of n, and loses its vote for nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stretto.backends.base import ModelRequest
from stretto.strategies.consensus.ballots import Ballot
from stretto.strategies.consensus.consensus_options import ConsensusOptions
from stretto.strategies.direct import direct_spec
from stretto.strategies.quality.text_guard import TextGuard
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.ledger import LEAST_ANSWER
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.runtime.several import prompt_tokens, sampled
from stretto.values.answer import REFUSALS
from stretto.values.request import Request
from stretto.values.token_records import TokenLogprob

WEAK = "the model was less sure of it than of every finished sample"
LOOPING = "it repeats itself"


@dataclass(eq=False)
class Sample:
    """One sample.

    Attributes:
        running: its branch.
        trace: the model's confidence in it.
        ballot: what it votes for; ``None`` before its end, and without a vote.
        text: what it would show as the answer.
        weak: it was ended in mid-stream because of its trace.
        looping: it was ended because it repeats itself.
    """

    running: RunningBranch
    trace: Trace
    ballot: Ballot | None = None
    text: str = ""
    weak: bool = False
    looping: bool = False
    _processed: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether it was written to its end."""
        ended = self.running.branch is not None and self.running.exception is None
        return ended and self.running.finish_reason == "stop"

    @property
    def has_failed(self) -> bool:
        """Whether it should have voted but could not."""
        return self.looping or not (self.is_whole or self.running.discarded)

    @property
    def refuses(self) -> bool:
        """Whether the model or the content filter of its server refused it."""
        ended = self.running.branch is not None and self.running.exception is None
        return ended and (self.running.metadata.refused or self.running.finish_reason in REFUSALS)

    @property
    def is_cut(self) -> bool:
        """Whether a token limit ended it."""
        return self.running.exception is None and self.running.finish_reason in ("length", "budget")

    def read_logprobs(self, *, keep: bool) -> None:
        """Read the new log-probabilities; unless ``keep``, they are not kept for the answer."""
        logprobs = self.running.logprobs
        self.trace.add(logprobs[self._processed :])
        if keep:
            self._processed = len(logprobs)
        else:
            logprobs.clear()


def start_samples(
    request: Request, runner: Runner, options: ConsensusOptions, number: int, ended: Callable[[Sample], None]
) -> list[Sample]:
    """Start ``number`` samples at once; ``ended`` is called for each as it ends."""
    samples: list[Sample] = []
    finished: list[Trace] = []
    changes = _changes(request, runner, options, number)
    keep, own = request.options.logprobs is not None, request.options.max_tokens
    ends_weak = options.ends_weak and not request.reproducible  # the threshold depends on which samples have ended

    def start(place: int) -> None:
        def watch() -> _SampleWatch:
            sample = samples[place]

            def on_text(*, looping: bool) -> None:
                sample.read_logprobs(keep=keep)
                sample.looping = looping
                bar = _bar_of(finished, options.warm_up) if ends_weak and not looping else None
                sample.weak = sample.trace.is_below(bar)
                if looping or sample.weak:
                    sample.running.cancel(LOOPING if looping else WEAK)

            return _SampleWatch(on_text)

        def on_end(_: RunningBranch) -> None:
            sample = samples[place]
            if sample.is_whole:
                finished.append(sample.trace)
            ended(sample)

        spec = replace(
            _shared(direct_spec(request, runner)),
            id=f"sample-{place + 1}",
            kind="sample",
            title=f"Sample {place + 1}",
            label="The answer",
            options=sampled(request.options, runner.capabilities, place, **changes),
            fallback_prompt=lambda *_: None,  # the others decide
            on_end=on_end,
            watch=watch,
            standalone=False,
            version=place + 1,
            budgeted=changes.get("max_tokens", own) != own,
        )
        samples.append(Sample(runner.start(spec), Trace(options.window)))

    for place in range(number):
        start(place)
    return samples


def _changes(request: Request, runner: Runner, options: ConsensusOptions, number: int) -> dict[str, object]:
    """Return the options of a sample that differ from the request's."""
    changes: dict[str, object] = {}
    own, total = request.options, request.budget.max_tokens_total
    if own.logprobs is None and runner.capabilities.logprobs and options.needs_logprobs:
        changes["logprobs"] = 0
    if total is not None:
        room = max(LEAST_ANSWER, total // number - prompt_tokens(request))
        changes["max_tokens"] = min(room, own.max_tokens or room)
    return changes


def most_samples(request: Request, wanted: int, other_calls: int) -> int:
    """Return how many samples the budget allows next to ``other_calls``; at least one."""
    calls, total = request.budget.max_calls, request.budget.max_tokens_total
    most = wanted if calls is None else min(wanted, calls - other_calls)
    if total is not None:
        most = min(most, total // (prompt_tokens(request) + LEAST_ANSWER))
    return max(1, most)


def mean_of(samples: Sequence[Sample]) -> float | None:
    """Return the mean log-probability of these samples' tokens; ``None`` if none was reported."""
    means = [sample.trace.mean for sample in samples if sample.trace.mean is not None]
    return sum(means) / len(means) if means else None


def _shared(spec: BranchSpec) -> BranchSpec:
    """Return the spec with its prompt marked as shared by all samples."""

    def prompt(target: PromptTarget) -> ModelRequest:
        model_request = spec.prompt(target)
        return replace(model_request, shared=len(model_request.messages[-1].content))

    return replace(spec, prompt=prompt)


class Trace:
    """The log-probabilities of one sample, read as its text streams.

    Args:
        window: tokens whose mean is the model's confidence.
    """

    def __init__(self, window: int) -> None:
        self._last: deque[float] = deque(maxlen=window)
        self._sum = 0.0
        self._lowest = math.inf
        self._total, self.tokens = 0.0, 0

    @property
    def mean(self) -> float | None:
        """The mean log-probability of all tokens; ``None`` if none was reported."""
        return self._total / self.tokens if self.tokens else None

    @property
    def weakest(self) -> float | None:
        """The lowest mean of a window so far, or the mean of a shorter text; ``None`` if none was reported."""
        return self._lowest if self._lowest < math.inf else self.mean

    def add(self, logprobs: Sequence[TokenLogprob]) -> None:
        for each in logprobs:
            logprob = max(each.logprob, -100.0)  # servers write -9999 for what was impossible
            if len(self._last) == self._last.maxlen:
                self._sum -= self._last[0]
            self._last.append(logprob)
            self._sum += logprob
            self._total, self.tokens = self._total + logprob, self.tokens + 1
            if len(self._last) == self._last.maxlen:
                self._lowest = min(self._lowest, self._sum / len(self._last))

    def is_below(self, bar: float | None) -> bool:
        """Return whether the last whole window is below a threshold."""
        whole = len(self._last) == self._last.maxlen
        return bar is not None and whole and self._sum / len(self._last) < bar


def _bar_of(finished: Sequence[Trace], warm_up: int) -> float | None:
    """Return the least confidence in a sample to let it run; ``None`` while fewer than ``warm_up`` have ended."""
    weakest = [each.weakest for each in finished if each.weakest is not None]
    return min(weakest) if len(weakest) >= warm_up else None


class _SampleWatch:
    """Passes the text of a sample on, and checks after each chunk whether it has begun to repeat itself."""

    fault = ""  # the sample is cancelled instead, and none of it is kept

    def __init__(self, notify: Callable[..., None]) -> None:
        self._notify = notify
        self._loops = TextGuard()

    def feed(self, text: str) -> str:
        self._loops.feed(text)
        self._notify(looping=bool(self._loops.fault))
        return text

    def finish(self) -> str:
        self._notify(looping=False)
        return ""
