"""What the web chat takes with a conversation of 2,000 questions: ``python benchmarks/web_chat.py``. Needs Chromium.

Measured in the page, of a scripted model that answers at once: opening the conversation until its last answer stands
there, and a new question from Enter until its first text and until its end. Medians of five, with the spread.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

__all__ = ["main"]

TURNS = 2_000
TIMES = 5
PROGRAM = Path(__file__).parents[1] / "tests" / "browser" / "scripted_program.py"
TEXT = "Some words with `code` and **weight**, as many as a short answer has. " * 12
OPENING = """() => new Promise((resolve) => {
    const began = performance.now();
    document.querySelector("#conversations button").click();
    const look = () => document.querySelector("article:last-of-type [aria-busy=false]")
        ? requestAnimationFrame(() => resolve(performance.now() - began)) : requestAnimationFrame(look);
    look();
})"""
ASKING = """() => new Promise((resolve) => {
    const before = document.querySelectorAll("article").length, began = performance.now();
    question.value = "And now?";
    composer.requestSubmit();
    let first = null;
    const look = () => {
        const last = [...document.querySelectorAll("article")].slice(before).at(-1);
        if (first === null && last?.querySelector(".leaf .text")?.textContent) first = performance.now() - began;
        if (first !== null && last.querySelector("[aria-busy=false]") && !send.disabled)
            resolve([first, performance.now() - began]);
        else requestAnimationFrame(look);
    };
    look();
})"""


def main() -> None:
    """Serve, import the conversation, and print the times."""
    command = [sys.executable, str(PROGRAM), "0", json.dumps({"": {"text": "Here it is."}})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            opened, first, whole = zip(*(times(browser.new_page(), address) for _ in range(TIMES)), strict=True)
        finally:
            server.terminate()
    for what, found in (("opened", opened), ("new question, first text", first), ("new question, to its end", whole)):
        print(f"{what}: {statistics.median(found):.0f} ms ({min(found):.0f} to {max(found):.0f})")


def times(page: Page, address: str) -> tuple[float, float, float]:
    """Milliseconds to open, to the first text of a new question, and to its end."""
    answer = {"text": TEXT, "branches": [], "stopped": "Stopped after 1.0 s."}
    turns = [{"question": f"Question {number}?", "documents": [], "answers": [answer]} for number in range(TURNS)]
    kept = {"stretto": 1, "conversations": [{"id": "a" * 32, "title": "Long", "changed": 1, "turns": turns}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(kept))
        file.flush()
        page.goto(address)
        page.wait_for_selector("#model option", state="attached")
        page.select_option("#strategy", "direct")
        page.set_input_files("#import", file.name)
        page.wait_for_selector("#conversations li")
    opened = page.evaluate(OPENING)
    first, whole = page.evaluate(ASKING)
    page.context.close()
    return opened, first, whole


if __name__ == "__main__":
    main()
