"""Lazy names of packages, imported on first access, and lazy properties."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, overload


def lazy_exports(
    package: str, file: str, modules: Sequence[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package, for the names that its stub imports.

    The stub is the ``.pyi`` next to its file, which type checkers also read: a line there,
    ``from stretto.HOME import NAME as NAME``, makes a name public. The package's ``modules`` are attributes too.
    """
    lines = (line.split() for line in _stub_of(package, f"{file.rpartition('.')[0]}.pyi").splitlines())
    known = {line[3]: line[1] for line in lines if line[:1] == ["from"]}

    def find(name: str) -> Any:
        if name in known:
            value = getattr(importlib.import_module(known[name]), name)
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *known})

    return sorted(known), find, names


def _stub_of(package: str, path: str) -> str:
    """Read a stub, with the package's loader if it is in a zip file. Raises `ImportError` if there is none."""
    with suppress(OSError), open(path, encoding="utf-8") as stub:  # noqa: PTH123 - avoids an import of pathlib
        return stub.read()
    try:
        return str(sys.modules[package].__spec__.loader.get_data(path), "utf-8")  # type: ignore[union-attr]  # loaders of files and zips have it
    except (OSError, AttributeError) as error:
        raise ImportError(
            f"{path} is not there, which names what {package} offers. Install stretto again, and have what packs the "
            "program take the .pyi files of stretto along.",
            name=package,
        ) from error


Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - read like `property`
    """Like `functools.cached_property`, without the lock that all instances share in Python 3.11.

    A long request is read in a thread. With that lock, the event loop would block on it at the next short one.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> lazy[Value]: ...
    @overload
    def __get__(self, owner: object, kind: type) -> Value: ...
    def __get__(self, owner: object | None, kind: type) -> lazy[Value] | Value:
        """Compute the value and store it in the instance's ``__dict__``, which bypasses this method from then on."""
        if owner is None:
            return self
        value = self._compute(owner)
        owner.__dict__[self._name] = value
        return value
