"""What callers hand in: misspelt and wrong arguments, roles, keys in the wrong place."""

from typing import get_args

import pytest
from typer.testing import CliRunner

from stretto import (
    AsyncStretto,
    Budget,
    Hooks,
    InvalidRequestError,
    Request,
    Settings,
    SettingsError,
    Stretto,
    StrettoError,
    UnknownModelError,
)
from stretto.cli.app import app
from stretto.client.client_options import ClientOptions
from stretto.foundation.arguments import looks_like_key
from stretto.testing import ScriptedBackend

SECRET = "sk-proj-SECRETabcdefghij0123456789"  # noqa: S105 - looks like a key, and is none


def backend(name="scripted:model"):
    return ScriptedBackend({"": "Yes."}, name=name)


# --- misspelt arguments


def test_a_misspelt_option_is_named_with_the_nearest_and_all_valid_ones():
    with Stretto(backend()) as stretto, pytest.raises(InvalidRequestError) as caught:
        stretto.ask("Why?", temprature=0.3)
    assert "temprature=" in str(caught.value)
    assert "Did you mean temperature=?" in str(caught.value)
    assert "deadline_s, decoding, documents" in str(caught.value)


@pytest.mark.parametrize(
    ("other", "says"), [("stream", r"the method stream\(\)"), ("timeout", "deadline_s="), ("model", "client")]
)
def test_an_argument_of_other_libraries_is_told_what_it_is_here(other, says):
    with Stretto(backend()) as stretto, pytest.raises(InvalidRequestError, match=says):
        stretto.ask("Why?", **{other: 1})


@pytest.mark.parametrize("name", ClientOptions.__annotations__)
def test_an_argument_of_a_client_in_a_request_is_told_where_it_belongs(name):
    belongs = rf"It belongs to the client: Stretto\(model, {name}=\.\.\.\)\."
    with Stretto(backend()) as stretto, pytest.raises(InvalidRequestError, match=belongs):
        stretto.ask("Why?", **{name: 1})


@pytest.mark.parametrize("client", [Stretto, AsyncStretto])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("max_tokens", "It belongs to a request: ask(..., max_tokens=...)."),
        ("concurrent_calls", "It is a setting: settings=Settings.load(concurrent_calls=...)."),
        ("apikey", "Did you mean api_key="),
        ("bse_url", "Did you mean base_url="),
        ("temperature", "roles="),
        ("small", "roles="),
    ],
)
def test_a_misspelt_argument_of_a_client_is_named_and_never_a_role(client, wrong, says):
    with pytest.raises(SettingsError, match=f"no argument {wrong}=") as caught:
        client(backend(), **{wrong: SECRET})
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)


def test_none_counts_as_left_out():
    with Stretto(backend(), fallback=None, roles={"small": None}, settings=Settings(deadline_s=60)) as stretto:
        stretto.ask("Why?", temperature=None, documents=None, deadline_s=None, strategy=None, system=None)
        assert list(stretto.backends) == ["main"]


def test_a_setting_holds_where_the_request_says_none():
    with Stretto(backend(), settings=Settings(preference="careful")) as stretto:
        assert stretto._stretto._request("Why?", {"preference": None}).preference == "careful"


# --- roles


def test_models_go_by_role():
    client = AsyncStretto(backend(), roles={"small": backend("own:small"), "judge": backend("own:judge")})
    assert {role: each.name for role, each in client.backends.items()} == {
        "main": "scripted:model",
        "small": "own:small",
        "judge": "own:judge",
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"roles": {"main": "openai:a"}}, "first argument"),
        ({"roles": ["openai:a"]}, "models by role"),
        ({"hooks": {"on_call": print}}, "takes Hooks"),
    ],
)
def test_arguments_that_cannot_work_are_explained(arguments, says):
    with pytest.raises(SettingsError, match=says):
        AsyncStretto(backend(), **arguments)


@pytest.mark.parametrize(("role", "given"), [("small", "gpt-5-mini"), ("local", 7), ("judge", "x:y")])
def test_an_error_about_a_model_names_its_role(role, given):
    with pytest.raises(UnknownModelError) as caught:
        AsyncStretto(backend(), roles={role: given})
    assert f"roles['{role}']=" in str(caught.value)


def test_a_client_shows_its_models():
    with Stretto("openai:gpt-5.4-mini", api_key=SECRET, roles={"small": backend("own:small")}) as stretto:
        assert repr(stretto) == "<Stretto openai:gpt-5.4-mini, small: own:small>"
        assert repr(stretto._stretto) == "<AsyncStretto openai:gpt-5.4-mini, small: own:small>"


# --- keys


HASH = "a3f9b2c8d7e6f5a4b3c2d1e0f9a8b7c6"
KEYS = [SECRET, "AIzaSyABCDEFGH1234567", "gsk_abcdefgh12"]


@pytest.mark.parametrize("key", [*KEYS, HASH])
@pytest.mark.parametrize("place", ["model", "roles"])
def test_a_key_in_the_place_of_a_model_is_never_repeated(key, place):
    arguments = {"roles": {"judge": key}} if place == "roles" else {}
    model = key if place == "model" else backend()
    with pytest.raises(UnknownModelError, match=r"looks like a key.*api_key=") as caught:
        AsyncStretto(model, **arguments)
    assert key not in str(caught.value)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_behind_a_provider_is_never_repeated(key):
    with pytest.raises(UnknownModelError, match=r"the model looks like a key") as caught:
        AsyncStretto(f"openai:{key}")
    assert key not in str(caught.value)


def test_behind_a_provider_a_hash_is_believed_to_be_a_model():
    assert AsyncStretto(f"openai:{HASH}").backends["main"].name == f"openai:{HASH}"


@pytest.mark.parametrize("options", [{"temperature": SECRET}, {"budget": {"max_calls": SECRET}}, {"strategy": SECRET}])
def test_a_key_in_the_place_of_an_option_is_never_repeated(options):
    with Stretto(backend()) as stretto, pytest.raises(StrettoError) as caught:
        stretto.ask("Why?", **options)
    assert SECRET not in str(caught.value)


def test_a_key_as_the_name_of_a_messages_field_is_never_repeated():
    with (
        Stretto(backend()) as stretto,
        pytest.raises(StrettoError, match=r"has no content \(it has \[hidden\]\)") as caught,
    ):
        stretto.ask({"role": "user", SECRET: "x"})
    assert SECRET not in str(caught.value)


def test_a_key_in_the_settings_file_is_never_repeated(tmp_path, monkeypatch):
    file = tmp_path / "settings.toml"
    file.write_text(f'apikey = "{SECRET}"\n')
    monkeypatch.setenv("STRETTO_SETTINGS", str(file))
    with pytest.raises(SettingsError, match="apikey") as caught:
        Settings.load()
    assert SECRET not in str(caught.value)


def test_the_command_line_repeats_no_key_either():
    done = CliRunner().invoke(app, ["ask", "--model", SECRET, "Why?"])
    assert done.exit_code == 2
    assert "What was given as the model looks like a key" in done.output
    assert SECRET not in done.output


@pytest.mark.parametrize(
    "name",
    [
        "mistralai/Mistral-7B-Instruct-v0.2",
        "gpt-4o-2024-08-06",
        "claude-3-5-sonnet-20241022",
        "hf-internal-testing/tiny-random-gpt2",
        "DeepSeek-R1-Distill-Qwen-32B-AWQ",
        "key-value-cache",
    ],
)
def test_names_of_models_do_not_look_like_keys(name):
    assert not looks_like_key(name)


# --- hooks that cannot be called


async def _async_hook(route):
    return route


@pytest.mark.parametrize("hook", [3, _async_hook])
def test_a_hook_is_a_plain_function(hook):
    with pytest.raises(SettingsError, match=r"on_route=.*plain function"):
        Hooks(on_route=hook)


@pytest.mark.parametrize(
    "arguments", [{"decoding": SECRET}, {SECRET: 1}, {"strategy": SECRET}], ids=["decoding", "name", "strategy"]
)
def test_a_key_in_the_wrong_argument_is_not_repeated(arguments):
    with Stretto("local:pocket") as stretto, pytest.raises(StrettoError) as caught:
        stretto.ask("Why?", **arguments)
    assert SECRET not in str(caught.value)


def test_a_key_as_the_folder_of_prompts_is_not_repeated():
    with pytest.raises(StrettoError) as caught:
        Stretto("local:pocket", templates=SECRET)
    assert SECRET not in str(caught.value)


# --- wrong values of a client's arguments


@pytest.mark.parametrize("client", [Stretto, AsyncStretto])
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"settings": SECRET}, r"settings= takes Settings.load\(...\) or Settings\(...\), not a value of type str"),
        ({"settings": {}}, "settings= takes .*, not a value of type dict"),
        ({"settings": Settings}, "settings= takes .*, not the class Settings"),
        ({"base_url": 5}, "base_url= takes an address as a string, .*, not a value of type int"),
        ({"base_url": SECRET}, "base_url must begin with http:// or https:// and name a host"),
        ({"base_url": "http://"}, "base_url must begin with http:// or https:// and name a host"),
        ({"base_url": "http://[bad"}, "base_url must begin with http:// or https:// and name a host"),
        ({"router": SECRET}, r"router= takes a Router, or an object with its route\(\), not a value of type str"),
        ({"templates": 5}, "templates= takes a folder or a Catalogue, not a value of type int"),
        ({"api_key": 5}, "api_key= takes the key as a string, not a value of type int"),
        ({"api_key": SECRET.encode()}, "api_key= takes the key as a string, not a value of type bytes"),
        ({"api_key": SECRET + "\n"}, r"api_key= holds a line break or .* strip\(\) it"),
        ({"api_key": SECRET + "ü"}, "api_key= holds a line break or a character that no key has"),
        ({"roles": {"x": 5}}, r"roles\['x'\]= takes a model, not a value of type int"),
        ({"roles": SECRET}, "roles= takes models by role, .*, not a value of type str"),
        ({"hooks": SECRET}, r"hooks= takes Hooks\(...\), not a value of type str"),
        ({"strategies": SECRET}, "strategies= takes a list of strategies, not a value of type str"),
        ({"strategies": 5}, "strategies= takes a list of strategies, not a value of type int"),
    ],
)
def test_a_wrong_value_is_one_error_that_names_the_argument_and_what_it_takes(client, wrong, says):
    with pytest.raises(StrettoError, match=says) as caught:
        client("openai:m", **wrong)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"stop": [""]}, "stop=.* cannot be used: an empty text would end every answer at once"),
        ({"max_tokens": True}, "max_tokens=True cannot be used: input should be a number"),
        ({"deadline_s": True}, "deadline_s=True cannot be used: input should be a number"),
        ({"deadline_s": float("nan")}, "deadline_s=nan cannot be used"),
        ({"system": 5}, "system=5 cannot be used: it takes a string"),
        ({"budget": {"max_calls": 3}}, r"budget=\{'max_calls': 3\} cannot be used: it takes a Budget, such as"),
    ],
)
def test_a_number_that_is_none_is_refused(wrong, says):
    with Stretto(backend()) as stretto, pytest.raises(InvalidRequestError, match=says):
        stretto.ask("Why?", **wrong)


@pytest.mark.parametrize(
    ("kind", "given"), [(Budget, {}), (Request, {"messages": [{"role": "user", "content": "Why?"}]})]
)
def test_true_is_no_number_in_any_field(kind, given):
    types = {name: {field.annotation, *get_args(field.annotation)} for name, field in kind.model_fields.items()}
    numbers = [name for name, those in types.items() if those & {int, float}]
    assert len(numbers) >= 4
    for name in numbers:
        with pytest.raises(InvalidRequestError, match=f"{name}=True cannot be used: input should be a number"):
            kind(**given, **{name: True})
