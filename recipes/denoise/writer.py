"""A plain loop of block diffusion over transformers' forward, many questions at a time.

It measures a model where it is trained. The engine has its own loop; a test holds the two against each other.

In a model with shifted logits, the last row of a finished block says the next block's first token, which is kept.

The threshold rule: Wu et al., "Fast-dLLM", arXiv:2505.22618: of the masked tokens in a block, all are kept whose
probability is above the threshold, and always the likeliest one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from recipes.pocket import tokenizer as texts
from recipes.tuning import read_causal_model

__all__ = ["BlockWriter", "Written"]


@dataclass
class Written:
    """One answer.

    Attributes:
        text: without special tokens.
        tokens: of the answer, its end included.
        forwards: of its blocks; the one that computes the keys of a finished block is joined with the next block's
            first.
        commits: finished blocks: so many more forwards if they are not joined.
    """

    text: str = ""
    tokens: int = 0
    forwards: int = 0
    commits: int = 0
    ids: list[int] = field(default_factory=list)


class BlockWriter:
    """Writes answers by a block diffusion model in a folder.

    Args:
        folder: with ``block_size`` and ``mask_token_id`` in ``config.json``.
        device: a name of torch's.
        model: instead of the one in the folder.
    """

    def __init__(self, folder: Path, device: str = "cpu", model: Any = None) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.block, self.mask, self.device = int(config["block_size"]), int(config["mask_token_id"]), device
        self.shifted = bool(config.get("shifted_logits"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.end = texts.token_id(self.tokenizer, texts.END)
        self.model = model or read_causal_model(folder, device)

    @torch.no_grad()
    def answers(self, questions: Sequence[str], longest: int, *, threshold: float, batch: int = 128) -> list[Written]:
        """The answer to each question on its own, of about ``longest`` tokens at most."""
        found: list[Written] = []
        for start in range(0, len(questions), batch):
            prompts = [
                self.tokenizer.encode(texts.render_chat([("user", each)]), add_special_tokens=False).ids
                for each in questions[start : start + batch]
            ]
            found += self._written(prompts, longest, threshold)
        return found

    def _written(  # noqa: PLR0915 - one loop, read from top to bottom
        self, prompts: list[list[int]], longest: int, threshold: float
    ) -> list[Written]:
        from transformers import DynamicCache  # noqa: PLC0415 - heavy

        block, count = self.block, len(prompts)
        whole = torch.tensor([len(prompt) // block * block for prompt in prompts], device=self.device)
        width = int(whole.max())
        given = torch.zeros(count, width, dtype=torch.long)
        rows = torch.full((count, block), self.mask)
        for at, prompt in enumerate(prompts):
            size = len(prompt) // block * block
            given[at, :size] = torch.tensor(prompt[:size])
            rows[at, : len(prompt) - size] = torch.tensor(prompt[size:])
        given, rows = given.to(self.device), rows.to(self.device)
        cache = DynamicCache()
        places = torch.arange(width, device=self.device)
        known = places < whole[:, None]  # [questions, keys]: which keys are no padding
        ahead = torch.zeros(0)  # what the last known row says # [questions, vocabulary]
        if width:
            inside = (places[:, None] // block >= places // block)[None] & known[:, None, :]
            itself = torch.eye(width, dtype=torch.bool, device=self.device)
            computed = self._forward(given, places.expand(count, -1), inside | itself, cache)
            ahead = computed[torch.arange(count, device=self.device), (whole - 1).clamp(min=0)]
        results = [Written() for _ in prompts]
        open_ = [True] * count
        first = [len(prompt) % block for prompt in prompts]  # where the answer begins in its first block
        start = whole
        while any(open_) and int(start.max()) + 2 * block < self.model.config.max_position_embeddings:
            positions = start[:, None] + torch.arange(block, device=self.device)
            own = torch.ones(count, block, dtype=torch.bool, device=self.device)
            mask = torch.cat((known, own), 1)[:, None, :].expand(-1, block, -1)
            while True:
                masked = rows == self.mask  # [questions, block]
                waiting = masked.any(1).tolist()
                if not any(waits and is_open for waits, is_open in zip(waiting, open_, strict=True)):
                    break
                logits = self._forward(rows, positions, mask, cache)
                cache.crop(-block)
                if self.shifted:
                    logits = torch.cat((ahead[:, None], logits[:, :-1]), 1)
                logits[..., self.mask] = -torch.inf
                chances, chosen = logits.float().softmax(-1).max(-1)  # [questions, block]
                chances = torch.where(masked, chances, -1.0)
                rest = chances.clone()
                if self.shifted:  # the first is certain
                    rest[:, 0], chances[:, 0] = -1.0, 2.0
                kept = masked & ((chances > threshold) | (rest == rest.max(1, keepdim=True).values))
                rows = torch.where(kept, chosen, rows)
                for at, waits in enumerate(waiting):
                    results[at].forwards += waits and open_[at]
            ahead = self._forward(rows, positions, mask, cache)[:, -1]  # and the keys of the finished blocks
            known = torch.cat((known, own), 1)
            for at, row in enumerate(rows.tolist()):
                if open_[at]:
                    self._take(results[at], row[first[at] :])
                    open_[at] = self.end not in row[first[at] :] and len(results[at].ids) < longest
                first[at] = 0
            rows, start = torch.full_like(rows, self.mask), start + block
        for result in results:
            result.text, result.tokens = self.tokenizer.decode(result.ids, skip_special_tokens=True), len(result.ids)
        return results

    def _take(self, result: Written, row: list[int]) -> None:
        result.commits += 1
        result.ids += row[: row.index(self.end) + 1] if self.end in row else row

    def _forward(self, rows: Tensor, positions: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Logits of some rows after what is in the cache # [questions, rows, vocabulary]."""
        found = self.model(
            input_ids=rows, position_ids=positions, attention_mask=mask[:, None], past_key_values=cache, use_cache=True
        )
        return found.logits  # type: ignore[no-any-return]
