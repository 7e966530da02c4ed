"""Record the picture of the README: one answer in one piece and in points, ``python docs/make_parallel_picture.py``.

Both answers are real: they come over HTTP from a scripted server that sends the first token after 0.3 s and then 60
tokens a second. Each line of text appears in the picture when the reader got it. Without animation, the picture shows
both answers complete.
"""

from __future__ import annotations

import re
import textwrap
import time
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import anyio
from pictures import IMAGES, keep_record

from stretto import Answer, AsyncStretto
from stretto.display.palette import SCHEMES, Scheme, palette
from stretto.testing.server import ReplyRule, ScriptedServer

__all__ = ["main"]

QUESTION = "How do I look after a bicycle?"
FIRST_TOKEN_S, TOKENS_PER_SECOND = 0.3, 60
POINTS = {
    "Check tyre pressure": (
        "Squeeze both tyres every week and top them up with a pump that has a gauge. The permitted range is printed on "
        "the sidewall: a narrow road tyre may want six bar, a mountain bike tyre barely two. Soft tyres roll slowly, "
        "wear out at the edges and let sharp kerbs pinch the tube."
    ),
    "Oil the chain": (
        "Wipe the links with a dry rag while you turn the pedals backwards, then let one drop of bicycle oil fall on "
        "each roller. Rub off the excess after five minutes, because a sticky surface collects grit that grinds the "
        "metal away. In wet weather do this every second week, and every month in a dry summer with little dust."
    ),
    "Test both brakes": (
        "Pull each lever before you set off: it should bite well before it touches the handlebar. Replace rubber pads "
        "once their grooves have vanished, keep lubricant away from rims and discs, and let a workshop deal with "
        "hydraulic systems that feel spongy. New pads need twenty firm stops before they brake as hard as they should."
    ),
    "Tighten loose bolts": (
        "Most rattles come from the mudguards, the rack, the saddle or the stem. Go round them once a month with a set "
        "of hex keys, and use a torque wrench on carbon parts, which crack when a screw is forced beyond the marked "
        "limit. A drop of thread lock keeps the screws of a rack in their place on rough roads."
    ),
    "Store it dry": (
        "Rain and salty winter air rust cables and screws, so park under a roof, in an airy shed or in the hallway. "
        "Before a long break, clean the frame, pump up the tyres and hang the bicycle where no one stumbles over it. A "
        "cover that reaches the ground traps damp air below it, which is worse for the steel than plain rain."
    ),
    "Spin the wheels": (
        "Lift one end, turn the rim by hand and watch the gap beside the brake pad. A wobble of more than two "
        "millimetres, or a spoke that feels slack between finger and thumb, means that the wheel needs truing in a "
        "shop. Listen as well: a grinding noise from the middle tells you that the bearings want new grease soon."
    ),
    "Wash it gently": (
        "Lukewarm water, a soft brush and a little detergent remove mud without harm. Leave the pressure washer "
        "alone, since its jet drives water past the seals and flushes the grease out of the hubs and the pedals. Dry "
        "the frame with an old towel, and oil the chain again before the bicycle goes back into its corner."
    ),
    "Look after the lights": (
        "Switch both lamps on before it gets dark, and wipe the lenses, because a film of dust takes a third of the "
        "beam. Point the front lamp at the road ten metres ahead, so that it dazzles nobody. Batteries fade in "
        "cold weather: charge them overnight once a week in winter, and carry a small spare lamp."
    ),
}

WIDTH, COLUMN, GAP, LEFT, TOP = 880, 418, 24, 10, 62
LINE, CHARACTERS = 12.6, 80
HOLD_S = 3.0


@dataclass
class Seen:
    """What the reader got of one text, and when: its length after each piece, in characters and seconds."""

    text: str = ""
    pieces: list[tuple[int, float]] = field(default_factory=list)

    def add(self, text: str, at_s: float) -> None:
        """Add a piece."""
        self.text += text
        self.pieces.append((len(self.text), at_s))

    def at(self, characters: int) -> float:
        """When so many characters were there."""
        return next((at_s for length, at_s in self.pieces if length >= characters), self.pieces[-1][1])


async def record() -> tuple[Seen, dict[str, Seen], Answer, Answer]:
    """The answer in one piece, the branches of the answer in points, and both answers."""
    outline = "\n".join(f"{number}. {title}" for number, title in enumerate(POINTS, 1))
    straight = "\n".join(f"{number}. **{title}**: {POINTS[title]}" for number, title in enumerate(POINTS, 1))
    points = [ReplyRule(f"text of point {number},", text) for number, text in enumerate(POINTS.values(), 1)]
    rules = [ReplyRule("Write only the outline", outline), *points, ReplyRule("", straight)]
    pace = {"time_to_first_token_s": FIRST_TOKEN_S, "tokens_per_second": TOKENS_PER_SECOND}
    async with (
        ScriptedServer(rules, **pace) as server,
        AsyncStretto("openai:scripted", base_url=server.openai_url, api_key="any") as stretto,
    ):
        await stretto.ask(QUESTION)  # imports and connections
        whole, branches = Seen(), dict[str, Seen]()
        began = time.perf_counter()
        async with stretto.stream(QUESTION, strategy="direct") as stream:
            async for text in stream.text():
                whole.add(text, time.perf_counter() - began)
        began = time.perf_counter()
        async with stretto.stream(QUESTION) as parts:
            async for event in parts:
                if event.type == "branch_delta":
                    branches.setdefault(event.branch_id, Seen()).add(event.text, time.perf_counter() - began)
        return whole, branches, stream.answer, parts.answer


def draw(scheme: Scheme, whole: Seen, branches: dict[str, Seen], one: Answer, many: Answer) -> str:
    """The picture on one ground."""
    colours = palette(scheme)
    total_s = (one.timeline.total_s or 0.0) + HOLD_S
    outline = next(branch.id for branch in many.branches if branch.kind == "outline")
    points = [branch.id for branch in many.branches if branch.kind == "point"]
    rows, y = [], float(TOP)
    for number, (title, text) in enumerate(POINTS.items(), 1):
        lines = textwrap.wrap(text, CHARACTERS)
        for column, seen, heading, of_text in (
            (0, whole, whole.text.index(title) + len(title), whole.text.index(text)),
            (1, branches[outline], branches[outline].text.index(title) + len(title), 0),
        ):
            x = LEFT + column * (COLUMN + GAP)
            body = branches[points[number - 1]] if column else seen
            shown = (seen.at(heading), seen.at(heading))
            rows.append(_line(x, y, f"{number}. {title}", shown, total_s, kind="t"))
            at = of_text
            for place, line in enumerate(lines, 1):
                times = body.at(at + 1), body.at(at + len(line))
                rows.append(_line(x, y + place * LINE, line, times, total_s, kind="b"))
                at += len(line) + 1
        y += (len(lines) + 1) * LINE + 7
    heads = "".join(
        _head(column, title, answer, total_s, colour)
        for column, title, answer, colour in (
            (0, "in one piece", one, "one"),
            (1, "with Stretto: outline first, then all points at once", many, "all"),
        )
    )
    style = (
        f"text{{font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:{colours.text}}}"
        f".t{{font-size:10.5px;font-weight:600}}.b{{font-size:9.6px}}.h{{font-size:13px;font-weight:600}}"
        f".s{{font-size:13px;font-weight:600;text-anchor:end}}.one{{fill:{colours.wait}}}.all{{fill:{colours.good}}}"
        f".rail{{fill:{colours.line}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}">'
        f"<style>{style}</style>{heads}{''.join(rows)}</svg>\n"
    )


def _head(column: int, title: str, answer: Answer, total_s: float, colour: str) -> str:
    """What a column shows, a bar that grows until its answer is there, and then the seconds."""
    x, took_s = LEFT + column * (COLUMN + GAP), answer.timeline.total_s or 0.0
    width = COLUMN * took_s / (total_s - HOLD_S)
    return (
        f'<text class="h" x="{x}" y="20">{escape(title)}</text>'
        f'<text class="s {colour}" x="{x + COLUMN}" y="20">{took_s:.1f} s{_appears(took_s, total_s)}</text>'
        f'<rect class="rail" x="{x}" y="30" width="{COLUMN}" height="6" rx="3"/>'
        f'<rect class="{colour}" x="{x}" y="30" width="{width:.1f}" height="6" rx="3">'
        f"{_grows(width, (0.0, took_s), total_s)}</rect>"
    )


def _line(x: float, y: float, text: str, times: tuple[float, float], total_s: float, *, kind: str) -> str:
    """A line of text that appears from left to right, between two moments."""
    shown = f'<text class="{kind}" x="{x}" y="{y:.1f}"'
    if times[0] == times[1]:
        return f"{shown}>{escape(text)}{_appears(times[0], total_s)}</text>"
    name, width = f"c{re.sub(r'[^0-9]', '-', f'{x}_{y:.1f}')}", COLUMN + GAP / 2
    return (
        f'<clipPath id="{name}"><rect x="{x}" y="{y - 10:.1f}" width="{width}" height="14">'
        f"{_grows(width, times, total_s)}</rect></clipPath>"
        f'{shown} clip-path="url(#{name})">{escape(text)}</text>'
    )


def _grows(width: float, times: tuple[float, float], total_s: float) -> str:
    begins, ends = (f"{min(each / total_s, 0.999):.4f}" for each in times)
    return (
        f'<animate attributeName="width" values="0;0;{width:.0f};{width:.0f}" keyTimes="0;{begins};{ends};1" '
        f'dur="{total_s:.1f}s" repeatCount="indefinite"/>'
    )


def _appears(at_s: float, total_s: float) -> str:
    return (
        f'<animate attributeName="opacity" values="0;1" keyTimes="0;{at_s / total_s:.4f}" calcMode="discrete" '
        f'dur="{total_s:.1f}s" repeatCount="indefinite"/>'
    )


async def main() -> None:
    """Record once and draw both themes."""
    whole, branches, one, many = await record()
    print(f"in one piece {one.timeline.total_s:.2f} s, {one.usage.completion_tokens} tokens; ", end="")
    print(f"{many.route.strategy} {many.timeline.total_s:.2f} s, {many.usage.completion_tokens} tokens")
    for scheme in SCHEMES:
        file = IMAGES / f"parallel-{scheme}.svg"
        drawn = draw(scheme, whole, branches, one, many)
        file.write_text(drawn, encoding="utf-8")
        print(f"{file.name}: {len(drawn):,} bytes")
    shows = ["docs/make_parallel_picture.py", "stretto/display/palette.toml"]
    keep_record("python docs/make_parallel_picture.py", {f"parallel-{scheme}.svg": shows for scheme in SCHEMES})


if __name__ == "__main__":
    anyio.run(main)
