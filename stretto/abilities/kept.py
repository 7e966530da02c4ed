"""Results of checks, as files next to the settings: one for each model and address."""

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
    """How often a model showed one ability.

    Attributes:
        right: number of correct answers, as judged by code.
        total: number of answers.
        needed: number of correct answers from which the model has the ability.
        example: the beginning of a wrong answer.
    """

    model_config = ConfigDict(frozen=True)

    right: Right
    total: int = Field(ge=1)
    needed: int = Field(ge=1)
    example: str = ""

    @property
    def held(self) -> bool:
        """Whether the model has the ability."""
        return self.right >= self.needed


class Abilities(BaseModel):
    """The results of a check of one model.

    Attributes:
        model: its name and the address of its server.
        checked: the date of the check.
        prompts: version of the templates used; with others, the check has to be repeated.
        quantisation: that of the weights, if known.
        family: the prompt family that works best with the model.
        families: number of correct list entries, by prompt family.
        held: abilities by name, without those that were not measured in time.
        tokens_per_s: tokens per second of one stream, by the number of concurrent streams.
        direct_tokens: tokens of a direct answer to a question for advice; ``None`` if tokens are not counted.
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
        """Return half a sentence on the first ability that the model lacks; ``None`` if it is not known to lack any."""
        for name in needed:
            ability = self.held.get(name)
            if ability is not None and not ability.held:
                return (
                    f"the model does not hold {DESCRIPTIONS[name]} ({ability.right} of {ability.total} in the check of "
                    f"{self.checked}; `stretto check` measures it again)"
                )
        return None


DESCRIPTIONS: Mapping[str, str] = {
    "plan": "the plan of an answer",
    "item": "one entry of a list",
    "label": "labels out of a list",
    "record": "quotations letter by letter",
    "schema": "a JSON schema",
    "length": "a length",
    "language": "the language of the question",
    "nothing": "saying that a text does not contain the answer",
}
"""Abilities by name, as worded in sentences."""


@lru_cache(maxsize=1)
def prompts_version() -> str:
    """Return a short hash of the library's templates."""
    return hashlib.sha256("\n".join(template.text for template in Catalogue()).encode()).hexdigest()[:12]


def key_of(backend: Backend) -> str:
    """Return the name of a model with the host and port of its server."""
    endpoint = getattr(backend, "endpoint", "")
    return f"{backend.name} at {endpoint}" if endpoint else backend.name


def file_of(key: str) -> Path:
    """Return the path of the file with a model's abilities."""
    return file_for(FOLDER, key)


def keep(abilities: Abilities) -> Path:
    """Write the file of a model atomically. Raises `OSError`."""
    path = file_of(abilities.model)
    write_kept(path, abilities)
    return path


def abilities_of(backend: Backend) -> Abilities | None:
    """Load a model's abilities; ``None`` if not checked, or with other prompts. Reads at most one file."""
    key = key_of(backend)
    found = read_kept(file_of(key), Abilities, AGAIN)
    return found if found is not None and found.model == key and found.is_current else None


def all_abilities() -> list[tuple[Path, Abilities]]:
    """Load the abilities of all models, each with its file."""
    return read_all(FOLDER, Abilities, AGAIN)
