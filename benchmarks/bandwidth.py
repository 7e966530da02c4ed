"""How fast this machine reads memory: the floor under a step that reads every weight once.

python benchmarks/bandwidth.py --threads 2 --megabytes 1000
python benchmarks/bandwidth.py --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from rich.console import Console

from stretto.local_engine.kernels.arena import Arena

__all__ = ["floor_ms", "read_bandwidth", "synchronise", "weight_bytes"]

_REPETITIONS = 7


def read_bandwidth(megabytes: int, *, device: str = "cpu", threads: int | None = None) -> float:
    """Gigabytes per second of reading a buffer much larger than any cache, in order.

    Three ways are tried, a sum, a maximum, and a bfloat16 matrix times a vector, which is what a step does; the
    fastest of some repetitions of the fastest way counts, so that the floor is as low as the machine allows.
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        words = max(megabytes * 1_000_000 // 4, 4096)
        if device == "cpu":  # in large pages, which take less time to find
            numbers = Arena(4 * words, 1).allocate((words,), torch.float32).fill_(1)
        else:
            numbers = torch.ones(words, dtype=torch.float32, device=device)
        matrix = numbers.view(torch.bfloat16)[: 2 * words // 4096 * 4096].view(-1, 4096)
        vector = torch.ones(4096, dtype=torch.bfloat16, device=device)
        ways: list[Callable[[], object]] = [numbers.sum, numbers.amax, lambda: matrix @ vector]
        seconds = min(_fastest(way, device) for way in ways)
        return 4e-9 * words / seconds
    finally:
        torch.set_num_threads(before)


def _fastest(way: Callable[[], object], device: str) -> float:
    times = []
    for _ in range(_REPETITIONS):
        synchronise(device)
        began = time.perf_counter()
        way()
        synchronise(device)
        times.append(time.perf_counter() - began)
    return min(times)


def synchronise(device: str) -> None:
    """Wait until a GPU has done what it was given; nothing on a CPU."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def weight_bytes(model: torch.nn.Module) -> int:
    """Bytes of the weights that a step reads: of the embedding only one row, unless the output matrix is the same."""
    tied = {id(parameter): parameter for parameter in model.parameters()}
    total = sum(parameter.numel() * parameter.element_size() for parameter in tied.values())
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight  # type: ignore[operator]
    return int(total if embedding is head else total - embedding.numel() * embedding.element_size())


def floor_ms(size: int, gigabytes_per_s: float) -> float:
    """Milliseconds in which so many bytes can be read."""
    return size / gigabytes_per_s / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--megabytes", type=int, default=1000)
    given = parser.parse_args()
    found = read_bandwidth(given.megabytes, device=given.device, threads=given.threads)
    Console().print(f"{found:.1f} GB/s reading {given.megabytes} MB, {given.device}, {given.threads} threads")


if __name__ == "__main__":
    main()
