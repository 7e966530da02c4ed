"""What the benchmark of the server writes, from results made up here, and its client on a real port."""

import anyio
import pytest
from http_load import Connection
from server_report import draw, markdown

from stretto.testing.server import Fault, ScriptedServer


@pytest.fixture
def results():
    def row(ms):
        return {"first_ms": ms / 2, "total_ms": ms, "p95_ms": 2 * ms}

    ways = {"scripted server itself": 1.0, "stretto serve": 6.5, "litellm proxy": 9.0, "stretto SDK": 4.0}
    load = {"clients": 8, "answers": 90, "errors": 0, "per_second": 30.0, "p50_ms": 3.0, "p95_ms": 4.0}
    memory = [(0.0, 90.0), (1.0, 95.0), (2.0, 96.0), (3.0, 96.4)]
    left = {"running": 0.0, "waiting": 0.0, "files": 9.0, "files_before": 8.0}
    return {
        "machine": "a box",
        "words": 40,
        "requests": 5,
        "added": {name: row(ms) for name, ms in ways.items()},
        "load": {"stretto serve": load | {"memory_mib": memory}},
        "streams": load | {"clients": 300, "memory_mib": memory, "rate": 10.0, "left": left},
    }


def test_the_tables_tell_what_was_added(results):
    said = markdown(results)
    assert "| stretto serve | 3.2 | 6.5 | +5.5 | +2.5 |" in said
    assert "| stretto serve | 30 | 3 | 4 | 0 | 96 |" in said
    assert "300 streams at a time" in said
    assert "0 errors" in said


@pytest.mark.thorough
def test_the_plot_is_drawn(results, tmp_path):
    draw(results, tmp_path / "server")
    light, dark = ((tmp_path / f"server-{scheme}.png").read_bytes() for scheme in ("light", "dark"))
    assert len(light) > 1000
    assert light != dark


@pytest.mark.anyio
async def test_the_client_reads_both_forms_and_tells_failures():
    body = {"model": "scripted", "messages": [{"role": "user", "content": "Why?"}]}
    async with ScriptedServer("One two.") as server, Connection(server.openai_url) as connection:
        for stream in (False, True):
            timing = await connection.ask(body | {"stream": stream})
            assert (timing.error, 0 < timing.first <= timing.total) == ("", True)
        server.script(Fault("status", status=500), Fault("cut", after=1), Fault("reset"))
        failed = [await connection.ask(body | {"stream": True}) for _ in range(3)]
        await anyio.lowlevel.checkpoint()
    assert all(timing.error for timing in failed)
