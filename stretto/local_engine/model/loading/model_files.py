"""Reads a model and its tokenizer from files; what does not fit together is refused, never filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from stretto.local_engine.failures import out_of_memory
from stretto.local_engine.model.formats.gguf_fields import llamacpp_offer
from stretto.local_engine.model.formats.gguf_file import read_gguf
from stretto.local_engine.model.loading.misfits import misfit
from stretto.local_engine.model.loading.source import Source
from stretto.values.errors import ModelNotFoundError, StrettoError

if TYPE_CHECKING:
    from stretto.local_engine.model.quantised.quantisation import StoredBlocks

__all__ = ["read_model"]


def read_model(
    source: Source,
    dtype: torch.dtype | str,
    *,
    trust_remote_code: bool,
    blocks: bool = False,
) -> tuple[Any, Any, StoredBlocks[Any] | None]:
    """Read a causal language model, from safetensors or a GGUF file only, and its tokenizer.

    ``blocks``: see `read_gguf`, which also says what is returned beside the two. ``dtype`` may be ``auto``, for that of
    a folder's files, and bfloat16 for a GGUF file.

    Raises `ModelNotFoundError` for what cannot be read or does not fit together, `MissingDependencyError` for an
    adapter without peft and for quantised weights without what they need, and `BackendError` for such that cannot run
    here. Where memory runs out, it raises what torch or Python raise.
    """
    if source.file is not None:
        return _from_file(source, torch.bfloat16 if dtype == "auto" else dtype, blocks=blocks)
    from stretto.local_engine.model.loading.weights import read_folder  # noqa: PLC0415 - slow

    return *read_folder(source, dtype, trust_remote_code=trust_remote_code), None


def _from_file(source: Source, dtype: Any, *, blocks: bool) -> tuple[Any, Any, StoredBlocks[Any] | None]:
    assert source.file is not None  # noqa: S101 - the caller has checked; for the type checker
    try:
        model, tokenizer, found, stored = read_gguf(source, dtype, blocks=blocks)
    except StrettoError:
        raise
    except Exception as error:  # transformers raises what its parts raise
        if out_of_memory(error):
            raise
        raise ModelNotFoundError(
            f"The file {source.where!r} could not be loaded as a causal language model: "
            f"{' '.join(str(error).split())[:300] or type(error).__name__}. Copy or download it again. "
            f"{llamacpp_offer(source.file)}",
            backend=source.name,
        ) from error
    if problem := misfit(found):
        raise ModelNotFoundError(
            f"The weights in {source.where!r} do not fit what it says of its model: {problem}. Copy or download it "
            f"again. {llamacpp_offer(source.file)}",
            backend=source.name,
        )
    return model, tokenizer, stored
