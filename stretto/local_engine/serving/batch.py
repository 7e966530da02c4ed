"""The loop of every decoding method: draft, one forward, verify, commit."""

from __future__ import annotations

import time
from collections.abc import Sequence as Indices
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.choosing.constraint import Constraint
from stretto.local_engine.choosing.logprobs import score
from stretto.local_engine.choosing.sampling import Sampler, best_tokens
from stretto.local_engine.choosing.verify import Verdict, verify
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.autoregressive import Autoregressive
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.protocol import Context, Drafter, Outcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.cache import KeyValueCache, Rows, Source
from stretto.local_engine.model.flatten import flatten
from stretto.local_engine.model.forward import Forward
from stretto.local_engine.model.prefixes import PrefixCache, best_source
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence

__all__ = ["Batch"]

_NOTHING = DraftTree()
_READ_AT_ONCE = 512


@dataclass(slots=True)
class _Member:
    """One sequence of the batch: who drafts for it, how it chooses, what it has said."""

    sequence: Sequence
    drafter: Drafter
    sampler: Sampler
    context: Context
    draft: DraftTree  # as it is evaluated in this step
    places: Indices[int]  # for each node that the drafter proposed, its node there, or -1


class Batch:
    """Some requests decoded together, one forward per call of `advance`.

    Each step, each sequence's drafter proposes a tree; one forward scores all trees; what verification accepts is
    committed, together with one token of the model's own. Autoregressive decoding is the empty draft. Requests
    join and leave between two steps.

    Args:
        forward: runs the model.
        device: where the model is.
        draft_rows: nodes of all drafts together that one forward evaluates at most.
        cost: of a step; it is told how many sequences share the next, and what that took.
    """

    def __init__(
        self,
        forward: Forward,
        device: torch.device,
        *,
        draft_rows: int = 64,
        cost: StepCost | None = None,
    ) -> None:
        self._cost = cost
        self._forward = forward
        self._packed = bool(getattr(forward, "packs", False))
        self._chains = bool(getattr(forward, "alone", False))
        self._switch: int | None = getattr(forward, "switch", None)
        self._device = device
        self._draft_rows = draft_rows
        self._members: list[_Member] = []
        self._cache = KeyValueCache(0)
        self._kept = torch.empty(0, dtype=torch.long)  # all rows of a forward, 0 to the last # [rows]

    def __len__(self) -> int:
        return len(self._members)

    @property
    def slots(self) -> int:
        """Of keys and values, allocated over all sequences."""
        return self._cache.slots

    def join(self, prefill: Prefill, drafters: Indices[Drafter]) -> list[list[int]]:
        """Take over requests whose prompts are read; the first token of each."""
        logits = prefill.logits[:, None]  # [batch, 1, vocabulary]
        joining = [
            self._member(sequence, drafter, logits.shape[-1])
            for sequence, drafter in zip(prefill.sequences, drafters, strict=True)
        ]
        self._cache.join(prefill.cache)
        self._members += joining
        return self._commit(joining, logits, step=False)

    def known(self, prompt: NDArray[np.int64]) -> Source | None:
        """Where most of the tokens that a prompt begins with are known."""
        return best_source(prompt, self._cache, [member.context.tokens for member in self._members], self._switch)

    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Keep what is known of one sequence for later prompts. Its last token was never read."""
        prefixes.keep(self._members[row].context.tokens[:-1], self._cache, row)

    def advance(self) -> list[list[int]]:
        """Run one step; the tokens it commits to each sequence, at least one."""
        members, cost, began = self._members, self._cost, time.perf_counter()
        if cost is not None:
            cost.begin(len(members))
        for number, member in enumerate(members):
            if len(member.context.tokens) - 1 == self._switch:
                self._read_anew(number, member.context.tokens[:-1])
        self._draft(members)
        rows = flatten(
            [member.context.tokens for member in members], [member.draft for member in members], self._device
        )
        count = rows.tokens.shape[1]
        if count > self._kept.shape[0]:
            self._kept = torch.arange(count, device=self._device)
        logits = self._forward(rows, self._cache, self._kept[:count])
        committed = self._commit(members, logits, step=True)
        if cost is not None:
            read = [1 + len(member.draft) if self._packed else count for member in members]
            cost.observe(sum(read), (time.perf_counter() - began) * 1e3)
        return committed

    def keep(self, rows: Indices[int]) -> None:
        """Keep only these sequences, in this order; the others leave the batch and free their cache."""
        if len(rows) == len(self._members):
            return
        self._members = [self._members[row] for row in rows]
        self._cache.keep(rows)

    def _member(self, sequence: Sequence, drafter: Drafter, vocabulary: int) -> _Member:
        request = sequence.request
        sampler = Sampler(request, self._device, sequence.constraint)
        context = Context(
            list(request.prompt),
            len(request.prompt),
            vocabulary,
            sampler.plain,
            request.end_ids,
            sampler.rank,
        )
        return _Member(sequence, drafter, sampler, context, draft=_NOTHING, places=())

    def _draft(self, members: Indices[_Member]) -> None:
        share = self._draft_rows // len(members)
        proposed = [_proposed(member, share, chains=self._chains) for member in members]
        drafts = [draft for draft, _ in proposed]
        counts = [0] * len(members)
        if any(drafts):
            counts = divide(drafts, self._draft_rows, packed=self._packed)
        for member, (draft, legal), count in zip(members, proposed, counts, strict=True):
            request = member.sequence.request
            # The deepest node that can be accepted leaves room for the token after it.
            known = len(member.context.tokens)
            depth = request.max_new_tokens - (known - len(request.prompt)) - 1
            if self._switch is not None and known <= self._switch:
                depth = min(depth, self._switch - known)  # no draft reaches over the switch
            member.draft, places = draft.prune(count, depth)
            member.places = places if legal is None else [places[node] if node >= 0 else -1 for node in legal]

    def _read_anew(self, number: int, tokens: Indices[int]) -> None:
        """Read a sequence's tokens again with the rotary factors of longer texts; see `rotary.py`."""
        cache, length = KeyValueCache(1), len(tokens)
        for start in range(0, length, _READ_AT_ONCE):
            stop = min(start + _READ_AT_ONCE, length)
            ids = torch.tensor([tokens[start:stop]], device=self._device)
            positions = torch.arange(start, stop, device=self._device)[None]
            rows = Rows(ids, positions, stop, lengths=(length + 1,))
            self._forward(rows, cache, torch.tensor([stop - start - 1], device=self._device))
        self._cache.put(number, cache, length)

    def _commit(self, members: Indices[_Member], logits: Tensor, *, step: bool) -> list[list[int]]:
        """Verify the drafts by the logits # [batch, rows, vocabulary], and keep what is accepted."""
        verdicts = verify(
            logits,
            [member.draft for member in members],
            [member.sampler for member in members],
            [member.sequence.request.end_ids for member in members],
        )
        self._cache.move(
            [
                (number, start + 1 + node, start + 1 + place)
                for number, (member, verdict) in enumerate(zip(members, verdicts, strict=True))
                for start in (len(member.context.tokens) - 1,)
                for place, node in enumerate(verdict.nodes)
                if node != place
            ]
        )
        tops = _tops(
            logits, [member.drafter.wants_top for member in members], [1 + len(member.draft) for member in members]
        )
        for number, (member, verdict, (tokens, probabilities)) in enumerate(zip(members, verdicts, tops, strict=True)):
            wanted = member.sequence.request.logprobs
            if wanted is not None:
                said = logits[number, [0, *(node + 1 for node in verdict.nodes)]]  # [tokens, vocabulary]
                member.sequence.scores = score(said, verdict.tokens, wanted)
            member.context.tokens += verdict.tokens
            member.sampler.commit(verdict.tokens)
            member.sequence.failure = member.sampler.failure
            if step:
                member.sequence.account.step(member.draft, verdict.nodes, member.drafter.name, verdict.changed)
            try:
                member.drafter.learn(member.context, _outcome(member, verdict, tokens, probabilities))
            except Exception as error:  # noqa: BLE001 - as in drafting
                _give_up_drafting(member, error)
        return [verdict.tokens for verdict in verdicts]


def _outcome(member: _Member, verdict: Verdict, tokens: _Ids, probabilities: _Numbers) -> Outcome:
    """Tell the drafter in terms of the nodes it proposed, not of those that were left after pruning."""
    places = member.places
    if not places:
        return Outcome((), tokens, probabilities, verdict.tokens, ())
    if len(places) == len(member.draft):
        accepted = verdict.nodes
    else:
        own = {place: node for node, place in enumerate(places) if place >= 0}
        accepted = [own[node] for node in verdict.nodes]
    rows = [place + 1 if place >= 0 else -1 for place in places]
    return Outcome(rows, tokens, probabilities, verdict.tokens, accepted)


def _proposed(member: _Member, rows: int, *, chains: bool) -> tuple[DraftTree, Indices[int] | None]:
    """Ask for a draft that can be evaluated; where each node of the proposal is in it, if some were left out.

    ``chains``: only its most likely path can.
    """
    constraint = member.sequence.constraint
    try:
        tree = member.drafter.propose(member.context, rows)
        _check(tree, member.context.vocabulary)
        places: Indices[int] | None = None
        if chains:
            tree, places = tree.chain()
        if constraint is None or not len(tree):
            return tree, places
        tree, legal = _legal(tree, constraint)
        return tree, legal if places is None else [legal[node] if node >= 0 else -1 for node in places]
    except Exception as error:  # noqa: BLE001 - the answer needs no draft, and the other requests not this one's
        _give_up_drafting(member, error)
        return _NOTHING, None


def _check(tree: DraftTree, vocabulary: int) -> None:
    """Refuse tokens that the model does not have: on a GPU, looking one up would end all requests and the engine."""
    if tree.tokens and max(tree.tokens) >= vocabulary:
        raise ValueError(f"a drafted token is not below {vocabulary}")


def _legal(tree: DraftTree, constraint: Constraint) -> tuple[DraftTree, Indices[int]]:
    """Leave out what the answer's constraint forbids; where each node is then, as from `DraftTree.prune`."""
    try:
        legal = constraint.legal(tree)
    except Exception:
        constraint.recover()
        raise
    return tree.only(node for node, allowed in enumerate(legal) if allowed)


def _give_up_drafting(member: _Member, error: Exception) -> None:
    """Let a sequence whose drafter failed go on without drafts."""
    name = member.drafter.name
    member.drafter = Autoregressive()
    member.sequence.account.warn(f"{name} failed and drafts no more ({type(error).__name__}: {error})")


_Ids = NDArray[np.int64]
_Numbers = NDArray[np.float32]
_NO_TOPS: tuple[_Ids, _Numbers] = np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)


def _tops(logits: Tensor, wants: Indices[int], counts: Indices[int]) -> list[tuple[_Ids, _Numbers]]:
    """Find the most probable tokens of each sequence's first rows and their probabilities, as many as drafters want."""
    most = min(max(wants), logits.shape[-1])
    if most == 0:
        return [_NO_TOPS] * len(wants)
    counts = [count if want else 0 for want, count in zip(wants, counts, strict=True)]
    tokens, shares = best_tokens(logits, counts, most)
    ends = accumulate(counts)
    return [
        (np.ascontiguousarray(tokens[end - count : end, :want]), np.ascontiguousarray(shares[end - count : end, :want]))
        for want, count, end in zip(wants, counts, ends, strict=True)
    ]
