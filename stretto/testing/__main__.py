"""A scripted server in a separate process, for benchmarks: it answers like OpenAI and Anthropic."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import selectors
import sys
from functools import partial
from pathlib import Path

from stretto.testing.server import ReplyRule, ScriptedServer


def main() -> None:
    """Serve until interrupted; the first line of output is the base URL."""
    parser = argparse.ArgumentParser(prog="python -m stretto.testing", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--time-to-first-token", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--tokens-per-second", type=float, default=60.0, metavar="RATE")
    parser.add_argument("--token-characters", type=int, metavar="NUMBER", help="of each token, instead of a word")
    parser.add_argument("--slots", type=int, metavar="NUMBER", help="answers written at a time")
    parser.add_argument("--reply", default="OK.", help="what every request is answered")
    parser.add_argument("--replies", type=Path, metavar="FILE", help='JSON list of {"pattern": ..., "reply": ...}')
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write a line of JSON with the times of each request"
    )
    parser.add_argument(
        "--exact", action="store_true", help="tokens on time to 0.1 ms instead of 1 ms; at most 1,000 connections"
    )
    options = parser.parse_args()
    replies: str | list[ReplyRule] = options.reply
    if options.replies:
        rules = json.loads(options.replies.read_text(encoding="utf-8"))
        replies = [ReplyRule(rule["pattern"], rule["reply"]) for rule in rules]
    server = ScriptedServer(
        replies,
        time_to_first_token_s=options.time_to_first_token,
        tokens_per_second=options.tokens_per_second,
        token_characters=options.token_characters,
        slots=options.slots,
        port=options.port,
    )
    try:
        with asyncio.Runner(loop_factory=_exact_loop if options.exact else None) as runner:
            runner.run(_serve(server, options.record))
    except KeyboardInterrupt:
        sys.exit(0)


def _exact_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that does not round waits up to milliseconds, as one on epoll does."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _serve(server: ScriptedServer, record: Path | None) -> None:
    async with server:
        sys.stdout.write(f"{server.openai_url}\n")
        sys.stdout.flush()
        await (asyncio.Event().wait() if record is None else _record(server, record))


def _has_ended(number: int, server: ScriptedServer) -> bool:
    return len(server.requests) > number and server.requests[number].ended_s is not None


async def _record(server: ScriptedServer, file: Path) -> None:
    """Write the times of each request that has ended, in order of arrival."""
    with file.open("w", encoding="utf-8") as lines:
        for number in itertools.count():
            await server.wait_until(partial(_has_ended, number))
            ended = server.requests[number]
            times = {"arrived_s": ended.arrived_s, "tokens_s": ended.tokens_s, "ended_s": ended.ended_s}
            lines.write(json.dumps({"prompt": ended.prompt, **times}) + "\n")
            lines.flush()


if __name__ == "__main__":
    main()
