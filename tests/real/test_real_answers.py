"""Answers of SmolLM2 by each strategy. What it writes is often poor; these hold however poor it is."""

import pytest

from stretto import Budget, StrettoError

pytestmark = pytest.mark.anyio

ADVICE = "How do I look after a bicycle?"
REVIEWS = (
    "Classify each review as positive or negative:\n- Great tent.\n- The zip broke.\n- Would buy again.\n- It smells."
)
LETTER = (
    "Dear Berta, the meeting is on the fourth of May at noon. Please bring the blue folder. " * 3
    + "The door code is 4471. "
    + "We will talk about the garden, the fence and the well. " * 3
)
CALLS = 8
BUDGET = Budget(max_calls=CALLS, max_tokens_total=800)
QUESTIONS = {
    "direct": {"prompt": ADVICE, "strategy": "direct", "max_tokens": 60},
    "skeleton": {"prompt": ADVICE, "strategy": "skeleton"},
    "document": {"prompt": "What is the door code?", "strategy": "document", "documents": [LETTER]},
}


@pytest.mark.parametrize("name", QUESTIONS)
async def test_an_answer_is_what_was_streamed_and_leaves_nothing_running(llamacpp, name):
    question = dict(QUESTIONS[name])
    async with llamacpp.client() as stretto:
        async with stretto.stream(question.pop("prompt"), temperature=0, budget=BUDGET, **question) as stream:
            streamed = [text async for text in stream.text()]
        answer = stream.answer
    assert "".join(streamed) == answer.text
    assert answer.text.strip()
    assert answer.finish_reason in ("stop", "length", "budget")
    assert 1 <= answer.usage.calls <= CALLS
    assert answer.usage.completion_tokens > 0
    assert answer.strategy in (name, "direct")
    assert answer.strategy == name or answer.warnings  # a change of plan is told
    assert llamacpp.busy_slots() == 0


async def test_what_is_no_label_is_not_delivered_as_one(llamacpp):
    said, refused = [], ""
    async with llamacpp.client() as stretto:
        try:
            answer = await stretto.ask(REVIEWS, strategy="items", temperature=0, budget=BUDGET)
            said = [branch.text for branch in answer.branches if branch.kind == "item" and branch.status == "finished"]
        except StrettoError as error:
            refused = str(error)
    assert all(text.strip(" .*").casefold() in ("positive", "negative") for text in said)
    assert said or answer.strategy == "direct" if not refused else "positive, negative" in refused
