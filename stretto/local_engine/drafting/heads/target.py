"""A head's view of the model that it drafts for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import LAST, LayerStates, Rows
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.local_engine.kernels.embedding import Embedding
    from stretto.local_engine.model.loading.load import LoadedModel


@dataclass(frozen=True, slots=True)
class Target:
    """A model, as its heads see it.

    Attributes:
        name: name of the model, for errors.
        hidden: width of a hidden state.
        layers: number of layers.
        vocabulary: token ids are below this.
        device: device of the weights.
        dtype: dtype that a head computes in; float32 on a CPU.
        embed: returns the input vectors of tokens # [...] -> [..., hidden]
        read_out: returns the logits of normalised final states # [..., hidden] -> [..., vocabulary]
        embedding: the input vectors for compiled code; ``None`` if none runs.
        owner: object that owns their memory, which can be packed again.
    """

    name: str
    hidden: int
    layers: int
    vocabulary: int
    device: torch.device
    dtype: torch.dtype
    embed: Callable[[Tensor], Tensor]
    read_out: Callable[[Tensor], Tensor]
    embedding: Embedding | None = None
    owner: object = None

    @classmethod
    def of(cls, model: LoadedModel) -> Target:
        """Return the view of a model. Raises `SettingsError` if its forward does not return hidden states."""
        forward: Any = getattr(model.forward, "plain", model.forward)  # on a GPU, recorded steps wrap it
        dtype = torch.float32 if model.device.type == "cpu" else model.dtype
        if isinstance(forward, LlamaForward):
            vocabulary, hidden, layers = forward.sizes
            embed: Any = forward.read_in
            read_out: Any = forward.read_out
            compiled = forward.compiled
        else:
            inner: Any = getattr(forward, "model", None)
            compiled = None
            embed = None if inner is None else inner.get_input_embeddings()
            read_out = None if inner is None else inner.get_output_embeddings()
            if embed is None or read_out is None:
                raise SettingsError(f"No head can draft for {model.name}: its input vectors cannot be looked up here.")
            config = inner.config.get_text_config(decoder=True)
            vocabulary, hidden, layers = config.vocab_size, config.hidden_size, config.num_hidden_layers
        embedding = None if compiled is None else compiled.embedding
        found = cls(model.name, hidden, layers, vocabulary, model.device, dtype, embed, read_out, embedding, compiled)
        found._try(forward)
        return found

    def _try(self, forward: Forward) -> None:
        """Read one token, to check that hidden states are returned.

        ``forward``: the model's forward without recorded steps, which belong to the engine's thread: this can be
        another one.
        """
        tokens, wanted = torch.zeros(1, 1, dtype=torch.long, device=self.device), LayerStates((0, LAST))
        try:
            with torch.inference_mode():
                rows = Rows(tokens, torch.zeros_like(tokens), 1, states=wanted)
                forward(rows, KeyValueCache(1), torch.zeros(1, dtype=torch.long, device=self.device))
            sizes = {states.shape[-1] for states in wanted.found.values()}
        except Exception as error:
            raise SettingsError(
                f"No head can draft for {self.name}: its forward hands out no hidden states "
                f"({type(error).__name__}: {error})."
            ) from error
        if sizes != {self.hidden}:
            raise SettingsError(f"No head can draft for {self.name}: its hidden states are not {self.hidden} wide.")
