"""The backends of a client from model names: addresses, keys, and what the backends share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stretto.backends.base import Backend
from stretto.backends.known_models import NO_ROWS, own_rows
from stretto.config.settings import Settings, with_source
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from stretto.backends.resilience.resilient import Endpoints
    from stretto.backends.resilience.shared import Store
    from stretto.client.client_options import ModelLike


class ClientBackends:
    """Opens the backends of one client. A backend connects, or loads its model, at its first call.

    Attributes:
        store: the store in which replicas share rate limits and breakers, if the settings name one.
        owned: the backends opened here, in order.
    """

    def __init__(self, settings: Settings) -> None:
        self.store = _store(settings)
        self.owned: list[Backend] = []
        self._settings = settings
        self._own_rows = NO_ROWS if settings.known_models is None else own_rows(settings.known_models)
        self._endpoints: Endpoints | None = None

    def server_of(self, chosen: str, base_url: str | None, api_key: str | None) -> tuple[str | None, str | None]:
        """Return the address and key of a compatible server: as given, else from the settings."""
        from stretto.backends.provider_table import on_this_machine  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.backends.registry import is_address  # noqa: PLC0415 - keeps `import stretto` light

        provider = chosen.partition(":")[0]
        if provider == "openai":
            base_url = base_url or self._settings.base_url
        ours = base_url is not None if provider == "openai" else provider in on_this_machine() or is_address(chosen)
        if api_key is None and ours and self._settings.api_key is not None:  # which is not meant for OpenAI itself
            api_key = self._settings.api_key.get_secret_value()
        return base_url, api_key

    def backend(
        self, given: ModelLike, argument: str, base_url: str | None = None, api_key: str | None = None
    ) -> Backend:
        """Open the backend for a name or a LangChain model; a backend is returned as is. Raises `StrettoError`."""
        if isinstance(given, Backend):
            return given
        from stretto.backends.registry import open_backend  # noqa: PLC0415 - keeps `import stretto` light
        from stretto.backends.resilience.resilient import Endpoints, Resilience  # noqa: PLC0415 - likewise

        self._endpoints = self._endpoints or Endpoints(store=self.store)
        settings = self._settings
        resilience = Resilience(
            attempts=settings.attempts,
            concurrent_calls=settings.concurrent_calls,
            stall_s=settings.stall_s,
            first_text_s=settings.first_text_s,
            hedge=settings.hedge,
        )
        try:
            backend = open_backend(
                given,
                base_url=base_url,
                api_key=api_key,
                resilience=resilience,
                endpoints=self._endpoints,
                argument=argument,
                local=settings.local,
                own_rows=self._own_rows,
            )
        except SettingsError as error:
            of_settings = ("base_url",) if base_url is not None and base_url is settings.base_url else ()
            raise with_source(error, settings, (*settings.local, *of_settings)) from None
        self.owned.append(backend)
        return backend


def _store(settings: Settings) -> Store | None:
    if settings.shared is None:
        return None
    from stretto.backends.resilience.redis_store import RedisStore  # noqa: PLC0415 - of an extra

    return RedisStore(settings.shared.get_secret_value())
