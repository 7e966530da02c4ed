"""Test each extra alone: the wheel in a new environment, a question that the extra makes possible, a real answer.

    python .ci/test_extras.py               all of them, and the plain install
    python .ci/test_extras.py cli server    some of them; `core` is the plain install

The plain install is also asked for what each extra brings: it must say in one sentence which package is missing and
how it is installed. What is asked is in `asked_of_extras.py`, which the new environment's interpreter runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
EXTRAS = (
    "core",
    "openai",
    "anthropic",
    "cli",
    "chat",
    "langchain",
    "documents",
    "server",
    "redis",
    "prices",
    "local",
    "compiled",
    "ray",
    "all",
)
WITH_WEIGHTS = ("local", "compiled", "all")  # of the demonstration model, which is asked there


def main() -> int:
    """Build the wheel and try the extras; the exit status is 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=", ".join(EXTRAS))
    wanted = parser.parse_args().extras or EXTRAS
    if unknown := set(wanted) - set(EXTRAS):
        parser.error(f"there is no extra {', '.join(sorted(unknown))}: {', '.join(EXTRAS)}")
    with tempfile.TemporaryDirectory(prefix="stretto-extras-") as folder:
        wheel, weights = built(Path(folder)), built(Path(folder) / "weights", SOURCE / "pocket")
        failed = [extra for extra in wanted if not works(extra, wheel, weights, Path(folder) / extra)]
    print(f"test-extras: {len(wanted) - len(failed)} of {len(wanted)} work", *failed and ["FAILED:", *failed])
    return 1 if failed else 0


def works(extra: str, wheel: Path, weights: Path, folder: Path) -> bool:
    """Install one extra, and ask what it makes possible; the folder is removed again."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    # A build of torch for processors alone is taken where there is one.
    constraints = folder / "constraints.txt"
    constraints.write_text((SOURCE / "constraints.txt").read_text(encoding="utf-8").replace("+cpu", ""), "utf-8")
    named = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
    install(python, constraints, named, *[str(weights)] if extra in WITH_WEIGHTS else [])
    installed = time.monotonic()
    script = shutil.copy(SOURCE / ".ci" / "asked_of_extras.py", folder)  # next to no package of ours
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, script, extra], cwd=folder, env=environment, check=False).returncode == 0
    shutil.rmtree(folder)  # torch takes a gigabyte
    print(
        f"test-extras: {extra}: {'works' if done else 'FAILED'}, installed in {installed - began:.0f} s, "
        f"asked in {time.monotonic() - installed:.0f} s",
        flush=True,
    )
    return done


def built(folder: Path, source: Path = SOURCE) -> Path:
    """Build a wheel with the tools of this environment."""
    wheel = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", folder]
    subprocess.run(wheel, cwd=source, check=True, stdout=subprocess.DEVNULL)
    (found,) = folder.glob("*.whl")
    return found


def install(python: Path | str, constraints: Path, *wanted: str) -> None:
    """Install into an environment; stop where that fails."""
    subprocess.run([SOURCE / ".ci" / "install.sh", python, "--constraint", constraints, *wanted], check=True)


if __name__ == "__main__":
    sys.exit(main())
