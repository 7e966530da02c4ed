"""What the method ``head`` is given, without its heavy imports."""

from __future__ import annotations

from dataclasses import dataclass

from stretto.errors import SettingsError

__all__ = ["HeadOptions"]


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """Options of the method ``head``.

    Attributes:
        length: tokens that are drafted ahead at most; fewer where the next ones would not pay.
        width: candidates for each position.
        paths: nodes of a depth that are followed at most; by default 1 on a CPU and 4 elsewhere.
    """

    length: int = 7
    width: int = 3
    paths: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "width", "paths"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SettingsError(
                    f"{name}={value!r} of the method head cannot be used: give a whole number from 1 on."
                )
