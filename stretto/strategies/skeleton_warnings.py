"""What the reader of an answer by points is told of its outline."""

from __future__ import annotations

from stretto.strategies.branch import RunningBranch
from stretto.strategies.harm.titles import Titles
from stretto.strategies.runner import Runner


def tell_dropped(titles: Titles, runner: Runner) -> None:
    """Warn of titles that were left out."""
    if wrong := titles.wrong:
        count = "One title" if len(wrong) == 1 else f"{len(wrong)} titles"
        was = "was" if len(wrong) == 1 else "were"
        causes = ", ".join(dict.fromkeys(wrong))
        runner.warn(f"{count} of the outline {was} left out: {causes}.")


def tell_missing(
    outline: RunningBranch, runner: Runner, *, count: int, wanted: int | None, owes: bool, ended_here: bool
) -> bool:
    """Warn of points that are missing: the outline broke off, was cut, or has fewer than were asked for.

    Args:
        outline: that has ended.
        runner: takes the warning.
        count: of its points.
        wanted: points that were asked for.
        owes: more points may have followed.
        ended_here: it was ended on purpose.

    Returns:
        whether the answer is incomplete by that.
    """
    after = "one point" if count == 1 else f"{count} points"
    if outline.branch is not None and outline.exception is not None and not ended_here:
        runner.warn(f"The outline broke off after {after}: {outline.exception}")
        return owes
    if was_cut_short(outline) and owes:
        runner.warn(
            f"The outline was cut after {after}, so points may be missing. "
            "Ask for fewer points, allow more tokens, or ask with strategy='direct'."
        )
        return True
    if wanted and count < wanted:
        runner.warn(f"{wanted} points are asked for, and the outline had {count}.")
    return False


def was_cut_short(outline: RunningBranch) -> bool:
    """Whether a limit ended it."""
    return outline.finish_reason in ("length", "budget")
