"""How answers about documents end for clients of the server, who know the words of their own API only."""

import pytest
from live_server import in_front_of

from stretto.testing.server import Fault, HttpReply

pytestmark = pytest.mark.anyio
TEXT = "\n\n".join(f"Paragraph {number} tells of rivers, stones and gardens." for number in range(9_000))
ASKED = [{"role": "user", "content": "What is the code of Berta?"}]
TOLD = {"strategy": "document", "documents": [{"text": TEXT, "title": "report"}]}
NOTHING = '{"record": {"no_information": true}}'
INVENTED = "The code of Berta is 777."


def reader(received):
    return HttpReply(NOTHING if '"no_information"' in received.prompt else INVENTED)


@pytest.mark.thorough
async def test_nothing_found_is_a_whole_answer_in_every_api():
    async with in_front_of(reader) as live, live.openai() as openai, live.anthropic() as anthropic:
        body = {"stretto": TOLD}
        chat = await openai.chat.completions.create(model="stretto", messages=ASKED, extra_body=body)
        response = await openai.responses.create(model="stretto", input=ASKED, extra_body=body)
        message = await anthropic.messages.create(model="stretto", messages=ASKED, max_tokens=400, extra_body=body)
    said = "The documents do not tell it."
    assert (chat.choices[0].message.content, chat.choices[0].finish_reason) == (said, "stop")
    assert (response.output_text, response.status) == (said, "completed")
    assert (message.content[0].text, message.stop_reason) == (said, "end_turn")
    for each in (chat, response, message):
        assert each.stretto["finish_reason"] == "nothing_found"
        assert "unread" in [warning["code"] for warning in each.stretto["warnings"]]


async def test_documents_that_were_mostly_not_read_end_with_length():
    calls = 0

    def failing(received):
        nonlocal calls
        if '"no_information"' not in received.prompt:
            return HttpReply("Rivers [1].")
        calls += 1
        quote = '{"record": {"evidence": ["rivers, stones and gardens"], "answer": "Rivers.", "confidence": 5}}'
        return HttpReply(quote) if calls == 1 else HttpReply("", fault=Fault("status", status=400))

    async with in_front_of(failing) as live, live.openai() as openai:
        chat = await openai.chat.completions.create(model="stretto", messages=ASKED, extra_body={"stretto": TOLD})
    assert chat.choices[0].finish_reason == "length"
    assert chat.stretto["finish_reason"] == "incomplete"


@pytest.mark.thorough
@pytest.mark.leaping
async def test_a_deadline_while_documents_are_read_is_a_timeout():
    slow = HttpReply("{}", time_to_first_token_s=600)
    async with in_front_of(lambda _: slow) as live, live.http() as http:
        told = {"model": "stretto", "messages": ASKED, "stretto": TOLD | {"deadline_s": 1.5}}
        answered = await http.post("/v1/chat/completions", json=told)
    assert answered.status_code == 504
