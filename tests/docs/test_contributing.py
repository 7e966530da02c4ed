"""What a contributor is told, and what checks a change: the commands exist, and every test is run somewhere."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TARGETS = set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1].split())
CHANGE, NIGHTLY = (
    yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text(encoding="utf-8"))
    for name in ("change", "nightly")
)


def commands(workflow):
    for job in workflow["jobs"].values():
        for name, choices in job.get("strategy", {}).get("matrix", {"": [""]}).items():
            for choice in choices:
                for step in job["steps"]:
                    yield step.get("run", "").replace(f"${{{{ matrix.{name} }}}}", str(choice))


def made(lines):
    return {target for line in lines if line.startswith("make ") for target in line.split()[1:]}


def test_every_target_that_is_made_exists():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = [*re.findall(r"^\$ (make .*)$", page, re.MULTILINE), *re.findall(r"`(make [\w -]+)`", page)]
    assert "make test" in told
    assert made([*told, *commands(CHANGE), *commands(NIGHTLY)]) <= TARGETS


def test_a_change_and_the_night_run_all_that_the_makefile_tests():
    assert made(commands(CHANGE)) == {"lint", "types", "suite"}  # what `make test` is
    assert {each for each in TARGETS if each.startswith("test-")} <= made(commands(NIGHTLY))


def test_a_change_is_tested_with_the_oldest_and_the_newest_python_that_are_promised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    tested = CHANGE["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [promised[0], promised[-1]]
    assert project["requires-python"] == f">={tested[0]}"


def test_the_tests_that_the_page_names_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"pytest.*?(tests/\S+)", page)
    assert named
    assert [each for each in named if not (ROOT / each).is_file()] == []


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda file: file.stem
)
def test_forms_of_issues_have_what_github_wants_of_them(file):
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    if file.stem == "config":
        assert all(set(link) == {"name", "url", "about"} for link in form["contact_links"])
        return
    assert form["name"]
    assert form["description"]
    asked = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in asked}) == len(asked)
    assert all(each["attributes"]["label"] for each in asked)
