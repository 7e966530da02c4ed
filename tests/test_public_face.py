import importlib.util
import inspect
import pydoc
import subprocess
import sys

import pytest

import stretto
from stretto import ClientOptions, GenerationOptions, RequestOptions
from stretto.values import errors

HEAVY = ("torch", "transformers", "openai", "anthropic", "langchain_core", "numpy")


def test_the_exported_names_are_the_documented_ones():
    assert sorted(stretto.__all__) == stretto.__all__
    assert all(getattr(stretto, name) for name in stretto.__all__)  # they are imported when they are asked for
    public = {name for name in dir(stretto) if not name.startswith("_")}
    modules = {name for name in public if type(getattr(stretto, name)).__name__ == "module"}
    assert public - modules == set(stretto.__all__)


def test_every_error_is_exported():
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and not name.startswith("_")}
    assert defined - {"Any", "Mapping"} <= set(stretto.__all__)


def test_a_name_that_is_not_exported_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        stretto.Nonsense  # noqa: B018 - the look-up is the test


def test_everything_public_has_a_docstring():
    aliases = {"CutBy", "Event", "FinishReason", "ModelLike", "PromptLike", "RouteCode", "WarningCode"}
    undocumented = [name for name in stretto.__all__ if name not in aliases and not getattr(stretto, name).__doc__]
    assert undocumented == []


@pytest.mark.parametrize("words", ["yield", "aclosing", "cancellation", "BackendError", "aclose", ">>> class"])
def test_the_contract_of_a_backend_says_what_an_author_must_know(words):
    assert words.lower() in stretto.extending.Backend.__doc__.lower()


def test_the_options_are_those_of_the_request_and_its_generation():
    own = {"system", "chat_template_kwargs"}  # become a message, and a part of ``extra``
    fields = set(GenerationOptions.model_fields) | set(stretto.Request.model_fields) | own
    beside = {"messages", "options", "functions", "own_strategy", "unread"}
    assert set(RequestOptions.__annotations__) == fields - beside


@pytest.mark.parametrize("options", [RequestOptions, ClientOptions])
def test_every_option_is_explained(options):
    said = inspect.getdoc(options)  # without the indentation, which Python 3.13 takes out of every docstring
    assert [name for name in options.__annotations__ if f"\n    {name}: " not in said] == []


@pytest.mark.parametrize("client", [stretto.Stretto, stretto.AsyncStretto])
def test_help_shows_every_argument(client):
    for method in (client.ask, client.stream, client.route):
        assert set(RequestOptions.__annotations__) <= set(inspect.signature(method).parameters)
        assert "temperature: 'float | None' = None" in pydoc.plain(pydoc.render_doc(method))
    assert set(ClientOptions.__annotations__) <= set(inspect.signature(client).parameters)


@pytest.mark.thorough
def test_importing_and_making_a_client_load_nothing_heavy_and_what_extensions_need_is_loaded_when_asked():
    program = (
        "import sys, stretto; from stretto.testing import ScriptedBackend;"
        "stretto.AsyncStretto(ScriptedBackend({'': 'x'}));"
        f"print([name for name in {HEAVY} if name in sys.modules]);"
        "print('stretto.backends.local.backend' in sys.modules, 'stretto.router' in sys.modules);"
        "from stretto.local import LocalBackend; stretto.Router; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "False False", "False"]


def test_a_name_that_does_not_exist_is_an_error_as_usual():
    with pytest.raises(AttributeError, match="module 'stretto' has no attribute 'Streto'"):
        _ = stretto.Streto
    assert set(stretto.__all__) < set(dir(stretto))
    assert stretto.values.errors.StrettoError is stretto.StrettoError


@pytest.mark.thorough
def test_a_route_loads_no_model_opens_no_connection_and_reads_list_prices_where_there_are_any():
    code = f"""
import sys
import anyio
from stretto import AsyncStretto

seen = []
sys.addaudithook(lambda event, arguments: seen.append(arguments) if event == "socket.connect" else None)

async def route():
    for model in ("local:pocket", "openai:gpt-5.4-mini", "anthropic:claude-haiku-4-5"):
        async with AsyncStretto(model) as stretto:
            chosen = await stretto.route("How do I look after a bicycle?")
            print(chosen.strategy, "genai_prices" in sys.modules)

anyio.run(route)
print(seen, [name for name in {HEAVY[:-1]} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    priced = f"direct {importlib.util.find_spec('genai_prices') is not None}"
    assert done.stdout.split("\n") == ["skeleton False", priced, priced, "[] []", ""]
