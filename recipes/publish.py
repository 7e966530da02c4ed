"""Makes a trained model small enough to be published: ``python -m recipes.publish FROM TO``.

Matrices become whole numbers with one scale a row (`stretto.local_engine.model.int8_rows`): half the bytes of bfloat16.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from rich.console import Console
from safetensors.torch import load_file, save_file

from stretto.local_engine.model.int8_rows import STORED_AS, to_int8_rows

__all__ = ["main", "publish"]

_BESIDE = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def publish(trained: Path, target: Path) -> int:
    """Write the model in ``trained`` to ``target``; returns the bytes of its weights."""
    target.mkdir(parents=True, exist_ok=True)
    for name in _BESIDE:
        if (trained / name).is_file():
            shutil.copyfile(trained / name, target / name)
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    config |= {"stored_as": STORED_AS, "dtype": "float32"}
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    new = target / "model.new"  # the file that is there may be mapped into a running program's memory
    save_file(to_int8_rows(load_file(trained / "model.safetensors")), new, metadata={"format": "pt"})
    new.replace(target / "model.safetensors")
    return (target / "model.safetensors").stat().st_size


def main(arguments: list[str] | None = None) -> None:
    """Store the weights of a trained model as whole numbers."""
    parser = argparse.ArgumentParser(prog="python -m recipes.publish", description=main.__doc__)
    parser.add_argument("trained", type=Path, help="folder of the trained model")
    parser.add_argument("target", type=Path, help="folder to write")
    chosen = parser.parse_args(arguments)
    size = publish(chosen.trained, chosen.target)
    Console().print(f"wrote {chosen.target}, {size / 1e6:.1f} MB of weights", highlight=False)


if __name__ == "__main__":
    main()
