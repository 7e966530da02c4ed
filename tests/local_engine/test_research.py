"""Research lies apart: nothing imports it, and any folder of it can be deleted."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import stretto
from stretto.local import LocalBackend
from stretto.values.errors import SettingsError

PACKAGE = Path(stretto.__file__).parent
ROOFS = (Path("local_engine", "research"), Path("strategies", "research"))
FOLDERS = [
    folder.relative_to(PACKAGE).as_posix()
    for roof in ROOFS
    for folder in sorted((PACKAGE / roof).iterdir())
    if (folder / "__init__.py").is_file()
]
IN_AUTO = ("aggressive", "heads")
"""Folders of methods that `auto` chooses. They go with their names in the catalogue."""
ANSWER = """
import importlib, json, pkgutil, sys
import stretto
for package in (stretto.local_engine, stretto.strategies, stretto.backends, stretto.router):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if "compiled" not in module.name:
            importlib.import_module(module.name)
from stretto.local import LocalBackend
from stretto.local_engine.model.loading.source import find_source

backend = LocalBackend("local:pocket", compiled=False)
with stretto.Stretto(backend) as client:
    ways = {name: {"decoding": name} for name in backend.capabilities.decodings}
    said = {name: client.ask("How do I look after a bicycle?", strategy="direct", max_tokens=8, **way).text
            for name, way in ways.items()}
find_source("local:pocket-diffusion").block_form()
print(json.dumps([said, sorted(stretto.strategies.STRATEGIES), stretto.__file__]))
"""


@cache
def answered(package):
    """What each method of the pocket model writes and which strategies there are, with the package of this folder."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "STRETTO_STRATEGY": ""}
    command = [
        sys.executable,
        "-P",
        "-c",
        "import stretto.local_engine, stretto.strategies, stretto.backends\n" + ANSWER,
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, strategies, where = json.loads(done.stdout.splitlines()[-1])
    assert where == str(package / "__init__.py")
    return said, strategies


def folder_of(module):
    return next((folder for folder in FOLDERS if module.is_relative_to(folder)), None)


def test_nothing_names_a_module_of_a_folder_but_the_folder_itself():
    """Neither at run time nor for type checkers nor in a text."""
    names = {folder: f"stretto.{folder.replace('/', '.')}" for folder in FOLDERS}
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        module, text = file.relative_to(PACKAGE), file.read_text(encoding="utf-8")
        wrong += [(str(module), name) for folder, name in names.items() if name in text and folder_of(module) != folder]
    assert wrong == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"decoding": "token_recycling"},
            r"decoding='token_recycling' cannot be used\. Use one of: .*\bsuffix\b",
        ),
        ({"decoding": "big_little"}, r"decoding='big_little' cannot be used\. Use one of: .*\bsuffix\b"),
        (
            {"method_options": {"big_little": {"sure": 0.5}}},
            "has 'big_little', which is no decoding method. Use one of",
        ),
        ({"long_context": "star"}, "long_context='star' cannot be used. Use one of: 'auto', 'focus', 'refuse'"),
    ],
)
def test_what_is_gone_is_refused_with_what_there_is(options, told):
    with pytest.raises(SettingsError, match=told):
        LocalBackend("local:pocket", **options)


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "folders",
    [FOLDERS, [*(f"local_engine/drafting/{name}" for name in IN_AUTO), "local_engine/research/rare_heads"]],
    ids=["research", "what auto chooses"],
)
def test_without_folders_all_else_is_imported_and_the_pocket_model_answers(folders, tmp_path):
    """All at once: none of them names another, as the first test shows."""
    package = shutil.copytree(PACKAGE, tmp_path / "stretto", ignore=shutil.ignore_patterns("__pycache__"))
    gone = {"forking"} if "strategies/research/forking" in folders else set()
    for folder in folders:
        shutil.rmtree(package / folder)
        if "local_engine" in folder:
            removed = import_module(f"stretto.{folder.replace('/', '.')}")
            gone |= {*(getattr(removed, "METHODS", None) or removed.OFFERS.methods)}
    if folders is not FOLDERS:
        catalogue = package / "local_engine" / "drafting" / "catalogue.py"
        text = catalogue.read_text(encoding="utf-8")
        assert '("aggressive", "heads")' in text
        catalogue.write_text(text.replace('("aggressive", "heads")', "()"), encoding="utf-8")
    (said, strategies), (whole, all_strategies) = answered(package), answered(PACKAGE)
    assert said == {name: text for name, text in whole.items() if name not in gone}
    assert strategies == [name for name in all_strategies if name not in gone]
