"""A caller's own rows of the table of models come before those of the package."""

import pytest

from stretto import AsyncStretto, Settings, SettingsError
from stretto.backends.known_models import bounded_output, capabilities_of, may_take_schema, own_rows, refused_by
from stretto.backends.registry import open_backend
from stretto.testing.server import ScriptedServer

OWN = """
[openai]
"gpt-4o" = { window = 9_000, output = 700, refuses = ["seed"] }
"house-" = { window = 32_000, output = 8_000, json_schema = false }

[vllm]
"qwen" = { window = 5_000, output = 500 }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_they_win_over_what_is_listed_and_leave_the_rest(file):
    own = own_rows(file)
    assert capabilities_of("openai", "gpt-4o-mini", own).context_window == 9_000
    assert capabilities_of("openai", "gpt-4o-mini").context_window == 128_000
    assert capabilities_of("openai", "gpt-5", own) == capabilities_of("openai", "gpt-5")
    assert bounded_output("openai", "gpt-4o", 2_000, own) == 700
    assert not may_take_schema("openai", "house-7", own)
    assert (refused_by("gpt-4o", own), refused_by("gpt-4o")) == ({"seed"}, set())


def test_they_hold_for_a_compatible_server_of_this_machine_too(file):
    own = own_rows(file)
    assert open_backend("vllm:qwen3", own_rows=own).capabilities.context_window == 5_000
    assert open_backend("vllm:other", own_rows=own).capabilities.context_window is None


@pytest.mark.anyio
async def test_a_client_takes_them_from_the_settings(file):
    async with (
        ScriptedServer("Oil the chain.") as server,
        AsyncStretto(
            "openai:house-7", base_url=server.openai_url, settings=Settings(known_models=file, attempts=1)
        ) as stretto,
    ):
        await stretto.ask("How do I look after a bicycle?", strategy="direct", max_tokens=20_000)
        request = server.requests[-1]
    assert max(request.body.get("max_tokens", 0), request.body.get("max_completion_tokens", 0)) == 8_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[openai]\n"gpt-4o" = { window = "wide", output = 1 }', r"openai\.gpt-4o\.window='wide'.*docs/backends.md"),
        ('[openai]\n"gpt-4o" = { window = 1 }', r"openai\.gpt-4o\.output"),
        ("[openai", "cannot be used"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_by_its_place(tmp_path, text, problem):
    (tmp_path / "models.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=problem):
        AsyncStretto("openai:gpt-4o", settings=Settings(known_models=tmp_path / "models.toml"), api_key="k")
