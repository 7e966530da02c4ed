"""The engine: it checks requests and passes them to the thread that runs them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from stretto.local_engine.choosing.constraint import Constraint, Grammars, ResponseFormat
from stretto.local_engine.drafting.catalogue import DraftEquipment, all_drafters
from stretto.local_engine.drafting.protocol import Drafter
from stretto.local_engine.drafting.sources.files import FileTexts
from stretto.local_engine.drafting.sources.texts import EarlierAnswers
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.adapters.attached_lora import attach_lora
from stretto.local_engine.model.adapters.lora import LoraAdapter
from stretto.local_engine.model.cache.prefixes import PrefixCache
from stretto.local_engine.model.loading.load import LoadedModel
from stretto.local_engine.research_registry import block_models, joining
from stretto.local_engine.serving.handle import Handle, Listener, StageListener
from stretto.local_engine.serving.scheduler import Occupancy, Scheduler
from stretto.local_engine.serving.sequence import Sequence
from stretto.local_engine.serving.thread import EngineThread
from stretto.values.errors import ContextOverflowError, InvalidRequestError, RequestRejectedError, SettingsError

__all__ = ["Engine", "Handle", "Listener", "Occupancy"]


class Engine:
    """Runs one model in one thread.

    Provisional: it may change in any release.

    Requests join the running batch between two forwards and leave it when they end. A failure ends the affected
    requests, each with one error, and the engine continues. An engine without references and requests ends and frees
    its model.

    Args:
        model: the model; see `stretto.local_engine.model.loading.load.load_model`.
        batch_size: maximum number of requests in one batch.
        prefill_tokens: maximum number of prompt tokens, over all requests, read in one forward; a request can be
            cancelled between two forwards.
        draft_nodes: maximum number of drafted tokens, over all requests, evaluated in one forward.
        prefix_cache_bytes: memory for keys and values of finished requests, for later prompts that begin with the same
            tokens, such as the next turn of a chat; at most a quarter of `LoadedModel.cache_tokens`. Only prompts of
            one tenant (`Generation.tenant`) are compared, since `cached_tokens` reveals how much they share. Entries of
            the tenant that uses most memory are evicted first.
        draft_history_tokens: number of tokens of earlier answers, per tenant, in which `suffix` and `auto` look for
            drafts. With 0, the default here, the speed of a request reveals nothing about other answers.
        files: texts in which they look as well.
        threads: maximum for one step; by default chosen by the size of the model and the number of rows.
        draft: a smaller model with the same tokenizer, for the decoding method that takes one.
        head: folder of a head that drafts from the model's hidden states.
        method_options: options of decoding methods, by the method's name.
        measure: whether to time steps by their number of rows from the start, while there is no request; otherwise
            this begins with the first request whose method weighs its drafts. Until then, rows count as expensive.
        drafters: decoding methods by name; a model that writes blocks at once has others.
    """

    def __init__(
        self,
        model: LoadedModel,
        *,
        batch_size: int = 16,
        prefill_tokens: int = 512,
        draft_nodes: int = 64,
        prefix_cache_bytes: int = 2**28,
        draft_history_tokens: int = 0,
        files: FileTexts | None = None,
        threads: int | None = None,
        draft: LoadedModel | None = None,
        head: Path | None = None,
        method_options: Mapping[str, Mapping[str, Any]] | None = None,
        measure: bool = False,
        drafters: Mapping[str, Callable[[DraftEquipment], Drafter]] | None = None,
    ) -> None:
        self.model = model
        """The model that it runs."""
        self.files = files
        """Texts that are searched for drafts as well."""
        self._drafters: Mapping[str, Callable[[DraftEquipment], object]]
        self._blocks = None if model.diffusion is None else block_models()
        if model.diffusion is not None and self._blocks is not None:
            self._drafters, measure = self._blocks.rules_for(model.name, model.diffusion), False
        else:
            self._drafters = all_drafters() if drafters is None else drafters
        self._cost = StepCost()
        self._equipment = DraftEquipment(
            cost=self._cost,
            model=model,
            draft=draft,
            head=head,
            files=files,
            options=method_options or {},
        )
        self._grammars = Grammars(model.tokenizer)
        self._equipped: set[str] = set()  # decoding methods that have what they need
        self._adapters: set[str] = set()  # attached ones
        self._answers = EarlierAnswers(draft_history_tokens)
        schedule = partial(
            Scheduler,
            model,
            prefill_tokens=prefill_tokens,
            draft_nodes=draft_nodes,
            prefixes=PrefixCache(prefix_cache_bytes, model.cache_tokens // 4, switch=model.forward.switch),
            answers=self._answers,
            cost=self._cost,
        )
        self._serving = EngineThread(
            model,
            self._equipment,
            self._drafters,
            schedule,
            cost=self._cost,
            batch_size=batch_size,
            threads=threads,
            measure=measure,
        )
        weakref.finalize(self, self._serving.end).atexit = False  # an `EndingThread` ends then anyway

    @property
    def step_ms(self) -> dict[int, float]:
        """Recent duration of a step in milliseconds, by its number of rows.

        Until rows were timed, the keys are the numbers of requests that ran together so far; it is empty unless one ran
        alone and others ran together.
        """
        if not self._cost.measured:
            plain = self._cost.plain
            return dict(sorted(plain.items())) if 1 in plain and len(plain) > 1 else {}
        counts = (1, 2, 4, 8, 16, 32, 64)
        return dict(zip(counts, accumulate(map(self._cost.lately, counts), max), strict=True))  # more rows take no less

    def forget_learned(self) -> None:
        """Forget the statistics of drafts and the earlier answers of all tenants. Safe from any thread."""
        self._answers.clear()
        self._serving.forget_learned()

    def wait_measured(self) -> None:
        """Block until the timing of steps has finished, if it has begun. For benchmarks."""
        self._serving.wait_measured()

    def announced(self) -> AbstractContextManager[None]:
        """Announce a request, so that a batch that is about to start waits for it briefly."""
        return self._serving.announced()

    def submit(
        self,
        request: Generation,
        listener: Listener | None = None,
        *,
        constraint: Constraint | None = None,
        on_stage: StageListener | None = None,
        watched: bool = False,
    ) -> Handle:
        """Queue a request. Safe from any thread; never waits for the model.

        Compiling a ``response_format`` and preparing a decoding method can take seconds. A thread that must not
        block should have another one call `constraint` and `equip` first.

        Args:
            request: what to generate.
            listener: called from the engine's thread with each piece and, last, with the `Finished`; it must return
                at once.
            constraint: result of `constraint` for the request's ``response_format``; compiled here if left out.
            on_stage: called at each `Stage` of the request, from any thread; it must return at once.
            watched: record in ``Handle.batches`` which steps it shared with how many others.

        Raises `ContextOverflowError`, `RequestRejectedError`, `InvalidRequestError`, `SettingsError` if something
        that the decoding method needs is missing, or `BackendError` if the engine is closed.
        """
        self._check(request)
        if request.joined and not self._can_join():
            request = replace(request, joined=())  # its paths are read again, one after the other
        if constraint is None:
            constraint = self.constraint(request.response_format, request.end_ids, request.tenant)
        state = Sequence(request, self.model.decode, constraint, self.model.token_bytes)
        handle = Handle(state, self.cancel, listener, on_stage, watched=watched)
        self._serving.add(handle)
        return handle

    def _can_join(self) -> bool:
        paths = joining()
        return paths is not None and self.model.diffusion is None and bool(paths.can_join(self.model.forward))

    def run_alongside(self, work: Generator[None, None, None]) -> None:
        """Run a generator in the engine's thread, up to its next ``yield`` between two steps of the requests.

        Safe from any thread. Generators run one after the other. They are closed with the engine, and must handle their
        exceptions themselves. Raises `BackendError` if the engine is closed.
        """
        self._serving.add_alongside(work)

    def constraint(
        self, response_format: ResponseFormat | None, end_ids: frozenset[int], tenant: str | None = None
    ) -> Constraint | None:
        """Compile the format of one answer, if there is one, and keep it for this tenant.

        Safe from any thread. Raises `InvalidRequestError` for an invalid JSON schema or regular expression.
        """
        return None if response_format is None else self._grammars.constraint(response_format, end_ids, tenant)

    def decoding_for(self, decoding: str) -> str:
        """Return the method for a request: the default rule if a drafting method was chosen for a model without drafts.

        That happens if a method is chosen before the model is loaded.
        """
        form, blocks = self.model.diffusion, self._blocks
        names = (decoding,) if form is None or blocks is None else blocks.rule_names(form)
        return decoding if decoding in names else names[0]

    def equipped(self, decoding: str) -> bool:
        """Return whether `equip` has been called for a decoding method."""
        return decoding in self._equipped

    def equip(self, decoding: str) -> None:
        """Prepare what a method needs besides the model, such as an adapter, for which the weights are hashed.

        Safe from any thread. `submit` does it too; it is quick the second time. Raises `InvalidRequestError` for a
        method that does not exist, `SettingsError` if it lacks something.
        """
        if decoding not in self._drafters:
            raise InvalidRequestError(
                f"There is no decoding method {decoding!r}. Use one of: {', '.join(self._drafters)}."
            )
        if decoding not in self._equipped:
            self._drafters[decoding](self._equipment)  # raises if something is missing for it
            self._equipped.add(decoding)

    def has_beside(self, adapter: str) -> bool:
        """Return whether `attach_lora` has been called for an adapter."""
        return adapter in self._adapters

    def attach_lora(self, name: str, adapter: LoraAdapter) -> None:
        """Attach an adapter to the unchanged weights, for requests that name it. They share the batch with all others.

        Safe from any thread, while requests run. Raises `SettingsError` if it does not fit the model or cannot be
        attached to it, and if the name is taken: requests of that adapter may be running.
        """
        if name in self._adapters:
            raise SettingsError(f"{self.model.name} has an adapter {name!r} already. Give another name.")
        forward = attach_lora(self.model, name, adapter)
        if forward is not None and forward.lora_parts:
            self._serving.compile_too(forward.lora_parts, forward.look_for_code)
        self._adapters.add(name)

    def cancel(self, handle: Handle) -> None:
        """See `Handle.cancel`."""
        self._serving.cancel(handle)

    @property
    def occupancy(self) -> Occupancy:
        """Current load of the engine; approximate while requests run."""
        return self._serving.occupancy

    def close(self) -> None:
        """End every request with the reason ``cancelled``, then the thread, and wait for it. Idempotent."""
        self._serving.close()

    def free(self) -> None:
        """Close the engine, and drop the weights of its models, so that no other engine can run them.

        If the thread is in a long step, the weights stay until it ends.
        """
        self.close()
        if self._serving.ended:
            self._equipment.kept.clear()
            for model in filter(None, (self.model, self._equipment.draft)):
                model.free()

    def check_tokens(self, request: Generation) -> None:
        """Check that the prompt is not empty, the model has all tokens, and the method can be used.

        Raises `InvalidRequestError` or `SettingsError`.
        """
        name = self.model.name
        if not request.prompt:
            raise InvalidRequestError("The prompt has no tokens. Give at least one.")
        self.equip(request.decoding)
        for what, ids in (
            ("The prompt", request.prompt),
            ("logit_bias", request.logit_bias),
            ("suppress_tokens", request.suppress_tokens),
            ("begin_suppress_tokens", request.begin_suppress_tokens),
        ):
            if ids and not 0 <= min(ids) <= max(ids) < self.model.vocabulary:  # it would fail the whole batch
                strange = next(token for token in ids if not 0 <= token < self.model.vocabulary)
                raise InvalidRequestError(
                    f"{what} has the token id {strange}, and those of {name} are 0 to {self.model.vocabulary - 1}. "
                    "Use this model's own tokenizer."
                )
        for what, ids in (
            ("suppress_tokens", request.suppress_tokens),
            ("begin_suppress_tokens", request.begin_suppress_tokens),
        ):
            if len(set(ids)) >= self.model.vocabulary:
                raise InvalidRequestError(f"{what} has all tokens of {name}: none is left to choose. Leave some out.")

    def _check(self, request: Generation) -> None:
        if self.model.diffusion is not None and self._blocks is not None:
            self._blocks.check(request, self.model.name, self.model.diffusion)
        if request.adapter is not None and request.adapter not in self._adapters:
            raise InvalidRequestError(f"{self.model.name} has no adapter {request.adapter!r}. Load it first.")
        self.check_tokens(request)
        name, window = self.model.name, self.model.context_window
        length, wanted = len(request.prompt), request.max_new_tokens
        if length >= window:
            raise ContextOverflowError(
                f"The prompt has {length} tokens, and the context window of {name} holds {window} with the answer. "
                "Shorten it, or use a model with a longer window.",
                backend=name,
            )
        if length + wanted > window:
            raise RequestRejectedError(
                f"The prompt's {length} tokens and max_tokens={wanted} exceed the context window of {name}, {window}. "
                f"Ask for at most {window - length}.",
                backend=name,
            )
        if length + wanted > self.model.cache_tokens:
            raise RequestRejectedError(
                f"The prompt's {length} tokens and max_tokens={wanted} need more memory than {self.model.device} has: "
                f"it can hold {self.model.cache_tokens} tokens of {name}. Shorten the prompt or ask for fewer tokens.",
                backend=name,
            )
