"""Draw how an answer comes about, for the README and the architecture: ``python docs/make_how_it_works.py``."""

from __future__ import annotations

from xml.sax.saxutils import escape

from pictures import IMAGES, keep_record

from stretto.display.palette import SCHEMES, Scheme, palette

__all__ = ["main"]

WIDTH, HEIGHT = 880, 300
BOXES = {  # left, top, width, height, kind, words
    "question": (10, 128, 96, 44, "box", ("Your question",)),
    "router": (142, 118, 118, 64, "own", ("Router", "judges the shape,", "calls no model")),
    "direct": (308, 12, 180, 40, "box", ("one call, in one piece",)),
    "plan": (308, 116, 84, 40, "box", ("plan",)),
    "section1": (440, 76, 112, 30, "box", ("section 1",)),
    "section2": (440, 122, 112, 30, "box", ("section 2",)),
    "section3": (440, 168, 112, 30, "box", ("section 3",)),
    "parts": (308, 236, 244, 40, "box", ("items of a list, or passages", "of documents, side by side")),
    "merge": (604, 118, 106, 64, "own", ("Merge", "in reading order,", "as it is written")),
    "answer": (748, 118, 122, 64, "box", ("One streamed text", "with its route, cost", "and warnings")),
}
ARROWS = (
    ("question", "router"), ("router", "direct"), ("router", "plan"), ("router", "parts"), ("plan", "section1"),
    ("plan", "section2"), ("plan", "section3"), ("section1", "merge"), ("section2", "merge"), ("section3", "merge"),
    ("direct", "merge"), ("parts", "merge"), ("merge", "answer"),
)  # fmt: skip
NOTES = (
    (308, 66, "prose, code, proofs, short answers"),
    (308, 290, "one task for many inputs; texts longer than the window"),
    (308, 210, "sections that stand on their own"),
)


def draw(scheme: Scheme) -> str:
    """The picture on one ground."""
    colours = palette(scheme)
    style = (
        f"text{{font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:{colours.text};"
        f"font-size:12.5px;text-anchor:middle}}.small{{font-size:10.5px;fill:{colours.dim}}}"
        f".note{{font-size:10.5px;fill:{colours.dim};text-anchor:start;font-style:italic}}"
        f"rect{{stroke:{colours.field}}}.box{{fill:{colours.raised}}}"
        f".own{{fill:{colours.raised};stroke:{colours.accent};stroke-width:2}}"
        f"path{{stroke:{colours.field};fill:none}}.tip{{fill:{colours.field}}}"
    )
    tip = (
        '<marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto">'
        '<path class="tip" d="M0 0L6 3L0 6z"/></marker>'
    )
    shapes = [_arrow(start, end) for start, end in ARROWS] + [_box(name) for name in BOXES]
    shapes += [f'<text class="note" x="{x}" y="{y}">{escape(words)}</text>' for x, y, words in NOTES]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
        f"<style>{style}</style><defs>{tip}</defs>{''.join(shapes)}</svg>\n"
    )


def _box(name: str) -> str:
    x, y, width, height, kind, words = BOXES[name]
    first = y + height / 2 - 7 * (len(words) - 1) + 4
    lines = "".join(
        f'<text class="{"" if place == 0 else "small"}" x="{x + width / 2}" y="{first + 14 * place:.0f}">'
        f"{escape(line)}</text>"
        for place, line in enumerate(words)
    )
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>{lines}'


def _arrow(start: str, end: str) -> str:
    left, top, width, height = BOXES[start][:4]
    x, y = left + width, top + height / 2
    to_x, to_y = BOXES[end][0] - 1, BOXES[end][1] + BOXES[end][3] / 2
    half = to_x - 22
    return f'<path d="M{x} {y}C{half} {y} {half} {to_y} {to_x} {to_y}" marker-end="url(#tip)"/>'


def main() -> None:
    """Write both pictures."""
    for scheme in SCHEMES:
        (IMAGES / f"how-it-works-{scheme}.svg").write_text(draw(scheme), encoding="utf-8")
    shows = ["docs/make_how_it_works.py", "stretto/display/palette.toml"]
    keep_record("python docs/make_how_it_works.py", {f"how-it-works-{scheme}.svg": shows for scheme in SCHEMES})


if __name__ == "__main__":
    main()
