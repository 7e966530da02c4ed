"""A GPU that is not there: tensors that say they are on ``cuda``, are computed on the CPU, and count what is costly.

What a real GPU refuses is refused: reading its tensors with numpy, or mixing them with those of the host. What makes
the host wait for a real GPU is counted, and so is each shape for which cuDNN's attention would make a plan.
"""

from collections import Counter
from dataclasses import replace

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from stretto.local_engine.model.forward.llama import LlamaForward

__all__ = ["CUDA", "PretendGPU", "afar", "move_to_pretend_gpu", "on_pretend_gpu"]

CUDA = torch.device("cuda:0")
EFFICIENT = torch.ops.aten._scaled_dot_product_efficient_attention
HALF = (torch.bfloat16, torch.float16)
_Tensor = torch.Tensor
_READING = frozenset(
    {_Tensor.tolist, _Tensor.item, _Tensor.cpu, _Tensor.__int__, _Tensor.__float__, _Tensor.__bool__, _Tensor.__index__}
)
_OF_UNKNOWN_SHAPE = frozenset(  # the host has to be told how much came out
    {
        torch.nonzero,
        _Tensor.nonzero,
        torch.unique,
        _Tensor.unique,
        torch.masked_select,
        _Tensor.masked_select,
        torch.equal,
    }
)
_INDEXING = frozenset({_Tensor.__getitem__, _Tensor.__setitem__})
_counts = Counter()
_planned = set()


class _Afar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function == _Tensor.device.__get__:
            return CUDA
        if function == _Tensor.is_cuda.__get__:
            return True
        if function is _Tensor.numpy:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        if function in _READING or function in _OF_UNKNOWN_SHAPE:
            _counts["copies to the host"] += 1
        if function is _Tensor.to:
            return _moved(*args, **kwargs)
        if function in _INDEXING:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            _counts["copies to the host"] += any(getattr(each, "dtype", None) == torch.bool for each in index)
            _counts["copies to the device"] += any(isinstance(each, list) for each in index)
        elif function is not _Tensor.copy_:
            _refuse_mixtures(function, args, kwargs)
        if function is scaled_dot_product_attention:
            _choose_attention(*args, **kwargs)
        if function in (EFFICIENT, EFFICIENT.default):
            with torch._C.DisableTorchFunctionSubclass():
                return tree_map(afar, _efficient_attention(*args, **kwargs))
        found = super().__torch_function__(function, types, args, kwargs)
        return found.as_subclass(torch.Tensor) if function is _Tensor.cpu else found


def afar(tensor):
    """The same numbers, on the pretended GPU."""
    return tensor.as_subclass(_Afar)


def _moved(tensor, *args, **kwargs):
    """`Tensor.to`, wherever it starts and ends."""
    with torch._C.DisableTorchFunctionSubclass():
        target = kwargs.pop("device", None) or next(
            (each for each in args if isinstance(each, torch.device | str)), None
        )
        args = [each for each in args if not isinstance(each, torch.device | str)]
        there = isinstance(tensor, _Afar)
        goes = there if target is None else str(target).startswith("cuda")
        if there != goes:
            _counts["copies to the device" if goes else "copies to the host"] += 1
            tensor = tensor.clone()
        found = tensor.to(*args, **kwargs) if args or kwargs else tensor
        return found.as_subclass(_Afar if goes else torch.Tensor)


def _refuse_mixtures(function, args, kwargs):
    given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    with torch._C.DisableTorchFunctionSubclass():
        if any(type(each) is torch.Tensor and each.dim() for each in given):
            raise RuntimeError(f"Expected all tensors to be on the same device, in {function}")


def _choose_attention(query, key, _value, attn_mask=None, **_):
    """As torch does on an H100: cuDNN's attention for half precision, which plans for each new shape."""
    with torch._C.DisableTorchFunctionSubclass():
        if query.dtype in HALF:
            _planned.add((query.shape, key.shape, None if attn_mask is None else attn_mask.shape))


def _efficient_attention(query, key, value, bias, compute_log_sumexp, *, is_causal=False, scale=None):
    """What torch's kernel for CUDA asks for, checked; then the same by other operations."""
    (batch, heads, rows, width), slots = query.shape, key.shape[2]
    assert not compute_log_sumexp
    assert query.dtype in (*HALF, torch.float32)
    assert key.shape == (batch, heads, slots, width)
    assert value.shape[:3] == key.shape[:3]
    assert bias is None or bias.shape == (batch, heads, rows, slots)
    for each in (query, key, value) if bias is None else (query, key, value, bias):
        assert each.dtype == query.dtype
        assert each.stride(-1) == 1
        assert not any(stride % 8 for stride in each.stride()[:-1]), "not aligned"
    _counts["memory-efficient attention"] += 1
    wide = [each.float() for each in (query, key, value)]
    bias = None if bias is None else bias.float()
    out = scaled_dot_product_attention(*wide, attn_mask=bias, is_causal=is_causal, scale=scale).to(query.dtype)
    out = out.transpose(1, 2).contiguous().transpose(1, 2)  # as the kernel lays it out
    return out, out.new_empty(0), out.new_empty(0), out.new_empty(0)


class PretendGPU(TorchFunctionMode):
    """While it lasts, what this thread asks of ``cuda`` goes to the pretended GPU.

    Attributes:
        counts: of what was costly since the beginning, or since `reset`.
        planned: shapes for which cuDNN would have planned its attention.
    """

    counts, planned = _counts, _planned

    def reset(self):
        _counts.clear()
        _planned.clear()

    def __enter__(self):
        self.reset()
        return super().__enter__()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        places = [each for each in (*args[1:2], kwargs.get("device")) if isinstance(each, torch.device | str)]
        if function is _Tensor.to:
            return _moved(*args, **kwargs)
        if not any(str(place).startswith("cuda") for place in places):
            return function(*args, **kwargs)
        _counts["copies to the device"] += function is torch.tensor
        return afar(function(*args, **{**kwargs, "device": "cpu"}))


def move_to_pretend_gpu(model):
    """A model of transformers, with its weights there."""
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            held.update({name: afar(tensor.detach()) for name, tensor in held.items() if tensor is not None})
    return model


def on_pretend_gpu(model, loaded, dtype=torch.float32):
    """A model of transformers as `prepare` makes it ready on a GPU; ``loaded`` is the same one, elsewhere."""
    with PretendGPU():
        forward = LlamaForward(move_to_pretend_gpu(model.to(dtype)))
    return replace(loaded, forward=forward, device=CUDA, dtype=dtype)
