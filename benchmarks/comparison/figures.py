"""From runs to figures: medians with spread, speed-ups, and the bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from measuring import Spread

from comparison.run import Run

__all__ = ["RESTING", "Bar", "Figures", "bars", "distinct", "floor_bar", "summarise"]

_AUTO, _PLAIN = "auto", "autoregressive"
RESTING = "prompt lookup, resting"
"""`auto` with the guesses of prompt lookup: what `auto` has to beat."""


@dataclass(frozen=True)
class Figures:
    """One method on one workload at one temperature.

    Attributes:
        ms_per_token: from the first token to the last; one value for each repetition.
        first_ms: until the first token, the mean of the prompts.
        over_greedy: speed-up over transformers' plain ``generate``, repetition by repetition; None without it.
        over_best_peer: the same over the peer with the lowest median; None without peers.
        over_autoregressive: the same over our own plain decoding.
        same: answers equal to the plain method's; None where another generator of random numbers drew them.
        answers: how many there were.
        distinct_4_grams: share of an answer's 4-grams that are there once, over all answers; loops lower it.
        peak_mb: the process's highest resident memory while it ran, everything loaded; None where not to be had.
    """

    workload: str
    temperature: float
    method: str
    peer: bool
    tokens: int
    tokens_per_step: float
    rows_per_step: float
    ms_per_token: Spread
    first_ms: Spread
    over_greedy: Spread | None
    over_best_peer: Spread | None
    over_autoregressive: Spread | None
    same: int | None
    answers: int
    distinct_4_grams: float
    peak_mb: float | None


@dataclass(frozen=True)
class Bar:
    """An aim, and what came of it."""

    name: str
    aim: float
    measured: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.measured <= self.aim if self.at_most else self.measured >= self.aim


def summarise(
    workload: str,
    temperature: float,
    runs: Mapping[str, Sequence[Sequence[Run]]],
    peers: Mapping[str, bool],
    *,
    plain_peer: str,
    peak_mb: Mapping[str, float | None],
) -> list[Figures]:
    """Figures of all methods on one workload.

    Args:
        workload: its name.
        temperature: of all runs.
        runs: by method, the runs of each repetition, one for each prompt.
        peers: whether a method is somebody else's.
        plain_peer: name of the peer that others' speed-ups are relative to.
        peak_mb: by method.
    """
    pace = {method: [_ms_per_token(repetition) for repetition in done] for method, done in runs.items()}
    medians = {method: Spread.of(times).median for method, times in pace.items()}
    theirs = [method for method in runs if peers[method]]
    best = min(theirs, key=lambda method: medians[method], default=None)
    summary = []
    for method, done in runs.items():
        every = [run for repetition in done for run in repetition]
        steps = max(sum(run.steps for run in every), 1)
        reference = _reference(method, runs, peers[method], temperature)
        summary.append(
            Figures(
                workload=workload,
                temperature=temperature,
                method=method,
                peer=peers[method],
                tokens=sum(len(run.tokens) for run in every),
                tokens_per_step=sum(run.decoded for run in every) / steps,
                rows_per_step=sum(run.rows for run in every) / steps,
                ms_per_token=Spread.of(pace[method]),
                first_ms=Spread.of([1e3 * sum(run.first_s for run in each) / len(each) for each in done]),
                over_greedy=_ratio(pace, plain_peer, method),
                over_best_peer=_ratio(pace, best, method),
                over_autoregressive=_ratio(pace, _PLAIN, method),
                same=None if reference is None else sum(map(_equal, every, reference)),
                answers=len(every),
                distinct_4_grams=distinct([run.tokens for run in every]),
                peak_mb=peak_mb.get(method),
            )
        )
    return summary


def _ms_per_token(runs: Iterable[Run]) -> float:
    done = list(runs)
    return 1e3 * sum(run.decoding_s for run in done) / max(sum(run.decoded for run in done), 1)


def _ratio(pace: Mapping[str, Sequence[float]], other: str | None, own: str) -> Spread | None:
    """How many times as fast as the other, repetition by repetition: what slows the machine slows both."""
    if other is None or other not in pace:
        return None
    return Spread.of([slow / max(fast, 1e-9) for slow, fast in zip(pace[other], pace[own], strict=True)])


def _reference(
    method: str, runs: Mapping[str, Sequence[Sequence[Run]]], peer: bool, temperature: float
) -> list[Run] | None:
    """The answers that this method's should equal: a seed means the same to all our methods, and to no peer's."""
    if _PLAIN not in runs or (peer and temperature > 0) or method == _PLAIN:
        return None
    return [run for repetition in runs[_PLAIN] for run in repetition]


def _equal(own: Run, plain: Run) -> bool:
    return list(own.tokens) == list(plain.tokens)


def distinct(answers: Iterable[Sequence[int]]) -> float:
    """Of all 4-grams, the share that are distinct within their answer."""
    found = total = 0
    for answer in answers:
        grams = [tuple(answer[start : start + 4]) for start in range(len(answer) - 3)]
        found, total = found + len(set(grams)), total + len(grams)
    return found / max(total, 1)


def bars(figures: Sequence[Figures]) -> list[Bar]:
    """The aims of the engine on what was measured; those whose methods were left out are left out."""
    found: list[Bar] = []
    by = {(each.workload, each.temperature, each.method): each for each in figures}
    for workload, heat in dict.fromkeys((each.workload, each.temperature) for each in figures):
        where = f"{workload}, {'greedy' if heat == 0 else f'temperature {heat}'}"
        auto = by.get((workload, heat, _AUTO))
        theirs = [each for each in figures if each.peer and (each.workload, each.temperature) == (workload, heat)]
        if auto is not None:
            if auto.over_best_peer:
                found.append(Bar(f"auto over the best peer: {where}", 1.3, auto.over_best_peer.median))
            if auto.over_greedy:
                found.append(Bar(f"auto over transformers: {where}", 3.0, auto.over_greedy.median))
            if auto.over_autoregressive:
                found.append(Bar(f"auto over autoregressive: {where}", 0.97, auto.over_autoregressive.median))
            if theirs:
                most = max(each.tokens_per_step for each in theirs)
                found.append(
                    Bar(f"auto's tokens a step over the best peer's: {where}", 1.3, auto.tokens_per_step / most)
                )
            if (resting := by.get((workload, heat, RESTING))) is not None:
                gain = resting.ms_per_token.median / max(auto.ms_per_token.median, 1e-9)
                found.append(Bar(f"auto over prompt lookup, resting: {where}", 0.97, gain))
        lookahead = by.get((workload, heat, "lookahead"))
        if lookahead is not None and workload == "code" and heat == 0:
            found.append(Bar(f"lookahead, tokens a step: {where}", 1.64, lookahead.tokens_per_step))
        lexical = by.get((workload, heat, "lexical"))
        if lexical is not None and lexical.over_autoregressive and heat == 0 and workload != "transformations":
            aim = 1.30 if workload == "code" else 1.33
            found.append(Bar(f"lexical over autoregressive: {where}", aim, lexical.over_autoregressive.median))
    return found


def floor_bar(over_floor: float) -> Bar:
    """The larger model's plain step over the time in which its weights can be read."""
    return Bar("plain step of the larger model over the memory's floor", 1.25, over_floor, at_most=True)
