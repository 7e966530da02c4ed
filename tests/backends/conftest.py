import pytest


@pytest.fixture
def clean_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A small model with random weights."""
    from saved_models import save  # noqa: PLC0415 - imports torch, which most tests of backends do without

    return save(tmp_path_factory.mktemp("model"))
