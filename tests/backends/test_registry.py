import subprocess
import sys

import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

from stretto.backends.base import Backend
from stretto.backends.registry import default_model, open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.testing import ScriptedBackend
from stretto.values.errors import SettingsError, UnknownModelError


@pytest.mark.thorough
def test_opening_a_registry_imports_no_sdk():
    code = (
        "import sys, stretto.backends.registry as r; r.open_backend('openai:gpt-5-mini'); "
        "r.open_backend('anthropic:claude-haiku-4-5'); "
        "heavy = {'openai', 'anthropic', 'langchain_core', 'httpx', 'httpx2', 'torch', 'transformers'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt-5-mini", "openai:gpt-5-mini"),
        ("claude-haiku-4-5", "anthropic:claude-haiku-4-5"),
        ("mistral:small", "openai:MODEL"),
        ("openai:", "openai:MODEL"),
        ("", "local:pocket"),
    ],
)
def test_an_unknown_model_is_named_with_what_would_be_known(name, hint):
    with pytest.raises(UnknownModelError) as caught:
        open_backend(name)
    assert repr(name) in str(caught.value)
    assert hint in str(caught.value)


def test_a_base_url_that_is_no_address_is_refused():
    with pytest.raises(SettingsError, match="http://"):
        open_backend("openai:llama", base_url="localhost:8000")


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"attempts": "x"}, {"concurrent_calls": 5000}, {"hedge_share": 2}, {"stall_s": -1}]
)
def test_a_policy_that_cannot_work_is_refused_by_name(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        Resilience(**wrong)


def test_a_local_model_takes_no_key():
    with pytest.raises(SettingsError, match=r"local:pocket.*openai:NAME"):
        open_backend("local:pocket", api_key="sk-something")


def test_the_default_model_follows_the_keys_and_says_why():
    assert default_model({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})[0].startswith("openai:")
    assert default_model({"ANTHROPIC_API_KEY": "k"})[0].startswith("anthropic:")
    name, why = default_model({"OPENAI_API_KEY": " "})
    assert name == "local:pocket"
    assert "OPENAI_API_KEY" in why


def test_capabilities_are_known_without_a_call():
    assert open_backend("openai:gpt-5-mini").capabilities.reasoning
    assert open_backend("openai:gpt-4.1-mini").capabilities.context_window == 1_047_576
    assert open_backend("anthropic:claude-haiku-4-5").capabilities.prompt_cache_minimum == 4_096
    unknown = open_backend("openai:some-llama", base_url="http://localhost:1/v1").capabilities
    assert (unknown.context_window, unknown.json_schema, unknown.reasoning) == (None, False, False)


def test_whatever_a_caller_holds_becomes_a_backend():
    own = ScriptedBackend({"": "Yes."})
    assert open_backend(own) is own
    assert isinstance(open_backend("openai:gpt-5-mini"), Backend)
    assert open_backend(FakeListChatModel(responses=["x"])).name == "langchain:FakeListChatModel"
    with pytest.raises(UnknownModelError, match="int"):
        open_backend(3)
