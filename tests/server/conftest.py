import pytest
from live_server import in_front_of


@pytest.fixture
async def live():
    """A server in front of a scripted one that says Hello."""
    async with in_front_of("Hello there, you.") as found:
        yield found
