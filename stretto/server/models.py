"""The names under which a server answers: ``stretto`` and its ways, also with a backend, and the backends' own."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass
from typing import Any

from stretto.backends.base import Backend
from stretto.client import AsyncStretto
from stretto.foundation.arguments import shown
from stretto.request import WHOLE
from stretto.server.problems import Problem
from stretto.strategies import STRATEGIES

AUTO = "stretto"


@dataclass(frozen=True, slots=True)
class Served:
    """What a model's name stands for.

    Attributes:
        name: as it was asked for, and is given back.
        client: who answers.
        strategy: how; "auto" leaves it to the router.
        own: the backend's own name was given, so the request is passed on to it as it is.
    """

    name: str
    client: AsyncStretto
    strategy: str
    own: bool = False

    @property
    def backend(self) -> Backend:
        """The backend that answers, unless the router picks another."""
        return self.client.backends["main"]

    @property
    def takes_pictures(self) -> bool:
        """Whether one of its models does, as far as that is known."""
        able = [backend.capabilities for backend in self.client.backends.values()]
        return any(each.media and "image_url" not in each.refused_media for each in able)

    @property
    def whole(self) -> str:
        """How, where a schema holds the answer as a whole: what the name says of parts gives way to it."""
        return self.strategy if self.strategy in WHOLE else "auto"


class Models:
    """All names of one server.

    Args:
        client: whose backends are served. Under ``stretto`` its router picks among them.
    """

    def __init__(self, client: AsyncStretto) -> None:
        self._since = int(time.time())
        self._client = client
        self._alone = {
            backend.name: AsyncStretto(backend, settings=client.settings, templates=client.templates, fallback=())
            for backend in client.backends.values()
        }  # whoever names a model is answered by no other
        ways = {AUTO: "auto"} | {f"{AUTO}-{name}": name for name in STRATEGIES}
        self._served = {way: Served(way, client, strategy) for way, strategy in ways.items()}
        for backend, alone in self._alone.items():
            self._served |= {
                f"{way}:{backend}": Served(f"{way}:{backend}", alone, strategy) for way, strategy in ways.items()
            }
        self._served |= {backend: Served(backend, alone, "direct", own=True) for backend, alone in self._alone.items()}
        self._listed = tuple(self._served)
        # The name that a provider itself uses: a client that had it keeps it.
        for backend, alone in self._alone.items():
            short = backend.partition(":")[2]
            self._served.setdefault(short, Served(short, alone, "direct", own=True))

    def find(self, name: str) -> Served:
        """What this name stands for. Raises `Problem` with 404."""
        served = self._served.get(name)
        if served is None:
            near = difflib.get_close_matches(name, self._listed, n=1, cutoff=0.6)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise Problem(
                404,
                f"The model {shown(name)} is not served here.{hint} GET /v1/models lists those that are.",
                param="model",
                code="model_not_found",
            )
        return served

    def listed(self) -> list[dict[str, Any]]:
        """All names, in the form of OpenAI's list, with what clients of Anthropic and OpenRouter read of each."""
        return [self.described(name) for name in self._listed]

    def described(self, name: str) -> dict[str, Any]:
        """One name of the list. Raises `Problem` with 404."""
        served = self.find(name)
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._since))
        return {
            "id": served.name,
            "object": "model",
            "created": self._since,
            "owned_by": served.name.partition(":")[0] if served.own else "stretto",
            "type": "model",
            "display_name": served.name,
            "created_at": created,
            "lifecycle": "active",
            "architecture": {"input_modalities": ["text", "image"] if served.takes_pictures else ["text"]},
        }
