"""Puts a trained model into the package: ``python -m recipes.publish FROM TO``.

It is kept as what it changes of its base's weights, in four bits, beside a ``config.json`` that names the base. The
tokenizer is that of the base.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

from rich.console import Console

from stretto.local_engine.model.adapter_files import CHANGE_FILE
from stretto.local_engine.model.changed import CHANGES_OF
from stretto.local_engine.pocket import MODEL_FOLDER

__all__ = ["main", "publish"]


def publish(trained: Path, target: Path, base: Path = MODEL_FOLDER) -> int:
    """Write the model in ``trained`` to ``target``; returns the bytes of what it changes."""
    target.mkdir(parents=True, exist_ok=True)
    if (trained / "generation_config.json").is_file():
        shutil.copyfile(trained / "generation_config.json", target / "generation_config.json")
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    config[CHANGES_OF] = os.path.relpath(base, target)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    new = target / "change.new"  # the file that is there may be mapped into a running program's memory
    shutil.copyfile(trained / CHANGE_FILE, new)
    new.replace(target / CHANGE_FILE)
    return (target / CHANGE_FILE).stat().st_size


def main(arguments: list[str] | None = None) -> None:
    """Keep a trained model as what it changes of its base."""
    parser = argparse.ArgumentParser(prog="python -m recipes.publish", description=main.__doc__)
    parser.add_argument("trained", type=Path, help="folder of the trained model")
    parser.add_argument("target", type=Path, help="folder to write")
    parser.add_argument("--base", type=Path, default=MODEL_FOLDER, help="the model it was trained from")
    chosen = parser.parse_args(arguments)
    size = publish(chosen.trained, chosen.target, chosen.base)
    Console().print(f"wrote {chosen.target}, {size / 1e6:.1f} MB of changes", highlight=False)


if __name__ == "__main__":
    main()
