"""A model in this process, behind the protocol of a backend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from stretto.arguments import shown
from stretto.backends.base import Capabilities, Chunk, Measured, Prompt
from stretto.backends.local.chunks import Chunks, decoding_of
from stretto.backends.local.loading import DEFAULT_DECODING, EngineLoader, LoadingOptions
from stretto.errors import InvalidRequestError
from stretto.local_engine.drafting.lexical_options import LexicalOptions
from stretto.local_engine.generation import Generation
from stretto.local_engine.kernels.switch import compiling
from stretto.local_engine.long_context.options import FocusOptions, StarOptions, chosen_way
from stretto.local_engine.model.source import find_source
from stretto.local_engine.serving.record import Record
from stretto.request import GenerationOptions

if TYPE_CHECKING:
    from stretto.local_engine.choosing.constraint import Constraint
    from stretto.local_engine.long_context.reader import LongContextReader
    from stretto.local_engine.model.load import LoadedModel
    from stretto.local_engine.serving.engine import Engine

__all__ = ["LocalBackend"]

_DEFAULT_NEW_TOKENS = 1024
_LONG_TEXT = 20_000  # characters; tokenizing more would hold up the event loop for more than some milliseconds


class LocalBackend:
    """Generates with a model in this process.

    The model is loaded when it is first needed, in a thread; the engine runs it in another. `aclose` ends both.

    Args:
        model: ``local:pocket``, ``local:./folder`` or ``local:`` and a hub name.
        dtype: ``float32``, ``bfloat16``, ...; by default bfloat16 where the machine computes in it, else float32.
        device: ``cpu``, ``cuda``, ...; by default the GPU where there is one.
        trust_remote_code: run Python code that came with the model.
        cuda_graphs: record decoding steps while the model is loaded, and repeat them as a whole: about two to five
            times as fast on an H100. By default on a CUDA device. Each recorded step is compared with the plain one
            first; if any differs, none is used. False saves some seconds of loading, and memory.
        threads: for one forward at most; by default, as many as the model's size is worth.
        compiled: run forwards in code compiled for this processor, where the model allows it; ``False``: in torch,
            which is slower on a CPU. By default, as the variable ``STRETTO_COMPILED`` says, else ``True``.
        decoding: how tokens are found, unless a request says otherwise; each method but ``lexical_lossy`` gives the
            same answer, at another speed. Without one, the router chooses for each request, and `stream` alone takes
            ``autoregressive``.
        draft: a smaller model with the same tokenizer, written as ``model`` is, for ``decoding="draft_model"``.
        lexical: options of ``decoding="lexical"`` and ``"lexical_lossy"``.
        prefix_cache_bytes: memory for what earlier requests have computed, from which the next turn of a chat starts;
            0 for none.
        remember_answers: tokens of earlier answers that ``suffix`` and ``auto`` look into. None by default: how fast
            one request is answered would tell something of what others were told.
        long_context: how a prompt longer than the window is answered: ``focus``, by an adapter beside the weights;
            ``star``, without training; ``auto``, the default, by focus where there is an adapter; ``refuse`` or
            ``None`` not at all. `FocusOptions` or `StarOptions` say how documents are cut as well. The question has to
            stand at the end of the prompt. One such prompt is read at a time, token by token.
        special_tokens_in_text: let control tokens of the model that are written in a message, such as ``<|im_end|>``,
            be control tokens. By default they are text, so that no message can end its turn and begin another.

    Raises `UnknownModelError`, `ModelNotFoundError` for a folder that holds no model, and `SettingsError`.
    """

    def __init__(
        self,
        model: str,
        *,
        dtype: str | None = None,
        device: str | None = None,
        threads: int | None = None,
        compiled: bool | None = None,
        trust_remote_code: bool = False,
        cuda_graphs: bool | None = None,
        decoding: str | None = None,
        draft: str | None = None,
        lexical: LexicalOptions | None = None,
        prefix_cache_bytes: int = 2**28,
        remember_answers: int = 0,
        long_context: str | FocusOptions | StarOptions | None = "auto",
        special_tokens_in_text: bool = False,
    ) -> None:
        options = LoadingOptions(
            find_source(model),
            dtype=dtype,
            device=device,
            threads=threads,
            compiled=compiling() if compiled is None else compiled,
            trust_remote_code=trust_remote_code,
            cuda_graphs=cuda_graphs,
            decoding=decoding,
            draft=None if draft is None else find_source(draft),
            lexical=lexical,
            prefix_cache_bytes=prefix_cache_bytes,
            remember_answers=remember_answers,
        )
        self._name = options.source.name
        self._decoding = decoding or DEFAULT_DECODING
        self._capabilities = options.capabilities()
        self._loader = EngineLoader(self._name, options.load)
        reading = replace(options, reading=True)
        self._reading = EngineLoader(f"{self._name} for documents", reading.load) if options.has_reading else None
        window = self._capabilities.context_window
        self._way = chosen_way(long_context, options.source.folder, self._name, window)
        self._capabilities = replace(self._capabilities, beyond_window=self._way is not None)
        self._reader: LongContextReader | None = None
        self._special_tokens_in_text = special_tokens_in_text
        self._record = Record()

    @property
    def name(self) -> str:
        """The model name, ``local:model``."""
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; the window of a hub name, and what was measured, are known once the model is loaded."""
        engine = self._loader.engine
        if engine is None:
            return self._capabilities
        figures = {name: decoding_of(seen) for name, seen in self._record.by_method().items()}
        measured = Measured(engine.step_ms, figures)
        return replace(self._capabilities, context_window=engine.model.context_window, measured=measured)

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Start one generation. Leaving the context returns when the engine has let go of it.

        Text that became ready together comes as one chunk. Raises `InvalidRequestError` for a decoding method that
        is not there, `BackendError` and its children.
        """
        decoding = options.decoding or self._decoding
        if decoding not in self._capabilities.decodings:
            there = ", ".join(self._capabilities.decodings)
            raise InvalidRequestError(
                f"decoding={shown(decoding)} cannot be used with {self.name}. Use one of: {there}."
            )
        reading = self._reading if prompt.reads else None
        engine = await (reading or self._loader).ready()
        chunks = Chunks(self.name, asyncio.get_running_loop(), self._record, engine.model)
        constraint = await self._prepared(engine, prompt, decoding)
        with engine.announced():
            ids = await self._tokens(engine.model, prompt, None if self._way else engine.model.context_window)
            long = self._way if len(ids) >= engine.model.context_window else None
            if long is None:
                request = _generation(engine.model, ids, prompt, options, decoding)
                handle = engine.submit(request, chunks.put, constraint=constraint)
        if long is not None:  # no batch should wait for what it takes to make it ready
            engine = await self._loader.ready()  # the adapter for long prompts was trained on the weights as they are
            reader = await self._loader.in_preparer(partial(self._long_reader, engine, long))
            request = _generation(engine.model, ids, prompt, options, decoding, room=reader.room(len(ids)))
            handle = reader.submit(request, chunks.put, constraint=constraint)
        try:
            yield chunks
        finally:
            handle.cancel()
            with anyio.CancelScope(shield=True):  # at most one forward long
                await chunks.ended()

    async def count_tokens(self, prompt: Prompt) -> int:
        """Tokens of the prompt, chat template included; exact. Loads the model if it is not loaded yet."""
        engine = await self._loader.ready()
        return len(await self._tokens(engine.model, prompt))

    async def text_counter(self) -> Callable[[str], int]:
        """Count with the model's tokenizer. Loads the model if it is not loaded yet."""
        tokenizer = (await self._loader.ready()).model.tokenizer
        return lambda text: len(tokenizer(text, add_special_tokens=False).input_ids)

    async def aclose(self) -> None:
        """End the running requests, the threads and the model. Idempotent; waits for a model that is being loaded."""
        await self._loader.aclose()
        if self._reading is not None:
            await self._reading.aclose()

    async def _prepared(self, engine: Engine, prompt: Prompt, decoding: str) -> Constraint | None:
        """Do off the event loop what can take seconds: compile a grammar, hash the weights that an adapter is for.

        Before the request is announced, because those that wait for it would wait for this too.
        """
        wanted = _format(prompt)
        if wanted is None and engine.equipped(decoding):
            return None

        def prepare() -> Constraint | None:
            engine.equip(decoding)
            return engine.constraint(wanted, engine.model.end_ids)

        return await self._loader.in_preparer(prepare)

    def _long_reader(self, engine: Engine, way: FocusOptions | StarOptions) -> LongContextReader:
        """What answers prompts longer than the window; the first call reads and hashes the weights."""
        from stretto.local_engine.long_context.reader import LongContextReader  # noqa: PLC0415 - it imports torch

        self._reader = self._reader or LongContextReader(engine, way)
        return self._reader

    async def _tokens(self, model: LoadedModel, prompt: Prompt, window: int | None = None) -> tuple[int, ...]:
        """The prompt's tokens. With a ``window``, raises `ContextOverflowError` for most of what does not fit in it."""
        turns = [{"role": message.role, "content": message.content} for message in prompt.messages]
        encode = partial(model.chat.encode, turns, special_tokens_in_text=self._special_tokens_in_text, window=window)
        if sum(len(message.content) for message in prompt.messages) < _LONG_TEXT:
            return encode()
        return await self._loader.in_worker(encode)


def _format(prompt: Prompt) -> Mapping[str, Any] | str | None:
    return prompt.response_regex if prompt.response_schema is None else prompt.response_schema


def _generation(
    model: LoadedModel,
    ids: tuple[int, ...],
    prompt: Prompt,
    options: GenerationOptions,
    decoding: str,
    *,
    room: int | None = None,
) -> Generation:
    own = model.sampling  # what the model recommends; what the caller says goes before it
    if room is None:
        room = min(model.context_window, model.cache_tokens) - len(ids)
    wanted = options.max_tokens or _DEFAULT_NEW_TOKENS
    return Generation(
        prompt=ids,
        max_new_tokens=max(1, min(wanted, room)),
        end_ids=model.end_ids,
        stop=options.stop,
        temperature=own.get("temperature", 0.0) if options.temperature is None else options.temperature,
        top_p=own.get("top_p", 1.0) if options.top_p is None else options.top_p,
        top_k=int(own.get("top_k", 0)),
        min_p=own.get("min_p", 0.0),
        response_format=_format(prompt),
        seed=options.seed,
        decoding=decoding,
        logprobs=options.logprobs,
        **model.penalties,
    )
