"""Log records as lines of JSON: what they hold, and what they never hold."""

import io
import json
import logging

import pytest

from stretto import AsyncStretto, ServerFailedError, Settings, SettingsError, log_json
from stretto.testing import Reply, ScriptedBackend

pytestmark = pytest.mark.anyio

QUESTION = "Where is the treasure buried?"


@pytest.fixture
def lines():
    """Reads the lines that were logged so far."""
    logger, stream = logging.getLogger("stretto"), io.StringIO()
    level = logger.level
    handler = log_json(stream, "debug")
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.removeHandler(handler)
    logger.setLevel(level)


async def ask(reply, **settings):
    async with AsyncStretto(ScriptedBackend({"": reply}), settings=Settings(**settings)) as stretto:
        return await stretto.ask(QUESTION, strategy="direct")


async def test_an_answer_is_one_line_with_its_figures(lines):
    answer = await ask("Under the oak.")
    [line] = [line for line in lines() if line.get("event") == "answered"]
    assert line["model"] == "scripted:model"
    assert line["strategy"] == "direct"
    assert line["completion_tokens"] == answer.usage.completion_tokens
    assert line["level"] == "info"
    assert line["time"].endswith("+00:00")
    assert "treasure" not in json.dumps(lines())
    assert "oak" not in json.dumps(lines())


async def test_parts_that_were_cut_are_named(lines):
    await ask(Reply("Under the", finish_reason="length"))
    [line] = [line for line in lines() if line.get("event") == "answered"]
    assert (line["cut_branches"], line["failed_branches"]) == (["direct"], [])


async def test_questions_and_answers_are_logged_where_that_is_set(lines):
    await ask("Under the oak.", log_text=True)
    [line] = [line for line in lines() if line.get("event") == "answered"]
    assert (line["question"], line["answer"]) == (QUESTION, "Under the oak.")


@pytest.mark.parametrize("text", [False, True])
async def test_a_failure_is_logged_by_its_kind(lines, text):
    with pytest.raises(ServerFailedError):
        await ask(Reply(fault=ServerFailedError("it choked on the treasure")), log_text=text)
    [line] = [line for line in lines() if line.get("event") == "failed"]
    assert (line["error"], line["level"]) == ("ServerFailedError", "info")
    assert ("treasure" in json.dumps(line)) == text


def test_keys_are_taken_out_of_messages_and_tracebacks(lines):
    try:
        int("Bearer abc123def456ghi")
    except ValueError:
        logging.getLogger("stretto.any").exception("refused %s", "sk-proj-1234567890abcdef")
    [line] = lines()
    assert "abc123def" not in line["exception"]
    assert "1234567890" not in line["message"]


def test_a_message_with_line_ends_stays_one_line(lines):
    logging.getLogger("stretto.any").info('one\ntwo\u2028"three"\x1b[2J')
    [line] = lines()
    assert line["message"] == 'one\ntwo\u2028"three"\x1b[2J'


def test_another_level_is_an_error():
    with pytest.raises(SettingsError, match=r"'loud'.*debug, info"):
        log_json(level="loud")
