"""The one palette: its contrast by WCAG AA, and that the web chat shows it."""

import re
import tomllib
from importlib.resources import files

import pytest
from rich.style import Style

from stretto.display.palette import SCHEMES, TERMINAL, palette

PALETTE = tomllib.loads(files("stretto.display").joinpath("palette.toml").read_text())
SHEET = files("stretto.server.web").joinpath("page", "style", "palette.css").read_text()


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_of_every_colour_can_be_read(scheme):
    colours = PALETTE[scheme]
    written = {name: colours[name] for name in ("text", "dim", "accent", "good", "wait", "bad")}
    written |= {f"voice {number}": colour for number, colour in enumerate(colours["voices"], 1)}
    pale = {
        (name, ground): round(contrast(colour, colours[ground]), 2)
        for name, colour in written.items()
        for ground in ("back", "raised")
        if contrast(colour, colours[ground]) < 4.5
    }
    assert pale == {}
    assert contrast(colours["on_accent"], colours["accent"]) >= 4.5
    assert contrast(colours["field"], colours["back"]) >= 3


def test_what_python_draws_has_these_colours_and_the_terminals_are_known_ones():
    for scheme in SCHEMES:
        assert vars(palette(scheme)) == PALETTE[scheme] | {"voices": tuple(PALETTE[scheme]["voices"])}
    assert {name: Style.parse(colour).color.number < 8 for name, colour in vars(TERMINAL).items()} == dict.fromkeys(
        PALETTE["terminal"], True
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_style_sheet_of_the_web_chat_has_these_colours(scheme):
    light, dark = SHEET.split("@media screen and (prefers-color-scheme: dark)")
    shown = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if scheme == "light" else dark))
    colours = dict(PALETTE[scheme])
    voices = {f"voice-{number}": colour for number, colour in enumerate(colours.pop("voices"), 1)}
    assert shown == {name.replace("_", "-"): colour for name, colour in colours.items()} | voices
