"""How long the first answer takes after an installation, when nothing is compiled yet, and the ones after it.

    python benchmarks/cold_start.py              medians of three runs
    python benchmarks/cold_start.py --runs 1
    python benchmarks/cold_start.py --model local:smollm2 --model local:./model.gguf     other models, and llama.cpp
    python benchmarks/cold_start.py --model local:smollm2 --busy 2      next to two programs that compute all the time
    python benchmarks/cold_start.py --model local:smollm2 --keep NAME   keeps the figures in benchmarks/results/

The wheel is built and installed into a new virtual environment, which takes its other packages from this one. Each run
is a separate process: `stretto ask`, from its start to its end. Cold, no code is compiled for the processor; before
the next run the compiler, which outlives the first answer, is waited for. All answers have to be alike.

With ``--model``, nothing that is kept of a model is there in the first run either. One program asks once through the
Python API and prints when the first text came and when it had closed the client, and another one asks llama.cpp
(xllamacpp) for as many tokens, directly afterwards. Processor time counts all threads and the compiler as far as it was
waited for; next to other work on the machine it says more than seconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from measuring import RESULTS, machine, save

SOURCE = Path(__file__).resolve().parents[1]
QUESTION = "How do I look after a bicycle?"
FINGERPRINT = "from stretto.local_engine.kernels.compiling.store import fingerprint; print(fingerprint())"


ASK = """
import json, resource, sys, time
began = time.perf_counter()
from stretto import Stretto
with Stretto(sys.argv[1]) as client:
    with client.stream(sys.argv[2], strategy="direct", max_tokens=16) as stream:
        first = next(time.perf_counter() - began for event in stream if getattr(event, "text", ""))
        for _ in stream:
            pass
closed = time.perf_counter() - began
"""
ASK_LLAMACPP = """
import json, resource, sys, time
began = time.perf_counter()
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_parallel, params.n_ctx = sys.argv[1], 1, 2048
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(params)
server.handle_completions({"prompt": sys.argv[2], "n_predict": 1, "temperature": 0})
first = time.perf_counter() - began
server.handle_completions({"prompt": sys.argv[2], "n_predict": 16, "temperature": 0})
closed = time.perf_counter() - began
"""
FIGURES = """
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
processor = sum(each.ru_utime + each.ru_stime for each in used)
print(json.dumps([first, closed, processor, 1024 * used[0].ru_maxrss / 1e9]))
"""


COLUMNS = {
    "first_s": "first text, s",
    "closed_s": "closed, s",
    "processor_s": "processor, s",
    "peak_gb": "peak, GB",
}


@dataclass(frozen=True)
class Installation:
    """The wheel in a virtual environment, used by somebody whose home is empty.

    Attributes:
        folder: of the environment.
        home: of the user.
    """

    folder: Path
    home: Path

    @property
    def stores(self) -> list[Path]:
        """Where compiled code is kept: next to the package, or in the user's folder."""
        (package,) = self.folder.glob("lib/python*/site-packages/stretto")
        fingerprint = self.run("python", "-P", "-c", FINGERPRINT).stdout.strip()
        in_package = package / "local_engine" / "kernels" / "__pycache__" / fingerprint
        return [in_package, self.home / ".cache" / "stretto" / "compiled" / fingerprint]

    @property
    def kept_weights(self) -> Path:
        """Where weights are kept as they are laid out."""
        return self.home / ".cache" / "stretto" / "weights"

    def environment(self) -> dict[str, str]:
        """Nothing of whoever runs the benchmark."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("STRETTO_", "NUMBA_", "XDG_"))
        }
        kept.pop("PYTHONPATH", None)
        return {**kept, "HOME": str(self.home)}

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of its programs."""
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=True)

    def start(self) -> tuple[subprocess.Popen[str], float]:
        """Ask, and do not wait."""
        command = [str(self.folder / "bin" / "stretto"), "ask", QUESTION, "--model", "local:pocket", "--quiet"]
        process = subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, text=True)
        return process, time.monotonic()


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--model", action="append", default=[], help="instead of local:pocket; may be repeated")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="programs that compute meanwhile")
    parser.add_argument("--keep", metavar="NAME", help="with --model")
    given = parser.parse_args()
    with busy(given.busy):
        if given.model:
            of_models(given.model, given)
        else:
            of_pocket(given.runs)


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """Let so many programs compute meanwhile."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def of_pocket(runs: int) -> None:
    """Print a table of the cases of the demonstration model."""
    with tempfile.TemporaryDirectory(prefix="stretto-cold-") as folder:
        installed = install(Path(folder))
        rows: dict[str, list[float]] = {}
        answers: set[str] = set()
        for number in range(runs):
            for name, (seconds, answer) in measured(installed):
                rows.setdefault(name, []).append(seconds)
                answers.add(answer)
                print(f"run {number + 1} of {runs}: {name} {seconds:.1f} s", flush=True)
    print("\n| first answer | seconds |\n|---|---|")
    for name, took in rows.items():
        print(f"| {name} | {statistics.median(took):.1f} ({min(took):.1f}-{max(took):.1f}) |")
    assert len(answers) == 1, answers


def of_models(models: list[str], given: argparse.Namespace) -> None:
    """Print a line for each run of each model."""
    from stretto.local_engine.model.loading.source import find_source  # noqa: PLC0415 - only here

    rows: list[dict[str, str | float]] = []

    def ask(model: str, what: str, program: str, where: str) -> None:
        done = installed.run("python", "-P", "-c", program + FIGURES, where, QUESTION)
        figures = dict(zip(COLUMNS, json.loads(done.stdout.splitlines()[-1]), strict=True))
        rows.append({"model": model, "what": what, **figures, "load": os.getloadavg()[0]})
        cells = (f"{cell:.2f}" if isinstance(cell, float) else cell for cell in rows[-1].values())
        print(f"| {' | '.join(cells)} |", flush=True)

    print(f"| model | | {' | '.join(COLUMNS.values())} | load |\n|{'---|' * (len(COLUMNS) + 3)}")
    with tempfile.TemporaryDirectory(prefix="stretto-cold-") as folder:
        installed = install(Path(folder))
        for _ in range(given.runs):
            for name in models:
                source = find_source(name)
                where = name if source.file is None or name.endswith("smollm2") else f"local:{source.file.resolve()}"
                nothing_compiled(installed.stores)
                shutil.rmtree(installed.kept_weights, ignore_errors=True)
                ask(name, "nothing compiled", ASK, where)
                wait_for_the_compiler(installed.stores)
                for _ in range(2):
                    ask(name, "later", ASK, where)
                if source.file is not None:
                    ask(name, "llama.cpp", ASK_LLAMACPP, str(source.file.resolve()))
    if given.keep:
        file = RESULTS / f"{given.keep}.json"
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        how = f"{machine()}; {given.busy} other programs compute"
        save(given.keep, kept | {how: rows})


def install(folder: Path) -> Installation:
    """Build the wheel and install it into a new environment."""
    command = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*command, str(folder), str(SOURCE)], check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (packages,) = folder.glob("venv/lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    command = [str(folder / "venv/bin/python"), "-m", "pip", "--quiet", "install", "--no-deps", "--no-index"]
    subprocess.run([*command, "--force-reinstall", str(wheel)], check=True)
    (folder / "home").mkdir()
    installed = Installation(folder / "venv", folder / "home")
    where = installed.run("python", "-P", "-c", "import stretto; print(stretto.__file__)").stdout
    assert where.startswith(str(folder)), where
    return installed


def measured(installed: Installation) -> Iterator[tuple[str, tuple[float, str]]]:
    """Time each case once: its name, and the seconds and the text of the answer."""
    stores = installed.stores
    nothing_compiled(stores)
    yield "cold", answered(installed)
    wait_for_the_compiler(stores)
    yield "warm", answered(installed)

    nothing_compiled(stores)
    two = [installed.start() for _ in range(2)]
    yield "cold, two at once: the later one", max([ended(*each) for each in two])
    wait_for_the_compiler(stores)

    nothing_compiled(stores)
    process, _ = installed.start()
    while not stores[0].exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate()
    yield "after one that was interrupted", answered(installed)
    wait_for_the_compiler(stores)

    nothing_compiled(stores)
    with compiler_killed(installed, stores[0]):
        yield "after a compiler that was killed", answered(installed)
    wait_for_the_compiler(stores)
    assert any(stores[0].glob("forward*.ready"))

    nothing_compiled(stores)
    stores[0].touch()  # a file: nothing can be written there, even by root
    yield "cold, packages read-only", answered(installed)
    wait_for_the_compiler(stores[1:])
    yield "warm, packages read-only", answered(installed)


def answered(installed: Installation) -> tuple[float, str]:
    """Ask, and wait for the end."""
    return ended(*installed.start())


def ended(process: subprocess.Popen[str], began: float) -> tuple[float, str]:
    """Wait for the end of an answer: the seconds it took, and its text."""
    text, _ = process.communicate(timeout=600)
    assert process.returncode == 0, process.returncode
    return time.monotonic() - began, text


def nothing_compiled(stores: list[Path]) -> None:
    """Remove what is compiled."""
    for store in stores:
        store.unlink() if store.is_file() else shutil.rmtree(store, ignore_errors=True)


def wait_for_the_compiler(stores: list[Path]) -> None:
    """Wait until nobody compiles: who does holds a lock."""
    import fcntl  # noqa: PLC0415 - not on Windows, where the benchmark does not run

    for store in stores:
        while not any(store.glob("forward*.ready")) and store.is_dir():
            with (store / "compiling.lock").open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.2)


@contextmanager
def compiler_killed(installed: Installation, store: Path) -> Iterator[None]:
    """Ask, and kill the compiler when it has compiled something."""
    answered(installed)
    while not any(store.glob("*.code")):
        time.sleep(0.05)
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if (
                b"compile_parts" in (command_line := process.read_bytes())
                and str(store.parent).encode() in command_line
            ):
                os.kill(int(process.parent.name), signal.SIGKILL)
        except OSError:
            continue
    yield


if __name__ == "__main__":
    main()
