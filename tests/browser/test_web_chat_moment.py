"""The moments for which people stay: what moves and what does not, how much faster it was, the race, what waits."""

import itertools
import json
import re
import statistics

import anyio
import pytest
from asking import ENDED, POINTS, SKELETON, ask, by_points, held, no_violations

from stretto.testing import Reply, ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

STILL_PX = 8
POINT_1 = "Write point: Tyres"
# Where the question and the first text of point 1 stand, in every frame; for each, the least and the most.
WATCH = """() => {
    window.seen = {question: [], text: []};
    const look = () => {
        const question = document.querySelector("article:last-of-type .asked h2");
        const text = document.querySelector("article:last-of-type .card .text > *");
        if (question) seen.question.push(question.getBoundingClientRect().top);
        if (text?.textContent) seen.text.push(text.getBoundingClientRect().top);
        if (!document.querySelector("article:last-of-type [aria-busy=false]")) requestAnimationFrame(look);
    };
    look();
}"""


def span(places):
    return max(places) - min(places)


@pytest.mark.parametrize("width", [1280, 390])
async def test_who_reads_is_not_moved_while_other_points_are_written(chatting, width):
    words = [f"word{number} " for number in range(120)]
    script = {POINT_1: Reply(chunks=words, chunk_delay_s=0.01), "": Reply(chunks=words, chunk_delay_s=0.02)}
    async with chatting(by_points(POINTS | script), viewport={"width": width, "height": 800}) as page:
        await ask(page, "How do I begin?")  # so that the next question has something above it
        await page.wait_for_selector("#send:enabled")
        await page.evaluate(WATCH.replace("article:last-of-type", "article:nth-of-type(2)"))
        await ask(page)
        await page.wait_for_selector(f"article:nth-of-type(2) {ENDED}")
        seen = await page.evaluate("seen")
        assert len(seen["text"]) > 5
        assert span(seen["text"]) <= STILL_PX
        room = await page.locator("#conversation").bounding_box()
        settled = seen["question"][1:]  # the first frame is before it was sent to the top
        assert span(settled) <= STILL_PX
        assert 0 <= settled[-1] - room["y"] <= 40
        assert settled[-1] == pytest.approx(
            (await page.locator("article:nth-of-type(2) .asked h2").bounding_box())["y"], abs=STILL_PX
        )


# Where the titles of three points stand in the last frame of their cards, and in the first of the settled answer.
SETTLING = """() => {
    const places = (what) => [...document.querySelectorAll(what)].map((each) => each.getBoundingClientRect()).flatMap(
        (box) => [box.x, box.y]);
    const look = () => {
        const cards = places(".card h3");
        if (cards.length === 6) window.before = cards;
        if (document.querySelector("[aria-busy=false]")) window.after = places("ol.points > li > strong");
        else requestAnimationFrame(look);
    };
    look();
}"""


@pytest.mark.parametrize(("width", "columns"), [(1280, 2), (1279, 1)])
async def test_points_become_paragraphs_where_their_cards_were(chatting, width, columns):
    event = anyio.Event()
    script = {"Write point: Brakes": Reply("Written at last.", hold=event), "": "Written at once."}
    viewport = {"width": width, "height": 800}
    async with chatting(by_points(POINTS | script), viewport=viewport, reduced_motion="reduce") as page:
        await page.evaluate(SETTLING)
        await ask(page)
        await page.locator(".card.finished").nth(1).wait_for()  # no text above a title comes later
        event.set()
        await page.wait_for_function("() => window.after")
        before, after = await page.evaluate("[before, after]")
        assert len(after) == 6
        assert max(abs(one - other) for one, other in zip(before, after, strict=True)) <= STILL_PX
        assert len({round(top) for top in after[1::2]}) == -(-3 // columns)  # rows
        assert len({round(left) for left in after[::2]}) == columns
        assert await page.locator("ol.points > li").evaluate_all("(all) => all.map((each) => each.dataset.number)") == [
            *("1", "2", "3")
        ]
        assert await page.evaluate("document.getAnimations().length") == 0


# Of each line of running text but the last, how many characters it has; `mean`: how many pixels wide one is.
LINES = """(mean) => [...document.querySelectorAll(".leaf .text p")].flatMap((each) => {
    const words = each.firstChild, range = document.createRange(), lines = new Map();
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.font = getComputedStyle(each).font;
    each.style.letterSpacing = `${mean - canvas.measureText(words.data).width / words.length}px`;
    for (let at = 0; at < words.length; at += 1) {
        range.setStart(words, at);
        range.setEnd(words, at + 1);
        const {top} = range.getBoundingClientRect();
        lines.set(top, (lines.get(top) ?? 0) + 1);
    }
    return [...lines.values()].slice(0, -1);
})"""
PROSE = "A pump, a rag and some oil are enough for nearly all that goes wrong with a bicycle on a usual day. "


async def test_lines_of_running_text_are_as_long_as_eyes_like_them(chatting):
    async with chatting(ScriptedBackend({"": Reply(chunks=[PROSE * 9])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector(ENDED)
        for width, mean in itertools.product((1280, 1920), (7.64, 8.18)):  # Inter, DejaVu Sans
            await page.set_viewport_size({"width": width, "height": 800})
            lines = await page.evaluate(LINES, mean)
            assert len(lines) > 5
            assert 65 <= statistics.median(lines) <= 80


# Three points of which the last was still written when the page showed them last, and that are complete now: where the
# bars begin and end above the answer and below its titles, and how many colours those above have.
BARS = """async () => {
    const { AnswerView } = await import("/web/answer/view.js");
    const view = new AnswerView("Answer", { room: conversation });
    conversation.replaceChildren(view.root);
    ["Tyres", "Chain", "Brakes"].forEach((title, at) => {
        const told = { branch_id: title, kind: "section", heading: title, index: 1 };
        view.see({ type: "branch_started", ...told });
        const branch = view.branches.get(title);
        Object.assign(branch, { needed: at / 2, started: at / 2, first: 0.1 + at / 2, text: "Fine." });
        if (at < 2) Object.assign(branch, { ended: 1 + at / 2, state: "finished" });
    });
    view.draw();
    Object.assign(view.branches.get("Brakes"), { ended: 2, state: "finished" });
    view.text = "1. **Tyres**: Fine.\\n2. **Chain**: Fine.\\n3. **Brakes**: Fine.";
    view.settle(view.parts, 2);
    const bars = (where) => [...document.querySelectorAll(`${where} .writing`)];
    const ends = (where) => bars(where).map((each) => each.getBoundingClientRect()).flatMap(
        (box) => [box.left, box.right]);
    const colours = new Set(bars(".overview").map((each) => getComputedStyle(each).fill));
    return [ends(".overview"), ends(".points"), colours.size];
}"""


async def test_on_a_phone_all_bars_stand_above_the_answer_as_below_its_titles(chatting):
    async with chatting(by_points(SKELETON), viewport={"width": 390, "height": 844}) as page:
        above, below, colours = await page.evaluate(BARS)
        assert len(above) == 6
        assert above == pytest.approx(below, abs=2)
        assert colours == 1  # all are done


# The axis of a timeline for a room of 350 pixels: its marks, and its ends while time passes.
AXIS = """async () => {
    const { axisEnd, timeline } = await import("/web/answer/timeline.js");
    const row = { name: "Tyres", needed: 0, started: 0.1, first: 0.2, ended: 2 };
    const drawn = timeline([row], 2.1, { axis: 4, room: 350 });
    const ends = [];
    for (let now = 0, end = 4; now < 9; now += 0.1) ends.push((end = axisEnd(now, end)));
    return [[...drawn.querySelectorAll("[text-anchor=start]")].map((each) => each.textContent), [...new Set(ends)]];
}"""


async def test_the_axis_of_a_timeline_stands_still_and_has_marks_on_a_phone(chatting):
    async with chatting(by_points(SKELETON)) as page:
        assert await page.evaluate(AXIS) == [["0 s", "2 s", "4 s"], [4, 8, 16]]


# What a reader sees of a text that is being written, and of one that turns the direction of its words.
SO_FAR = """async (texts) => {
    const { rendered, soFar } = await import("/web/markdown.js");
    return texts.map((text) => rendered(soFar(text)).firstElementChild.innerHTML);
}"""


async def test_bold_words_are_bold_before_their_end_is_written(chatting):
    texts = {
        "Some **Boxes and p": "Some <strong>Boxes and p</strong>",
        "Some **Boxes*": "Some <strong>Boxes</strong>",
        "Some **": "Some ",
        "a ** b": "a ** b",
        "`a **b` c": "<code>a **b</code> c",
        "not \u202eturned": "not turned",
    }
    async with chatting(by_points(SKELETON)) as page:
        assert await page.evaluate(SO_FAR, list(texts)) == list(texts.values())


# An answer that forks, fed into a view: what it says before its fork, and two paths that begin with their own titles.
FORKING = """async () => {
    const { AnswerView } = await import("/web/answer/view.js");
    const room = document.getElementById("conversation");
    const view = new AnswerView("Answer", { room });
    room.replaceChildren(view.root);
    const text = "**Oil the chain**: A drop is enough.";
    view.see({ type: "text", text: "Two things keep it going." });
    for (const id of ["path-1", "path-2"]) {
        view.see({ type: "branch_started", branch_id: id, kind: "section", heading: "Oil the chain", index: 1 });
        view.see({ type: "branch_delta", branch_id: id, text });
    }
    view.see({ type: "text", text });
    view.draw();
    const bars = view.root.querySelectorAll(".card .lane-bar > g").length;
    const shown = view.root.innerText;
    view.end({ stopped: "Stopped." });
    return [shown, bars];
}"""


async def test_what_stands_before_a_fork_stands_above_its_points_and_no_title_twice(chatting):
    async with chatting(by_points(SKELETON)) as page:
        shown, bars = await page.evaluate(FORKING)
        before, title, text, _, *rest = [line for line in shown.split("\n") if line and not line.isdigit()][2:]
        assert before == "Two things keep it going."
        assert (title, text) == ("Oil the chain", "A drop is enough.")
        assert rest[0] == title
        assert shown.count("A drop is enough.") == 2
        assert bars == 2


# The settled form of points under headings: each with what belongs to it, and what follows them all.
HEADED = """async () => {
    const { inColumns, paragraphsOf } = await import("/web/answer/settling.js");
    const { rendered } = await import("/web/markdown.js");
    const body = document.createElement("div");
    const texts = ["One thing.\\n\\n- and more", "Another."];
    const parts = texts.map((text, at) => ({ id: `p${at}`, title: `Title ${at}`, text }));
    const written = parts.map(({ title, text }) => `## ${title}\\n\\n${text}`);
    body.append(rendered([...written, "All in all."].join("\\n\\n")));
    inColumns(paragraphsOf(body, parts), parts);
    const inside = (each, act) => [...each.children].map(act);
    return inside(body, (each) => inside(each, (part) => inside(part, (one) => one.tagName)));
}"""


async def test_points_under_headings_stand_in_columns_with_what_belongs_to_them(chatting):
    async with chatting(by_points(SKELETON)) as page:
        columns, rest = await page.evaluate(HEADED)
        assert columns == [["H4", "P", "UL"], ["H4", "P"]]
        assert rest == []  # text that belongs to none


async def test_the_headline_says_how_long_it_took_and_what_is_estimated(chatting):
    words = Reply(chunks=[f"word{number} " for number in range(40)], chunk_delay_s=0.02)
    async with chatting(by_points(POINTS | {"": words})) as page:
        await ask(page)
        await page.wait_for_selector(".lead >> text=/^About [\\d.]+ times as fast: [\\d.]+ s$/")
        assert re.match(r"In one piece about [\d.]+ s, estimated", await page.inner_text(".detail"))
        assert await page.locator(".both .estimated").count() == 1
        assert "Estimated" in await page.get_attribute(".pulse summary", "title")
        await page.click(".pulse summary")
        await page.locator(".legend li").nth(3).wait_for(state="attached")
        assert "Estimated" in await page.inner_text(".pulse .inside")
        assert "In one piece (estimated)" in await page.text_content(".timeline")
        assert await page.locator(".legend li").count() == 4
        await no_violations(page)


# An answer of two parts that took two seconds each, with what is known of how fast the model writes alone.
ESTIMATED = """async (route) => {
    const { gainOf } = await import("/web/answer/gain.js");
    const branch = (first) => ({ kind: "section", started: 0, first, ended: first + 2, tokens: 100 });
    const { planned, ...known } = route;
    const routed = { stepMs: null, tokenSeconds: null, ...known };
    const plan = { kind: "outline", started: 0, first: 0, ended: 0.285, tokens: planned ?? 0 };
    const branches = [plan, branch(0.1), branch(0.2)];
    return gainOf({ branches, seconds: 2.2, first: 0.1, route: routed })?.onePiece ?? null;
}"""


async def test_the_estimate_of_one_piece_promises_no_more_than_is_known(chatting):
    async with chatting(by_points(SKELETON)) as page:
        known = (
            {},
            {"tokenSeconds": 0.015},
            {"stepMs": 12},
            {"planned": 20},
            {"planned": 3},
            {"stepMs": 12, "planned": 20},
        )
        seen = [await page.evaluate(ESTIMATED, route) for route in known]
        assert seen == pytest.approx([4.1, 3.1, 2.5, 3.1, 4.1, 2.5])
        assert await page.evaluate(ESTIMATED, {"tokenSeconds": 0.001}) is None  # not worth a word


async def test_samples_stand_side_by_side_and_fold_away_behind_the_answer(chatting):
    event = anyio.Event()
    held_samples = [Reply("It is 42.", hold=event)] * 2
    samples = [Reply("It is 42."), Reply("It is 41."), *held_samples, Reply("It is 42.", hold=anyio.Event())]
    async with chatting(ScriptedBackend({"": samples})) as page:
        await ask(page, "How much is 17 and 25?", strategy="consensus")
        await page.wait_for_selector(".others .card:nth-child(2) .state-text >> text=Says: 41")
        tops = await page.locator(".others .card").evaluate_all("(all) => all.map((each) => each.offsetTop)")
        assert len(tops) == 5
        assert tops[0] == tops[1]
        await no_violations(page)
        event.set()
        await page.wait_for_selector(f"{ENDED} .others-of summary >> text=/^5 samples, \\d agree$/")
        assert not await page.is_visible(".others-of .others")
        assert await page.inner_text(".leaf .text") == "It is 42."
        await page.click(".others-of summary")
        assert "It is 41." in await page.inner_text(".others-of .others")
        assert await page.inner_text(".others .card.discarded .state-text") == (
            "It was not needed any more: the vote was decided without it"
        )
        assert await page.locator(".others .card.failed").count() == 0
        await no_violations(page)


async def test_a_comparison_has_two_lanes_from_the_start(chatting):
    backend, event = held()
    async with chatting(backend) as page:
        await page.goto(f"{page.live.url}/?compare")
        await page.wait_for_selector("#model option", state="attached")
        assert await page.is_checked("#compare")
        await page.get_by_role("button", name="See the difference").click()
        await page.wait_for_selector(".card:nth-child(3)")
        assert await page.locator(".sides.two > section").count() == 2
        assert "Starts when the other is done" in await page.inner_text(".lane-waits")
        assert await page.locator(".race .track").count() == 2
        await no_violations(page)
        event.set()
        await page.wait_for_selector(".race .known >> text=Measured:")
        assert "times as" in await page.inner_text(".verdict")
        box = await page.locator(".verdict").bounding_box()
        assert 0 < box["y"] < 300  # where the eyes are


async def test_a_question_that_comes_meanwhile_waits_and_is_sent_then(chatting):
    backend, event = held(brakes="They stop you.")
    async with chatting(backend) as page:
        await ask(page)
        await page.wait_for_selector(".card:nth-child(3)")
        for question in ("And the brakes?", "And the bell?"):
            await page.fill("#question", question)
            await page.press("#question", "Enter")
        await page.wait_for_selector("#queue li:nth-child(2)")
        await no_violations(page)
        await page.get_by_role("button", name="Take back: And the bell?").click()
        assert await page.input_value("#question") == "And the bell?"
        event.set()
        await page.wait_for_selector(f"article:nth-of-type(2) {ENDED}")
        await page.wait_for_selector("#send:enabled")
        assert await page.locator(".asked h2").all_inner_texts() == [
            "How do I look after a bicycle?",
            "And the brakes?",
        ]


async def test_answers_to_one_question_are_turned_over_like_pages(chatting):
    backend = ScriptedBackend({"": ["The first.", "The second.", "To the end."]})
    async with chatting(backend) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector("text=The first.")
        await page.get_by_role("button", name="Retry", exact=True).click()
        await page.wait_for_selector("text=The second.")
        await page.wait_for_selector(".actions .pages >> text=2/2")
        await page.get_by_role("button", name="Previous answer").press("Enter")
        await page.wait_for_selector("text=The first.")
        await ask(page, "And then?", strategy="direct")
        await page.wait_for_selector("text=To the end.")
        assert "The first." in str(backend.calls[-1][0])  # the answer that is shown is what the model is told


# Whether the page is busy as soon as a button stands below an answer.
OFFERED = """() => new MutationObserver((_, observer) => {
    if (!document.querySelector(".retry")) return;
    observer.disconnect();
    setTimeout(() => (window.busy = document.getElementById("send").disabled));
}).observe(document.body, {childList: true, subtree: true})"""


async def test_what_can_be_done_with_an_answer_is_offered_once_it_can_be_done(chatting):
    async with chatting(ScriptedBackend({"": "It rolls."})) as page:
        await page.evaluate(OFFERED)
        await ask(page, strategy="direct")
        await page.wait_for_function("() => window.busy !== undefined")
        assert not await page.evaluate("busy")


MATHS = (
    r"The energy is \(E = mc^2\), it cost $5 and $6, and"
    + "\n\n$$\\frac{1}{3}$$\n\nwhere \\(\\href{javascript:hit=1}{x}\\)."
)


async def test_formulas_are_drawn_and_run_nothing(chatting):
    async with chatting(ScriptedBackend({"": Reply(chunks=[MATHS])})) as page:
        await ask(page, strategy="direct")
        await page.wait_for_selector("section math mfrac")
        assert await page.locator("section math msup").count() == 1
        assert "it cost $5 and $6" in await page.inner_text("section .leaf .text")
        assert await page.locator("section math [href]").count() == 0
        await no_violations(page)


async def test_reasoning_that_a_server_tells_stands_in_a_fold(chatting):
    said = [{"reasoning_content": "First I *think*."}, {"content": "Then I say it."}]
    body = "".join(f"data: {json.dumps({'choices': [{'delta': each}]})}\n\n" for each in said)
    async with chatting(by_points(SKELETON)) as page:
        stream = {"body": body, "content_type": "text/event-stream"}
        await page.route("**/v1/chat/completions", lambda route: route.fulfill(**stream))
        await ask(page, strategy="direct")
        await page.wait_for_selector(f"{ENDED} >> text=Then I say it.")
        assert not await page.is_visible(".thought")
        await page.locator("summary >> text=Reasoning").press("Enter")
        assert await page.inner_text(".thought em") == "think"
        await no_violations(page)


async def test_a_long_paste_becomes_a_document(chatting):
    async with chatting(ScriptedBackend({"": "900 euros."})) as page:
        await page.focus("#question")
        await page.evaluate(
            """() => {
                const data = new DataTransfer();
                data.setData("text/plain", "The rent is 900 euros. ".repeat(1000));
                const how = {clipboardData: data, bubbles: true, cancelable: true};
                question.dispatchEvent(new ClipboardEvent("paste", how));
            }"""
        )
        await page.wait_for_selector("#documents li >> text=The rent is 900")
        assert await page.input_value("#question") == ""
        await ask(page, "What is the rent?", strategy="direct")
        await page.wait_for_selector("text=900 euros.")


async def test_a_conversation_is_renamed_in_its_place(chatting):
    async with chatting(by_points(SKELETON)) as page:
        await ask(page)
        await page.wait_for_selector("#send:enabled")
        await page.locator("#conversations button[aria-label^=Rename]").press("Enter")
        await page.keyboard.type("The bicycle")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#conversations button:text-is('The bicycle')")
        assert await page.inner_text("#conversations h2") == "Today"
        await page.reload()
        await page.wait_for_selector("#conversations button:text-is('The bicycle')")


async def test_the_demonstration_model_is_named_and_greets(chatting):
    backend = by_points(SKELETON, name="local:pocket")
    async with chatting(backend) as page:
        assert "may be wrong" in await page.inner_text("#demonstration")
        await page.fill("#question", "hi!")
        await page.press("#question", "Enter")
        await page.wait_for_selector(".welcome >> text=Hello")
        assert backend.calls == []
        await no_violations(page)


async def test_a_model_that_is_still_being_loaded_is_no_error_in_the_console(chatting):
    written = anyio.Event()
    async with chatting(ScriptedBackend({"": Reply("Hello.", hold=written)})) as page:
        said = []
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.live.service.prepared = False
        await ask(page, "Why?", "direct")
        await page.get_by_text("Loading the model").first.wait_for()
        written.set()
        await page.wait_for_selector(ENDED)
        assert said == []
