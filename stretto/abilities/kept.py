"""What was measured of a model, as a file beside the settings: one for each model and address."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from stretto.backends.base import Backend
from stretto.config.kept_values import file_for, read_all, read_kept, write_kept
from stretto.prompts import Catalogue

AGAIN = "stretto check"
FOLDER = "abilities"

Right = Annotated[int, Field(ge=0)]
Streams = Annotated[int, Field(ge=1, le=1_000_000)]
SLOWEST, FASTEST = 0.01, 1e9
Rate = Annotated[float, Field(ge=SLOWEST, le=FASTEST, allow_inf_nan=False)]


class Ability(BaseModel):
    """How often a model held one thing.

    Attributes:
        right: answers that code found right.
        total: answers in all.
        needed: right answers from which the model holds it.
        example: the beginning of a wrong answer.
    """

    model_config = ConfigDict(frozen=True)

    right: Right
    total: int = Field(ge=1)
    needed: int = Field(ge=1)
    example: str = ""

    @property
    def held(self) -> bool:
        """Whether the model holds it."""
        return self.right >= self.needed


class Abilities(BaseModel):
    """What a check found of one model.

    Attributes:
        model: its name, and where its server is.
        checked: the day.
        prompts: version of the templates that were used; with others, the check has to be made again.
        quantisation: of the weights, where that is known.
        family: of the prompts that the model holds best.
        families: right entries of a list, by family of prompts.
        held: abilities by name; what was not measured in time is missing.
        tokens_per_s: of one stream, by the number of streams that ran.
        direct_tokens: that a direct answer to a question for advice has; ``None`` where tokens are not counted.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    checked: date
    prompts: str
    quantisation: str | None = None
    family: str | None = None
    families: Mapping[str, Right] = Field(default_factory=dict)
    held: Mapping[str, Ability] = Field(default_factory=dict)
    tokens_per_s: Mapping[Streams, Rate] = Field(default_factory=dict)
    direct_tokens: int | None = Field(default=None, ge=1, le=10_000_000)

    @property
    def is_current(self) -> bool:
        """Whether the library's prompts are still those of the check."""
        return self.prompts == prompts_version()

    def against(self, *needed: str) -> str | None:
        """Why what needs these abilities is not offered, as half a sentence; ``None`` if nothing speaks against it."""
        for name in needed:
            ability = self.held.get(name)
            if ability is not None and not ability.held:
                return (
                    f"the model does not hold {SAID[name]} ({ability.right} of {ability.total} in the check of "
                    f"{self.checked}; `stretto check` measures it again)"
                )
        return None


SAID: Mapping[str, str] = {
    "plan": "the plan of an answer",
    "item": "one entry of a list",
    "label": "labels out of a list",
    "record": "quotations letter by letter",
    "schema": "a JSON schema",
    "length": "a length",
    "language": "the language of the question",
    "nothing": "saying that a text does not tell it",
}
"""Abilities by name, as half sentences name them."""


@lru_cache(maxsize=1)
def prompts_version() -> str:
    """A short hash of the library's templates."""
    return hashlib.sha256("\n".join(template.text for template in Catalogue()).encode()).hexdigest()[:12]


def key_of(backend: Backend) -> str:
    """The name of a model, and host and port of its server."""
    endpoint = getattr(backend, "endpoint", "")
    return f"{backend.name} at {endpoint}" if endpoint else backend.name


def file_of(key: str) -> Path:
    """Where the abilities of a model are kept."""
    return file_for(FOLDER, key)


def keep(abilities: Abilities) -> Path:
    """Write the file of a model, whole or not at all. Raises `OSError`."""
    path = file_of(abilities.model)
    write_kept(path, abilities)
    return path


def abilities_of(backend: Backend) -> Abilities | None:
    """What is kept of a model; ``None`` where it was not checked, or with other prompts. Reads a file at most."""
    key = key_of(backend)
    found = read_kept(file_of(key), Abilities, AGAIN)
    return found if found is not None and found.model == key and found.is_current else None


def all_abilities() -> list[tuple[Path, Abilities]]:
    """What is kept of all models, each with its file."""
    return read_all(FOLDER, Abilities, AGAIN)
