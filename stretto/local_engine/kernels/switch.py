"""Whether code is compiled for this processor: the environment may say no, where a compiler fails on a machine."""

from __future__ import annotations

import os

from stretto.errors import SettingsError

VARIABLE = "STRETTO_COMPILED"
_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def compiling() -> bool:
    """Whether it is, unless something else was asked for. Raises `SettingsError`."""
    said = os.environ.get(VARIABLE, "1").strip().lower()
    if said not in _WORDS:
        raise SettingsError(f"{VARIABLE}={os.environ[VARIABLE]!r} cannot be used. Set it to 1 or 0.")
    return _WORDS[said]
