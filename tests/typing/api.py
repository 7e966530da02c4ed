"""The public face as a caller would type it; checked by mypy, never run."""

from collections.abc import Iterator

from stretto import (
    Answer,
    AnswerFinished,
    AsyncStretto,
    Decoding,
    DecodingForecast,
    Event,
    Request,
    Route,
    Stretto,
    TextDelta,
    TokenLogprob,
)
from stretto.testing import Reply, ScriptedBackend


async def asynchronous() -> str:
    async with AsyncStretto("openai:gpt-5-mini", local="local:pocket") as stretto:
        answer: Answer = await stretto.ask("Why?", strategy="skeleton", deadline_s=3.0)
        local: Answer = await stretto.ask("Why?", decoding="suffix", max_tokens=20)
        whole: Answer = await stretto.ask("Why?", response_format={"type": "array"}, on_missing="raise")
        print(whole.parsed, whole.strategy.upper())
        decoded: Decoding | None = local.decoding
        expected: DecodingForecast | None = local.route.decoding_forecast
        scored: list[TokenLogprob] = list((await stretto.ask("Why?", logprobs=2)).logprobs)
        print([(each.token, each.logprob, each.top) for each in scored])
        print(decoded.tokens_per_step if decoded else 1.0, expected.said if expected else "")
        route: Route = await stretto.route(Request.of("Why?"))
        async with stretto.stream([{"role": "user", "content": "Why?"}]) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    print(event.text)
                elif event.type == "answer_finished":
                    finished: AnswerFinished = event
        return answer.text + route.cause + str(finished.answer)


def synchronous() -> str:
    with Stretto(ScriptedBackend({"": Reply("Yes.")})) as stretto:
        with stretto.stream("Why?") as events:
            typed: Iterator[Event] = events
            list(typed)
        return str(stretto.ask("Why?")) + str(stretto.ask("Why?", response_format={"type": "object"}))
