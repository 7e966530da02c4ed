"""The predictions that the losses of focus reading compare with a lesson."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from recipes.focus.needles import Job, Lesson
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.research.focus.changed_layers import attention, run
from stretto.local_engine.research.focus.focus import Candidates, candidates, states_of
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter

__all__ = ["chunks_of", "lesson_losses", "lookup_losses"]


def lesson_losses(
    plain: LlamaForward,
    forward: LlamaForward,
    adapter: FocusAdapter,
    lesson: Lesson,
    chosen: Sequence[Sequence[int]],
    *,
    cache: KeyValueCache | None = None,
) -> list[tuple[Tensor, Tensor]]:
    """Run each job of a lesson; the wanted tokens and the logits, with a gradient to the adapter.

    Args:
        plain: the same model for what needs no gradient; it may be packed.
        forward: the frozen decoder, through which gradients go.
        adapter: the projections.
        lesson: document and jobs.
        chosen: for each job, the indices of its tokens that carry loss.
        cache: of the chunks, if they were read before; the slots after them are overwritten.

    Returns:
        for each job the wanted tokens # [chosen] and the logits # [chosen, vocabulary]
    """
    found = []
    count, length = len(lesson.chunks), len(lesson.chunks[0])
    if cache is None:
        cache = chunks_of(plain, lesson)
    for job, wanted in zip(lesson.jobs, chosen, strict=True):
        first = max(0, job.learned - job.appended)
        suffix = job.tokens[first : max(wanted)]
        with torch.no_grad():
            _read(plain, cache, [suffix] * count, length)
        at = torch.tensor(wanted) - 1  # the candidate of a learned token is at the token before it
        slots = length + at - first
        tokens = torch.tensor([job.tokens[place] for place in at.tolist()])
        ranks = torch.tensor(lesson.ranks) + len(lesson.head)
        past, _ = candidates(forward, adapter.layers, tokens.expand(count, -1), cache, slots=slots, ranks=ranks)
        if lesson.head:
            past = _joined(states_of(forward, lesson.head, torch.device("cpu")), past)
        logits = forward.read_out(_decode(forward, past, lesson, job, at))
        found.append((torch.tensor([job.tokens[place] for place in wanted]), logits))
    return found


def lookup_losses(
    plain: LlamaForward, forward: LlamaForward, adapter: FocusAdapter, lesson: Lesson, cache: KeyValueCache
) -> list[tuple[Tensor, Tensor]]:
    """Read answers from the candidates of their chunks alone, without the decoder after them.

    Through the decoder, the gradient reaches a projection past all other candidates, and finding an answer in its chunk
    was learned last. Here it is direct, and many questions cost as much as one.

    Returns:
        for each group of questions the tokens # [questions, recalled], and the logits with one more axis, the
        vocabulary
    """
    length, layers = len(lesson.chunks[0]), range(forward.sizes[2])
    groups: dict[tuple[int, int], list[Job]] = defaultdict(list)
    for job in lesson.lookups:
        groups[job.recalled].append(job)
    found = []
    for (start, stop), jobs in groups.items():
        sources = torch.tensor([job.source for job in jobs])
        known = [[cache.layer(number, length)[kind][sources] for number in layers] for kind in (0, 1)]
        own = KeyValueCache.of(known[0], known[1], length + stop)
        with torch.no_grad():
            _read(plain, own, [job.tokens[: stop - 1] for job in jobs], length)
        at = torch.arange(start - 1, stop - 1)
        tokens = torch.tensor([job.tokens[:stop] for job in jobs])
        _, states = candidates(
            forward,
            adapter.layers,
            tokens[:, at],
            own,
            slots=length + at,
            ranks=torch.zeros(len(jobs), dtype=torch.long),
        )
        found.append((tokens[:, start:stop], forward.read_out(states)))
    return found


def chunks_of(plain: LlamaForward, lesson: Lesson) -> KeyValueCache:
    """Read the chunks of a lesson into a cache with space for its jobs after them."""
    cache = KeyValueCache(len(lesson.chunks))
    cache.capacity = len(lesson.chunks[0]) + max(len(job.tokens) for job in lesson.jobs)
    with torch.no_grad():
        _read(plain, cache, lesson.chunks, 0)
    return cache


def _read(plain: LlamaForward, cache: KeyValueCache, tokens: Sequence[Sequence[int]], start: int) -> None:
    """Write the keys and values of rows that need no gradient."""
    ids = torch.tensor([[*row] for row in tokens])
    stop = start + ids.shape[1]
    rows = Rows(ids, torch.arange(start, stop).repeat(len(ids), 1), stop)
    plain(rows, cache, torch.tensor([ids.shape[1] - 1]))


def _joined(head: Candidates, past: Candidates) -> Candidates:
    """The keys and values of the head before those of the candidates, the same for each learned token."""
    keys, values = (
        [torch.cat((first.expand(-1, rest.shape[1], -1, -1), rest)) for first, rest in zip(*both, strict=True)]
        for both in zip(head, past, strict=True)
    )
    return keys, values


def _decode(forward: LlamaForward, past: Candidates, lesson: Lesson, job: Job, at: Tensor) -> Tensor:
    """Decode the local context after each set of candidates, up to the token before the learned one.

    Gradients go through that token alone. Those through the tokens before it cost more, and are left out.

    Args:
        forward: the frozen decoder.
        past: head and candidates, one set for each learned token.
        lesson: says which positions they have.
        job: the local context.
        at: where each set is used # [learned]

    Returns:
        final states there # [learned, hidden]
    """
    learned, head, length = len(at), len(lesson.head), int(at[-1])
    ranks = torch.tensor([*range(head), *(head + rank for rank in lesson.ranks), head + lesson.total])
    weights = ranks.diff().float().log()  # a candidate also represents the left out ones after it
    weights[:head] = 0.0
    if job.source >= 0:
        weights[head + job.source] = 0.0
    total, rows = head + lesson.total, torch.arange(length)
    slots = torch.cat((ranks[:-1], total + rows))
    computed: Candidates = ([], [])

    def seen(own: Tensor, window: int | None) -> Tensor:
        """Which of head, candidates and rows are seen from some places # [..., slots]."""
        found = slots < own[..., None]
        return found if window is None else found & (slots > own[..., None] - window)

    def before(layer: int) -> list[Tensor]:
        return [kind[layer].transpose(0, 1) for kind in past]  # [learned, candidates, key_value_heads, head_dim]

    def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:
        both = [torch.cat(each, 1) for each in zip(before(layer), (keys, values), strict=True)]
        for kind, each in zip(computed, (keys, values), strict=True):
            kind.append(each)
        mask = seen(total + rows, window)
        mask[:, len(ranks) - 1 :].fill_diagonal_(True)
        bias = torch.cat((weights, torch.zeros(length))).expand(length, -1)
        return attention(queries, both[0], both[1], mask[None], bias=bias)[0].flatten(2)

    def attend_last(layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:
        known = [kind[layer] for kind in computed]
        both = [torch.cat(each, 1) for each in zip(before(layer), known, (keys, values), strict=True)]
        mask = torch.cat((seen(total + at, window), torch.ones(learned, 1, dtype=torch.bool)), 1)
        bias = torch.cat((weights, torch.zeros(length + 1)))[None]
        return attention(queries, both[0], both[1], mask[:, None], bias=bias)[0].flatten(2)

    tokens = torch.tensor(job.tokens[:length])
    with torch.no_grad():
        run(forward, tokens.expand(learned, -1), (total + rows).expand(learned, -1), attend)
    return run(forward, torch.tensor(job.tokens)[at][:, None], (total + at)[:, None], attend_last)[:, 0]
