"""The backend that runs a model in this process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from stretto.backends.allowance import calling
from stretto.backends.base import Capabilities, Chunk, Measured, ModelRequest, Stages
from stretto.backends.load import Load
from stretto.backends.local.before_loading import capabilities_of, compiled_by_default, of_blocks
from stretto.backends.local.chunks import Chunks, decoding_of
from stretto.backends.local.engine_loader import EngineShare
from stretto.backends.local.generations import format_of, generation, tokens_with_paths
from stretto.backends.local.loading import DEFAULT_DECODING, REMEMBERED, LoadingOptions
from stretto.backends.local.tools import (
    check_template,
    forced_schema,
    left_out,
    template_arguments,
    tools_shown,
    turns_of,
)
from stretto.backends.tenants import asking
from stretto.foundation.arguments import safe_repr
from stretto.foundation.latest import Latest
from stretto.local_engine.drafting.sources.text_files import check_paths
from stretto.local_engine.log import log_event
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research_registry import long_prompts
from stretto.local_engine.serving.long_prompts import FocusOptions, LongPromptReader, chosen_method
from stretto.local_engine.serving.record import Record
from stretto.markup.reading import reader_of
from stretto.observe.telemetry import EngineWork, is_traced, note_engine
from stretto.values.errors import InvalidRequestError
from stretto.values.request import GenerationOptions

if TYPE_CHECKING:
    from stretto.local_engine.choosing.constraint import Constraint
    from stretto.local_engine.model.loading.load import LoadedModel
    from stretto.local_engine.serving.engine import Engine
    from stretto.local_engine.serving.handle import Handle

_log = logging.getLogger(__package__)

_LET_GO_S = 2.0  # a deadline can pass while a drafter hangs or a forward takes long; the engine ends the request later
_MARK_TOKENS = 24  # last tokens of a prompt, which contain the mark of a thought that begins there
_LONG_TEXT = 20_000  # characters; tokenizing more takes more than a few milliseconds


class LocalBackend:
    """Runs a model in this process.

    The model is loaded in a thread when it is first needed, and the engine runs it in another. Backends of one process
    with the same files and options share both, and the last `aclose` ends them.

    Args:
        model: ``local:pocket``, ``local:./folder`` or ``local:`` and a hub name.
        dtype: ``float32``, ``bfloat16``, ...; by default bfloat16 where the machine computes in it, else float32.
        quantize: low-bit weights, for compiled code on a CPU: ``int8`` or ``int4`` rounds them while they are loaded,
            in groups of 32 with one scale each. By default the weights of a GGUF file stay as stored, unless a dtype is
            given, and others are not rounded; ``none`` also unpacks GGUF files. Activations are rounded to 8 bits when
            multiplied by such weights. Elsewhere weights are unpacked, and one warning is logged.
        device: ``cpu``, ``cuda``, ...; by default the GPU where there is one.
        trust_remote_code: run Python code that comes with the model.
        cuda_graphs: record decoding steps while loading and replay each as a whole: about two to five times as fast on
            an H100. On by default on a CUDA device. Each recorded step is first compared with the plain one; if any
            differs, none is used. False saves memory and a few seconds of loading.
        threads: maximum for one forward; by default, as many as pay off for the model's size.
        compiled: run code compiled for this processor. ``True`` waits for the compiler, about 20 seconds the first time
            on a machine; ``False`` runs torch's operations and Python, which is slower on a CPU. ``None`` does so until
            a background process has compiled the code, and waits only for the products of low-bit weights, about 6
            seconds; on a GPU it compiles nothing. The default comes from the variable ``STRETTO_COMPILED``, else
            ``None``.
        decoding: the default decoding method. All but the lossy ones give the same answer, at different speeds. Without
            one, the router chooses for each request, and `stream` called directly uses ``autoregressive``.
        draft: a smaller model with the same tokenizer, in the form of ``model``, for ``decoding="draft_model"``.
        head: folder of a draft head: a small network that drafts from the model's hidden states, such as one for
            EAGLE-3. ``auto`` drafts with it where that pays, and ``decoding="head"`` with it alone. A head in the
            folder ``head`` next to the weights is found automatically.
        method_options: options of decoding methods, by the method's name: ``{"method": {"option": 0.5}}``.
        prefix_cache_bytes: memory for the keys and values of earlier requests, from which the next turn of a chat
            starts; 0 for none.
        draft_history_tokens: number of recent answer tokens that ``suffix`` and ``auto`` draft from. A server keeps
            them separate for each API key, and keeps none without keys. The speed of a request reveals something about
            this history: pass 0 where callers of one process must not learn about each other.
        draft_corpus: files and folders of text or code that ``suffix`` and ``auto`` also draft from. They are read
            while the model is loaded: at most 16 MiB, and 24 bytes are kept for each token.
        long_context: how a prompt longer than the window is answered: ``focus``, with an adapter next to the weights;
            ``auto``, the default, like ``focus`` if there is an adapter; ``refuse`` or ``None`` not at all.
            `FocusOptions` also set how documents are cut. The question must come at the end of the prompt. One such
            prompt is read at a time, token by token.
        adapter: folder of a LoRA or DoRA adapter saved by peft, to merge into the weights.
        adapters: folders of such adapters by name, which are not merged. A request selects one with ``adapter="name"``;
            each is read at the first such request.
        special_tokens_in_text: read control tokens in a message, such as ``<|im_end|>``, as control tokens. By default
            they are text, so that no message can end its turn and begin another.
        progress: write a line to a terminal if loading takes more than a few seconds.

    Attributes:
        places: files and folders that its model is loaded from.

    Raises `UnknownModelError`, `ModelNotFoundError` for a folder without a model, and `SettingsError`.
    """

    def __init__(
        self,
        model: str,
        *,
        dtype: str | None = None,
        quantize: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        compiled: bool | None = None,
        trust_remote_code: bool = False,
        cuda_graphs: bool | None = None,
        decoding: str | None = None,
        draft: str | None = None,
        head: str | Path | None = None,
        method_options: Mapping[str, Mapping[str, Any]] | None = None,
        prefix_cache_bytes: int = 2**28,
        draft_history_tokens: int = REMEMBERED,
        draft_corpus: Sequence[str | Path] = (),
        long_context: str | FocusOptions | None = "auto",
        adapter: str | Path | None = None,
        adapters: Mapping[str, str | Path] | None = None,
        special_tokens_in_text: bool = False,
        progress: bool = True,
    ) -> None:
        options = LoadingOptions(
            find_source(model),
            dtype=dtype,
            quantize=quantize,
            device=device,
            threads=threads,
            compiled=compiled_by_default() if compiled is None else compiled,
            trust_remote_code=trust_remote_code,
            cuda_graphs=cuda_graphs,
            decoding=decoding,
            draft=None if draft is None else find_source(draft),
            head=None if head is None else Path(head).expanduser(),
            method_options=method_options or {},
            prefix_cache_bytes=prefix_cache_bytes,
            draft_history_tokens=draft_history_tokens,
            draft_corpus=check_paths(draft_corpus),
            adapter=None if adapter is None else Path(adapter).expanduser(),
            adapters={name: Path(folder).expanduser() for name, folder in (adapters or {}).items()},
        )
        self._name = options.source.name
        self.places = options.places
        self._decoding = decoding
        self._capabilities = capabilities_of(options)
        self._loader = EngineShare(self._name, options.identity(), options.load, progress=progress)
        reading = replace(options, reading=True)
        self._reading = (
            EngineShare(f"{self._name} for documents", reading.identity(), reading.load, progress=progress)
            if options.has_reading
            else None
        )
        self._running: set[Handle] = set()
        self._adapters, self._attach_lora = options.adapters, options.attach_lora
        window = self._capabilities.context_window
        self._long_context = chosen_method(long_context, options.source.folder, self._name, window)
        if options.source.block_form() is not None:
            self._long_context = None  # both methods read a prompt from left to right
        self._capabilities = replace(self._capabilities, beyond_window=self._long_context is not None)
        self._reader: LongPromptReader | None = None
        self._special_tokens_in_text = special_tokens_in_text
        self._records = Latest(Record)  # per tenant, because the step counts reveal how much was generated

    @property
    def name(self) -> str:
        """Model name, ``local:model``."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the model; the window of a hub name is known once it is loaded."""
        engine = self._loader.engine
        if engine is None:
            return self._capabilities
        known, form = replace(self._capabilities, context_window=engine.model.context_window), engine.model.diffusion
        return known if form is None else of_blocks(known, form)

    def measured(self) -> Measured | None:
        """Return the engine's own speed measurements for this tenant; ``None`` before the model is loaded."""
        engine = self._loader.engine
        if engine is None:
            return None
        by_method = self._records.of(asking()).by_method()
        return Measured(engine.step_ms, {name: decoding_of(found) for name, found in by_method.items()})

    def forget_learned(self) -> None:
        """Forget acceptance statistics and the answers used for drafting, for all backends that share the engine."""
        self._records.clear()
        for share in (self._loader, self._reading):
            if share is not None and (engine := share.engine) is not None:
                engine.forget_learned()

    def load_now(self) -> Load:
        """Return how many sequences are in the batch or wait for a place in it, and how many of them wait."""
        engine = self._loader.engine
        if engine is None:
            return Load()
        occupancy = engine.occupancy
        return Load(occupancy.running + occupancy.waiting, occupancy.waiting)

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Start one generation. Leaving the context waits until the engine has ended it, two seconds at most.

        Text that is ready at the same time comes as one chunk. Raises `InvalidRequestError` for an unknown decoding
        method, `BackendError` and its subclasses.
        """
        decodings = self.capabilities.decodings
        usual = DEFAULT_DECODING if DEFAULT_DECODING in decodings else decodings[0]
        decoding = options.decoding or self._decoding or usual
        # The kind of a model given by hub name is known once it is loaded. Until then a method of the other kind is
        # accepted.
        if decoding not in {*decodings, *self._capabilities.decodings}:
            there = ", ".join(decodings)
            raise InvalidRequestError(
                f"decoding={safe_repr(decoding)} cannot be used with {self.name}. Use one of: {there}."
            )
        if options.adapter is not None and options.adapter not in self._adapters:
            there = ", ".join(self._adapters) or "none was given to LocalBackend(adapters=...)"
            raise InvalidRequestError(
                f"adapter={safe_repr(options.adapter)} cannot be used with {self.name}. Its adapters: {there}."
            )
        began = time.perf_counter()
        reading = self._reading if prompt.reads and options.adapter is None else None
        engine = await (reading or self._loader).ready()
        model, decoding = engine.model, engine.decoding_for(decoding)
        check_template(model.form, prompt, self.name)
        forced = forced_schema(prompt, self.name)
        if forced is not None:
            prompt = replace(prompt, response_schema=forced)
        unread = left_out(model.chat.template, prompt, self.name)
        chunks = Chunks(self.name, asyncio.get_running_loop(), self._records.of(asking()), model, unread)
        chunks.reach("loaded")
        constraint = await self._prepared(engine, prompt, decoding, options.adapter)
        chunks.unheld = constraint.unheld if constraint is not None else ()
        handle = await self._submitted(
            engine, chunks, prompt, options, decoding=decoding, constraint=constraint, whole=forced is not None
        )
        chunks.generated = handle.sequence.generated
        _log_submitted(self.name, handle.number, began, chunks.stages)
        self._running.add(handle)
        try:
            yield chunks
        finally:
            self._running.discard(handle)
            handle.cancel()
            with anyio.move_on_after(_LET_GO_S, shield=True):  # usually takes one forward
                await chunks.ended()
            if not handle.finished:
                log_event(_log, logging.WARNING, "request left in a step", request=handle.number, waited_s=_LET_GO_S)
            elif handle.batches is not None:
                report_traces(handle)

    async def _submitted(
        self,
        engine: Engine,
        chunks: Chunks,
        prompt: ModelRequest,
        options: GenerationOptions,
        *,
        decoding: str,
        constraint: Constraint | None,
        whole: bool,
    ) -> Handle:
        """Tokenize the prompt and queue the request, or pass it to the reader of long prompts.

        A batch that is about to start waits for announced requests. Short texts are announced while they are tokenized.
        Long ones are not, so that no other request waits for them. ``whole``: the answer is one tool call.
        """
        model = engine.model
        is_short = sum(len(message.content) for message in prompt.messages) < _LONG_TEXT
        with engine.announced() if is_short else nullcontext():
            beyond = self._long_context is not None and options.adapter is None and model.diffusion is None
            window = None if beyond else model.context_window
            encode = partial(tokens_with_paths, prompt, lambda shown: self._tokens(model, shown, window))
            ids, joined = await self._loader.in_worker(encode)
            chunks.reader = reader_of(
                model.form,
                tools_shown(prompt),
                opened=model.form.opened_by(model.tokenizer.decode(ids[-_MARK_TOKENS:])),
                constrained=format_of(prompt) is not None,
                whole=whole,
            )
            if not beyond or len(ids) < model.context_window:
                room = min(model.context_window, model.cache_tokens) - len(ids)
                request = generation(model, ids, prompt, options, decoding, room=room, joined=joined)
                chunks.reach("prepared")
                return engine.submit(
                    request, chunks.put, constraint=constraint, on_stage=chunks.reach, watched=is_traced()
                )
        engine = await (self._reading or self._loader).ready()  # so long a prompt contains a document
        reader = await self._loader.in_preparer(partial(self._long_reader, engine))
        request = generation(model, ids, prompt, options, decoding, room=reader.room(len(ids)))
        chunks.reach("prepared")
        return reader.submit(request, chunks.put, constraint=constraint, on_stage=chunks.reach, watched=is_traced())

    async def load_ahead(self) -> None:
        """Load the model now, so that no answer waits for it. Raises any error from loading, and `BackendError`."""
        await self._loader.ready()

    async def count_tokens(self, prompt: ModelRequest) -> int:
        """Return the exact number of prompt tokens, chat template included. Loads the model if needed."""
        encode = partial(self._tokens, (await self._loader.ready()).model, prompt)
        return len(await self._loader.in_worker(encode))

    async def text_counter(self) -> Callable[[str], int]:
        """Return a function that counts with the model's tokenizer. Loads the model if needed."""
        tokenizer = (await self._loader.ready()).model.tokenizer
        return lambda text: len(tokenizer(text, add_special_tokens=False, verbose=False).input_ids)

    async def aclose(self) -> None:
        """Cancel running requests, stop the threads and free the model. Idempotent.

        Waits a few seconds for a model that is being loaded; one that takes longer is freed as soon as it is loaded.
        """
        self._reader = None
        for handle in tuple(self._running):
            handle.cancel()
        await self._loader.aclose()
        if self._reading is not None:
            await self._reading.aclose()

    async def _prepared(
        self, engine: Engine, prompt: ModelRequest, decoding: str, adapter: str | None
    ) -> Constraint | None:
        """Compile the grammar and read adapters outside the event loop; this can take seconds.

        The request is not announced yet, so no other request waits for this.
        """
        wanted = format_of(prompt)
        is_there = adapter is None or engine.has_beside(adapter)
        if wanted is None and engine.equipped(decoding) and is_there:
            return None
        tenant = asking()

        def prepare() -> Constraint | None:
            engine.equip(decoding)
            if adapter is not None:
                self._attach_lora(engine, adapter)
            return engine.constraint(wanted, engine.model.ends, tenant)

        return await self._loader.in_preparer(prepare)

    def _long_reader(self, engine: Engine) -> LongPromptReader:
        """Return the reader of prompts longer than the window; the first call reads and hashes the weights."""
        make = long_prompts()
        assert make is not None  # noqa: S101 - `chosen_method` has checked; for the type checker
        assert self._long_context is not None  # noqa: S101 - the caller has checked; as above
        self._reader = self._reader or make(engine, self._long_context)
        return self._reader

    def _tokens(self, model: LoadedModel, prompt: ModelRequest, window: int | None = None) -> tuple[int, ...]:
        """Tokenize the prompt. With ``window``, raises `ContextOverflowError` for most prompts that do not fit."""
        return model.chat.encode(
            turns_of(prompt, model.form),
            tools=tools_shown(prompt),
            arguments=template_arguments(prompt),
            closing=None if format_of(prompt) is None else model.form.closing,
            special_tokens_in_text=self._special_tokens_in_text,
            window=window,
        )


def _log_submitted(model: str, request: int, began: float, stages: Stages) -> None:
    """Log what a call waited for before the engine queued it."""
    caller, loaded, prepared = calling(), stages.loaded_s or began, stages.prepared_s or began
    log_event(
        _log,
        logging.INFO,
        "request submitted",
        request=request,
        model=model,
        answer=None if caller is None else caller.answer,
        branch=None if caller is None else caller.part,
        load_s=round(loaded - began, 4),
        prepare_s=round(prepared - loaded, 4),
    )


def report_traces(handle: Handle) -> None:
    """Add the engine's spans to the current call, for a watched request that has ended."""
    at, now = handle.stages.get, time.perf_counter()
    submitted, admitted, first = at("submitted"), at("admitted"), at("first_token")
    work = []
    if submitted is not None:
        work.append(EngineWork("queue", submitted, admitted or now))
    if admitted is not None:
        prompt, cached = len(handle.sequence.request.prompt), handle.sequence.cached
        figures = {"prompt_tokens": prompt, "cached_tokens": cached}
        work.append(EngineWork("prefill", admitted, first or now, figures))
    for batch in handle.batches or ():
        figures = {
            "batch": batch.number,
            "requests": batch.requests,
            "steps": batch.steps,
            "rows": batch.rows,
            "tokens": batch.tokens,
        }
        work.append(EngineWork("steps", batch.began_s, batch.ended_s, figures))
    note_engine(work)
