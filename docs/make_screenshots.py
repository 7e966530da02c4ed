"""Take the pictures of the web chat in `docs/img`: ``python docs/make_screenshots.py``. Needs Chromium.

The program is real, in front of a headless browser; a scripted server replays an answer that a strong model wrote.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pictures import IMAGES, keep_record
from playwright.sync_api import Browser, sync_playwright
from recorded import PACE, QUESTION, REPLIES, STRATEGY, scripted_server

from stretto.display.palette import SCHEMES

__all__ = ["main"]

WRITING = """() => [...document.querySelectorAll("section[aria-busy=true] .card")].filter(
    (card) => card.querySelector(".text").innerText.length > 60).length >= 4"""
# The page shows what it has read before it reads on, twenty times a second: a frame for each piece would slow the
# answer. Once this holds, it reads no further, however fast the model is.
HALT = f"""
const read = ReadableStreamDefaultReader.prototype.read;
let shown = 0;
ReadableStreamDefaultReader.prototype.read = async function () {{
  if (performance.now() - shown > 50) shown = await new Promise(requestAnimationFrame);
  return ({WRITING})() ? new Promise(() => {{}}) : read.call(this);
}};
"""
_PAGE = "stretto/server/web/page"
SHOWS = [
    *(f"{_PAGE}/{each}" for each in ("index.html", "icon.svg", "style/*.css", "answer/*.js")),
    *(f"{_PAGE}/{each}.js" for each in ("turn_view", "list", "words", "markdown", "signs", "composer")),
]
WIDE: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 800}, "device_scale_factor": 2}
PICTURES = {"web-writing": (WIDE, False), "web-settled": (WIDE, True), "web-phone": (PHONE, True)}
"""The size of each, and whether it shows the answer when it is complete."""


def main() -> None:
    """Serve, and take one picture after the other."""
    with scripted_server(REPLIES, **PACE) as upstream:
        take(upstream)
    keep_record(
        "python docs/make_screenshots.py", {f"{name}-{scheme}.png": SHOWS for name in PICTURES for scheme in SCHEMES}
    )


def take(upstream: str) -> None:
    """The pictures of a chat with the model of this server."""
    command = [sys.executable, "-m", "stretto.cli", "chat", "--web", "--no-browser", "--model", "openai:recorded"]
    command += ["--base-url", upstream]
    environment = os.environ | {"OPENAI_API_KEY": "none"}
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server,
        sync_playwright() as playwright,
    ):
        try:
            lines = server.stderr or ()
            address = next(word for line in lines for word in line.split() if word.startswith("http://"))
            warm_up(address)
            path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            for (name, (context, settled)), scheme in itertools.product(PICTURES.items(), SCHEMES):
                file = IMAGES / f"{name}-{scheme}.png"
                picture(browser, address, file, context | {"color_scheme": scheme}, settled=settled)
        finally:
            server.terminate()


def warm_up(address: str) -> None:
    """Answer once, so that no picture shows how long imports took, and the model's speed is known."""
    body = {"model": "stretto", "messages": [{"role": "user", "content": QUESTION}]}
    request = urllib.request.Request(  # noqa: S310 - the server that was just started
        f"{address.rstrip('/')}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=300).close()  # noqa: S310 - as above


def picture(browser: Browser, address: str, file: Path, context: dict[str, Any], *, settled: bool) -> None:
    """Ask, and take the picture while sections are written, or once all are complete."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    if not settled:
        page.add_init_script(HALT)
    page.goto(address)
    page.wait_for_selector("#model option", state="attached")
    page.select_option("#strategy", STRATEGY)
    page.select_option("#preference", "fastest")
    page.fill("#question", QUESTION)
    page.press("#question", "Enter")
    if settled:
        page.wait_for_selector("section[aria-busy=false]", timeout=300_000)
    else:
        page.wait_for_function(WRITING, timeout=300_000)
    page.wait_for_timeout(500)  # until all has moved to its place
    page.screenshot(path=file)
    opened.close()
    print(file.name)


if __name__ == "__main__":
    main()
