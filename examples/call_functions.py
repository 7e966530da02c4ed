"""Functions that the model calls: at the same time, as soon as it has asked for each. Runs without a key.

A scripted model asks for three forecasts here. Put ``AsyncStretto("openai:gpt-5.4-mini")`` in its place.
"""

import asyncio
import time

from stretto import AsyncStretto, ToolCall, ToolFinished, ToolStarted
from stretto.extending import Capabilities
from stretto.testing import Reply, ScriptedBackend

CALLS = [
    ToolCall(id=f"call-{number}", name="forecast", arguments=f'{{"town": "{town}"}}')
    for number, town in enumerate(("Bergen", "Oslo", "Atlantis"))
]
MODEL = ScriptedBackend(
    {"": [Reply("I will look.", tool_calls=CALLS), "Bergen: rain. Oslo: sun. There is no forecast for Atlantis."]},
    capabilities=Capabilities(tools=True),
)


async def forecast(town: str) -> str:
    """The weather of a town tomorrow.

    Args:
        town: its name, without the country.
    """
    await asyncio.sleep(0.5)  # what a service takes
    return {"Bergen": "rain", "Oslo": "sun"}[town]


async def main() -> None:
    """Ask once, and show what happens when."""
    question = "Where do I need an umbrella?"
    async with AsyncStretto(MODEL) as stretto, stretto.stream(question, tools=[forecast]) as events:
        began = time.perf_counter()
        async for event in events:
            seconds = time.perf_counter() - began
            if isinstance(event, ToolStarted):
                print(f"{seconds:4.1f} s  {event.branch_id} calls {event.call.name}({event.call.arguments})")
            elif isinstance(event, ToolFinished):
                print(f"{seconds:4.1f} s  {event.branch_id} {'fails' if event.is_error else 'gives'}: {event.result}")
    print(events.answer.text, *events.answer.warnings, sep="\n")


asyncio.run(main())
