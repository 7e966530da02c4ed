"""Answers in parallel and straight ones, written by a model that is replaced by a file, for blind readers.

    python benchmarks/readings.py ask FOLDER        what is not answered yet is in FOLDER/pending.json
    python benchmarks/readings.py pairs FOLDER      pairs for two readers, the sides drawn by lot and swapped
    python benchmarks/readings.py table FOLDER      what the readers said
    python benchmarks/readings.py twice results/readings.jsonl      what code finds repeated in answers by a plan
    python benchmarks/readings.py terms FOLDER      how many terms the pieces of rewritten texts render alike

    python benchmarks/readings.py ask FOLDER --file requests.jsonl --strategy rewrite      texts or records

Each line of a file of requests is an object with a ``question``, and perhaps a ``system`` message, a ``text`` that
follows the question, a ``document``, a ``schema`` of the record that is asked for, a ``kind`` and a ``language``.

The model is an OpenAI-compatible server whose answers are in ``FOLDER/answers.json``, by the hash of their messages.
A prompt that is not there is noted and never answered, so nothing is asked that follows from a failure. Whoever writes
for a strong model (a person, or a chat assistant) answers each prompt by itself, ``ask`` is run again, and so on until
nothing is pending. Then ``FOLDER/texts.jsonl`` has both answers to each question.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
from measuring import ROOT

from stretto import AsyncStretto
from stretto.backends.registry import open_backend
from stretto.strategies.rewrite.terms import Shared
from stretto.strategies.skeleton.twice import TextSoFar
from stretto.values.errors import StrettoError

QUESTIONS = ROOT / "benchmarks" / "data" / "readings_questions.jsonl"
CRITERIA = ("relevance", "depth", "coherence", "non_repetition", "structure", "prioritisation", "usefulness")
ABOUT = ("question", "kind", "language")
QUIET_S = 5.0  # without a further prompt, after which all that can be asked is pending
PIECE = re.compile(r"(?P<fence>=== [0-9a-f]+ ===) piece\n(?P<piece>.*?)\n(?P=fence) after", re.DOTALL)
TERMS = "Agree on what must be the same in all pieces"
Messages = Sequence[Mapping[str, Any]]


def key_of(messages: Messages) -> str:
    """The name of a prompt."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:12]


def text_of(messages: Messages) -> str:
    """All that a prompt says."""
    return "\n".join(str(message["content"]) for message in messages)


@contextmanager
def file_server(answers: Mapping[str, str], asked: dict[str, dict[str, Messages]]) -> Iterator[str]:
    """The address of a server that streams the answers, and holds any other prompt until it is closed.

    ``asked``: takes the prompts by the key of who asks.
    """
    closed = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            key = key_of(body["messages"])
            messages = list(body["messages"])
            if (
                named_schema := body.get("response_format", {}).get("json_schema")
            ) is not None:  # who writes has to see it
                messages.append(
                    {"content": f"Answer with one JSON object that fits this JSON schema: {json.dumps(named_schema)}"}
                )
            asked.setdefault(self.headers["authorization"].removeprefix("Bearer "), {})[key] = messages
            if (text := answers.get(key)) is None:
                closed.wait()
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
            text = f"{events}data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        closed.set()
        server.shutdown()
        thread.join()
        server.server_close()


async def ask(folder: Path, strategy: str, rows: Sequence[dict[str, Any]]) -> None:
    """Ask all requests in both ways, all at once."""
    kept = folder / "answers.json"
    answers = json.loads(kept.read_text()) if kept.exists() else {}
    asked: dict[str, dict[str, Messages]] = {}
    waiting = 2 * len(rows)

    async def one(url: str, number: int, way: str) -> None:
        nonlocal waiting
        row, by = rows[number], "direct" if way == "straight" else strategy
        question = "\n\n".join(filter(None, (row["question"], row.get("text"))))
        backend = open_backend("openai:gpt-5.4", base_url=url, api_key=f"{number}-{way}")
        async with aclosing(backend), AsyncStretto(backend) as client:
            try:
                answer = await client.ask(
                    question,
                    strategy=by,
                    system=row.get("system"),
                    response_format=row.get("schema"),
                    documents=[row["document"]] if "document" in row else None,
                )
                row[way] = answer.text
            except StrettoError as error:
                row[way] = f"({error})"
        if way == "planned" and by == "rewrite":
            row |= of_pieces(asked[f"{number}-{way}"], answers)
        waiting -= 1

    with file_server(answers, asked) as url:
        async with anyio.create_task_group() as tasks:
            for number, row in enumerate(rows):
                row |= {"planned": None, "straight": None}
                for way in ("straight", "planned"):
                    tasks.start_soon(one, url, number, way)
            seen = 0
            while waiting and (not seen or seen < sum(map(len, asked.values()))):
                seen = sum(map(len, asked.values()))
                await anyio.sleep(QUIET_S)
            tasks.cancel_scope.cancel()
    due = {
        key: {
            "question": rows[int(who.partition("-")[0])]["question"],
            "way": who.partition("-")[2],
            "prompt": prompt_text,
        }
        for who, prompts in asked.items()
        for key, messages in prompts.items()
        if key not in answers and (prompt_text := text_of(messages))
    }
    (folder / "pending.json").write_text(json.dumps(due, indent=1, ensure_ascii=False))
    (folder / "texts.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{len(due)} prompts wait for an answer; {sum(bool(row['planned']) for row in rows)} answers are whole.")


def of_pieces(prompts: Mapping[str, Messages], answers: Mapping[str, str]) -> dict[str, Any]:
    """The terms that were agreed on, and each piece with its result."""
    found: dict[str, Any] = {"terms": "", "pieces": []}
    for key, messages in prompts.items():
        text = text_of(messages)
        if TERMS in text:
            found["terms"] = answers[key]
        elif piece := PIECE.search(text):
            found["pieces"].append((piece["piece"], answers[key]))
    return found


def pairs(folder: Path) -> None:
    """Write each reader's pairs: the sides are drawn by lot, and the other way round for the second reader."""
    lot = random.Random(folder.name)  # noqa: S311 - no secret
    rows = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    first = [lot.random() < 0.5 for _ in rows]
    for reader in (0, 1):
        listed = []
        for number, (row, planned_first) in enumerate(zip(rows, first, strict=True)):
            sides = ("planned", "straight") if planned_first != bool(reader) else ("straight", "planned")
            asked = {name: row[name] for name in ("question", "system", "text", "document", "schema") if row.get(name)}
            listed.append({"pair": number, **asked, "A": row[sides[0]], "B": row[sides[1]]})
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
        for verdict in map(json.loads, (folder / f"verdicts_{reader}.jsonl").read_text().splitlines()):
            a = first[str(verdict["pair"])]
            way = {"A": a, "B": "straight" if a == "planned" else "planned", "tie": "tie"}
            row = rows[verdict["pair"]]
            given = {name: way[verdict[name]] for name in ("overall", *CRITERIA)}
            about = {name: row.get(name, "") for name in ABOUT}
            found.append({**about, "reader": reader, "first": a, **given, "why": verdict["why"]})
    return found


def table(folder: Path) -> str:
    """Counts of planned, tie and straight by kind, language and criterion, as Markdown."""
    rows = verdicts(folder)
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for each in rows:
        for name in filter(None, ("all", each["kind"], each["language"])):
            groups[name][each["overall"]] += 1
        for name in CRITERIA:
            groups[name][each[name]] += 1
    lines = ["| | planned | tie | straight | planned or tie |", "|---|---|---|---|---|"]
    for name, counts in groups.items():
        share = (counts["planned"] + counts["tie"]) / counts.total()
        lines.append(f"| {name} | {counts['planned']} | {counts['tie']} | {counts['straight']} | {share:.0%} |")
    (folder / "verdicts.jsonl").write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows))
    return "\n".join(lines)


def twice(file: Path) -> str:
    """What code finds in answers by a plan that another section already has, as Markdown."""
    found = [json.loads(line)["planned"] for line in file.read_text().splitlines()]
    texts = [text for each in found for text in ([each] if isinstance(each, str) else each.values())]
    lines = ["| told | again | share of its words |", "|---|---|---|"]
    for text in texts:
        known = TextSoFar()
        for place, section in enumerate(re.split(r"^## .*$", text, flags=re.MULTILINE)):
            for sentence in re.split(r"(?<=[.!?])\s|\n", section):
                if place and not sentence.lstrip().startswith("|"):
                    before, share = known.find(place, sentence)
                    lines += [f"| {before} | {sentence.strip()} | {share:.0%} |"] if before else []
                known.add(place, sentence)
    return "\n".join([*lines, "", f"{len(lines) - 2} sentences of {len(texts)} answers."])


def terms(folder: Path) -> str:
    """How many pieces render each term as it was agreed on, as Markdown."""
    lines = ["| text | terms | places | as agreed | not |", "|---|---|---|---|---|"]
    all_right = all_wrong = 0
    for row in map(json.loads, (folder / "texts.jsonl").read_text().splitlines()):
        if not row.get("terms"):
            continue
        shared = Shared({})
        shared.take(row["terms"], "\n".join(source for source, _ in row["pieces"]))
        right, wrong = shared.counted(row["pieces"])
        all_right, all_wrong = all_right + right.total(), all_wrong + wrong.total()
        named = ", ".join(f"{term} ({count})" for term, count in wrong.items())
        places = right.total() + wrong.total()
        lines.append(f"| {row['question'][:60]} | {len(shared.agreed)} | {places} | {right.total()} | {named} |")
    share = all_right / max(1, all_right + all_wrong)
    return "\n".join([*lines, "", f"{all_right} of {all_right + all_wrong} places as agreed: {share:.0%}."])


def main() -> None:
    """Do one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("ask", "pairs", "table", "twice", "terms"))
    parser.add_argument("folder", type=Path, help="for twice: a file of texts")
    parser.add_argument("--strategy", default="skeleton", help="of the answers that are compared with straight ones")
    parser.add_argument("--file", type=Path, default=QUESTIONS, help="of requests, one a line")
    arguments = parser.parse_args()
    if arguments.do == "ask":
        rows = [json.loads(line) for line in arguments.file.read_text().splitlines()]
        asyncio.run(ask(arguments.folder, arguments.strategy, rows))
    elif arguments.do == "terms":
        print(terms(arguments.folder))
    elif arguments.do == "twice":
        print(twice(arguments.folder))
    elif arguments.do == "pairs":
        pairs(arguments.folder)
    else:
        print(table(arguments.folder))


if __name__ == "__main__":
    main()
