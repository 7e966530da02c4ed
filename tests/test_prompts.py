import pytest

from stretto.prompts import Catalogue
from stretto.values.errors import SettingsError, UnknownPromptError

NEEDED = ("plan", "section", "skeleton", "point", "point_alone", "continue", "continue_outline", "continue_point")


@pytest.mark.parametrize("family", ["general", "pocket"])
@pytest.mark.parametrize("name", NEEDED)
def test_every_family_has_every_prompt_the_strategies_send(family, name):
    template = Catalogue().get(name, family)
    assert template.purpose.endswith(".")
    filled = template.messages(**dict.fromkeys(template.placeholders, "VALUE"))
    assert filled[-1].role == "user"
    assert "$" not in filled[-1].content


def test_values_are_never_read_as_templates():
    filled = (
        Catalogue().get("point", "pocket").messages(question="Costs $5 {or} $title?", outline="o", index="1", title="T")
    )
    assert "Costs $5 {or} $title?" in filled[0].content


def test_a_message_without_content_is_not_sent():
    filled = Catalogue().get("point_alone").messages(system="", documents="", question="q", title="t", words="9")
    assert [message.role for message in filled] == ["user"]


def test_a_folder_overrides_templates_one_by_one_and_a_newer_version_wins(tmp_path):
    for version, text in (("v1", "old"), ("v2", "new")):
        folder = tmp_path / "general" / version
        folder.mkdir(parents=True)
        (folder / "point_alone.md").write_text(f"Mine.\n--- user ---\n{text} $question\n")
    catalogue = Catalogue(tmp_path)
    assert catalogue.get("point_alone").messages(question="q")[0].content == "new q"
    assert catalogue.get("point_alone", version="v1").messages(question="q")[0].content == "old q"
    assert catalogue.get("skeleton").source != str(tmp_path)


def test_a_template_with_an_unknown_placeholder_is_named_with_what_it_may_use(tmp_path):
    (tmp_path / "general" / "v9").mkdir(parents=True)
    (tmp_path / "general" / "v9" / "point.md").write_text("Mine.\n--- user ---\n$questoin\n")
    with pytest.raises(UnknownPromptError, match=r"general/v9/point.*questoin.*\$question"):
        Catalogue(tmp_path).get("point").messages(question="q")


def test_a_file_without_a_message_is_refused(tmp_path):
    (tmp_path / "general" / "v9").mkdir(parents=True)
    (tmp_path / "general" / "v9" / "point.md").write_text("Only words.\n")
    with pytest.raises(SettingsError, match=r"point\.md.*--- user ---"):
        Catalogue(tmp_path).get("point")


def test_a_missing_folder_and_a_missing_name_are_named():
    with pytest.raises(SettingsError, match="no/such/folder"):
        Catalogue("no/such/folder")
    with pytest.raises(UnknownPromptError, match=r"'nothing'.*general/v1/point"):
        Catalogue().get("nothing")
