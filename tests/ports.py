"""Ports for programs that are told where to listen."""

import socket
from contextlib import contextmanager


@contextmanager
def reserved_port():
    """A port of this machine that no other program is given meanwhile; nobody listens there but who is told it."""
    with socket.socket() as held:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):  # one of the two is what those who listen set, too
            held.setsockopt(socket.SOL_SOCKET, option, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
