"""Suffix decoding where it pays: as many rows as gain time, and a rest while drafts gain none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.calibration import MATCHES, Experience
from stretto.local_engine.drafting.prompt_lookup import PromptLookup
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome, DraftSource
from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.sources.grams import SIZE
from stretto.local_engine.drafting.sources.texts import Texts
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.drafting.suffix import Suffix

__all__ = ["Auto", "RepetitionWatch", "TextsWatch"]

_BACK = 32


class RepetitionWatch:
    """Remembers where each n-gram of a text ended last, and so finds matches of at least n tokens and their length.

    It costs one look into a dictionary for each token. A `SuffixAutomaton` finds shorter matches too.

    Args:
        size: tokens of an n-gram.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._ends: dict[tuple[int, ...], int] = {}
        self._read = size - 1
        self._followed = 0  # where the match ended when it occurred before
        self._length = 0

    def match(self, text: Sequence[int]) -> int:
        """How many tokens at the end of the text followed each other before; 0 where they are fewer than an n-gram.

        The text is the one given last time, or longer. Of several earlier occurrences the latest counts. More than 32
        tokens are counted only if the match grew token by token.
        """
        size, ends = self._size, self._ends
        for end in range(self._read + 1, len(text) + 1):
            gram = tuple(text[end - size : end])
            found = ends.get(gram)
            ends[gram] = end
            if found is None:
                self._length = 0
            else:
                follows = self._length and found == self._followed + 1
                self._length = self._length + 1 if follows else _common(text, found - size, end - size) + size
                self._followed = found
        self._read = max(self._read, len(text))
        return self._length


def _common(text: Sequence[int], one: int, other: int) -> int:
    """How many tokens before two positions are the same, ``other`` being the later position."""
    most = min(one, _BACK)
    return next((length for length in range(most) if text[one - length - 1] != text[other - length - 1]), most)


class TextsWatch:
    """Counts how many tokens at the end of a text occur, a few at a time, in other texts.

    Args:
        others: the other texts.
        reader: number of the text's own `DraftText` in these, whose words do not count.
    """

    def __init__(self, others: Sequence[Texts | FileTexts], reader: int) -> None:
        self._others = others
        self._reader = reader
        self._read = SIZE - 1
        self._length = 0

    def match(self, text: Sequence[int], start: int) -> int:
        """How many tokens at the end occur in the others, each with those before it; 0 where they are very few.

        The text is the one given last time, or longer; what stands before ``start`` is not looked at.
        """
        others, reader = self._others, self._reader
        for end in range(max(self._read + 1, start), len(text) + 1):
            if any(texts.grams.has(text, end, reader) for texts in others):
                self._length = self._length + 1 if self._length else SIZE
            else:
                self._length = 0
        self._read = max(self._read, len(text))
        return self._length


_CANDIDATES = 64
_BEYOND_SHARE = 4  # a request may ask for this many times its share: others may need less than theirs
_LONGEST, _DEEPEST = 7, 4  # of the kinds of guesses: octaves of the match, and depth
_KINDS = 16  # of the guesses of one source
_NO_DRAFT = DraftTree()


@dataclass(slots=True)
class _Part:
    """What one source has drafted.

    Attributes:
        name: of the source; empty for `Suffix`.
        tree: its draft.
        kinds: of each node's guess.
        claims: of each node, if its parent is right.
        nodes: of the whole draft, for each node.
    """

    name: str
    tree: DraftTree
    kinds: list[tuple[int, int]]
    claims: list[float]
    nodes: Sequence[int]


class Auto:
    """Drafts what `Suffix` and other sources find, by three rules.

    - Survival is calibrated: how often guesses of this kind came true (see `Calibration`), after a match of about this
      length, for instance.
    - Only those nodes are evaluated with which the batch makes the most expected tokens per millisecond (see `divide`;
      Liu et al., arXiv:2406.14066, TurboSpec). That may be none.
    - It rests where drafts do not pay. A cheap watch tells how long a stretch the text repeats at the moment, of itself
      or of other texts, each source where it stands, and `Experience.gains` what drafts have gained in such places.
      Where they gained nothing, the next look waits until looking takes a small share of the steps since (see
      `StepCost.patience`). While it rests, the automata are not read on. So text that nobody can foresee costs what
      `autoregressive` costs, plus one or two per cent. A batch rests by the same rule: a draft of which nothing was
      evaluated, since it would have slowed others down, has gained nothing.

    Args:
        cost: of a step, measured on this machine.
        others: texts outside of the request, for `Suffix`.
        files: the same that do not change.
        writing: number of the request's own text in these.
        beside: other sources.
        experience: of requests that were sampled and of those that were not, to go on learning from.
        source: of the guesses, in place of `Suffix`; for comparisons.
    """

    name = "auto"
    wants_top = 0

    def __init__(
        self,
        cost: StepCost,
        others: Sequence[Texts] = (),
        files: FileTexts | None = None,
        *,
        writing: int = 0,
        beside: Sequence[DraftSource] = (),
        experience: tuple[Experience, Experience] | None = None,
        source: Suffix | PromptLookup | None = None,
    ) -> None:
        self._cost = cost
        self._source = source or Suffix(others, files)
        self._beside = beside
        self._standings = [0] * len(beside)
        self._watch = RepetitionWatch(2)
        elsewhere: list[Texts | FileTexts] = [*others, *([] if files is None else [files])]
        self._others = TextsWatch(elsewhere, writing) if elsewhere else None
        self._experiences = experience or (Experience(), Experience())
        self._draft: DraftTree | None = None
        self._parts: list[_Part] = []
        self._where = 0  # the kind of place at which the last draft was looked for: a match, or a source's standing
        self._evaluated = 8  # nodes lately
        self._took_s = 0.0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        self._draft = None
        if self._rests(context):
            return _NO_DRAFT
        began = time.perf_counter()
        most = min(_BEYOND_SHARE * rows, _CANDIDATES, 2 * self._evaluated + 8)
        self._draft = self._drafted(context, most, self._experiences[context.greedy])
        self._draft.step_cost = self._cost
        self._took_s = time.perf_counter() - began
        return self._draft

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        draft, experience = self._draft, self._experiences[context.greedy]
        if draft is None:
            return  # the source reads on when it is asked again
        began = time.perf_counter()
        chosen = dict(zip((ROOT, *outcome.accepted), outcome.path, strict=False))  # the token behind each node reached
        for part in self._parts:
            nodes, tokens = part.nodes, part.tree.tokens
            for node, parent in enumerate(part.tree.parents):
                above = ROOT if parent == ROOT else nodes[parent]
                if above in chosen:
                    hit = tokens[node] == chosen[above]
                    experience.guesses.record(part.kinds[node], part.claims[node], hit)
        evaluated, expected = 0, 0.0
        for node, row in enumerate(outcome.rows):
            if row >= 0:
                evaluated += 1
                expected += draft.survival[node]
        self._evaluated = max(evaluated, (self._evaluated + evaluated) // 2)
        gain = min(self._cost.gain(evaluated, expected), 1.0)
        experience.gains.note(gain, self._cost.sequences, self._where)
        self._cost.drafted(1e3 * (self._took_s + time.perf_counter() - began))

    def _rests(self, context: DraftContext) -> bool:
        """Whether no draft is looked for in this step; in some texts these are nearly all steps, so it is short."""
        self._where = self._place(context)
        gains, cost = self._experiences[context.greedy].gains, self._cost
        return gains.rests(cost.sequences, cost.patience(), self._where)

    def _place(self, context: DraftContext) -> int:
        """What kind of place the text has come to; see `Experience.gains`."""
        match = self._watch.match(context.tokens)
        if self._others is not None:
            match = max(match, self._others.match(context.tokens, context.prompt_length))
        kind = min(max(match.bit_length() - 1, 0), MATCHES - 1)
        if not self._beside:
            return kind
        self._standings = [source.standing(context) for source in self._beside]
        standing = max(self._standings)
        return MATCHES - 1 + standing if standing > 1 or (standing and kind < 2) else kind

    def _drafted(self, context: DraftContext, most: int, experience: Experience) -> DraftTree:
        """What the sources draft together, its survival calibrated."""
        tree = self._source.propose(context, most)
        match = min(self._source.evidence.bit_length(), _LONGEST)
        self._parts = [_calibrated(tree, [match] * len(tree), experience)]
        for number, (source, standing) in enumerate(zip(self._beside, self._standings, strict=True), 1):
            if standing:
                tree = source.propose(context, most)
                kinds = [number * _KINDS + kind for kind in source.kinds]
                self._parts.append(_calibrated(tree, kinds, experience, source.name))
        self._parts = [part for part in self._parts if len(part.tree)]
        return self._parts[0].tree if len(self._parts) == 1 else _joined(self._parts)


def _calibrated(tree: DraftTree, kinds: Sequence[int], experience: Experience, name: str = "") -> _Part:
    """Replace the survival that a source claims by what experience makes of it.

    One of several siblings comes true at most, though each of them may have been surer than it claimed.
    """
    both, claims, survival = list[tuple[int, int]](), list[float](), [*tree.survival]
    left = dict.fromkeys(tree.parents, 1.0)
    for node, parent in enumerate(tree.parents):
        root = parent == ROOT
        claim = tree.survival[node] if root else tree.survival[node] / tree.survival[parent]
        kind = kinds[node], 1 if root else min(both[parent][1] + 1, _DEEPEST)
        estimate = min(experience.guesses.estimate(kind, claim), left[parent])
        left[parent] -= estimate
        survival[node] = (1.0 if root else survival[parent]) * estimate
        both.append(kind)
        claims.append(claim)
    tree.survival, tree.sources = survival, [name] * len(tree)
    return _Part(name, tree, both, claims, range(len(tree)))


def _joined(parts: Sequence[_Part]) -> DraftTree:
    """One tree of all nodes; where two sources have the same one, the more certain of them counts."""
    joined = DraftTree()
    for part in parts:
        nodes = part.nodes = list[int]()
        for token, parent, survival in zip(part.tree.tokens, part.tree.parents, part.tree.survival, strict=True):
            above = ROOT if parent == ROOT else nodes[parent]
            nodes.append(joined.add(token, above, survival, source=part.name))
    return joined
