"""What a strategy is: something that turns one request into branches and one merged text."""

from __future__ import annotations

from typing import Protocol

from stretto.request import Request
from stretto.route import Route
from stretto.strategies.fan_out import FanOut


class Strategy(Protocol):
    """Plans branches. Task groups, retries and providers are not its business."""

    @property
    def name(self) -> str:
        """The name a caller asks for it by."""
        ...

    async def run(self, request: Request, route: Route, runner: FanOut) -> None:
        """Start branches on the runner and add them to its merge; return once the merge is finished."""
        ...
