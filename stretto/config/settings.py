"""Settings: from arguments, else the environment (``STRETTO_*``), else the settings file, else defaults."""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from platformdirs import user_config_path
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, ValidationError, field_validator

from stretto.foundation.arguments import MOST_THREADS, reason, safe_repr
from stretto.foundation.validation import CheckedModel
from stretto.values.errors import SettingsError
from stretto.values.request import OnMissing, Preference

PREFIX = "STRETTO_"
_LOCAL = (
    *("dtype", "quantize", "device", "decoding", "threads", "compiled"),
    *("long_context", "adapters", "draft_corpus", "progress"),
)
_NOT_SETTINGS = ("SETTINGS", "LOG", "LOGS", "CHATS", "SERVER_KEY", "CPU_BFLOAT16", "KEPT_WEIGHTS_GB")
"""Environment variables that other modules read, without the prefix."""

_PLACES = (
    "STRETTO_SETTINGS",
    *(("LOCALAPPDATA", "USERPROFILE") if sys.platform == "win32" else ("XDG_CONFIG_HOME", "HOME")),
)
_NEAR = 0.88  # high, because all names share the prefix
_SLIP = 2  # most characters by which a misspelt name differs in length; others are taken for unrelated variables
_log = logging.getLogger(__name__)


class Settings(CheckedModel):
    """Settings for all requests of a client.

    Attributes:
        model: the model name; without one, the keys in the environment decide.
        base_url: address of a compatible server for ``openai:`` models.
        api_key: the API key for that server, and for servers given by a name such as ``vllm:`` or an address;
            providers' keys are read from their usual variables.
        fallback: models that take over if the model fails, in this order; comma-separated in a variable.
        preference: whether speed or care matters more.
        deadline_s: seconds a whole answer may take.
        on_missing: what to do about a part that could not be written: a note, nothing, or an error.
        chat_template_kwargs: arguments for the chat templates of open models; as JSON in a variable.
        concurrent_calls: maximum number of concurrent calls to one backend.
        attempts: maximum number of calls for one generation, including the first; transient failures are retried.
        stall_s: seconds without new text after which a stream that has begun counts as broken.
        first_text_s: seconds to wait for the first text of a short prompt; long prompts get more (docs/errors.md).
        hedge: send a second call if the first token is late.
        second_opinion: ask the ``small`` backend if the router is unsure.
        dtype: dtype of local models, such as ``float32``; see `LocalBackend` for this and the next nine.
        quantize: quantization of local models: ``int8``, ``int4``, ``none``.
        device: device of local models, such as ``cpu``.
        decoding: decoding method of local models.
        threads: maximum number of threads for one forward pass of a local model.
        compiled: whether local models run in code compiled for this processor.
        long_context: how local models handle prompts longer than their context window: ``auto``, ``focus``, ``refuse``.
        adapters: folders of adapters for local models, by name; in a variable, comma-separated ``name=folder``.
        draft_corpus: files and folders that local models draft from; comma-separated in a variable.
        progress: report on a terminal that a local model is being loaded, if that takes more than two seconds.
        prompt_family: prompt family for the models, instead of the one that suits their size.
        templates: a folder whose templates override those of the package.
        log_text: include questions and answers in log records.
        reading_s: time limit for reading one document, in seconds.
        reading_memory_mb: memory limit for parsing one PDF, DOCX or HTML file, in megabytes; not enforced on Windows.
        follow_links: in a folder of documents, follow symbolic links to folders and to anything outside it.
        prices: a file with model prices, which override the list prices; see docs/cost.md.
        known_models: a file with capabilities of models, which override the built-in list; see docs/backends.md.
        shared: address of a Redis server where replicas share rate limits and breakers; see docs/deploying.md.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    fallback: tuple[str, ...] = ()
    preference: Preference = "balanced"
    deadline_s: float | None = Field(default=None, gt=0)
    on_missing: OnMissing = "note"
    chat_template_kwargs: dict[str, Any] | None = None
    concurrent_calls: int = Field(default=16, ge=1, le=500)
    attempts: int = Field(default=4, ge=1, le=11)
    stall_s: float = Field(default=30.0, gt=0)
    first_text_s: float = Field(default=120.0, gt=0)
    hedge: bool = False
    second_opinion: bool = False
    dtype: str | None = None
    quantize: str | None = None
    device: str | None = None
    decoding: str | None = None
    threads: int | None = Field(default=None, ge=1, le=MOST_THREADS)
    compiled: bool | None = None
    long_context: str | None = None
    adapters: dict[str, Path] | None = None
    draft_corpus: tuple[Path, ...] | None = None
    progress: bool | None = None
    prompt_family: str | None = None
    templates: Path | None = None
    log_text: bool = False
    reading_s: float = Field(default=120.0, gt=0, le=86_400)
    reading_memory_mb: int = Field(default=2048, ge=256)
    follow_links: bool = False
    prices: Path | None = None
    known_models: Path | None = None
    shared: SecretStr | None = None

    _sources: dict[str, str | Path] = PrivateAttr(default_factory=dict)  # the variable or file that each name came from

    @field_validator("fallback", "draft_corpus", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value

    @field_validator("chat_template_kwargs", mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("adapters", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        pairs = [each.partition("=") for each in value.split(",") if each.strip()]
        if not all(name.strip() and between and folder.strip() for name, between, folder in pairs):
            raise ValueError("each adapter is name=folder, with commas between them")
        return {name.strip(): folder.strip() for name, _, folder in pairs}

    @property
    def local(self) -> dict[str, Any]:
        """The settings for local models that are set, named like the arguments of `LocalBackend`."""
        given = {name: getattr(self, name) for name in _LOCAL}
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def load(cls, **arguments: Any) -> Settings:
        """Load settings from all sources; arguments that are ``None`` count as missing. Raises `SettingsError`."""
        file = settings_file()
        named = bool(os.environ.get("STRETTO_SETTINGS"))
        if named and (file.is_dir() or not file.exists()):
            raise SettingsError(f"STRETTO_SETTINGS names {file}, which is not a file. Write it, or unset the variable.")
        try:
            written = tomllib.loads(file.read_text(encoding="utf-8")) if named or file.is_file() else {}
        except (OSError, ValueError) as error:
            raise SettingsError(f"The settings file {file} cannot be read: {error}. Repair or remove it.") from None
        exported = {name: value for name in cls.model_fields if (value := os.environ.get(_variable(name), "").strip())}
        _warn_misspelt(tuple(sorted(name for name in os.environ if name.startswith(PREFIX))))
        given = {name: value for name, value in arguments.items() if value is not None}
        sources = dict.fromkeys(written, file) | {name: _variable(name) for name in exported}
        sources = {name: source for name, source in sources.items() if name not in given}
        try:
            settings = cls.model_validate(written | exported | given)
        except ValidationError as error:
            raise cls._refused(error, sources) from None
        settings._sources = sources
        return settings

    @classmethod
    def _refused(
        cls, error: ValidationError, sources: Mapping[str, str | Path] = MappingProxyType({})
    ) -> SettingsError:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        value = "..." if "key" in name else safe_repr(first.get("input"))
        source = sources.get(name)
        if first["type"] == "extra_forbidden":
            where = f" It is in {source}." if isinstance(source, Path) else ""
            near = difflib.get_close_matches(name, cls.model_fields, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            return SettingsError(f"There is no setting {name}, given as {value}.{hint}{where}")
        problem = f"cannot be used: {reason(first)}."
        if isinstance(source, str):
            return SettingsError(f"{source}={value} {problem}")
        where = "" if source is None else f" The value comes from {source}."
        return SettingsError(f"The setting {name}={value} {problem}{where}")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


@cache
def _warn_misspelt(variables: tuple[str, ...]) -> None:
    """Log a warning for each environment variable that looks misspelt; once per process."""
    known = [*map(_variable, Settings.model_fields), *(PREFIX + name for name in _NOT_SETTINGS)]
    for variable in variables:
        near = [] if variable in known else difflib.get_close_matches(variable, known, n=1, cutoff=_NEAR)
        if near and abs(len(near[0]) - len(variable)) <= _SLIP:
            _log.warning("The environment variable %s has no effect. Did you mean %s?", variable, near[0])


def with_source(error: SettingsError, settings: Settings, names: Collection[str]) -> SettingsError:
    """Add the variable or file that a value came from to an error that begins with one of these names."""
    name, rest = re.findall(r"(?s)^(\w*)(.*)", str(error))[0]
    source = settings._sources.get(name) if name in names else None
    if isinstance(source, Path):
        return SettingsError(f"{error} The value comes from {source}.")
    return error if source is None else SettingsError(f"{source}{rest}")


def settings_file() -> Path:
    """Return the path of the settings file: ``$STRETTO_SETTINGS``, else in the user's configuration folder."""
    return _settings_file(*map(os.environ.get, _PLACES))


@cache
def _settings_file(named: str | None, *_: str | None) -> Path:
    """Return the same, cached by what it depends on: every route needs it, and finding the folder is slow."""
    return Path(named).expanduser() if named else user_config_path("stretto") / "settings.toml"
