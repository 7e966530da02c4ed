"""Record the picture of the README: one answer in one piece and in points, ``python docs/make_parallel_picture.py``.

Both answers are real: they come over HTTP from a scripted server that sends the first token after 0.3 s and then 60
tokens a second. Of each point the picture shows the title and the first lines, each when the reader got it, and a bar
for all of its text. It begins at the moment at which the answer in points is complete; without animation, both are.
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

WIDTH, COLUMN, GAP, LEFT, TOP = 880, 412, 36, 10, 84
TITLE, LINE, CHARACTERS, LINES, BETWEEN = 19, 17.5, 64, 2, 20  # of a point: pixels, characters of a line, lines, pixels
BAR = 84  # pixels, beside the title of a point
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


@dataclass(frozen=True)
class Clock:
    """The seconds of the picture: it begins ``since_s`` after the question, and begins anew after ``total_s``."""

    total_s: float
    since_s: float

    def grows(self, width: float, times: tuple[float, float]) -> str:
        """A width, between two moments."""
        begins, ends = (f"{min(each / self.total_s, 0.999):.4f}" for each in times)
        return self._animates("width", f'values="0;0;{width:.0f};{width:.0f}" keyTimes="0;{begins};{ends};1"')

    def appears(self, at_s: float) -> str:
        """Nothing before a moment."""
        return self._animates("opacity", f'values="0;1" keyTimes="0;{at_s / self.total_s:.4f}" calcMode="discrete"')

    def _animates(self, what: str, how: str) -> str:
        when = f'begin="-{self.since_s:.2f}s" dur="{self.total_s:.1f}s" repeatCount="indefinite"'
        return f'<animate attributeName="{what}" {how} {when}/>'


@dataclass(frozen=True)
class Column:
    """One of the two answers, from ``x`` on."""

    x: int
    colour: str
    clock: Clock

    def head(self, title: str, took_s: float, most_s: float) -> str:
        """What the column shows, a bar that grows until its answer is there, and then the seconds."""
        return (
            f'<text class="h" x="{self.x}" y="28">{escape(title)}</text>'
            f'<text class="s {self.colour}" x="{self.x + COLUMN}" y="30">{took_s:.1f} s{self.clock.appears(took_s)}'
            f"</text>{self._bar(self.x, 42, (COLUMN, COLUMN * took_s / most_s), (0.0, took_s))}"
        )

    def point(self, y: float, head: str, text: str, *, seen: Seen, begun_s: float) -> str:
        """Title, bar and first lines of a point, whose text is in what the reader got."""
        at = seen.text.index(text)
        drawn = [f'<text class="t" x="{self.x}" y="{y:.1f}">{escape(head)}{self.clock.appears(begun_s)}</text>']
        drawn.append(self._bar(self.x + COLUMN - BAR, y - 8, (BAR, BAR), (seen.at(at + 1), seen.at(at + len(text)))))
        for number, line in enumerate(textwrap.wrap(text, CHARACTERS)[:LINES], 1):
            drawn.append(self._line(y + 2 + number * LINE, line, (seen.at(at + 1), seen.at(at + len(line)))))
            at += len(line) + 1
        return "".join(drawn)

    def _bar(self, x: float, y: float, widths: tuple[float, float], times: tuple[float, float]) -> str:
        """A bar on its rail, the ``widths`` of both, which grows between two moments."""
        shape, (rail, width) = f'x="{x}" y="{y:.1f}" height="5" rx="2.5"', widths
        grows = self.clock.grows(width, times)
        return (
            f'<rect class="rail" {shape} width="{rail}"/>'
            f'<rect class="{self.colour}" {shape} width="{width:.1f}">{grows}</rect>'
        )

    def _line(self, y: float, text: str, times: tuple[float, float]) -> str:
        """A line of text that appears from left to right, between two moments."""
        name, width = f"c{re.sub(r'[^0-9]', '-', f'{self.x}_{y:.1f}')}", COLUMN + GAP / 2
        return (
            f'<clipPath id="{name}"><rect x="{self.x}" y="{y - 13:.1f}" width="{width}" height="18">'
            f"{self.clock.grows(width, times)}</rect></clipPath>"
            f'<text class="b" x="{self.x}" y="{y:.1f}" clip-path="url(#{name})">{escape(text)}</text>'
        )


def draw(scheme: Scheme, whole: Seen, branches: dict[str, Seen], one: Answer, many: Answer) -> str:
    """The picture on one ground."""
    colours = palette(scheme)
    one_s, many_s = one.timeline.total_s or 0.0, many.timeline.total_s or 0.0
    clock = Clock(one_s + HOLD_S, many_s)
    outline = branches[next(branch.id for branch in many.branches if branch.kind == "outline")]
    points = [branches[branch.id] for branch in many.branches if branch.kind == "point"]
    left, right = Column(LEFT, "one", clock), Column(LEFT + COLUMN + GAP, "all", clock)
    drawn = [left.head("in one piece", one_s, one_s), right.head("with Stretto, all points at once", many_s, one_s)]
    y = float(TOP)
    for number, ((title, text), point) in enumerate(zip(POINTS.items(), points, strict=True), 1):
        begun, since = (seen.at(seen.text.index(title) + len(title)) for seen in (whole, outline))
        head = f"{number}  {title}"
        drawn.append(left.point(y, head, text, seen=whole, begun_s=begun))
        drawn.append(right.point(y, head, text, seen=point, begun_s=since))
        y += TITLE + LINES * LINE + BETWEEN
    style = (
        f"text{{font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:{colours.text}}}"
        f".t{{font-size:15.5px;font-weight:600}}.b{{font-size:13px;fill:{colours.dim}}}.h{{font-size:17px}}"
        f".s{{font-size:26px;font-weight:650;text-anchor:end;letter-spacing:-.5px}}"
        f".one{{fill:{colours.field}}}.all{{fill:{colours.accent}}}text.one{{fill:{colours.dim}}}.rail{{fill:{colours.line}}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" width="{WIDTH}" height="{y:.0f}">'
        f"<style>{style}</style>{''.join(drawn)}</svg>\n"
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
