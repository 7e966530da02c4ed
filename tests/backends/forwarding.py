"""A plain HTTP server that answers as any host, as a proxy does, and keeps what it was asked for, word by word."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

EVENTS = [
    b'event: message_start\ndata: {"type": "message_start", "message": {"usage": {"input_tokens": 1}}}\n\n',
    b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", '
    b'"text": "By proxy."}}\n\n',
    b'event: message_delta\ndata: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": '
    b'{"output_tokens": 2}}\n\nevent: message_stop\ndata: {"type": "message_stop"}\n\n',
]
CHUNK = {"choices": [{"index": 0, "delta": {"content": "By proxy."}, "finish_reason": "stop"}]}


@dataclass
class ForwardProxy:
    """Answers all that it is asked for; ``asked`` holds the head of each request."""

    status: str = "200 OK"
    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def serve(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), "0:0")
        await reader.readexactly(int(length.split(":")[1]))
        chat = b"data: " + json.dumps(CHUNK).encode() + b"\n\ndata: [DONE]\n\n"
        body = b"".join(EVENTS) if "/v1/messages" in head else chat
        kind = "text/event-stream" if self.status.startswith("200") else "text/plain"
        writer.write(f"HTTP/1.1 {self.status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def forwarding(**how):
    proxy = ForwardProxy(**how)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        proxy.port = server.sockets[0].getsockname()[1]
        yield proxy
