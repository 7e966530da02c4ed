"""Answers that fork where their model says so, over a real server that goes on where a text stops."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest

from stretto import Answer, AsyncStretto, BranchDelta, BranchStarted, InvalidRequestError, TextDelta
from stretto.backends.base import Capabilities
from stretto.strategies.research.forking.fork_reading import Prose, fork_in, forms
from stretto.testing import Reply, ScriptedBackend
from stretto.testing.server import HttpReply, ReceivedRequest, ScriptedServer

pytestmark = pytest.mark.anyio

QUESTION = "How do I look after a bicycle?"
TITLES = ("Check the tyres", "Oil the chain")
TEXTS = ("Press them; they should be firm.", "A drop on each link is enough.")
MULTIVERSE = (
    "Two things keep it going.\n\n<Parallel>\n<Goal>\n<Outline>\n1: Check the tyres\n</Outline>\n"
    "<Outline>\n2: Oil the chain\n</Outline>\n</Goal>"
)
SHOWN = (
    "Two things keep it going.\n\nPress them; they should be firm.\n\nA drop on each link is enough.\n\nThat is all."
)


class Continuing:
    """A model that goes on with a text: what it says behind each end of it, tags included, up to a stop text."""

    def __init__(self, *said: tuple[str, str], finish: str = "stop") -> None:
        self.said, self.finish = said, finish

    def __call__(self, received: ReceivedRequest) -> HttpReply:
        last = received.body["messages"][-1]
        written = last["content"] if last["role"] == "assistant" else ""
        text = next((text for end, text in self.said if written.endswith(end) and bool(written) == bool(end)), "")
        cuts = [at for stop in received.body.get("stop", ()) if (at := text.find(stop)) >= 0]
        return HttpReply(text[: min(cuts, default=len(text))], finish=self.finish)


def server(*said: tuple[str, str], finish: str = "stop", **how: float) -> ScriptedServer:
    pages = {
        "/v1/models": {"object": "list", "data": [{"id": "forker", "owned_by": "vllm", "max_model_len": 8_000}]},
        "/metrics": "",
        "/version": {"version": "0.14.0"},
    }
    return ScriptedServer(Continuing(*said, finish=finish), pages=pages, **how)


TWO_PATHS = (
    ("", MULTIVERSE),
    ("<Path>\n1:", f" {TEXTS[0]}\n</Path>"),
    ("<Path>\n2:", f" {TEXTS[1]}\n</Path>"),
    ("<Conclusion>", "\nThat is all.\n</Conclusion>\n</Parallel>"),
)


async def asked(scripted: ScriptedServer, **request: object) -> tuple[Answer, list[object]]:
    async with (
        scripted,
        AsyncStretto("vllm:forker", base_url=scripted.openai_url) as stretto,
        stretto.stream(QUESTION, strategy="forking", **request) as events,
    ):
        seen = [event async for event in events]
    answer = seen[-1].answer
    assert "".join(event.text for event in seen if isinstance(event, TextDelta)) == answer.text
    return answer, seen


async def test_the_paths_of_a_fork_are_written_side_by_side_and_joined():
    scripted = server(*TWO_PATHS)
    answer, seen = await asked(scripted)
    assert (answer.text, answer.strategy, answer.warnings) == (SHOWN, "forking", ())
    points = [branch for branch in answer.branches if branch.kind == "section"]
    assert [point.heading for point in points] == list(TITLES)
    assert answer.usage.calls == 4
    started = [event.heading for event in seen if isinstance(event, BranchStarted) and event.kind == "section"]
    assert started == list(TITLES)
    assert {event.branch_id for event in seen if isinstance(event, BranchDelta)} == {b.id for b in answer.branches}


async def test_each_call_goes_on_with_the_text_before_it():
    scripted = server(*TWO_PATHS)
    await asked(scripted, strategy_options={"extra": {"skip_special_tokens": False}})
    first, *others = (request.body for request in scripted.requests)
    assert all(body["skip_special_tokens"] is False for body in (first, *others))
    assert first["messages"][-1]["role"] == "user"
    assert "continue_final_message" not in first
    begun = [body["messages"][-1]["content"] for body in others]
    assert all(body["continue_final_message"] and not body["add_generation_prompt"] for body in others)
    assert {text.removeprefix(MULTIVERSE) for text in begun[:2]} == {"\n<Path>\n1:", "\n<Path>\n2:"}
    assert begun[2].endswith(f"\n<Path>\n2: {TEXTS[1]}\n</Path>\n<Conclusion>")


@pytest.mark.parametrize("join", ["read", "behind", "beside"])
async def test_a_local_model_is_told_where_the_paths_are(join):
    said = {end: text.partition("\n</Path>")[0] for end, text in TWO_PATHS[1:]} | {
        "": MULTIVERSE.removesuffix("</Goal>")
    }

    def continued(prompt):
        last = prompt.messages[-1]
        return Reply(
            chunks=[next(text for end, text in said.items() if (end and last.content.endswith(end)) or not end)]
        )

    backend = ScriptedBackend(continued, capabilities=Capabilities(continues=True))
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask(QUESTION, strategy="forking", strategy_options={"join": join})
    *before, last = (prompt for prompt, _ in backend.calls)
    assert answer.text == SHOWN
    assert not any(prompt.paths for prompt in before)
    if join == "read":
        assert last.paths == ()
        return
    [fork] = last.paths
    text = last.messages[-1].content
    assert text[: fork.begin] == MULTIVERSE
    assert [text[at:end] for at, end in pairwise((fork.begin, *fork.ends))] == [
        f"\n<Path>\n{number}: {said}\n</Path>" for number, said in enumerate(TEXTS, 1)
    ]
    assert fork.beside == (join == "beside")


@pytest.mark.leaping
async def test_both_paths_are_asked_for_before_either_is_answered():
    scripted = server(*TWO_PATHS, time_to_first_token_s=0.5)
    await asked(scripted)
    begun = re.compile(r"<Path>\n\d:$")
    first, second = (each for each in scripted.requests if begun.search(each.body["messages"][-1]["content"]))
    assert second.arrived_s < first.ended_s


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "threadweaver",
            (
                ("", MULTIVERSE.replace("Goal>", "Outlines>")),
                ("<Thread>\n1:", f" {TEXTS[0]}\n</Thread>"),
                ("<Thread>\n2:", f" {TEXTS[1]}\n</Thread>"),
                ("</Parallel>", "\nThat is all."),
            ),
        ),
        (
            "pasta",
            (
                (
                    "",
                    'Two things keep it going.\n\n<promise topic="Check the tyres" tokens="9" />\n\n'
                    '<promise topic="Oil the chain" tokens="9" /><sync/>',
                ),
                ('tyres">', f"{TEXTS[0]}</async>"),
                ('chain">', f"{TEXTS[1]}</async>"),
                ("</async>", "\nThat is all."),
            ),
        ),
    ],
)
async def test_other_forms_of_tags_are_read_by_the_same_interpreter(name, said):
    for options in ({}, {"tags": name}):
        answer, _ = await asked(server(*said), strategy_options=options)
        assert answer.text == SHOWN
        assert [branch.heading for branch in answer.branches if branch.kind == "section"] == list(TITLES)


async def test_an_opening_tag_that_announces_nothing_is_shown():
    said = (
        (
            "",
            'Write <promise in HTML.\n\n<promise topic="Check the tyres" /> Then <promise again.\n\n'
            '<promise topic="Oil the chain" /><sync/>',
        ),
        ('tyres">', f"{TEXTS[0]}</async>"),
        ('chain">', f"{TEXTS[1]}</async>"),
    )
    answer, _ = await asked(server(*said))
    assert answer.text == f"Write <promise in HTML.\n\n{TEXTS[0]}\n\nThen <promise again.\n\n{TEXTS[1]}"
    assert [branch.heading for branch in answer.branches if branch.kind == "section"] == list(TITLES)


@pytest.mark.parametrize(
    "text",
    [
        "Use <Parallel> in HTML.",
        "A <Parallel>\n<Goal>\n<Outline>\n1: Alone\n</Outline>\n</Goal> and more.",
        "A <Parallel><Goal><Outline>1: One</Outline><Outline>1: Twice</Outline></Goal> and more.",
        "A <Parallel><Goal><Outline>1: One<Outline>2: Open</Goal> and more.",
        "A <Parallel><Goal>" + "<Outline>x: Many</Outline>" * 40 + "</Goal> and more.",
        "A <Parallel><Goal><Outline><b></Outline><Outline>2: Two</Outline></Goal> and more.",
        "A <promise topic='none'/> and </Goal> and <sync/>",
    ],
)
async def test_malformed_tags_are_text_like_any_other(text):
    """The model is asked for the rest where a tag stopped it, and nothing of what it wrote is lost."""
    cut = re.split("</Goal>|<sync/>", text)[0]
    answer, _ = await asked(server(("", text), (cut.rstrip(), text[len(cut) :])))
    assert "".join(answer.text.split()) == "".join(text.split())
    assert not [branch for branch in answer.branches if branch.kind == "section"]


async def test_forks_inside_paths_are_followed_down_to_the_depth():
    inner = "First.\n<Parallel><Goal><Outline>1: Ein</Outline><Outline>2: Zwei</Outline></Goal>"
    said = (
        ("", MULTIVERSE),
        (f"{MULTIVERSE}\n<Path>\n1:", inner),
        (f"{inner}\n<Path>\n1:", "eins</Path>"),
        (f"{inner}\n<Path>\n2:", "zwei</Path>"),
        (f"{MULTIVERSE}\n<Path>\n2:", f"{TEXTS[1]}</Path>"),
        ("zwei\n</Path>\n<Conclusion>", "done</Conclusion></Parallel></Path>"),
        ("<Conclusion>", "That is all.</Conclusion></Parallel>"),
    )
    answer, _ = await asked(server(*said))
    assert answer.text == f"Two things keep it going.\n\nFirst.\n\neins\n\nzwei\n\ndone\n\n{TEXTS[1]}\n\nThat is all."
    flat, _ = await asked(server(*said), strategy_options={"depth": 1})
    assert "<Outline>" in flat.text
    assert len([branch for branch in flat.branches if branch.kind == "section"]) == 2


async def test_a_path_that_wants_to_fork_when_no_forks_are_left_is_written_to_its_end():
    """Its call was told to stop there, because a fork was left when it began."""
    written = "<Parallel><Goal><Outline>1: Ein</Outline><Outline>2: Zwei</Outline>"
    inner = f"{written}</Goal>"
    said = (
        ("", MULTIVERSE),
        (f"{MULTIVERSE}\n<Path>\n1:", f"First.\n{inner}"),
        (f"First.\n{inner}\n<Path>\n1:", "eins</Path>"),
        (f"First.\n{inner}\n<Path>\n2:", "zwei</Path>"),
        (f"{MULTIVERSE}\n<Path>\n2:", f"Second.\n{inner} and what follows.</Path>"),
        (f"Second.\n{written}", "</Goal> and what follows.</Path>"),
        ("zwei\n</Path>\n<Conclusion>", "done</Conclusion></Parallel></Path>"),
        ("<Conclusion>", "That is all.</Conclusion></Parallel>"),
    )
    answer, _ = await asked(server(*said), strategy_options={"forks": 2})
    assert answer.text.endswith(f"done\n\nSecond.\n{written}\n\n</Goal> and what follows.\n\nThat is all.")


async def test_tags_behind_a_fork_are_left_out_after_a_malformed_one_too():
    alone = "<Parallel><Goal><Outline>1: Alone</Outline></Goal>"
    said = (
        *TWO_PATHS[:3],
        ("<Conclusion>", f"Then {alone}"),
        (alone.removesuffix("</Goal>"), "</Goal> and more.</Conclusion></Parallel>"),
    )
    answer, _ = await asked(server(*said))
    assert answer.text.endswith("</Goal> and more.")


async def test_an_announcement_that_was_cut_off_is_shown():
    cut = MULTIVERSE.removesuffix("</Goal>")
    answer, _ = await asked(server(("", cut), finish="length"))
    assert answer.text == cut.strip()
    assert answer.usage.calls == 1


async def test_a_model_that_writes_no_tags_answers_in_one_piece():
    answer, _ = await asked(server(("", "Oil it.")))
    assert answer.text == "Oil it."
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_a_server_that_cannot_go_on_with_a_text_answers_straight():
    async with (
        ScriptedServer("Oil it.") as scripted,
        AsyncStretto("openai:any", base_url=scripted.openai_url) as stretto,
    ):
        answer = await stretto.ask(QUESTION, strategy="forking")
    assert answer.text == "Oil it."
    assert [warning.code for warning in answer.warnings] == ["strategy"]


async def test_the_tokens_of_an_answer_are_shared_by_its_paths():
    scripted = server(*TWO_PATHS)
    await asked(scripted, max_tokens=400)
    assert [request.body["max_tokens"] for request in scripted.requests][1:3] == [200, 200]


async def test_an_unknown_form_is_refused():
    with pytest.raises(InvalidRequestError, match="multiverse, threadweaver, pasta"):
        await asked(server(("", "Oil it.")), strategy_options={"tags": "xml"})


async def test_fields_of_a_body_that_are_not_the_callers_are_refused():
    with pytest.raises(InvalidRequestError, match=r"extra= holds 'model', which is the client's"):
        await asked(server(("", "Oil it.")), strategy_options={"extra": {"model": "another"}})


def chunked(text: str, size: int, feed: Callable[[str], str]) -> str:
    return "".join(feed(text[at : at + size]) for at in range(0, len(text), size))


@pytest.mark.parametrize("size", [1, 3, 7, 200])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (MULTIVERSE.removesuffix("</Goal>"), "Two things keep it going."),
        ("a < b, <Par and\n\n", "a < b, <Par and"),
        (" \n x\n</Conclusion>\n</Parallel>\n", "x"),
        ("x <Parallel> y", "x <Parallel> y"),
        (
            "A <promise> is kept.\n" + MULTIVERSE.removesuffix("</Goal>"),
            "A <promise> is kept.\nTwo things keep it going.",
        ),
    ],
)
def test_what_is_shown_does_not_depend_on_the_pieces(text, shown, size):
    prose = Prose(list(forms().values()), 16, lambda: None, ("</Conclusion>", "</Parallel>"))
    assert chunked(text, size, prose.feed) + prose.finish() == shown


def test_a_hostile_text_is_read_in_time_that_grows_with_its_length():
    text = "<Parallel>" + "<Outline>" * 100_000
    assert fork_in(text, list(forms().values()), None, 16) is None
