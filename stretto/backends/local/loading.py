"""The options of a local model; loads it and starts its engine."""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.backends.provider_table import default_keys, either
from stretto.local_engine.drafting.catalogue import METHODS, WEIGHING
from stretto.local_engine.drafting.draft_model import check_vocabulary
from stretto.local_engine.drafting.sources.text_files import read_texts
from stretto.local_engine.kernels.compiling.compiled_parts import BLOCKS, product
from stretto.local_engine.log import log_event
from stretto.local_engine.model.adapters.adapter_files import READING_FILE
from stretto.local_engine.model.formats.gguf_header import PLAIN_TYPES
from stretto.local_engine.model.loading.loading_progress import timed_loading
from stretto.local_engine.model.loading.loading_turn import refuse_after_fork, turn_to_load
from stretto.local_engine.model.loading.reading_ahead import read_ahead
from stretto.local_engine.model.loading.source import Source
from stretto.values.errors import BackendError, MissingDependencyError

if TYPE_CHECKING:
    from stretto.local_engine.drafting.sources.files import FileTexts
    from stretto.local_engine.model.loading.load import LoadedModel
    from stretto.local_engine.serving.engine import Engine

DEFAULT_DECODING = "autoregressive"
REMEMBERED = 20_000
"""Tokens of earlier answers that are searched for drafts: about 50 answers, 4 MB."""
MOST_REMEMBERED = 1_000_000

SLOTS = 16
"""Places in the engine's batch, and calls that one answer sends at a time."""

_log = logging.getLogger(__package__)

_NO_LOCAL = f". Without it, set {either([*default_keys()])}, or name another model."


@dataclass(frozen=True)
class LoadingOptions:
    """Options for loading a local model; see `LocalBackend`.

    Attributes:
        adapter: folder of an adapter to merge into the weights.
        adapters: folders of unmerged adapters, by name.
        reading: merge the adapter for reading documents into the weights.
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
    draft_history_tokens: int
    draft_corpus: tuple[Path, ...] = ()
    adapter: Path | None = None
    adapters: Mapping[str, Path] = field(default_factory=dict)
    reading: bool = False

    @property
    def has_reading(self) -> bool:
        """Whether an adapter for reading documents, trained on the weights, lies next to them."""
        folder = self.source.folder
        return self.adapter is None and folder is not None and (folder / READING_FILE).is_file()

    def load(self, given_up: Callable[[], bool] = lambda: False) -> Engine:
        """Wait until no other model is being loaded, then load the model and start its engine, unless it is given up.

        Steps of unbounded length run before or after that turn, and block no other model: downloading a hub model,
        reading files ahead while libraries are imported, rendering a chat template.

        Raises `MissingDependencyError`, `BackendError`, `SettingsError`.
        """
        started = time.perf_counter()
        refuse_after_fork(self.source.name)
        texts = read_texts(self.draft_corpus) if self.draft_corpus and not self.reading else []
        if self._is_in_few_bits:
            from stretto.local_engine.kernels.compiling.compiler import compile_ahead  # noqa: PLC0415 - NumPy is imported late

            compile_ahead([product(BLOCKS)])
        here = self._fetched()
        with timed_loading(self.source.name, self.identity()) as loading, ExitStack() as stack:
            kept = stack.enter_context(self._kept())
            places = [each for each in here._places() if each not in kept]
            with read_ahead(self.source.name, places, given_up):
                _import_ahead()
            with loading.waiting():
                stack.enter_context(self._turn(given_up))
            engine = here._load(texts)
        _ = engine.model.ends
        log_event(
            _log,
            logging.INFO,
            "model loaded",
            model=self.source.name,
            other_models_s=round(loading.waited_s, 4),
            load_s=round(time.perf_counter() - started - loading.waited_s, 4),
        )
        return engine

    @property
    def _is_in_few_bits(self) -> bool:
        """Whether weights will be kept in few bits, as far as that is known before the model is read."""
        if self.compiled is False or not (self.device or "cpu").startswith("cpu"):
            return False
        if self.quantize is None and self.dtype is None and self.adapter is None and not self.reading:
            header = self.source.header()
            return header is not None and header.quantisation not in PLAIN_TYPES
        return self.quantize not in (None, "none")

    @contextmanager
    def _kept(self) -> Iterator[list[Path]]:
        """Yield the model's file if its weights are mapped from a kept copy; reading the copy starts now."""
        if self.source.file is None or self.quantize is not None or not self._is_in_few_bits:
            yield []
            return
        from stretto.local_engine.model.quantised.kept_blocks import begin_reading, stop_reading  # noqa: PLC0415 - NumPy is imported late

        kept = begin_reading(self.source.file)
        try:
            yield [] if kept is None else [self.source.file]
        finally:
            if kept is not None:
                stop_reading(kept)

    def _fetched(self) -> LoadingOptions:
        """Return the same options with hub models downloaded."""
        if self.source.hub_name is None and (self.draft is None or self.draft.hub_name is None):
            return self
        try:
            from stretto.local_engine.model.loading.weights import fetch  # noqa: PLC0415 - it imports torch
        except ImportError:
            return self  # loading reports it
        return replace(self, source=fetch(self.source), draft=None if self.draft is None else fetch(self.draft))

    def identity(self) -> str:
        """Return a string that identifies the model in memory: its options, and the current state of its files."""
        options = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, each in (("source", self.source), ("draft", self.draft)):
            options[name] = each and (each.file or each.folder or each.hub_name)
        return json.dumps([options, [_state(path) for path in self.places]], sort_keys=True, default=_written)

    @property
    def places(self) -> tuple[Path, ...]:
        """All files and folders that are ever read."""
        return tuple(
            path for path in (*self._places(), *self.adapters.values(), *self.draft_corpus) if path is not None
        )

    @contextmanager
    def _turn(self, given_up: Callable[[], bool]) -> Iterator[None]:
        with turn_to_load(self.source.name, given_up), _uncollected():
            yield

    def _places(self) -> list[Path | None]:
        """Return the files and folders to read ahead."""
        sources = [self.source, *([] if self.draft is None else [self.draft])]
        folders = [folder for each in sources if (folder := each.folder) is not None]
        heads = [folder / "head" for folder in folders]
        return [*(each.file for each in sources), *folders, *heads, self.adapter, self.head]

    def _load(self, texts: Sequence[str]) -> Engine:
        if sys.flags.optimize > 1:
            raise BackendError(
                f"{self.source.name} cannot be loaded by python -OO, which leaves out the docstrings that transformers "
                "reads. Run python without it, or with -O.",
                backend=self.source.name,
            )
        try:
            from stretto.local_engine.model.adapters.lora import read_lora  # noqa: PLC0415
            from stretto.local_engine.model.formats.differences import reading_change  # noqa: PLC0415
            from stretto.local_engine.model.loading.load import load_model  # noqa: PLC0415
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
        change = reading_change(self.source.folder, self.source.name) if self.reading else None
        if self.adapter is not None:
            change = read_lora(self.adapter).merge
        model = load(self.source, change=change)
        draft = None if self.draft is None else load(self.draft)
        if draft is not None:
            check_vocabulary(model, draft)
        measure = not self.reading and (self.decoding is None or self.decoding in WEIGHING)
        return self._engine(model, draft, self._files(model, texts), measure=measure)

    def attach_lora(self, engine: Engine, name: str) -> None:
        """Attach one of the adapters to an engine, unless it has it already.

        Raises `SettingsError` for an adapter that cannot be read or does not fit, and `ModelNotFoundError` for a pipe.
        """
        from stretto.local_engine.model.adapters.lora import read_lora  # noqa: PLC0415 - it imports torch

        if not engine.has_beside(name):
            with read_ahead(self.source.name, [self.adapters[name]], lambda: False):
                pass
            engine.attach_lora(name, read_lora(self.adapters[name]))

    def _files(self, model: LoadedModel, texts: Sequence[str]) -> FileTexts | None:
        """Tokenize the texts of files to draft from, if any were given."""
        if not texts:
            return None
        from stretto.local_engine.drafting.sources.files import tokenized  # noqa: PLC0415 - it imports numpy

        began = time.perf_counter()
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
    ) -> Engine:
        from stretto.local_engine.serving.engine import Engine  # noqa: PLC0415 - torch is imported when it is used

        engine = Engine(
            model,
            batch_size=SLOTS,
            threads=self.threads,
            draft=draft,
            head=self.head,
            method_options=self.method_options,
            prefix_cache_bytes=self.prefix_cache_bytes,
            draft_history_tokens=self.draft_history_tokens,
            files=files,
            measure=measure,
        )
        try:
            engine.equip(engine.decoding_for(self.decoding or DEFAULT_DECODING))
            if self.head is not None:  # report a misfit before the first question
                for name, method in METHODS.items():
                    # Only methods for which the head is sufficient:
                    if method.missing is not None and not method.missing(None, self.head):
                        engine.equip(name)
        except BaseException:
            engine.close()
            raise
        return engine


def _import_ahead() -> None:
    """Import what loading needs while files are read. Loading reports what cannot be imported."""
    if sys.flags.optimize <= 1:
        with suppress(ImportError), _uncollected():
            import stretto.local_engine.model.adapters.lora  # noqa: PLC0415
            import stretto.local_engine.serving.engine  # noqa: F401, PLC0415


def _written(value: object) -> str:
    return str(value.resolve() if isinstance(value, Path) else value)


def _state(place: Path) -> list[tuple[str, int, int]]:
    """Return paths, sizes and modification times of a file or of the entries of a folder."""
    whole = place.resolve()
    states: list[tuple[str, int, int]] = []
    with suppress(OSError):  # loading reports it
        for path in sorted(whole.iterdir()) if whole.is_dir() else [whole]:
            if path.exists():
                state = path.stat()
                states.append((str(path), state.st_size, state.st_mtime_ns))
    return states


class _Collecting:
    """Counts pauses of the garbage collector: two models can be loading at once."""

    def __init__(self) -> None:
        self.lock, self.paused, self.was_on = threading.Lock(), 0, False


_collecting = _Collecting()


@contextmanager
def _uncollected() -> Iterator[None]:
    """Pause the garbage collector while torch and transformers are imported: it took a quarter of that time."""
    with _collecting.lock:
        if not _collecting.paused:
            _collecting.was_on = gc.isenabled()
            gc.disable()
        _collecting.paused += 1
    try:
        yield
    finally:
        with _collecting.lock:
            _collecting.paused -= 1
            if not _collecting.paused and _collecting.was_on:
                gc.enable()
