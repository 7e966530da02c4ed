"""Compile ahead: ``python -m stretto.local_engine.measuring.ahead [MODEL]``, when a machine or an image is set up.

Otherwise a model's code is compiled for the processor during its first answers, which are slower, and is then kept.
"""

from __future__ import annotations

import argparse
import time

from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import StrettoError


def main(arguments: list[str] | None = None) -> None:
    """Compile the code that a model runs, load the model, which tries it, and compare it with transformers."""
    parser = argparse.ArgumentParser(prog="python -m stretto.local_engine.measuring.ahead", description=main.__doc__)
    parser.add_argument("model", nargs="?", default="local:pocket", metavar="MODEL", help="default %(default)s")
    name = parser.parse_args(arguments).model
    began = time.monotonic()
    try:  # imports torch
        from rich.console import Console  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        from stretto.local_engine.drafting.suffix import DRAFTING  # noqa: PLC0415
        from stretto.local_engine.kernels.compiling.compiled_parts import CHOOSING  # noqa: PLC0415
        from stretto.local_engine.kernels.compiling.compiler import compile_now, try_again  # noqa: PLC0415
        from stretto.local_engine.model.loading.load import load_model  # noqa: PLC0415
        from stretto.local_engine.model.quantised.kept_blocks import finish  # noqa: PLC0415
    except ImportError as error:
        raise SystemExit(
            f"{name} needs {error.name or 'torch and transformers'}, which cannot be imported here. "
            "Run: pip install 'stretto[cli,compiled]'"
        ) from None
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    try:
        with console.status(Text(f"compiling {name} for this processor")):
            try_again()
            done = compile_now([CHOOSING, DRAFTING])
            model = load_model(find_source(name), cuda_graphs=False)  # compiles its forward
            agrees = model.comparison is None or model.comparison.finish()  # else it would run after the first answer
            finish()
    except StrettoError as error:
        raise SystemExit(str(error)) from None
    if not agrees:
        raise SystemExit(f"{name} is not ready: what it says here could not be found to agree with transformers.")
    if not done:
        raise SystemExit(f"{name} runs in torch's operations on this processor: nothing could be compiled.")
    console.print(f"{name} is ready on this processor, after {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
