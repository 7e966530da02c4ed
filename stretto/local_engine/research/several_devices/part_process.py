"""The process that holds a part of a model: it repeats what the engine asks, until that ends.

A thread listens, so that the end of the engine's process ends this one at once, wherever it is.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Callable
from functools import partial
from io import FileIO
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from stretto.local_engine.process_layout import ProcessLayout
from stretto.values.errors import BackendError, SettingsError, StrettoError

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel
    from stretto.local_engine.model.loading.source import Source
    from stretto.local_engine.research.several_devices.tensor_messages import Message

__all__ = ["check_divisible", "work"]

_LOOK_S = 1.0  # after which it looks whether its parent is still there: a fork of that may hold the pipe open


def work(rank: int, parent: int) -> None:
    """Load the part of this process, and run forwards. Ends with its parent.

    Args:
        rank: of this process, from 0.
        parent: process id of the engine's.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
    asked, answers = FileIO(os.dup(0), "rb"), FileIO(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    messages: SimpleQueue[Message] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked, parent, messages), daemon=True).start()
    warnings = _Warnings()
    logging.getLogger("stretto").addHandler(warnings)
    from stretto.local_engine.research.several_devices.tensor_messages import send  # noqa: PLC0415 - torch takes seconds

    try:
        said, _ = messages.get()
        layout = ProcessLayout(*said["layout"])
        model = _loaded(rank, layout, said)
        send(answers, _facts(model) | {"warnings": warnings.texts})
        _serve(rank, layout, model, messages, answers)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent says it, and ends all processes
        kind = type(error).__name__
        text = str(error) if isinstance(error, StrettoError) else " ".join(f"{kind}: {error}".split())[:400]
        send(answers, {"failed": text, "error": kind})
    os._exit(0)  # without waiting for what others have not received


class _Warnings(logging.Handler):
    """Keeps what is to be told in the engine's process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def _listen(asked: FileIO, parent: int, messages: SimpleQueue[Message]) -> None:
    """Take messages from the engine's process, and end this one with that one."""
    from stretto.local_engine.research.several_devices.tensor_messages import receive  # noqa: PLC0415 - torch takes seconds

    try:
        while os.getppid() == parent:
            if select.select([asked], [], [], _LOOK_S)[0]:
                messages.put(receive(asked))
    finally:
        os._exit(0)


def _loaded(rank: int, layout: ProcessLayout, said: dict[str, Any]) -> LoadedModel:
    """Read the part of the model that belongs to this process, and compare the whole with transformers."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    from stretto.local_engine.model.forward.transformers_forward import TransformersForward  # noqa: PLC0415
    from stretto.local_engine.model.loading.load import prepare  # noqa: PLC0415
    from stretto.local_engine.model.loading.model_files import read_model  # noqa: PLC0415
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415
    from stretto.local_engine.research.several_devices.pipeline import StageForward  # noqa: PLC0415

    source = find_source(said["name"])
    check_divisible(source, layout, trust_remote_code=said["trust_remote_code"])
    torch.set_num_threads(said["threads"])
    device = torch.device("cuda", rank) if said["device"] == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store = dist.FileStore(  # type: ignore[attr-defined]  # it is there
        str(Path(said["meeting"]) / "store"), layout.processes
    )
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=layout.processes,
        device_id=device if device.type == "cuda" else None,
    )
    model, tokenizer, _ = read_model(
        source,
        getattr(torch, said["dtype"]),
        trust_remote_code=said["trust_remote_code"],
        distributed=_configuration(layout),
    )
    general: Callable[..., TransformersForward] = TransformersForward
    if layout.pipeline > 1:
        general = partial(StageForward, rows=said["microbatch"])
    prepared = prepare(source.name, model, tokenizer, packed=False, compiled=False, cuda_graphs=False, general=general)
    if isinstance(prepared.forward, StageForward):
        prepared.forward.compares = False
    return prepared


def check_divisible(source: Source, layout: ProcessLayout, *, trust_remote_code: bool = False) -> None:
    """Refuse a model that cannot be divided, before its weights are read. Raises `SettingsError`."""
    from transformers import AutoConfig  # noqa: PLC0415

    try:
        config = AutoConfig.from_pretrained(source.where, trust_remote_code=trust_remote_code)
    except Exception:  # noqa: BLE001 - `read_model` says what is wrong with it
        return
    text = config.get_text_config(decoder=True)
    layout.check(source.name, text.to_dict())
    plan = {"base_model_tp_plan": layout.tensor, "base_model_pp_plan": layout.pipeline}
    if any(count > 1 and not getattr(text, name, None) for name, count in plan.items()):
        raise SettingsError(
            f"{layout} cannot be used with {source.name}: transformers does not say how models of the type "
            f"{text.model_type} are divided. Use one process."
        )
    if getattr(config, "quantization_config", None) is not None:
        raise SettingsError(
            f"{layout} cannot be used with {source.name}, whose weights are quantised. Use the original."
        )


def _configuration(layout: ProcessLayout) -> Any:
    """The layout as transformers describes it. Raises `BackendError` where it has none."""
    try:
        from transformers.distributed.configuration_utils import DistributedConfig  # noqa: PLC0415

        if layout.tensor > 1:
            return DistributedConfig(tp_size=layout.tensor, tp_plan="auto")
        return DistributedConfig(pp_size=layout.pipeline)
    except (ImportError, TypeError) as error:
        raise BackendError(
            f"{layout} needs transformers 5.23 or later, which can divide a model. Run: pip install -U transformers"
        ) from error


def _facts(model: LoadedModel) -> dict[str, Any]:
    """What the engine has to know about the model, as JSON."""
    forward = model.forward
    return {
        "dtype": str(model.dtype).removeprefix("torch."),
        "context_window": model.context_window,
        "end_ids": sorted(model.end_ids),
        "vocabulary": model.vocabulary,
        "cache_tokens": model.cache_tokens,
        "token_size": model.token_size,
        "sampling": model.sampling,
        "penalties": model.penalties,
        "alone": forward.alone,
        "switch": forward.switch,
    }


def _serve(
    rank: int, layout: ProcessLayout, model: LoadedModel, messages: SimpleQueue[Message], answers: FileIO
) -> None:
    """Run one forward after the other; only one process hands out logits."""
    import torch  # noqa: PLC0415

    from stretto.local_engine.research.several_devices.part import ModelPart  # noqa: PLC0415
    from stretto.local_engine.research.several_devices.tensor_messages import send  # noqa: PLC0415

    part = ModelPart(model.forward, model.device)
    with torch.inference_mode():
        while True:
            logits = part.run(*messages.get())
            spent = {"busy_s": getattr(model.forward, "busy_s", None)}
            send(answers, spent, {"logits": logits.cpu()} if rank == layout.speaker else None)
