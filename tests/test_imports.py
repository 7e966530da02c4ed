"""Imports go one way, and files are found. ``python tests/test_imports.py`` prints which room imports which."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ENGINE = (
    "kernels",
    "text",
    "pocket",
    "model",
    "choosing",
    "drafting",
    "serving",
    "measuring",
    "research",  # which nothing imports: `research_registry` finds it by name
)
ROOMS = (
    "values",  # requests, answers, events, errors, and `foundation` under them
    "config",  # settings, and values that are kept between programs
    "observe",  # hooks, telemetry, logs
    "language",
    "documents",
    "prompts",
    "prices",
    "markup",  # what models write between marks: thoughts, calls of tools
    "display",  # answers in notebooks and as timelines
    "local_engine",  # what is asked for and handed back
    *(f"local_engine.{room}" for room in ENGINE),
    "backends",
    "abilities",  # what models were measured to hold
    "router",
    "strategies",
    "client",
    "stretto",  # the public names
    "server",
    "integrations",
    "testing",
    "comparing",  # two ways of answering, side by side
    "calibrating",  # when the answer of a smaller model stands
    "cli",
)
"""From the ground up: a room imports only those before it. `docs/architecture.md` says what each holds."""

EXCEPTIONS = {
    ("stretto.values.document", "stretto.documents"): "`Document.of` reads files when it is called",
    ("stretto.values.messages", "stretto.documents"): "files in a message are read when it is made",
    ("stretto.router.policy", "stretto.strategies"): "the router asks the strategies for their offers",
    ("stretto.router.case", "stretto.strategies.items.splitting"): "it reads text only",
    ("stretto.router.parse", "stretto.strategies.items.splitting"): "likewise",
}
"""Imports inside of functions that go the other way, and why they may."""


@dataclass(frozen=True)
class Import:
    """One import at run time; those for type checkers do not count."""

    source: str
    target: str
    is_late: bool  # inside of a function


def floor(module: str) -> int:
    own = room(module)
    return ROOMS.index(own) if own in ROOMS else len(ROOMS)


def room(module: str) -> str:
    parts = module.split(".")
    if module in ("stretto", "stretto.extending", "stretto.local"):
        return "stretto"
    if module == "stretto.__main__":
        return "cli"
    if parts[1] == "foundation":
        return "values"
    if parts[1] == "local_engine" and len(parts) > 2 and (ROOT / "stretto" / "local_engine" / parts[2]).is_dir():
        return f"local_engine.{parts[2]}"
    return parts[1]


def imports() -> list[Import]:
    files = {_module(file): file for file in sorted((ROOT / "stretto").rglob("*.py"))}
    found = []
    for module, file in files.items():
        for statement, is_late in _statements(ast.parse(file.read_text(encoding="utf-8")), is_late=False):
            if isinstance(statement, ast.ImportFrom):
                names = [f"{statement.module}.{alias.name}" for alias in statement.names]
                targets = {name if name in files else str(statement.module) for name in names}
            else:
                targets = {alias.name for alias in statement.names}
            found += [Import(module, target, is_late) for target in sorted(targets & files.keys())]
    return found


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _statements(node: ast.AST, *, is_late: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, is_late
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            yield from _statements(child, is_late=is_late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))


def circle(targets: dict[str, set[str]]) -> list[str]:
    """A way from a node back to itself, if there is one."""
    done: set[str] = set()

    def follow(path: list[str]) -> list[str]:
        if path[-1] in path[:-1]:
            return path[path.index(path[-1]) :]
        if path[-1] not in done:
            for target in sorted(targets[path[-1]]):
                if found := follow([*path, target]):
                    return found
            done.add(path[-1])
        return []

    return next((found for node in sorted(targets) if (found := follow([node]))), [])


@pytest.fixture(scope="module")
def every():
    return imports()


def test_every_room_has_its_floor(every):
    assert {room(each.source) for each in every} <= {*ROOMS}, "add the new room to ROOMS and to docs/architecture.md"


def test_a_room_imports_only_those_below_it(every):
    wrong = [
        f"{each.source} ({room(each.source)}) imports {each.target} ({room(each.target)})"
        for each in every
        if floor(each.source) < floor(each.target) and not (each.is_late and (each.source, each.target) in EXCEPTIONS)
    ]
    assert wrong == []


def test_every_exception_is_needed(every):
    assert EXCEPTIONS.keys() <= {(each.source, each.target) for each in every if each.is_late}


def test_no_modules_import_each_other_in_a_circle(every):
    targets = defaultdict[str, set[str]](set)
    for each in every:
        if not each.is_late:
            targets[each.source].add(each.target)
    assert circle(targets) == []


def test_a_circle_is_found():
    targets = defaultdict[str, set[str]](set, {"a": {"b"}, "b": {"c", "d"}, "d": {"b"}})
    assert circle(targets) == ["b", "d", "b"]


def test_kernels_know_nothing_of_the_library(every):
    own = {each.target for each in every if room(each.source) == "local_engine.kernels"}
    assert {room(target) for target in own} == {"local_engine.kernels"}


def test_the_engine_knows_nothing_of_what_is_above_it(every):
    values = {
        each.target for each in every if room(each.source).startswith("local_engine") and "engine" not in each.target
    }
    assert values <= {
        *(
            "stretto.foundation.arguments",
            "stretto.foundation.ending_thread",
            "stretto.values.errors",
            "stretto.foundation.threads",
            "stretto.foundation.latest",
        ),
        *("stretto.foundation.plugins", "stretto.foundation.schema_graph", "stretto.foundation.stop_texts"),
        "stretto.foundation.surrogates",
        "stretto.markup.forms",  # which control tokens are marks, and so stay in the text
    }


def test_strategies_see_no_provider(every):
    seen = {each.target for each in every if room(each.source) == "strategies"}
    assert not [
        target for target in seen if target.startswith(("stretto.backends.providers", "stretto.backends.local"))
    ]


@pytest.mark.parametrize("folder", ["rewrite", "fields"])
def test_a_strategy_in_a_folder_of_its_own_can_be_removed(every, folder):
    own = f"stretto.strategies.{folder}"
    outside = {each.source for each in every if f"{each.target}.".startswith(f"{own}.")}
    assert {source for source in outside if not f"{source}.".startswith(f"{own}.")} == {"stretto.strategies"}


def test_a_folder_has_no_more_modules_than_one_looks_through():
    modules = Counter(file.parent for file in (ROOT / "stretto").rglob("*.py") if file.name != "__init__.py")
    assert [f"{folder.relative_to(ROOT)}: {number}" for folder, number in modules.items() if number > 25] == []


def test_no_three_modules_have_the_same_name():
    names = Counter(file.name for file in (ROOT / "stretto").rglob("*.py") if not file.name.startswith("__"))
    assert [name for name, number in names.items() if number > 2] == [], "call one of them by what it does"


def main() -> None:
    targets = defaultdict[str, set[str]](set)
    for each in imports():
        if room(each.source) != room(each.target):
            targets[room(each.source)].add(room(each.target))
    for own in ROOMS:
        if own in targets:
            print(f"{own:<26} {', '.join(sorted(targets[own]))}")


if __name__ == "__main__":
    main()
