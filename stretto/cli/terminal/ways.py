"""Names in the chats, for people who do not know those of the API: docs/design/README.md."""

from __future__ import annotations

from stretto.cli.output.plain import one_line
from stretto.cli.output.progress import counted
from stretto.values.answer import Answer
from stretto.values.route import Route

# The web chat has the same (server/web/page/words.js).
NAMES = {
    "auto": "Automatic",
    "skeleton": "In parallel",
    "items": "Item by item",
    "fields": "Field by field",
    "document": "Passage by passage",
    "rewrite": "Piece by piece",
    "direct": "One piece",
    "consensus": "Several samples",
    "collaborate": "Several models",
    "cascade": "Small model first",
    "forking": "Split by the model",
}
_ASKED = "Asked for by the caller"


def name_of(strategy: str) -> str:
    """Return the display name of a strategy; custom strategies keep their names."""
    return NAMES.get(strategy, one_line(strategy))


def reason_of(route: Route) -> str:
    """Return the reason of a route on one line."""
    reason = one_line(route.reason)
    return f"You chose it{reason[len(_ASKED) :]}" if reason.startswith(_ASKED) else reason


def is_other(kind: str, strategy: str) -> bool:
    """Return whether a branch is an alternative answer rather than part of one."""
    return kind in ("sample", "proposal") or (strategy == "cascade" and kind == "direct")


def others_of(answer: Answer) -> str:
    """Summarise the alternatives to the answer, ``5 samples, 4 agree: 32 (4), 33 (1)``; empty without any."""
    others = [branch for branch in answer.branches if is_other(branch.kind, answer.strategy)]
    if len(others) < 2:
        return ""
    if others[0].kind == "sample":
        return _samples(answer, len(others))
    proposed = others[0].kind == "proposal"
    many = f"{counted(len(others), 'proposal')}, put together" if proposed else f"{len(others)} models asked"
    names = (one_line(branch.heading or branch.title or branch.model or branch.id) for branch in others)
    return f"{many}: {', '.join(names)}"


def _samples(answer: Answer, number: int) -> str:
    many, agreement = counted(number, "sample"), answer.agreement
    if agreement is None:
        return many
    if agreement.decided_by in ("similarity", "judge"):
        chosen = "the one most like the others" if agreement.decided_by == "similarity" else "the judge's choice"
        return f"{many}, {chosen}"
    most = max(agreement.votes.values(), default=0)
    votes = ", ".join(f"{one_line(vote)} ({count})" for vote, count in agreement.votes.items())
    return f"{many}, {f'{most} agree' if most > 1 else 'none agree'}" + (f": {votes}" if votes else "")
