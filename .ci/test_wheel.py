"""Test the built wheel: with the lowest versions on Python 3.11, with the newest ones on the newest Python here.

    python .ci/test_wheel.py            both
    python .ci/test_wheel.py lowest     one of the two: lowest, newest

The tests are copied to a folder without the source tree, so that what they import is what is shipped. The newest
Python runs without torch, of which there may be no build for processors alone for it: `make test` and the lowest
versions run with it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
BUILD = SOURCE / "build" / "wheel"
LOWEST = (3, 11)
NEWEST = ((3, 13), (3, 12))  # the first that is found
BESIDE_THE_TESTS = ("tests", "docs", "README.md", "pyproject.toml")
LEFT_OUT = (
    "tests/benchmarks",  # the programs are not shipped
    "tests/docs",  # nor what makes the reference
    "tests/test_pocket.py",  # this and the next two train, with what is not shipped
    "tests/test_pocket_training.py",
    "tests/test_router_train.py",
    "tests/cli/test_reference.py",  # docs/cli.md is what the newest typer prints
    "tests/test_router_tables.py",  # reads the rows that the model was trained on
    "tests/test_types.py",  # of the source
    "tests/test_wheel.py",
)
OF_THE_ENGINE = (  # what takes seconds of tests/local_engine; `make test` runs all of it
    "tests/local_engine/test_chat_template.py",
    "tests/local_engine/test_constraint.py",
    "tests/local_engine/test_detokenize.py",
    "tests/local_engine/test_generation.py",
    "tests/local_engine/test_sampling.py",
    "tests/local_engine/test_vocabulary.py",
)
NEED_TORCH = (
    "tests/local_engine",
    "tests/backends/test_contract.py::test_a_local_model_keeps_the_contract",
    "tests/backends/test_local_backend.py",
    "tests/backends/test_local_loading.py",
    "tests/cli/test_ask_command.py::test_log_probabilities_are_a_table_below_the_answer",
    "tests/cli/test_ask_command.py::test_with_json_log_probabilities_are_in_the_answer_and_nowhere_else",
    "tests/cli/test_bench_command.py",
    "tests/test_answer_decoding.py",
    "tests/test_answer_logprobs.py",
)


@dataclass(frozen=True)
class Run:
    """One installation of the wheel.

    Attributes:
        name: of its folder.
        python: the interpreter.
        version: of the interpreter.
        constraints: the file of the versions.
        extra: what is installed beside the core, for the tests.
    """

    name: str
    python: Path
    version: tuple[int, int]
    constraints: str
    extra: str

    @property
    def has_torch(self) -> bool:
        """Whether models run in the process."""
        return not {"local", "all"}.isdisjoint(self.extra.split(","))


def main() -> int:
    """Build the wheel and run the tests against it; the exit status is 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="?", choices=("lowest", "newest"))
    which = parser.parse_args().which
    shutil.rmtree(BUILD, ignore_errors=True)
    wheel = built()
    failed = [run.name for run in runs() if which in {None, run.name} and not passed(run, wheel)]
    for name in failed:
        say(f"{name}: FAILED")
    return 1 if failed else 0


def runs() -> Iterator[Run]:
    """Give the installations that this machine has the interpreters for."""
    if python := found(LOWEST):
        yield Run("lowest", python, LOWEST, "constraints-lowest.txt", "all,test")
    else:
        say(f"NOT RUN: the lowest versions, because no Python {version(LOWEST)} was found.")
    newest = next(((python, wanted) for wanted in NEWEST if (python := found(wanted))), None)
    if newest is None:
        say(f"NOT RUN: the newest Python, because none of {', '.join(map(version, NEWEST))} was found.")
        return
    python, wanted = newest
    say(f"Python {version(wanted)} runs without [local]: torch for it is not sure to come in a build without CUDA.")
    yield Run("newest", python, wanted, "constraints.txt", "langchain,documents,test")


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


def built() -> Path:
    """Build the wheel with the tools of this environment."""
    pip(Path(sys.executable), "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(BUILD), str(SOURCE))
    (wheel,) = BUILD.glob("*.whl")
    return wheel


def passed(run: Run, wheel: Path) -> bool:
    """Install the wheel, use the core alone, then run the tests."""
    began = time.monotonic()
    folder = BUILD / run.name
    subprocess.run([run.python, "-m", "venv", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    python = programs / "python"
    constraints = str(SOURCE / run.constraints)
    pip(python, "install", "--constraint", constraints, str(wheel))
    route = [programs / "stretto", "route", "Name five fruits."]
    core = subprocess.run(route, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    pip(python, "install", "--constraint", constraints, f"{wheel}[{run.extra}]")
    installed = time.monotonic()
    for name in BESIDE_THE_TESTS:
        copy = shutil.copytree if (SOURCE / name).is_dir() else shutil.copy
        copy(SOURCE / name, folder / name)
    where = "import stretto, sys; sys.exit(not stretto.__file__.startswith(sys.prefix))"
    subprocess.run([python, "-c", where], cwd=folder, check=True)
    engine = {str(path.relative_to(folder)) for path in folder.glob("tests/local_engine/**/test_*.py")}
    others = sorted(engine - set(OF_THE_ENGINE)) if run.has_torch else NEED_TORCH
    left_out = [f"--{'deselect' if '::' in name else 'ignore'}={name}" for name in (*LEFT_OUT, *others)]
    # Without -m: the current folder would be on the path.
    tests = [programs / "pytest", "--numprocesses", "auto", "--dist", "worksteal", "--durations", "10", *left_out]
    done = subprocess.run(tests, cwd=folder, check=False)
    say(
        f"{run.name}: Python {version(run.version)}, {run.constraints}, "
        f"[{run.extra}]: installed in {installed - began:.0f} s, tested in {time.monotonic() - installed:.0f} s."
    )
    return core.returncode == 0 and done.returncode == 0


def pip(python: Path, command: str, *arguments: str) -> None:
    """Run pip and stop at its failures."""
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", command, *arguments], check=True)


def version(wanted: tuple[int, int]) -> str:
    """Write a version as the names of interpreters do."""
    return ".".join(map(str, wanted))


def say(line: str) -> None:
    """Print a line at once."""
    print(f"test-wheel: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
