"""Refinement of one request's blocks: what the next forward evaluates, and how its result is used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.local_engine.research.block_diffusion.unmasking import Proposal, UnmaskingPolicy


@dataclass(slots=True)
class Plan:
    """The rows of one forward for one request.

    Attributes:
        tokens: token of each row.
        positions: position of each row, in any order.
        sees: number of positions, from the first one on, that each row sees.
        targets: positions for which a token is proposed; the last rows predict them, one row each.
        end: the slot after everything that is seen.
    """

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    sees: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    end: int = 0


class Denoising:
    """Refines the blocks of one request's answer, from left to right.

    In a model whose rows see no further than their block, a finished block is evaluated once more, so that its keys and
    values are those of its tokens. That takes no separate forward: the first forward of the next block evaluates both.
    With shifted logits, the finished block's last row then predicts the next block's first token, which is kept; a
    model whose form is not `joined` evaluates the finished block alone.

    With a rule that revises, a model whose rows see everything writes the whole answer as one block. Its first forward
    predicts the length: of the end tokens at the end, all but the first are left out.

    Args:
        prompt: tokens of the prompt.
        length: maximum number of tokens of the answer.
        form: how the model writes.
        rule: chooses which proposed tokens are kept.
        ends: tokens that end the answer.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        length: int,
        form: BlockForm,
        rule: UnmaskingPolicy,
        ends: frozenset[int] = frozenset(),
    ) -> None:
        self.rule = rule
        self._form = form
        self._whole, self._ends = form.sight == "everything", ends
        self._block = rule.block or (length if rule.revises and self._whole else form.block)
        self.text = list(prompt)
        """Prompt and answer, as far as it is final."""
        filled = 0 if self._whole else len(prompt) % self._block
        self._start = len(prompt) - filled  # of the block
        more = length if self._whole else self._block - filled
        self._tokens = [*prompt, *[form.mask] * more]  # as far as rows can see
        self.cached = 0 if self._whole else self._start
        """Number of positions, from the first one on, whose keys and values are final."""
        self._confidence: dict[int, float] = {}  # of proposed tokens that are kept so far
        self._passes = self._masked = 0  # of the part that is being refined
        self._forwards = 0  # of the block

    def known_before(self, position: int) -> list[int]:
        """Return the known tokens between the final text and a position."""
        return [token for token in self._tokens[len(self.text) : position] if token != self._form.mask]

    @property
    def _stop(self) -> int:
        return min(self._start + self._block, len(self._tokens))

    def plan(self) -> Plan:
        """Return the rows of the next forward."""
        plan, form, pending = Plan(), self._form, self.cached < self._start and not self._whole
        shift = int(form.shifted)
        if pending and form.shifted and not form.joined:
            # The finished block's last row predicts this one's first token.
            rows, plan.targets = range(self.cached, self._start), [self._start]
        else:
            rows = range(self._first_row(shift), self._last_row())
            plan.targets = [at for at in range(self._start, self._part_end()) if self._tokens[at] == form.mask]
        sources = [target - shift for target in plan.targets]
        wanted = set(sources)
        plan.positions = [position for position in rows if position not in wanted] + sources
        plan.tokens = [self._tokens[position] for position in plan.positions]
        size = len(self._tokens)
        plan.sees = [size if self._whole else (each // self._block + 1) * self._block for each in plan.positions]
        plan.end = max(plan.sees)
        return plan

    def take(
        self, plan: Plan, tokens: Sequence[int], confidence: Sequence[float], entropy: Sequence[float]
    ) -> list[int]:
        """Keep some of the tokens that a forward has proposed for its targets; return those that are now final."""
        mask, rule, targets = self._form.mask, self.rule, plan.targets
        self.cached = 0 if self._whole else self._start  # what was pending is final
        if targets[0] == self._start and self._form.shifted and not self._whole:
            self._tokens[self._start] = tokens[0]
            targets, tokens, confidence, entropy = targets[1:], tokens[1:], confidence[1:], entropy[1:]
            if not targets:
                return self._settle()
        self._forwards += 1
        if not self._passes:
            if rule.revises and self._whole and targets[-1] + 1 == len(self._tokens):
                length = _length(tokens, self._ends)
                if length < len(targets):  # its end token must stay, or nothing would end the answer
                    confidence = [*confidence[: length - 1], math.inf]
                targets, tokens = targets[:length], tokens[:length]
                del self._tokens[targets[-1] + 1 :]
            self._masked = len(targets)
        standing = sorted(self._confidence) if rule.revises else []
        positions = sorted([*targets, *standing])
        proposed = dict(zip(targets, zip(tokens, confidence, strict=True), strict=True))
        sure = [proposed[place][1] if place in proposed else self._confidence[place] for place in positions]
        kept = {positions[number] for number in rule.keep(Proposal(sure, entropy, self._passes, self._masked))}
        for position in positions:
            if position not in kept:
                self._tokens[position] = mask
                self._confidence.pop(position, None)
            elif position in proposed:
                self._tokens[position], self._confidence[position] = proposed[position]
        self._passes += 1
        if not self._masks(self._part_end()):
            self._passes, self._confidence = 0, {}
        return self._settle()

    def begin(self, token: int) -> list[int]:
        """Set the first token of a block, which with shifted logits the prompt's last row predicts."""
        self._tokens[self._start] = token
        return self._settle()

    @property
    def wants_beginning(self) -> bool:
        """Whether the last row of the prompt, which ends with a whole block, predicts the first token; see `begin`."""
        return self._form.shifted and not self._whole and self._start == len(self.text)

    def _settle(self) -> list[int]:
        """Append the tokens that are now final, and continue with the next block if this one is finished."""
        mask, before, finished = self._form.mask, len(self.text), not self._masks(self._stop)
        if finished or not self.rule.revises:
            end = before
            while end < self._stop and self._tokens[end] != mask:
                end += 1
            self.text += self._tokens[before:end]
        if finished:
            self._start, self._forwards = self._stop, 0
            if not self._whole:
                self._tokens += [mask] * self._block
        return self.text[before:]

    def _part_end(self) -> int:
        """Return the end of the part of the block that is being refined: the first with a masked position before it."""
        size = self._form.part or self._block
        for end in range(self._start + size, self._stop, size):
            if self._masks(end):
                return end
        return self._stop

    def _masks(self, end: int) -> bool:
        """Return whether a position of the block before ``end`` is masked."""
        return self._form.mask in self._tokens[self._start : end]

    def _first_row(self, shift: int) -> int:
        if not self._whole:
            return self.cached
        return 0 if self.rule.cache == "none" or not self._forwards else max(0, self._start - shift)

    def _last_row(self) -> int:
        whole = self._whole and (self.rule.cache != "dual" or not self._forwards)
        return len(self._tokens) if whole else self._stop


def _length(tokens: Sequence[int], ends: frozenset[int]) -> int:
    """Return the number of tokens up to and including the first of the end tokens at the end."""
    length = len(tokens)
    while length > 1 and tokens[length - 1] in ends and tokens[length - 2] in ends:
        length -= 1
    return length
