"""How a local model is run: the arguments of its backend, the settings, the command line."""

import pytest
import torch
from saved_models import collect, text_of

from stretto import AsyncStretto, Settings
from stretto.backends.local.backend import LocalBackend
from stretto.values.errors import SettingsError, UnknownModelError

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))
    for name in ("STRETTO_DTYPE", "STRETTO_DEVICE", "STRETTO_DECODING", "STRETTO_THREADS", "STRETTO_COMPILED"):
        monkeypatch.delenv(name, raising=False)


async def loaded(backend):
    text = text_of(await collect(backend, max_tokens=10))
    return backend._loader.engine, text


@pytest.mark.thorough
async def test_a_model_that_is_not_compiled_gives_the_same_answer(folder):
    compiled, plain = (LocalBackend(f"local:{folder}", dtype="float32", compiled=each) for each in (True, False))
    (fast, first), (slow, second) = await loaded(compiled), await loaded(plain)
    assert fast.model.forward.is_packed
    assert not slow.model.forward.is_packed
    assert first == second
    await compiled.aclose()
    await plain.aclose()


async def test_the_environment_turns_compiled_code_off(folder, monkeypatch):
    monkeypatch.setenv("STRETTO_COMPILED", "0")
    backend = LocalBackend(f"local:{folder}", dtype="float32")
    engine, _ = await loaded(backend)
    assert not engine.model.forward.is_packed
    assert engine.model.compiled is False
    await backend.aclose()


async def test_settings_reach_the_local_model_of_a_client(folder, monkeypatch):
    given = {"dtype": "float64", "device": "cpu", "decoding": "suffix", "threads": "1", "compiled": "no"}
    for name, value in given.items():
        monkeypatch.setenv(f"STRETTO_{name.upper()}", value)
    async with AsyncStretto(f"local:{folder}") as client:
        answer = await client.ask("Why?", strategy="direct", max_tokens=5)
        engine = client.backends["main"]._loader.engine
        assert answer.decoding.methods == ("suffix",)
        assert str(engine.model.dtype) == "torch.float64"
        assert not engine.model.forward.is_packed
        assert engine._serving._threads == 1


async def test_a_device_that_torch_does_not_run_on_is_one_error(folder):
    backend = LocalBackend(f"local:{folder}", device="mps" if not torch.backends.mps.is_available() else "xpu")
    with pytest.raises(SettingsError, match=r"cannot be used: .+ Use another device, such as cpu"):
        await collect(backend)
    await backend.aclose()


def test_settings_of_local_models_leave_other_models_alone(monkeypatch):
    monkeypatch.setenv("STRETTO_DEVICE", "cuda")
    assert (
        AsyncStretto("openai:any", api_key="none", base_url="http://127.0.0.1:9").backends["main"].name == "openai:any"
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("threads", "0", "STRETTO_THREADS='0' cannot be used"),
        ("threads", "many", "STRETTO_THREADS='many' cannot be used"),
        ("compiled", "perhaps", "STRETTO_COMPILED='perhaps' cannot be used"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_error_that_names_it(name, value, says, monkeypatch):
    monkeypatch.setenv(f"STRETTO_{name.upper()}", value)
    with pytest.raises(SettingsError, match=says):
        Settings.load()


def test_arguments_that_cannot_be_used_are_refused_before_anything_is_loaded(folder, monkeypatch):
    with pytest.raises(SettingsError, match="threads=0 cannot be used: at least 1"):
        LocalBackend(f"local:{folder}", threads=0)
    with pytest.raises(SettingsError, match="threads=99999 cannot be used: 1,024 are the most"):
        LocalBackend(f"local:{folder}", threads=99_999)
    wrong = {"threads": 2.5, "dtype": "float13", "device": 5, "prefix_cache_bytes": -1, "trust_remote_code": "no"}
    for name, value in wrong.items():
        with pytest.raises(SettingsError, match=f"{name}={value!r} cannot be used"):
            LocalBackend(f"local:{folder}", **{name: value})
    with pytest.raises(SettingsError, match="draft_corpus names '/nowhere', which is not there"):
        LocalBackend(f"local:{folder}", draft_corpus=["/nowhere"])
    with pytest.raises(UnknownModelError, match="named by a string, not by a value of type int"):
        LocalBackend(5)
    monkeypatch.setenv("STRETTO_COMPILED", "perhaps")
    with pytest.raises(SettingsError, match="STRETTO_COMPILED='perhaps' cannot be used"):
        LocalBackend(f"local:{folder}")
