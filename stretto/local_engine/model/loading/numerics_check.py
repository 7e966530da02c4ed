"""Chooses a forward that runs a model correctly: each is compared with the model itself before it is used.

transformers has hundreds of architectures. A configuration does not show whether a model supports a mask of draft
trees, batches of unequal lengths and a cache that keeps every slot. So this is tested at load, with a few dozen tokens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.kernels.compiling.compiled_parts import Part
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.forward import Forward
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.forward.rotary import switched_early
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.config_values import wrong_value
from stretto.values.errors import BackendError

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.transformers_forward import TransformersForward

_log = logging.getLogger(__name__)

_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-2}  # rotations are computed in float32 everywhere
_LENGTHS = (29, 17)  # tokens of the test texts
_WINDOW = 8  # instead of the model's own; both texts are longer
_SWITCH = 22  # instead of the model's own; one text is longer
_SIBLINGS = 8  # they put the slot of a node far from its position, to reveal a bias by slot
_EFFECT = 0.05  # standard deviations of the logits by which a smaller window must change them
_NOT_WINDOWS = frozenset({"max_window_layers", "chunk_size_feed_forward"})
_PLAIN = "Choose a model of plain attention layers; docs/models.md says which run."


def tolerance(dtype: torch.dtype) -> float:
    """Return the maximum difference of logits caused by rounding, in standard deviations."""
    return _TOLERANCE.get(dtype, 0.5)


def choose_forward(
    name: str,
    model: Any,
    *,
    packed: bool,
    ready: Callable[[Sequence[Part]], bool] = compile_now,
    owned: bool = False,
) -> Forward:
    """Choose the fastest forward that agrees with the model.

    The lean one is tried first, then transformers' own code with batches and draft trees, then that code with one
    sequence at a time. Raises `BackendError` if none agrees.

    Args:
        name: of the model.
        model: of transformers.
        packed: lay out the weights as the processor reads them, if possible.
        ready: returns whether the code for packed weights is compiled; it can compile it first.
        owned: nobody else runs the model, so weights are freed once they are packed, to store them only once.
    """
    limit = tolerance(model.dtype)
    lean = _lean(model, limit, packed=packed, ready=ready, owned=owned) if is_llama_like(model) else None
    if lean is not None:
        return lean
    from stretto.local_engine.model.forward.transformers_forward import TransformersForward  # noqa: PLC0415 - slow

    with torch.inference_mode():
        _check_plain(name, model)
        alone, cause = False, ""
        for alone in (False, True):
            cause = _objection(model, limit, TransformersForward, alone=alone)
            if not cause:
                break
            _log.debug("%s, alone=%s: %s", name, alone, cause)
    if cause:
        raise BackendError(f"{name} cannot be run by the local engine: {cause}. {_PLAIN}", backend=name)
    if alone:
        _log.warning(
            "%s runs one sequence at a time, and drafts are chains: %s adds something to the attention scores that "
            "batches and draft trees would get wrong.",
            name,
            type(model).__name__,
        )
    return TransformersForward(model, alone=alone)


def _lean(
    model: Any, limit: float, *, packed: bool, ready: Callable[[Sequence[Part]], bool], owned: bool
) -> Forward | None:
    """Return the lean forward if its logits are within ``limit`` of the model's; packed if those of the packed one are.

    It is checked because a model can look like the family and differ in something that its configuration hides, and
    because compiled code can fail on another processor. It is created outside inference mode: tensors created inside
    cannot be used for training on top of the model. The expected logits are computed before the weights are packed,
    because the model can lose them then.
    """
    try:
        with torch.inference_mode():
            expected = Expected.of(model)
    except Exception as error:  # noqa: BLE001 - `_check_plain` reports what is wrong with the model
        _log.debug("%s cannot read a short text: %s", type(model).__name__, error)
        return None
    for pack in (True, False) if packed else (False,):
        lean = None
        try:
            lean = LlamaForward(model)
            if pack:
                if not ready(lean.parts()):
                    continue
                lean.pack(model if owned else None)
            with torch.inference_mode():
                gap = disagreement(expected, lean)
            if gap < limit:
                return lean
            cause = f"logits are off by {gap:.2g} standard deviations"
        except Exception as error:  # noqa: BLE001 - a compiler that fails must not keep the model from running
            cause = f"{type(error).__name__}: {error}"
        if pack and owned and lean is not None:
            lean.unpack(model)
        _log.warning("%s not used: %s", "packed weights are" if pack else "the forward of the Llama family is", cause)
    return None


def _check_plain(name: str, model: Any) -> None:
    """Check that the model runs at all. Raises `BackendError`."""
    try:
        logits = model(input_ids=_texts(model)[1][None], use_cache=False).logits
    except Exception as error:
        raise BackendError(
            f"{name} cannot be run: {type(model).__name__} of transformers fails on a short text "
            f"({type(error).__name__}: {_line(error)}). Check that its config.json is the one it was published with, "
            "and try another version of transformers.",
            backend=name,
        ) from error
    if not logits.isfinite().all():
        raise BackendError(
            f"{name} cannot be run: it computes NaN or infinite numbers for a short text. {_no_number(model)}",
            backend=name,
        )


def _no_number(model: Any) -> str:
    """Return sentences on what is wrong with a model whose logits are not finite."""
    if wrong := wrong_value(model.config.get_text_config(decoder=True).to_dict()):
        return f"{wrong[0].upper()}{wrong[1:]}. Take the config.json that the model was published with."
    weight = next((name for name, each in model.named_parameters() if not each.isfinite().all()), None)
    if weight is not None:
        return f"Its weight {weight} holds such a number, so the file is damaged. Copy or download it again."
    dtype = str(model.dtype).removeprefix("torch.")
    return f"Its numbers grow too large for {dtype}: choose dtype='float32', or copy or download it again."


def _objection(model: Any, limit: float, forward: type[TransformersForward], *, alone: bool) -> str:
    """Return why the model cannot be run this way; empty if the forward agrees with the model."""
    config = model.config.get_text_config(decoder=True)
    try:
        with _narrowed(model, config) as fixed, switched_early(config, _SWITCH):
            if fixed and not alone:
                return f"its {fixed} cannot be checked, since it is fixed when the model is built"
            gap = disagreement(Expected.of(model), forward(model, alone=alone))
    except ValueError as error:
        return _line(error)
    except Exception as error:  # noqa: BLE001 - whatever the model's code raises, it cannot be run this way
        return (
            f"{type(model).__name__} cannot use the engine's key-value cache and mask "
            f"({type(error).__name__}: {_line(error)})"
        )
    if gap < limit:
        return ""
    return (
        f"with a cache and a mask {type(model).__name__} gives other logits than without "
        f"(off by {gap:.2g} standard deviations)"
    )


@contextmanager
def _narrowed(model: Any, config: Any) -> Iterator[str]:
    """Make the windows of the attention layers smaller than a short text.

    Yields the name of a window for which that has no effect, or an empty text. Such a model built its mask when it was
    created, and no short text can show whether the engine has the same mask.
    """
    longest = getattr(config, "max_position_embeddings", None) or 2**62
    kinds = set(getattr(config, "layer_types", None) or ())
    windows = {
        name: value
        for name, value in vars(config).items()
        if ("window" in name or "chunk_size" in name)
        and "pattern" not in name
        and name not in _NOT_WINDOWS
        and isinstance(value, int)
        and not isinstance(value, bool)
        and _WINDOW < value < longest
        and not (name == "sliding_window" and kinds == {"full_attention"})
    }
    fixed = ""
    if windows:
        text = _texts(model)[0][None]
        wide = model(input_ids=text, use_cache=False).logits.float()
        for name, value in windows.items():
            setattr(config, name, _WINDOW)
            narrow = model(input_ids=text, use_cache=False).logits.float()
            setattr(config, name, value)
            if not (narrow - wide).abs().max() > _EFFECT * wide.std():
                fixed = name
    try:
        for name in windows:
            setattr(config, name, _WINDOW)
        yield fixed
    finally:
        for name, value in windows.items():
            setattr(config, name, value)


def _vocabulary(model: Any) -> int:
    """Return the vocabulary size of the model, whose embedding weights may have been freed."""
    table = model.get_input_embeddings()
    return int(getattr(table, "num_embeddings", None) or table.weight.shape[0])


def _texts(model: Any) -> list[Tensor]:
    vocabulary, device = _vocabulary(model), model.device
    starts = (11, 5)
    return [
        (torch.arange(length, device=device) * 7 + start) % vocabulary
        for length, start in zip(_LENGTHS, starts, strict=True)
    ]


def _draft(vocabulary: int) -> tuple[DraftTree, list[list[int]]]:
    """Return a draft of two branches after siblings, and the equally long paths whose logits are compared."""
    tree = DraftTree()
    trunk_tokens, twig_tokens = ([(token * 3 + 1) % vocabulary for token in own] for own in ((20, 21, 22), (90, 91)))
    for token in range(_SIBLINGS):
        tree.add((token * 5 + 3) % vocabulary, ROOT)
    trunk = tree.add_path(trunk_tokens, [0.5] * 3)
    return tree, [trunk, [trunk[0], *tree.add_path(twig_tokens, [0.5] * 2, trunk[0])]]


@dataclass(frozen=True, slots=True)
class Expected:
    """The logits of the model itself for two short texts of unequal lengths, each read at once without a cache.

    Attributes:
        texts: their tokens.
        logits: of each text, from the third-last token to the end of each path of the draft # [paths, 6, vocabulary]
        scale: standard deviation of all logits.
        device: of the model.
        vocabulary: of the model.
    """

    texts: list[list[int]]
    logits: list[Tensor]
    scale: float
    device: torch.device
    vocabulary: int

    @classmethod
    def of(cls, model: Any) -> Expected:
        """Run the model."""
        device, vocabulary = model.device, _vocabulary(model)
        tree, paths = _draft(vocabulary)
        texts, logits, scale = [text.tolist() for text in _texts(model)], [], 1e-6
        for text in texts:
            ids = torch.tensor([[*text, *(tree.tokens[node] for node in path)] for path in paths], device=device)
            computed = model(input_ids=ids, use_cache=False).logits.float()  # [paths, len(text) + 3, vocabulary]
            if not computed.isfinite().all():
                raise ArithmeticError(f"{type(model).__name__} computes NaN or infinite numbers for a short text")
            scale = max(scale, float(computed.std()))
            logits.append(computed[:, len(text) - 3 :].clone())
        return cls(texts, logits, scale, device, vocabulary)


def disagreement(expected: Expected, forward: Forward) -> float:
    """Compare ``forward`` with the logits of the model itself.

    The two texts are one batch. Their prompts are read in two parts, the second one padded. Then come a plain step, and
    a step with a draft tree, or with its first path as a chain if the forward takes no trees. That is some 80 rows, and
    100 for the model itself.

    Returns:
        the largest difference of the logits, relative to their standard deviation: only rounding, unless the attention
        of the model does not follow the mask and the cache.
    """
    texts, device = expected.texts, expected.device
    tree, paths = _draft(expected.vocabulary)
    if forward.alone:
        tree, _ = tree.only(paths[0])
        paths = [list(range(len(tree)))]
    cache = KeyValueCache(len(texts))
    read = _read_prompts(forward, cache, [text[:-2] for text in texts], device)
    plain = _step(forward, cache, [text[:-1] for text in texts], [DraftTree()] * len(texts), device)
    drafted = _step(forward, cache, texts, [tree] * len(texts), device)
    gaps = []
    for number, own_logits in enumerate(expected.logits):
        gaps.append(read[number, 0] - own_logits[0, 0])
        gaps.append(plain[number, 0] - own_logits[0, 1])
        for path, own in zip(paths, own_logits, strict=False):
            rows = [0, *(node + 1 for node in path)]
            gaps.append((drafted[number, rows] - own[2:]).flatten())
    return float(torch.cat(gaps).abs().max()) / expected.scale


def _read_prompts(forward: Forward, cache: KeyValueCache, prompts: Sequence[list[int]], device: torch.device) -> Tensor:
    """Read prompts as an engine does. Returns the logits of the last rows # [batch, 1, vocabulary]."""
    lengths = tuple(map(len, prompts))
    first = min(lengths) // 2
    for start, width in ((0, first), (first, max(lengths) - first)):
        stops = [first if start == 0 else length for length in lengths]
        ids, positions = [], []
        real: list[int] = []
        for number, (prompt, stop) in enumerate(zip(prompts, stops, strict=True)):
            padding = width - (stop - start)
            ids.append([0] * padding + prompt[start:stop])
            positions.append([len(prompt)] * padding + [*range(start, stop)])
            real += range(number * width + padding, (number + 1) * width)
        rows = Rows(
            torch.tensor(ids, device=device),
            torch.tensor(positions, device=device),
            1 + max(map(max, positions)),
            real=torch.tensor(real, device=device) if len(real) < width * len(prompts) else None,
            lengths=lengths,
        )
        logits = forward(rows, cache, torch.tensor([width - 1], device=device))
    return logits


def _step(
    forward: Forward,
    cache: KeyValueCache,
    texts: Sequence[list[int]],
    trees: Sequence[DraftTree],
    device: torch.device,
) -> Tensor:
    rows = flatten(texts, trees, device)
    return forward(rows, cache, torch.arange(rows.tokens.shape[1], device=device))


def _line(error: Exception) -> str:
    message = str(error).strip() or type(error).__name__
    return " ".join(message.splitlines()[0].split()).rstrip(".")
