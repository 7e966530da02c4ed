"""A Ray cluster on this machine, with the server and two replicas of the pocket model."""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import openai
from patience import patience

# Ray reads these when it is imported. On a busy machine its proxy takes longer to start than the 5 s it is given.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "120",
}

from ray import serve
from ray.exceptions import RayError

from stretto.integrations.ray_serve import RayBackend, RayOptions


@dataclass
class Cluster:
    """What a test needs of an application that runs."""

    port: int
    name: str
    options: RayOptions

    @property
    def engines(self):
        return serve.get_deployment_handle("engine", app_name=self.name)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/{'' if self.name == 'main' else self.name}".rstrip("/")

    def openai(self):
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0)

    async def backend(self):
        return await RayBackend.of(self.engines, self.options.model, self.options.concurrent_calls)

    async def replicas(self) -> list[dict[str, Any]]:
        return await self.engines.broadcast("describe").results_async()

    async def until(self, wanted):
        """The replicas, as soon as they are as wanted."""
        with anyio.fail_after(patience(100)):
            while True:
                with anyio.move_on_after(10), suppress(RayError):  # of one that has just died
                    if wanted(found := await self.replicas()):
                        return found
                await anyio.sleep(0.2)
