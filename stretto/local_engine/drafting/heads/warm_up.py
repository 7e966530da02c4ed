"""What the compiled layer of a head needs."""

from __future__ import annotations

from stretto.local_engine.kernels.embedding import Embedding
from stretto.local_engine.kernels.parts import Part
from stretto.local_engine.kernels.sizes import BLOCKS

__all__ = ["are_in_blocks", "layer_part"]


def are_in_blocks(embedding: Embedding) -> bool:
    """Whether the model's input vectors are held in few bits."""
    return embedding.layout == BLOCKS


def layer_part(embedding: Embedding) -> Part:
    """What has to be compiled, by how the model's input vectors are held."""
    held = "blocks" if are_in_blocks(embedding) else "numbers"
    return Part(f"head-{held}", "stretto.local_engine.drafting.heads.trial:layer", (held,))
