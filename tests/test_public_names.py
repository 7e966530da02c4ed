"""What is public: guides and examples import nothing else, and the reference has all of it."""

import ast
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAZY = ("stretto", "stretto.extending", "stretto.local")
PUBLIC = (
    *LAZY,
    *("stretto.testing", "stretto.testing.server"),
    *("stretto.comparing", "stretto.calibrating", "stretto.server"),
    *("stretto.integrations.langchain", "stretto.integrations.ray_serve"),
)
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").glob("*.md") if page.name != "reference.md")]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
DRAFTING = {"Drafter", "DraftTree", "DraftContext", "DraftOutcome", "DraftEquipment"}
ENGINE = {"Engine", "Generation", "Handle", "Piece", "Finished", "LoadedModel"} | {
    *("load_model", "find_source", "measure_step_cost"),
}


def code_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def imported(code: str) -> set[tuple[str, str]]:
    """Modules and names of this library that a program imports; a module itself has the name ``""``."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "stretto":
            found |= {(str(node.module), alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "stretto"}
    return found


def exported(module: str) -> set[str]:
    """Its ``__all__``. Most are read without an import: an integration's package may be missing here."""
    if module in LAZY:
        return set(importlib.import_module(module).__all__)
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def is_public(module: str, name: str) -> bool:
    return module in PUBLIC and (not name or name in exported(module))


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_guides_and_examples_import_public_names_only(path):
    private = {each for code in code_of(path) for each in imported(code) if not is_public(*each)}
    assert private == set()


def test_a_private_import_is_found():
    code = "from stretto.backends.base import Chunk\nfrom stretto import Stretto, Offer\nimport stretto.queue"
    private = {each for each in imported(code) if not is_public(*each)}
    assert private == {("stretto.backends.base", "Chunk"), ("stretto", "Offer"), ("stretto.queue", "")}


@pytest.mark.parametrize("module", ["stretto", "stretto.extending", "stretto.local", "stretto.testing"])
def test_the_reference_has_every_public_name(module):
    headings = set(re.findall(r"^### `(\w+)`$", (ROOT / "docs/reference.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(importlib.import_module(module).__all__) - headings == set(), "Run: make docs"


def test_names_are_found_in_a_zip_and_without_stubs_one_error_says_so(tmp_path):
    package = tmp_path / "all" / "stretto"
    shutil.copytree(ROOT / "stretto", package, ignore=shutil.ignore_patterns("__pycache__", "local_engine", "web"))
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", package.parent)
    (package / "__init__.pyi").unlink()

    def names(path):
        code = f"import sys; sys.path.insert(0, {str(path)!r}); import stretto; print(stretto.Budget.__module__)"
        return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)

    assert names(archive).stdout == "stretto.values.budget\n"
    assert "ImportError: " in (missing := names(package.parent)).stderr
    assert "take the .pyi files of stretto along" in missing.stderr


@pytest.mark.parametrize("module", LAZY)
def test_programs_and_type_checkers_read_the_same_names(module):
    there = importlib.import_module(module)
    stub = ast.parse(Path(there.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    known = {
        alias.asname: getattr(importlib.import_module(node.module), alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert known == {name: getattr(there, name) for name in there.__all__}


@pytest.mark.parametrize("module", PUBLIC[:2])
def test_a_name_is_public_in_one_place(module):
    others = {name for other in LAZY if other != module for name in importlib.import_module(other).__all__}
    assert others & set(importlib.import_module(module).__all__) == set()


STABLE = {
    *("Backend", "Capabilities", "Chunk", "ModelRequest", "Offer", "Strategy", "Resilience", "resilient", "Endpoints"),
}
PROVISIONAL = {"stretto.extending": exported("stretto.extending") - STABLE, "stretto.local": ENGINE}


@pytest.mark.parametrize("module", PROVISIONAL)
def test_what_is_provisional_says_so_where_it_is_explained(module):
    docs = {name: inspect.getdoc(value) or "" for name, value in vars_of(module).items()}
    assert {name for name, said in docs.items() if "\n\nProvisional" in said} == PROVISIONAL[module]


def vars_of(module: str) -> dict[str, object]:
    there = importlib.import_module(module)
    return {name: getattr(there, name) for name in there.__all__}


def types_in(hint: object) -> set[type]:
    """The classes that a type hint is made of."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return {hint}
    return {found for part in typing.get_args(hint) for found in types_in(part)}


ALIASES = {
    name: getattr(importlib.import_module(module), name)
    for module, name in (
        *(("collections.abc", each) for each in ("AsyncGenerator", "Awaitable", "Callable", "Generator", "Iterator")),
        ("stretto.abilities.checking", "Progress"),
        ("stretto.values.request", "PromptLike"),
        ("stretto.documents.limits", "ReadingTime"),
    )
}
"""What hints name and a module imports for type checkers only; an alias is judged by the types that it stands for."""


def functions() -> dict[str, object]:
    """The public functions of `stretto`, and the public methods of its clients and streams."""
    stretto = importlib.import_module("stretto")
    extending = importlib.import_module("stretto.extending")
    found = {"log_json": stretto.log_json, "resilient": extending.resilient}
    for owner in (
        *(stretto.AsyncStretto, stretto.Stretto, stretto.AnswerStream, stretto.SyncAnswerStream, stretto.Request),
        *(stretto.Document, extending.Backend, extending.Strategy, extending.Drafter),
    ):
        for name, member in vars(owner).items():
            function = inspect.unwrap(getattr(member, "__func__", member)) if callable(member) else None
            if not name.startswith("_") and inspect.isfunction(function):
                found[f"{owner.__name__}.{name}"] = function
    return found


@pytest.mark.parametrize("name", sorted(functions()))
def test_signatures_name_public_types_only(name):
    function = functions()[name]
    public = {
        each: getattr(importlib.import_module(m), each)
        for m in PUBLIC[:4]
        for each in importlib.import_module(m).__all__
    }
    hints = typing.get_type_hints(function, localns={**public, **ALIASES})
    own = {each for hint in hints.values() for each in types_in(hint) if each.__module__.split(".")[0] == "stretto"}
    assert {each.__name__ for each in own if each not in public.values()} == set()


@pytest.mark.parametrize("module", PUBLIC[:4])
def test_every_member_of_a_public_class_is_explained(module):
    unexplained = []
    for owner in filter(inspect.isclass, vars_of(module).values()):
        fields = inspect.get_annotations(owner)  # the docstring of their class explains these
        for name, member in vars(owner).items():
            is_ours = getattr(member, "__module__", owner.__module__).startswith("stretto")
            is_code = callable(member) or isinstance(member, (property, classmethod, staticmethod))
            own = is_code and is_ours and not name.startswith("_") and name not in fields
            if own and not inspect.getdoc(getattr(owner, name)):
                unexplained.append(f"{owner.__name__}.{name}")
    assert unexplained == []


STANDARD = {
    *("Any", "None", "True", "False", "Self", "Literal", "Annotated", "Unpack", "Exception", "OSError", "Event"),
    *("Callable", "Mapping", "Sequence", "Iterable", "Iterator", "AsyncIterator", "Awaitable", "Generator"),
    *("AsyncGenerator", "AbstractContextManager", "AbstractAsyncContextManager", "Path", "TextIO", "Handler"),
    *("BaseModel", "BaseChatModel", "SecretStr", "NDArray", "Starlette", "Tensor", "AfterValidator", "Field"),
}
MAY_NAME_THE_ENGINE = DRAFTING | ENGINE | {"Listener"}


def test_the_reference_names_public_types_only():
    page = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    public = set(re.findall(r"^### `(\w+)`$", page, re.MULTILINE))
    private = set()
    for heading, section in re.findall(r"^### `(\w+)`$(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL):
        types = re.findall(r"<code>(.*?)</code>", section) + re.findall(r"^\*\*`(.*)`\*\*$", section, re.MULTILINE)
        named = {
            name for each in types for name in re.findall(r"\b[A-Z]\w*[a-z]\w*", re.sub(r"\(#.*?\)|'.*?'", "", each))
        }
        private |= {(heading, name) for name in named - public - STANDARD if heading not in MAY_NAME_THE_ENGINE}
    assert private == set()


def test_every_other_package_says_that_it_is_private():
    packages = {".".join(file.relative_to(ROOT).parent.parts): file for file in (ROOT / "stretto").rglob("__init__.py")}
    open_ones = {*PUBLIC, "stretto.integrations"}
    private = {name: ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) for name, file in packages.items()}
    assert {
        name for name, said in private.items() if ("Private: not part of the public API" in said) == (name in open_ones)
    } == set()
