"""Forgetting what was learned about a model, wherever it is stored.

Checks and calibrations are files next to the settings. The process keeps the results of answers (`router/history.py`)
and the durations of calls (`backends/load.py`) by backend; what servers reported and rejected
(`backends/providers/learned.py`) by server; the acceptance of drafts by engine. Rate limits and faults do not count:
they last for minutes.
"""

from __future__ import annotations

from pathlib import Path

from stretto.abilities.kept import all_abilities, file_of, key_of
from stretto.backends.base import Backend, Forgets, method_of
from stretto.backends.load import ByBackend
from stretto.strategies.cascade.learned import all_learned


def forget(backend: Backend) -> None:
    """Forget what was learned about a model. Raises `OSError` for a file that cannot be removed."""
    ByBackend.forget(backend)
    if (forget_learned := method_of(backend, Forgets.forget_learned)) is not None:
        forget_learned()
    key = key_of(backend)
    for file in {file_of(key), *files_about(key)}:  # the first one may be damaged
        file.unlink(missing_ok=True)


def files_about(model: str) -> list[Path]:
    """Return the files about a model, named with or without its server, including those of its cascades."""
    about = [(file, [found.model]) for file, found in all_abilities()]
    about += [(file, [*(step.model for step in found.steps), found.main]) for file, found in all_learned()]
    return [file for file, names in about if any(model in (name, name.partition(" at ")[0]) for name in names)]
