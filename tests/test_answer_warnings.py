"""A program can tell what a warning is about, and what cut a part."""

import copy
import json
import pickle
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import get_args

import pytest

from stretto import Answer, AnswerWarning, GenerationOptions, ServerFailedError, Stretto, WarningCode
from stretto.extending import Chunk, ModelRequest
from stretto.testing import Reply, ScriptedBackend

OUTLINE = "1. Clean the frame\n2. Oil the chain\n3. Check the tyres"
QUESTION = "How do I look after a bicycle?"
LOOPING = "Drop by drop along the links, and then wipe it all off with a dry cloth. " + "Turn the crank. " * 40


def by_points(point_2: Reply | str) -> Answer:
    script: dict[str, Reply | str | list[Reply | str]] = {
        "only the outline": OUTLINE,
        'Oil the chain"': point_2,
        "text of point 2": point_2,
        "text of point 1": "Warm water and a soft brush take off the dirt of a whole winter.",
        "text of point 3": "Press them with a thumb; if they give way, pump until they do not.",
    }
    with Stretto(ScriptedBackend(script)) as stretto:
        return stretto.ask(QUESTION, strategy="skeleton", strategy_options={"form": "points"})


def test_a_part_that_a_screen_cut_says_which_one():
    answer = by_points(LOOPING)
    cut = {branch.id: branch.cut_by for branch in answer.branches}
    assert cut["point-2"] == "loop"
    assert {cut[name] for name in ("outline", "point-1", "point-3")} == {None}
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("part_cut", "point-2")]
    assert json.loads(answer.model_dump_json())["branches"][2]["cut_by"] == "loop"


def test_a_missing_part_is_named_by_its_branch():
    answer = by_points(Reply("", fault=ServerFailedError("The server failed (500).")))
    (warning,) = answer.warnings
    assert (warning.code, warning.part) == ("part_missing", "point-2")
    assert (
        warning
        == warning.message
        == str(warning)
        == "Point 2, 'Oil the chain', is incomplete: The server failed (500)."
    )


def test_an_answer_at_its_limit_and_an_option_without_effect():
    with Stretto(ScriptedBackend({"": Reply("one two three", finish_reason="length")})) as stretto:
        answer = stretto.ask("Count.", strategy="direct", decoding="suffix", max_tokens=3)
    assert [(warning.code, warning.part) for warning in answer.warnings] == [("option", None), ("part_cut", "direct")]


def test_what_a_backend_of_the_caller_says_has_the_code_other():
    class Telling(ScriptedBackend):
        @asynccontextmanager
        async def stream(
            self, prompt: ModelRequest, options: GenerationOptions
        ) -> AsyncGenerator[AsyncGenerator[Chunk]]:
            async with super().stream(prompt, options) as chunks:
                yield _late(chunks)

    with Stretto(Telling({"": "Hello."})) as stretto:
        (warning,) = stretto.ask("Hello?").warnings
    assert (warning, warning.code, warning.part) == ("It is late.", "other", None)


async def _late(chunks: AsyncGenerator[Chunk]) -> AsyncGenerator[Chunk]:
    yield Chunk(warnings=("It is late.",))
    async for chunk in chunks:
        yield chunk


def test_the_object_survives_json_copies_and_pickles():
    answer = by_points(LOOPING)
    (warning,) = answer.warnings
    told = answer.model_dump()["warnings"][0]
    assert told == {"code": "part_cut", "message": str(warning), "part": "point-2"}
    for read in (
        Answer.model_validate_json(answer.model_dump_json()).warnings[0],
        copy.deepcopy(warning),
        pickle.loads(pickle.dumps(warning)),  # noqa: S301 - our own bytes, of this line
    ):
        assert (read, read.code, read.part) == (warning, "part_cut", "point-2")


@pytest.mark.parametrize("given", ["A sentence.", {"message": "A sentence.", "code": "of_a_later_release"}])
def test_what_another_release_wrote_is_read(given: object):
    with Stretto(ScriptedBackend({"": "Hello."})) as stretto:
        kept = stretto.ask("Hello?").model_dump(mode="json")
    (warning,) = Answer.model_validate(kept | {"warnings": [given]}).warnings
    assert (warning, warning.code) == ("A sentence.", "other")


def test_every_code_is_documented(request: pytest.FixtureRequest):
    page = (request.config.rootpath / "docs" / "when-an-answer-is-wrong.md").read_text(encoding="utf-8")
    assert [code for code in get_args(WarningCode) if f"| `{code}` |" not in page] == []
    assert AnswerWarning("x").code == "other"
