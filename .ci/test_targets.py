"""Test what takes long, then compiled code for other processors, as far as numba can compile for them.

    python .ci/test_targets.py                    each in turn
    python .ci/test_targets.py generic haswell    some of them
    python .ci/test_targets.py thorough           what `make test` leaves out
    python .ci/test_targets.py properties         more examples of each property; only where it is named
    python .ci/test_targets.py float32 bfloat16   the engine, with either default number type

Each processor has a separate folder of compiled code, which is removed afterwards. The code uses only instructions that
the processor is said to have. So this shows that code for older processors is right, not that it runs on them.

Models compute in bfloat16 by default where the processor does. Of the two number types, the one that is not this
processor's own is tested here, in the files that load a model, without the thorough tests; all others run with this
processor's own.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import torch
from pytest_twice import shown_at_its_end, tested

from stretto.local_engine.model.loading.dtype import chosen_dtype

SOURCE = Path(__file__).resolve().parents[1]
TARGETS: dict[str, dict[str, str]] = {
    "thorough": {},
    "properties": {},
    "generic": {"NUMBA_CPU_NAME": "generic"},  # no AVX, no FMA, no F16C: the kernels know no other way of these
    # AVX2, FMA and F16C. On a processor without AVX-512 all tests have run it.
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "no-compiler": {"NUMBA_DISABLE_JIT": "1"},
    # As if this processor did not compute in bfloat16, and as if it did.
    "float32": {"STRETTO_CPU_BFLOAT16": "0"},
    "bfloat16": {"STRETTO_CPU_BFLOAT16": "1"},
}
SAME_CODE = {"thorough", "properties", "float32", "bfloat16"}  # they compile for this processor
ALONE = {"thorough", "properties"}  # they keep all processors busy
OTHER_CODE = {"generic", "haswell"}  # their tests wait for one compiler most of the time
COMPILED = (
    "tests/local_engine/test_compiled_model.py",
    "tests/local_engine/test_products.py",
    "tests/local_engine/test_blocks.py",
    "tests/local_engine/test_ranks.py",
    "tests/local_engine/test_draws.py",
    "tests/local_engine/drafting/test_auto.py",
)
APART = {"browser", "cluster", "real"}  # folders that `make test` leaves out as well


def files_that_mark(word: str) -> Iterator[str]:
    """The test files that hold a mark, or import a module of the tests that does: only these are collected."""
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in sorted((SOURCE / "tests").rglob("*.py"))
        if path.relative_to(SOURCE).parts[1] not in APART
    }
    helpers = [path.stem for path, text in texts.items() if not path.name.startswith("test_") and word in text]
    words = re.compile("|".join([word, *(rf"^from {name} import" for name in helpers)]), re.MULTILINE)
    return (
        str(path.relative_to(SOURCE))
        for path, text in texts.items()
        if path.name.startswith("test_") and words.search(text)
    )


THOROUGH = ("-m", "thorough", "--dist", "worksteal", *files_that_mark("thorough"))
PROPERTIES = ("-m", "hypothesis", "--hypothesis-profile", "thorough", "--dist", "worksteal")
LOADS = ("load_model", "LocalBackend", "Stretto(", "local:pocket")  # only what loads a model has a default number type
ENGINE = (
    *("-m", "not thorough", "--dist", "worksteal"),
    *(
        str(path.relative_to(SOURCE))
        for path in sorted((SOURCE / "tests" / "local_engine").rglob("test_*.py"))
        if any(each in path.read_text(encoding="utf-8") for each in LOADS)
    ),
)
ANY = ("tests/local_engine/test_engine.py", "tests/backends/test_local_backend.py", "tests/test_answer_decoding.py")
TESTS = {"thorough": THOROUGH, "properties": PROPERTIES, "no-compiler": ANY, "float32": ENGINE, "bfloat16": ENGINE}


def main() -> int:
    """Run the tests for each; the exit status is 1 if any failed."""
    names = sys.argv[1:] or usual()
    lanes = [name for name in names if name in OTHER_CODE], [name for name in names if name not in OTHER_CODE | ALONE]
    failed = [name for name in names if name in ALONE and not passed(name)]
    if all(lanes):
        with ThreadPoolExecutor() as lanes_pool:
            failed += [name for lane in lanes_pool.map(failed_of, lanes) for name in lane]
    else:
        failed += [name for lane in lanes for name in lane if not passed(name)]
    for name in failed:
        print(f"test-targets: {name}: FAILED", flush=True)
    return 1 if failed else 0


def failed_of(lane: Sequence[str]) -> list[str]:
    """Run the tests for each of these in turn, in one process next to another lane.

    Returns:
        those that failed.
    """
    failed = []
    for name in lane:
        with shown_at_its_end() as output:
            failed += [] if passed(name, "1", output) else [name]
    return failed


def usual() -> list[str]:
    """All that is run where none is named: not the processor that this one is as good as, nor its own number type."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    own = {"properties"} if not flags or "avx512f" in flags else {"properties", "haswell"}
    own.add(str(chosen_dtype(None, torch.device("cpu"))).removeprefix("torch."))
    return [name for name in TARGETS if name not in own]


def passed(name: str, workers: str = "auto", shown: IO[bytes] | None = None) -> bool:
    """Run the tests for one, in so many processes."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stretto-target-") as folder:
        environment = {**os.environ, **TARGETS[name]}
        if name not in SAME_CODE:
            environment["NUMBA_CACHE_DIR"] = folder
        tests = TESTS.get(name, COMPILED)
        # On other processors the thorough ones run as well.
        arguments = ["--quiet", "--timeout", "600", "--numprocesses", workers, "-m", "", *tests]
        status = tested(sys.executable, arguments, shown, cwd=SOURCE, env=environment)
    print(f"test-targets: {name}: {time.monotonic() - began:.0f} s", flush=True)
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
