import masks
import pytest
from measuring import IMAGES, ROOT

from stretto.local_engine.drafting.catalogue import DRAFTERS


@pytest.mark.parametrize("method", masks.METHODS)
def test_the_committed_picture_is_what_the_method_draws(method):
    committed = (IMAGES / f"mask-{method}.svg").read_text(encoding="utf-8")
    assert masks.picture(masks.best_step(method)) == committed, "python benchmarks/masks.py draws it anew"


def test_every_method_drawn_is_in_the_catalogue_and_has_a_passage_with_its_picture_in_a_page():
    page = "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("decoding", "research"))
    for method in masks.METHODS:
        assert method in DRAFTERS
        assert f"\n## {method}\n" in page, method
        assert f"(img/mask-{method}.svg)" in page, method


@pytest.mark.parametrize("method", masks.METHODS)
def test_steps_of_every_method_write_the_text_that_is_known_by_heart(method):
    done = masks.steps(method)
    whole = " ".join([*done[-1].text, *done[-1].path])
    assert " ".join(masks._TEXT).startswith(whole)
    assert len(done[-1].text) > masks._PROMPT + 10


def test_a_picture_has_a_dark_row_for_each_accepted_node_and_the_last_token():
    step = masks.best_step("prompt_lookup")
    drawn = masks.picture(step)
    assert drawn.count('font-weight="bold"') == 1 + len(step.accepted)
    sees = sum(1 for row in range(1 + len(step.tree)) for _ in range(row + 1)) + masks._SHOWN * (1 + len(step.tree))
    assert drawn.count('class="taken"') + drawn.count('class="seen"') == sees, (
        "a chain sees itself and what is before it"
    )
