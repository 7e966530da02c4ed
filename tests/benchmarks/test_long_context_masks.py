import long_context_masks as masks
from measuring import IMAGES, ROOT


def test_the_committed_picture_is_what_is_drawn_and_shown_in_the_page():
    committed = (IMAGES / "long-context-focus.svg").read_text(encoding="utf-8")
    assert masks.picture() == committed, "python benchmarks/long_context_masks.py draws it anew"
    assert "(img/long-context-focus.svg)" in (ROOT / "docs" / "long-context.md").read_text(encoding="utf-8")


def test_local_tokens_of_focus_see_candidates_and_each_other_only():
    every = masks.tokens()
    for token in every[-3:]:
        kinds = {every[seen].kind for seen in token.sees}
        assert kinds <= {"candidate", "local"}
    candidates = [token for token in every if token.kind == "candidate"]
    assert [token.place for token in candidates] == [0, 1, 2]
    assert all(token.position < 5 for token in every[:-3])
