"""Take the pictures of the web chat in `docs/img`: ``python docs/make_screenshots.py``. Needs Chromium.

The server and its answers are real: the embedded model, in front of a headless browser.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from pictures import IMAGES, keep_record
from playwright.sync_api import Browser, sync_playwright

from stretto.display.palette import SCHEMES

__all__ = ["main"]

QUESTION = "How do I look after a bicycle?"
WRITING = """() => [...document.querySelectorAll("section[aria-busy=true] .card")].filter(
    (card) => card.querySelector(".text").innerText.length > 30).length >= 5"""
# The page shows what it has read before it reads on. Once this holds, it reads no further, however fast the model is.
HALT = f"""
const read = ReadableStreamDefaultReader.prototype.read;
ReadableStreamDefaultReader.prototype.read = async function () {{
  await new Promise(requestAnimationFrame);
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
    command = [sys.executable, "-m", "stretto.cli", "chat", "--web", "--no-browser", "--model", "local:pocket"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            told = server.stderr or ()
            address = next(word for line in told for word in line.split() if word.startswith("http://"))
            warm_up(address)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for (name, (context, settled)), scheme in itertools.product(PICTURES.items(), SCHEMES):
                file = IMAGES / f"{name}-{scheme}.png"
                picture(browser, address, file, context | {"color_scheme": scheme}, settled=settled)
        finally:
            server.terminate()
    keep_record(
        "python docs/make_screenshots.py", {f"{name}-{scheme}.png": SHOWS for name in PICTURES for scheme in SCHEMES}
    )


def warm_up(address: str) -> None:
    """Answer once, so that no picture shows how long the model took to load."""
    body = {"model": "stretto", "messages": [{"role": "user", "content": QUESTION}]}
    request = urllib.request.Request(  # noqa: S310 - the server that was just started
        f"{address.rstrip('/')}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=300).close()  # noqa: S310 - as above


def picture(browser: Browser, address: str, file: Path, context: dict[str, Any], *, settled: bool) -> None:
    """Ask, and take the picture while points are written, or once they have settled."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    if not settled:
        page.add_init_script(HALT)
    page.goto(address)
    page.wait_for_selector("#model option", state="attached")
    page.wait_for_function("async () => (await fetch('ready')).ok", timeout=300_000)  # the model is loaded
    page.select_option("#strategy", "skeleton")
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
