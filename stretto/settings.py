"""Settings: from arguments, else the environment (``STRETTO_*``), else the file, else what is usual."""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Any

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from stretto.arguments import MOST_THREADS, reason, shown
from stretto.errors import SettingsError
from stretto.request import OnMissing, Preference

PREFIX = "STRETTO_"


class Settings(BaseModel):
    """What applies to all requests of a client.

    Attributes:
        model: the model name; without one, the keys in the environment decide.
        base_url: address of a compatible server for ``openai:`` models.
        api_key: the key for that server, and for those that a name such as ``vllm:`` or an address stands for; the keys
            of providers are read from their own variables.
        preference: what matters more, speed or care.
        deadline_s: seconds a whole answer may take.
        on_missing: what becomes of a part that could not be written: a note, nothing, or an error.
        concurrency: calls to one backend at a time.
        retries: how often a transient failure is tried again.
        stall_s: seconds without a byte after which a stream counts as broken.
        first_text_s: seconds to wait for the first text.
        hedge: ask a second time when the first token is late.
        second_opinion: ask the ``small`` backend where the router is unsure.
        dtype: number type of local models, as ``float32``; see `LocalBackend` for this and the next five.
        device: where local models run, as ``cpu``.
        decoding: how local models find their tokens.
        threads: for one forward of a local model at most.
        compiled: whether local models run in code compiled for this processor.
        long_context: how local models read prompts longer than their window: ``auto``, ``focus``, ``star``, ``refuse``.
        prompts: a folder whose templates replace those of the package.
        log_text: put questions and answers into log records.
        prices: a file with prices of models, which come before the list prices; see docs/cost.md.
        shared: address of a Redis server where replicas share rate limits and breakers; see docs/deploying.md.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    preference: Preference = "balanced"
    deadline_s: float | None = Field(default=None, gt=0)
    on_missing: OnMissing = "note"
    concurrency: int = Field(default=16, ge=1, le=500)
    retries: int = Field(default=3, ge=0, le=10)
    stall_s: float = Field(default=30.0, gt=0)
    first_text_s: float = Field(default=120.0, gt=0)
    hedge: bool = False
    second_opinion: bool = False
    dtype: str | None = None
    device: str | None = None
    decoding: str | None = None
    threads: int | None = Field(default=None, ge=1, le=MOST_THREADS)
    compiled: bool | None = None
    long_context: str | None = None
    prompts: Path | None = None
    log_text: bool = False
    prices: Path | None = None
    shared: SecretStr | None = None

    @property
    def local(self) -> dict[str, Any]:
        """Those that are set of what is for local models only, by the arguments of `LocalBackend`."""
        names = ("dtype", "device", "decoding", "threads", "compiled", "long_context")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def load(cls, **arguments: Any) -> Settings:
        """Read all sources; arguments that are ``None`` count as not given. Raises `SettingsError`."""
        file = settings_file()
        named = bool(os.environ.get("STRETTO_SETTINGS"))
        if named and (file.is_dir() or not file.exists()):
            raise SettingsError(f"STRETTO_SETTINGS names {file}, which is not a file. Write it, or unset the variable.")
        try:
            written = tomllib.loads(file.read_text(encoding="utf-8")) if named or file.is_file() else {}
        except (OSError, ValueError) as error:
            raise SettingsError(f"The settings file {file} cannot be read: {error}. Mend or remove it.") from None
        exported = {
            name: os.environ[variable] for name in cls.model_fields if (variable := _variable(name)) in os.environ
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            return cls(**(written | exported | given))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            value = "..." if "key" in name else shown(first.get("input"))
            if first["type"] == "extra_forbidden":
                near = difflib.get_close_matches(name, cls.model_fields, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                raise SettingsError(
                    f"There is no setting {name}, given as {value}.{hint} {file} may hold it."
                ) from None
            raise SettingsError(
                f"The setting {name}={value} cannot be used: {reason(first)}. "
                f"It comes from an argument, from {_variable(name)}, or from {file}."
            ) from None


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def settings_file() -> Path:
    """Where the settings file is looked for: ``$STRETTO_SETTINGS``, else the user's configuration folder."""
    named = os.environ.get("STRETTO_SETTINGS")
    return Path(named).expanduser() if named else user_config_path("stretto") / "settings.toml"
