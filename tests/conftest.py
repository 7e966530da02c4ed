import os
import sys

import pytest
from hypothesis import settings

os.environ.setdefault("STRETTO_COMPILED", "1")  # what a test sees does not depend on how far a compiler is

settings.register_profile("any machine", deadline=None)  # a busy machine is not a failure
settings.load_profile("any machine")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_known_of_servers():
    """A server on a port that another test's server had is not taken for that one."""
    yield
    if (module := sys.modules.get("stretto.backends.providers.learned")) is not None:
        module.forget()
