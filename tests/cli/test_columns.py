from stretto.cli.output.screen import columns


def drawn(*rows, **options):
    return [line.plain for line in columns(rows, **options)]


def test_columns_are_aligned_and_nothing_trails():
    assert drawn(("a", "one"), ("long", "")) == ["a     one", "long"]


def test_figures_are_set_flush_right():
    assert drawn(("", "calls"), ("direct", "1"), right=(1,)) == ["        calls", "direct      1"]


def test_the_last_column_is_wrapped_below_itself():
    rows = drawn(("name", "a sentence of many words to wrap"), width=26)
    assert rows == ["name  a sentence of many\n      words to wrap"]


def test_wide_characters_count_as_two_cells():
    assert drawn(("茶", "tea"), ("abc", "x")) == ["茶   tea", "abc  x"]


def test_no_rows_are_no_lines():
    assert drawn() == []
