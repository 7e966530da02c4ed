"""Loads a model over several processes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from importlib.util import find_spec
from typing import Any

import torch
import transformers

from stretto.local_engine.log import log_event
from stretto.local_engine.model.loading.dtype import chosen_dtype
from stretto.local_engine.model.loading.fitting import check_room
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.model.loading.source import Source
from stretto.local_engine.process_layout import ProcessLayout
from stretto.local_engine.research.several_devices.processes import Processes
from stretto.local_engine.research.several_devices.shared_forward import SharedForward
from stretto.local_engine.text.detokenize import decoder
from stretto.local_engine.text.vocabulary import token_bytes
from stretto.markup.forms import form_of
from stretto.values.errors import MissingDependencyError, SettingsError

__all__ = ["load_divided"]

_log = logging.getLogger(__name__)


def load_divided(
    source: Source,
    layout: ProcessLayout,
    *,
    dtype: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    compiled: bool | None = True,
    trust_remote_code: bool = False,
    microbatch: int | None = None,
    given_up: Callable[[], bool] = lambda: False,
) -> LoadedModel:
    """Load a model so that each of several processes holds a part of it.

    The engine stays in this process, which holds no weights. It draws tokens on the CPU.

    Args:
        source: which model; a folder or a hub name, with safetensors files.
        layout: how it is divided.
        dtype: as for `stretto.local_engine.model.loading.load.load_model`.
        device: ``cpu`` or ``cuda``; by default ``cuda`` where there is one for each process.
        threads: of each process; by default the processor's cores are shared.
        compiled: whether tokens are drawn and drafted in compiled code; as for `load_model`. Forwards are torch's.
        trust_remote_code: run Python code that came with the model.
        microbatch: rows of one in a pipeline at least; by default as many as suit the device.
        given_up: whether nobody wants it any more; asked now and then.

    Raises what `load_model` raises, and `SettingsError` for what cannot be divided.
    """
    on_cuda = _on_cuda(layout, device)
    if find_spec("accelerate") is None:
        raise MissingDependencyError(
            f"{layout} needs accelerate, with which transformers divides a model, and it is not installed. "
            "Run: pip install accelerate"
        )
    kind = torch.device("cuda" if on_cuda else "cpu")
    chosen = chosen_dtype(dtype, kind)
    if not on_cuda:
        check_room(source, chosen, kind)
    processes = Processes(source.name, layout, on_cuda=on_cuda)
    try:
        log_event(_log, logging.INFO, "loading over processes", model=source.name, processes=layout.processes)
        parts = processes.load(
            {
                "name": source.name,
                "layout": [layout.tensor, layout.pipeline],
                "device": kind.type,
                "dtype": str(chosen).removeprefix("torch."),
                "threads": threads or max(1, _cores() // layout.processes),
                "trust_remote_code": trust_remote_code,
                "microbatch": microbatch,
            },
            given_up,
        )
        for text in parts[0]["warnings"]:
            _log.warning("%s", text)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source.where, trust_remote_code=trust_remote_code)
        return _model(source, layout, processes, parts, tokenizer, compiled=compiled, on_cuda=on_cuda)
    except BaseException:
        processes.end()
        raise


def _model(
    source: Source,
    layout: ProcessLayout,
    processes: Processes,
    parts: list[dict[str, Any]],
    tokenizer: Any,
    *,
    compiled: bool | None,
    on_cuda: bool,
) -> LoadedModel:
    facts = parts[0]
    forward = SharedForward(
        processes, layout, alone=facts["alone"], switch=facts["switch"], token_size=facts["token_size"]
    )
    least = reduce(min, (part["cache_tokens"] for part in parts))
    return LoadedModel(
        name=source.name,
        forward=forward,
        tokenizer=tokenizer,
        decode=decoder(tokenizer, form_of(getattr(tokenizer, "chat_template", None)).marks),
        device=torch.device("cpu"),
        dtype=getattr(torch, facts["dtype"]),
        context_window=facts["context_window"],
        vocabulary=facts["vocabulary"],
        end_ids=frozenset(facts["end_ids"]),
        cache_tokens=least * layout.processes if on_cuda else least,  # each holds a part of a token's keys and values
        token_size=facts["token_size"],
        sampling=facts["sampling"],
        penalties={name: tuple(each) if isinstance(each, list) else each for name, each in facts["penalties"].items()},
        token_bytes=token_bytes(tokenizer),
        compiled=compiled,
        folder=None,  # what lies beside the weights reads states that stay in the processes
    )


def _on_cuda(layout: ProcessLayout, device: str | None) -> bool:
    """Whether each process has a CUDA device. Raises `SettingsError` where one was asked for that is not there."""
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device is None:
        return there >= layout.processes
    if device == "cuda" and there < layout.processes:
        raise SettingsError(
            f"{layout} cannot be used with device='cuda': it takes {layout.processes} devices, and torch sees {there}. "
            "Use fewer processes, or device='cpu'."
        )
    if device not in ("cpu", "cuda"):
        raise SettingsError(
            f"device={device!r} cannot be used with {layout}: each process has a device of its own. Use cpu or cuda; "
            "CUDA_VISIBLE_DEVICES chooses among them."
        )
    return device == "cuda"


def _cores() -> int:
    with suppress(AttributeError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
