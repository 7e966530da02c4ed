"""The merged answer as it is being written, and which branch is writing."""

import asyncio

from stretto import AsyncStretto, BranchStarted, TextDelta


async def main() -> None:
    """Stream one answer."""
    async with AsyncStretto() as stretto, stretto.stream("How do I look after a bicycle?") as events:
        async for event in events:
            if isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
            elif isinstance(event, BranchStarted):
                print(f"<{event.branch_id}>", end="", flush=True)
    print("\n", events.answer.usage)


asyncio.run(main())
