"""The checks of `stretto doctor`: packages, keys, backends, machine. No network access; key values are never shown."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any

from stretto.backends.provider_table import PROVIDERS, key_variable_of, url_variable_of
from stretto.cli.command_client import Opener
from stretto.foundation import plugins
from stretto.values.errors import StrettoError

LOCAL = ("torch", "transformers", "safetensors", "tokenizers")
DEVELOPMENT = ("dev", "test")  # extras
ADVICE = "Run: pip install 'stretto[local]'"


@dataclass(frozen=True)
class BackendCheck:
    """Whether a backend would work and, if not, the remedy."""

    backend: str
    works: bool
    why: str


@dataclass(frozen=True)
class Package:
    """A package that the library uses; ``extra`` is the one that installs it, ``version`` is None if it is missing."""

    name: str
    version: str | None
    extra: str | None = None


@dataclass(frozen=True)
class Findings:
    """All findings. ``environment`` lists which variables are set, without values."""

    python: str
    system: str
    stretto: str
    packages: Sequence[Package]
    settings_file: str
    settings_file_exists: bool
    settings_error: str | None
    environment: Mapping[str, bool]
    backends: Sequence[BackendCheck]
    default_model: str | None
    default_because: str
    machine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether the settings are valid and at least one backend would work."""
        return self.settings_error is None and any(verdict.works for verdict in self.backends)


def examine(open_client: Opener) -> Findings:
    """Run all checks."""
    from stretto.config.settings import Settings, settings_file  # noqa: PLC0415 - keeps `stretto --help` light

    machine, torch_error = look_at_machine()
    engine_error = None if torch_error else look_at_engine()
    try:
        Settings.load()
        settings_error = None
    except StrettoError as error:
        settings_error = str(error)
    model, because = _default(open_client)
    environ, own = os.environ, sorted(name for name in os.environ if name.startswith("STRETTO_"))
    return Findings(
        python=f"{platform.python_version()} ({platform.python_implementation()})",
        system=f"{platform.system()} {platform.machine()}",
        stretto=_version("stretto") or "not installed",
        packages=look_at_packages(),
        settings_file=str(settings_file()),
        settings_file_exists=settings_file().is_file(),
        settings_error=settings_error,
        environment={name: bool(environ.get(name, "").strip()) for name in (*variables(), *own)},
        backends=look_at_backends(environ, torch_error, engine_error),
        default_model=model,
        default_because=because,
        machine=machine,
    )


def look_at_packages() -> list[Package]:
    """Return all packages that the library declares, except those for development."""
    try:
        declared = [_named(requirement) for requirement in requires("stretto") or []]
    except PackageNotFoundError:
        declared = []
    size = Counter(extra for _, extra in declared)
    found: dict[str, Package] = {}
    # Extras include each other: a package belongs to the core if that needs it, else to the smallest extra.
    for name, extra in sorted(declared, key=lambda each: (each[1] is not None, size[each[1]])):
        if extra not in DEVELOPMENT and name != "stretto":
            found.setdefault(name, Package(name, _version(name), extra))
    return list(found.values())


def look_at_backends(
    environ: Mapping[str, str], torch_error: str | None, engine_error: str | None = None
) -> list[BackendCheck]:
    """Return which backends would work, as far as can be determined without calling one."""
    verdicts = [_remote(name, PROVIDERS[name].load(), environ) for name in _with_keys()]
    verdicts += [_of_package(name, environ) for name in plugins.names("backends")]
    missing = [name for name in LOCAL if find_spec(name) is None]
    if missing:
        local = BackendCheck("local", False, f"{', '.join(missing)} not installed. {ADVICE}")
    elif torch_error:
        local = BackendCheck("local", False, f"torch cannot be imported: {torch_error}")
    elif engine_error:
        local = BackendCheck("local", False, f"the local engine cannot be imported: {engine_error}. {ADVICE}")
    else:
        local = BackendCheck("local", True, "any causal language model of a folder or of the Hugging Face hub")
    pocket = _packaged("local:pocket", "the demonstration model", local)
    return [*verdicts, local, pocket, _packaged("local:smollm2", "SmolLM2-135M-Instruct", local)]


def _packaged(name: str, what: str, local: BackendCheck) -> BackendCheck:
    """Return the check of a model whose weights are a separate package."""
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415 - as above
    from stretto.values.errors import MissingDependencyError  # noqa: PLC0415 - keeps `stretto --help` light

    try:
        find_source(name)
    except MissingDependencyError as error:
        return BackendCheck(name, False, str(error).removeprefix(f"{name} ").removeprefix("is "))
    return BackendCheck(name, local.works, what if local.works else local.why)


def look_at_engine() -> str | None:
    """Return why the local engine cannot be imported; ``None`` if it can, or if its packages are missing."""
    if any(find_spec(name) is None for name in LOCAL):
        return None
    try:
        import_module("stretto.local_engine.model.loading.load")  # with numba; transformers only where needed
        import_module("transformers")
    except Exception as error:  # noqa: BLE001 - a broken installation can raise anything, and the point is to report it
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    return None


def look_at_machine() -> tuple[dict[str, Any], str | None]:
    """Return processor, threads and GPUs, and the error if torch is installed but cannot be imported."""
    machine: dict[str, Any] = {"cpus": os.cpu_count()}
    if find_spec("torch") is None:
        return machine, None
    try:
        import torch  # noqa: PLC0415 - the only way to query threads and GPUs
    except Exception as error:  # noqa: BLE001 - a broken installation can raise anything, and the point is to report it
        return machine, f"{type(error).__name__}: {error}"
    machine["torch_threads"] = torch.get_num_threads()
    machine["cpu_capability"] = torch.backends.cpu.get_cpu_capability()
    machine["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        machine["gpus"].append("Apple GPU (mps)")
    return machine, None


def _with_keys() -> list[str]:
    return [name for name, provider in PROVIDERS.items() if not provider.on_this_machine]


def variables() -> list[str]:
    """Return the environment variables that are read, without Stretto's own."""
    named = _with_keys()
    return [*map(key_variable_of, named), *map(url_variable_of, named), *_variables_of_packages(), "HF_TOKEN"]


def _variables_of_packages() -> Iterator[str]:
    for name in plugins.names("backends"):
        if name not in PROVIDERS and name != "local":
            with suppress(StrettoError):  # the backend's own line says what is wrong
                backend = plugins.load("backends", name)
                yield from (
                    getattr(backend, each) for each in ("key_variable", "url_variable") if hasattr(backend, each)
                )


def _of_package(name: str, environ: Mapping[str, str]) -> BackendCheck:
    """Return the check of a backend from another package."""
    if name in PROVIDERS or name == "local":
        return BackendCheck(name, False, "of another package; not used: the library has one of this name")
    try:
        backend = plugins.load("backends", name)
    except StrettoError as error:
        return BackendCheck(name, False, str(error))
    if hasattr(backend, "key_variable"):
        return _remote(name, backend, environ)
    return BackendCheck(name, True, "of another package; whether it answers shows at the first call")


def _remote(provider: str, backend: Any, environ: Mapping[str, str]) -> BackendCheck:
    package, variable = backend.sdk.partition(".")[0], backend.key_variable
    if package and find_spec(package) is None:
        return BackendCheck(
            provider, False, f"the package {package} is not installed. Run: pip install 'stretto[{package}]'"
        )
    if not environ.get(variable, "").strip():
        alternative = ", or give --base-url of a compatible server" if provider == "openai" else ""
        return BackendCheck(provider, False, f"{variable} is not set. Set it{alternative}")
    return BackendCheck(provider, True, f"{variable} is set; whether it is valid shows at the first call")


def _default(open_client: Opener) -> tuple[str | None, str]:
    """Return the default model, and why it was chosen."""
    try:
        client = open_client(None)
    except StrettoError as error:
        return None, str(error)
    return client.backends["main"].name, client.model_reason or "The settings name it."


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _named(requirement: str) -> tuple[str, str | None]:
    """Return the name and extra of a requirement such as ``torch>=2.10; extra == 'local'``."""
    specification, _, marker = requirement.partition(";")
    name = specification.split("[")[0]
    for sign in "<>=!~ (":
        name = name.split(sign)[0]
    _, _, extra = marker.partition("extra ==")
    return name.strip(), extra.strip(" '\"") or None
