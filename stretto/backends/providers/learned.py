"""What is known of servers beyond their models' names, for the lifetime of the process.

A rejection costs a call, and asking a server takes a moment. So all clients share what one has learned.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stretto.backends.providers.server_facts import Engine, ServerFacts
from stretto.foundation.latest import Latest

_LOADING = ("ollama", "lmstudio", "llamacpp")  # they report the context window only once the model is loaded

MOST_KEPT = 256
"""Models at servers; the one opened longest ago is dropped first. The same limit applies to the schemas of one."""

Manner = Literal["loose", "words"]
"""How to send a schema to a server that rejected it: without strict mode, or only in the messages."""


@dataclass(slots=True)
class Learned:
    """What is known of one model at one server.

    Attributes:
        refused: parameters left out after a rejection.
        renamed: parameters that it accepts under another name.
        facts: what the server reported about itself; ``None`` before it was asked, or if it did not answer.
        assumed: the program that the user named, as ``vllm:`` does.
        bare_thoughts: whether its answers begin within a thought of which only the end arrives (`BareThoughts`).
        ask_again: when a server that did not report everything can be asked again, by the clock of `time.monotonic`.
    """

    refused: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    facts: ServerFacts | None = None
    assumed: Engine | None = None
    bare_thoughts: bool | None = None
    ask_again: float = -math.inf
    _manners: OrderedDict[bytes, Manner] = field(default_factory=OrderedDict)

    @property
    def engine(self) -> Engine | None:
        """The program that the server reported, else the one that the user named."""
        facts = self.facts  # another thread can reset them
        return (facts.engine if facts is not None else None) or self.assumed

    @property
    def settled(self) -> bool:
        """Whether asking the server again is pointless: its window is known, or it never reports one."""
        facts = self.facts
        return facts is not None and (facts.context_window is not None or facts.engine not in _LOADING)

    def manner_of(self, schema: Mapping[str, Any] | Sequence[Any]) -> Manner | None:
        """Return how to send a schema, or a list of tools with theirs, after rejections; ``None``: no restriction."""
        return self._manners.get(_hash(schema)) if self._manners else None

    def forget(self) -> None:
        """Forget all but what the user has named."""
        with _turn:
            self.refused, self.renamed, self._manners = set(), {}, OrderedDict()
            self.facts, self.bare_thoughts, self.ask_again = None, None, -math.inf

    def set_manner(self, schema: Mapping[str, Any] | Sequence[Any], manner: Manner) -> None:
        """From now on, send a schema in this manner."""
        with _turn:
            self._manners[_hash(schema)] = manner
            if len(self._manners) > MOST_KEPT:
                self._manners.popitem(last=False)


def _hash(schema: Any) -> bytes:
    return hashlib.sha256(json.dumps(schema, sort_keys=True, default=str).encode()).digest()


_kept = Latest(Learned, most=MOST_KEPT)
_turn = threading.Lock()  # clients in several threads


def learned(provider: str, url: str, model: str) -> Learned:
    """Return what is known of a model at an address: one shared object."""
    return _kept.of((provider, url, model))


forget = _kept.clear
"""For tests, whose servers reuse the ports of earlier ones."""
