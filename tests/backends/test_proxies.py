"""Proxies that the environment names: where they lead, where they do not, and what is said where they fail."""

import base64
import logging
import sys

import pytest
from forwarding import forwarding

from stretto import AsyncStretto, Settings
from stretto.backends.providers.transport.proxies import proxy_to
from stretto.testing.server import ScriptedServer
from stretto.values.errors import ConnectionFailedError, MissingDependencyError, SettingsError

pytestmark = pytest.mark.anyio

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
DOWN = "http://anna:secret-word@127.0.0.1:9"
MODELS = ["openai:some-model", "anthropic:claude-haiku-4-5"]


@pytest.fixture(autouse=True)
def environ(monkeypatch):
    """Names no proxy; a test's own ones go through it."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return lambda **given: [monkeypatch.setenv(name, value) for name, value in given.items()]


async def ask(model, url):
    async with AsyncStretto(model, base_url=url, api_key="k", settings=Settings(attempts=1)) as stretto:
        return (await stretto.ask("Hello?", strategy="direct")).text


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "named",
    [
        {"HTTP_PROXY": DOWN},
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        {"ALL_PROXY": "socks5://127.0.0.1:9", "NO_PROXY": "127.0.0.1"},
        {"HTTP_PROXY": "nonsense://"},
    ],
)
async def test_no_proxy_is_used_to_this_machine(model, named, environ):
    environ(**named)
    async with ScriptedServer("Here.") as server:
        assert await ask(model, server.openai_url if model.startswith("openai") else server.url) == "Here."


@pytest.mark.parametrize("model", MODELS)
async def test_a_proxy_is_used_to_other_machines_with_its_password(model, environ):
    async with forwarding() as proxy:
        environ(HTTP_PROXY=f"anna:secret-word@127.0.0.1:{proxy.port}")
        assert await ask(model, "http://models.example/v1") == "By proxy."
    (call,) = [head for head in proxy.asked if head.startswith("POST")]
    assert call.startswith("POST http://models.example/v1/")
    assert base64.b64encode(b"anna:secret-word").decode() in call


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_is_down_is_named_without_its_password(model, scheme, environ):
    environ(**{f"{scheme.upper()}_PROXY": DOWN})
    with pytest.raises(ConnectionFailedError, match=r"through the proxy http://127\.0\.0\.1:9 ") as caught:
        await ask(model, f"{scheme}://models.example/v1")
    assert "secret-word" not in str(caught.value)
    assert not caught.value.transient


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_refuses_is_named(model, scheme, environ):
    async with forwarding(status="407 Proxy Authentication Required") as proxy:
        environ(**{f"{scheme.upper()}_PROXY": f"http://anna:secret-word@127.0.0.1:{proxy.port}"})
        with pytest.raises(ConnectionFailedError, match=rf"the proxy http://127\.0\.0\.1:{proxy.port}") as caught:
            await ask(model, f"{scheme}://models.example/v1")
    assert "407" in str(caught.value)
    assert "secret-word" not in str(caught.value)
    assert not caught.value.transient


@pytest.mark.parametrize("model", [*MODELS, "http://models.example/v1"])
async def test_what_a_proxy_needs_that_is_not_installed_is_named_and_nothing_is_logged(
    model, environ, monkeypatch, caplog
):
    monkeypatch.setitem(sys.modules, "socksio", None)
    environ(ALL_PROXY="socks5://anna:secret-word@127.0.0.1:9")
    url = None if model.startswith("http") else "http://models.example/v1"
    with caplog.at_level(logging.INFO), pytest.raises(MissingDependencyError, match="pip install socksio") as caught:
        async with AsyncStretto(model, base_url=url, api_key="k") as stretto:
            await stretto.ask("Hello?")
    assert caught.value.name == "socksio"
    assert "socks5://127.0.0.1:9, which ALL_PROXY names" in str(caught.value)
    assert "secret-word" not in str(caught.value)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("listed", "url", "through"),
    [
        ("", "http://models.example/v1", True),
        ("*", "http://models.example", False),
        ("models.example", "http://models.example", False),
        ("example", "http://models.example", False),
        (".example, other", "http://models.example", False),
        ("*.example", "http://models.example:8000", False),
        ("els.example", "http://models.example", True),
        ("models.example:8000", "http://models.example:8000/v1", False),
        ("models.example:8000", "http://models.example:8001/v1", True),
        ("models.example:80", "http://models.example/v1", False),
        ("MODELS.example", "http://Models.Example./v1", False),
        ("models.example.", "http://models.example", False),
        ("10.0.0.0/8", "http://10.1.2.3:8000", False),
        ("10.0.0.0/8", "http://11.1.2.3:8000", True),
        ("10.1.2.3", "http://10.1.2.3", False),
        ("fd00::/8", "http://[fd00::1]:8000", False),
        ("[fd00::1]", "http://[fd00::1]:8000", False),
        ("[fd00::1]:8001", "http://[fd00::1]:8000", True),
        ("", "http://localhost:8000", False),
        ("", "http://gpu.localhost:8000", False),
        ("", "http://127.8.9.1", False),
        ("", "http://[::1]:8000", False),
        ("", "http://[::ffff:127.0.0.1]:8000", False),
        ("", "http://0.0.0.0:8000", False),
        ("", "https://models.example", True),
    ],
)
def test_no_proxy_names_hosts_domains_networks_and_ports(listed, url, through, environ):
    environ(ALL_PROXY="http://proxy.example:3128", NO_PROXY=listed)
    assert (proxy_to(url) is not None) == through


def test_the_proxy_of_a_scheme_comes_before_the_one_for_all(environ):
    environ(ALL_PROXY="http://all.example", HTTPS_PROXY="http://secure.example:1")
    assert proxy_to("https://models.example").name == "http://secure.example:1"
    assert proxy_to("http://models.example").name == "http://all.example"


@pytest.mark.parametrize(
    ("named", "shown"),
    [("http://proxy.example:1\r\n", "http://proxy.example:1"), ("http://[::1]:1", "http://[::1]:1"), (" ", None)],
)
def test_a_proxy_is_shown_as_it_can_be_written(named, shown, environ):
    environ(HTTPS_PROXY=named)
    assert getattr(proxy_to("https://models.example"), "name", None) == shown


@pytest.mark.parametrize("named", ["nonsense://host", "http://", "socks4://host:1", "http://host:port"])
async def test_a_proxy_that_is_none_is_refused_by_its_variable_and_not_repeated(named, environ):
    environ(HTTPS_PROXY=named.replace("host", "anna:secret-word@host"))
    with pytest.raises(SettingsError, match="HTTPS_PROXY names no proxy") as caught:
        await ask("openai:some-model", "https://models.example/v1")
    assert "secret-word" not in str(caught.value)
