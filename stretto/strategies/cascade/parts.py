"""Parts of an answer by a cascade: a smaller model writes each, and the main one those that do not stand.

Only log-probabilities tell here whether a part stands: a check or a second text for each part would cost the calls that
the smaller model saves.
"""

from __future__ import annotations

from dataclasses import replace

from stretto.backends.base import Backend
from stretto.strategies.cascade.answer_verdict import Bound
from stretto.strategies.runtime.branch import BranchWriter, Outcome, RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec
from stretto.strategies.runtime.runner import Runner
from stretto.values.answer import REFUSALS

PARTS = ("section", "item")
"""Kinds of branches that a smaller model writes first."""


class PartsFirst:
    """Gives each part of an answer a smaller model that writes it first.

    Args:
        bound: least mean log-probability of the tokens of a part that stands.
    """

    def __init__(self, runner: Runner, role: str, backend: Backend, bound: Bound) -> None:
        self._runner, self._role, self._backend, self._bound = runner, role, backend, bound
        self._stood: list[bool] = []

    @property
    def said(self) -> str:
        """What became of the parts, as a sentence; empty where there were none."""
        if not self._stood:
            return ""
        needed = f"a mean log-probability of {self._bound.least:g} was needed{self._bound.source}"
        return f"{self._backend.name} wrote {sum(self._stood)} of {len(self._stood)} parts: {needed}."

    def before(self, spec: BranchSpec) -> BranchSpec:
        """The same branch, which takes what the smaller model wrote if that stands."""
        if spec.kind not in PARTS or spec.backend is not None:
            return spec
        trial = self._runner.start(
            replace(
                spec,
                id=f"{spec.id}-{self._role}",
                kind="trial",
                options=spec.options.model_copy(update={"logprobs": spec.options.logprobs or 0, "decoding": None}),
                fallback_prompt=lambda *_: None,
                on_end=lambda _: None,
                backend=self._backend,
            )
        )
        trial.withhold()
        trial.use, trial.reported = "dropped", True  # its text is shown as that of the part, if at all
        return replace(spec, after=(*spec.after, trial), written=lambda running: self._takes(running, trial))

    def _takes(self, running: RunningBranch, trial: RunningBranch) -> bool:
        """Whether the smaller model's text stands; the part has it then."""
        text, scores = trial.text, trial.logprobs
        whole = trial.exception is None and trial.finish_reason not in (*REFUSALS, "length") and bool(text.strip())
        mean = sum(each.logprob for each in scores) / len(scores) if scores else None
        stands = whole and mean is not None and mean >= self._bound.least
        self._stood.append(stands)
        if stands:
            running.writers.append(BranchWriter(self._backend))
            running.outcome = Outcome(trial.finish_reason)
            running.write(text, self._runner.now_s())
        else:
            trial.drop("it does not stand")
        return stands
