"""The predictions that the losses of focus reading compare with a lesson."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from recipes.focus.needles import Job, Lesson
from stretto.local_engine.long_context.adapter import FocusAdapter
from stretto.local_engine.long_context.decoder import attention, run
from stretto.local_engine.long_context.focus import Candidates, candidates, candidates_and_states
from stretto.local_engine.model.cache import KeyValueCache
from stretto.local_engine.model.llama import LlamaForward
from stretto.local_engine.model.rows import Rows

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
        behind = job.tokens[first : max(wanted)]
        with torch.no_grad():
            _read(plain, cache, [behind] * count, length)
        at = torch.tensor(wanted) - 1  # the candidate of a learned token is at the token before it
        slots = length + at - first
        tokens = torch.tensor([job.tokens[place] for place in at.tolist()])
        past = candidates(
            forward, adapter.layers, tokens.expand(count, -1), cache, slots=slots, ranks=torch.tensor(lesson.ranks)
        )
        states = _decode(forward, past, lesson, job, int(at[-1]) + 1)
        logits = forward.read_out(states[torch.arange(len(at)), at])
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
        tokens = torch.tensor([job.tokens for job in jobs])
        _, states = candidates_and_states(
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


def _decode(forward: LlamaForward, past: Candidates, lesson: Lesson, job: Job, length: int) -> Tensor:
    """Decode the local context after each set of candidates; there is one set for each learned token.

    Returns:
        final states # [learned, length, hidden]
    """
    learned, count = past[0][0].shape[1], len(lesson.ranks)
    ranks = torch.tensor([*lesson.ranks, lesson.total])
    weights = ranks.diff().float().log()  # a candidate also stands for the left out ones after it
    weights[job.source] = 0.0
    rows = torch.arange(length)
    bias = torch.cat((weights.expand(length, -1), torch.where(rows <= rows[:, None], 0.0, -torch.inf)), 1)

    def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor, window: int | None) -> Tensor:
        before = [kind[layer].transpose(0, 1) for kind in past]  # [learned, chunks, key_value_heads, head_dim]
        both = [torch.cat((old, new), 1) for old, new in zip(before, (keys, values), strict=True)]
        seen = bias
        if window is not None:
            slots = torch.cat((ranks[:count], lesson.total + rows))
            seen = bias.masked_fill(slots <= (lesson.total + rows - window)[:, None], -torch.inf)
        return attention(queries, both[0], both[1], bias=seen)[0].flatten(2)

    tokens = torch.tensor([job.tokens[:length]] * learned)
    return run(forward, tokens, (lesson.total + rows).expand(learned, -1), attend)
