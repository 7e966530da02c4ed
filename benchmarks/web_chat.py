"""What the web chat takes with much in it: ``python benchmarks/web_chat.py``. Needs Chromium.

Measured in the page, of a scripted model that answers at once. Of a conversation of 2,000 questions: opening it until
its last answer is there, and a new question from Enter until its first text and until its end. Of a text of 5 MB
that is pasted and asked about: until it is attached, until the first text, the longest time without a frame meanwhile,
and opening the conversation after a reload. Medians of five, with the spread.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

__all__ = ["main"]

TURNS = 2_000
TIMES = 5
PASTED = 5_000_000  # characters
PROGRAM = Path(__file__).parents[1] / "tests" / "browser" / "scripted_program.py"
TEXT = "Some words with `code` and **weight**, as many as a short answer has. " * 12
OPENING = """() => new Promise((resolve) => {
    const began = performance.now();
    document.querySelector("#conversations button").click();
    const look = () => document.querySelector("article:last-of-type [aria-busy=false]")
        ? requestAnimationFrame(() => resolve(performance.now() - began)) : requestAnimationFrame(look);
    look();
})"""
PASTING = """(size) => new Promise((resolve) => {
    const data = new DataTransfer();
    data.setData("text/plain", "The rent is 900 euros, and the cellar is dry. ".repeat(size / 46));
    const began = performance.now();
    window.longest = 0;
    let last = began;
    const frame = (now) => {
        longest = Math.max(longest, now - last);
        last = now;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    question.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
    const look = () => document.querySelector("#documents li")
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
            path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            for measure in (times_of_many_turns, times_of_a_long_text):
                for what, found in _columns([measure(browser.new_page(), address) for _ in range(TIMES)]):
                    print(f"{what}: {statistics.median(found):.0f} ms ({min(found):.0f} to {max(found):.0f})")
        finally:
            server.terminate()


def _columns(measured: Sequence[Mapping[str, float]]) -> list[tuple[str, list[float]]]:
    return [(what, [each[what] for each in measured]) for what in measured[0]]


def times_of_many_turns(page: Page, address: str) -> dict[str, float]:
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
    return {"2,000 questions, opened": opened, "a new one, first text": first, "a new one, to its end": whole}


def times_of_a_long_text(page: Page, address: str) -> dict[str, float]:
    """Milliseconds until it is attached, until the first text of an answer, and so on."""
    page.goto(address)
    page.wait_for_selector("#model option", state="attached")
    page.select_option("#strategy", "direct")
    attached = page.evaluate(PASTING, PASTED)
    first, _ = page.evaluate(ASKING)
    longest = page.evaluate("longest")
    page.goto(address)
    page.wait_for_selector("#conversations button")
    opened = page.evaluate(OPENING)
    page.context.close()
    names = ("5 MB, attached", "a question on it, first text", "longest time without a frame", "opened after a reload")
    return dict(zip(names, (attached, first, longest, opened), strict=True))


if __name__ == "__main__":
    main()
