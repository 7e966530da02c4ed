"""The options of a local model, and how it is loaded and its engine started with them."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stretto.errors import MissingDependencyError
from stretto.local_engine.drafting.catalogue import METHODS, WEIGHING
from stretto.local_engine.drafting.draft_model import check_vocabulary
from stretto.local_engine.drafting.sources.reading import read_texts
from stretto.local_engine.log import log_event
from stretto.local_engine.model.adapter_files import READING_FILE
from stretto.local_engine.model.loading_turn import turn_to_load
from stretto.local_engine.model.source import Source
from stretto.local_engine.parallel.layout import Layout

if TYPE_CHECKING:
    from stretto.local_engine.drafting.sources.files import FileTexts
    from stretto.local_engine.model.load import LoadedModel
    from stretto.local_engine.serving.engine import Engine

__all__ = ["DEFAULT_DECODING", "MOST_REMEMBERED", "REMEMBERED", "SLOTS", "LoadingOptions"]

DEFAULT_DECODING = "autoregressive"
REMEMBERED = 20_000
"""Tokens of earlier answers in which drafts are looked for: about 50 answers, 4 MB."""
MOST_REMEMBERED = 1_000_000

SLOTS = 16
"""Of the engine's batch, and calls that one answer sends at a time."""

_log = logging.getLogger(__package__)

_NO_LOCAL = ". Without it, set OPENAI_API_KEY or ANTHROPIC_API_KEY, or name another model."


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
        return self.layout.processes > 1

    @property
    def layout(self) -> Layout:
        """How the model is divided over processes."""
        return Layout(self.tensor_parallel, self.pipeline_parallel, self.context_parallel)

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
            self.layout,
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

    def keep_beside(self, engine: Engine, name: str) -> None:
        """Let an engine read one of the adapters, if it has not yet.

        Raises `SettingsError` for an adapter that cannot be read or does not fit.
        """
        from stretto.local_engine.model.low_rank import read_low_rank  # noqa: PLC0415 - it imports torch

        if not engine.has_beside(name):
            engine.keep_beside(name, read_low_rank(self.adapters[name]))

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
            batch_size=SLOTS,
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
