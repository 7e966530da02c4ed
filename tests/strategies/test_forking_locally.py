"""Forks on the local engine: the pocket model writes the paths of a fork that was announced for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("torch")

from stretto import AsyncStretto
from stretto.answer import Usage
from stretto.backends.base import Chunk, ModelRequest
from stretto.local import LocalBackend
from stretto.request import GenerationOptions

pytestmark = pytest.mark.anyio

ANNOUNCED = (
    "A bicycle asks for a few minutes a week.\n\n<Parallel>\n<Goal>\n"
    "<Outline>\n1: Check the tyre pressure\n</Outline>\n"
    "<Outline>\n2: Oil the chain\n</Outline>\n"
)


class Announcing(LocalBackend):
    """A local model that announces two paths; whatever else it is asked, it writes itself."""

    def __init__(self) -> None:
        super().__init__("local:pocket", decoding="autoregressive")
        self.asked: list[ModelRequest] = []

    @asynccontextmanager
    async def stream(self, prompt: ModelRequest, options: GenerationOptions) -> AsyncIterator[AsyncIterator[Chunk]]:
        self.asked.append(prompt)
        if prompt.messages[-1].role == "user":
            yield _announced()
            return
        async with super().stream(prompt, options) as chunks:
            yield chunks


async def _announced() -> AsyncIterator[Chunk]:
    yield Chunk(ANNOUNCED)
    yield Chunk(usage=Usage(completion_tokens=40, calls=1), finish_reason="stop", stop_text="</Goal>")


async def test_the_engine_writes_paths_that_share_what_stands_before_them():
    backend = Announcing()
    async with AsyncStretto(backend) as stretto:
        answer = await stretto.ask("How do I look after a bicycle?", strategy="forking", max_tokens=60, temperature=0.0)
    paths = [branch for branch in answer.branches if branch.kind == "point"]
    assert [path.title for path in paths] == ["Check the tyre pressure", "Oil the chain"]
    assert all(path.text.strip() and path.status == "finished" for path in paths)
    assert "<" not in answer.text
    begun = [prompt.messages[-1].content for prompt in backend.asked[1:]]
    assert begun[0] == f"{ANNOUNCED}</Goal>\n<Path>\n1:"
    assert begun[2].startswith(f"{ANNOUNCED}</Goal>\n<Path>\n1:{paths[0].text.rstrip()}\n</Path>")
    # Of what stands before the join, the engine has read all but the last path.
    joined = next(branch for branch in answer.branches if branch.id == "piece-4")
    assert joined.usage.cached_tokens > 60
