"""The lines of the page on backends, as far as they can be tried without the services.

LangChain's packages for services are not among those that the tests need: the lines of those that are installed run.
"""

import importlib
import re
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stretto import Stretto
from stretto.backends.provider_table import PROVIDERS
from stretto.backends.registry import open_backend

PAGE = (Path(__file__).parents[2] / "docs" / "backends.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of the table below a heading, without its head."""
    table = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = re.findall(r"^\|(.*)\|$", table, re.MULTILINE)[2:]
    return [[cell.strip().strip("`") for cell in line.split(" | ")] for line in lines]


@pytest.mark.parametrize(("provider", "line"), rows("Providers"))
def test_the_line_of_a_provider_leads_to_its_address(provider, line):
    with eval(line, {"Stretto": Stretto, "key": "any"}) as stretto:  # noqa: S307 - our own page
        backend = stretto.backends["main"]
        assert backend.endpoint == urlsplit(re.search(r'base_url="([^"]*)"', line)[1]).hostname
        assert backend.name.startswith("openai:")


@pytest.mark.parametrize(("service", "package", "line"), rows("Through LangChain"))
def test_the_line_of_a_service_makes_a_model_of_langchain_that_is_a_backend(service, package, line, monkeypatch):
    if find_spec(package.replace("-", "_")) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    kind = line.partition("(")[0]
    model = eval(line, {kind: getattr(importlib.import_module(package.replace("-", "_")), kind)})  # noqa: S307 - our own page
    assert open_backend(model).name.startswith("langchain:")


def test_every_provider_of_the_library_is_in_the_table_that_the_page_leads_to():
    assert "](cli.md#the-model)" in PAGE
    listed = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z]+):NAME` \|", listed, re.MULTILINE)) == {*PROVIDERS}, "Run: make docs"
