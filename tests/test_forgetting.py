"""`AsyncStretto.forget`: what was learned of a client's models is gone wherever it was kept; of others it stays."""

from datetime import date

import pytest

from stretto import AsyncStretto, Stretto
from stretto.abilities import Abilities, keep
from stretto.abilities.kept import all_abilities, file_of, prompts_version
from stretto.backends.base import Capabilities
from stretto.router.history import ENOUGH, history_of
from stretto.strategies.cascade.learned import Estimate, Learned, Step, all_learned, keep_learned
from stretto.testing import ScriptedBackend
from stretto.testing.server import ScriptedServer

pytestmark = pytest.mark.anyio

ASKED = "What are the main benefits of regular exercise?"
TODAY = date(2026, 11, 24)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


def backend_of(name="own:main"):
    backend = ScriptedBackend({"": "It keeps heart and mind well."}, name=name)
    backend.capabilities = Capabilities(context_window=8000, concurrent_calls=8)
    return backend


def check(model):
    return keep(Abilities(model=model, checked=TODAY, prompts=prompts_version()))


def calibrate(small, main):
    half = Estimate(value=0.5, low=0.4, high=0.6)
    figures = {"questions": 50, "goal": 0.95, "agreement": half, "share": half}
    step = Step(model=small, by="probability", threshold=-0.3)
    keep_learned(Learned(steps=(step,), main=main, learned=TODAY, **figures))


async def test_routes_are_those_of_a_model_that_was_never_asked():
    async with AsyncStretto(backend_of()) as stretto:
        fresh = await stretto.route(ASKED)
        for _ in range(ENOUGH):
            await stretto.ask(ASKED, strategy="direct")
        assert (await stretto.route(ASKED)).forecast != fresh.forecast
        await stretto.forget()
        assert (await stretto.route(ASKED)).forecast == fresh.forecast


def test_the_synchronous_client_forgets_all_its_models_and_no_other():
    small, main, spare, other = (backend_of(f"own:{name}") for name in ("small", "main", "spare", "other"))
    for backend in (small, main, spare, other):
        for _ in range(ENOUGH):
            history_of(backend).note_length("points", 50)
    with Stretto(main, roles={"small": small}, fallback=[spare]) as stretto:
        stretto.forget()
    known = [history_of(backend).usual_tokens("points") for backend in (small, main, spare, other)]
    assert known == [None, None, None, 50]


async def test_checks_and_calibrations_of_the_model_are_removed_damaged_files_too():
    for model in ("own:main", "own:other"):
        check(model)
    calibrate("own:small", "own:main")
    calibrate("own:main", "own:large")
    calibrate("own:small", "own:large")
    async with AsyncStretto(backend_of()) as stretto:
        await stretto.forget()
        file_of("own:main").write_text("{")
        await stretto.forget()
    assert not file_of("own:main").exists()
    assert [found.model for _, found in all_abilities()] == ["own:other"]
    assert [(found.steps[0].model, found.main) for _, found in all_learned()] == [("own:small", "own:large")]


async def test_a_parameter_that_a_server_refused_is_sent_again():
    async with (
        ScriptedServer(rejects=("temperature",)) as server,
        AsyncStretto("openai:some-model", base_url=server.openai_url) as stretto,
    ):
        for forgets in (False, True, False):
            if forgets:
                await stretto.forget()
            for _ in range(2):
                await stretto.ask("Why?", strategy="direct", temperature=0.5)
    sent = ["temperature" in each.body for each in server.requests]
    assert sent == [True, False, False, True, False, False, False, False]
