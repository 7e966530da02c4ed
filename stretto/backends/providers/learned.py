"""What is known of servers beyond what their models' names say, kept for the length of the process.

A refusal costs a call, and a question to a server a moment. So what one client has learned, all others use.
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

_LOADING = ("ollama", "lmstudio", "llamacpp")  # they answer before the model is loaded, and tell its window after

MOST_KEPT = 256
"""Models at servers; the one that was opened longest ago is forgotten first. Schemas of one, likewise."""

Manner = Literal["loose", "words"]
"""How a schema is told a server that refused it: without its strict mode, or in the messages only."""


@dataclass(slots=True)
class Learned:
    """What is known of one model at one server.

    Attributes:
        refused: parameters that it was asked without after a refusal.
        renamed: parameters that it takes under another name.
        facts: what the server told of itself; ``None`` while it was not asked, or did not answer.
        assumed: the program that the user named, as ``vllm:`` does.
        bare_thoughts: its answers begin within a thought of which only the end arrives (`BareThoughts`).
        ask_again: when a server that did not tell everything may be asked again, by the clock of `time.monotonic`.
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
        """The program: as it answered, else as it was named."""
        facts = self.facts  # another thread may forget them
        return (facts.engine if facts is not None else None) or self.assumed

    @property
    def settled(self) -> bool:
        """Whether asking the server again would bring nothing new: its window is known, or it never tells one."""
        facts = self.facts
        return facts is not None and (facts.context_window is not None or facts.engine not in _LOADING)

    def manner_of(self, schema: Mapping[str, Any] | Sequence[Any]) -> Manner | None:
        """How a schema, or a list of tools with theirs, is told after refusals; ``None``: as it may be."""
        return self._manners.get(_hash(schema)) if self._manners else None

    def forget(self) -> None:
        """Know no more than the user has named."""
        with _turn:
            self.refused, self.renamed, self._manners = set(), {}, OrderedDict()
            self.facts, self.bare_thoughts, self.ask_again = None, None, -math.inf

    def tell(self, schema: Mapping[str, Any] | Sequence[Any], manner: Manner) -> None:
        """From here on, tell a schema in this manner."""
        with _turn:
            self._manners[_hash(schema)] = manner
            if len(self._manners) > MOST_KEPT:
                self._manners.popitem(last=False)


def _hash(schema: Any) -> bytes:
    return hashlib.sha256(json.dumps(schema, sort_keys=True, default=str).encode()).digest()


_kept = Latest(Learned, most=MOST_KEPT)
_turn = threading.Lock()  # clients in several threads


def learned(provider: str, url: str, model: str) -> Learned:
    """What is known of a model at an address: one value for all who ask for it."""
    return _kept.of((provider, url, model))


forget = _kept.clear
"""For tests, whose servers take the ports of earlier ones."""
