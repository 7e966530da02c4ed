"""Pictures in the web chat: how they are drawn anew, bounded, shown, sent and kept."""

import base64
import struct
import zlib

import pytest
from asking import ENDED, ask, no_violations

from stretto.extending import Capabilities
from stretto.testing import ScriptedBackend

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

SEES = Capabilities(media=True)
DRAWN = """async ([width, height]) => {
    const canvas = Object.assign(document.createElement("canvas"), {width, height});
    canvas.getContext("2d").fillRect(0, 0, width, height);
    return canvas.toDataURL("image/png");
}"""
SIZE = """async (url) => {
    const image = Object.assign(new Image(), {src: url});
    await image.decode();
    return [image.naturalWidth, image.naturalHeight];
}"""


def with_text(png, text):
    """The same picture, with a text behind its head."""
    chunk = b"tEXt" + text
    return png[:33] + struct.pack(">I", len(text)) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[33:]


async def picture(page, name="wheel.png", size=(30, 20)):
    data = await page.evaluate(DRAWN, list(size))
    return {"name": name, "mimeType": "image/png", "buffer": base64.b64decode(data.partition(",")[2])}


async def test_a_picture_goes_to_the_model_smaller_and_without_what_stood_beside_it(chatting):
    backend = ScriptedBackend({"": "A wheel."}, capabilities=SEES)
    async with chatting(backend, bypass_csp=True) as page:  # for this test to look at what was sent
        given = await picture(page, size=(3_200, 100))
        given["buffer"] = with_text(given["buffer"], b"place\0here")
        await page.set_input_files("#attach", given)
        await page.wait_for_selector("#documents img.picture")
        await ask(page, "What is this?", strategy="auto")
        await page.wait_for_selector(f"{ENDED} >> text=A wheel.")
        [(request, _)] = backend.calls
        text, image = request.messages[-1].parts
        url = image["image_url"]["url"]
        assert text["text"] == "What is this?"
        assert await page.evaluate(SIZE, url) == [1_600, 50]
        assert b"place" not in base64.b64decode(url.partition(",")[2])


async def test_a_picture_is_shown_by_an_object_url_kept_and_sent_again_with_the_next_question(chatting):
    backend = ScriptedBackend({"": "A wheel."}, capabilities=SEES)
    async with chatting(backend) as page:
        await page.set_input_files("#attach", await picture(page))
        await page.wait_for_selector("#documents img.picture")
        await ask(page, "What is this?", strategy="auto")
        await page.wait_for_selector(f"{ENDED} >> text=A wheel.")
        await page.wait_for_selector("#send:enabled")
        await page.reload()
        shown = page.locator(".asked img.picture[alt='wheel.png'][src^='blob:']")
        await shown.wait_for()
        await page.wait_for_function("() => document.querySelector('.asked img').naturalWidth === 30")
        await no_violations(page)
        await ask(page, "And its colour?", strategy="auto")
        await page.wait_for_selector(f"article:nth-child(2) {ENDED}")
        assert backend.calls[-1][0].messages[0].media == ("image_url",)


async def test_a_picture_is_taken_from_the_clipboard_and_from_where_it_is_dropped(chatting):
    async with chatting(ScriptedBackend({"": "A wheel."}, capabilities=SEES)) as page:
        data = await page.evaluate(DRAWN, [30, 20])
        await page.evaluate(
            """async (data) => {
                const bytes = Uint8Array.from(atob(data.split(",")[1]), (sign) => sign.charCodeAt(0));
                const given = (name) => {
                    const held = new DataTransfer();
                    held.items.add(new File([bytes], name, {type: "image/png"}));
                    return held;
                };
                const how = {bubbles: true, cancelable: true};
                question.dispatchEvent(new ClipboardEvent("paste", {...how, clipboardData: given("pasted.png")}));
                document.body.dispatchEvent(new DragEvent("drop", {...how, dataTransfer: given("dropped.png")}));
            }""",
            data,
        )
        for name in ("pasted.png", "dropped.png"):
            await page.wait_for_selector(f"#documents img[alt='{name}']")


async def test_no_more_than_four_pictures_and_nothing_that_is_none(chatting):
    async with chatting(ScriptedBackend({"": "Yes."}, capabilities=SEES)) as page:
        none = {"name": "none.png", "mimeType": "image/png", "buffer": b"<script>alert(1)</script>"}
        await page.set_input_files("#attach", [none])
        await page.wait_for_selector("#documents .problem >> text=none.png: this browser cannot read it as a picture.")
        await page.click("#documents .problem button")
        await page.set_input_files("#attach", [await picture(page, f"{number}.png") for number in range(5)])
        await page.wait_for_selector("#documents li:nth-child(4) img")
        assert "4 pictures at most" in await page.inner_text("#notice")
        assert await page.locator("#documents li").count() == 4


async def test_a_model_that_takes_no_pictures_is_said_before_anything_is_sent(chatting):
    backend = ScriptedBackend({"": "Yes."})
    async with chatting(backend) as page:
        await page.set_input_files("#attach", await picture(page))
        await page.wait_for_selector("#notice >> text=This model takes no pictures.")
        assert backend.calls == []


async def test_an_import_with_something_else_for_a_picture_is_refused(chatting, tmp_path):
    file = tmp_path / "all.json"
    file.write_text(
        '{"stretto": 1, "conversations": [{"id": "a", "title": "t", "changed": 1, "turns": [{"question": "q", '
        '"answers": [], "documents": [{"title": "t", "picture": "data:image/svg+xml;base64,PHN2Zy8+"}]}]}]}'
    )
    async with chatting(ScriptedBackend({"": "Yes."})) as page:
        await page.set_input_files("#import", file)
        await page.wait_for_selector("#notice >> text=Nothing was imported")
