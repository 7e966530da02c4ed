"""What the tests of the strategies share: an answer with its events, and what a prompt says."""

from stretto import AsyncStretto


async def streamed(backend, question, **request):
    """The answer and its events; their texts are the answer's, and no call is left behind."""
    async with AsyncStretto(backend) as stretto:
        async with stretto.stream(question, **request) as stream:
            events = [event async for event in stream]
        assert "".join(event.text for event in events if event.type == "text_delta") == stream.answer.text
        assert backend.running == 0
        return stream.answer, events


def text_of(prompt):
    return "\n".join(message.content for message in prompt.messages)
