"""Loads the model and starts the engine of a local backend: once, when it is first needed, in a thread."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

from stretto.backends.base import Capabilities
from stretto.backends.local.tools import form_in
from stretto.backends.local.worker import Worker, outcome
from stretto.errors import BackendError, MissingDependencyError, SettingsError
from stretto.foundation.arguments import MOST_THREADS, shown
from stretto.foundation.ending_thread import is_exiting
from stretto.foundation.fork import Fork
from stretto.local_engine.drafting.catalogue import LOSSY, METHODS, WEIGHING, all_drafters, check_options
from stretto.local_engine.drafting.draft_model import check_vocabulary
from stretto.local_engine.drafting.sources.reading import read_texts
from stretto.local_engine.kernels.switch import VARIABLE
from stretto.local_engine.log import log_event
from stretto.local_engine.model.adapter_files import LOW_RANK_CONFIG, READING_FILE
from stretto.local_engine.model.loading_turn import look_again, turn_to_load
from stretto.local_engine.model.source import QUANTIZE, Source
from stretto.local_engine.parallel.layout import Layout
from stretto.local_engine.pocket import FURTHER_MODELS
from stretto.local_engine.refining.catalogue import RULE_NAMES, RULES
from stretto.prompts import POCKET, family_of

if TYPE_CHECKING:
    from stretto.local_engine.drafting.sources.files import FileTexts
    from stretto.local_engine.model.load import LoadedModel
    from stretto.local_engine.serving.engine import Engine

__all__ = ["DEFAULT_DECODING", "REMEMBERED", "EngineLoader", "LoadingOptions", "compiled_by_default", "of_blocks"]

DEFAULT_DECODING = "autoregressive"
REMEMBERED = 20_000
"""Tokens of earlier answers in which drafts are looked for: about 50 answers, 4 MB."""

_log = logging.getLogger(__package__)
T = TypeVar("T")

_SLOTS = 16  # of the engine's batch, and calls that one answer sends at a time
_DTYPES = ("float32", "bfloat16", "float16", "float64", "float", "half", "double")  # the last three are other names
_DEVICE = re.compile(r"[a-z]+(:\d+)?")
_POCKET_PASSAGE = 256  # tokens of the passages in its lessons
_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_NO_LOCAL = ". Without it, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name another model."
_GRAMMARS = find_spec("llguidance") is not None


def compiled_by_default() -> bool | None:
    """Read ``STRETTO_COMPILED``; ``None`` if it is not set. Raises `SettingsError`."""
    value = os.environ.get(VARIABLE, "").strip().lower()
    if not value:
        return None
    if value not in _SWITCH:
        raise SettingsError(f"{VARIABLE}={os.environ[VARIABLE]!r} cannot be used. Set it to 1 or 0.")
    return _SWITCH[value]


def of_blocks(capabilities: Capabilities) -> Capabilities:
    """What is left of them for a model that writes blocks of tokens at once."""
    return replace(
        capabilities, decodings=RULE_NAMES, logprobs=False, json_schema=False, regex=False, beyond_window=False
    )


@dataclass(frozen=True)
class LoadingOptions:
    """The options for loading a local model; `LocalBackend` says what each means.

    Attributes:
        adapter: folder of an adapter that is added to the weights.
        adapters: folders of adapters beside the weights, by name.
        reading: add the adapter for reading documents to the weights.
    """

    source: Source
    dtype: str | None
    quantize: str | None
    device: str | None
    threads: int | None
    compiled: bool | None
    trust_remote_code: bool
    cuda_graphs: bool | None
    decoding: str | None
    draft: Source | None
    head: Path | None
    method_options: Mapping[str, Mapping[str, Any]]
    prefix_cache_bytes: int
    remember_answers: int
    drafts_from: tuple[Path, ...] = ()
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    context_parallel: int = 1
    adapter: Path | None = None
    adapters: Mapping[str, Path] = field(default_factory=dict)
    reading: bool = False

    @property
    def has_reading(self) -> bool:
        """Whether an adapter for reading documents stands beside the weights, and was trained on them."""
        folder = self.source.folder
        return not self.is_divided and self.adapter is None and folder is not None and (folder / READING_FILE).is_file()

    @property
    def is_divided(self) -> bool:
        """Whether several processes hold the model."""
        return self._layout.processes > 1

    @property
    def _layout(self) -> Layout:
        return Layout(self.tensor_parallel, self.pipeline_parallel, self.context_parallel)

    def capabilities(self) -> Capabilities:
        """What the model will be able to do, as far as is known before it is loaded. Raises `SettingsError`."""
        self._check()
        pocket = self.source.name in ("local:pocket", *(f"local:{name}" for name in FURTHER_MODELS))
        form = form_in(self.source)
        found = Capabilities(
            context_window=self.source.context_window(),
            concurrent_calls=_SLOTS,
            prompt_family=POCKET if pocket else family_of(self.source.name, self.source.parameters()),
            reads_history=not pocket,  # trained on single questions, it misses most that follow a long answer
            continues=True,
            passage_tokens=_POCKET_PASSAGE if pocket and self.has_reading else None,
            decodings=self._decodings(),
            decoding=self.decoding,
            adapters=tuple(self.adapters),
            logprobs=True,
            tools=form is None or form.calls is not None,
            reasoning=form is not None and form.always,
            json_schema=_GRAMMARS,
            regex=_GRAMMARS,
        )
        return found if self.source.block_form() is None else of_blocks(found)

    def _check(self) -> None:
        """Raise `SettingsError` for what cannot be right whatever the machine is; torch is not imported yet."""
        numbers = {"threads": (self.threads, 1), "prefix_cache_bytes": (self.prefix_cache_bytes, 0)}
        numbers["remember_answers"] = (self.remember_answers, 0)
        if isinstance(self.threads, int) and self.threads > MOST_THREADS:
            raise SettingsError(f"threads={self.threads} cannot be used: {MOST_THREADS:,} are the most.")
        for name, (value, least) in numbers.items():
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise SettingsError(
                    f"{name}={shown(value)} cannot be used: at least {least} is needed, as a whole number."
                )
        for name in ("compiled", "trust_remote_code", "cuda_graphs"):
            if not isinstance(value := getattr(self, name), (bool, NoneType)):
                raise SettingsError(f"{name}={shown(value)} cannot be used: it is True or False.")
        check_options(self.method_options, RULES)
        for folder in (self.adapter, *self.adapters.values()):
            if folder is not None and not (folder / LOW_RANK_CONFIG).is_file():
                raise SettingsError(
                    f"There is no adapter in {str(folder)!r}: it has no {LOW_RANK_CONFIG}. Give a folder that "
                    "save_pretrained of peft wrote."
                )
        layout = self._layout
        if self.is_divided:
            self._check_divided(layout)
        if self.dtype is not None and self.dtype not in _DTYPES:
            raise SettingsError(f"dtype={shown(self.dtype)} cannot be used. Use one of: {', '.join(_DTYPES[:4])}.")
        if self.quantize is not None and self.quantize not in QUANTIZE:
            raise SettingsError(f"quantize={shown(self.quantize)} cannot be used. Use one of: {', '.join(QUANTIZE)}.")
        if self.device is not None and not (isinstance(self.device, str) and _DEVICE.fullmatch(self.device)):
            raise SettingsError(f"device={shown(self.device)} cannot be used. Use cpu, cuda or cuda:0.")

    def _check_divided(self, layout: Layout) -> None:
        """Raise `SettingsError` for what a model over several processes cannot have."""
        if self.source.file is not None:
            raise SettingsError(
                f"{layout} cannot be used with {self.source.name}, a GGUF file: each process reads its part of "
                "safetensors files. Give the folder or the hub name of the original."
            )
        if self.source.folder is not None and not (self.source.folder / "config.json").is_file():
            raise SettingsError(
                f"{layout} cannot be used with {self.source.name}, an adapter. Give a folder into whose weights it is "
                "merged."
            )
        if self.source.block_form() is not None:
            raise SettingsError(
                f"{layout} cannot be used with {self.source.name}, which writes blocks at once. Use one process."
            )
        others: dict[str, object] = {
            "quantize": self.quantize not in (None, "none") and self.quantize,
            "cuda_graphs": self.cuda_graphs,
            "adapter": self.adapter and str(self.adapter),
            "adapters": self.adapters and [*self.adapters],
            "head": self.head and str(self.head),
        }
        for name, value in others.items():
            if value:
                raise SettingsError(f"{name}={shown(value)} cannot be used with {layout}. Leave one of them out.")
        layout.check(self.source.name, self.source.config())

    def _decodings(self) -> tuple[str, ...]:
        """The decoding methods that can be chosen. Raises `SettingsError` where the one asked for is not among them."""
        missing = {name: self._missing(name) for name in all_drafters()}
        usable = tuple(name for name, lack in missing.items() if not lack)
        offered = tuple(name for name in usable if name not in LOSSY or name == self.decoding)
        if self.source.block_form() is not None:
            usable = offered = RULE_NAMES
        elif self.source.hub_name is not None and self.decoding is not None and self.decoding in RULES:
            usable = offered = (*offered, self.decoding)  # what it is shows when it is loaded
        if self.decoding is not None and self.decoding not in usable:
            raise SettingsError(
                f"decoding={shown(self.decoding)} cannot be used.{missing.get(self.decoding, '')} "
                f"Use one of: {', '.join(offered)}."
            )
        return offered

    def _missing(self, decoding: str) -> str:
        """What a decoding method lacks, in a sentence; empty if nothing."""
        method, folder = METHODS.get(decoding), self.source.folder  # of another package, nothing is known
        if method is None:
            return ""
        lack = ""
        if method.drafted and self.draft is None:
            lack = " It needs draft=, a smaller model."
        elif self.is_divided and (method.missing is not None or method.adapter is not None):
            lack = " It needs the model in one process."
        elif method.missing is not None:
            lack = method.missing(folder, self.head)
        if lack or method.adapter is None or (folder is not None and (folder / method.adapter).is_file()):
            return lack
        if not method.recipe:
            return f" It needs an adapter beside the weights, {method.adapter}."
        return (
            " It needs an adapter beside the weights. Train one in a checkout of Stretto's source: "
            f"python -m {method.recipe} --model {self.source.name}."
        )

    def load(self, given_up: Callable[[], bool] = lambda: False) -> Engine:
        """Wait until no other model is being loaded, then load the model and start its engine, unless it is given up.

        Raises `MissingDependencyError`, `BackendError`, `SettingsError`.
        """
        asked = time.perf_counter()
        with turn_to_load(self.source.name, given_up), _uncollected():
            began = time.perf_counter()
            engine = self._load()
        log_event(
            _log,
            logging.INFO,
            "model loaded",
            model=self.source.name,
            other_models_s=round(began - asked, 4),
            load_s=round(time.perf_counter() - began, 4),
        )
        return engine

    def _load(self) -> Engine:
        try:
            from stretto.local_engine.model.load import load_model  # noqa: PLC0415
            from stretto.local_engine.model.low_rank import read_low_rank  # noqa: PLC0415
            from stretto.local_engine.model.reading_adapter import reading_change  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependencyError(
                f"{self.source.name} needs {error.name or 'torch and transformers'}, which cannot be imported here. "
                "Run: pip install 'stretto[local]'" + (_NO_LOCAL if self.source.name == "local:pocket" else "")
            ) from error
        load = partial(
            load_model,
            dtype=self.dtype,
            quantize=self.quantize,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
            compiled=self.compiled,
            cuda_graphs=self.cuda_graphs,
        )
        if self.is_divided:
            return self._load_divided(load)
        change = reading_change(self.source.folder, self.source.name) if self.reading else None
        if self.adapter is not None:
            change = read_low_rank(self.adapter).merge
        model = load(self.source, change=change)
        draft = None if self.draft is None else load(self.draft)
        if draft is not None:
            check_vocabulary(model, draft)
        measure = not self.reading and (self.decoding is None or self.decoding in WEIGHING)
        return self._engine(model, draft, self._files(model), measure=measure, head=self.head)

    def _load_divided(self, load: Callable[[Source], LoadedModel]) -> Engine:
        """Start an engine whose model is in other processes; a draft model is in this one, by ``load``."""
        from stretto.local_engine.parallel.load import load_divided  # noqa: PLC0415 - it imports torch

        draft = None if self.draft is None else load(self.draft)
        model = load_divided(
            self.source,
            self._layout,
            dtype=self.dtype,
            device=self.device,
            threads=self.threads,
            compiled=self.compiled,
            trust_remote_code=self.trust_remote_code,
        )
        try:
            if draft is not None:
                check_vocabulary(model, draft)
            measure = self.decoding is None or self.decoding in WEIGHING
            return self._engine(model, draft, self._files(model), measure=measure, head=None)
        except BaseException:
            model.free()
            raise

    def load_beside(self, name: str, engine: Callable[[], Engine], given_up: Callable[[], bool]) -> Engine:  # noqa: ARG002 - as `load`
        """Start an engine for the model of another one with an adapter beside it.

        Raises `SettingsError` for an adapter that cannot be read or does not fit.
        """
        from stretto.local_engine.model.beside import with_adapter  # noqa: PLC0415 - it imports torch
        from stretto.local_engine.model.low_rank import read_low_rank  # noqa: PLC0415 - as above

        model = with_adapter(engine().model, read_low_rank(self.adapters[name]))
        # A head was trained on the states without the adapter.
        return self._engine(model, None, engine().files, measure=False, head=None)

    def _files(self, model: LoadedModel) -> FileTexts | None:
        """The texts of files to draft from, if any were named. Raises `SettingsError`."""
        if not self.drafts_from or self.reading:
            return None
        from stretto.local_engine.drafting.sources.files import tokenized  # noqa: PLC0415 - it imports numpy

        began, texts = time.perf_counter(), read_texts(self.drafts_from)
        files = tokenized(texts, lambda text: model.tokenizer(text, add_special_tokens=False, verbose=False).input_ids)
        log_event(
            _log,
            logging.INFO,
            "files read for drafts",
            model=self.source.name,
            files=len(texts),
            took_s=round(time.perf_counter() - began, 4),
        )
        return files

    def _engine(
        self,
        model: LoadedModel,
        draft: LoadedModel | None,
        files: FileTexts | None,
        *,
        measure: bool,
        head: Path | None,
    ) -> Engine:
        from stretto.local_engine.serving.engine import Engine  # noqa: PLC0415 - torch is imported when it is used

        engine = Engine(
            model,
            batch_size=_SLOTS,
            threads=self.threads,
            draft=draft,
            head=head,
            method_options=self.method_options,
            prefix_cache_bytes=self.prefix_cache_bytes,
            remember_answers=self.remember_answers,
            files=files,
            measure=measure,
        )
        try:
            engine.equip(engine.decoding_for(self.decoding or DEFAULT_DECODING))
            if head is not None:  # what does not fit is told before the first question
                for name in (name for name, method in METHODS.items() if method.missing is not None):
                    engine.equip(name)
        except BaseException:
            engine.close()
            raise
        return engine


class EngineLoader:
    """Loads one engine, and does other long work in threads.

    There are two threads. One loads the model and makes long texts into tokens. The other one prepares requests, which
    may take much longer: it compiles grammars and hashes weights.
    """

    def __init__(self, name: str, load: Callable[[Callable[[], bool]], Engine]) -> None:
        self._name = name
        self._load = load
        self._lock = threading.Lock()
        self._fork = Fork()
        self._worker: Worker | None = None
        self._preparer: Worker | None = None
        self._loading: Future[Engine] | None = None
        self._closed = threading.Event()

    @property
    def engine(self) -> Engine | None:
        """The engine, if it is loaded."""
        loading = self._loading
        return loading.result() if loading is not None and loading.done() and loading.exception() is None else None

    async def ready(self) -> Engine:
        """Wait for the engine with its model loaded. Raises what the loading raised, or `BackendError`."""
        if self._fork.happened():
            raise BackendError(
                f"The backend {self._name} was made before a fork, and its threads stayed in the parent process. "
                "Start the process with the method 'spawn' (see multiprocessing), or load models in children only.",
                backend=self._name,
            )
        with self._lock:
            if self._closed.is_set():
                raise self._is_closed()
            self._worker = self._worker or Worker(f"stretto worker {self._name}")
            if self._loading is None or (self._loading.done() and self._loading.exception()):
                # A failed loading is tried again: the hub may be reachable now.
                self._loading = self._worker.submit(partial(self._load, self._is_given_up))
            loading = self._loading
        return loading.result() if loading.done() else await outcome(loading)

    async def in_worker(self, work: Callable[[], T]) -> T:
        """Do work in the thread that loads the model."""
        worker = self._worker
        return work() if worker is None else await asyncio.wrap_future(worker.submit(work))

    async def in_preparer(self, work: Callable[[], T]) -> T:
        """Do work in the thread that prepares requests. Raises `BackendError` if the backend is closed before."""

        def unless_closed() -> T:
            if self._closed.is_set():
                raise self._is_closed()
            return work()

        with self._lock:
            if self._closed.is_set():
                raise self._is_closed()
            self._preparer = self._preparer or Worker(f"stretto prepares {self._name}")
            preparer = self._preparer
        return await asyncio.wrap_future(preparer.submit(unless_closed))

    async def aclose(self) -> None:
        """End the engine and the threads. Idempotent; waits for a model that is being loaded."""
        if self._fork.happened():
            return
        with self._lock:
            self._closed.set()
            worker, self._worker = self._worker, None
            preparer, self._preparer = self._preparer, None
            loading, self._loading = self._loading, None
        if worker is None:
            return
        look_again()
        try:
            # In the worker, after the loading: joining the engine's thread here would hold up the event loop.
            await outcome(worker.submit(partial(_close, loading, preparer)))
        finally:
            worker.end()
        worker.close()

    def _is_given_up(self) -> bool:
        return self._closed.is_set() or is_exiting()

    def _is_closed(self) -> BackendError:
        return BackendError(f"The backend {self._name} is closed. Make a new one.", backend=self._name)


def _close(loading: Future[Engine] | None, preparer: Worker | None) -> None:
    if preparer is not None:
        preparer.close()  # callers that wait there see that the backend is closed
    if loading is not None and loading.exception() is None:
        loading.result().free()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector while torch and transformers are imported: it took a quarter of that time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
