"""Where the weights of the demonstration models are found, and what is said where they are not."""

import sys
from pathlib import Path

import pytest

from stretto import MissingDependencyError, Stretto
from stretto.cli.commands.examination import look_at_backends
from stretto.local_engine import pocket
from stretto.local_engine.model.loading.source import find_source

ROOT = Path(__file__).parents[2]
SAID = (
    " needs its weights, the package stretto-pocket (32 MB), which is not installed. Run: pip install 'stretto[local]' "
    "stretto-pocket, or in a clone of Stretto: pip install ./pocket '.[local]'. "
    "Without it, name another model, or set the key of a provider, such as OPENAI_API_KEY."
)


@pytest.fixture
def no_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(pocket, "_CHECKOUT", tmp_path / "pocket")
    monkeypatch.setitem(sys.modules, "stretto_pocket", None)


@pytest.mark.parametrize("model", pocket.MODELS)
def test_a_checkout_takes_its_own_weights_whatever_is_installed(model):
    assert pocket.pocket_folder(model) == ROOT / "pocket" / "stretto_pocket" / pocket.MODELS[model]


@pytest.mark.parametrize("model", pocket.MODELS)
def test_without_the_package_one_sentence_says_what_to_install(no_checkout, model):
    with pytest.raises(MissingDependencyError) as raised:
        find_source(f"local:{model}")
    assert str(raised.value) == f"local:{model}{SAID}"


def test_where_no_model_is_named_it_is_the_same_sentence(no_checkout, monkeypatch):
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    with pytest.raises(MissingDependencyError, match=r"^local:pocket needs its weights"):
        Stretto()


def test_doctor_says_it_too(no_checkout):
    verdict = next(each for each in look_at_backends({}, None) if each.backend == "local:pocket")
    assert not verdict.works
    assert verdict.why == SAID.strip()


def test_the_installed_package_is_found(no_checkout, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, "stretto_pocket")
    folder = tmp_path / "site" / "stretto_pocket" / "model"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(MissingDependencyError):  # what an uninstallation left behind
        pocket.pocket_folder()
    (folder / "config.json").write_text("{}")
    assert pocket.pocket_folder() == folder
