"""``stretto learned``: what was learned of models, printed and removed."""

import json
from datetime import date

import pytest

from stretto.abilities import Abilities, Ability, keep
from stretto.abilities.kept import prompts_version
from stretto.router.correction import Correction, keep_correction
from stretto.strategies.cascade.learned import Estimate, Learned, Step, keep_learned

SMALL = "llamacpp:small at localhost:8080"
DAY = date(2026, 11, 24)


@pytest.fixture
def kept(tmp_path):
    """A check of two models, a cascade of the small one and another, and a correction of the router."""
    wrong = Ability(right=5, total=10, needed=8)
    keep(Abilities(model=SMALL, checked=DAY, prompts=prompts_version(), held={"label": wrong}))
    keep(Abilities(model="own:other", checked=DAY, prompts="of an earlier release"))
    half = Estimate(value=0.5, low=0.4, high=0.6)
    step = Step(model=SMALL, by="probability", threshold=-0.3)
    figures = {"questions": 50, "goal": 0.95, "agreement": half, "share": half}
    keep_learned(Learned(steps=(step,), main="own:large", learned=DAY, **figures))
    keep_correction(Correction(offset=-0.5, learned=DAY, questions=30, right_before=20, right=25))
    return lambda: list(tmp_path.rglob("*.json"))


def test_before_anything_was_learned_it_says_so(stretto):
    assert stretto("learned").stdout == "Nothing was learned yet.\n"
    assert stretto("learned", "delete", "--all").stdout == "Removed: 0\n"


def test_everything_that_was_learned_is_printed(stretto, kept):
    shown = stretto("learned")
    assert shown.exit_code == 0, shown.stderr
    for words in (
        "router: a correction of -0.50, learned from 30 questions",
        f"{SMALL}\n  checked on 2026-11-24: not held: labels out of a list\n",
        "own:other\n  checked on 2026-11-24: all held; the prompts have changed since, so it is not used\n",
        f"{SMALL} before own:large\n  {SMALL}: its answer is accepted from a mean log-probability of -0.3 on\n",
    ):
        assert words in shown.stdout
    listed = json.loads(stretto("learned", "--json").stdout)
    assert [each["model"] for each in listed["abilities"]] == [SMALL, "own:other"]
    assert [each["main"] for each in listed["cascades"]] == ["own:large"]
    assert listed["router"]["offset"] == -0.5


@pytest.mark.parametrize("name", [SMALL, "llamacpp:small"])
def test_of_one_model_its_check_and_its_cascades_are_removed(stretto, kept, name):
    assert stretto("learned", "delete", name).stdout == "Removed: 2\n"
    assert SMALL not in stretto("learned").stdout
    assert "own:other" in stretto("learned").stdout
    again = stretto("learned", "delete", name)
    assert again.exit_code == 2
    assert again.stderr.startswith(f"error: Nothing was learned of '{name}'.")


def test_the_correction_of_the_router_is_removed_by_itself(stretto, kept):
    before = kept()
    assert stretto("learned", "delete", "router").stdout == "Removed: 1\n"
    assert len(kept()) == len(before) - 1
    assert "router:" not in stretto("learned").stdout


def test_everything_is_removed_damaged_files_too(stretto, kept, tmp_path):
    (tmp_path / "abilities" / "damaged.json").write_text("{")
    (tmp_path / "notes.json").write_text("{}")
    assert stretto("learned", "delete", "--all").stdout == "Removed: 5\n"
    assert [file.name for file in tmp_path.rglob("*.json")] == ["notes.json"]


def test_either_a_model_or_all_is_named(stretto, kept):
    for arguments in ((), (SMALL, "--all")):
        refused = stretto("learned", "delete", *arguments)
        assert refused.exit_code == 2
        assert "say --all" in refused.stderr
    assert len(kept()) == 4
