"""What is learned of a model, wherever it is kept, and the one way to forget it.

Checks and calibrations are files beside the settings. In the process are kept, by backend, what its answers showed
(`router/history.py`) and what its calls took (`backends/load.py`); by server, what that told and refused
(`backends/providers/learned.py`); by engine, what drafts were worth. A rate limit and a fault are not learned: they
hold for minutes.
"""

from __future__ import annotations

from pathlib import Path

from stretto.abilities.kept import all_abilities, file_of, key_of
from stretto.backends.base import Backend, Forgets, method_of
from stretto.backends.load import ByBackend
from stretto.strategies.cascade.learned import all_learned


def forget(backend: Backend) -> None:
    """Forget what was learned of a model. Raises `OSError` for a file that cannot be removed."""
    ByBackend.forget(backend)
    if (forget_learned := method_of(backend, Forgets.forget_learned)) is not None:
        forget_learned()
    key = key_of(backend)
    for file in {file_of(key), *files_about(key)}:  # the first may be damaged
        file.unlink(missing_ok=True)


def files_about(model: str) -> list[Path]:
    """The files about a model, which may be named without its server; those of cascades it takes part in, too."""
    about = [(file, [found.model]) for file, found in all_abilities()]
    about += [(file, [*(step.model for step in found.steps), found.main]) for file, found in all_learned()]
    return [file for file, names in about if any(model in (name, name.partition(" at ")[0]) for name in names)]
