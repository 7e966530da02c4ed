"""Recording on a CUDA device, as CUDA graphs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

import torch
from torch import Tensor

from stretto.local_engine.model.recorded_steps import Recorder

__all__ = ["cuda_recorder"]

_one_at_a_time = threading.Lock()  # torch allows one recording in a process


def cuda_recorder(device: torch.device) -> Recorder:
    """Make a recorder for a CUDA device. All its recordings share the memory for intermediate results.

    Two runs before each recording let the libraries choose their kernels and allocate their workspaces, on a separate
    stream, as torch requires. They write the same keys and values to the same slots each time.
    """
    graphs: weakref.WeakSet[torch.cuda.CUDAGraph] = weakref.WeakSet()

    def record(run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        with _one_at_a_time, torch.cuda.device(device):
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # not typed there
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(2):
                    run()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            # The memory is freed with the last graph that uses it; after that nothing can be recorded into it.
            living = next(iter(graphs), None)
            pool = torch.cuda.graph_pool_handle() if living is None else living.pool()
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # other threads may use the GPU
                out = run()
            graphs.add(graph)

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay

    return record
