"""Command options for models in this process, defined once for all commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stretto.cli.options import in_place_of, path_of
from stretto.foundation.arguments import MOST_THREADS
from stretto.values.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stretto.client.async_client import AsyncStretto


def complete_quantize(incomplete: str) -> list[str]:
    """Complete the values of ``--quantize``."""
    from stretto.local_engine.model.loading.source import QUANTIZE  # noqa: PLC0415 - keeps `stretto --help` light

    return [name for name in QUANTIZE if name.startswith(incomplete)]


def complete_long_context(incomplete: str) -> list[str]:
    """Complete the values of ``--long-context``."""
    from stretto.local_engine.serving.long_prompts import CHOICES  # noqa: PLC0415 - keeps `stretto --help` light

    return [name for name in CHOICES if name.startswith(incomplete)]


def _not_compiled(value: bool | None) -> bool | None:
    return False if value else None


OF_A_LOCAL_MODEL: dict[str, Any] = {
    "dtype": Annotated[
        str | None, typer.Option("--dtype", metavar="TYPE", help="Number type of a local model: float32, bfloat16, ...")
    ],
    "quantize": Annotated[
        str | None,
        typer.Option(
            "--quantize",
            metavar="BITS",
            help="Weights of a local model in few bits: int8, int4, or none, which also unpacks a GGUF file.",
            autocompletion=complete_quantize,
        ),
    ],
    "device": Annotated[
        str | None, typer.Option("--device", metavar="NAME", help="Where a local model runs: cpu, cuda, cuda:1, ...")
    ],
    "threads": Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, max=MOST_THREADS, help="Maximum number of threads of a local model."
        ),
    ],
    "compiled": Annotated[
        bool | None,
        typer.Option(
            "--no-compiled",
            help="Run a local model in torch, not in code compiled for this processor.",
            callback=_not_compiled,
        ),
    ],
    "long_context": Annotated[
        str | None,
        typer.Option(
            "--long-context",
            metavar="WAY",
            help="How a local model reads what is longer than its window: auto, focus or refuse.",
            autocompletion=complete_long_context,
        ),
    ],
    "draft_corpus": Annotated[
        list[Path] | None,
        typer.Option(
            "--draft-corpus",
            metavar="PATH",
            help="A file or folder of text or code that a local model's answer may repeat. May be repeated.",
            parser=path_of,
        ),
    ],
}
"""Options by their names in `Settings`, in the order of the help."""


def with_local_model(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace a command's argument ``local_model`` with these options; it receives the settings that were given.

    ``left_out``: names of options that the command does not support.
    """
    options = {name: option for name, option in OF_A_LOCAL_MODEL.items() if name not in left_out}
    return lambda command: in_place_of(command, "local_model", options)


def check_local(client: AsyncStretto, local: Mapping[str, Any]) -> None:
    """Raise `SettingsError` if options for a model in this process were given, but the client has none."""
    names = [backend.name for backend in client.backends.values()]
    if local and not any(name.startswith("local:") for name in names):
        options = ", ".join(_flag(name) for name in local)
        models = " and ".join(names)
        raise SettingsError(
            f"{options}: only for models that run in this process, local:..., and {models} "
            f"{'does' if len(names) == 1 else 'do'} not."
        )


def _flag(name: str) -> str:
    return "--no-compiled" if name == "compiled" else f"--{name.replace('_', '-')}"
