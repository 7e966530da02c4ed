"""What other packages add by entry points: real ones, in a distribution on the path."""

import pytest

from stretto import AsyncStretto, Settings, SettingsError, UnknownModelError
from stretto.backends.registry import open_backend
from stretto.cli.commands.examination import look_at_backends
from stretto.foundation import plugins
from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment, all_drafters
from stretto.strategies import plugin_strategies
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

MODULE = """
from stretto.extending import Offer
from stretto.testing import ScriptedBackend
from stretto.local_engine.drafting.prompt_lookup import PromptLookup


def echo(model, *, base_url=None, api_key=None):
    return ScriptedBackend({"": f"{model} at {base_url}"}, name=f"echo:{model}")


class Shouting:
    name = "shouting"

    def offer(self, case):
        return Offer(confidence=0.1, priority=-1, reason="It shouts.", forecast=case.direct_forecast)

    async def run(self, request, route, runner):
        runner.merge.add(request.question.upper())
        await runner.merge.finish()


def longer(equipment):
    return PromptLookup()
"""
POINTS = """
[stretto.backends]
echo = added_by_a_package:echo
ollama = added_by_a_package:echo
broken = added_by_a_package:nothing_like_it
[stretto.strategies]
shouting = added_by_a_package:Shouting
direct = added_by_a_package:Shouting
broken = no_such_module_at_all:It
[stretto.drafters]
longer = added_by_a_package:longer
suffix = added_by_a_package:longer
"""


@pytest.fixture(autouse=True)
def package(tmp_path, monkeypatch):
    """A package that is installed for the length of a test."""
    (tmp_path / "added_by_a_package.py").write_text(MODULE)
    about = tmp_path / "added_by_a_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: added-by-a-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    _forget()
    yield
    _forget()


def _forget():
    plugins._found.cache_clear()
    plugin_strategies.cache_clear()
    all_drafters.cache_clear()


async def test_a_backend_of_another_package_is_opened_by_its_name():
    async with AsyncStretto("echo:canyon", base_url="http://localhost:9/v1", settings=Settings()) as stretto:
        answer = await stretto.ask("Anybody?")
    assert answer.text == "canyon at http://localhost:9/v1"
    assert answer.route.backend == "echo:canyon"


async def test_a_strategy_of_another_package_is_used_when_it_is_named():
    async with AsyncStretto(ScriptedBackend({"": "Yes."})) as stretto:
        answer = await stretto.ask("Anybody?", strategy="shouting")
        usual = await stretto.ask("Anybody?")
    assert (answer.text, answer.strategy) == ("ANYBODY?", "shouting")
    assert usual.strategy == "direct"


@pytest.mark.thorough
async def test_a_drafter_of_another_package_decodes():
    assert all_drafters()["longer"](DraftEquipment())
    async with AsyncStretto("local:pocket", settings=Settings()) as stretto:
        answer = await stretto.ask("What is tea?", decoding="longer", max_tokens=8, strategy="direct")
        plain = await stretto.ask("What is tea?", decoding="autoregressive", max_tokens=8, strategy="direct")
    assert answer.text == plain.text
    assert answer.decoding.methods == ("longer",)


def test_a_backend_that_cannot_be_loaded_is_one_clear_error():
    with pytest.raises(SettingsError, match="'broken' of added-by-a-package cannot be loaded: AttributeError"):
        open_backend("broken:model")


def test_what_nobody_asks_for_disturbs_nobody(caplog):
    assert set(plugin_strategies()) == {"shouting"}
    assert "no_such_module_at_all" in caplog.text


def test_a_name_that_the_library_has_itself_is_not_replaced_and_the_log_says_so(caplog):
    assert "direct" not in plugin_strategies()
    assert all_drafters()["suffix"] is DRAFTERS["suffix"]
    for name, kind in (("direct", "strategies"), ("suffix", "drafters")):
        assert f"'{name}' of a package's stretto.{kind} is not used: the library has one of this name." in caplog.text


def test_doctor_says_which_provider_of_a_package_is_not_used():
    (found,) = [each for each in look_at_backends({}, None) if each.backend == "ollama"]
    assert (found.works, found.why) == (False, "of another package; not used: the library has one of this name")


def test_a_provider_that_nobody_offers_is_unknown():
    with pytest.raises(UnknownModelError):
        open_backend("nobody:model")


@pytest.mark.parametrize(
    ("name", "endpoint"),
    [
        ("ollama:llama3.2", "localhost:11434"),
        ("vllm:Qwen/Qwen3-8B", "localhost:8000"),
        ("sglang:some", "localhost:30000"),
        ("llamacpp:some", "localhost:8080"),
        ("lmstudio:some", "localhost:1234"),
    ],
)
def test_servers_on_this_machine_have_names_and_usual_ports(name, endpoint):
    backend = open_backend(name)
    assert (backend.name, backend.endpoint) == (name, endpoint)
    assert open_backend(name, base_url="http://gpu-box:9000/v1").endpoint == "gpu-box:9000"
