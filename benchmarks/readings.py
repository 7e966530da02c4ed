"""Answers by a plan and straight ones, written by a model that stands in behind a file, for blind readers.

    python benchmarks/readings.py ask FOLDER        what is not answered yet is in FOLDER/pending.json
    python benchmarks/readings.py pairs FOLDER      pairs for two readers, the sides drawn by lot and swapped
    python benchmarks/readings.py table FOLDER      what the readers said
    python benchmarks/readings.py twice results/readings.jsonl      what code finds told twice in answers by a plan

The model is an OpenAI-compatible server whose answers stand in ``FOLDER/answers.json``, by the hash of their messages.
A prompt that is not there is refused and noted. So whoever writes for a strong model (a person, or a chat assistant)
answers each prompt by itself, ``ask`` is run again, and so on until nothing is pending. Then ``FOLDER/texts.jsonl`` has
both answers to each question.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measuring import ROOT

from stretto import AsyncStretto
from stretto.backends.registry import open_backend
from stretto.strategies.skeleton.twice import Told

QUESTIONS = ROOT / "benchmarks" / "data" / "readings_questions.jsonl"
CRITERIA = ("relevance", "depth", "coherence", "non_repetition", "structure", "prioritisation", "usefulness")
READ_FIRST = 2  # sections that the later ones read
Messages = Sequence[Mapping[str, Any]]


def key_of(messages: Messages) -> str:
    """The name of a prompt."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:12]


def text_of(messages: Messages) -> str:
    """All that a prompt says."""
    return "\n".join(str(message["content"]) for message in messages)


@contextmanager
def file_server(answers: Mapping[str, str], pending: dict[str, Messages]) -> Iterator[str]:
    """The address of a server that streams the answers, and notes and refuses any other prompt."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = key_of(body["messages"])
            if (text := answers.get(key)) is None:
                pending[key] = body["messages"]
                error = {"message": "not answered yet", "type": "invalid_request_error"}
                self._send(400, "application/json", json.dumps({"error": error}))
                return
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
            deltas: list[tuple[dict[str, str], str | None]] = [
                *(({"content": piece}, None) for piece in text.splitlines(keepends=True)),
                ({}, "stop"),
            ]
            chunks = [
                {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in deltas
            ]
            events = "".join(f"data: {json.dumps(each)}\n\n" for each in chunks)
            self._send(200, "text/event-stream", f"{events}data: [DONE]\n\n")

        def _send(self, status: int, kind: str, text: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def is_due(prompt: str, question: str, beside: Collection[str]) -> bool:
    """Whether a prompt belongs to a whole answer: none that follows a refusal, and none that misses a text.

    ``beside``: the other prompts of this answer.
    """
    if prompt.strip() == question or "You plan the answer" in prompt:
        return True
    heading = re.search(r'Write the sections? "(.+?)"(?: \| ".+")? and nothing else', prompt)
    headings = re.search(r"^Sections: (.+)$", prompt, re.MULTILINE)
    if heading is None or headings is None:
        return False
    if any(re.search(rf'Write the sections .*"{re.escape(heading[1])}"', other) for other in beside if other != prompt):
        return False  # asked for by itself only since the call for several was refused
    return headings[1].split(" | ").index(heading[1]) < READ_FIRST or "These sections are being written" in prompt


async def ask(folder: Path, strategy: str) -> None:
    """Ask every question in both ways."""
    kept = folder / "answers.json"
    answers = json.loads(kept.read_text()) if kept.exists() else {}
    pending: dict[str, Messages] = {}
    due: dict[str, dict[str, Any]] = {}
    rows = []
    with file_server(answers, pending) as url:
        backend = open_backend("openai:gpt-5.4", base_url=url, api_key="none")
        async with aclosing(backend), AsyncStretto(backend) as client:
            for each in map(json.loads, QUESTIONS.read_text().splitlines()):
                row = dict(each)
                for way, asked in (("straight", "direct"), ("planned", strategy)):
                    pending.clear()
                    try:
                        answer = await client.ask(each["question"], strategy=asked)
                        row[way] = answer.text
                    except Exception as error:  # noqa: BLE001 - a refused prompt ends an answer in many ways
                        row[way] = f"({error})"
                    prompts = {key: text_of(messages) for key, messages in pending.items()}
                    for key, prompt in prompts.items():
                        if is_due(prompt, each["question"], prompts.values()):
                            due[key] = {"question": each["question"], "way": way, "prompt": prompt}
                    row[way] = None if pending else row[way]
                rows.append(row)
    (folder / "pending.json").write_text(json.dumps(due, indent=1, ensure_ascii=False))
    (folder / "texts.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{len(due)} prompts wait for an answer; {sum(bool(row['planned']) for row in rows)} answers are whole.")


def pairs(folder: Path) -> None:
    """Write each reader's pairs: the sides are drawn by lot, and the other way round for the second reader."""
    lot = random.Random(folder.name)  # noqa: S311 - no secret
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    first = [lot.random() < 0.5 for _ in rows]
    for reader in (0, 1):
        listed = []
        for number, (row, planned_first) in enumerate(zip(rows, first, strict=True)):
            sides = ("planned", "straight") if planned_first != bool(reader) else ("straight", "planned")
            listed.append({"pair": number, "question": row["question"], "A": row[sides[0]], "B": row[sides[1]]})
        lot.shuffle(listed)
        (folder / f"pairs_{reader + 1}.json").write_text(json.dumps(listed, indent=1, ensure_ascii=False))
        sides_of = {
            str(pair["pair"]): "planned" if first[pair["pair"]] != bool(reader) else "straight" for pair in listed
        }
        (folder / f"sides_{reader + 1}.json").write_text(json.dumps(sides_of))


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """What the readers said, with the ways in place of the sides."""
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    found = []
    for reader in (1, 2):
        first = json.loads((folder / f"sides_{reader}.json").read_text())
        for said in map(json.loads, (folder / f"verdicts_{reader}.jsonl").read_text().splitlines()):
            a = first[str(said["pair"])]
            way = {"A": a, "B": "straight" if a == "planned" else "planned", "tie": "tie"}
            row = rows[said["pair"]]
            given = {name: way[said[name]] for name in ("overall", *CRITERIA)}
            about = {name: row[name] for name in ("question", "kind", "language")}
            found.append({**about, "reader": reader, "first": a, **given, "why": said["why"]})
    return found


def table(folder: Path) -> str:
    """Counts of planned, tie and straight by kind, language and criterion, as Markdown."""
    said = verdicts(folder)
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for each in said:
        for name in ("all", each["kind"], each["language"]):
            groups[name][each["overall"]] += 1
        for name in CRITERIA:
            groups[name][each[name]] += 1
    lines = ["| | planned | tie | straight | planned or tie |", "|---|---|---|---|---|"]
    for name, counts in groups.items():
        share = (counts["planned"] + counts["tie"]) / counts.total()
        lines.append(f"| {name} | {counts['planned']} | {counts['tie']} | {counts['straight']} | {share:.0%} |")
    (folder / "verdicts.jsonl").write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in said))
    return "\n".join(lines)


def twice(file: Path) -> str:
    """What code finds in answers by a plan that another section has told, as Markdown."""
    found = [json.loads(line)["planned"] for line in file.read_text().splitlines()]
    texts = [text for each in found for text in ([each] if isinstance(each, str) else each.values())]
    lines = ["| told | again | share of its words |", "|---|---|---|"]
    for text in texts:
        told = Told()
        for place, section in enumerate(re.split(r"^## .*$", text, flags=re.MULTILINE)):
            for sentence in re.split(r"(?<=[.!?])\s|\n", section):
                if place and not sentence.lstrip().startswith("|"):
                    before, share = told.find(place, sentence)
                    lines += [f"| {before} | {sentence.strip()} | {share:.0%} |"] if before else []
                told.add(place, sentence)
    return "\n".join([*lines, "", f"{len(lines) - 2} sentences of {len(texts)} answers."])


def main() -> None:
    """Do one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("ask", "pairs", "table", "twice"))
    parser.add_argument("folder", type=Path, help="for twice: a file of texts")
    parser.add_argument("--strategy", default="skeleton")
    arguments = parser.parse_args()
    if arguments.do == "ask":
        asyncio.run(ask(arguments.folder, arguments.strategy))
    elif arguments.do == "twice":
        print(twice(arguments.folder))
    elif arguments.do == "pairs":
        pairs(arguments.folder)
    else:
        print(table(arguments.folder))


if __name__ == "__main__":
    main()
