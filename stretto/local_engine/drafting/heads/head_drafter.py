"""Drafter that grows a tree of a head's candidates, as far as that pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from stretto.local_engine.choosing.sampling import best_tokens
from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.drafting.heads.account import Account
from stretto.local_engine.drafting.heads.group import DrafterGroup, Growing
from stretto.local_engine.drafting.heads.head import Head
from stretto.local_engine.drafting.heads.head_method import HeadOptions
from stretto.local_engine.drafting.protocol import DraftContext, Drafter, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost

_NO_DRAFT = DraftTree()
_FIRST, _NEXT = 0.6, 0.3  # initial claim of the first candidate for a sampled token, and the factor of each next one


class HeadDrafter:
    """Drafts with a head of any kind.

    The tree grows by depth: the nodes most likely to survive get the head's candidates as children. A node's survival
    is the head's claim, corrected by how often such claims came true. The tree ends where following it further would
    cost more time than it saves (see `Account.goes_deeper`), and only the nodes that save time are evaluated
    (see `divide`). While drafts gain nothing, it rests.

    A sampled request draws the candidates with the random numbers of their positions, as `DraftModel` does, so a
    seed gives the same answer under every method.

    Args:
        head: head of the model.
        cost: cost of a step.
        accounts: statistics of sampled and of greedy requests, which are updated.
        options: bounds of the tree.
        group: the drafters of the head, which draft together.
        paths: maximum number of nodes of one depth that are followed.
    """

    name = "head"
    wants_top = 0

    def __init__(
        self,
        head: Head,
        cost: StepCost,
        accounts: tuple[Account, Account],
        options: HeadOptions,
        group: DrafterGroup,
        *,
        paths: int,
    ) -> None:
        self.wants_states = head.layers
        self.reader = head.reader()
        self._words, self._group = head.words, group
        self._numbers = None if head.words is None else head.words.cpu().numpy()
        self._cost, self._accounts = cost, accounts
        self._length = options.length if head.foresees is None else min(options.length, head.foresees)
        self._width, self._paths = options.width, paths
        self._draft: DraftTree | None = None
        self._kinds: list[tuple[int, int]] = []  # depth and rank of each node
        self._claims: list[float] = []  # of each node, given that its parent is right
        self._followed: set[int] = set()  # nodes whose candidates were computed
        self._took_ms = 0.0
        self._unread = 1  # steps since the head ran, and one for the prompt
        self._context: DraftContext | None = None
        self._asked = self._was_asked = False  # in this step, and in the last one

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        self._asked = True
        if rows < 1:
            return _NO_DRAFT
        if self._draft is None:
            self._context = context
            self._group.draft(self)
        return self._draft or _NO_DRAFT

    @property
    def waits(self) -> bool:
        """Whether it will probably be asked for a draft in this step, because it was in the last one."""
        return self._draft is None and self._was_asked

    def begin(self) -> Growing | None:
        """Begin the draft of this step; ``None`` if there is none."""
        context = self._context
        assert context is not None  # noqa: S101 - for the type checker: it has learned of the prompt
        account = self._accounts[context.greedy]
        self._draft = DraftTree(step_cost=self._cost)
        return None if account.rests(self._cost) else self._growing(self._draft, context, account)

    def expects(self, context: DraftContext) -> float:
        """Return how many tokens its recent drafts have brought; see `Account.brought`."""
        return self._accounts[context.greedy].brought

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        draft = self._draft
        self.read_on(context, outcome)
        if draft:
            self._judge(draft, outcome, self._accounts[context.greedy])

    def read_on(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """Read the tokens that a step has committed, whoever drafted them."""
        accepted = [outcome.rows[node] for node in outcome.accepted]
        states = outcome.states[[0, *accepted]]
        tokens: Sequence[int] = outcome.path
        if outcome.prompt_states is not None:
            states = torch.cat((outcome.prompt_states, states))
            tokens = context.tokens[-len(states) :]
        if self._context is None:  # not in `__init__`, which another thread may call to check for a head
            self._group.join(self)
            self.reader.begins = len(context.tokens) - 1 - len(states)
        self._draft, self._context = None, context
        self._was_asked, self._asked = self._asked, False
        self._unread += 1
        self.reader.read(tokens, states)

    def _growing(self, tree: DraftTree, context: DraftContext, account: Account) -> Growing:
        logits, took_ms = yield None
        account.note_begin(took_ms, behind=self._unread > 1)  # the first draft after a prompt or a rest does not count
        self._took_ms, self._unread = account.begin_ms, 0
        self._kinds, self._claims, self._followed = [], [], set()
        numbers: dict[int, int] = {}  # the head's numbers of the nodes that it has followed
        paths: dict[int, list[int]] = {ROOT: []}  # tokens up to each of these nodes
        level = [ROOT]
        for depth in range(1, self._length + 1):
            if logits is None:
                break
            began = self._group.clock()
            found = self._candidates(logits, [paths[node] for node in level], context)
            self._followed.update(level)
            new = []
            for parent, own in zip(level, found, strict=True):
                above = 1.0 if parent == ROOT else tree.survival[parent]
                for rank, (token, claim) in enumerate(own):
                    self._kinds.append((depth, rank))
                    self._claims.append(claim)
                    likely = above * account.guesses.estimate(self._kinds[-1], claim)
                    node = tree.add(token, parent, likely, source=self.name)
                    if token not in context.ends:
                        new.append(node)
            level = sorted(new, key=lambda node: -tree.survival[node])[: self._paths]
            survival = [tree.survival[node] for node in level]
            self._took_ms += 1e3 * (self._group.clock() - began)
            if not level or depth == self._length:
                break
            if not account.goes_deeper(tree.survival, survival, depth, self._took_ms, self._cost):
                break
            for node in level:
                paths[node] = [*paths[tree.parents[node]], tree.tokens[node]]
            parents = [numbers.get(tree.parents[node], -1) for node in level]
            logits, took_ms = yield [tree.tokens[node] for node in level], parents
            self._took_ms += took_ms
            account.note_level(took_ms)
            numbers |= {node: len(numbers) + place for place, node in enumerate(level)}

    def _candidates(
        self, logits: Tensor, paths: Sequence[list[int]], context: DraftContext
    ) -> list[list[tuple[int, float]]]:
        """Return the best candidates after each path, and the head's claimed probability of each.

        ``logits``: # [paths, words]
        """
        if not (context.greedy or context.rank is None):
            return [self._ranked(own, path, context) for own, path in zip(logits, paths, strict=True)]
        places, chances = best_tokens(logits[None], [len(logits)], min(self._width, logits.shape[-1]))
        tokens = places if self._numbers is None else self._numbers[places]
        claims: list[list[float]] = chances.tolist()
        for own, sure in zip(claims, self.reader.sure or (), strict=False):
            own[0] = sure
        return [
            [(token, claim) for token, claim in zip(*pair, strict=True) if token < context.vocabulary]
            for pair in zip(tokens.tolist(), claims, strict=True)
        ]

    def _ranked(self, logits: Tensor, path: list[int], context: DraftContext) -> list[tuple[int, float]]:
        """Return the candidates as the request's sampler ranks them; none if it cannot follow the path."""
        assert context.rank is not None  # noqa: S101 - for the type checker
        whole = logits.new_full((context.vocabulary,), -torch.inf, dtype=torch.float32)
        if self._words is None:
            whole[: len(logits)] = logits[: len(whole)]
        else:
            whole[self._words] = logits.float()
        try:
            ranked = context.rank(whole, path, self._width)
        except Exception:  # noqa: BLE001 - the answer's format forbids the path, so the draft ends there
            return []
        known = whole[ranked].isfinite().tolist()
        return [
            (token, _FIRST * _NEXT**place) for place, (token, own) in enumerate(zip(ranked, known, strict=True)) if own
        ]

    def _judge(self, draft: DraftTree, outcome: DraftOutcome, account: Account) -> None:
        """Learn how often candidates were right, and what the draft has gained."""
        chosen = dict(zip((ROOT, *outcome.accepted), outcome.path, strict=False))  # the token after each node reached
        right = dict.fromkeys(self._followed & chosen.keys(), False)
        for node, parent in enumerate(draft.parents):
            if parent in chosen:
                hit = draft.tokens[node] == chosen[parent]
                account.guesses.record(self._kinds[node], self._claims[node], hit)
                if parent in right:
                    right[parent] |= hit
        for node, hit in right.items():
            account.note_rate(1 if node == ROOT else self._kinds[node][0] + 1, hit)
        evaluated = [draft.survival[node] for node, row in enumerate(outcome.rows) if row >= 0]
        account.note_gain(len(outcome.accepted), evaluated, self._took_ms, self._cost)


class DrafterThenHead:
    """Asks another drafter first, whose drafts cost next to nothing, and the head if it is expected to bring more.

    The survival of both is calibrated, so its sum over a draft's nodes is the expected number of accepted tokens. For
    the head it is known only after drafting, so the average of its recent drafts is used instead.

    Args:
        drafter: the other drafter, such as `Auto`.
        head: drafts when the other one has less to offer.
    """

    wants_top = 0

    def __init__(self, drafter: Drafter, head: HeadDrafter) -> None:
        self.name = drafter.name
        self.wants_states = head.wants_states
        self._other, self._head = drafter, head
        self._found_nothing = False  # the other one
        self._chosen: Drafter | None = None

    def propose(self, context: DraftContext, rows: int) -> DraftTree:
        draft = self._other.propose(context, rows)
        self._chosen, self._found_nothing = self._other, not len(draft)
        if sum(draft.survival) < self._head.expects(context):
            from_head = self._head.propose(context, rows)
            if len(from_head):
                draft, self._chosen = from_head, self._head
        return draft

    def learn(self, context: DraftContext, outcome: DraftOutcome) -> None:
        """See `Drafter`. The other drafter learns nothing from a step in which the head was preferred to it."""
        if self._chosen is self._head:
            self._head.learn(context, outcome)
            if self._found_nothing:
                self._other.learn(context, replace(outcome, rows=(), accepted=()))
        else:
            self._head.read_on(context, outcome)
            self._other.learn(context, outcome)
        self._chosen = None
