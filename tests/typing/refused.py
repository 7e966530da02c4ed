"""What must not type-check. mypy warns of an ignore that is not needed, so an accepted line fails `make types`."""

from pathlib import Path

from stretto import AsyncStretto, Hooks, Request, Route, Stretto
from stretto.extending import Capabilities, Chunk
from stretto.testing import ScriptedBackend, check_backend


async def misspelt(stretto: AsyncStretto) -> None:
    await stretto.ask("Why?", temprature=0.3)  # type: ignore[call-arg]  # misspelt
    await stretto.route("Why?", strateg="direct")  # type: ignore[call-arg]  # misspelt
    async with stretto.stream("Why?", max_token=3):  # type: ignore[call-arg]  # misspelt
        pass


async def wrong_types(stretto: AsyncStretto) -> None:
    await stretto.ask("Why?", strategy=3)  # type: ignore[arg-type]  # a name or a strategy
    await stretto.ask("Why?", max_tokens="x")  # type: ignore[arg-type]  # a number
    await stretto.ask("Why?", preference="best")  # type: ignore[arg-type]  # one of three words
    await stretto.ask("Why?", documents=[3])  # type: ignore[list-item]  # texts, paths or documents
    await stretto.ask("Why?", budget={"max_calls": 3})  # type: ignore[arg-type]  # a Budget
    await stretto.ask(7)  # type: ignore[arg-type]  # a text or messages


def synchronous(stretto: Stretto) -> None:
    stretto.ask("Why?", temprature=0.3)  # type: ignore[call-arg]  # misspelt
    stretto.route("Why?", max_tokens="x")  # type: ignore[arg-type]  # a number
    with stretto.stream("Why?", strategy=3):  # type: ignore[arg-type]  # a name or a strategy
        pass
    Request.of("Why?", temprature=0.3)  # type: ignore[call-arg]  # misspelt


def clients() -> None:
    Stretto(wrong=3)  # type: ignore[call-arg]  # no such argument
    AsyncStretto("openai:gpt-5.4-mini", apikey="...")  # type: ignore[call-arg]  # misspelt
    AsyncStretto("openai:gpt-5.4-mini", fallback=3)  # type: ignore[arg-type]  # a model
    Stretto(roles={"judge": 3})  # type: ignore[dict-item]  # models
    Stretto(strategies=[object()])  # type: ignore[list-item]  # strategies
    Stretto(templates=Path("prompts"), base_url=3)  # type: ignore[arg-type]  # a text
    Hooks(on_rout=print)  # type: ignore[call-arg]  # misspelt
    Hooks(on_route=lambda route: route.wrong)  # type: ignore[attr-defined]  # a Route has no such field


class Half:
    """Neither a backend nor a strategy: it lacks most of both."""

    name = "own:half"
    capabilities = Capabilities()

    async def run(self, route: Route) -> Chunk:
        return Chunk(route.reason)


async def unfinished() -> None:
    AsyncStretto(Half())  # type: ignore[arg-type]  # not a backend
    await check_backend(Half())  # type: ignore[arg-type]  # not a backend
    await AsyncStretto(ScriptedBackend({})).ask("Why?", strategy=Half())  # type: ignore[arg-type]  # not a strategy
