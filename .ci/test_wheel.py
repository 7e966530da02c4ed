"""Test the built wheel: with the lowest versions on Python 3.11, with the newest ones on the newest Python here.

    python .ci/test_wheel.py            both
    python .ci/test_wheel.py lowest     one of the two: lowest, newest

Wheel and source distribution are built, and both come to lie in a temporary folder: the wheel, and that of the
demonstration models' weights, are installed into a fresh virtual environment, the tests and the recipes that they use
are those of the source distribution, and the package in it is taken away. So what the tests import is what is shipped,
and what is left out of either is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pytest_twice import tested

SOURCE = Path(__file__).resolve().parents[1]
LOWEST = (3, 11)
NEWEST = ((3, 14), (3, 13), (3, 12))  # the first that is found
# What the packages decide: how each of them is called, and what it gives back. The rest asks whether answers are right,
# which `make test` does with the newest versions.
OF_PACKAGES = (
    "tests/integrations/langchain",
    *(
        f"tests/backends/test_{name}.py"
        for name in (
            *("anthropic_backend", "connections", "contract", "event_stream", "langchain_backend", "local_backend"),
            *("openai_backend", "registry", "shared_state"),
        )
    ),
    *(
        f"tests/cli/test_{name}.py"
        for name in (
            *("ask_command", "chat_command", "document_command", "doctor_command", "markdown", "refused_commands"),
            *("stopping_in_the_terminal", "terminal_chat"),
        )
    ),
    *(f"tests/document/test_{name}.py" for name in ("encodings", "html", "pdf", "reading", "word")),
    *(
        f"tests/server/test_{name}.py"
        for name in ("anthropic_api", "chat", "other_clients", "responses", "server_page")
    ),
    *(
        f"tests/test_{name}.py"
        for name in (
            *("client", "json_schema", "plugins", "public_face"),
            *("response_format", "sentences", "settings", "telemetry"),
        )
    ),
    *(
        f"tests/local_engine/test_{name}.py"
        for name in (
            *("chat_template", "compiled_code", "compiled_model", "constraint", "detokenize", "engine", "forward"),
            *("generation", "products", "vocabulary"),
        )
    ),
    "tests/local_engine/drafting/test_drafters.py",
)
# What an interpreter decides, where the packages are those of `make test`: event loops, threads and processes, types
# that are read at run time, code that numba makes of bytecode, and that each extra has a wheel for it.
OF_PYTHON = (
    "tests/integrations/langchain/test_chat_model.py",
    *(f"tests/backends/test_{name}.py" for name in ("connections", "contract", "local_backend", "shared_state")),
    *(f"tests/cli/test_{name}.py" for name in ("ask_command", "chat_command", "refused_commands")),
    "tests/document/test_reading.py",
    "tests/server/test_chat.py",
    *(f"tests/test_{name}.py" for name in ("client", "public_face", "response_format", "settings", "telemetry")),
    *(f"tests/local_engine/test_{name}.py" for name in ("compiled_code", "engine", "products")),
    "tests/local_engine/drafting/test_drafters.py",
)


@dataclass(frozen=True)
class Run:
    """One installation of the wheel.

    Attributes:
        name: of its folder.
        python: the interpreter.
        version: of the interpreter.
        constraints: the file of the versions.
        tests: that are run.
    """

    name: str
    python: Path
    version: tuple[int, int]
    constraints: str
    tests: tuple[str, ...]


def main() -> int:
    """Build what is shipped and run the tests against it; the exit status is 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="?", choices=("lowest", "newest"))
    which = parser.parse_args().which
    wanted = [run for run in runs() if which in {None, run.name}]
    with tempfile.TemporaryDirectory(prefix="stretto-wheel-") as folder:
        wheel, weights, sources = built(Path(folder))
        with ThreadPoolExecutor() as at_once:  # downloads, and a compiler each
            core = list(at_once.map(lambda run: install(run, Path(folder) / run.name, wheel, weights), wanted))
        tested = [passed(run, Path(folder) / run.name, sources) for run in wanted]
    failed = [run.name for run, *both in zip(wanted, core, tested, strict=True) if not all(both)]
    for name in failed:
        say(f"{name}: FAILED")
    return 1 if failed or not wanted else 0


def runs() -> Iterator[Run]:
    """Give the installations that this machine has the interpreters for."""
    if python := found(LOWEST):
        yield Run("lowest", python, LOWEST, "constraints-lowest.txt", OF_PACKAGES)
    else:
        say(f"NOT RUN: the lowest versions, because no Python {version(LOWEST)} was found.")
    newest = next(((python, wanted) for wanted in NEWEST if (python := found(wanted))), None)
    if newest is None:
        say(f"NOT RUN: the newest Python, because none of {', '.join(map(version, NEWEST))} was found.")
        return
    yield Run("newest", *newest, "constraints.txt", OF_PYTHON)


def found(wanted: tuple[int, int]) -> Path | None:
    """Find an interpreter: this one, one on the path, or one that pyenv has installed."""
    candidates = [Path(sys.executable)] if sys.version_info[:2] == wanted else []
    if on_path := shutil.which(f"python{version(wanted)}"):
        candidates.append(Path(on_path))
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        candidates += (
            sorted(Path(root, "versions").glob(f"{version(wanted)}.*/bin/python"), reverse=True) if root else []
        )
    return next((python for python in candidates if answers(python, wanted)), None)


def answers(python: Path, wanted: tuple[int, int]) -> bool:
    """Whether an interpreter starts (a shim of pyenv may not) and is of a version."""
    code = f"import sys; sys.exit(sys.version_info[:2] != {wanted})"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def built(folder: Path) -> tuple[Path, Path, Path]:
    """Build the wheels and the source distribution with the tools of this environment; unpack the last.

    Returns:
        the wheel, that of the weights, and the folder of the sources, without the package.
    """
    build = [sys.executable, "-m", "hatchling", "build", "-d"]
    subprocess.run([*build, folder], cwd=SOURCE, check=True)
    subprocess.run([*build, folder / "weights", "--target", "wheel"], cwd=SOURCE / "pocket", check=True)
    (wheel,), (weights,), (archive,) = folder.glob("*.whl"), folder.glob("weights/*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "unpacked", filter="data")
    (sources,) = (folder / "unpacked").iterdir()
    shutil.rmtree(sources / "stretto")
    return wheel, weights, sources


def install(run: Run, folder: Path, wheel: Path, weights: Path) -> bool:
    """Make an environment with the wheel; whether its core alone can be used, before all of it is installed."""
    began = time.monotonic()
    subprocess.run([run.python, "-m", "venv", folder], check=True)
    programs = folder / "bin"
    constraints = folder / "constraints.txt"  # a build of torch for processors alone is taken where there is one
    constraints.write_text((SOURCE / run.constraints).read_text(encoding="utf-8").replace("+cpu", ""), encoding="utf-8")
    add(programs / "python", constraints, str(wheel))
    plain = "from stretto import Stretto; Stretto('openai:any', api_key='any').route('Name five fruits.')"
    route = [programs / "python", "-c", plain]
    core = subprocess.run(route, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    add(programs / "python", constraints, f"{wheel}[all,test]", str(weights))
    say(f"{run.name}: installed in {time.monotonic() - began:.0f} s.")
    # On one processor for each environment: in the tests, all that need it would wait for the same compiler.
    subprocess.run([programs / "python", "-m", "stretto.local_engine.measuring.ahead"], cwd=folder, check=False)
    say(f"{run.name}: compiled after {time.monotonic() - began:.0f} s.")
    return core.returncode == 0


def passed(run: Run, folder: Path, sources: Path) -> bool:
    """Run the tests in an environment; its folder is removed again."""
    began = time.monotonic()
    programs = folder / "bin"
    # The folder of the sources holds the recipes, and no package next to them.
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": ""}
    where = "import recipes, stretto, sys; sys.exit(not stretto.__file__.startswith(sys.prefix))"
    subprocess.run([programs / "python", "-c", where], cwd=folder, env=environment, check=True)
    arguments = ["--numprocesses", "auto", "--dist", "worksteal", "--timeout", "600", "--durations", "25", *run.tests]
    status = tested(programs / "python", arguments, cwd=sources, env=environment)
    shutil.rmtree(folder)  # torch for GPUs takes 5 GB
    say(f"{run.name}: Python {version(run.version)}, {run.constraints}: tested in {time.monotonic() - began:.0f} s.")
    return status == 0


def add(python: Path, constraints: Path, *wanted: str) -> None:
    """Install into an environment; stop where that fails."""
    subprocess.run([SOURCE / ".ci" / "install.sh", python, "--constraint", constraints, *wanted], check=True)


def version(wanted: tuple[int, int]) -> str:
    """Write a version as the names of interpreters do."""
    return ".".join(map(str, wanted))


def say(line: str) -> None:
    """Print a line at once."""
    print(f"test-wheel: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
