"""The Python of docs/server.md runs as it stands, but for the port."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import anyio
import pytest
from live_server import in_front_of

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("snippet", SNIPPETS)
async def test_the_snippets_of_the_page_run(snippet):
    said = StringIO()

    def run():
        with redirect_stdout(said):
            exec(code, {})  # noqa: S102 - of our page

    async with in_front_of("Look after it.") as live:
        code = snippet.replace("http://127.0.0.1:8000", live.url)
        await anyio.to_thread.run_sync(run)
    assert said.getvalue().strip() == "Look after it."
