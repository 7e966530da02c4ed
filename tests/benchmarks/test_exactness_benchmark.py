import exactness
import pytest


def test_methods_are_compared_where_the_model_has_what_they_need_and_lossy_ones_nowhere():
    names = ("llama", "gemma3", "local:pocket", "local:somebody/model")
    cells = set(exactness.wanted(names, ("float32",), exactness.METHODS))
    assert {name for name, _, method, _ in cells if method == "lexical"} == {"llama", "local:pocket"}
    assert {name for name, _, method, _ in cells if method == "draft_model"} == {"llama", "gemma3"}
    assert not [method for _, _, method, _ in cells if method == "head"]
    assert "lexical_lossy" not in exactness.METHODS


@pytest.mark.thorough  # it compiles the forward of an adapter
def test_with_a_random_adapter_a_tiny_model_says_what_it_says_without():
    run = exactness.Run("llama", "float32", 3, 12)
    try:
        cell = run.cell("lexical", 3)
    finally:
        run.close()
    assert (cell.same, cell.of, cell.mismatches) == (3, 3, [])
