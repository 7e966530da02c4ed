"""Changes a text by edits: the model writes what changes, and code applies the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from stretto.backends.base import ModelRequest
from stretto.strategies.base import StrategyResult
from stretto.strategies.rewrite.edits import SCHEMA, Applied, Edit, apply, edits_in
from stretto.strategies.rewrite.entries import Entries
from stretto.strategies.rewrite.kept_text import lost
from stretto.strategies.rewrite.rewrite_answer import RewritePart, Rewriting, any_of
from stretto.strategies.rewrite.text_pieces import Piece
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.parts import title_from
from stretto.values.answer import REFUSALS, FinishReason
from stretto.values.events import TextEdited

TRIES = 2


@dataclass(eq=False)
class Edited:
    """A piece, the calls for its edits, and, if these could not be applied, the calls that rewrite it."""

    piece: Piece
    tries: list[RunningBranch] = field(default_factory=list)
    good: list[Edit] = field(default_factory=list)
    applied: Applied | None = None
    anew: RewritePart | None = None

    async def is_written(self) -> bool:
        """Wait for all calls for the piece; return whether it was edited or rewritten."""
        for running in self.tries:  # the list grows meanwhile
            await running.ended()
        return self.applied is not None or (self.anew is not None and await any_of([self.anew]))


class Editing:
    """One run that changes a text by edits.

    Args:
        whole: the run of the same text, for pieces that have to be rewritten.
    """

    def __init__(self, whole: Rewriting) -> None:
        self.whole, self.runner, self.given = whole, whole.runner, whole.given
        self.everywhere = self.given.change == "rename"

    async def run(self, pieces: Sequence[Piece]) -> StrategyResult | None:
        """Request the edits of all pieces at once; show the edited pieces in order, and report what was done.

        Nothing is shown before one of them is written; return ``None`` if none is.
        """
        text, at = self.given.text, len(self.given.lead)
        edited = [Edited(piece) for piece in pieces]
        for each in edited:
            self._ask(each)
        for each in edited:
            if await each.is_written():
                break
        else:
            return None
        merge = self.runner.merge
        await merge.add_at_once(self.given.lead)
        end = 0
        for each in edited:
            between = text[end : each.piece.start]
            result = await self._settled(each)
            await merge.add_at_once(between + result)
            at += len(between)
            for edit in each.applied.made if each.anew is None and each.applied is not None else ():
                await self.runner.announce(
                    TextEdited(branch_id=each.tries[-1].spec.id, start=at + edit.start, old=edit.old, new=edit.new)
                )
            at += len(result)
            end = each.piece.end
        merge.add(text[end:] + self.given.tail)
        await merge.finish()
        ends_as: FinishReason | None = "refusal" if self.whole.refused else None
        return StrategyResult(reason=self._note(edited), ends_as=ends_as, by_itself=True)

    def _ask(self, edited: Edited, failed: Sequence[str] = ()) -> None:
        piece, number = edited.piece, edited.piece.number

        def prompt(target: PromptTarget) -> ModelRequest:
            around = {"before": piece.before, "after": piece.after}
            return self.whole.model_request(
                target, "rewrite_edits", schema=SCHEMA, faults="\n".join(failed), piece=piece.visible_text, **around
            )

        edited.tries.append(
            self.runner.start(
                BranchSpec(
                    id=f"edits-{number}",
                    kind="edits",
                    title=title_from(piece.visible_text),
                    label=f"The list of changes of piece {number}",
                    prompt=prompt,
                    options=self.whole.options(len(piece.visible_text) // 2 + 200, number),
                    fallback_prompt=lambda target, received: None if received.strip() else prompt(target),
                    on_end=partial(self._ended, edited),
                )
            )
        )

    def _ended(self, edited: Edited, running: RunningBranch) -> None:
        """Apply the edits; request those that failed once more, then have the piece rewritten."""
        usable = running.exception is None and running.finish_reason not in (*REFUSALS, "length", "budget")
        found = edits_in(running.text) if usable else None
        piece = edited.piece
        failed: Sequence[str] = ("no list of changes was written",)
        if found is not None:
            alone = [(edit, self._made(piece, [*edited.good, edit])) for edit in found]
            applied = self._made(piece, [*edited.good, *found])
            failed = [*applied.failed, *self._lost(piece, applied.text)]
            if not failed:
                edited.applied = applied
                return
            edited.good += [edit for edit, made in alone if not made.failed]
        may_ask = self.runner.ledger.calls_left != 0
        if running.exception is None and may_ask and len(edited.tries) < TRIES:
            self._ask(edited, failed)
        else:
            edited.anew = RewritePart(edited.piece)
            self.whole.start(edited.anew)

    def _made(self, piece: Piece, edits: Sequence[Edit]) -> Applied:
        if isinstance(piece, Entries):
            return piece.edited(edits, everywhere=self.everywhere)
        return apply(piece.text, edits, everywhere=self.everywhere)

    def _lost(self, piece: Piece, result: str) -> list[str]:
        """Return what an edited piece lacks, or has in excess."""
        source = self.given.text[piece.start : piece.end]
        tags, brackets = isinstance(piece, Entries), piece.indent is not None
        return lost(source, result, self.given.change, self.whole.task, tags=tags, brackets=brackets)

    async def _settled(self, edited: Edited) -> str:
        """Return the text of a piece, edited or rewritten."""
        await edited.is_written()
        if edited.anew is not None:
            return await self.whole.settled(edited.anew)
        assert edited.applied is not None  # noqa: S101 - else it was rewritten; for the type checker
        return edited.applied.text

    def _note(self, edited: Sequence[Edited]) -> str:
        """Record how much such a change alters; return what was done, as a sentence."""
        made = [edit for each in edited if each.applied is not None for edit in each.applied.made]
        anew = sum(len(each.piece.visible_text) for each in edited if each.anew is not None)
        changed = anew + sum(max(len(edit.old), len(edit.new)) for edit in made)
        self.runner.known.history.note_change(self.given.change, changed / max(1, len(self.given.text)))
        return f"Changed in {len(made)} place{'' if len(made) == 1 else 's'} by edits."
