"""The public face as a caller would type it; checked by mypy, never run."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from stretto import (
    Answer,
    AnswerFinished,
    AsyncStretto,
    Budget,
    CallEnded,
    Catalogue,
    Choice,
    ChoiceDelta,
    DecodingForecast,
    DecodingStats,
    Document,
    Event,
    GenerationOptions,
    Hooks,
    Message,
    RefusalStarted,
    Request,
    RequestOptions,
    RetryPlanned,
    Route,
    Router,
    ServerFailedError,
    Stretto,
    SyncAnswerStream,
    TextDelta,
    ThoughtFinished,
    TokenLogprob,
    ToolCall,
    ToolCallDelta,
    ToolCallFragment,
    Usage,
)
from stretto.extending import (
    AnswerPiece,
    Backend,
    BranchSpec,
    CallPiece,
    Capabilities,
    Case,
    Chunk,
    ModelRequest,
    Offer,
    RemoteBackend,
    Runner,
    Strategy,
    Thought,
)
from stretto.local import FocusOptions, LocalBackend
from stretto.testing import Reply, ScriptedBackend, check_backend


async def asynchronous() -> str:
    async with AsyncStretto("openai:gpt-5-mini", roles={"local": "local:pocket"}) as stretto:
        answer: Answer = await stretto.ask("Why?", strategy="skeleton", deadline_s=3.0)
        local: Answer = await stretto.ask("Why?", decoding="suffix", max_tokens=20)
        whole: Answer = await stretto.ask("Why?", response_format={"type": "array"}, on_missing="raise")
        print(whole.parsed, whole.strategy.upper())
        decoded: DecodingStats | None = local.decoding
        expected: DecodingForecast | None = local.route.decoding_forecast
        scored: list[TokenLogprob] = list((await stretto.ask("Why?", logprobs=2)).logprobs)
        print([(each.token, each.logprob, each.top) for each in scored])
        print(decoded.tokens_per_step if decoded else 1.0, expected.summary if expected else "")
        route: Route = await stretto.route(Request.of("Why?"))
        holds: bool = (await stretto.check(lambda done, whole, what: None)).held["outline"].held
        print(holds)
        async with stretto.stream([{"role": "user", "content": "Why?"}]) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    print(event.text)
                elif event.type == "answer_finished":
                    finished: AnswerFinished = event
        return answer.text + route.reason + str(finished.answer)


async def passed_on() -> list[str]:
    pieces: list[ToolCallFragment] = []
    async with AsyncStretto() as stretto:
        async with stretto.stream(
            "Why?", tools=[{"type": "function"}], tool_choice="auto", n=2, extra={"user": "me"}
        ) as stream:
            async for event in stream:
                if isinstance(event, ToolCallDelta):
                    pieces.append(event.delta)
                elif isinstance(event, ChoiceDelta):
                    print(event.choice, event.text)
                elif isinstance(event, ThoughtFinished):
                    print(event.thought.get("type"))
                elif isinstance(event, RefusalStarted):
                    print(event.type)
        calls: tuple[ToolCall, ...] = stream.answer.tool_calls
        choices: tuple[Choice, ...] = stream.answer.choices
    return [call.name for call in calls] + [choice.text for choice in choices] + [piece.arguments for piece in pieces]


def synchronous() -> str:
    with Stretto(ScriptedBackend({"": Reply("Yes.")})) as stretto:
        with stretto.stream("Why?") as events:
            typed: Iterator[Event] = events
            list(typed)
        with stretto.stream("Why?") as stream:
            named: SyncAnswerStream = stream
            pieces: list[str] = list(named.text())
            whole: Answer = stream.rest()
            print(pieces, whole.text == stream.answer.text)
        return str(stretto.ask("Why?")) + str(stretto.ask("Why?", response_format={"type": "object"}))


class Own:
    """A user's backend."""

    name = "own:model"
    capabilities = Capabilities(context_window=8_000)

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncIterator[AsyncIterator[Chunk]]:
        async with aclosing(self._chunks(prompt, options)) as chunks:
            yield chunks

    async def _chunks(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncGenerator[Chunk, None]:
        yield Chunk(prompt.messages[-1].content[: options.max_tokens])
        yield Chunk(usage=Usage(calls=1), finish_reason="stop")

    async def count_tokens(self, prompt: ModelRequest) -> int:
        return len(prompt.messages)

    async def aclose(self) -> None:
        pass


class OverHttp(RemoteBackend):
    """A user's backend for an API over HTTP."""

    provider = "acme"
    default_url = "https://api.acme.example/v1"
    path = "/generate"
    framing = "lines"
    lacks = frozenset({"seed"})
    takes = frozenset({"tools"})
    capabilities = Capabilities(context_window=8_000)

    def parameters(self, prompt: ModelRequest, options: GenerationOptions) -> dict[str, object]:
        return {"model": self.model, "text": prompt.messages[-1].content, "limit": options.max_tokens}

    def read(self, event: object) -> list[AnswerPiece]:
        call = CallPiece(index=0, name="look", arguments="{}")
        return [AnswerPiece(str(event), thoughts=(Thought("thinking", "thinking", "Hm."),), tool_calls=(call,))]


class BothSides:
    """A user's strategy."""

    name = "both_sides"

    def offer(self, case: Case) -> Offer | None:
        return Offer(confidence=0.9, reason="Because.", forecast=case.direct_forecast) if "?" in case.text else None

    async def run(self, request: Request, route: Route, runner: Runner) -> None:
        prompt = ModelRequest((Message(role="user", content=request.question + route.reason),))
        runner.merge.add_branch(runner.start(BranchSpec("one", "section", lambda _: prompt, request.options)))
        await runner.merge.finish()


async def extended() -> None:
    backend: Backend = Own()
    remote: Backend = OverHttp("small", base_url="http://localhost:8000", api_key="any")
    strategy: Strategy = BothSides()
    calls: list[CallEnded] = []
    retries: list[RetryPlanned] = []
    hooks = Hooks(on_route=print, on_call=calls.append, on_retry=retries.append)
    await check_backend(backend, failing=remote)
    async with AsyncStretto(
        backend,
        roles={
            "small": "openai:gpt-5.4-nano",
            "local": LocalBackend("local:pocket", long_context="focus"),
            "long": LocalBackend("local:./folder", long_context=FocusOptions(chunk=128)),
        },
        strategies=[strategy],
        hooks=hooks,
        router=Router(),
        templates=Catalogue(),
    ) as stretto:
        options: RequestOptions = {"system": "Be kind.", "budget": Budget(max_calls=3), "stop": ["END"]}
        await stretto.ask({"role": "user", "content": "Why?"}, **options)
        await stretto.ask("Why?", strategy=strategy)
        await stretto.ask("Why?", documents="One text.", strategy="both_sides")
        try:
            await stretto.ask("Why?", documents=[Path("a.txt"), Document(text="b", title="B"), "c"])
        except ServerFailedError as error:
            print(error.status)
