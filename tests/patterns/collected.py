"""Every pattern of the package, and how it is used: a hook on ``re.compile`` sees them made, a scan sees every use."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")
ROOT = Path(importlib.import_module("stretto").__file__ or "").parent


class Collector:
    """Records what is compiled by code of the package, by the line that asks for it."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, int], list[re.Pattern]] = {}
        self._compile = re._compile

    def __enter__(self) -> Collector:
        re._compile = self._hooked
        return self

    def __exit__(self, *_: object) -> None:
        re._compile = self._compile

    def _hooked(self, pattern: str | re.Pattern, flags: int) -> re.Pattern:
        compiled = self._compile(pattern, flags)
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename in {__file__, re.__file__}:
            frame = frame.f_back
        if frame is not None and (file := Path(frame.f_code.co_filename)).is_relative_to(ROOT):
            self.made.setdefault((str(file.relative_to(ROOT)), frame.f_lineno), []).append(compiled)
        return compiled


def import_all() -> list[str]:
    """Import every module of the package, and return the names of those that cannot be imported here."""
    left = []
    for module in pkgutil.walk_packages([str(ROOT)], "stretto."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            left.append(f"{module.name}: {error}")
    return left


def call_cached() -> None:
    """Call each function without arguments whose result is kept: tables of words make their patterns there."""
    for name, module in sorted(sys.modules.items()):
        if not name.startswith("stretto."):
            continue
        for value in list(vars(module).values()):
            if hasattr(value, "cache_info") and not inspect.signature(value).parameters:
                value()


@dataclass(frozen=True)
class Site:
    """A call of ``re`` in the source: ``re.compile(...)`` or ``re.sub(...)``."""

    file: str
    first: int
    last: int
    method: str
    given: str  # what it is given, as it stands
    target: str | None  # the name it is assigned to
    literal: tuple[str | bytes, int] | None


def read_source() -> tuple[list[Site], dict[tuple[str, str], set[str]]]:
    """All calls of ``re`` in the package, and how the variables are used that hold patterns; see `_uses`."""
    sites: list[Site] = []
    used: dict[tuple[str, str], set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        file, nodes = str(path.relative_to(ROOT)), list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        sites += _sites(file, nodes)
        for name, use in _uses(nodes):
            used.setdefault((file if name.startswith("_") else "", name), set()).add(use)
    return sites, used


def _sites(file: str, nodes: Sequence[ast.AST]) -> Iterator[Site]:
    targets = {
        id(node.value): node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    targets |= {  # what a function returns is used by its name
        id(node.value): function.name
        for function in nodes
        if isinstance(function, ast.FunctionDef) and function.name.startswith("_")
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
    }
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=method)) if method in {*METHODS, "compile"}:
                yield Site(
                    file,
                    node.lineno,
                    node.end_lineno or node.lineno,
                    method,
                    ast.unparse(node.args[0]),
                    targets.get(id(node)),
                    _literal(node),
                )


def _literal(node: ast.Call) -> tuple[str | bytes, int] | None:
    flags = 0
    given = [each.value for each in node.keywords if each.arg == "flags"]
    at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(str(getattr(node.func, "attr", "")), 2)
    given += node.args[at : at + 1]
    for each in given:
        try:
            flags |= eval(ast.unparse(each), {"re": re})  # noqa: S307 - flags of our own source
        except NameError:
            return None
    match node.args[0]:
        case ast.Constant(value=str() | bytes() as pattern):
            return pattern, flags
    return None


def _uses(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str]]:
    """The methods that are called on a variable; ``?`` where it is handed on.

    A name that begins with an underscore is private to its file; the uses of others are put together, under no file.
    """
    called = set()
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method):
                if method in METHODS:
                    yield name, method
                    called.add(id(node.value))
            case ast.Attribute(value=ast.Call(func=ast.Name(id=name)), attr=method):
                if method in METHODS:
                    yield name, method
                    called.add(id(node.value.func))
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                if id(node) not in called:
                    yield name, "?"


def held(seen: Callable[[re.Pattern, str], None]) -> None:
    """Show every pattern that a module, class or value of the package holds, with the name it has there."""
    visited: set[int] = set()

    def walk(value: object, name: str, depth: int) -> None:
        if isinstance(value, re.Pattern):
            seen(value, name)
            return
        if depth > 4 or id(value) in visited or isinstance(value, str | bytes | int | float):
            return
        if isinstance(value, dict):
            inner = list(value.items())
        elif isinstance(value, list | tuple | set | frozenset):
            inner = [(name, each) for each in value]
        elif type(value).__module__.startswith("stretto.") or (
            isinstance(value, type) and value.__module__.startswith("stretto.")
        ):
            slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
            inner = [*getattr(value, "__dict__", {}).items(), *((slot, getattr(value, slot, None)) for slot in slots)]
        else:
            return
        visited.add(id(value))
        for key, each in inner:
            walk(each, key if isinstance(key, str) and key.isidentifier() else name, depth + 1)

    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("stretto."):
            for name, value in list(vars(module).items()):
                if not inspect.ismodule(value) and not name.startswith("__"):
                    walk(value, name, 0)
