import exactness


def test_lexical_is_compared_wherever_there_is_an_adapter_and_what_is_lossy_nowhere():
    names = ("llama", "gemma3", "local:pocket", "local:somebody/model")
    cells = set(exactness.wanted(names, ("float32",), exactness.METHODS))
    assert {name for name, _, method, _ in cells if method == "lexical"} == {"llama", "local:pocket"}
    assert {name for name, _, method, _ in cells if method == "draft_model"} == {"llama", "gemma3"}
    assert "lexical_lossy" not in exactness.METHODS


def test_with_a_random_adapter_a_tiny_model_says_what_it_says_without():
    run = exactness.Run("llama", "float32", 3, 12)
    try:
        cell = run.cell("lexical", 3)
    finally:
        run.close()
    assert (cell.same, cell.of, cell.mismatches) == (3, 3, [])
