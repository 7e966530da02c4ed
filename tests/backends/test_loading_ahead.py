"""Models are loaded ahead where a program says so, and a terminal is told where loading takes long."""

import os
import pty
import sys

import anyio
import pytest
import warm
from patience import patience

from stretto import AsyncStretto, Stretto, StrettoError
from stretto.extending import resilient
from stretto.testing import ScriptedBackend
from stretto.values.errors import ModelNotFoundError

pytestmark = pytest.mark.anyio


async def test_load_loads_the_models_of_a_client_and_asks_nobody(folder):
    other = ScriptedBackend({"": "Hello."})
    with Stretto(f"local:{folder}", roles={"small": other}) as stretto:
        assert stretto.backends["main"].measured() is None
        await anyio.to_thread.run_sync(stretto.load)
        stretto.load()
        assert stretto.backends["main"].measured() is not None
        async with AsyncStretto(other, fallback=[f"local:{folder}"]) as client:
            await client.load()
            assert client.fallback[0].measured() is not None
    assert other.calls == []
    with pytest.raises(StrettoError, match="is closed"):
        await client.load()


class Loads(ScriptedBackend):
    """A backend of one's own with something to load."""

    loaded = 0

    async def load_ahead(self):
        self.loaded += 1


@pytest.mark.parametrize("wrapped", [False, True])
async def test_load_lets_backends_of_ones_own_load_whatever_they_are_called(wrapped):
    backend = Loads({}, name="own:model")
    async with AsyncStretto(resilient(backend) if wrapped else backend) as client:
        await client.load()
    assert backend.loaded == 1


class NotToLoad(ScriptedBackend):
    """A backend that has a method of this name for itself."""

    def load(self):
        raise NotImplementedError


async def test_load_lets_a_method_of_that_name_alone():
    async with AsyncStretto(NotToLoad({}, name="local:own")) as client:
        await client.load()


async def test_load_tells_what_cannot_be_loaded(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    async with AsyncStretto(f"local:{tmp_path}") as client:
        for _ in range(2):
            with pytest.raises(ModelNotFoundError, match="could not be loaded"):
                await client.load()


CODE = """
import sys
from stretto import Settings, Stretto
from stretto.backends.local import loading_notice
loading_notice._AFTER_S = 0
if sys.argv[3] == "notebook":  # its kernel has imported this, and shows standard error in the cell
    sys.modules["ipykernel"] = sys
with Stretto("local:" + sys.argv[1], settings=Settings(progress=sys.argv[2] == "on")) as stretto:
    stretto.load()
    print(len(stretto.ask("Why?", strategy="direct", max_tokens=4).text) > 0)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("progress", "where", "told"),
    [
        ("on", "terminal", 1),
        ("off", "terminal", 0),
        ("on", "file", 0),
        ("on", "notebook", None),
        ("off", "notebook", 0),
    ],
)
def test_a_terminal_and_a_notebook_are_told_what_is_done_while_a_model_is_still_being_loaded(
    folder, tmp_path, progress, where, told
):
    """In one line that changes, or in a line for each change."""
    reader, writer = pty.openpty() if where == "terminal" else os.pipe()
    command = [sys.executable, "-c", CODE, str(folder), progress, where]
    with (tmp_path / "out").open("w+b") as out, open(os.devnull, "rb") as nothing:  # noqa: PTH123
        assert warm.Program(command, (nothing, out, writer), local=True).wait(patience(60)) == 0
        out.seek(0)
        assert out.read() == b"True\n"
    os.write(writer, b"end\n")
    said = b""
    while b"end" not in said:
        said += os.read(reader, 4096)
    os.close(reader)
    os.close(writer)
    *lines, last = said.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    assert last == "end"
    assert all("is still being loaded" in line for line in lines), lines
    assert len(lines) == told if told is not None else lines
