"""What stays of an answer that ended too early: every part once, whatever the form made of it."""

import pytest

from stretto.cli.terminal.unwritten import with_unwritten


@pytest.mark.parametrize(
    ("text", "parts", "whole"),
    [
        ("", [], ""),
        ("Hot.", [("Tea", "Hot.")], "Hot."),
        ("Hot.\n\nIt is", [("Tea", "Hot."), ("Milk", "It is cold.")], "Hot.\n\nIt is cold."),
        ("Hot. ", [("", "Hot. "), ("", "Hot. ")], "Hot. \n\nHot. "),
        ("1. **Tea**: Hot\n   wo", [("Tea", "1. **Tea**: Hot\nwords")], "1. **Tea**: Hot\n   words"),
        ("Some **bold**", [("", "Some **bold** words.")], "Some **bold** words."),
        ("1. ", [("Tea", "Hot.")], "1. Hot."),
        ("Tea: ", [("Tea", "**Hot** wat")], "Tea: **Hot** wat"),
        ("Tea: ", [("Tea", "Tea: Hot")], "Tea: Hot"),
        ("Tea: ", [("Tea", "Tea")], "Tea: "),
        ("Tea: Hot.\nMilk: ", [("Tea", "Hot."), ("Milk", "- **Milk** – It")], "Tea: Hot.\nMilk: It"),
        ("1. **Tea**: ", [("Tea", "Ho"), ("Milk", "Co")], "1. **Tea**: Ho\n\n**Milk**: Co"),
        ("Hot. ", [("Tea", "Hot. "), ("Milk", "2. **Milk**: Co")], "Hot. \n\n**Milk**: Co"),
        ("So:\n\n**茶**：", [("茶", "热水")], "So:\n\n**茶**：热水"),
        ("**Tea**\n\n", [("Tea", "Ho")], "**Tea**\n\nHo"),
        ("Tea: Hot.\n- ", [("Tea", "Hot."), ("Milk", "It")], "Tea: Hot.\n- It"),
        ("Tea", [("", "Tea"), ("Tea", "Hot.")], "Tea\n\n**Tea**: Hot."),
        ("A", [("Tea", "A"), ("Milk", "A beginning.")], "A\n\n**Milk**: A beginning."),
        ("一杯茶。\n\n牛", [("", "一杯茶。"), ("", "牛奶。")], "一杯茶。\n\n牛奶。"),
        ("चाय\n\nदूध ठं", [("", "चाय"), ("", "दूध ठंडा")], "चाय\n\nदूध ठंडा"),
        (f"{'x ' * 80}one", [("", f"{'x ' * 80}one"), ("", f"{'x ' * 80}two")], f"{'x ' * 80}one\n\n{'x ' * 80}two"),
    ],
)
def test_a_part_is_looked_for_as_a_whole_behind_the_one_before_it(text, parts, whole):
    assert with_unwritten(text, parts) == whole
