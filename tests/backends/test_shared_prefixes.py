"""What the prompts of one answer have in common stands at their beginning, where vLLM and SGLang find it again.

A prefix cache compares prompts token by token from the start. What is counted here is the beginning that the requests
have in common when they arrive at a scripted vLLM, as its chat template lays their messages one after the other.
"""

import re
from itertools import pairwise, takewhile

import pytest
from engines import MODEL, vllm

from stretto import AsyncStretto, Document, Settings

pytestmark = pytest.mark.anyio

QUESTION = "How do I look after a bicycle?"
OUTLINE = "1. Clean the frame\n2. Oil the chain\n3. Check the tyres\n4. Store it dry"
TEXT = "A bicycle has two wheels, a frame, a chain and two brakes, and each of them wants some care. " * 40


def laid_out(received):
    return "".join(f"<{message['role']}>{message['content']}</>" for message in received.body["messages"])


def common(prompts):
    columns = zip(*(laid_out(each) for each in prompts), strict=False)
    return "".join(column[0] for column in takewhile(lambda column: len({*column}) == 1, columns))


async def received_by(replies, *questions, window=40_960, **request):
    async with vllm(replies) as server:
        server._pages["/v1/models"]["data"][0]["max_model_len"] = window
        async with AsyncStretto(f"vllm:{MODEL}", base_url=server.openai_url, settings=Settings()) as stretto:
            answers = [await stretto.ask(question, **request) for question in questions]
    return answers, server.requests


async def test_points_share_the_conversation_the_documents_the_question_and_the_outline():
    def reply(received):
        return OUTLINE if "Write only the outline" in received.prompt else "Some text."

    prompt = [
        {"role": "system", "content": "You know bicycles."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello. What do you want to know?"},
        {"role": "user", "content": QUESTION},
    ]
    (answer,), requests = await received_by(
        reply, prompt, strategy="skeleton", strategy_options={"form": "points"}, documents=TEXT
    )
    outline, *points = requests
    assert (answer.strategy, len(points)) == ("skeleton", 4)
    shared = common(points)
    for part in ("You know bicycles.", "What do you want to know?", TEXT.strip(), f"Question:\n{QUESTION}"):
        assert part in shared
    assert shared.endswith("Outline of the answer:\n1. Clean the frame\n")  # the next was not known to the first
    assert all(len(shared) > 0.85 * len(laid_out(each)) for each in points)
    assert all(len(common(pair)) >= len(shared) for pair in pairwise(points))
    assert f"Question:\n{QUESTION}" in common([outline, *points])


async def test_careful_points_share_the_whole_outline():
    def reply(received):
        return OUTLINE if "Write only the outline" in received.prompt else "Some text."

    _, (_, *points) = await received_by(
        reply, QUESTION, strategy="skeleton", strategy_options={"form": "points"}, preference="careful"
    )
    assert common(points).endswith(f"{OUTLINE}\n\nWrite the text of point ")


@pytest.mark.thorough
async def test_passages_share_all_before_them_and_the_next_question_the_passages_too():
    def reply(received):
        if "fields" in received.prompt:
            return '{"evidence": [], "rationale": "", "answer": "", "confidence": 0, "no_information": true}'
        return "The documents do not tell it."

    text = "\n\n".join(f"# Chapter {number}\n\n{TEXT}" for number in range(8))
    asked = ("What does chapter 3 say of brakes?", "Is the frame of the bicycle red?")
    answers, requests = await received_by(
        reply, *asked, window=4_096, strategy="document", documents=Document(text=text, title="Bicycles")
    )
    first, second = (
        sorted(
            (each for each in requests if f"Question:\n{question}" in each.prompt and "the passage\n" in each.prompt),
            key=lambda each: int(re.findall(r"passage (\d+)", laid_out(each))[-1]),  # they arrive in any order
        )
        for question in asked
    )
    assert len(first) == len(second) > 4
    shared = common(first)
    assert shared.rstrip().endswith("passage")  # up to its number
    assert "the documents, by their headings or first words" in shared
    again = [common(pair) for pair in zip(first, second, strict=True)]
    assert all(both.rstrip().endswith("Question:") for both in again)
    assert all(len(both) > 0.5 * len(laid_out(each)) for both, each in zip(again, first, strict=True))
    assert [answer.strategy for answer in answers] == ["document", "document"]


async def test_points_of_one_answer_name_no_request_or_salt_that_would_part_their_prefixes():
    def reply(received):
        return OUTLINE if "Write only the outline" in received.prompt else "Some text."

    _, requests = await received_by(reply, QUESTION, strategy="skeleton", strategy_options={"form": "points"})
    known = {"model", "messages", "stream", "stream_options", "max_tokens", "temperature", "top_p"}
    assert {name for each in requests for name in each.body} <= known
