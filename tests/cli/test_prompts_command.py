import json

import pytest

from stretto.prompts import Catalogue


def test_list_names_every_template(stretto):
    result = stretto("prompts", "list")
    assert result.exit_code == 0
    for template in Catalogue():
        assert f"{template.family}/{template.version}/{template.name}" in result.stdout


def test_list_keeps_to_one_family(stretto):
    names = stretto("prompts", "list", "--family", "pocket").stdout.splitlines()
    assert names
    assert all(name.startswith("pocket/") for name in names)


def test_list_as_json_says_what_a_template_wants(stretto):
    templates = {
        each["name"]: each for each in json.loads(stretto("prompts", "list", "--family", "general", "--json").stdout)
    }
    assert "question" in templates["skeleton"]["placeholders"]


def test_show_prints_the_file_as_it_is(stretto):
    result = stretto("prompts", "show", "skeleton")
    assert result.stdout == Catalogue().get("skeleton").text
    assert result.stderr.startswith("general/")


def test_show_falls_back_to_general(stretto):
    assert stretto("prompts", "show", "continue", "--family", "pocket").stderr.startswith("general/")


def test_an_unknown_prompt_is_one_line(stretto):
    result = stretto("prompts", "show", "nothing")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: There is no prompt 'nothing'")


@pytest.mark.parametrize("command", [["list"], ["show", "point"]])
@pytest.mark.parametrize(("option", "known"), [("--family", "general, pocket, small"), ("--version", "v1")])
def test_an_unknown_family_or_version_is_named_with_those_there_are(stretto, command, option, known):
    result = stretto("prompts", *command, option, "nope")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: There is no {option[2:]} 'nope' of prompts. Choose one of: {known}.\n"


def test_templates_of_the_settings_folder_are_shown(stretto, tmp_path, monkeypatch):
    folder = tmp_path / "mine" / "general" / "v1"
    folder.mkdir(parents=True)
    (folder / "skeleton.md").write_text("Mine.\n--- user ---\n$question\n", encoding="utf-8")
    monkeypatch.setenv("STRETTO_TEMPLATES", str(tmp_path / "mine"))
    assert stretto("prompts", "show", "skeleton").stdout.startswith("Mine.")
