"""The peers: transformers' own ways to decode, and suffix decoding by arctic-inference inside transformers' loop.

All run in the thread that calls them, with as many threads of torch as they were given.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.cache_utils import StaticCache
from transformers.generation.configuration_utils import CompileConfig
from transformers.generation.streamers import BaseStreamer

from comparison.run import Run, Task

__all__ = [
    "GREEDY",
    "Compiled",
    "Peer",
    "Static",
    "assisted",
    "first_layers",
    "greedy",
    "prompt_lookup",
    "why_not_compiled",
]

GREEDY = "transformers"
_LOOKUP = {"prompt_lookup_num_tokens": 10, "max_matching_ngram_size": 3}


class _Clock(BaseStreamer):
    """Notes when tokens come; the first that transformers puts here is the prompt."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self.began = clock, clock()
        self.arrivals: list[tuple[float, int]] = []

    def put(self, value: Tensor) -> None:
        self.arrivals.append((self._clock() - self.began, value.numel()))

    def end(self) -> None:
        pass


class Peer:
    """``model.generate`` with some options.

    Args:
        name: for people.
        model: a transformers model.
        options: further arguments of ``generate``.
        threads: of torch.
        drafts: whether a forward may read more than one token; then they are counted by a hook.
        around: a context for each answer; it is given the model and the task.
    """

    peer = True

    def __init__(
        self,
        name: str,
        model: Any,
        options: dict[str, Any],
        *,
        threads: int,
        drafts: bool = False,
        around: Callable[[Any, Task], AbstractContextManager[None]] | None = None,
    ) -> None:
        self.name = name
        self._model = model
        self._options = options
        self._threads = threads
        self._drafts = drafts
        self._around = around

    def options(self, task: Task) -> dict[str, Any]:  # noqa: ARG002 - for those that prepare something
        """Arguments of ``generate`` for one answer."""
        return self._options

    def answer(self, task: Task) -> Run:
        """See `Method`."""
        torch.set_num_threads(self._threads)
        torch.manual_seed(task.seed)
        model, read = self._model, []
        ids = torch.tensor([task.prompt], device=model.device)
        make: Any = GenerationConfig  # untyped there
        config = make(
            max_new_tokens=task.limit,
            eos_token_id=model.generation_config.eos_token_id,
            pad_token_id=0,
            use_cache=True,
            do_sample=task.temperature > 0,
            **({"temperature": task.temperature, "top_k": 0} if task.temperature else {}),
        )
        hook = None
        if self._drafts:

            def note(_module: Any, _given: Any, named: dict[str, Any]) -> None:
                read.append(named["input_ids"].shape[1])

            hook = model.register_forward_pre_hook(note, with_kwargs=True)
        with self._around(model, task) if self._around else nullcontext():
            options, clock = self.options(task), _Clock(task.clock)
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, streamer=clock, **options
            )
        if hook is not None:
            hook.remove()
        tokens = out[0, len(task.prompt) :].tolist()
        steps = len(read) - 1 if self._drafts else len(tokens) - 1
        return Run(tokens, clock.arrivals[1:], steps, sum(read[1:]) if self._drafts else steps)


class Static(Peer):
    """Greedy or sampled, with a static cache, which is made once and emptied for each answer."""

    _how: dict[str, Any] = {"disable_compile": True}  # noqa: RUF012 - never changed

    def __init__(self, model: Any, *, threads: int, slots: int, name: str = "hf static cache") -> None:
        super().__init__(name, model, {}, threads=threads)
        self._cache: Any = StaticCache(config=model.config, max_cache_len=slots)

    def options(self, task: Task) -> dict[str, Any]:  # noqa: ARG002
        """See `Peer`."""
        self._cache.reset()
        return {"past_key_values": self._cache, **self._how}


class Compiled(Static):
    """The same, with the forward of one token compiled; on a CPU transformers needs an argument for it.

    ``mode``: of `torch.compile`; ``reduce-overhead``, on a GPU, records CUDA graphs.
    """

    def __init__(self, model: Any, *, threads: int, slots: int, mode: str = "default") -> None:
        super().__init__(model, threads=threads, slots=slots, name="hf static, compiled")
        how: Any = CompileConfig(mode=mode)
        how._compile_all_devices = True
        self._how = {"compile_config": how, "disable_compile": False}


def greedy(model: Any, *, threads: int) -> Peer:
    """Transformers' plain ``generate`` with its dynamic cache; sampled, where the task has a temperature."""
    return Peer(GREEDY, model, {}, threads=threads)


def prompt_lookup(model: Any, *, threads: int) -> Peer:
    """``prompt_lookup_num_tokens``, with the length that its author recommends."""
    return Peer("hf prompt lookup", model, _LOOKUP, threads=threads, drafts=True)


def assisted(model: Any, draft: Any, *, threads: int) -> Peer:
    """``assistant_model``."""
    return Peer("hf assistant", model, {"assistant_model": draft}, threads=threads, drafts=True)


def suffix(model: Any, candidates: Callable[[Task], Any], *, threads: int) -> Peer:
    """Candidates of another library inside transformers' loop of assisted generation."""

    @contextmanager
    def around(model: Any, task: Task) -> Iterator[None]:
        # No argument of generate takes a candidate generator; one that turns assisted generation on is replaced.
        model._get_candidate_generator = lambda **_: candidates(task)
        try:
            yield
        finally:
            del model._get_candidate_generator

    return Peer("arctic suffix", model, _LOOKUP, threads=threads, drafts=True, around=around)


def first_layers(model: Any, count: int) -> Any | None:
    """A copy of a model's first layers, embedding and head: a poor draft model, but one with the same tokenizer.

    None where the model's layers are not at ``model.model.layers``.
    """
    layers = getattr(getattr(model, "model", None), "layers", None)
    if layers is None or len(layers) <= count:
        return None
    small = copy.deepcopy(model)
    small.model.layers = small.model.layers[:count]
    small.config.num_hidden_layers = count
    if getattr(small.config, "layer_types", None):
        small.config.layer_types = small.config.layer_types[:count]
    return small


def why_not_compiled(model: str, dtype: str, limit_s: float) -> str | None:
    """Try the compiled static cache in a separate process, which can be stopped; the reason why it cannot be used.

    What it compiles stays in torch's cache on disk, so that it is compiled only once.
    """
    program = Path(__file__).resolve().parent.parent / "decoding.py"
    command = [sys.executable, str(program), "--try-compile", "--model", model, "--dtype", dtype]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"not compiled within {limit_s:.0f} s"
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return lines[-1][:200] if lines else f"exit status {done.returncode}"
    return None
