"""Settings: from arguments, else the environment (``STRETTO_*``), else the file, else what is usual."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from platformdirs import user_config_path
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from stretto.errors import SettingsError
from stretto.request import Preference


class Settings(BaseSettings):
    """What applies to all requests of a client.

    Attributes:
        model: the model name; without one, the keys in the environment decide.
        base_url: address of a compatible server for ``openai:`` models.
        preference: what matters more, speed or care.
        deadline_s: seconds a whole answer may take.
        concurrency: calls to one backend at a time.
        retries: how often a transient failure is tried again.
        stall_s: seconds without a byte after which a stream counts as broken.
        first_text_s: seconds to wait for the first text.
        hedge: ask a second time when the first token is late.
        second_opinion: ask the ``small`` backend where the router is unsure.
        prompts: a folder whose templates replace those of the package.
    """

    model_config = SettingsConfigDict(env_prefix="STRETTO_", extra="forbid", frozen=True)

    model: str | None = None
    base_url: str | None = None
    preference: Preference = "balanced"
    deadline_s: float | None = Field(default=None, gt=0)
    concurrency: int = Field(default=16, ge=1, le=90)
    retries: int = Field(default=3, ge=0, le=10)
    stall_s: float = Field(default=30.0, gt=0)
    first_text_s: float = Field(default=120.0, gt=0)
    hedge: bool = False
    second_opinion: bool = False
    prompts: Path | None = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - pydantic passes all sources; .env files are not read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - likewise
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments before environment before file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=settings_file())

    @classmethod
    def load(cls, **arguments: Any) -> Settings:
        """Read all sources; arguments that are ``None`` count as not given. Raises `SettingsError`."""
        try:
            return cls(**{name: value for name, value in arguments.items() if value is not None})
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise SettingsError(
                f"The setting {name}={first.get('input')!r} cannot be used: {first['msg']}. "
                f"It comes from an argument, from STRETTO_{name.upper()}, or from {settings_file()}."
            ) from None
        except ValueError as error:  # the file is no TOML
            raise SettingsError(
                f"The settings file {settings_file()} cannot be read: {error}. Mend or remove it."
            ) from None


def settings_file() -> Path:
    """Where the settings file is looked for: ``$STRETTO_SETTINGS``, else the user's configuration folder."""
    named = os.environ.get("STRETTO_SETTINGS")
    return Path(named).expanduser() if named else user_config_path("stretto") / "settings.toml"
