"""Answers by a plan: an opening at once, sections side by side, one closing."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from stretto import Answer, AsyncStretto, Budget, ServerFailedError, Stretto
from stretto.backends.base import Capabilities
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

QUESTION = "How do I look after a bicycle?"
PLAN = """Opening: Clean the chain first.
Sections: Every week | At the shop | What to buy
Shared: none
1. steps, about 60 words: clean, oil
2. bullets, about 60 words: truing
3. table, about 60 words: part, price
Closing: Start today."""
BOTH = r'"At the shop" \| "What to buy"'
SECTIONS = {
    BOTH: "## At the shop\n\n- Have the wheels trued.\n\n## What to buy\n\nA pump and a brush.",
    '"Every week"': "Wipe the chain, then oil it.",
    '"At the shop"': "- Have the wheels trued.",
    '"What to buy"': "A pump and a brush.",
}
WHOLE = (
    "Clean the chain first.\n\n## Every week\n\nWipe the chain, then oil it.\n\n## At the shop\n\n- Have the wheels "
    "trued.\n\n## What to buy\n\nA pump and a brush.\n\nStart today."
)


def ask(script: dict[str, object], **options: object) -> tuple[Answer, ScriptedBackend]:
    backend = ScriptedBackend({"You plan the answer": PLAN, **SECTIONS, **script})
    with Stretto(backend) as stretto:
        return stretto.ask(QUESTION, strategy="skeleton", **options), backend


def test_opening_sections_and_closing_become_one_text():
    answer, backend = ask({})
    assert (answer.text, answer.warnings, answer.finish_reason) == (WHOLE, (), "stop")
    assert [branch.kind for branch in answer.branches] == ["plan", "section", "section", "section", "closing"]
    assert [(branch.index, branch.heading, branch.form) for branch in answer.sections] == [
        (1, "Every week", "steps"),
        (2, "At the shop", "bullets"),
        (3, "What to buy", "table"),
    ]
    assert [branch.text for branch in answer.branches if branch.kind == "closing"] == ["Start today."]
    assert len(backend.calls) == 4


def test_later_sections_read_the_first_two_unless_it_is_to_be_fastest():
    for preference, reads in (("balanced", True), ("careful", True), ("fastest", False)):
        _, backend = ask({}, preference=preference)
        asked = [prompt.messages[-1].content for prompt, _ in backend.calls]
        prompts = [text for text in asked if "Write the section" in text]
        last = next(text for text in prompts if '"What to buy"' in text)
        assert ("Wipe the chain" in last and "wheels trued" in last) is reads, preference
        assert all("1. Every week: steps" in text for text in prompts)


@pytest.mark.leaping
async def test_later_sections_begin_beside_the_first_two_and_read_the_same_of_them_at_any_speed():
    verbs, parts = ("Clean", "Oil", "Wipe", "Turn", "Feel", "Bend"), ("chain", "tyre", "brake", "light", "bell", "lock")
    long, prompts = " ".join(f"{verb} the {part}." for verb in verbs for part in parts), set()
    for first in (Reply(long), Reply(chunks=[long[:50], long[50:400], long[400:]]), None):
        waits = first or Reply(chunks=[long[:300], long[300:]], chunk_delay_s=60)
        backend = ScriptedBackend({"You plan the answer": PLAN, **SECTIONS, '"Every week"': waits})
        with anyio.move_on_after(5):
            async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, strategy="skeleton") as stream:
                async for event in stream:
                    if event.type == "branch_finished" and event.branch.id == "section-3":
                        break
        asked = [prompt.messages[-1].content for prompt, _ in backend.calls]
        prompts |= {text for text in asked if 'Write the section "What to buy"' in text}
    (prompt,) = prompts
    assert "oil it. Wipe ...\n" in prompt or "..." in prompt
    assert len(prompt) < len(long) + 2500
    assert "3. What to buy: table" in prompt
    assert "Closing: Start today." in prompt


SHORT = (
    PLAN.replace("1. steps, about 60", "1. steps, about 90")
    .replace("2. bullets, about 60", "2. bullets, about 40")
    .replace("Closing: Start today.", "Closing: none")
)


@pytest.mark.parametrize(
    "said",
    [
        "## At the shop\n\n- Have the wheels trued.\n\n## What to buy\n\nA pump and a brush.",
        "- Have the wheels trued.\n\n**3. What to buy:**\nA pump and a brush.\n",
        "\n### 2. At the shop\n- Have the wheels trued.\nWhat to buy\n\nA pump and a brush.\n\n",
    ],
)
def test_short_neighbours_share_a_call_and_are_sections_all_the_same(said):
    for size in (1, 7, 200):
        pieces = [said[at : at + size] for at in range(0, len(said), size)]
        answer, backend = ask({"You plan the answer": SHORT, BOTH: Reply(chunks=pieces)})
        assert (answer.text, answer.warnings) == (WHOLE.removesuffix("\n\nStart today."), ())
        assert [(branch.index, branch.heading, branch.text) for branch in answer.sections[1:]] == [
            (2, "At the shop", "- Have the wheels trued."),
            (3, "What to buy", "A pump and a brush."),
        ]
        assert [branch.kind for branch in answer.branches] == ["plan", "section", "sections", "section", "section"]
        assert len(backend.calls) == 3


@pytest.mark.parametrize(
    "said",
    [
        "- Have the wheels trued.",
        Reply("", fault=ServerFailedError("It broke.")),
        Reply("## At the shop\n- Have the wheels trued.\n\n## What to buy\n\nA", finish_reason="length"),
    ],
)
def test_what_a_shared_call_does_not_write_is_asked_for_by_itself(said):
    answer, _ = ask({"You plan the answer": SHORT, BOTH: said})
    assert (answer.text, answer.finish_reason) == (WHOLE.removesuffix("\n\nStart today."), "stop")


SPOKES = "Turn each nipple by a quarter at most, and spin the wheel again before you turn the next one. "


@pytest.mark.parametrize(
    ("second", "third", "cut"),
    [
        ("- Have the wheels trued.", SPOKES + "Turn the crank. " * 40, "section-3"),
        (SPOKES + "Turn the crank. " * 40, "", "section-2"),
    ],
)
def test_a_screen_that_cuts_a_shared_call_cuts_the_section_that_it_was_writing(second, third, cut):
    said = f"## At the shop\n\n{second}\n\n## What to buy\n\n{third}"
    answer, _ = ask({"You plan the answer": SHORT, BOTH: said})
    assert [branch.id for branch in answer.sections if branch.cut_by == "loop"] == [cut]
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", cut)]
    assert SPOKES.strip() in answer.text
    assert ("A pump and a brush." in answer.text) is (cut == "section-2")


async def test_a_section_of_a_shared_call_that_fills_its_buffer_is_cut(monkeypatch):
    monkeypatch.setattr("stretto.strategies.runtime.branch.BUFFER", 60)
    go_on = anyio.Event()
    words = " ".join(f"word{number}" for number in range(40))
    said = f"## At the shop\n\nOil it.\n\n## What to buy\n\n{words}"
    script = {"You plan the answer": SHORT, BOTH: said, '"Every week"': Reply("Wipe it.", hold=go_on)}
    async with (
        AsyncStretto(ScriptedBackend(script)) as stretto,
        stretto.stream(QUESTION, strategy="skeleton", preference="fastest") as stream,
    ):
        async for event in stream:
            if event.type == "branch_finished" and event.branch.id == "section-3":
                go_on.set()
    third = stream.answer.sections[2]
    assert (third.finish_reason, stream.answer.finish_reason) == ("length", "length")
    assert len(third.text) < len(words)
    (warning,) = stream.answer.warnings
    assert (warning.code, warning.part) == ("part_cut", "section-3")
    assert "waited to be read" in warning


@pytest.mark.leaping
async def test_the_sections_of_a_shared_call_are_shown_as_they_come():
    late = Reply(chunks=["## At the shop\n\n- Have", " the wheels"], chunk_delay_s=60)
    assert await is_shown("- Have", {"You plan the answer": SHORT, BOTH: late}, preference="fastest")


def test_code_with_a_heading_in_it_is_no_seam():
    said = "## At the shop\n```\n## What to buy\n```\n## What to buy\nA pump."
    answer, _ = ask({"You plan the answer": SHORT, BOTH: said})
    assert [branch.text for branch in answer.sections[1:]] == ["```\n## What to buy\n```", "A pump."]


def test_a_section_starts_before_the_plan_ends_and_the_opening_is_shown_before_it():
    lines = [f"{line}\n" for line in PLAN.split("\n")]
    backend = ScriptedBackend({"You plan the answer": Reply(chunks=lines, chunk_delay_s=0.02), **SECTIONS})
    seen: list[str] = []
    with Stretto(backend) as stretto, stretto.stream(QUESTION, strategy="skeleton") as stream:
        for event in stream:
            if event.type == "text_delta":
                seen.append(event.text)
            elif event.type == "branch_started":
                seen.append(f"{event.branch_id} started")
            elif event.type == "branch_finished":
                seen.append(f"{event.branch.id} finished")
    assert seen.index("Clean the chain first.") < seen.index("section-1 started") < seen.index("plan finished")


async def is_shown(wanted: str, script: dict[str, object], **options: object) -> bool:
    """Whether the reader gets this text while a reply of the script waits for a minute."""
    backend = ScriptedBackend({"You plan the answer": PLAN, **SECTIONS, **script})
    text = ""
    with anyio.move_on_after(5):
        async with AsyncStretto(backend) as stretto, stretto.stream(QUESTION, strategy="skeleton", **options) as stream:
            async for event in stream:
                text += event.text if event.type == "text_delta" else ""
                if wanted in text:
                    return True
    return False


@pytest.mark.leaping
async def test_the_first_heading_is_shown_before_the_line_of_its_section_is_there():
    chunks = [PLAN[: PLAN.index("1. steps")], PLAN[PLAN.index("1. steps") :]]
    assert await is_shown("## Every week\n\n", {"You plan the answer": Reply(chunks=chunks, chunk_delay_s=60)})


@pytest.mark.leaping
async def test_an_answer_in_place_of_a_plan_is_shown_as_it_comes():
    assert await is_shown(
        "Clean it.", {"You plan the answer": Reply(chunks=["Clean it. It", " rusts."], chunk_delay_s=60)}
    )


@pytest.mark.leaping
async def test_a_section_that_begins_in_bold_is_shown_before_its_line_ends():
    assert await is_shown("**Wipe", {'"Every week"': Reply(chunks=["**Wipe", " the chain** often."], chunk_delay_s=60)})


@pytest.mark.parametrize("at", ["1. steps", "2. bullets"])
def test_a_plan_that_breaks_off_behind_the_headings_keeps_what_the_reader_has(at):
    broken = Reply(chunks=[PLAN[: PLAN.index(at)], "1"], fault=ServerFailedError("It broke."), fault_after=1)
    answer, _ = ask({"You plan the answer": broken})
    assert answer.text == WHOLE.removesuffix("\n\nStart today.")
    assert answer.finish_reason != "stop"
    assert ("part_missing", "plan") in [(warning.code, warning.part) for warning in answer.warnings]


@pytest.mark.parametrize(
    "said",
    [
        "## Every week\n\nWipe the chain, then oil it.",
        "**Every week**\n\nWipe the chain, then oil it.",
        "# Every week\nWipe the chain, then oil it.",
        "Every week\n\nWipe the chain, then oil it.\n\n",
        "\n\nWipe the chain, then oil it.",
    ],
)
def test_a_section_that_repeats_its_heading_has_it_once(said):
    for size in (1, 3, 200):
        pieces = [said[at : at + size] for at in range(0, len(said), size)]
        assert ask({'"Every week"': Reply(chunks=pieces)})[0].text == WHOLE


def test_headings_within_a_section_stand_below_it_and_code_stays():
    said = "## Tools\n\nA brush.\n\n```sh\n# a comment\n## another\n```\n\n# More\n\nA pump."
    shown = "### Tools\n\nA brush.\n\n```sh\n# a comment\n## another\n```\n\n### More\n\nA pump."
    assert f"## Every week\n\n{shown}\n\n## At the shop" in ask({'"Every week"': said})[0].text


@pytest.mark.parametrize(
    "plan", ["1. Chain\n2. Tyres\n" * 9, "", "Sections: A | B", "Opening: Clean it.\nSections: One\n1. steps: all"]
)
def test_a_model_that_holds_no_plan_answers_straight(plan):
    answer, _ = ask({"You plan the answer": plan or Reply(""), "": "It is easy: clean it and oil it."})
    assert answer.strategy == "direct"
    assert answer.text.endswith("It is easy: clean it and oil it.")
    assert answer.text.removesuffix("It is easy: clean it and oil it.").strip() in ("", "Clean it.")
    assert [warning.code for warning in answer.warnings] == ["strategy"]


@pytest.mark.parametrize("label", ["Opening: ", ""])
def test_an_opening_that_becomes_the_answer_goes_on_without_a_seam(label):
    answer, _ = ask({"You plan the answer": label + "Clean it. " * 200, "cut off": "And oil it."})
    assert answer.text.startswith("Clean it. Clean it.")
    assert answer.text.endswith("Clean it.\n\nAnd oil it.")
    assert len(answer.text) < 800


def test_a_section_that_fails_is_named_and_the_others_stay():
    answer, _ = ask({'"At the shop"': Reply("", fault=ServerFailedError("The server failed (500)."))})
    assert "## At the shop\n\n[" in answer.text
    assert "A pump and a brush." in answer.text
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_missing", "section-2")]
    omitted, _ = ask({'"At the shop"': Reply("", fault=ServerFailedError("x"))}, on_missing="omit")
    assert "At the shop" not in omitted.text


def test_a_plan_that_breaks_off_leaves_what_it_has_told():
    broken = Reply(chunks=[PLAN[: PLAN.index("3. table")], "3."], fault=ServerFailedError("It broke."), fault_after=1)
    answer, _ = ask({"You plan the answer": broken})
    assert "## At the shop" in answer.text
    assert "## What to buy" not in answer.text
    assert answer.finish_reason != "stop"
    assert ("part_missing", "plan") in [(warning.code, warning.part) for warning in answer.warnings]


@pytest.mark.parametrize(
    ("third", "options", "code", "said"),
    [
        (Reply("x", chunks=("A pump", " and"), chunk_delay_s=600), {"deadline_s": 30}, "deadline", "30 s"),
        ("A pump.", {"budget": Budget(max_calls=3)}, "budget", "max_calls=3"),
        (Reply("No.", finish_reason="refusal"), {}, "refusal", "The model refused"),
        (Reply("A pump", finish_reason="content_filter"), {}, "refusal", "The filter"),
    ],
)
@pytest.mark.leaping
async def test_the_warning_about_a_section_says_what_took_it(third, options, code, said):
    backend = ScriptedBackend({"You plan the answer": PLAN, **SECTIONS, '"What to buy"': third})
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="skeleton", **options)
    (warning,) = [each for each in answer.warnings if each.part == "section-3"]
    assert (warning.code, said in warning) == (code, True)


def test_a_section_of_a_model_that_thinks_is_cut_at_part_tokens():
    script = {"You plan the answer": PLAN, **SECTIONS, '"What to buy"': Reply("A pump", finish_reason="length")}
    with Stretto(ScriptedBackend(script, capabilities=Capabilities(reasoning=True))) as stretto:
        answer = stretto.ask(QUESTION, strategy="skeleton", part_tokens=20)
    assert [(w.code, w.part, "part_tokens=20" in w) for w in answer.warnings] == [("part_cut", "section-3", True)]


OWN_HEADINGS = "Opening: Clean the chain first.\n1. Every week: oil\n2. At the shop: truing\n"


@pytest.mark.parametrize("plan", [f"{OWN_HEADINGS}3. Wh", f"{OWN_HEADINGS}Closing: Start to"])
def test_half_a_line_of_a_plan_that_was_cut_is_left_out_and_a_warning_tells_of_the_gap(plan):
    answer, _ = ask({"You plan the answer": Reply(plan, finish_reason="length")})
    assert answer.text == WHOLE.partition("\n\n## What to buy")[0]
    assert answer.finish_reason == "length"
    assert [(w.code, w.part, "may be missing" in w) for w in answer.warnings] == [("part_cut", "plan", True)]


def test_a_plan_that_is_cut_behind_its_closing_lacks_nothing():
    answer, _ = ask({"You plan the answer": Reply(f"{PLAN}\n\nThe answ", finish_reason="length")})
    assert (answer.text, answer.finish_reason, answer.warnings) == (WHOLE, "stop", ())


async def test_leaving_in_the_middle_ends_every_call():
    backend = ScriptedBackend({"You plan the answer": PLAN, "": Reply("Late.", hold=anyio.Event())})
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(QUESTION, strategy="skeleton") as stream:
            async for event in stream:
                if event.type == "branch_started" and event.branch_id == "section-2":
                    break
        assert (backend.running, len(backend.calls) > 1) == (0, True)


def test_the_same_answer_again_whatever_is_late():
    texts = {
        ask({f'"{name}"': Reply(SECTIONS[f'"{name}"'], chunk_delay_s=0.02)}, seed=1)[0].text
        for name in ("Every week", "At the shop", "What to buy")
    }
    assert texts == {WHOLE}


def test_a_plan_that_the_server_failed_to_write_says_nothing_of_the_model():
    failed = Reply("", fault=ServerFailedError("The server failed (500)."))
    backend = ScriptedBackend({"You plan the answer": failed, "": "Clean it and oil it."})
    with Stretto(backend) as stretto:
        chosen = [stretto.ask(QUESTION, preference="fastest").route.strategy for _ in range(3)]
    assert chosen == ["skeleton"] * 3


async def test_a_model_that_writes_no_plan_answers_straight_for_a_while():
    backend = ScriptedBackend({"You plan the answer": "I would clean it. " * 30, "": "Clean it and oil it."})
    async with AsyncStretto(backend) as stretto:
        routes = [(await stretto.ask(QUESTION, preference="fastest")).route for _ in range(3)]
    assert [route.code for route in routes] == ["suits", "suits", "ability"]


LISTED = """Opening: Sleep is a habit.
Sections: Keep one bedtime | Keep it dark | No coffee after noon
Shared: none
Closing: Start tonight."""
TIPS = {
    r'" \| "': "## Keep it dark\nDark is good.\n\n## No coffee after noon\n\nIt stays for hours.",
    '"Keep one bedtime"': "1. **Keep one bedtime**: It helps.\n\nSo do it.",
    "": "Sleep more.",
}


def ask_for_list(question: str, plan: str = LISTED, **options: object) -> tuple[Answer, ScriptedBackend]:
    backend = ScriptedBackend({"You plan the answer": plan, **TIPS})
    with Stretto(backend) as stretto:
        return stretto.ask(question, strategy="skeleton", **options), backend


@pytest.mark.parametrize(
    ("question", "marks", "indent"),
    [
        ("Give me three tips for sleeping better. In 150 words.", ("1.", "2.", "3."), "   "),
        ("Dame tres consejos para dormir mejor. En 150 palabras.", ("1.", "2.", "3."), "   "),
        ("Write a bulleted list of ways to sleep better. In 150 words.", ("-", "-", "-"), "  "),
    ],
)
def test_a_list_that_was_asked_for_has_no_headings_and_is_numbered_by_the_library(question, marks, indent):
    one, two, three = marks
    answer, backend = ask_for_list(question)
    assert answer.text == (
        f"Sleep is a habit.\n\n{one} **Keep one bedtime**: It helps.\n\n{indent}So do it.\n{two} **Keep it dark**: "
        f"Dark is good.\n{three} **No coffee after noon**: It stays for hours.\n\nStart tonight."
    )
    assert [branch.heading for branch in answer.sections] == [
        "Keep one bedtime",
        "Keep it dark",
        "No coffee after noon",
    ]
    assert (len(backend.calls), answer.warnings) == (3, ())


def test_a_plan_with_too_few_items_becomes_an_answer_in_one_piece_and_one_with_too_many_is_cut():
    answer, _ = ask_for_list("Give me five tips for sleeping better.")
    assert answer.text == "Sleep is a habit.\n\nSleep more."
    assert [warning.code for warning in answer.warnings] == ["strategy"]
    more = LISTED.replace("noon\n", "noon | Get up | Eat early\n")
    answer, _ = ask_for_list("Give me three tips for sleeping better. In 150 words.", more)
    assert [branch.index for branch in answer.sections] == [1, 2, 3]


def test_an_item_that_is_missing_leaves_no_gap_in_the_numbers():
    failed = {
        '"Keep one bedtime"': Reply("", fault=ServerFailedError("x")),
        "": Reply("", fault=ServerFailedError("x")),
    }
    backend = ScriptedBackend({"You plan the answer": LISTED, **TIPS, **failed})
    with Stretto(backend) as stretto:
        answer = stretto.ask("Give me three tips for sleeping. In 150 words.", strategy="skeleton", on_missing="omit")
    assert "1. **Keep it dark**: Dark is good.\n2. **No coffee after noon**" in answer.text


@pytest.mark.leaping
async def test_items_start_once_all_names_are_there_and_the_opening_is_read_before():
    late = Reply(chunks=[LISTED[: LISTED.index("Shared")], LISTED[LISTED.index("Shared") :]], chunk_delay_s=60)
    backend = ScriptedBackend({"You plan the answer": late, **TIPS})
    text = ""
    with anyio.move_on_after(5):
        async with (
            AsyncStretto(backend) as stretto,
            stretto.stream("Give me three tips for sleeping. In 150 words.", strategy="skeleton") as stream,
        ):
            async for event in stream:
                text += event.text if event.type == "text_delta" else ""
                if text.endswith("It stays for hours."):
                    break
    assert text.startswith("Sleep is a habit.\n\n1. **Keep one bedtime**: It helps.")
    assert text.endswith("It stays for hours.")


class SlowToEnd(ScriptedBackend):
    """A server whose stream takes some turns of the loop to end, as those of HTTP do."""

    @asynccontextmanager
    async def stream(self, prompt, options):
        async with super().stream(prompt, options) as chunks:
            try:
                yield chunks
            finally:
                with anyio.CancelScope(shield=True):
                    for _ in range(20):
                        await anyio.lowlevel.checkpoint()


def test_what_a_broken_off_plan_held_of_the_budget_is_free_for_the_straight_answer():
    script = {"You plan the answer": Reply(chunks=["Clean it. "] * 400), QUESTION: "Oil the chain."}
    with Stretto(SlowToEnd(script)) as stretto:
        answer = stretto.ask(QUESTION, strategy="skeleton", budget=Budget(max_tokens_total=1500))
    assert "Oil the chain." in answer.text
    assert answer.strategy == "direct"


def test_an_opening_that_was_shown_stays_where_the_budget_ends_behind_it():
    script = {"You plan the answer": "Clean it. " * 400, QUESTION: "Oil the chain."}
    with Stretto(ScriptedBackend(script)) as stretto:
        answer = stretto.ask(QUESTION, strategy="skeleton", budget=Budget(max_tokens_total=800))
    assert answer.text.startswith("Clean it. Clean it.")
    assert answer.finish_reason == "budget"
    assert "budget" in [warning.code for warning in answer.warnings]
