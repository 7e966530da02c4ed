"""The package that the page on extending describes: built from the page, installed on the path, used by its names."""

import re
import sys
import tomllib
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute

from stretto import AsyncStretto, Settings, UnknownModelError
from stretto.backends.registry import open_backend
from stretto.cli.commands.examination import look_at_backends, variables
from stretto.cli.options import complete_model
from stretto.foundation import plugins
from stretto.local_engine.drafting.catalogue import all_drafters
from stretto.strategies import plugin_strategies

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"

pytestmark = pytest.mark.anyio


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package as pip installs it: its modules, and beside them its metadata."""
    (described,) = blocks("toml")
    project = tomllib.loads(described)["project"]
    modules = [block for block in blocks("python") if block.startswith("# stretto_demo/")]
    for module in modules:
        file = tmp_path / module.partition("\n")[0].removeprefix("# ")
        file.parent.mkdir(exist_ok=True)
        file.write_text(module)
    (tmp_path / "stretto_demo" / "__init__.py").touch()
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [[f"[{group}]", *(f"{name} = {place}" for name, place in points.items())] for group, points in groups]
    (about / "entry_points.txt").write_text("\n".join(line for group in lines for line in group) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield
    _forget()


def _forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "stretto_demo"]:
        del sys.modules[name]
    plugins._found.cache_clear()
    plugin_strategies.cache_clear()
    all_drafters.cache_clear()


@pytest.mark.thorough
async def test_each_of_the_three_is_found_by_its_name(package):
    assert [plugins.names(kind) for kind in ("backends", "strategies", "drafters")] == [
        ("acme",),
        ("both_sides",),
        ("followers",),
    ]
    names = {}
    for snippet in blocks("python"):
        if not snippet.startswith("# stretto_demo/"):
            exec(compile("from stretto_demo.acme import *\n" + snippet, str(PAGE), "exec"), names)  # noqa: S102 - our own page
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, names["answer"])
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - anyio's, not Django's
        found = await anyio.to_thread.run_sync(names["ask_by_name"], f"http://127.0.0.1:{port}")
        tasks.cancel_scope.cancel()
    assert found == ["one two three", "both_sides", "followers"]


@pytest.mark.thorough
def test_its_provider_is_named_beside_those_of_the_library(package):
    verdicts = {each.backend: each for each in look_at_backends({}, None)}
    assert verdicts["acme"].why == "ACME_API_KEY is not set. Set it"
    assert {"ACME_API_KEY", "ACME_BASE_URL"} <= set(variables())
    assert next(each for each in look_at_backends({"ACME_API_KEY": "k"}, None) if each.backend == "acme").works
    assert complete_model("ac") == ["acme:"]
    with pytest.raises(UnknownModelError, match="acme:MODEL"):
        open_backend("nothing:x")


def test_one_that_cannot_be_loaded_is_a_cross_and_disturbs_nothing_else(package, tmp_path):
    (tmp_path / "stretto_demo" / "acme.py").write_text("raise RuntimeError('no luck')")
    verdicts = {each.backend: each for each in look_at_backends({"OPENAI_API_KEY": "k"}, None)}
    assert not verdicts["acme"].works
    assert "'acme' of stretto-demo cannot be loaded: RuntimeError: no luck" in verdicts["acme"].why
    assert verdicts["openai"].works


async def test_the_drafter_changes_no_answer(package):
    async with AsyncStretto("local:pocket", settings=Settings()) as stretto:
        asked = {"strategy": "direct", "max_tokens": 60, "temperature": 0}
        guessed = await stretto.ask("What is tea?", decoding="followers", **asked)
        plain = await stretto.ask("What is tea?", decoding="autoregressive", **asked)
    assert guessed.text == plain.text
    assert guessed.decoding.steps < plain.decoding.steps


def test_each_of_the_three_takes_thirty_lines():
    classes = [re.search(r"^class .*", block, re.DOTALL | re.MULTILINE) for block in blocks("python")]
    written = [
        found[0] for block, found in zip(blocks("python"), classes, strict=True) if block.startswith("# stretto_")
    ]
    assert [len([line for line in each.splitlines() if line.strip()]) <= 30 for each in written] == [True] * 3
