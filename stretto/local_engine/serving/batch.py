"""Decoding loop of every method: draft, run one forward, verify, commit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stretto.local_engine.choosing.constraint import Constraint
from stretto.local_engine.choosing.distribution import score
from stretto.local_engine.choosing.sampling import Sampler, best_tokens
from stretto.local_engine.choosing.verify import Verified, verify
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.drafting.budget import divide
from stretto.local_engine.drafting.protocol import Autoregressive, DraftContext, Drafter, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost, step_clock
from stretto.local_engine.generation import Generation, TokenLogprob
from stretto.local_engine.model.adapters.lora_deltas import adapters_of
from stretto.local_engine.model.cache.kv_cache import KeyValueCache, Source
from stretto.local_engine.model.cache.prefixes import PrefixCache, best_source
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.rows import LayerStates, Rows
from stretto.local_engine.serving.batch_members import BatchMembers, Step
from stretto.local_engine.serving.prefill import Prefill
from stretto.local_engine.serving.sequence import Sequence as RequestState

_NO_DRAFT = DraftTree()
_PREFILL_TOKENS = 512

_Ids = NDArray[np.int64]
_Probabilities = NDArray[np.float32]
_NO_TOP: tuple[_Ids, _Probabilities] = np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)


@dataclass(slots=True)
class _Member:
    """One request of the batch: its drafter, its sampler and its tokens so far.

    Attributes:
        draft: the draft that is evaluated in this step.
        nodes: for each node that the drafter proposed, its node in ``draft``, or -1.
        warnings: warnings since the last step.
    """

    request: Generation
    constraint: Constraint | None
    drafter: Drafter
    sampler: Sampler
    context: DraftContext
    draft: DraftTree = field(default_factory=lambda: _NO_DRAFT)
    nodes: Sequence[int] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def wants_states(self) -> tuple[int, ...]:
        """Layers whose hidden states the drafter reads."""
        return layers_read_by(self.drafter)

    def give_up_drafting(self, error: Exception) -> None:
        """Continue without drafts, because the drafter failed."""
        name = self.drafter.name
        self.drafter = Autoregressive()
        self.warnings.append(f"{name} failed and drafts no more ({type(error).__name__}: {error})")


class Batch(BatchMembers[_Member]):
    """Requests decoded together, one forward per call of `advance`.

    In each step the drafter of each request proposes a tree, and one forward scores all trees. What verification
    accepts is committed, plus one token that the model chooses itself. Autoregressive decoding is the empty draft.
    Requests join and leave between two steps.

    Args:
        forward: runs the model.
        device: device of the model.
        draft_nodes: maximum number of nodes, over all drafts, that one forward evaluates.
        cost: cost of a step; it learns how many requests share a step and how long the step took.
    """

    def __init__(
        self,
        forward: Forward,
        device: torch.device,
        *,
        draft_nodes: int = 64,
        cost: StepCost | None = None,
    ) -> None:
        super().__init__()
        self._cost = cost
        self._forward = forward
        self._device, self._clock = device, step_clock(device)
        self._draft_nodes = draft_nodes
        self._all_rows = torch.empty(0, dtype=torch.long)  # 0 to the last row of a forward # [rows]

    def join(self, prefill: Prefill, drafters: Sequence[Drafter]) -> list[Step]:
        """Take over requests whose prompts have been read. Returns the step with the first token of each."""
        logits = prefill.logits[:, None]  # [batch, 1, vocabulary]
        joining = [
            self._member(state, drafter, logits.shape[-1])
            for state, drafter in zip(prefill.sequences, drafters, strict=True)
        ]
        self._cache.join(prefill.cache)
        self._members += joining
        return self._commit(joining, logits, prefill.states, drafted=False)

    def known(self, prompt: NDArray[np.int64], known_by: Hashable = None) -> Source | None:
        """Find the request with the longest common prefix with a prompt, among those with this ``known_by``."""
        texts = [member.context.tokens if member.request.known_by == known_by else () for member in self._members]
        return best_source(prompt, self._cache, texts, self._forward.switch)

    def remember(self, row: int, prefixes: PrefixCache) -> None:
        """Keep the keys and values of one request for later prompts, unless it failed: they could be NaN.

        Its last token is left out, because it was never read.
        """
        member = self._members[row]
        if member.sampler.failure is None:
            prefixes.keep(member.context.tokens[:-1], self._cache, row, member.request.known_by, member.request.tenant)

    def advance(self) -> list[Step]:
        """Run one step, which commits at least one token to each request."""
        members, cost, began = self._members, self._cost, self._clock()
        if cost is not None:
            cost.begin(len(members))
        for number, member in enumerate(members):
            if len(member.context.tokens) - 1 == self._forward.switch:
                self._read_again(number, member)
        self._draft(members)
        drafted = self._clock()
        rows = flatten(
            [member.context.tokens for member in members], [member.draft for member in members], self._device
        )
        layers = {layer for member in members for layer in member.wants_states}
        adapters = adapters_of(member.request.adapter for member in members)
        if layers or adapters is not None:
            rows = replace(rows, states=LayerStates(layers) if layers else None, adapters=adapters)
        count = rows.tokens.shape[1]
        if count > self._all_rows.shape[0]:
            self._all_rows = torch.arange(count, device=self._device)
        logits = self._forward(rows, self._cache, self._all_rows[:count])
        steps = self._commit(members, logits, _divided(rows.states, members), drafted=True)
        if cost is not None:
            evaluated = [1 + len(member.draft) if self._forward.packs else count for member in members]
            cost.observe(sum(evaluated), (self._clock() - began) * 1e3, (drafted - began) * 1e3)
        return steps

    def _member(self, state: RequestState, drafter: Drafter, vocabulary: int) -> _Member:
        request = state.request
        sampler = Sampler(request, self._device, state.constraint)
        context = DraftContext(
            list(request.prompt),
            len(request.prompt),
            vocabulary,
            sampler.plain,
            request.end_ids,
            sampler.rank,
        )
        return _Member(request, state.constraint, drafter, sampler, context)

    def _draft(self, members: Sequence[_Member]) -> None:
        """Set the draft of each request."""
        share, switch = self._draft_nodes // len(members), self._forward.switch
        proposed = [_proposed(member, share, chains=self._forward.alone) for member in members]
        drafts = [draft for draft, _ in proposed]
        counts = [0] * len(members)
        if any(drafts):
            counts = divide(drafts, self._draft_nodes, packed=self._forward.packs)
        for member, (draft, allowed), count in zip(members, proposed, counts, strict=True):
            # The deepest node that can be accepted leaves room for the token after it.
            known = len(member.context.tokens)
            depth = member.request.max_new_tokens - (known - len(member.request.prompt)) - 1
            if switch is not None and known <= switch:
                depth = min(depth, switch - known)  # no draft crosses the switch
            member.draft, nodes = draft.prune(count, depth)
            member.nodes = nodes if allowed is None else [nodes[node] if node >= 0 else -1 for node in allowed]

    def _read_again(self, number: int, member: _Member) -> None:
        """Read a request's tokens again with the rotary factors for longer texts; see `rotary.py`."""
        tokens, adapters = member.context.tokens[:-1], adapters_of([member.request.adapter])
        cache, length = KeyValueCache(1), len(tokens)
        for start in range(0, length, _PREFILL_TOKENS):
            stop = min(start + _PREFILL_TOKENS, length)
            rows = Rows.following(tokens[start:stop], start, self._device)
            rows = replace(rows, lengths=(length + 1,), adapters=adapters)
            self._forward(rows, cache, torch.tensor([stop - start - 1], device=self._device))
        self._cache.put(number, cache, length)

    def _commit(
        self, members: Sequence[_Member], logits: Tensor, states: Sequence[Tensor | None], *, drafted: bool
    ) -> list[Step]:
        """Verify the drafts against the logits, and commit what is accepted.

        Args:
            members: the requests.
            logits: # [batch, rows, vocabulary]
            states: hidden states of each request's rows; after the prompt was read, those of the prompt.
            drafted: whether this is a step, not the forward that read the prompts.
        """
        verdicts = verify(
            logits,
            [member.draft for member in members],
            [member.sampler for member in members],
            [member.request.end_ids for member in members],
        )
        self._cache.move(
            [
                (number, start + 1 + node, start + 1 + depth)
                for number, (member, verdict) in enumerate(zip(members, verdicts, strict=True))
                for start in (len(member.context.tokens) - 1,)
                for depth, node in enumerate(verdict.nodes)
                if node != depth
            ]
        )
        top = _top(
            logits, [member.drafter.wants_top for member in members], [1 + len(member.draft) for member in members]
        )
        return [
            _committed(member, verdict, logits[number], *own, states=read, drafted=drafted)
            for number, (member, verdict, own, read) in enumerate(zip(members, verdicts, top, states, strict=True))
        ]


def layers_read_by(drafter: Drafter) -> tuple[int, ...]:
    """Return the layers whose hidden states a drafter reads; see `Drafter`."""
    return getattr(drafter, "wants_states", ())


def _divided(states: LayerStates | None, members: Sequence[_Member]) -> list[Tensor | None]:
    """Return the hidden states of each request's rows, or ``None`` if its drafter reads none."""
    return [
        states.of(number, slice(0, 1 + len(member.draft)), member.wants_states)
        if states is not None and member.wants_states
        else None
        for number, member in enumerate(members)
    ]


def _committed(
    member: _Member,
    verdict: Verified,
    logits: Tensor,
    tokens: _Ids,
    probabilities: _Probabilities,
    *,
    states: Tensor | None,
    drafted: bool,
) -> Step:
    """Commit a verdict to one request, let its drafter learn from it, and return the step.

    Args:
        member: the request.
        verdict: what is accepted.
        logits: logits of its rows # [rows, vocabulary]
        tokens: see `DraftOutcome.top_tokens`.
        probabilities: see `DraftOutcome.top_probabilities`.
        states: see `Batch._commit`.
        drafted: see `Batch._commit`.
    """
    member.context.tokens += verdict.tokens
    member.sampler.commit(verdict.tokens)
    wanted, scores = member.request.logprobs, list[TokenLogprob]()
    if wanted is not None:
        scores = score(logits[[0, *(node + 1 for node in verdict.nodes)]], verdict.tokens, wanted)
    draft, drafter = member.draft if drafted else None, member.drafter.name
    try:
        outcome = _outcome(member, verdict, tokens, probabilities)
        if states is not None:
            own, before = (states, None) if drafted else (states[-1:], states[:-1])
            outcome = replace(outcome, states=own, prompt_states=before)
        member.drafter.learn(member.context, outcome)
    except Exception as error:  # noqa: BLE001 - as in `_proposed`
        member.give_up_drafting(error)
    warnings, member.warnings = tuple(member.warnings), []
    return Step(
        verdict.tokens,
        scores,
        member.sampler.failure,
        draft,
        verdict.nodes,
        drafter,
        verdict.changed,
        warnings,
    )


def _outcome(member: _Member, verdict: Verified, tokens: _Ids, probabilities: _Probabilities) -> DraftOutcome:
    """Return the outcome in terms of the nodes that the drafter proposed, not of those left after pruning."""
    nodes = member.nodes
    if not nodes:
        return DraftOutcome((), tokens, probabilities, verdict.tokens, ())
    if len(nodes) == len(member.draft):
        accepted = verdict.nodes
    else:
        proposed = {evaluated: node for node, evaluated in enumerate(nodes) if evaluated >= 0}
        accepted = [proposed[node] for node in verdict.nodes]
    rows = [node + 1 if node >= 0 else -1 for node in nodes]
    return DraftOutcome(rows, tokens, probabilities, verdict.tokens, accepted)


def _proposed(member: _Member, nodes: int, *, chains: bool) -> tuple[DraftTree, Sequence[int] | None]:
    """Ask the drafter for a draft, and reduce it to what can be evaluated.

    ``chains``: whether only its most likely path can be evaluated.

    Returns:
        the draft, and if some of the proposed nodes were left out, the new index of each, or -1.
    """
    constraint = member.constraint
    try:
        tree = member.drafter.propose(member.context, nodes)
        _check(tree, member.context.vocabulary)
        kept: Sequence[int] | None = None
        if chains:
            tree, kept = tree.chain()
        if constraint is None or not len(tree):
            return tree, kept
        tree, legal = _legal(tree, constraint)
        return tree, legal if kept is None else [legal[node] if node >= 0 else -1 for node in kept]
    except Exception as error:  # noqa: BLE001 - neither the answer nor the other requests depend on the draft
        member.give_up_drafting(error)
        return _NO_DRAFT, None


def _check(tree: DraftTree, vocabulary: int) -> None:
    """Raise `ValueError` for tokens the model does not have: on a GPU, looking one up would end the engine."""
    if tree.tokens and max(tree.tokens) >= vocabulary:
        raise ValueError(f"a drafted token is not below {vocabulary}")


def _legal(tree: DraftTree, constraint: Constraint) -> tuple[DraftTree, Sequence[int]]:
    """Leave out what the answer's constraint forbids. Returns what `DraftTree.prune` does."""
    try:
        legal = constraint.legal(tree)
    except Exception:
        constraint.recover()
        raise
    return tree.only(node for node, allowed in enumerate(legal) if allowed)


def _top(logits: Tensor, wants: Sequence[int], counts: Sequence[int]) -> list[tuple[_Ids, _Probabilities]]:
    """Return the most probable tokens of each request's rows and their probabilities, as many as its drafter wants."""
    most = min(max(wants), logits.shape[-1])
    if most == 0:
        return [_NO_TOP] * len(wants)
    counts = [count if want else 0 for want, count in zip(wants, counts, strict=True)]
    tokens, probabilities = best_tokens(logits, counts, most)
    ends = accumulate(counts)
    return [
        (
            np.ascontiguousarray(tokens[end - count : end, :want]),
            np.ascontiguousarray(probabilities[end - count : end, :want]),
        )
        for want, count, end in zip(wants, counts, ends, strict=True)
    ]
