"""What a browser sees at ``/``."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute, Route

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Stretto</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}</style>
<h1>Stretto serves here</h1>
<p>Point a client of OpenAI at <code>/v1</code>, one of Anthropic at this address, and ask for the model
<code>stretto</code>. <a href="/v1/models">/v1/models</a> lists the others; <a href="/health">/health</a> and
<a href="/metrics">/metrics</a> are for whoever keeps the server.</p>
</html>
"""


def routes() -> Sequence[BaseRoute]:
    """The routes of the pages."""
    return [Route("/", _page)]


async def _page(_: Request) -> HTMLResponse:
    return HTMLResponse(_PAGE, headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'"})
