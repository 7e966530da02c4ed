import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy machine is not a failure
settings.load_profile("any machine")


@pytest.fixture
def anyio_backend():
    return "asyncio"
