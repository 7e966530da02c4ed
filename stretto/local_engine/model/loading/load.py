"""Loads a model that the engine can run, with its tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from stretto.local_engine.failures import out_of_memory
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.compiler import are_ready, can_compile, compile_now
from stretto.local_engine.model.formats.gguf_fields import llamacpp_offer
from stretto.local_engine.model.formats.gguf_file import read_gguf
from stretto.local_engine.model.formats.gguf_plain import PlainModel
from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.graphs.recorded_steps import recorded, refuse_elsewhere
from stretto.local_engine.model.loading import recommended
from stretto.local_engine.model.loading.dtype import chosen_dtype
from stretto.local_engine.model.loading.fitting import (
    bytes_in_blocks,
    check_room,
    does_not_fit,
    fitting_requests,
    free_bytes,
    weights_of,
)
from stretto.local_engine.model.loading.loading_progress import step
from stretto.local_engine.model.loading.memory import give_back, older_objects_kept
from stretto.local_engine.model.loading.misfits import misfit
from stretto.local_engine.model.loading.numerics_check import Expected, choose_forward, disagreement, tolerance
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.model.quantised.acceptance import NotInBlocksError, Partial, in_blocks
from stretto.local_engine.model.quantised.comparison import Comparison
from stretto.local_engine.model.quantised.quantisation import Quantisation, StoredBlocks, rounding
from stretto.local_engine.research_registry import block_models
from stretto.local_engine.text.chat_template import ChatTemplate
from stretto.local_engine.text.detokenize import decoder
from stretto.local_engine.text.vocabulary import token_bytes
from stretto.markup.forms import MarkupForm, form_of
from stretto.values.errors import ModelNotFoundError, SettingsError, StrettoError

if find_spec("transformers") is None:  # not every model needs it, so it is imported late
    raise ModuleNotFoundError("No module named 'transformers'", name="transformers")

_log = logging.getLogger(__name__)

_ONE_THREAD_LOADS = 2**28  # weights
_LONGEST_WINDOW = 2**20
_SHORTEST_WINDOW = 2  # one token of a prompt and one of an answer
_WEIGHTS_PER_THREAD = 2**23


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory.

    Provisional: it may change in any release.

    Attributes:
        name: as the user wrote it, with ``local:``.
        forward: runs the model.
        tokenizer: transformers' tokenizer, or a compatible one.
        decode: token ids to text, without special tokens other than marks of thoughts and calls.
        token_bytes: the bytes of a token; ``None`` if they cannot be read.
        diffusion: how it writes blocks of tokens at once; ``None`` for a model that writes from left to right.
        compiled: whether an engine runs compiled code; ``None``: as soon as there is some.
        unpacked: switches the forward to compiled code that was not ready when the model was loaded.
        comparison: compares it with transformers after the first answer.
        device: where the weights are.
        dtype: of its weights.
        context_window: maximum tokens of prompt and answer together.
        vocabulary: upper bound of token ids, exclusive.
        end_ids: tokens that end an answer, according to its files; see `ends`.
        cache_tokens: total tokens of all requests whose keys and values fit into memory.
        token_size: bytes of the keys and values of one token.
        sampling: the model's own sampling fields of `Generation`; without ``temperature`` it does not sample.
        penalties: the model's own fields of `Generation` that change logits, such as ``repetition_penalty``.
        threads: number of torch threads that pay off for its size; ``None`` on a GPU.
        folder: from which it was loaded; ``None`` for a hub name.
        file: the GGUF file from which it was loaded.
        changed: whether something was added to its weights, for which other files next to them were not trained.
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
    token_size: int = 0
    sampling: dict[str, float] = field(default_factory=dict)
    penalties: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None
    folder: Path | None = None
    file: Path | None = None
    changed: bool = False
    token_bytes: Callable[[int], bytes] | None = None
    diffusion: BlockForm | None = None
    compiled: bool | None = True
    unpacked: Unpacked | Partial | None = None
    comparison: Comparison | None = None
    _words: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def chat(self) -> ChatTemplate:
        """Encodes messages as prompts of this model."""
        return ChatTemplate(self.name, self.tokenizer)

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer: `end_ids`, and the one with which its chat template ends a turn.

        A model trained with the template ends its turn so. The first call renders the template.
        """
        return self.end_ids | self.chat.end_of_turn()

    @cached_property
    def form(self) -> MarkupForm:
        """The marks that it puts around thoughts and calls."""
        return form_of(self.chat.template)

    @property
    def runs_alone(self) -> bool:
        """Whether requests take turns within each step and drafts are cut to chains: see `docs/models.md`."""
        return self.forward.alone

    @property
    def is_exact(self) -> bool:
        """Whether rounding cannot change an answer, whatever other rows are in a forward."""
        return self.forward.is_exact or self.dtype in (torch.float32, torch.float64)

    def fitting_requests(self) -> str:
        """Return sentences on what fits into memory next to the model now."""
        return fitting_requests(self.device, self.token_size, self.dtype, self.context_window)

    def free(self) -> None:
        """Drop the weights at once, even if others, such as an error, still reference this. It cannot run any more."""
        for each in (getattr(self.forward, "plain", None), self.forward, self.unpacked, self.comparison):
            if each is not None:
                vars(each).clear()
        vars(self).pop("chat", None)  # its template process ends with the last model that uses it

    def word(self, token: int) -> str:
        """Return the text of one token, special ones too, with its leading space."""
        if (known := self._words.get(token)) is None:
            # Many tokenizers drop a leading space, so the token is decoded after itself.
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
    compiled: bool | None = True,
    cuda_graphs: bool | None = None,
    change: Callable[[Mapping[str, torch.Tensor]], None] | None = None,
    quantize: str | None = None,
) -> LoadedModel:
    """Load a causal language model; from safetensors or GGUF files only.

    Provisional: it may change in any release.

    Args:
        source: the model to load.
        dtype: of the weights: a name torch knows, such as ``float32``; by default bfloat16 where the machine computes
            in it, else float32. How much of a forward is computed in it: see `docs/decoding.md`.
        device: a name torch knows; by default ``cuda`` where there is one, else ``cpu``.
        trust_remote_code: run Python code that comes with the model.
        packed: lay out the weights as the processor reads them, if possible; not for training.
        compiled: run compiled code, and wait for the compiler the first time on a machine; ``False``: none; ``None``:
            on a CPU run torch's operations until it is ready, on a GPU none.
        cuda_graphs: record steps while loading, and replay each as a whole; see `recorded_steps.py`. By default on a
            CUDA device.
        change: is called with the weights by name, to change them in place before they are laid out.
        quantize: ``int8`` or ``int4`` rounds the weights of the products, ``none`` unpacks those of a GGUF file. By
            default these keep the file's format, unless a dtype or a change is given. Only in compiled code on a CPU.

    Raises `ModelNotFoundError`, `MissingDependencyError`, `BackendError` and `SettingsError`.
    """
    target, rounded_to = _device(device), None if quantize == "none" else quantize
    compiles = packed and compiled is not False and target.type == "cpu"
    if rounded_to and not compiles:
        _log.warning(
            "%s is not kept quantised in memory: quantize=%s needs compiled code on a CPU", source.name, rounded_to
        )
    few_bits = compiles and can_compile()
    plan = _Plan(
        dtype=chosen_dtype(dtype, target),
        device=target,
        stored=few_bits and source.file is not None and quantize is None and dtype is None and change is None,
        rounded_to=rounded_to if few_bits else None,
        change=change,
        trust_remote_code=trust_remote_code,
        packed=packed,
        compiled=compiled,
        cuda_graphs=cuda_graphs,
    )
    ready: LoadedModel | None = None
    failure: StrettoError | None = None
    with older_objects_kept():
        while ready is None:
            check_room(source, torch.bfloat16 if plan.rounded_to else plan.dtype, target, stays=plan.stored)
            try:
                ready = _loaded(source, plan)
            except NotInBlocksError as error:
                _log.warning(
                    "%s is unpacked, since products with weights in few bits fail here: %s", source.name, error
                )
                plan = replace(plan, stored=False, rounded_to=None)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                weights = 0 if plan.stored else weights_of(source)  # for stored weights, the file's size says more
                failure = does_not_fit(source.name, weights, plan.dtype, target)
            give_back()  # not before: the frames of a raised error keep the weights alive
            if failure is not None:
                raise failure
    return ready


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """The decisions made before anything is read; see `load_model`.

    Attributes:
        dtype: of weights that are not low-bit.
        stored: weights keep the low-bit format of the file, to which no change can be added.
        rounded_to: ``int8`` or ``int4`` for weights that are rounded after they are read as bfloat16.
    """

    dtype: torch.dtype
    device: torch.device
    stored: bool
    rounded_to: str | None
    change: Callable[[Mapping[str, torch.Tensor]], None] | None
    trust_remote_code: bool
    packed: bool
    compiled: bool | None
    cuda_graphs: bool | None


def _loaded(source: Source, plan: _Plan) -> LoadedModel:
    """Carry out a plan. Raises `NotInBlocksError`, and the errors of `read_model` and `prepare`."""
    name, dtype, diffusion = source.name, plan.dtype, None
    size = bytes_in_blocks(source) if plan.stored else dtype.itemsize * weights_of(source)
    takes = round(size / 1e9, 2) if size else None
    step(name, "reading the weights", takes_gb=takes, free_gb=round(free_bytes(plan.device) / 1e9, 2))
    model, tokenizer, stored = read_model(
        source, "auto" if plan.rounded_to else dtype, trust_remote_code=plan.trust_remote_code, blocks=plan.stored
    )
    if plan.change is not None:
        plan.change(dict(model.named_parameters()))
    quantisation: Quantisation | None = rounding(plan.rounded_to, model, name) if plan.rounded_to else stored
    if plan.rounded_to and quantisation is None and model.dtype != dtype:
        model = model.to(dtype)
    if model.device != plan.device:  # some quantised models cannot be moved
        model = model.to(plan.device)
    if source.file is None:
        from stretto.local_engine.model.loading.weights import block_form  # noqa: PLC0415 - slow

        diffusion = block_form(source)
    ready = prepare(
        name,
        model,
        tokenizer,
        packed=plan.packed,
        compiled=plan.compiled,
        cuda_graphs=plan.cuda_graphs,
        owned=True,
        quantisation=quantisation,
        diffusion=diffusion,
    )
    return replace(ready, folder=source.folder, file=source.file, changed=plan.change is not None)


def read_model(
    source: Source,
    dtype: torch.dtype | str,
    *,
    trust_remote_code: bool,
    blocks: bool = False,
) -> tuple[Any, Any, StoredBlocks[Any] | None]:
    """Read a causal language model and its tokenizer, from safetensors or a GGUF file only.

    ``blocks``: see `read_gguf`, which also describes the third value returned. ``dtype`` can be ``auto``: the type of a
    folder's files, and bfloat16 for a GGUF file.

    Raises `ModelNotFoundError` for files that cannot be read or do not fit together, `MissingDependencyError` for an
    adapter without peft and for quantised weights without the packages they need, and `BackendError` for quantised
    weights that cannot run here. If memory runs out, it raises the errors of torch or Python.
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
    except Exception as error:  # transformers raises whatever its parts raise
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


def prepare(
    name: str,
    model: Any,
    tokenizer: Any,
    *,
    packed: bool = True,
    compiled: bool | None = True,
    cuda_graphs: bool | None = None,
    owned: bool = False,
    quantisation: Quantisation | None = None,
    diffusion: BlockForm | None = None,
) -> LoadedModel:
    """Prepare a transformers model and tokenizer for the engine; see `load_model`.

    ``owned``: nobody else runs the model, so its weights can be freed. ``quantisation``: how they are stored in few
    bits. ``diffusion``: how it writes blocks.

    Raises `BackendError` if the model cannot be run, `NotInBlocksError` if it cannot with low-bit weights, and
    `SettingsError` for CUDA graphs on another device.
    """
    refuse_elsewhere(cuda_graphs, model.device)
    model.eval().requires_grad_(False)
    config = model.config.get_text_config(decoder=True)
    penalties, sampling = recommended.penalties(name, model, config.vocab_size), recommended.sampling(name, model)
    window, blocks = _context_window(name, config), None if diffusion is None else block_models()
    # With blocks torch multiplies nothing large, and OpenMP threads spin while they wait for each other
    threads = _threads_of(model) if quantisation is None else 1
    compiles = False if compiled is None and model.device.type != "cpu" else compiled
    ready = compile_now if compiles else are_ready
    with _threads_of_loading(model):
        if diffusion is not None and blocks is not None and diffusion.canvas:
            forward: Forward = blocks.block_forward(model)
        elif quantisation is not None:
            step(name, "laying out the weights")
            forward = in_blocks(name, model, quantisation, ready)
        else:
            step(name, "comparing it with transformers")
            forward = choose_forward(name, model, packed=packed and compiles is not False, ready=ready, owned=owned)
    lean = forward if isinstance(forward, LlamaForward) else None
    form = diffusion
    if diffusion is not None and blocks is not None:
        form = blocks.checked_form(name, diffusion, forward, config.vocab_size, tokenizer)
        window = window // form.block * form.block if form.sight == "block" else window
    limit = tolerance(model.dtype)
    unpacked = _unpacked(model, lean, limit, owned=owned) if packed and compiles is None else None
    comparison = None
    if quantisation is not None and lean is not None:
        in_transformers = model.in_transformers if isinstance(model, PlainModel) else lambda: model
        comparison = Comparison(name, in_transformers, lean, quantisation.key)
    # After the switch to compiled code, keys and values are stored in float32
    kept = torch.float32 if unpacked is not None else model.dtype if lean is None else lean.dtype
    token_size, mapped = _bytes_per_token(config, kept), 0 if lean is None else lean.weights.mapped
    # Growing the cache needs the old and the new one for a moment
    slots = max(0, free_bytes(model.device) - mapped) // 2 // token_size
    longest = min(window, forward.longest or _LONGEST_WINDOW)
    recorded_forward, cache_tokens = recorded(
        forward, model.device, wanted=blocks is None and cuda_graphs, tolerance=limit, slots=slots, longest=longest
    )
    return LoadedModel(
        name=name,
        forward=recorded_forward,
        tokenizer=tokenizer,
        decode=decoder(tokenizer, form_of(getattr(tokenizer, "chat_template", None)).marks),
        device=model.device,
        dtype=model.dtype,
        context_window=longest,
        vocabulary=config.vocab_size,
        end_ids=recommended.end_ids(name, model, tokenizer),
        cache_tokens=cache_tokens,
        token_size=token_size,
        sampling=sampling,
        penalties=penalties,
        threads=threads,
        token_bytes=token_bytes(tokenizer),
        diffusion=form,
        compiled=compiles,
        unpacked=unpacked,
        comparison=comparison,
    )


def _unpacked(model: Any, forward: LlamaForward | None, limit: float, *, owned: bool) -> Unpacked | Partial | None:
    """Return what switches a forward to compiled code later; ``None`` if it has none or runs it already."""
    if forward is None or forward.compiled is not None or not (parts := forward.parts()):
        return None
    if forward.is_packed:
        return Partial(forward, parts) if forward.weights.quantisation is not None else None
    return Unpacked(model, forward, parts, limit, owned=owned)


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise SettingsError(f"device={name!r} is no device torch knows. Use cpu, cuda or cuda:0.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(f"device={name!r} cannot be used: torch sees no CUDA device. Use cpu.")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).partition("\n")[0].rstrip(".")
        raise SettingsError(f"device={name!r} cannot be used: {cause}. Use another device, such as cpu.") from error
    return device


@contextmanager
def _threads_of_loading(model: Any) -> Iterator[None]:
    """Compare models that are not large with transformers in one thread.

    OpenMP threads spin while they wait for each other. Alongside other programs that took ten times as long as one
    thread, which needs less than a second here.
    """
    before = torch.get_num_threads()
    alone = model.device.type == "cpu" and sum(weight.numel() for weight in model.parameters()) <= _ONE_THREAD_LOADS
    if alone:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if alone:
            torch.set_num_threads(before)


def _context_window(name: str, config: Any) -> int:
    """Return the context length from a model's configuration. Raises `ModelNotFoundError` if it is too small."""
    for key in ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"):
        if isinstance(window := getattr(config, key, None), int):
            if window < _SHORTEST_WINDOW:
                raise ModelNotFoundError(
                    f"{name} cannot be run: its config.json has {key}={window}, and a prompt with an answer needs "
                    f"{_SHORTEST_WINDOW} or more. Write the window there with which the model was trained.",
                    backend=name,
                )
            return window
    return _LONGEST_WINDOW


def _threads_of(model: Any) -> int | None:
    """Return how many threads share a step; in a small model, synchronising them takes longer than reading its weights.

    Compiled code decides for itself, see `stretto.local_engine.kernels.thread_team`.
    """
    if model.device.type != "cpu":
        return None
    weights: int = sum(parameter.numel() for parameter in model.parameters())
    return max(1, min(torch.get_num_threads(), weights // _WEIGHTS_PER_THREAD))


def _bytes_per_token(config: Any, dtype: torch.dtype) -> int:
    """Return the bytes of the keys and values of all layers, which can differ in their heads (Gemma 4)."""
    if getattr(config, "is_heterogeneous", False):
        layers = [config.per_layer_config[number] for number in range(config.num_hidden_layers)]
    else:
        layers = [config] * config.num_hidden_layers
    return sum(map(_width, layers)) * 2 * dtype.itemsize


def _width(layer: Any) -> int:
    """Return the number of elements in the keys of a token in one layer."""
    heads: int = layer.num_attention_heads
    head_dim: int = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    return (getattr(layer, "num_key_value_heads", None) or heads) * head_dim


class Unpacked:
    """Lays out a model's weights for compiled code once that is ready.

    Args:
        model: of transformers, whose weights the forward runs.
        forward: of the model.
        parts: of compiled code that the forward needs.
        limit: maximum difference of logits, in standard deviations.
        owned: nobody else runs the model, so its weights can be freed.
    """

    def __init__(self, model: Any, forward: LlamaForward, parts: Sequence[Part], limit: float, *, owned: bool) -> None:
        self.parts = tuple(parts)
        self._forward, self._limit, self._owned = forward, limit, owned
        with torch.inference_mode():
            self._waiting: tuple[Any, Expected] | None = (model, Expected.of(model))

    def pack(self) -> None:
        """Switch to compiled code, if that is ready and agrees with the model. No request may be running.

        Keys and values computed before cannot be used afterwards.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None or not are_ready(self.parts):
            return
        model, expected = waiting
        try:
            with torch.inference_mode(mode=False):
                self._forward.pack(model if self._owned else None)
            with torch.inference_mode():
                gap = disagreement(expected, self._forward)
            if gap < self._limit:
                return
            cause = f"logits are off by {gap:.2g} standard deviations"
        except Exception as error:  # noqa: BLE001 - the model continues as it was
            cause = f"{type(error).__name__}: {error}"
        with torch.inference_mode(mode=False):
            self._forward.unpack(model)
        _log.warning("packed weights are not used: %s", cause)
