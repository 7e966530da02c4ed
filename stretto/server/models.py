"""The model names of a server: ``stretto``, alone or with a strategy or backend, and the backends' own names."""

from __future__ import annotations

import difflib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretto.backends.base import Backend
from stretto.client.async_client import AsyncStretto
from stretto.foundation.arguments import safe_repr
from stretto.server.problems import Problem
from stretto.strategies import STRATEGIES
from stretto.values.request import WHOLE

AUTO = "stretto"


@dataclass(frozen=True, slots=True)
class Served:
    """What a model name refers to.

    Attributes:
        name: the name as requested, which the response repeats.
        client: the client that answers.
        strategy: the strategy; "auto" leaves it to the router.
        own: whether the name is the backend's own, so the request is passed on to it unchanged.
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
        """Whether one of its models accepts images, as far as is known."""
        able = [backend.capabilities for backend in self.client.backends.values()]
        return any(each.media and "image_url" not in each.refused_media for each in able)

    @property
    def whole(self) -> str:
        """The strategy if a schema applies to the answer as a whole, which overrides a name that asks for parts."""
        return self.strategy if self.strategy in WHOLE else "auto"


class Models:
    """All model names of one server.

    Args:
        client: the client whose backends are served. Under ``stretto``, its router picks one of them.
    """

    def __init__(self, client: AsyncStretto) -> None:
        self._since = int(time.time())
        self._client = client
        backends = [*client.backends.values(), *client.fallback]
        self._public = _public_names([backend.name for backend in backends])
        self._hidden = _hidden(self._public, [place for each in backends for place in getattr(each, "places", ())])
        paths = b"|".join(re.escape(path) for path in sorted(self._hidden, key=len, reverse=True))
        # Not within a longer address or name: a model at /model leaves https://example.org/models unchanged.
        self._paths = re.compile(rb"(?:(?<![\w.])|(?<=\\[nrt]))(?:" + paths + rb")(?![\w-])")
        self._alone = {
            self._public[backend.name]: AsyncStretto(
                backend, settings=client.settings, templates=client.templates, fallback=()
            )
            for backend in client.backends.values()
        }  # whoever names a model gets no other
        ways = {AUTO: "auto"} | {f"{AUTO}-{name}": name for name in STRATEGIES}
        self._served = {way: Served(way, client, strategy) for way, strategy in ways.items()}
        for backend, alone in self._alone.items():
            self._served |= {
                f"{way}:{backend}": Served(f"{way}:{backend}", alone, strategy) for way, strategy in ways.items()
            }
        self._served |= {backend: Served(backend, alone, "direct", own=True) for backend, alone in self._alone.items()}
        self._listed = tuple(self._served)
        # The provider's own name, and the path of a local model, keep working for clients that already have them.
        for own, public in self._public.items():
            if public in self._alone:
                self._served.setdefault(own, Served(public, self._alone[public], "direct", own=True))
        for backend, alone in self._alone.items():
            short = backend.partition(":")[2]
            self._served.setdefault(short, Served(short, alone, "direct", own=True))

    def find(self, name: str) -> Served:
        """Return what this name refers to. Raises `Problem` (404)."""
        served = self._served.get(name)
        if served is None:
            near = difflib.get_close_matches(name, self._listed, n=1, cutoff=0.6)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise Problem(
                404,
                f"The model {safe_repr(name)} is not served here.{hint} GET /v1/models lists those that are.",
                param="model",
                code="model_not_found",
            )
        return served

    def without_paths(self, sent: bytes) -> bytes:
        """Replace the paths of this machine in these bytes by the names of models and of what they read."""
        return self._paths.sub(lambda found: self._hidden[found[0]], sent) if self._hidden else sent

    def listed(self) -> list[dict[str, Any]]:
        """Return all names in the format of OpenAI's list, with the fields that Anthropic's and OpenRouter's have."""
        return [self.described(name) for name in self._listed]

    def described(self, name: str) -> dict[str, Any]:
        """Return one entry of the list. Raises `Problem` (404)."""
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


def _public_names(names: Sequence[str]) -> dict[str, str]:
    """Return the public names of models: a local file or folder goes by its own name, without its path."""
    public: dict[str, str] = {}
    for name in names:
        path = _path_in(name)
        known = name if path is None else f"local:{path.name}"
        number = 2
        while path is not None and known in public.values() and name not in public:
            known, number = f"local:{path.stem}-{number}{path.suffix}", number + 1
        public.setdefault(name, known)
    return public


def _path_in(name: str) -> Path | None:
    """Return the location of a model that is named by its path."""
    provider, _, written = name.partition(":")
    path = Path(written).expanduser()
    return path.resolve() if provider == "local" and written not in ("", "pocket") and path.exists() else None


def _hidden(public: Mapping[str, str], places: Sequence[Path]) -> dict[bytes, bytes]:
    """Map each path, as it appears in JSON and in headers, to what is sent instead."""
    written = (path for place in places for path in (place.absolute(), place.resolve()) if path.name)
    pairs = {str(path): path.name for path in written}
    for name, known in public.items():
        path = _path_in(name)
        if path is not None:
            pairs |= {name: known, str(path): known.removeprefix("local:")}
    return {
        json.dumps(old, ensure_ascii=plain)[1:-1].encode(): json.dumps(new, ensure_ascii=plain)[1:-1].encode()
        for old, new in pairs.items()
        for plain in (True, False)
    }
