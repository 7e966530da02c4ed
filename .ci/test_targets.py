"""Test what takes long, then compiled code for other processors, as far as numba can be told to compile for them.

    python .ci/test_targets.py                    each in turn
    python .ci/test_targets.py generic haswell    some of them
    python .ci/test_targets.py thorough           what `make test` leaves out
    python .ci/test_targets.py properties         more examples of each property; only where it is named

Each processor has a separate folder of compiled code, which is removed afterwards. The code uses only instructions that
the processor is said to have. So this shows that code for older processors is right, not that it runs on them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from pytest_twice import tested

SOURCE = Path(__file__).resolve().parents[1]
TARGETS: dict[str, dict[str, str]] = {
    "thorough": {},
    "properties": {},
    "generic": {"NUMBA_CPU_NAME": "generic"},  # no AVX, no FMA, no F16C: the kernels know no other way of these
    # AVX2, FMA and F16C. On a processor without AVX-512 all tests have run it.
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "no-compiler": {"NUMBA_DISABLE_JIT": "1"},
}
COMPILED = (
    "tests/local_engine/test_compiled_model.py",
    "tests/local_engine/test_products.py",
    "tests/local_engine/test_blocks.py",
    "tests/local_engine/test_ranks.py",
    "tests/local_engine/test_draws.py",
    "tests/local_engine/drafting/test_auto.py",
)
THOROUGH = ("-m", "thorough", "--dist", "worksteal")
PROPERTIES = ("-m", "hypothesis", "--hypothesis-profile", "thorough", "--dist", "worksteal")
ANY = ("tests/local_engine/test_engine.py", "tests/backends/test_local_backend.py", "tests/test_answer_decoding.py")


def main() -> int:
    """Run the tests for each; the exit status is 1 if any failed."""
    failed = [name for name in sys.argv[1:] or usual() if not passed(name)]
    for name in failed:
        print(f"test-targets: {name}: FAILED", flush=True)
    return 1 if failed else 0


def usual() -> list[str]:
    """All that is run where none is named: not the processor that this one is as good as."""
    told = Path("/proc/cpuinfo")
    newer = not told.exists() or "avx512f" in told.read_text(encoding="utf-8")
    return [name for name in TARGETS if name != "properties" and (newer or name != "haswell")]


def passed(name: str) -> bool:
    """Run the tests for one."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stretto-target-") as folder:
        environment = {**os.environ, **TARGETS[name]}
        if name not in {"thorough", "properties"}:
            environment["NUMBA_CACHE_DIR"] = folder
        tests = {"thorough": THOROUGH, "properties": PROPERTIES, "no-compiler": ANY}.get(name, COMPILED)
        # On other processors the thorough ones run as well.
        arguments = ["--quiet", "--timeout", "600", "--numprocesses", "auto", "-m", "", *tests]
        status = tested(sys.executable, arguments, cwd=SOURCE, env=environment)
    print(f"test-targets: {name}: {time.monotonic() - began:.0f} s", flush=True)
    return status == 0


if __name__ == "__main__":
    sys.exit(main())
