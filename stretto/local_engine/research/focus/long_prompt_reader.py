"""Answers to prompts that are longer than the window, one at a time, between the forwards of the engine."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from torch import Tensor

from stretto.local_engine.choosing.constraint import Constraint
from stretto.local_engine.choosing.distribution import score
from stretto.local_engine.choosing.sampling import Sampler, choose
from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.failures import explain
from stretto.local_engine.generation import Finished, Generation
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, fingerprint
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.research.focus.document_chunks import bytes_per_token
from stretto.local_engine.research.focus.focus import FocusReader
from stretto.local_engine.research.focus.focus_adapter import read_focus
from stretto.local_engine.serving.batch_members import Step
from stretto.local_engine.serving.engine import Engine
from stretto.local_engine.serving.handle import Handle, Listener, StageListener, StepBatches
from stretto.local_engine.serving.long_prompts import FocusOptions
from stretto.local_engine.serving.sequence import Sequence as Answer
from stretto.values.errors import BackendError, ContextOverflowError, RequestRejectedError, SettingsError

_NO_DRAFT = DraftTree()


class FocusPrompts:
    """Answers long prompts with the model of an engine, in the engine's thread.

    The end of a prompt is its local context, which must include the question; the text before it is the document.
    Prompts are read one at a time, in the order of their arrival. Between two forwards of a prompt the engine runs the
    steps of other requests. The keys and values of the last document are kept for the next prompt that begins with it.

    Args:
        engine: engine of a model of the Llama family, whose folder has an adapter for focus reading.
        options: how documents are cut.

    Raises `SettingsError` for another model, and if the adapter is missing or belongs to other weights.
    """

    def __init__(self, engine: Engine, options: FocusOptions) -> None:
        model = engine.model
        forward = getattr(model.forward, "plain", model.forward)  # on a GPU, recorded steps wrap it
        if not isinstance(forward, LlamaForward) or not forward.family.is_llama:
            raise SettingsError(
                f"{type(options).__name__} needs the engine's forward for Llama, Mistral, Qwen2, Qwen3 or Phi-3, and "
                f"{model.name} is none of them. Leave long_context out."
            )
        self._engine, self._model, self._forward = engine, model, forward
        self._local = min(options.local, max(1, model.context_window // 4))
        self._options = options
        if model.folder is None:
            raise SettingsError(
                f"{model.name} has no adapter for focus reading: an adapter is a file next to the weights in a "
                "folder. Save the model to one, and train an adapter with python -m recipes.focus.train."
            )
        base = fingerprint(model.folder, reading=True)
        self._adapter = read_focus(model.folder / FOCUS_FILE, base, model.name, forward, model.device)
        self._cached: tuple[tuple[int, ...], FocusReader] | None = None

    def room(self, tokens: int) -> int:
        """Return the maximum length of the answer to a prompt of this many tokens.

        Raises `ContextOverflowError` if the candidates of its chunks would fill the window.
        """
        model, options, window = self._model, self._options, self._model.context_window
        chunk = options.chunk or self._adapter.chunk or 256
        candidates = -(-tokens // max(1, chunk - min(options.overlap, chunk // 2)))
        free = window - candidates - 2 * self._local
        if free < 1:
            raise ContextOverflowError(
                f"The prompt has {tokens} tokens. Read in chunks of {chunk} they become {candidates} candidates, "
                f"which exceed the context window of {model.name}, {window}. Shorten it.",
                backend=model.name,
            )
        return min(free, window - chunk - options.appended)

    def submit(
        self,
        request: Generation,
        listener: Listener | None = None,
        *,
        constraint: Constraint | None = None,
        on_stage: StageListener | None = None,
        watched: bool = False,
    ) -> Handle:
        """Queue a request; see `Engine.submit`. It is decoded token by token, whatever its method."""
        request = replace(request, decoding="autoregressive")
        self._engine.check_tokens(request)
        room = self.room(len(request.prompt))
        if request.max_new_tokens > room:
            raise RequestRejectedError(
                f"max_tokens={request.max_new_tokens} cannot be used with a prompt of {len(request.prompt)} tokens: "
                f"{room} positions of {self._model.name} are left. Ask for at most {room}.",
                backend=self._model.name,
            )
        if constraint is None:
            constraint = self._engine.constraint(request.response_format, request.end_ids, request.tenant)
        answer = Answer(request, self._model.decode, constraint, self._model.token_bytes)
        handle = Handle(answer, _cancel, listener, on_stage, watched=watched)
        steps = self._answer(handle)
        next(steps)  # to the point from which it can be closed
        try:
            handle.reach("submitted")
            self._engine.run_alongside(steps)
        except BackendError:
            handle.finished = True
            raise
        return handle

    def _answer(self, handle: Handle) -> Generator[None, None, None]:
        """Run one request from beginning to end, yielding between forwards."""
        answer, request, batches = handle.sequence, handle.sequence.request, StepBatches()
        try:
            yield
            handle.reach("admitted")
            reader, local = self._reader(answer)
            sampler = Sampler(request, self._model.device, answer.constraint)
            finished: Finished | None = None
            while finished is None:
                for logits in reader.read(local, answer.generated):
                    if handle.cancelled:
                        return
                    if logits is None:
                        yield
                        continue
                    if not answer.generated:
                        handle.reach("prompt_read")
                    finished = _commit(handle, sampler, logits)
                    if len(answer.generated) == 1:
                        batches.change([handle])
                    yield
            batches.change([])
            handle.tell(finished)
        except GeneratorExit:
            raise
        except BaseException as error:
            self._cached = None
            failure = explain(error, self._model.name, self._model.device)
            handle.tell(Finished("error", len(request.prompt), error=failure))
            if not isinstance(error, Exception):  # an `Exception` ends this request only, not the engine
                raise
        finally:
            if not handle.finished:
                batches.change([])
                handle.tell(answer.finish("cancelled"))

    def _reader(self, answer: Answer) -> tuple[FocusReader, tuple[int, ...]]:
        """Find or make the reader of a prompt's document; return it and the local context."""
        prompt = answer.request.prompt
        local = self._local
        if self._cached is not None:
            document, reader = self._cached
            rest = prompt[len(document) :]
            if prompt[: len(document)] == document and 0 < len(rest) <= 2 * local:
                answer.cached = len(document)
                return reader, rest
        document, rest = prompt[:-local], prompt[-local:]
        self._cached = None  # frees its memory before the next one is made
        reader = self._new(document)
        self._cached = (document, reader)
        return reader, rest

    def _new(self, document: tuple[int, ...]) -> FocusReader:
        model, options = self._model, self._options
        head = (document[0],) if document and document[0] == model.tokenizer.bos_token_id else ()
        fits = model.cache_tokens * bytes_per_token(self._forward) // 2
        options = replace(options, kept_bytes=min(options.kept_bytes, fits))
        return FocusReader(self._forward, self._adapter, document[len(head) :], options, device=model.device, head=head)


def _cancel(handle: Handle) -> None:
    handle.cancelled = True  # seen before the next forward


def _commit(handle: Handle, sampler: Sampler, logits: Tensor) -> Finished | None:
    """Choose the next token, and pass on the text that is now final."""
    answer = handle.sequence
    (token,) = choose(logits[None], [sampler], [()])
    wanted = answer.request.logprobs
    scores = [] if wanted is None else score(logits[None], [token], wanted)
    sampler.commit([token])
    if not answer.generated:
        handle.reach("first_token")
    piece, finished = answer.accept(Step([token], scores, sampler.failure, _NO_DRAFT))
    if piece:
        handle.tell(piece)
    return finished
