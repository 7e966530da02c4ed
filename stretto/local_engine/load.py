"""From a model's name to a model that the engine can run, with its tokenizer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import transformers

from stretto.errors import BackendError, ModelNotFoundError, SettingsError
from stretto.local_engine.compiled.trial import can_choose
from stretto.local_engine.drafting.rehearsal import rehearse
from stretto.local_engine.dtype import chosen_dtype
from stretto.local_engine.forward import Forward, TransformersForward, disagreement
from stretto.local_engine.llama import LlamaForward, is_llama_like
from stretto.local_engine.recording import recorded, refuse_elsewhere
from stretto.local_engine.source import Source

__all__ = ["LoadedModel", "load_model", "prepare"]

_log = logging.getLogger(__name__)

_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-2}  # rotations are computed in float32 everywhere
_LONGEST_WINDOW = 2**20
_WEIGHTS_PER_THREAD = 2**23


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory.

    Attributes:
        name: as the user wrote it, with ``local:``.
        forward: runs it.
        tokenizer: transformers' tokenizer.
        decode: token ids to text, without special tokens.
        device: where the weights are.
        dtype: of its weights.
        context_window: tokens that prompt and answer may fill together.
        vocabulary: token ids are below this.
        end_ids: tokens that end an answer.
        cache_tokens: tokens of all requests together whose keys and values fit into memory.
        sampling: the model's own temperature, top_p, top_k and min_p, where it recommends sampling.
        threads: of torch that its size is worth; ``None`` on a GPU.
        folder: it was loaded from; ``None`` for a hub name.
    """

    name: str
    forward: Forward
    tokenizer: Any
    decode: Callable[[Sequence[int]], str]
    device: torch.device
    dtype: torch.dtype
    context_window: int
    end_ids: frozenset[int]
    vocabulary: int = 2**62
    cache_tokens: int = 2**62
    sampling: dict[str, float] = field(default_factory=dict)
    threads: int | None = None
    folder: Path | None = None
    _words: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_exact(self) -> bool:
        """Whether no rounding depends on the other rows of a forward so far that an answer could differ by it."""
        exact = isinstance(self.forward, LlamaForward) and self.forward.is_exact
        return exact or self.dtype in (torch.float32, torch.float64)

    def word(self, token: int) -> str:
        """The text of one token, special ones too, with the space it may begin with."""
        if (known := self._words.get(token)) is None:
            # Many tokenizers drop a space at the beginning of what they decode; so it is decoded behind itself.
            decode = self.tokenizer.decode
            once, twice = (decode([token] * times, clean_up_tokenization_spaces=False) for times in (1, 2))
            known = self._words[token] = twice[len(once) :]
        return known


def load_model(
    source: Source,
    *,
    dtype: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    packed: bool = True,
    cuda_graphs: bool | None = None,
) -> LoadedModel:
    """Load a causal language model; from safetensors files only.

    Args:
        source: which one.
        dtype: of the weights: a name torch knows, such as ``float32``; by default bfloat16 where the machine computes
            in it, else float32. How much of a forward is computed in it: see `docs/decoding.md`.
        device: a name torch knows; by default ``cuda`` where there is one, else ``cpu``.
        trust_remote_code: run Python code that came with the model.
        packed: lay the weights out as the processor reads them, where it can; not for training.
        cuda_graphs: record steps while loading, and repeat them as a whole; see `stretto.local_engine.graphs`. By
            default on a CUDA device.

    Raises `ModelNotFoundError`, `BackendError` and `SettingsError`.
    """
    place = _device(device)
    number = chosen_dtype(dtype, place)
    options = {"trust_remote_code": trust_remote_code}
    try:
        with _quietly():
            # First, because it says best what is wrong with a folder, and a hub is waited for in vain only once.
            transformers.AutoConfig.from_pretrained(source.where, **options)
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.where, **options)
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                source.where, dtype=number, use_safetensors=True, **options
            )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _not_loaded(source, error) from error
    ready = prepare(source.name, model.to(place), tokenizer, packed=packed, cuda_graphs=cuda_graphs)
    return replace(ready, folder=source.folder)


def prepare(
    name: str, model: Any, tokenizer: Any, *, packed: bool = True, cuda_graphs: bool | None = None
) -> LoadedModel:
    """Make a transformers model and tokenizer ready for the engine.

    Raises `BackendError` if it cannot run it, `SettingsError` for CUDA graphs on another device.
    """
    refuse_elsewhere(cuda_graphs, model.device)
    model.eval().requires_grad_(False)
    config = model.config.get_text_config(decoder=True)
    forward = _forward(name, model, packed=packed)
    if packed:  # what is compiled is so here rather than in the first request
        rehearse()
        if model.device.type == "cpu":
            can_choose()
    kept = forward.dtype if isinstance(forward, LlamaForward) else model.dtype
    cache_tokens = _free_bytes(model.device) // _bytes_per_token(config, kept)
    limit, longest = _TOLERANCE.get(model.dtype, 0.5), _context_window(config)
    forward, cache_tokens = recorded(
        forward, model.device, wanted=cuda_graphs, tolerance=limit, slots=cache_tokens, longest=longest
    )
    return LoadedModel(
        name=name,
        forward=forward,
        tokenizer=tokenizer,
        decode=_decoder(tokenizer),
        device=model.device,
        dtype=model.dtype,
        context_window=_context_window(config),
        vocabulary=config.vocab_size,
        end_ids=_end_ids(model, tokenizer),
        cache_tokens=cache_tokens,
        sampling=_sampling(model),
        threads=_threads(model),
    )


def _forward(name: str, model: Any, *, packed: bool) -> Forward:
    """Choose the fastest forward that agrees with the model."""
    limit = _TOLERANCE.get(model.dtype, 0.5)
    lean = _lean(model, limit, packed=packed) if is_llama_like(model) else None
    if lean is not None:
        return lean
    with torch.inference_mode():
        try:
            general = TransformersForward(model)
            gap = disagreement(model, general)
        except (ValueError, TypeError, AttributeError, RuntimeError, IndexError) as error:
            raise BackendError(f"{name} cannot be run by the local engine: {error}.", backend=name) from error
    if gap < limit:
        return general
    raise BackendError(
        f"{name} cannot be run by the local engine: with a cache and a mask {type(model).__name__} gives other "
        f"logits than without (off by {gap:.2g} standard deviations). Choose a model of plain attention layers.",
        backend=name,
    )


def _lean(model: Any, limit: float, *, packed: bool) -> Forward | None:
    """The lean forward, if it agrees with the model to the ``limit``; packed, if it does so then.

    It is checked because a model may look like the family and differ in something that its configuration hides, and,
    where steps are compiled, because no processor is like the other. It is made outside inference mode: what is made
    there cannot be used where something is trained on top of the model.
    """
    lean = LlamaForward(model)
    if packed:
        try:
            lean.pack()
            with torch.inference_mode():
                gap = disagreement(model, lean)
            if gap < limit:
                return lean
            _log.warning("packed weights are not used: logits are off by %.2g standard deviations", gap)
        except Exception as error:  # noqa: BLE001 - a compiler that fails must not keep the model from running
            _log.warning("packed weights are not used: %s", error)
        lean = LlamaForward(model)
    with torch.inference_mode():
        return lean if disagreement(model, lean) < limit else None


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise SettingsError(f"device={name!r} is no device torch knows. Use cpu, cuda or cuda:0.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device={name!r} cannot be used: torch sees no CUDA device. Use cpu.")
    return device


@contextmanager
def _quietly() -> Iterator[None]:
    """Without progress bars, and without a line for each attempt to reach the hub: the error says it once."""
    shown = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # not typed there
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub.setLevel(level)
        if shown:
            transformers.utils.logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # not typed there


def _not_loaded(source: Source, error: Exception) -> BackendError:
    said = str(error).strip() or type(error).__name__
    if source.folder is not None:
        cause = " ".join(said.partition("\n\n")[0].split())
        return ModelNotFoundError(
            f"The folder {str(source.folder)!r} could not be loaded as a causal language model with safetensors "
            f"weights and a tokenizer: {cause} Give one that save_pretrained wrote, of the model and of its tokenizer.",
            backend=source.name,
        )
    return ModelNotFoundError(
        f"{source.hub_name!r} could not be loaded from the hub: {said.splitlines()[0]} "
        "Check the name and the connection, or give a folder: local:./folder.",
        backend=source.name,
    )


def _decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """Find the shortest way from ids to text: transformers' own wrapper costs more than a step of a small model."""
    # The first call may switch truncation off inside the tokenizer, which another thread must not be reading then.
    tokenizer("")
    inner = getattr(tokenizer, "backend_tokenizer", None)
    if inner is None or not hasattr(inner, "decode"):
        return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True))
    return lambda ids: str(inner.decode(ids, skip_special_tokens=True))


def _context_window(config: Any) -> int:
    for key in ("max_position_embeddings", "n_positions", "n_ctx"):
        if isinstance(window := getattr(config, key, None), int):
            return window
    return _LONGEST_WINDOW


def _end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    found: set[int] = set()
    for ids in (model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id):
        found.update(ids if isinstance(ids, list | tuple) else () if ids is None else (ids,))
    return frozenset(found)


def _sampling(model: Any) -> dict[str, float]:
    own = model.generation_config
    if not own.do_sample:
        return {}
    given = {key: getattr(own, key, None) for key in ("temperature", "top_p", "top_k", "min_p")}
    return {"temperature": 1.0} | {key: value for key, value in given.items() if value is not None}


def _threads(model: Any) -> int | None:
    """Say how many threads share a step; for a small model, meeting takes longer than reading its weights.

    What is compiled takes more by itself, see `stretto.local_engine.compiled.crew`.
    """
    if model.device.type != "cpu":
        return None
    weights: int = sum(parameter.numel() for parameter in model.parameters())
    return max(1, min(torch.get_num_threads(), weights // _WEIGHTS_PER_THREAD))


def _bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    stored = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * config.num_hidden_layers * stored * width * dtype.itemsize)


def _free_bytes(device: torch.device) -> int:
    """Memory the cache may take; half of what is free, because growing it holds the old and the new for a moment."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (ValueError, OSError, AttributeError):
        return 2**33
