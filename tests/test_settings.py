import os
import re
from pathlib import Path

import pytest

import stretto
from stretto import AsyncStretto, Settings, Stretto
from stretto.testing import ScriptedBackend
from stretto.testing.server import ScriptedServer
from stretto.values.errors import SettingsError


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


def test_arguments_come_before_the_environment_and_that_before_the_file(monkeypatch, tmp_path):
    (tmp_path / "settings.toml").write_text('model = "openai:file"\nattempts = 7\npreference = "careful"\n')
    monkeypatch.setenv("STRETTO_MODEL", "openai:environment")
    monkeypatch.setenv("STRETTO_PREFERENCE", "fastest")
    settings = Settings.load(model="openai:argument")
    assert (settings.model, settings.preference, settings.attempts) == ("openai:argument", "fastest", 7)


def test_a_wrong_value_is_named_with_where_it_comes_from(monkeypatch, tmp_path):
    with pytest.raises(SettingsError, match=r"^The setting attempts='few' cannot be used: [^.]*\.$"):
        Settings.load(attempts="few")
    (tmp_path / "settings.toml").write_text('attempts = "some"\n')
    with pytest.raises(
        SettingsError, match=r"^The setting attempts='some' .* The value comes from .*settings\.toml\.$"
    ):
        Settings.load()
    monkeypatch.setenv("STRETTO_ATTEMPTS", "many")
    with pytest.raises(SettingsError, match=r"^STRETTO_ATTEMPTS='many' cannot be used: [^.]*\.$"):
        Settings.load()


def test_a_wrong_value_for_a_local_model_is_named_with_where_it_comes_from(monkeypatch, tmp_path):
    with pytest.raises(SettingsError, match=r"^dtype='float23' cannot be used"):
        Stretto("local:pocket", settings=Settings.load(dtype="float23"))
    (tmp_path / "settings.toml").write_text('dtype = "float23"\n')
    with pytest.raises(SettingsError, match=r"^dtype='float23' .* The value comes from .*settings\.toml\.$"):
        Stretto("local:pocket")
    (tmp_path / "settings.toml").write_text("")
    for variable in ("STRETTO_DTYPE", "STRETTO_DECODING", "STRETTO_LONG_CONTEXT"):
        with monkeypatch.context() as exported:
            exported.setenv(variable, "wrong")
            with pytest.raises(SettingsError, match=f"^{variable}='wrong' cannot be used"):
                Stretto("local:pocket")


def test_a_wrong_address_is_named_with_where_it_comes_from(monkeypatch):
    with pytest.raises(SettingsError, match=r"^base_url must begin with http"):
        Stretto("openai:m", base_url="nowhere", api_key="k")
    monkeypatch.setenv("STRETTO_BASE_URL", "nowhere at all")
    with pytest.raises(SettingsError, match=r"^base_url must begin with http"):
        Stretto("openai:m", base_url="nowhere", api_key="k")
    with pytest.raises(SettingsError, match=r"^STRETTO_BASE_URL must begin with http"):
        Stretto("openai:m", api_key="k")


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("STRETTO_MODEL", "")
    monkeypatch.setenv("STRETTO_THREADS", " ")
    settings = Settings.load()
    assert (settings.model, settings.threads) == (None, None)


def test_a_misspelt_variable_is_told_once_and_those_of_others_are_not(monkeypatch, caplog):
    of_others = ("WORK_KEY", "MODEL_KEY", "SHARED_KEY", "API_TOKEN", "NAME", "VERSION", "IMAGE", "PORT", "SERVICE_HOST")
    for name in ("DTPYE", "ATEMPTS", *of_others, "PORT_8000_TCP_ADDR", "ENV_PATH"):
        monkeypatch.setenv(f"STRETTO_{name}", "of-the-user")
    Settings.load()
    Settings.load()
    assert [record.getMessage() for record in caplog.records] == [
        "The environment variable STRETTO_ATEMPTS has no effect. Did you mean STRETTO_ATTEMPTS?",
        "The environment variable STRETTO_DTPYE has no effect. Did you mean STRETTO_DTYPE?",
    ]


def test_no_variable_that_the_package_reads_is_called_unknown(monkeypatch, caplog):
    sources = Path(stretto.__file__).parent.rglob("*.py")
    read = {name for path in sources for name in re.findall(r'"(STRETTO_[A-Z_]+)"', path.read_text(encoding="utf-8"))}
    assert {"STRETTO_COMPILED", "STRETTO_LOGS", "STRETTO_SERVER_KEY"} <= read
    for name in read - {"STRETTO_SETTINGS"}:
        monkeypatch.setenv(name, "1")
    Settings.load()
    assert not caplog.records


def test_the_key_of_a_compatible_server_is_kept_out_of_sight(monkeypatch):
    monkeypatch.setenv("STRETTO_API_KEY", "sk-secret-secret")
    assert "secret-secret" not in repr(Settings.load())


def test_an_unknown_name_in_the_file_and_a_broken_file_are_errors(tmp_path):
    (tmp_path / "settings.toml").write_text("modle = 'x'\n")
    with pytest.raises(SettingsError, match="modle"):
        Settings.load()
    (tmp_path / "settings.toml").write_text("model = ")
    with pytest.raises(SettingsError, match=r"settings\.toml cannot be read"):
        Settings.load()


def test_an_unknown_setting_is_told_with_the_nearest_one(tmp_path):
    (tmp_path / "settings.toml").write_text("modle = 'x'\n")
    with pytest.raises(
        SettingsError, match=r"There is no setting modle.*Did you mean model\? It is in .*settings\.toml"
    ):
        Settings.load()
    (tmp_path / "settings.toml").write_text("")
    with pytest.raises(SettingsError, match=r"^There is no setting atempts, given as 3\. Did you mean attempts\?$"):
        Settings.load(atempts=3)


def test_more_threads_than_a_process_can_have_are_refused(monkeypatch):
    monkeypatch.setenv("STRETTO_THREADS", "99999")
    with pytest.raises(SettingsError, match=r"^STRETTO_THREADS='99999' cannot be used: input should be less than"):
        Settings.load()


@pytest.mark.anyio
async def test_settings_apply_to_every_request(monkeypatch):
    monkeypatch.setenv("STRETTO_DEADLINE_S", "30")
    monkeypatch.setenv("STRETTO_PREFERENCE", "careful")
    async with AsyncStretto(ScriptedBackend({"": "Yes."})) as stretto:
        request = stretto._request("Why?", {})
        assert (request.deadline_s, request.preference) == (30, "careful")
        assert stretto._request("Why?", {"preference": "fastest"}).preference == "fastest"


@pytest.mark.anyio
async def test_a_server_in_the_settings_is_asked_also_where_a_key_chooses_the_model(monkeypatch):
    async with ScriptedServer("From the server.", key="sk-of-the-server-0123456789") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-for-somebody-else-0123456789")
        monkeypatch.setenv("STRETTO_BASE_URL", server.openai_url)
        monkeypatch.setenv("STRETTO_API_KEY", "sk-of-the-server-0123456789")
        async with AsyncStretto() as stretto:
            assert (await stretto.ask("Why?", strategy="direct")).text == "From the server."


@pytest.mark.anyio
async def test_a_server_in_the_settings_that_no_model_is_named_for_is_mentioned(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("STRETTO_BASE_URL", "http://127.0.0.1:9/v1")
    async with AsyncStretto() as stretto:
        assert "base_url is not used: name a model of that server, openai:NAME" in stretto.model_reason


def test_a_settings_file_that_is_named_and_not_there_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "missing.toml"))
    with pytest.raises(SettingsError, match=r"STRETTO_SETTINGS names .*missing.toml, which is not a file"):
        Stretto("openai:m", api_key="k")
    monkeypatch.setenv("STRETTO_SETTINGS", os.devnull)  # the usual way to have none
    assert Settings.load().model is None
