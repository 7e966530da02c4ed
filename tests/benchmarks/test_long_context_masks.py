import long_context_masks as masks
import pytest
from measuring import IMAGES, ROOT


@pytest.mark.parametrize("way", masks.WAYS)
def test_the_committed_picture_is_what_is_drawn_and_shown_in_the_page(way):
    committed = (IMAGES / f"long-context-{way}.svg").read_text(encoding="utf-8")
    assert masks.picture(way) == committed, "python benchmarks/long_context_masks.py draws it anew"
    assert f"(img/long-context-{way}.svg)" in (ROOT / "docs" / "long-context.md").read_text(encoding="utf-8")


def test_local_tokens_of_focus_see_candidates_and_each_other_only():
    every = masks.tokens("focus")
    for token in every[-3:]:
        kinds = {every[seen].kind for seen in token.sees}
        assert kinds <= {"candidate", "local"}
    candidates = [token for token in every if token.kind == "candidate"]
    assert [token.place for token in candidates] == [0, 1, 2]
    assert all(token.position < 5 for token in every[:-3])


def test_a_block_of_star_sees_its_anchor_and_itself_and_the_query_sees_all():
    every = masks.tokens("star")
    assert every[8].sees == (0, 1, 2, 6, 7)
    assert every[-1].sees == tuple(range(len(every) - 1))
