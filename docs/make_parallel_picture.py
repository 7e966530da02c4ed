"""Record the picture of the README: one answer in one piece and in sections, ``python docs/make_parallel_picture.py``.

Both answers were written by a strong chat model, and come over HTTP from a scripted server that replays them: the
first token after 0.3 s, then 60 tokens of four characters a second. Of each section the picture shows the heading and
the first lines, each when the reader got it, and a bar for all of its text. It begins at the moment at which the answer
in sections is complete; without animation, both are.
"""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

import anyio
from pictures import IMAGES, keep_record
from recorded import PACE, QUESTION, REPLIES, STRATEGY

from stretto import Answer, AsyncStretto
from stretto.display.palette import SCHEMES, Scheme, palette
from stretto.testing.server import ReplyRule, ScriptedServer

__all__ = ["main"]

WIDTH, COLUMN, GAP, LEFT, TOP = 880, 412, 36, 10, 84
TITLE, LINE, CHARACTERS, LINES, BETWEEN = 19, 17.5, 60, 2, 20  # of a part: pixels, characters of a line, lines, pixels
BAR = 84  # pixels, beside a heading
HOLD_S = 3.0
LONGEST_HEADING = 40  # characters


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


@dataclass
class Part:
    """Of an answer: its heading, its text, and what the reader got of it from which character on."""

    heading: str
    text: str
    seen: Seen
    start: int
    begun_s: float  # when its heading was there

    @property
    def span(self) -> tuple[float, float]:
        """When its text began, and when it was complete."""
        return self.seen.at(self.start + 1), self.seen.at(self.start + len(self.text))

    def lines(self, most: int) -> Iterator[tuple[str, tuple[float, float]]]:
        """Its first lines without marks of Markdown, each with the moments at which it began and was complete."""
        signs = [(sign, self.start + at) for at, sign in _signs(self.text)]
        shown, at = "".join(sign for sign, _ in signs), 0
        for line in textwrap.wrap(shown, CHARACTERS)[:most]:
            at = shown.index(line.split()[0], at)
            first, last = signs[at][1], signs[min(len(signs) - 1, at + len(line) - 1)][1]
            yield line, (self.seen.at(first + 1), self.seen.at(last + 1))
            at += len(line)


_MARKS = re.compile(r" ?\|\n\|?(?:-{3,}\|)+\n\| ?| ?\|\n\| ?|\*\*|`|^\| | \|$|^\d+\. |^- |\n+| \| ", re.MULTILINE)


def _signs(text: str) -> Iterator[tuple[int, str]]:
    """The signs of a Markdown text that a reader sees, with the place of each."""
    at = 0
    for mark in _MARKS.finditer(text):
        yield from enumerate(text[at : mark.start()], at)
        if mark[0] == " | " or "|\n" in mark[0]:
            yield from ((mark.start(), sign) for sign in " · ")
        elif "\n" in mark[0]:
            yield mark.start(), " "
        at = mark.end()
    yield from enumerate(text[at:], at)


def parts_of(seen: Seen) -> list[Part]:
    """The parts of a merged text; the first one has no heading."""
    found = list(re.finditer(r"^## (.+)\n+", seen.text, re.MULTILINE))
    opening = seen.text[: found[0].start()].strip()
    parts = [Part("", opening, seen, 0, seen.at(1))]
    for each, following in zip(found, [*found[1:], None], strict=True):
        text = seen.text[each.end() : following.start() if following else None].strip()
        parts.append(Part(each[1], text, seen, each.end(), seen.at(each.end(1))))
    return parts


async def record() -> tuple[list[Part], list[Part], Answer, Answer]:
    """The parts of the answer in one piece, those of the answer in sections, and both answers."""
    rules = [ReplyRule(pattern, reply) for pattern, reply in REPLIES]
    async with (
        ScriptedServer(rules, **PACE) as server,
        AsyncStretto("openai:recorded", base_url=server.openai_url, api_key="any") as stretto,
    ):
        await stretto.ask("Why?", strategy="direct")  # imports and connections
        whole, merged, branches, announced = Seen(), Seen(), dict[str, Seen](), dict[str, float]()
        began = time.perf_counter()
        async with stretto.stream(QUESTION, strategy="direct") as stream:
            async for text in stream.text():
                whole.add(text, time.perf_counter() - began)
        began = time.perf_counter()
        async with stretto.stream(QUESTION, strategy=STRATEGY, preference="fastest") as parts:
            async for event in parts:
                at_s = time.perf_counter() - began
                if event.type == "branch_delta":
                    branches.setdefault(event.branch_id, Seen()).add(event.text, at_s)
                elif event.type == "section_planned":
                    announced[event.branch_id] = at_s
                elif event.type == "text_delta":
                    merged.add(event.text, at_s)
    written = [
        Part(each.heading, branches[each.id].text, branches[each.id], 0, announced[each.id])
        for each in parts.answer.sections
    ]
    return parts_of(whole), [parts_of(merged)[0], *written], stream.answer, parts.answer


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

    def part(self, y: float, part: Part) -> tuple[str, float]:
        """Heading, bar and first lines of a part, and where the next one begins."""
        drawn = []
        if part.heading:
            appears = self.clock.appears(part.begun_s)
            drawn.append(f'<text class="t" x="{self.x}" y="{y:.1f}">{escape(_cut(part.heading))}{appears}</text>')
            drawn.append(self._bar(self.x + COLUMN - BAR, y - 8, (BAR, BAR), part.span))
            y += TITLE
        for line, times in part.lines(LINES if part.heading else 3):
            drawn.append(self._line(y, line, times))
            y += LINE
        return "".join(drawn), y + BETWEEN

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


def _cut(heading: str) -> str:
    return heading if len(heading) <= LONGEST_HEADING else f"{heading[: LONGEST_HEADING - 1].rstrip()}…"


def draw(scheme: Scheme, whole: list[Part], sections: list[Part], one: Answer, many: Answer) -> str:
    """The picture on one ground."""
    colours = palette(scheme)
    one_s, many_s = one.timeline.total_s or 0.0, many.timeline.total_s or 0.0
    clock = Clock(one_s + HOLD_S, many_s)
    left, right = Column(LEFT, "one", clock), Column(LEFT + COLUMN + GAP, "all", clock)
    drawn = [left.head("in one piece", one_s, one_s), right.head("with Stretto, sections side by side", many_s, one_s)]
    lowest = 0.0
    for column, parts in ((left, whole), (right, sections)):
        y = float(TOP)
        for part in parts:
            shown, y = column.part(y, part)
            drawn.append(shown)
        lowest = max(lowest, y)
    style = (
        f"text{{font-family:-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:{colours.text}}}"
        f".t{{font-size:15.5px;font-weight:600}}.b{{font-size:13px;fill:{colours.dim}}}.h{{font-size:17px}}"
        f".s{{font-size:26px;font-weight:650;text-anchor:end;letter-spacing:-.5px}}"
        f".one{{fill:{colours.field}}}.all{{fill:{colours.accent}}}text.one{{fill:{colours.dim}}}.rail{{fill:{colours.line}}}"
    )
    size = f'viewBox="0 0 {WIDTH} {lowest:.0f}" width="{WIDTH}" height="{lowest:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{"".join(drawn)}</svg>\n'


async def main() -> None:
    """Record once and draw both themes."""
    whole, sections, one, many = await record()
    print(f"in one piece {one.timeline.total_s:.2f} s, {one.usage.completion_tokens} tokens; ", end="")
    print(f"{many.route.strategy} {many.timeline.total_s:.2f} s, {many.usage.completion_tokens} tokens")
    for scheme in SCHEMES:
        file = IMAGES / f"parallel-{scheme}.svg"
        drawn = draw(scheme, whole, sections, one, many)
        file.write_text(drawn, encoding="utf-8")
        print(f"{file.name}: {len(drawn):,} bytes")
    shows = ["docs/make_parallel_picture.py", "docs/recorded.py", "stretto/display/palette.toml"]
    keep_record("python docs/make_parallel_picture.py", {f"parallel-{scheme}.svg": shows for scheme in SCHEMES})


if __name__ == "__main__":
    anyio.run(main)
