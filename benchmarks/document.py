"""Long documents: time over the critical path, needles in up to 1,000 windows, LangChain's figures, the own time.

    python benchmarks/document.py [--repeats 5] [--picture]

The server is scripted and runs in a separate process (`document_model.py`), so the time to the first token and the
rate are the same for all. Where LangChain's chains are not installed, their row is left out; `document_langchain.py`
says how to install them. ``--picture`` draws the answer of the documentation only.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import io
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from document_chart import draw
from document_langchain import HOW, read
from document_model import CAPTAIN, FACT, HOPS, QUESTION, haystack, reply
from document_prompt import parts_of_prompts
from measuring import IMAGES, Spread, machine, save
from plots import plot, recorded

from stretto import AsyncStretto, Document
from stretto.backends.base import Capabilities, ModelRequest
from stretto.backends.registry import open_backend
from stretto.backends.resilience.wrapper import Wrapper
from stretto.display.palette import Palette
from stretto.documents import cut
from stretto.documents.pdf import read_pdf
from stretto.strategies.document.document_reading import estimate, share_of
from stretto.testing import ScriptedBackend
from stretto.testing.server import HttpReply, ScriptedServer
from stretto.values.answer import Answer

FIRST_S, RATE = 0.3, 300.0
WINDOW, SLOTS, NEEDLES = 4_000, 8, 72
DENSE = 160  # needles whose findings do not fit into the last prompt, so that they are collapsed
LENGTH = 500_000  # characters of the document that is read over HTTP
HOPS_WINDOWS = (10, 100, 1_000)
CHARACTERS_OF_WINDOW = 6_000


ABLE = Capabilities(context_window=WINDOW, concurrent_calls=SLOTS, json_schema=True)


class Narrow(Wrapper):
    """A model with a small context window, so that a short document is read in many passages."""

    @property
    def capabilities(self) -> Capabilities:
        """As the server's, with the window and slots of this benchmark."""
        return replace(super().capabilities, context_window=WINDOW, concurrent_calls=SLOTS)


@contextmanager
def server(record: Path) -> Iterator[str]:
    """The scripted server in a separate process; it writes the times of each request."""
    command = [sys.executable, __file__, "--serve", str(record)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def serve(record: Path) -> None:
    """Answer until the process is ended, and write the times of each request that has ended, in their order."""
    scripted = ScriptedServer(
        lambda received: HttpReply(reply(received.prompt)), time_to_first_token_s=FIRST_S, tokens_per_second=RATE
    )
    async with scripted:
        sys.stdout.write(f"{scripted.openai_url}\n")
        sys.stdout.flush()
        with record.open("w", encoding="utf-8") as lines:
            for number in itertools.count():
                await scripted.wait_until(partial(_ended, number=number))
                request = scripted.requests[number]
                lines.write(json.dumps([_kind(request.prompt), request.arrived_s, request.ended_s]) + "\n")
                lines.flush()


def _ended(scripted: ScriptedServer, number: int) -> bool:
    return len(scripted.requests) > number and scripted.requests[number].ended_s is not None


def _kind(prompt: str) -> str:
    return "map" if '"no_information"' in prompt else "collapse" if '"keep"' in prompt else "final"


def critical_s(calls: Sequence[tuple[str, float, float]]) -> float:
    """The least an answer can take: passages in the slots one after the other, the slowest collapse, the last call."""
    slots = [0.0] * SLOTS
    for kind, arrived_s, ended_s in calls:
        if kind == "map":
            heapq.heappush(slots, heapq.heappop(slots) + ended_s - arrived_s)
    rest = {kind: max((e - a for k, a, e in calls if k == kind), default=0.0) for kind in ("collapse", "final")}
    return max(slots) + rest["collapse"] + rest["final"]


class Timed:
    """Answers over the server, with their seconds and those of the critical path.

    Args:
        stretto: asks the server.
        record: file to which the server writes the times of its calls.
    """

    def __init__(self, stretto: AsyncStretto, record: Path) -> None:
        self._stretto, self._record = stretto, record

    async def answer(self, document: Document) -> tuple[Answer, float, float]:
        """The answer, its seconds, and these over the critical path."""
        known = len(self._ended())
        began = time.perf_counter()
        answer = await self._stretto.ask(QUESTION, strategy="document", documents=[document])
        seconds = time.perf_counter() - began
        # Another process writes them.
        while len(calls := self._ended()[known:]) < answer.usage.calls:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        return answer, seconds, seconds / critical_s([json.loads(line) for line in calls])

    def _ended(self) -> list[str]:
        return self._record.read_text().splitlines() if self._record.exists() else []


async def over_http(repeats: int) -> dict[str, Any]:
    """Stretto and LangChain over the same server, in turns, and Stretto alone where findings are collapsed."""
    walls: list[float] = []
    ratios: dict[str, list[float]] = {"whole": [], "collapsed": []}
    peers: list[dict[str, float]] = []
    text, dense = haystack(LENGTH, NEEDLES), haystack(LENGTH, DENSE)
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "times.jsonl"
        with server(record) as url:
            backend = Narrow(open_backend("openai:scripted", base_url=url, api_key="none"))
            async with AsyncStretto(backend) as stretto:
                timed = Timed(stretto, record)
                for turn in range(repeats + 1):
                    # A document that was not cut before.
                    collapsed, _, over = await timed.answer(Document(text=f"{dense}\n\n{turn}", title="report"))
                    document = Document(text=f"{text}\n\n{turn}", title="report")
                    answer, seconds, ratio = await timed.answer(document)
                    longest = max(record.end - record.start for record in answer.passages)
                    peer = await read(url, document.text, slots=SLOTS, chunk_characters=longest, most_tokens=2_300)
                    if turn == 0:
                        continue  # imports and connections
                    walls.append(seconds)
                    ratios["whole"].append(ratio)
                    ratios["collapsed"].append(over)
                    if peer is not None:
                        peers.append(peer)
            await backend.aclose()
    found = {
        "repeats": repeats,
        "passages": len(answer.passages),
        "stretto": {
            "seconds": _spread(walls),
            "calls": answer.usage.calls,
            "tokens": answer.usage.total_tokens,
            "prompt_tokens": answer.usage.prompt_tokens,
            "needles": len({citation.quote for citation in answer.citations}),
        },
        "wall_over_critical_path": _spread(ratios["whole"]),
        "collapsed": {
            "needles_there": DENSE,
            "needles": len({citation.quote for citation in collapsed.citations}),
            "collapses": sum(branch.kind == "collapse" for branch in collapsed.branches),
            "wall_over_critical_path": _spread(ratios["collapsed"]),
        },
    }
    if peers:
        found["langchain"] = peers[-1] | {"seconds": _spread([peer["seconds"] for peer in peers])}
    else:
        sys.stderr.write(f"LangChain is left out: {HOW}\n")
    picture(collapsed)
    return found


def needles() -> list[dict[str, Any]]:
    """Documents of 10, 100 and 1,000 windows: what is found of 40 needles, and of a question in two hops."""
    rows = []
    for windows in HOPS_WINDOWS:
        document = Document(text=haystack(windows * CHARACTERS_OF_WINDOW, 40) + f"\n\n{CAPTAIN}", title="report")
        row: dict[str, Any] = {"windows": windows, "characters": len(document.text)}
        for name, question in (("all", QUESTION), ("two_hops", HOPS)):
            backend = ScriptedBackend(_script, capabilities=Capabilities(context_window=2_000, json_schema=True))
            began = time.perf_counter()
            answer = asyncio.run(_ask(backend, question, document))
            quotes = [citation.quote for citation in answer.citations]
            exact = all(document.text[each.start : each.end] == each.quote for each in answer.citations)
            row[name] = {
                "found": len({quote for quote in quotes if FACT.fullmatch(quote)}),
                "exact_offsets": exact,
                "passages": len(answer.passages),
                "calls": answer.usage.calls,
                "seconds": round(time.perf_counter() - began, 2),
            }
        rows.append(row)
    return rows


def _script(prompt: ModelRequest) -> str:
    return reply("\n\n".join(message.content for message in prompt.messages))


async def _ask(backend: ScriptedBackend, question: str, document: Document) -> Answer:
    async with AsyncStretto(backend) as stretto:
        return await stretto.ask(question, strategy="document", documents=[document])


def own_time(repeats: int) -> dict[str, Any]:
    """Processor seconds for 10 MB of text, cut and counted, and for a PDF of 300 pages, over pypdf's own."""
    document = Document(text=haystack(10_000_000, 10))
    data = _pdf(300)
    times: dict[str, list[float]] = {"cut_10_mb": [], "pdf": [], "pypdf": []}
    for _ in range(repeats):
        times["cut_10_mb"].append(_cpu(lambda: cut(document, 8_000, estimate, share=share_of)))
        times["pdf"].append(_cpu(lambda: read_pdf(data, "report")))
        times["pypdf"].append(_cpu(lambda: _extract(data)))
    return {name: _spread(values) for name, values in times.items()}


def _cpu(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _extract(data: bytes) -> None:
    from pypdf import PdfReader  # noqa: PLC0415 - part of an extra

    for page in PdfReader(io.BytesIO(data)).pages:
        page.extract_text()


def _pdf(pages: int) -> bytes:
    """A PDF with forty lines of text on each page."""
    from pypdf import PdfWriter  # noqa: PLC0415 - as above
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject  # noqa: PLC0415

    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    writer = PdfWriter()
    words = haystack(80 * 40 * pages, 0).replace("\n\n", " ")
    for number in range(pages):
        page = writer.add_blank_page(600, 800)
        lines = (words[(number * 40 + line) * 80 :][:80] for line in range(40))
        drawn = " ".join(f"1 0 0 1 40 {760 - 18 * at} Tm ({line}) Tj" for at, line in enumerate(lines))
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 11 Tf {drawn} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _spread(values: Sequence[float]) -> dict[str, float]:
    spread = Spread.of(values)
    return {"median": round(spread.median, 4), "least": round(spread.least, 4), "most": round(spread.most, 4)}


def picture(answer: Answer) -> None:
    """Draw when each call of an answer ran: the passages, their findings put together, the answer."""
    names = {"passage": "map: passages", "collapse": "collapse: findings", "direct": "final: the answer"}

    def drawn(plt: Any, colours: Palette) -> Any:
        figure, axes = plt.subplots(figsize=(9, 4.5))
        for kind, colour in zip(names, colours.voices, strict=False):
            spans = [(row, each.span) for row, each in enumerate(answer.branches) if each.kind == kind]
            rows = [
                (row, s.started_s, s.ended_s) for row, s in spans if s.started_s is not None and s.ended_s is not None
            ]
            widths, lefts = [ended - started for _, started, ended in rows], [started for _, started, _ in rows]
            axes.barh([row for row, *_ in rows], widths, left=lefts, height=0.9, color=colour, label=names[kind])
        axes.invert_yaxis()
        axes.set(xlabel="seconds since the question", ylabel="calls")
        axes.legend(loc="lower left")
        axes.set_title(f"{len(answer.passages)} passages, {SLOTS} at a time")
        return figure

    plot(IMAGES / "document", drawn, "svg")
    recorded("python benchmarks/document.py --picture", ["document.svg"])


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--picture", action="store_true", help="only draw docs/img/document-*.svg")
    parser.add_argument("--serve", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        anyio.run(serve, options.serve)
        return
    http = anyio.run(over_http, 1 if options.picture else options.repeats)
    if options.picture:
        return
    result = {
        "machine": machine(),
        "server": {"time_to_first_token_s": FIRST_S, "tokens_per_second": RATE, "window": WINDOW, "slots": SLOTS},
        "needles_there": NEEDLES,
        "over_http": http,
        "map_prompt_tokens": parts_of_prompts(LENGTH, NEEDLES, ABLE),
        "needles": needles(),
        "own_cpu_seconds": own_time(options.repeats),
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    save("document", result)
    draw(result)


if __name__ == "__main__":
    main()
