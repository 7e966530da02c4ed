"""Folders whose ``config.json`` says that the weights are quantised: what transformers needs to run them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from stretto.values.errors import BackendError, MissingDependencyError, StrettoError

__all__ = ["check_packages", "explained"]

_PACKAGES = {
    "gptq": ("optimum", "gptqmodel"),
    "awq": ("accelerate", "gptqmodel"),
    "compressed-tensors": ("compressed-tensors",),
    "bitsandbytes": ("accelerate", "bitsandbytes"),
    "torchao": ("torchao",),
    "hqq": ("hqq",),
    "quanto": ("optimum-quanto",),
    "fp8": ("accelerate",),
    "mxfp4": ("accelerate", "kernels"),
}
"""What transformers' own code for each kind of weights imports."""

_IMPORTED = {"optimum-quanto": "optimum"}
_INSTEAD = "Give the model in bfloat16, or as a GGUF file."


def check_packages(name: str, config: Any) -> None:
    """Raise `MissingDependencyError` where packages are missing that the weights of a model need."""
    kind = _kind(config)
    modules = {each: _IMPORTED.get(each, each.replace("-", "_")) for each in _PACKAGES.get(kind, ())}
    missing = [each for each, module in modules.items() if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"The weights of {name} are quantised ({kind}), and running them needs {' and '.join(missing)}. "
            f"Run: pip install {' '.join(missing)}. Or g{_INSTEAD[1:]}"
        )


def explained(name: str, config: Any, error: Exception) -> StrettoError | None:
    """The error for quantised weights that transformers cannot run here; ``None`` for other weights."""
    kind = _kind(config)
    if not kind:
        return None
    said = " ".join(str(error).partition("\n\n")[0].split())[:300].rstrip(".") or type(error).__name__
    return BackendError(
        f"The weights of {name} are quantised ({kind}), and transformers cannot run them here: {said}. {_INSTEAD}",
        backend=name,
    )


def _kind(config: Any) -> str:
    given = getattr(config, "quantization_config", None)
    method = given.get("quant_method") if isinstance(given, dict) else getattr(given, "quant_method", None)
    return str(getattr(method, "value", method) or "")
