"""Suffix decoding where it pays: as many rows as save time, and a rest while drafts save none."""

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

_BACK = 32


class RepetitionWatch:
    """Finds matches of at least n tokens and their length, by remembering where each n-gram of a text last ended.

    It costs one dictionary look-up per token. A `SuffixAutomaton` finds shorter matches too.

    Args:
        size: n, number of tokens of an n-gram.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._ends: dict[tuple[int, ...], int] = {}
        self._read = size - 1
        self._followed = 0  # where the earlier occurrence of the match ended
        self._length = 0

    def match(self, text: Sequence[int]) -> int:
        """Return how many tokens at the end of the text occurred in a row before; 0 if fewer than an n-gram.

        The text is that of the last call, or longer. Of multiple earlier occurrences the latest counts. More than 32
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
    """Return how many tokens before two positions agree, ``other`` being the later position."""
    most = min(one, _BACK)
    return next((length for length in range(most) if text[one - length - 1] != text[other - length - 1]), most)


class TextsWatch:
    """Counts how many tokens at the end of a text occur, as short n-grams, in other texts.

    Args:
        others: the other texts.
        reader: number of the text's own `DraftText` in these, which does not count.
    """

    def __init__(self, others: Sequence[Texts | FileTexts], reader: int) -> None:
        self._others = others
        self._reader = reader
        self._read = SIZE - 1
        self._length = 0

    def match(self, text: Sequence[int], start: int) -> int:
        """Return how many tokens at the end occur in the others, each with those before it; 0 if very few.

        The text is that of the last call, or longer; what comes before ``start`` is ignored.
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
_BEYOND_SHARE = 4  # a request can ask for this many times its share: others may need less than theirs
_LONGEST, _DEEPEST = 7, 4  # highest octave of the match, and greatest depth, that are distinct kinds of guesses
_KINDS = 16  # number of kinds of guesses of one source
_NO_DRAFT = DraftTree()


@dataclass(slots=True)
class _Part:
    """Draft of one source.

    Attributes:
        name: name of the source; empty for `Suffix`.
        tree: its draft.
        kinds: kind of each node's guess.
        claims: claimed probability of each node, given that its parent is right.
        nodes: for each node, its index in the whole draft.
    """

    name: str
    tree: DraftTree
    kinds: list[tuple[int, int]]
    claims: list[float]
    nodes: Sequence[int]


class Auto:
    """Drafts from `Suffix` and other sources, by three rules.

    - Survival is calibrated by how often guesses of the same kind came true (see `Calibration`), for instance those
      after a match of about the same length.
    - Only the nodes that give the batch the most expected tokens per millisecond are evaluated (see `divide`;
      Liu et al., arXiv:2406.14066, TurboSpec). That can be none.
    - It rests where drafts do not pay. A cheap watch measures how long a stretch of itself or of other texts the text
      currently repeats, each source reports how much it has to draft, and `Experience.gains` has what drafts gained in
      such places. If they gained nothing, the next attempt waits until attempts take a small share of the steps since
      (see `StepCost.patience`). While it rests, the automata are not updated. So unpredictable text costs what
      `autoregressive` costs, plus one or two per cent. A batch rests by the same rule: a draft of which nothing was
      evaluated, because it would have slowed others down, has gained nothing.

    Args:
        cost: cost of a step, measured on this machine.
        others: texts outside of the request, for `Suffix`.
        files: further such texts, which do not change.
        writing: number of the request's own text among the others.
        extra_sources: other sources.
        experience: experience of sampled and of greedy requests, which is updated.
        source: source of the guesses instead of `Suffix`; for comparisons.
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
        extra_sources: Sequence[DraftSource] = (),
        experience: tuple[Experience, Experience] | None = None,
        source: Suffix | PromptLookup | None = None,
    ) -> None:
        self._cost = cost
        self._source = source or Suffix(others, files)
        self._extra_sources = extra_sources
        self._standings = [0] * len(extra_sources)
        self._watch = RepetitionWatch(2)
        elsewhere: list[Texts | FileTexts] = [*others, *([] if files is None else [files])]
        self._others = TextsWatch(elsewhere, writing) if elsewhere else None
        self._experiences = experience or (Experience(), Experience())
        self._draft: DraftTree | None = None
        self._parts: list[_Part] = []
        self._where = 0  # kind of place of the last draft: a match, or a source's standing
        self._evaluated = 8  # recent number of evaluated nodes
        self._took_s = 0.0

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        experience, cost = self._experiences[context.greedy], self._cost
        self._draft, self._where = None, self._place(context)
        if experience.gains.rests(cost.sequences, cost.patience(), self._where):
            return _NO_DRAFT  # what comes before is fast, because some texts skip nearly all steps
        began = time.perf_counter()
        most = min(_BEYOND_SHARE * rows, _CANDIDATES, 2 * self._evaluated + 8)
        self._draft = self._drafted(context, most, experience)
        self._draft.step_cost = cost
        self._took_s = time.perf_counter() - began
        return self._draft

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        draft, experience = self._draft, self._experiences[context.greedy]
        if draft is None:
            return  # the source catches up when it is asked again
        began = time.perf_counter()
        chosen = dict(zip((ROOT, *outcome.accepted), outcome.path, strict=False))  # the token after each node reached
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

    def _place(self, context: DraftContext) -> int:
        """Return the kind of place that the text has reached; see `Experience.gains`."""
        match = self._watch.match(context.tokens)
        if self._others is not None:
            match = max(match, self._others.match(context.tokens, context.prompt_length))
        kind = min(max(match.bit_length() - 1, 0), MATCHES - 1)
        if not self._extra_sources:
            return kind
        self._standings = [source.standing(context) for source in self._extra_sources]
        standing = max(self._standings)
        return MATCHES - 1 + standing if standing > 1 or (standing and kind < 2) else kind

    def _drafted(self, context: DraftContext, most: int, experience: Experience) -> DraftTree:
        """Return the combined draft of the sources, with calibrated survival."""
        tree = self._source.propose(context, most)
        match = min(self._source.evidence.bit_length(), _LONGEST)
        self._parts = [_calibrated(tree, [match] * len(tree), experience)]
        for number, (source, standing) in enumerate(zip(self._extra_sources, self._standings, strict=True), 1):
            if standing:
                tree = source.propose(context, most)
                kinds = [number * _KINDS + kind for kind in source.kinds]
                self._parts.append(_calibrated(tree, kinds, experience, source.name))
        self._parts = [part for part in self._parts if len(part.tree)]
        return self._parts[0].tree if len(self._parts) == 1 else _joined(self._parts)


def _calibrated(tree: DraftTree, kinds: Sequence[int], experience: Experience, name: str = "") -> _Part:
    """Correct by experience the survival that a source claims.

    At most one sibling can come true, so the estimates of siblings are limited to a sum of 1.
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
    """Merge the parts into one tree; if two sources have the same node, the more certain one counts."""
    joined = DraftTree()
    for part in parts:
        nodes = part.nodes = list[int]()
        for token, parent, survival in zip(part.tree.tokens, part.tree.parents, part.tree.survival, strict=True):
            above = ROOT if parent == ROOT else nodes[parent]
            nodes.append(joined.add(token, above, survival, source=part.name))
    return joined
