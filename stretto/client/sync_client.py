"""The client for synchronous code: `Stretto`."""

from __future__ import annotations

import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

from stretto.backends.base import Backend
from stretto.client.answer_task import AnswerTask
from stretto.client.async_client import FORKED, AsyncStretto, named
from stretto.client.client_options import ClientOptions
from stretto.client.streams import Start, SyncAnswerStream, SyncStreamContext
from stretto.foundation.arguments import expand_kwargs
from stretto.foundation.background import BackgroundLoop
from stretto.values.answer import Answer
from stretto.values.request import PromptLike, Request, RequestOptions
from stretto.values.route import Route

if TYPE_CHECKING:
    from stretto.abilities import Abilities
    from stretto.abilities.checking import Progress
    from stretto.client.client_options import ModelLike


class Stretto:
    """`AsyncStretto` for synchronous code; works in notebooks and inside a running event loop.

    It takes the same arguments. Its event loop runs in a separate thread, from the first call until `close`.
    """

    @expand_kwargs(ClientOptions)
    def __init__(self, model: ModelLike | None = None, **options: Unpack[ClientOptions]) -> None:
        self._stretto = AsyncStretto(model, **options)
        self._loop = BackgroundLoop(FORKED, self._stretto.aclose)
        self._finalizer = weakref.finalize(self, self._loop.close)

    def __repr__(self) -> str:
        return f"<Stretto {named(self._stretto.backends)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def backends(self) -> Mapping[str, Backend]:
        """The backends by role."""
        return self._stretto.backends

    @property
    def fallback(self) -> Sequence[Backend]:
        """The backends that take over if one of these fails, in this order."""
        return self._stretto.fallback

    @property
    def asynchronous(self) -> AsyncStretto:
        """The underlying asynchronous client; usable in any event loop, and closed together with this one."""
        return self._stretto

    @property
    def model_reason(self) -> str:
        """Why this model was chosen, if none was given."""
        return self._stretto.model_reason

    def close(self) -> None:
        """Cancel running answers, close the backends that this client opened, and end the thread. Idempotent."""
        self._stretto._closed = True
        self._loop.close()

    def load(self) -> None:
        """Load what the first answer would wait for; see `AsyncStretto.load`."""
        self._loop.call(self._stretto.load)

    @expand_kwargs(RequestOptions)
    def ask(self, prompt: PromptLike | Request, **request: Unpack[RequestOptions]) -> Answer:
        """Return the whole answer. `RequestOptions` documents the arguments. Raises `StrettoError`."""
        return self._loop.call(partial(self._stretto.ask, prompt, **request))

    @expand_kwargs(RequestOptions)
    def route(self, prompt: PromptLike | Request, **request: Unpack[RequestOptions]) -> Route:
        """Return how the request would be generated, and why. Loads no model, opens no connection."""
        return self._loop.call(partial(self._stretto.route, prompt, **request))

    @expand_kwargs(RequestOptions)
    def stream(
        self, prompt: PromptLike | Request, **request: Unpack[RequestOptions]
    ) -> AbstractContextManager[SyncAnswerStream]:
        """Stream the events of one answer. Leaving the context cancels the rest."""
        return SyncStreamContext(partial(self._begin, prompt, request), self._loop)

    def check(self, progress: Progress | None = None) -> Abilities:
        """Measure what the main model can do, and save it; see `AsyncStretto.check`."""
        return self._loop.call(partial(self._stretto.check, progress))

    def forget(self) -> None:
        """Forget what was learned about this client's models; see `AsyncStretto.forget`."""
        self._loop.call(self._stretto.forget)

    def _begin(self, prompt: PromptLike | Request, options: RequestOptions) -> tuple[AnswerTask, Start]:
        began = time.perf_counter()
        self._loop.call(partial(self._stretto._made_ready, self._stretto._deadline_of(prompt, options)))
        writing = self._stretto._writing(self._stretto._request(prompt, options), began)
        return writing, partial(writing.start, self._stretto._writings)
