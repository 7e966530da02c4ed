"""Send the calls of one answer's branches: reserve budget, read the stream, and record the cost."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, get_args

from anyio.lowlevel import checkpoint

from stretto.backends.allowance import Caller, allowed
from stretto.backends.base import Chunk, ModelRequest, Stages
from stretto.backends.ending import Ends, broken_off
from stretto.backends.known_models import typical_tokens
from stretto.backends.load import CallTimer, meter_of
from stretto.foundation.surrogates import Mending, fix_surrogates
from stretto.strategies.quality.text_guard import LowQualityTextError
from stretto.strategies.runtime.answer_limit import AnswerLimit
from stretto.strategies.runtime.branch import FurtherChoice, Outcome, RunningBranch
from stretto.strategies.runtime.branch_spec import NOT_TEXT, TextWatch
from stretto.strategies.runtime.call_record import CallRecord, recorded
from stretto.strategies.runtime.ledger import Ledger, Reservation
from stretto.strategies.runtime.overlap_trimmer import OverlapTrimmer
from stretto.strategies.runtime.written_calls import WrittenCalls
from stretto.values.answer import FinishReason, Usage
from stretto.values.answer_warning import Warn
from stretto.values.content import mended
from stretto.values.errors import BackendError
from stretto.values.events import BranchDelta, ChoiceDelta, Event, RefusalStarted, ThoughtFinished, ToolCallDelta
from stretto.values.generation_options import GenerationOptions
from stretto.values.token_records import DecodingStats, TokenLogprob
from stretto.values.tool_calls import ToolCallFragment, ToolCallsSoFar

Emit = Callable[[Event], Awaitable[None]]

_numbers = itertools.count(1)  # of answers


@dataclass(frozen=True)
class BranchCall:
    """One call of a branch.

    Attributes:
        prompt: what is sent.
        options: how to sample.
        attempt: its number within the branch, from 1.
        after: the text that it is asked to continue; what it repeats of that is left out.
        replaceable: another model takes over if it fails.
    """

    prompt: ModelRequest
    options: GenerationOptions
    attempt: int = 1
    after: str = ""
    replaceable: bool = False


class BranchCalls:
    """Sends the calls of one answer, and reads each stream into its branch.

    Args:
        began: `time.perf_counter` at the arrival of the request.

    Attributes:
        accompanying: fields of the request body that are sent with every call.
        limit: of the tokens of the whole answer.
    """

    def __init__(self, ledger: Ledger, announce: Emit, warn_once: Warn, began: float) -> None:
        self.accompanying: Mapping[str, Any] = {}
        self.limit = AnswerLimit(None)
        self._ledger = ledger
        self._announce, self._warn_once = announce, warn_once
        self._began = began
        self._number = next(_numbers)

    async def send(self, running: RunningBranch, call: BranchCall) -> Outcome:
        """Send one call to the last writer of a branch, and write what it streams into the branch.

        Returns:
            how the stream ended.

        Raises `StrettoError`, and what a backend of the caller raises.
        """
        running.writers[-1].unanswered = call.prompt
        if self.accompanying:
            call = replace(call, prompt=replace(call.prompt, extra={**self.accompanying, **call.prompt.extra}))
        counted = self._ledger_of(running).counts_tokens
        tokens = await running.writers[-1].backend.count_tokens(call.prompt) if counted else 0
        async with self.limit.room(running) as room:
            options = call.options.model_copy(update={"max_tokens": room})
            outcome = await self._send_within(running, replace(call, options=options), tokens)
        wanted = running.spec.options.max_tokens
        has_less = room is not None and (wanted is None or room < wanted)
        if outcome.reason != "length" or outcome.limit is not None:
            return outcome
        if has_less:
            return replace(outcome, limit="answer")
        return replace(outcome, reason="budget") if running.spec.budgeted else outcome

    async def take(self, running: RunningBranch, pieces: AsyncIterator[str]) -> bool:
        """Write text that another branch's call produces for this one, as far as its watch lets it pass.

        Returns:
            whether its buffer had room for all of it.

        Raises `LowQualityTextError`, and what ``pieces`` raises.
        """
        watch = running.spec.watch() if running.spec.watch is not None else None
        spoiled: LowQualityTextError | None = None
        try:
            async for piece in pieces:
                if (text := _watched(watch, piece)) and not await self._take(running, text):
                    return False
                _check(watch)
        except LowQualityTextError as error:  # what the watch holds back precedes that position
            spoiled = error
        if text := _watched(watch, "", whole=True):
            await self._take(running, text)
        _check(watch)
        if spoiled is not None:
            raise spoiled
        return True

    async def _send_within(self, running: RunningBranch, call: BranchCall, tokens: int) -> Outcome:
        backend, prompt, room = running.writers[-1].backend, call.prompt, call.options.max_tokens
        self._ledger.check_price(backend)
        ledger = self._ledger_of(running)
        most, reservation = await ledger.reserve(tokens, room)
        options = call.options.model_copy(update={"max_tokens": most})
        if running.spec.kind in NOT_TEXT:  # their text is not part of the answer
            options = options.model_copy(update={"logprobs": None})
        running.writers[-1].unreported = tokens or estimate(prompt)
        failure: Exception | None = None
        outcome: Outcome | None = None
        trimmer = OverlapTrimmer(call.after) if call.after else None
        spec = running.spec
        caller = Caller(self._number, spec.id, spec.kind, spec.about, replaceable=call.replaceable)
        try:
            with (
                allowed(reservation, caller),
                recorded(backend.name, spec, call.attempt, prompt) as record,
                CallTimer(meter_of(backend), sum(len(message.content) for message in prompt.messages)) as timed,
            ):
                async with backend.stream(prompt, options) as chunks:
                    try:
                        written = _written_calls(running, call)
                        try:
                            outcome = await self._read(
                                running,
                                chunks,
                                Ends(prompt.n),
                                reservation,
                                record,
                                timed=timed,
                                trimmer=trimmer,
                                written=written,
                            )
                            record.finish_reason = None if outcome is None else outcome.reason
                        finally:  # what is held back when a stream breaks or time runs out is not lost
                            if written is not None and (rest := written.release()):
                                running.write(fix_surrogates(rest), time.perf_counter() - self._began)
                        if written is not None and not running.calls and (warning := written.warning(running.text)):
                            self._warn_once(warning, "tool", part=spec.id)
                    except Exception as error:  # noqa: BLE001 - raised below: a task group of the backend would wrap it
                        failure = error
                if failure is not None:
                    raise failure
                if outcome is None:
                    advice = "Ask again; a complete stream ends with a Chunk that carries finish_reason."
                    raise broken_off(backend.name, advice)
        finally:
            if trimmer is not None:
                running.writers[-1].left_out += trimmer.left_out
            ledger.settle(reservation)
        if outcome.reason == "length" and most is not None and most != room:
            return Outcome("budget")  # the budget left less than the call would have had
        return outcome

    async def _read(
        self,
        running: RunningBranch,
        chunks: AsyncIterator[Chunk],
        ends: Ends,
        reservation: Reservation,
        record: CallRecord,
        *,
        timed: CallTimer,
        trimmer: OverlapTrimmer | None,
        written: WrittenCalls | None,
    ) -> Outcome | None:
        """Read a stream into its branch; return how it ended, or ``None`` if it broke off."""
        reason: FinishReason | None = None
        mending = Mending()
        watch = running.spec.watch() if running.spec.watch is not None else None
        thoughts: tuple[Mapping[str, Any], ...] = ()
        while (chunk := await ends.next(chunks)) is not None:
            if wrong := what_is_wrong(chunk):
                raise BackendError(f"{record.backend} yielded a chunk whose {wrong}.", backend=record.backend)
            record.add(chunk)
            timed.add_chunk(chunk)
            self._note(running, chunk, reservation)
            if chunk.choice:
                await self._take_further(running.further(chunk.choice), chunk)
                continue
            thoughts += chunk.thoughts
            if chunk.text or chunk.finish_reason:
                running.writers[-1].unanswered = None
            if chunk.is_answer:
                await self._report_thoughts(running, thoughts, refused=chunk.refused)
                thoughts = ()
            running.logprobs += map(_mended, chunk.logprobs)
            goes_on = chunk.finish_reason is None
            chunk = chunk if written is None else _with_calls(chunk, written)
            new = mending.feed(chunk.text)
            if text := _watched(watch, new if trimmer is None else trimmer.feed(new)):
                if not await self._take(running, text):
                    return Outcome("length", limit="buffer")
                await checkpoint()  # lets the reader of this branch run before the next chunk
            _check(watch)
            await self._take_calls(running, chunk)
            reason, running.metadata.stop_text = (
                chunk.finish_reason or reason,
                chunk.stop_text or running.metadata.stop_text,
            )
            if goes_on and reason is not None:  # calls were made, and only white space follows
                break
        if reason is not None:
            running.hand_over(ended=True)
        if reason == "tool_calls" and not running.spec.standalone:
            reason = "stop"
        last = mending.finish()
        if text := _watched(watch, last if trimmer is None else trimmer.feed(last) + trimmer.finish(), whole=True):
            await self._take(running, text)
        _check(watch)
        if running.text.strip() or running.calls or running.spec.allow_empty or reason == "length":
            await self._report_thoughts(running, thoughts)
        return None if reason is None else Outcome(reason)

    def _note(self, running: RunningBranch, chunk: Chunk, reservation: Reservation) -> None:
        """Store what a chunk carries besides the answer."""
        if chunk.usage:
            self.count(running, chunk.usage, reservation)
        if chunk.decoding:
            running.metadata.decoding = (running.metadata.decoding or DecodingStats()) + chunk.decoding
        if chunk.unheld:
            running.metadata.unheld = chunk.unheld
        if chunk.extra:
            running.metadata.extra |= mended(chunk.extra)
        if chunk.stages:
            running.progress.stages = _since(chunk.stages, self._began)
        for warning in chunk.warnings:
            self._warn_once(warning)

    async def _report_thoughts(
        self, running: RunningBranch, thoughts: Sequence[Mapping[str, Any]], *, refused: bool = False
    ) -> None:
        """Report the reasoning that precedes the next text, and whether that text is a refusal."""
        running.metadata.thoughts += tuple(thoughts)
        if not running.spec.standalone:
            running.metadata.refused = running.metadata.refused or refused
            return
        for thought in thoughts if not running.spec.choice else ():
            await self._announce(ThoughtFinished(thought=thought))
        if refused and not running.metadata.refused:
            running.metadata.refused = True
            await self._announce(RefusalStarted(choice=running.spec.choice))

    async def _take(self, running: RunningBranch, text: str) -> bool:
        """Take new text of a branch; return False once its buffer is full."""
        fits = running.write(text, time.perf_counter() - self._began)
        new = running.new_logprobs()
        await self._announce(BranchDelta(branch_id=running.spec.id, text=text, logprobs=new))
        if running.spec.choice:
            await self._announce(ChoiceDelta(choice=running.spec.choice, text=text, logprobs=new))
        return fits

    async def _take_calls(self, running: RunningBranch, chunk: Chunk) -> None:
        """Pass on the tool calls of a standalone branch, once the text before them has been read."""
        if running.spec.standalone:
            for delta in chunk.tool_calls:
                await running.caught_up()
                if running.spec.on_call is None:
                    await self._report_call(running.calls, delta, running.spec.choice)
                else:
                    running.take_call(delta)
        elif chunk.tool_calls:
            self._warn_once(
                f"{running.writers[-1].backend.name} called tools in a part of the answer; the calls were left out.",
                "tool",
            )

    async def _take_further(self, further: FurtherChoice, chunk: Chunk) -> None:
        """Store what belongs to a further answer of the same call."""
        further.logprobs += map(_mended, chunk.logprobs)
        if chunk.refused and not further.refused:
            further.refused = True
            await self._announce(RefusalStarted(choice=chunk.choice))
        text = further.mending.feed(chunk.text)
        if chunk.finish_reason:
            further.finish_reason = chunk.finish_reason
            text += further.mending.finish()
        if text:
            further.pieces.append(text)
            new = further.new_logprobs()
            await self._announce(ChoiceDelta(choice=chunk.choice, text=text, logprobs=new))
        for delta in chunk.tool_calls:
            await self._report_call(further.calls, delta, chunk.choice)

    async def _report_call(self, calls: ToolCallsSoFar, delta: ToolCallFragment, choice: int) -> None:
        await self._announce(ToolCallDelta(choice=choice, delta=calls.add(delta)))

    def count(self, running: RunningBranch, usage: Usage, reservation: Reservation | None = None) -> None:
        writing = running.writers[-1]
        if usage.calls:
            if not usage.total_tokens and running.text:  # a stream that broke off did not report it
                usage += Usage(prompt_tokens=writing.unreported, completion_tokens=self._unreported_text(running))
            writing.unreported = 0
        writing.usage += usage
        self._ledger_of(running).add(usage, reservation)

    def _ledger_of(self, running: RunningBranch) -> Ledger:
        return running.spec.ledger or self._ledger

    def estimate(self, running: RunningBranch) -> None:
        """Estimate the usage of a call that was cut short, and so never reported, from what was sent and received."""
        if running.writers and (unreported := running.writers[-1].unreported):
            written = self._unreported_text(running)
            self.count(running, Usage(prompt_tokens=unreported, completion_tokens=written, calls=1))

    @staticmethod
    def _unreported_text(running: RunningBranch) -> int:
        """Return the estimated tokens of the text that no reported usage covers."""
        left_out = sum(each.left_out for each in running.writers)
        return max(0, typical_tokens(len(running.text) + left_out) - running.usage.completion_tokens)

    def settle(self, running: RunningBranch) -> None:
        """Settle the usage of an ended branch; what was not reported is estimated."""
        self.estimate(running)
        if running.discarded:
            running.discard_usage()


def _written_calls(running: RunningBranch, call: BranchCall) -> WrittenCalls | None:
    """Return the detector of calls in the text of an answer, if its model is allowed any."""
    prompt, constrained = call.prompt, call.options.response_format is not None
    may_call = prompt.tools and prompt.tool_choice != "none" and running.spec.standalone
    if constrained or prompt.n > 1 or call.after or not may_call:
        return None
    return WrittenCalls(prompt.tools, demanded=prompt.tool_choice not in (None, "auto"))


def _with_calls(chunk: Chunk, written: WrittenCalls) -> Chunk:
    """Return a chunk with the text that is certain not to be a call, and with the calls that were recognised."""
    text = written.feed(chunk.text)
    cut = chunk.finish_reason != "stop"
    may_be = written.only_blanks_follow if chunk.finish_reason is None else chunk.finish_reason in ("stop", "length")
    if may_be and (calls := written.finish(cut=cut)):
        return replace(chunk, text=text, tool_calls=calls, finish_reason="tool_calls")
    if chunk.finish_reason or chunk.tool_calls:
        text += written.release()
    return replace(chunk, text=text) if text != chunk.text else chunk


def _watched(watch: TextWatch | None, text: str, *, whole: bool = False) -> str:
    """Return what a watch passes on of new text; ``whole``: it is the last."""
    if watch is None:
        return text
    return watch.feed(text) + (watch.finish() if whole else "")


def _check(watch: TextWatch | None) -> None:
    """Raise `LowQualityTextError` if the watch ends the text because it is spoiled from here on."""
    if watch is not None and watch.fault:
        raise LowQualityTextError(watch.fault)


def _mended(score: TokenLogprob) -> TokenLogprob:
    top = tuple((fix_surrogates(token), logprob) for token, logprob in score.top)
    return TokenLogprob(token=fix_surrogates(score.token), logprob=score.logprob, top=top)


def _since(stages: Stages, began: float) -> Stages:
    """Return the stages in seconds since the request arrived."""
    return Stages(**{name: None if at is None else at - began for name, at in asdict(stages).items()})


def estimate(prompt: ModelRequest) -> int:
    """Estimate the tokens of a prompt, which are reserved in the budget until they are reported."""
    return sum(typical_tokens(len(message.content)) for message in prompt.messages)


_REASONS = (None, *get_args(FinishReason))


def what_is_wrong(chunk: Chunk) -> str | None:
    """Return the first unusable field with the type of its value; ``None`` if all are usable."""
    given: Mapping[str, tuple[Any, type | tuple[type, ...]]] = {
        "text": (chunk.text, str),
        "usage": (chunk.usage, (Usage, type(None))),
        "decoding": (chunk.decoding, (DecodingStats, type(None))),
        "logprobs": (chunk.logprobs, tuple),
        "warnings": (chunk.warnings, tuple),
        "stages": (chunk.stages, (Stages, type(None))),
        "tool_calls": (chunk.tool_calls, tuple),
        "thoughts": (chunk.thoughts, tuple),
        "refused": (chunk.refused, bool),
        "held": (chunk.held, bool),
        "stop_text": (chunk.stop_text, (str, type(None))),
        "unheld": (chunk.unheld, tuple),
        "choice": (chunk.choice, int),
        "extra": (chunk.extra, Mapping),
    }
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            return f"{name} is a {type(value).__name__}"
    if not all(isinstance(each, TokenLogprob) for each in chunk.logprobs):
        return "logprobs are no TokenLogprob"
    for name, texts in (("warnings", chunk.warnings), ("unheld", chunk.unheld)):
        if not all(isinstance(each, str) for each in texts):
            return f"{name} are no strings"
    if not all(isinstance(each, ToolCallFragment) for each in chunk.tool_calls):
        return "tool_calls are no ToolCallFragment"
    if chunk.finish_reason not in _REASONS:
        return f"finish_reason is {chunk.finish_reason!r}"
    return None
