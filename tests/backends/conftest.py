import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def clean_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
