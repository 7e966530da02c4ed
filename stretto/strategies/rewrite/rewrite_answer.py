"""One run of ``rewrite``: the pieces of a text, written in parallel and joined in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from stretto.backends.base import ModelRequest
from stretto.language.echoes import may_refuse, refuses
from stretto.router.given import EDITED, Given
from stretto.router.parse import parse_of
from stretto.strategies.base import StrategyResult
from stretto.strategies.direct import Direct, template_messages
from stretto.strategies.rewrite.entries import Entries, entry_pieces
from stretto.strategies.rewrite.fenced_prose import are_changed
from stretto.strategies.rewrite.kept_text import RUNS, STUB, lost, relaid
from stretto.strategies.rewrite.lengths import Lengths
from stretto.strategies.rewrite.result import Result
from stretto.strategies.rewrite.rewrite_offer import RewriteOptions, is_by_edits
from stretto.strategies.rewrite.terms import SHARED, TERMS_TOKENS, Shared, read_object
from stretto.strategies.rewrite.text_pieces import LEAST, LEAST_EDITED, MOST, Piece, cut, edited_pieces
from stretto.strategies.runtime.branch import RunningBranch
from stretto.strategies.runtime.branch_spec import BranchSpec, PromptTarget
from stretto.strategies.runtime.fencing import fence_for, unfenced
from stretto.strategies.runtime.parts import ROOM, THINKING, notes_for, part_options, title_from, warn_of_limits
from stretto.strategies.runtime.runner import Runner
from stretto.strategies.strategy_options import options_of
from stretto.values.answer import REFUSALS, Branch
from stretto.values.request import GenerationOptions, Request
from stretto.values.route import Route

TERMS_READ = 12_000  # characters of a text that are searched for terms
FEWEST_FOR_TERMS = 3  # pieces
AROUND = 700  # tokens of a prompt around its piece
CHARACTERS = 3  # per token of a piece, which is in both prompt and answer
CUT = "it was cut"
_WIDE = 1 << 20  # tokens, for an unknown window
_IN_A_FENCE = (
    "The piece stands in a block between fences, but it is no code: do the task for it, too. Keep what stands in "
    "square brackets, as [Name], as it is. Its headings and lines keep their own form, whatever the others have."
)


async def write_rewritten(request: Request, route: Route, runner: Runner) -> StrategyResult:
    """Rewrite the text that a request gives; answer with `Direct` if it cannot be separated from the task."""
    given = parse_of(request, route).given
    if not isinstance(given, Given):
        why = "no text to be changed was found" if given is None else given.why
        runner.warn(f"Answered in one piece instead of piece by piece: {why}.", "strategy")
        return await Direct().run(request, route, runner)
    warn_of_limits(request, runner)
    whole = Rewriting(request, runner, given)
    if whole.by_edits:
        from stretto.strategies.rewrite.editing import Editing  # noqa: PLC0415 - it builds on this module

        pieces = whole.entries or edited_pieces(given, whole.parts(), in_fences=whole.in_fences)
        result = await Editing(whole).run(pieces)
    else:
        result = await whole.run()
    if result is not None:
        whole.warn_of_length(result)
        return result
    for running in runner.branches:
        running.drop("the whole is asked for at once")
    runner.warn("Answered in one piece instead of piece by piece: no piece was written.", "strategy")
    return await Direct().run(request, route, runner)


@dataclass(eq=False)
class RewritePart:
    """A piece and the calls for it, the last of which may still be running."""

    piece: Piece
    tries: list[RunningBranch] = field(default_factory=list)
    live: bool = False
    results: list[str] = field(default_factory=list)
    faults: list[list[str]] = field(default_factory=list)

    async def ended(self) -> None:
        """Wait for the end of all tries, each of which can lead to another."""
        for running in self.tries:  # the list grows meanwhile
            await running.ended()

    @property
    def usable(self) -> Sequence[int]:
        """The tries that wrote the piece, once they have ended."""
        return [each for each, running in enumerate(self.tries) if running.exception is None and self.results[each]]

    @property
    def best(self) -> int:
        """The usable try with the fewest faults; of equals, the later one."""
        return min(self.usable, key=lambda each: (len(self.faults[each]), -each))


class Rewriting:
    """One run that rewrites a text in pieces."""

    def __init__(self, request: Request, runner: Runner, given: Given) -> None:
        self.request, self.runner, self.given = request, runner, given
        options = options_of(request, RewriteOptions)
        self.shared = Shared(options.terms)
        window = runner.capabilities.context_window or _WIDE
        self.most = max(LEAST, min(MOST, (window - AROUND) * CHARACTERS // 2))
        self.by_edits = is_by_edits(options.way, runner.known.backend, given.change)
        least = (len(given.text) if given.change == "insert" else LEAST_EDITED) if self.by_edits else LEAST
        self.entries: Sequence[Piece] = entry_pieces(given, self.parts(), least)
        self.refused = False
        self.fence = fence_for(given.text, *options.terms, *options.terms.values())
        self.task = given.task or "Do what the system message tells, to this text."
        order = given.task or request.system
        self.in_fences = are_changed(given.change, order)
        self.lengths = (
            Lengths.from_task(order, self._visible_text(given.text)) if given.change == "shorten" else Lengths()
        )
        self.effort: Literal["low"] | None = None if request.preference == "careful" else "low"
        self.thinking = THINKING if runner.capabilities.reasoning else 0

    async def run(self) -> StrategyResult | None:
        """Start all pieces, and show them in order: the first is streamed, the others follow once checked.

        Nothing is shown before one of them is known not to be a refusal; return ``None`` if there is none.
        """
        text, merge = self.given.text, self.runner.merge
        pieces = self.entries or cut(text, self.given.ending, self.parts(), most=self.most, in_fences=self.in_fences)
        parts = [RewritePart(piece) for piece in pieces]
        self.start(parts[0])
        terms = self._start_terms(len(pieces))
        for part in parts[1:]:
            self.start(part, () if terms is None else (terms,))
        if not (self.entries or pieces[0].indent):
            await self._begun(parts[0])
        if not parts[0].live and not await any_of(parts):
            return None
        merge.add(self.given.lead)
        end = 0
        for part in parts:
            merge.add(text[end : part.piece.start])
            end = part.piece.end
            if part.live:
                merge.add_branch(part.tries[0], filter_=self._result(part.piece), ending=partial(self._rest, part))
                await part.ended()
                if part.tries[0].finish_reason == "refusal":  # no rewritten piece follows what was shown of it
                    for running in self.runner.branches:
                        if running is not part.tries[0]:
                            running.drop("the text was refused")
                    await merge.finish()
                    return StrategyResult(ends_as="refusal", by_itself=True)
            else:
                merge.add(await self.settled(part))
        merge.add(text[end:] + self.given.tail)
        await merge.finish()
        self._warn_of_terms(parts)
        return StrategyResult(ends_as="refusal" if self.refused else None, by_itself=True)

    async def _begun(self, part: RewritePart) -> None:
        """Wait until a running piece begins in a way that no refusal does; from then on it is streamed."""
        running, text = part.tries[0], ""
        while running.branch is None and may_refuse(text):
            if refuses(text) or running.metadata.refused:
                return
            await running.reached(len(text) + 1)
            text = running.text
        if running.branch is None:
            part.live, running.withheld = True, False

    def parts(self) -> int:
        """Return how many calls can run in parallel within the budget."""
        most, budget = self.runner.capabilities.concurrent_calls, self.request.budget.max_calls
        return most if budget is None else max(1, min(most, budget - 1))

    def _start_terms(self, pieces: int) -> RunningBranch | None:
        """Start the call that fixes terms and voice, if the change needs them; the first piece does not wait."""
        left = self.runner.ledger.calls_left
        if self.given.change not in SHARED or pieces < FEWEST_FOR_TERMS or (left is not None and left <= pieces):
            return None
        text = self.given.text[: min(TERMS_READ, 2 * self.most)]

        return self.runner.start(
            BranchSpec(
                id="terms",
                kind="terms",
                label="The list of terms",
                prompt=lambda target: self.model_request(target, "rewrite_terms", text=text),
                options=self.options(TERMS_TOKENS),
                allow_refusal=True,
                allow_empty=True,
                on_end=lambda running: self.shared.take(running.text, self.given.text),
            )
        )

    def start(self, part: RewritePart, waits: Sequence[RunningBranch] = (), lacks: Sequence[str] = ()) -> None:
        """Start a call that writes a piece; ``lacks`` lists what the previous call lost."""
        piece = part.piece
        title = title_from(piece.visible_text)

        def prompt(target: PromptTarget) -> ModelRequest:
            schema = piece.schema if isinstance(piece, Entries) else None
            return self.model_request(
                target,
                "rewrite_piece" if schema is None else "rewrite_entries",
                schema=schema,
                piece=piece.text,
                before=piece.before,
                after=piece.after,
                length=self.lengths.instruction(piece.visible_text) if piece.indent is None else _IN_A_FENCE,
                faults="\n".join(lacks),
            )

        running = self.runner.start(
            BranchSpec(
                id=f"piece-{piece.number}",
                kind="piece",
                title=title,
                label=f"Piece {piece.number}, {title!r},",
                prompt=prompt,
                options=self.options(ROOM * len(piece.text) // 2 + 200, piece.number),
                after=waits,
                fallback_prompt=lambda target, received: self._continued(part, target, prompt(target), received),
                on_end=partial(self._ended, part),
            )
        )
        part.tries.append(running)
        running.withhold()

    def _continued(
        self, part: RewritePart, target: PromptTarget, prompt: ModelRequest, received: str
    ) -> ModelRequest | None:
        if not received.strip():  # after a text that was shown and then refused, nothing is rewritten
            return None if part.live and part.tries[0].was_read else prompt
        question = prompt.messages[-1].content
        return ModelRequest(
            template_messages(self.request, target, "continue", question=question, received=received, documents="")
        )

    def _ended(self, part: RewritePart, running: RunningBranch) -> None:
        """Check a finished piece, and have it rewritten once if it lost something."""
        result, faults = self._read(part.piece, running.text)
        if running.finish_reason in ("length", "budget"):
            faults.append(CUT)
        elif STUB in faults and not part.live:
            result = ""
        part.results.append(result)
        part.faults.append(faults)
        usable = running.exception is None and running.finish_reason not in (*REFUSALS, "budget")
        first = len(part.tries) == 1 and not part.live
        if usable and faults and first and self.runner.ledger.calls_left != 0:
            self.start(part, lacks=faults)

    def _read(self, piece: Piece, written: str) -> tuple[str, list[str]]:
        """Return the text of a piece, and what it lacks."""
        change = self.given.change
        if not isinstance(piece, Entries):
            laid = relaid(piece.text, self._result(piece).whole(written), piece.indent or "")
            result = self.runner.leaks.clean(laid)
            kept = lost(piece.text, result, change, self.task, brackets=piece.indent is not None)
            return result, [*kept, *self.shared.missed(piece.text, result), *self.lengths.missed(piece.text, result)]
        texts_written = read_object(written)
        texts: list[str | None] = []
        faults: list[str] = []
        unwritten = self._hidden()
        for number, entry in enumerate(piece.entries, start=1):
            text = texts_written.get(str(number))
            if not (isinstance(text, str) and text.strip()):
                texts.append(unwritten)
                faults.append(f"text {number} is missing")
                continue
            lacks = [*lost(entry.text, text, change, self.task, tags=True), *self.shared.missed(entry.text, text)]
            texts.append(text.strip() if {STUB, RUNS}.isdisjoint(lacks) else unwritten)
            faults += [f"text {number}: {each}" for each in lacks]
        faults += self.lengths.missed(piece.visible_text, "\n\n".join(filter(None, texts)))
        return piece.filled(texts) if any(each != unwritten for each in texts) else "", faults

    async def settled(self, part: RewritePart) -> str:
        """Return the text of a piece once all tries have ended; its source if it could not be written."""
        await part.ended()
        if not part.usable:
            return self._missing(part)
        best = part.best
        for place, running in enumerate(part.tries):
            if place != best:
                running.drop("another try of the piece lost less")
        self._warn_of_faults(part, best)
        return part.results[best]

    def _rest(self, part: RewritePart, branch: Branch) -> str:
        """Return what follows the text of the first piece, which is streamed."""
        running = part.tries[0]
        if running.finish_reason == "refusal":
            return ""
        if running.exception is None:
            self._warn_of_faults(part, 0)
        return notes_for(self.request).ending(branch)

    def _missing(self, part: RewritePart) -> str:
        """Return the replacement of a piece that could not be written: its source, unless that has to be hidden."""
        running = part.tries[-1]
        wrong = str(running.exception)
        if running.exception is None:
            wrong = "what was written in its place is not the whole of it."
            for each in part.tries[:-1]:
                each.drop("it is not the whole of the piece")
            running.use = "lacking"
        self.refused = self.refused or any(refuses(each.text) for each in part.tries)
        note = self._hidden()
        done = "is left as it was" if note is None else "is left out"
        running.reported = True
        self.runner.warn(f"{running.spec.label} {done}: {wrong}", "part_missing", part=running.spec.id)
        return self.given.text[part.piece.start : part.piece.end] if note is None else note

    def _hidden(self) -> str | None:
        """Return the replacement of a text that was not written; ``None`` for the original text."""
        if self.request.on_missing != "omit" and self.given.change != "redact":
            return None
        missing = notes_for(self.request).missing
        return f"[{missing}]" if missing else ""

    def _warn_of_faults(self, part: RewritePart, place: int) -> None:
        running, faults = part.tries[place], part.faults[place]
        if faults and CUT not in faults:  # a truncation has another warning
            self.runner.warn(
                f"{running.spec.label} is not as it should be: {'; '.join(faults)}.", "kept", part=running.spec.id
            )

    def _warn_of_terms(self, parts: Sequence[RewritePart]) -> None:
        """Warn of terms that are rendered inconsistently, and record how much such a change alters."""
        written = [(part.piece.text, part.results[part.best]) for part in parts if part.usable]
        if written and self.given.change in EDITED:
            was, now = (Counter("\n".join(each).split()) for each in zip(*written, strict=True))
            self.runner.known.history.note_change(self.given.change, (was - now).total() / max(1, was.total()))
        if uneven := self.shared.uneven(written):
            named = ", ".join(f'"{term}"' for term in uneven)
            self.runner.warn(
                f"Not rendered alike in all pieces: {named}. Give them in terms of strategy_options.", "kept"
            )

    def warn_of_length(self, result: StrategyResult) -> None:
        """Warn if the length of the whole text is far from the requested one."""
        if result.ends_as is None and self.lengths.share is not None:
            written = self.runner.merge.text.removeprefix(self.given.lead).removesuffix(self.given.tail)
            if wrong := self.lengths.missed_by(self._visible_text(self.given.text), self._visible_text(written)):
                self.runner.warn(wrong, "kept")

    def _visible_text(self, text: str) -> str:
        """Return a text as a reader sees it; for a file, without its markup."""
        if not self.entries:
            return text
        return "\n\n".join(piece.visible_text for piece in entry_pieces(replace(self.given, text=text), 1))

    def _result(self, piece: Piece) -> Result:
        return Result(piece.text, self.fence)

    def options(self, room: int, number: int = 0) -> GenerationOptions:
        return part_options(self.request, min(room, self.request.part_tokens or room) + self.thinking, number)

    def model_request(
        self,
        target: PromptTarget,
        template: str,
        *,
        schema: Mapping[str, Any] | None = None,
        faults: str = "",
        **values: str,
    ) -> ModelRequest:
        """Return the prompt of a call; all prompts begin alike, and notes on the text are fenced as data like it."""
        notes = {"terms": self.shared.as_text, "faults": faults}
        about = [f"{self.fence} {name}\n{unfenced(text, self.fence)}\n" for name, text in notes.items() if text]
        own = {"task": self.task, "told": "".join(about), "fence": self.fence, "documents": ""}
        messages = template_messages(self.request, target, template, **(own | values))
        shared = messages[-1].content.find(self.task) + len(self.task)  # the first piece has no terms
        draft = "" if schema is not None else values.get("piece", "")
        return ModelRequest(
            messages,
            effort=self.effort,
            shared=shared,
            draft=draft,
            response_schema=schema if target.capabilities.json_schema else None,
            in_words=(),
        )


async def any_of(parts: Sequence[RewritePart]) -> bool:
    """Return whether one of the pieces was written, as soon as that is known."""
    for part in parts:
        await part.ended()
        if part.usable:
            return True
    return False
