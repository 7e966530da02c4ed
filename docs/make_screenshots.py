"""Take the pictures of the web chat in `docs/img`: ``python docs/make_screenshots.py``. Needs Chromium.

The server and its answers are real: the embedded model, in front of a headless browser.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

__all__ = ["main"]

IMAGES = Path(__file__).parent / "img"
QUESTION = "How do I look after a bicycle?"
WRITING = """() => [...document.querySelectorAll("section[aria-busy=true] .card")].filter(
    (card) => card.querySelector(".text").innerText.length > 60).length >= 4"""
# The page shows what it has read before it reads on. Once this holds, it reads no further, however fast the model is.
HALT = f"""
const read = ReadableStreamDefaultReader.prototype.read;
ReadableStreamDefaultReader.prototype.read = async function () {{
  await new Promise(requestAnimationFrame);
  return ({WRITING})() ? new Promise(() => {{}}) : read.call(this);
}};
"""
PICTURES: dict[str, dict[str, Any]] = {
    "web-dark.png": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "dark"},
    "web-phone.png": {"viewport": {"width": 390, "height": 800}, "color_scheme": "light", "device_scale_factor": 2},
    "web-light.png": {"viewport": {"width": 1200, "height": 800}, "color_scheme": "light"},
}


def main() -> None:
    """Serve, and take one picture after the other."""
    command = [sys.executable, "-m", "stretto.cli", "chat", "--web", "--no-browser", "--model", "local:pocket"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            told = server.stderr or ()
            address = next(word for line in told for word in line.split() if word.startswith("http://"))
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, context in PICTURES.items():
                picture(browser, address, IMAGES / name, context, settled=name != "web-light.png")
        finally:
            server.terminate()


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
