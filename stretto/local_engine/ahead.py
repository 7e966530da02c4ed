"""Compiling ahead: ``python -m stretto.local_engine.ahead [MODEL]``, where a machine or an image is set up.

The steps of a model are compiled for the processor when they are first called, and kept. Whoever asks first waits for
that, unless it was done before.
"""

from __future__ import annotations

import argparse
import time

import torch
from rich.console import Console

from stretto.errors import StrettoError
from stretto.local_engine.load import load_model
from stretto.local_engine.sampling import best_tokens
from stretto.local_engine.source import find_source

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Load a model and let what it runs be compiled."""
    parser = argparse.ArgumentParser(prog="python -m stretto.local_engine.ahead", description=main.__doc__)
    parser.add_argument("model", nargs="?", default="local:pocket", metavar="MODEL", help="default %(default)s")
    name, console = parser.parse_args(arguments).model, Console(highlight=False, soft_wrap=True)
    began = time.monotonic()
    try:
        with console.status(f"compiling the steps of {name} for this processor"):
            load_model(find_source(name))  # it is tried before it is used
            best_tokens(torch.zeros(1, 1, 2), [1], 1)
    except StrettoError as error:
        raise SystemExit(str(error)) from None
    console.print(f"{name} is ready on this processor, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
