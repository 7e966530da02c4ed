"""Measure what each extra costs to install: packages and megabytes, each in a fresh virtual environment.

    python .ci/install_cost.py            a table in Markdown
    python .ci/install_cost.py documents  of one extra; `core` is the plain install

What pip and the environment take by themselves is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from test_extras import EXTRAS, SOURCE, built, install


def main() -> None:
    """Build the wheel, install it once for each extra, and print a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        print("| install | packages | MB |\n|---|---|---|")
        for extra in sys.argv[1:] or EXTRAS:
            packages, size = cost(wheel, extra, Path(folder) / f"venv-{extra}")
            name = "stretto" if extra == "core" else f"stretto[{extra}]"
            print(f"| `pip install '{name}'` | {packages} | {size / 1e6:,.0f} |", flush=True)


def cost(wheel: Path, extra: str, folder: Path) -> tuple[int, int]:
    """Give how many packages an installation has, ours among them, and their bytes."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    before = size(packages), distributions(packages)
    named = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
    install(folder / "bin" / "python", SOURCE / "constraints.txt", named)
    return distributions(packages) - before[1], size(packages) - before[0]


def distributions(packages: Path) -> int:
    """Count the installed packages."""
    return sum(1 for _ in packages.glob("*.dist-info"))


def size(folder: Path) -> int:
    """Add up the bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
