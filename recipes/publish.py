"""Puts a trained model into the package: ``python -m recipes.publish FROM TO``.

It is kept as what it changes of its base's weights, in four bits, next to a ``config.json`` that names the base. The
tokenizer is that of the base.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path

from rich.console import Console
from safetensors.torch import load_file

from stretto.local_engine.model.adapters.adapter_files import CHANGE_FILE, fingerprint
from stretto.local_engine.model.formats.differences import CHANGES_OF, write_differences
from stretto.local_engine.pocket import pocket_folder

__all__ = ["main", "publish"]


def publish(trained: Path, target: Path, base: Path | None = None, most: int | None = None) -> int:
    """Write the model in ``trained`` to ``target``; returns the bytes of what it changes of ``base``, the pocket model.

    With ``most``, the changes are found from the whole weights, without those of the embedding, and kept as whole
    numbers up to it: 3 instead of 7 makes a compressed file a quarter smaller.
    """
    base = base or pocket_folder()
    target.mkdir(parents=True, exist_ok=True)
    if (trained / "generation_config.json").is_file():
        shutil.copyfile(trained / "generation_config.json", target / "generation_config.json")
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    config[CHANGES_OF] = os.path.relpath(base, target)
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    new = target / "change.new"  # the file that is there may be mapped into a running program's memory
    if most is None:
        shutil.copyfile(trained / CHANGE_FILE, new)
    else:
        known, own = load_file(base / "model.safetensors"), load_file(trained / "model.safetensors")
        found = {name: own[name].float() - known[name].float() for name in own if "embed" not in name}
        write_differences(new, found, fingerprint(base), most)
    new.replace(target / CHANGE_FILE)
    return (target / CHANGE_FILE).stat().st_size


def main(arguments: list[str] | None = None) -> None:
    """Keep a trained model as what it changes of its base."""
    parser = argparse.ArgumentParser(prog="python -m recipes.publish", description=main.__doc__)
    parser.add_argument("trained", type=Path, help="folder of the trained model")
    parser.add_argument("target", type=Path, help="folder to write")
    parser.add_argument("--base", type=Path, help="the model it was trained from (default: pocket)")
    parser.add_argument("--most", type=int, help="find the changes anew, as whole numbers up to this (7 or less)")
    chosen = parser.parse_args(arguments)
    size = publish(chosen.trained, chosen.target, chosen.base, chosen.most)
    Console().print(f"wrote {chosen.target}, {size / 1e6:.1f} MB of changes", highlight=False)


if __name__ == "__main__":
    main()
