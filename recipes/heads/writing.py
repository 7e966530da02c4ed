"""What a model answers, written in large batches: a head learns to foresee what its model says, not what is right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from recipes.heads.questions import Turns
from recipes.pocket.batches import Encoded
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.rows import LAST, LayerStates, Rows
from stretto.local_engine.model.loading.load import LoadedModel

__all__ = ["HEATS", "Writing", "Written", "answers", "keep", "kept"]

HEATS = (0.0, 0.4, 0.7, 1.0)
"""Temperatures at which each question is answered: most answers are near to the greedy one, and no two are alike."""

_LOOK = 16  # steps between two looks at which answers have ended
_THINNED = 0.75  # of a batch; where fewer go on, the others leave the cache


@dataclass(frozen=True)
class Written(Encoded):
    """An answer, and the states that the model chose its tokens by.

    Attributes:
        last: normalised final states, each of the row before a token of the answer, in float16 # [answer, hidden];
            ``None`` where they were not kept.
    """

    last: Tensor | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Writing:
    """How answers are written.

    Attributes:
        together: answers in a batch.
        longest: tokens of an answer at most.
        prompt: tokens of a prompt at most; longer ones are left out.
        seed: of the order of the questions, and of sampling.
        states: whether to keep the states that tokens were chosen by; see `Written`.
    """

    together: int = 16
    longest: int = 256
    prompt: int = 192
    seed: int = 1
    states: bool = False

    def write(
        self,
        model: LoadedModel,
        asked: Sequence[Turns],
        folder: Path,
        *,
        go_on: Callable[[], bool],
        advance: Callable[[float], object],
    ) -> list[Written]:
        """Answer the questions at every temperature, as long as ``go_on`` says; what was written before is read.

        Args:
            model: answers.
            asked: the questions, in any order.
            folder: of the answers, a file for each batch.
            go_on: asked before each batch but the first.
            advance: is called with the share of all batches that is there.
        """
        folder.mkdir(parents=True, exist_ok=True)
        jobs = [(prompt, heat) for heat in HEATS for prompt in self.prompts(model, asked)]
        random.Random(self.seed).shuffle(jobs)  # noqa: S311 - no secrets
        batches = [jobs[at : at + self.together] for at in range(0, len(jobs), self.together)]
        found: list[Written] = []
        for number, batch in enumerate(batches):
            file = folder / f"{number:05d}.safetensors"
            if not file.is_file():
                if found and not go_on():
                    break
                prompts, heats = zip(*batch, strict=True)
                keep(file, self.answers(model, prompts, heats, number=number))
            found += kept(file)
            advance((number + 1) / len(batches))
        return found

    def answers(
        self, model: LoadedModel, prompts: Sequence[Sequence[int]], heats: Sequence[float], *, number: int = 0
    ) -> list[Written]:
        """Answer the prompts of the batch with this number."""
        return answers(model, prompts, heats, self.longest, seed=self.seed + number, states=self.states)

    def prompts(self, model: LoadedModel, asked: Sequence[Turns]) -> list[tuple[int, ...]]:
        """Questions as the model's chat template writes them, the bare text where there is none; no long ones."""
        found = []
        for turns in asked:
            if getattr(model.tokenizer, "chat_template", None) is None:
                ids = model.tokenizer("".join(f"{text}\n" for _, text in turns)).input_ids
            else:
                messages = [{"role": role, "content": text} for role, text in turns]
                ids = model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
            if len(ids) <= self.prompt:
                found.append(tuple(ids))
        return found


@torch.inference_mode()
def answers(
    model: LoadedModel,
    prompts: Sequence[Sequence[int]],
    heats: Sequence[float],
    longest: int,
    *,
    seed: int = 1,
    states: bool = False,
) -> list[Written]:
    """Answer all prompts in one batch, each at its temperature; 0 takes the most probable token.

    The engine decides anew in each step who takes part, which pays for requests that come and go. Here a thousand
    begin together. ``states`` says whether to keep what `Written.last` holds.
    """
    device, batch = model.device, len(prompts)
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    width = int(lengths.max())
    tokens = torch.zeros(batch, width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = torch.tensor(prompt)
    tokens, places, heat = tokens.to(device), (lengths - 1).to(device), torch.tensor(heats).to(device)[:, None]
    ends = torch.tensor(sorted(model.ends), device=device)
    noise = torch.Generator(device).manual_seed(seed)
    cache, first = KeyValueCache(batch), torch.zeros(1, dtype=torch.long, device=device)
    positions = torch.arange(width, device=device).expand(batch, -1)
    model.forward(Rows(tokens, positions, width), cache, first)
    current = tokens[torch.arange(batch, device=device), places]  # its keys and values are written once more
    written = torch.full((batch, longest), -1, device=device)
    last: list[tuple[Tensor, Tensor]] = []  # of each step: who took part, and their states
    alive, ended = torch.arange(batch, device=device), torch.zeros(batch, dtype=torch.bool, device=device)
    for step in range(min(longest, model.context_window - width)):
        wanted = LayerStates({LAST}) if states else None
        rows = Rows(current[:, None], places[:, None], width + step, states=wanted)
        logits = model.forward(rows, cache, first)[:, 0].float()
        if wanted is not None:
            last.append((alive.cpu(), wanted.found[LAST][:, 0].half().cpu()))
        current = _choose(logits, heat[alive], noise)
        written[alive, step] = torch.where(ended, -1, current)
        ended |= torch.isin(current, ends)
        places = places + 1
        if step % _LOOK == _LOOK - 1 and (left := int((~ended).sum())) < _THINNED * len(alive):
            if not left:
                break
            going = (~ended).nonzero()[:, 0]
            cache.keep(going.tolist())
            current, places, alive, ended = current[going], places[going], alive[going], ended[going]
    spoken = [[token for token in row if token >= 0] for row in written.tolist()]
    return [
        Written("own", [*prompt, *own], len(prompt), _states_of(row, len(own), last) if states else None)
        for row, (prompt, own) in enumerate(zip(prompts, spoken, strict=True))
    ]


def _states_of(row: int, count: int, last: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """The states of one answer of a batch # [count, hidden]."""
    return torch.cat([own[alive == row] for alive, own in last[:count]])


def _choose(logits: Tensor, heat: Tensor, noise: torch.Generator) -> Tensor:
    """Sample by the Gumbel trick # [batch, vocabulary], [batch, 1] -> [batch]."""
    drawn = torch.empty_like(logits).exponential_(generator=noise).clamp_(min=1e-20).log_()  # minus Gumbel noise
    return (logits - heat * drawn).argmax(-1)


def keep(path: Path, texts: Sequence[Written]) -> None:
    """Write texts, completely or not at all."""
    new = path.with_suffix(".new")
    tensors = {
        "tokens": torch.tensor([token for text in texts for token in text.tokens], dtype=torch.int32),
        "lengths": torch.tensor([len(text.tokens) for text in texts], dtype=torch.int32),
        "learned": torch.tensor([text.learned for text in texts], dtype=torch.int32),
    }
    if states := [text.last for text in texts if text.last is not None]:
        tensors["last"] = torch.cat(states)
    save_file(tensors, new)
    new.replace(path)


def kept(path: Path) -> list[Written]:
    """Read them back."""
    found = load_file(path)
    parts, learned = torch.split(found["tokens"], found["lengths"].tolist()), found["learned"].tolist()
    states: Sequence[Tensor | None] = [None] * len(parts)
    if "last" in found:
        states = torch.split(found["last"], (found["lengths"] - found["learned"]).tolist())
    return [Written("own", part.tolist(), *own) for part, *own in zip(parts, learned, states, strict=True)]
