import subprocess
import sys

import pytest

import stretto

HEAVY = ("torch", "transformers", "openai", "anthropic", "langchain_core", "numpy")


def test_the_exported_names_are_the_documented_ones():
    assert sorted(stretto.__all__) == stretto.__all__
    assert all(getattr(stretto, name) for name in stretto.__all__)  # they are imported when they are asked for
    public = {
        name for name, value in vars(stretto).items() if not name.startswith("_") and not hasattr(value, "__path__")
    }
    modules = {name for name in public if type(getattr(stretto, name)).__name__ == "module"}
    assert public - modules == set(stretto.__all__)


def test_everything_public_has_a_docstring():
    undocumented = [name for name in stretto.__all__ if name != "Event" and not getattr(stretto, name).__doc__]
    assert undocumented == []


def test_a_name_that_does_not_exist_is_an_error_as_usual():
    with pytest.raises(AttributeError, match="module 'stretto' has no attribute 'Streto'"):
        _ = stretto.Streto
    assert set(stretto.__all__) < set(dir(stretto))
    assert stretto.errors.StrettoError is stretto.StrettoError


def test_importing_and_making_a_client_load_nothing_heavy():
    program = (
        "import sys, stretto; from stretto.testing import ScriptedBackend;"
        "stretto.AsyncStretto(ScriptedBackend({'': 'x'}));"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_route_loads_no_model_and_opens_no_connection():
    code = f"""
import sys
import anyio
from stretto import AsyncStretto

seen = []
sys.addaudithook(lambda event, arguments: seen.append(arguments) if event == "socket.connect" else None)

async def route():
    for model in ("local:pocket", "openai:gpt-5.4-mini", "anthropic:claude-haiku-4-5"):
        async with AsyncStretto(model) as stretto:
            print((await stretto.route("How do I look after a bicycle?")).strategy)

anyio.run(route)
print(seen, [name for name in {HEAVY[:-1]} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["skeleton"] * 3 + ["[] []", ""]
