"""Offers llama.cpp for a GGUF file that does not run here, or runs slowly: by the program that is installed."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

__all__ = ["llamacpp_offer"]

_XLLAMACPP = (
    "import sys, xllamacpp; given = xllamacpp.CommonParams(); given.model.path = sys.argv[1]; "
    'given.hostnames, given.port = ["127.0.0.1"], 8080; server = xllamacpp.Server(given); sys.stdin.read()'
)


def llamacpp_offer(file: Path) -> str:
    """A sentence with the command that starts a server for this file, and the name to ask it by."""
    where = shlex.quote(str(file))
    if find_spec("llama_cpp") is not None:
        start = f"llama-cpp-python is installed: python -m llama_cpp.server --port 8080 --model {where}"
    elif find_spec("xllamacpp") is not None:
        start = f"xllamacpp is installed: python -c {shlex.quote(_XLLAMACPP)} {where}"
    else:
        start = f"llama.cpp's server may run it: llama-server --model {where}"
    return f"{start} and, in another program, the model llamacpp:NAME."
