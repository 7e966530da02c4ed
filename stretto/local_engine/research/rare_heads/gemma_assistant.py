"""Assistants of Gemma 4: small models that attend to the keys and values of the large one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from stretto.local_engine.drafting.heads.files import HeadFolder
from stretto.local_engine.drafting.heads.target import Target
from stretto.local_engine.model.forward.rows import LAST, keys_and_values
from stretto.local_engine.model.loading.config_values import wrong_value
from stretto.values.errors import SettingsError

KINDS = ("gemma4_assistant", "gemma4_unified_assistant")
"""Values of ``model_type`` for assistants."""


def _config(folder: Path) -> Any:
    """Return the configuration of an assistant.

    All layers of an assistant reuse the keys and values of its model. transformers 5.23 refuses models in which all
    layers do, and so its own assistants. The returned configuration states explicitly that each layer reuses them.
    """
    config: Any = transformers.AutoConfig.from_pretrained(folder)
    text, kind = config.get_text_config(), type(config.get_text_config())
    try:
        _ = text.kv_sharing_modes
    except ValueError:
        modes = property(lambda own: ["reuse"] * own.num_hidden_layers)
        text.__class__ = type(kind.__name__, (kind,), {"kv_sharing_modes": modes})  # models are found by this name
    return config


class GemmaAssistant:
    """Runs transformers' code of an assistant: each token is drafted from the previous one and its state.

    It has no keys and values itself. All its layers attend to those of the model's last layer of each kind, from the
    position of the last committed token, however far ahead it drafts.

    Args:
        model: model of transformers that the assistant was trained for.
        head: folder of the assistant.
        target: the model, as its heads see it.

    Raises `SettingsError` if transformers cannot read it or it does not fit.
    """

    kind = "gemma4_assistant"
    words: Tensor | None = None
    foresees: int | None = None

    def __init__(self, model: Any, head: HeadFolder, target: Target) -> None:
        config, folder = model.config.get_text_config(decoder=True), head.path
        kinds = getattr(config, "layer_types", None) or ()
        modes = getattr(config, "kv_sharing_modes", None) or (None,) * len(kinds)
        # The last layer of each kind that makes keys and values.
        shared = {kind: layer for layer, (kind, mode) in enumerate(zip(kinds, modes, strict=True)) if mode != "reuse"}
        try:
            read: Any = transformers.AutoModelForCausalLM.from_pretrained(
                folder, config=_config(folder), dtype=model.dtype
            )
        except Exception as error:
            text_config = head.config.get("text_config")
            wrong = wrong_value(text_config if isinstance(text_config, dict) else head.config)
            cause = f"run: {wrong}" if wrong else f"read by transformers ({type(error).__name__}: {error})"
            raise SettingsError(f"The head in {str(folder)!r} cannot be {cause}.") from error
        own = read.config.get_text_config()
        if (
            not set(own.layer_types) <= shared.keys()
            or getattr(config, "per_layer_config", None) is None
            or read.config.backbone_hidden_size != target.hidden
            or own.vocab_size != target.vocabulary
        ):
            raise SettingsError(
                f"The head in {str(folder)!r} does not fit {target.name}: it was made for a Gemma 4 with states of "
                f"{read.config.backbone_hidden_size} numbers and {own.vocab_size} tokens."
            )
        self.layers = (LAST, *(keys_and_values(layer) for layer in shared.values()))
        sizes = [config.per_layer_config[layer] for layer in shared.values()]
        self.shapes = {
            kind: (size.num_key_value_heads, size.head_dim) for kind, size in zip(shared, sizes, strict=True)
        }
        """Number of heads and width of the keys of each kind of layer, in the order of `layers`."""
        self._assistant, self.target = read.to(model.device).eval().requires_grad_(False), target

    def reader(self) -> _GemmaReader:
        return _GemmaReader(self)

    def run(
        self, tokens: Tensor, states: Tensor, position: int, pairs: dict[str, tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Draft after tokens, independently of each other.

        Args:
            tokens: token ids # [rows]
            states: state before each token # [rows, hidden]
            position: position of the last committed token.
            pairs: keys and values by kind of layer # [1, num_kv_heads, kv_len, head_dim]

        Returns:
            states for the tokens that follow, and logits # [rows, hidden], [rows, vocabulary]
        """
        count = len(tokens)
        vectors = self.target.embed(tokens[:, None])
        output = self._assistant(
            inputs_embeds=torch.cat((vectors, states[:, None].to(vectors.dtype)), -1),
            position_ids=torch.full((count, 1), position, device=tokens.device),
            shared_kv_states={
                kind: tuple(each.expand(count, -1, -1, -1) for each in both) for kind, both in pairs.items()
            },
        )
        return output.last_hidden_state[:, 0], output.logits[:, 0]


class _GemmaReader:
    """Reader of one sequence, with the model's keys and values."""

    sure: Sequence[float] | None = None
    begins = 0

    def __init__(self, head: GemmaAssistant) -> None:
        self._head = head
        self._read = 0
        self._token = 0
        self._state = torch.empty(0)  # [hidden]
        self._new: list[Tensor] = []  # keys and values of all kinds, concatenated # [rows, numbers]
        self._keys_and_values: dict[str, tuple[Tensor, Tensor]] = {}
        self._given: list[Tensor] = []  # states after the text and the nodes that were followed # [hidden]

    def read(self, tokens: Sequence[int], states: Tensor) -> None:
        hidden = self._head.target.hidden
        self._token, self._state = tokens[-1], states[-1, :hidden]
        self._new.append(states[:, hidden:])
        self._read += len(states)

    def first(self) -> Tensor:
        self._look()
        self._given = []
        return self._follow([self._token], [self._state])

    def after(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        return self._follow(tokens, [self._given[parent + 1] for parent in parents])

    def _follow(self, tokens: Sequence[int], states: Sequence[Tensor]) -> Tensor:
        ids = torch.tensor(tokens, device=self._state.device)
        given, logits = self._head.run(ids, torch.stack([*states]), self.begins + self._read, self._keys_and_values)
        self._given += given
        return logits

    def _look(self) -> None:
        """Append new keys and values to those seen already."""
        if not self._new:
            return
        whole, self._new = torch.cat(self._new), []
        for kind, (heads, width) in self._head.shapes.items():
            own, whole = whole[:, : 2 * heads * width], whole[:, 2 * heads * width :]
            both = own.view(len(own), 2, 1, heads, width).permute(1, 2, 3, 0, 4)  # [2, 1, heads, rows, width]
            keys, values = (
                both
                if kind not in self._keys_and_values
                else torch.cat((torch.stack(self._keys_and_values[kind]), both), 3)
            )
            self._keys_and_values[kind] = keys, values
