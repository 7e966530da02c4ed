"""A model in this process, behind the protocol of a backend."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import anyio

from stretto.answer import Decoding, TokenLogprob, Usage
from stretto.backends.base import Capabilities, Chunk, Measured, Prompt
from stretto.errors import BackendError, InvalidRequestError, MissingDependencyError, SettingsError
from stretto.local_engine.chat_template import encode_turns
from stretto.local_engine.drafting.catalogue import DRAFTERS, LOSSY
from stretto.local_engine.drafting.draft_model import check_vocabulary
from stretto.local_engine.drafting.lexical import ADAPTER_FILE, LexicalOptions
from stretto.local_engine.generation import Figures, Finished, Generation, Piece
from stretto.local_engine.generation import TokenLogprob as Score
from stretto.local_engine.record import Record
from stretto.local_engine.source import find_source
from stretto.request import GenerationOptions

if TYPE_CHECKING:
    from stretto.local_engine.constraint import Constraint
    from stretto.local_engine.engine import Engine
    from stretto.local_engine.load import LoadedModel

__all__ = ["LocalBackend"]

_SLOTS = 16
_GRAMMARS = find_spec("llguidance") is not None
_DEFAULT_NEW_TOKENS = 1024
_ADAPTER = " It needs an adapter beside the weights: python -m stretto.local_engine.training.lexical --model {model}."
_NEEDS = {"draft_model": " It needs draft=, a smaller model.", "lexical": _ADAPTER, "lexical_lossy": _ADAPTER}
_LONG_TEXT = 20_000  # characters; tokenizing more would hold up the event loop for more than some milliseconds


class LocalBackend:
    """Generates with a model in this process.

    The model is loaded when it is first needed, in a thread; the engine runs it in another. `aclose` ends both.

    Args:
        model: ``local:pocket``, ``local:./folder`` or ``local:`` and a hub name.
        dtype: ``float32``, ``bfloat16``, ...; by default bfloat16 where the machine computes in it, else float32.
        device: ``cpu``, ``cuda``, ...; by default the GPU where there is one.
        trust_remote_code: run Python code that came with the model.
        cuda_graphs: on a GPU, record the steps of single sequences and repeat them as a whole. Not run on a GPU yet:
            each recorded step is compared with the plain one first, and given up if it differs.
        decoding: how tokens are found, unless a request says otherwise; each method but ``lexical_lossy`` gives the
            same answer, at another speed. Without one, the router chooses for each request, and `stream` alone takes
            ``autoregressive``.
        draft: a smaller model with the same tokenizer, written as ``model`` is, for ``decoding="draft_model"``.
        lexical: options of ``decoding="lexical"`` and ``"lexical_lossy"``.
        prefix_cache_bytes: memory for what earlier requests have computed, from which the next turn of a chat starts;
            0 for none.
        remember_answers: tokens of earlier answers that ``suffix`` and ``auto`` look into. None by default: how fast
            one request is answered would tell something of what others were told.

    Raises `UnknownModelError`, `ModelNotFoundError` for a folder that holds no model, and `SettingsError`.
    """

    def __init__(
        self,
        model: str,
        *,
        dtype: str | None = None,
        device: str | None = None,
        trust_remote_code: bool = False,
        cuda_graphs: bool = False,
        decoding: str | None = None,
        draft: str | None = None,
        lexical: LexicalOptions | None = None,
        prefix_cache_bytes: int = 2**28,
        remember_answers: int = 0,
    ) -> None:
        self._source = find_source(model)
        self._draft = None if draft is None else find_source(draft)
        self._decoding = decoding or "autoregressive"
        self._lexical = lexical
        folder = self._source.folder
        adapted = folder is not None and (folder / ADAPTER_FILE).is_file()
        has = {"draft_model": draft is not None, "lexical": adapted, "lexical_lossy": adapted}
        usable = tuple(name for name in DRAFTERS if has.get(name, True))
        decodings = tuple(name for name in usable if name not in LOSSY or name == decoding)
        if decoding is not None and decoding not in usable:
            needs = _NEEDS[decoding].format(model=self._source.name) if decoding in _NEEDS else ""
            raise SettingsError(f"decoding={decoding!r} cannot be used.{needs} Use one of: {', '.join(decodings)}.")
        self._options: dict[str, Any] = {
            "dtype": dtype,
            "device": device,
            "trust_remote_code": trust_remote_code,
            "cuda_graphs": cuda_graphs,
        }
        self._prefix_cache_bytes = prefix_cache_bytes
        self._remember_answers = remember_answers
        pocket = self._source.name == "local:pocket"
        self._capabilities = Capabilities(
            context_window=self._source.context_window(),
            parallel_slots=_SLOTS,
            joins_running_batch=True,
            prompt_family="pocket" if pocket else "general",
            reads_history=not pocket,  # trained on single questions, it misses most that follow a long answer
            decodings=decodings,
            decoding=decoding,
            logprobs=True,
            json_schema=_GRAMMARS,
            regex=_GRAMMARS,
        )
        self._record = Record()
        self._lock = threading.Lock()
        # One thread for what takes long and is no generation: loading the model, reading long texts into tokens. And
        # one for what may take much longer, and must not hold up those that are announced: see `_prepared`.
        self._worker: ThreadPoolExecutor | None = None
        self._preparer: ThreadPoolExecutor | None = None
        self._loading: Future[Engine] | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """The model name, ``local:model``."""
        return self._source.name

    @property
    def capabilities(self) -> Capabilities:
        """What it can do; the window of a hub name, and what was measured, are known once the model is loaded."""
        loading = self._loading
        if loading is None or not loading.done() or loading.cancelled() or loading.exception() is not None:
            return self._capabilities
        figures = {name: _decoding(seen) for name, seen in self._record.by_method().items()}
        return replace(self._capabilities, measured=Measured(loading.result().step_ms, figures))

    @asynccontextmanager
    async def stream(self, prompt: Prompt, options: GenerationOptions) -> AsyncIterator[AsyncIterator[Chunk]]:
        """Start one generation. Leaving the context returns when the engine has let go of it.

        Text that became ready together comes as one chunk. Raises `InvalidRequestError` for a decoding method that
        is not there, `BackendError` and its children.
        """
        decoding = options.decoding or self._decoding
        if decoding not in self._capabilities.decodings:
            there = ", ".join(self._capabilities.decodings)
            raise InvalidRequestError(f"decoding={decoding!r} cannot be used with {self.name}. Use one of: {there}.")
        engine = await self._ready()
        chunks = _Chunks(self.name, asyncio.get_running_loop(), self._record, engine.model)
        constraint = await self._prepared(engine, prompt, decoding)
        with engine.announced():
            ids = await self._tokens(engine.model, prompt)
            request = _generation(engine.model, ids, prompt, options, decoding)
            handle = engine.submit(request, chunks.put, constraint=constraint)
        try:
            yield chunks
        finally:
            handle.cancel()
            with anyio.CancelScope(shield=True):  # at most one forward long
                await chunks.ended()

    async def count_tokens(self, prompt: Prompt) -> int:
        """Tokens of the prompt, chat template included; exact. Loads the model if it is not loaded yet."""
        engine = await self._ready()
        return len(await self._tokens(engine.model, prompt))

    async def aclose(self) -> None:
        """End the running requests, the threads and the model. Idempotent; waits for a model that is being loaded."""
        with self._lock:
            self._closed = True
            worker, self._worker = self._worker, None
            preparer, self._preparer = self._preparer, None
            loading, self._loading = self._loading, None
        if worker is None:
            return
        try:
            # In the worker, after the loading: joining the engine's thread here would hold up the event loop.
            await asyncio.shield(asyncio.wrap_future(worker.submit(_close, loading, preparer)))
        finally:
            worker.shutdown(wait=False)
        worker.shutdown(wait=True)

    async def _ready(self) -> Engine:
        """Wait for the engine with its model loaded."""
        with self._lock:
            if self._closed:
                raise self._is_closed()
            self._worker = self._worker or ThreadPoolExecutor(1, thread_name_prefix=f"stretto worker {self.name}")
            if self._loading is None or (self._loading.done() and self._loading.exception()):
                self._loading = self._worker.submit(self._load)  # after a failure again: the hub may be reachable now
            loading = self._loading
        if loading.done():
            return loading.result()
        waiting = asyncio.wrap_future(loading)
        waiting.add_done_callback(lambda future: future.cancelled() or future.exception())  # seen, even if nobody waits
        # Shielded, because a caller that gives up must not cancel what the others wait for.
        return await asyncio.shield(waiting)

    def _is_closed(self) -> BackendError:
        return BackendError(f"The backend {self.name} is closed. Make a new one.", backend=self.name)

    def _load(self) -> Engine:
        with _uncollected():
            return self._loaded()

    def _loaded(self) -> Engine:
        try:
            from stretto.local_engine.engine import Engine  # noqa: PLC0415 - torch is imported when it is used
            from stretto.local_engine.load import load_model  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependencyError(
                f"{self.name} needs {error.name or 'torch and transformers'}, which cannot be imported here. "
                "Run: pip install 'stretto[local]'"
            ) from error
        model = load_model(self._source, **self._options)
        draft = None if self._draft is None else load_model(self._draft, **self._options)
        if draft is not None:
            check_vocabulary(model, draft)
        self._capabilities = replace(self._capabilities, context_window=model.context_window)
        engine = Engine(
            model,
            max_batch=_SLOTS,
            draft=draft,
            lexical=self._lexical,
            prefix_cache_bytes=self._prefix_cache_bytes,
            remember_answers=self._remember_answers,
            measure=self._capabilities.decoding in (None, "auto"),
        )
        try:
            engine.equip(self._decoding)
        except BaseException:
            engine.close()
            raise
        return engine

    async def _prepared(self, engine: Engine, prompt: Prompt, decoding: str) -> Constraint | None:
        """Do off the event loop what can take seconds: compile a grammar, hash the weights that an adapter is for.

        Before the request is announced, because those that wait for it would wait for this too.
        """
        wanted = _format(prompt)
        if wanted is None and engine.equipped(decoding):
            return None
        with self._lock:
            if self._closed:
                raise self._is_closed()
            self._preparer = self._preparer or ThreadPoolExecutor(1, thread_name_prefix=f"stretto prepares {self.name}")
            preparer = self._preparer

        def prepare() -> Constraint | None:
            if self._closed:
                raise self._is_closed()
            engine.equip(decoding)
            return engine.constraint(wanted, engine.model.end_ids)

        return await asyncio.wrap_future(preparer.submit(prepare))

    async def _tokens(self, model: LoadedModel, prompt: Prompt) -> tuple[int, ...]:
        worker = self._worker
        if worker is None or sum(len(message.content) for message in prompt.messages) < _LONG_TEXT:
            return _tokenize(model, prompt)
        return await asyncio.wrap_future(worker.submit(_tokenize, model, prompt))


class _Chunks:
    """What the engine's thread puts in, as chunks in the event loop; all that lies ready becomes one chunk."""

    def __init__(self, backend: str, loop: asyncio.AbstractEventLoop, record: Record, model: LoadedModel) -> None:
        self._backend = backend
        self._model = model
        self._record = record
        self._loop = loop
        self._lock = threading.Lock()
        self._events: list[Piece | Finished] = []
        self._filled = asyncio.Event()
        self._finished = asyncio.Event()
        self._over = False

    def put(self, event: Piece | Finished) -> None:
        """Add an event; from any thread."""
        if isinstance(event, Finished) and event.figures is not None:
            self._record.add(event.figures)
        with self._lock:
            self._events.append(event)
            first = len(self._events) == 1
        if first or isinstance(event, Finished):  # otherwise the event loop has been told already
            self._loop.call_soon_threadsafe(self._wake, event)

    def _wake(self, event: Piece | Finished) -> None:
        self._filled.set()
        if isinstance(event, Finished):
            self._finished.set()

    async def ended(self) -> None:
        """Wait until the engine has let go of the request."""
        await self._finished.wait()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self

    async def __anext__(self) -> Chunk:
        if self._over:
            raise StopAsyncIteration
        await self._filled.wait()
        with self._lock:
            events, self._events = self._events, []
            self._filled.clear()
        pieces = [event for event in events if isinstance(event, Piece)]
        text = "".join(piece.text for piece in pieces)
        logprobs = tuple(self._told(each) for piece in pieces for each in piece.logprobs)
        last = events[-1] if events else None
        if not isinstance(last, Finished):
            return Chunk(text=text, logprobs=logprobs)
        self._over = True
        if last.error is not None:
            raise last.error
        if last.reason not in ("stop", "length"):
            raise BackendError(f"{self._backend} was closed while it generated.", backend=self._backend)
        usage = Usage(
            prompt_tokens=last.prompt_tokens,
            completion_tokens=last.completion_tokens,
            cached_tokens=last.cached_tokens,
            calls=1,
        )
        decoding = None if last.figures is None else _decoding(last.figures)
        noted = () if last.figures is None else last.figures.warnings
        return Chunk(
            text=text,
            usage=usage,
            finish_reason=last.reason,
            decoding=decoding,
            logprobs=logprobs,
            warnings=tuple(f"{self._backend}: {warning}." for warning in noted),
        )

    def _told(self, score: Score) -> TokenLogprob:
        word = self._model.word
        top = tuple((word(token), logprob) for token, logprob in score.top)
        return TokenLogprob.model_construct(token=word(score.token), logprob=score.logprob, top=top)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector away while torch and transformers are imported: it took a quarter of that time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _close(loading: Future[Engine] | None, preparer: ThreadPoolExecutor | None) -> None:
    if preparer is not None:
        preparer.shutdown()  # those who wait there see that the backend is closed
    if loading is not None and not loading.cancelled() and loading.exception() is None:
        loading.result().close()


def _decoding(figures: Figures) -> Decoding:
    return Decoding(
        methods=(figures.decoding,),
        steps=figures.steps,
        rows=figures.rows,
        tokens=figures.tokens,
        drafted=figures.drafted,
        accepted=figures.accepted,
    )


def _tokenize(model: LoadedModel, prompt: Prompt) -> tuple[int, ...]:
    turns = [{"role": message.role, "content": message.content} for message in prompt.messages]
    return encode_turns(model.name, model.tokenizer, turns)


def _format(prompt: Prompt) -> Mapping[str, Any] | str | None:
    return prompt.response_regex if prompt.response_schema is None else prompt.response_schema


def _generation(
    model: LoadedModel, ids: tuple[int, ...], prompt: Prompt, options: GenerationOptions, decoding: str
) -> Generation:
    own = model.sampling  # what the model recommends; what the caller says goes before it
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
    )
