"""Test what takes long, then compiled code for other processors, as far as numba can be told to compile for them.

    python .ci/test_targets.py                    each in turn
    python .ci/test_targets.py generic nehalem    some of them
    python .ci/test_targets.py thorough           what `make test` leaves out, and more examples of each property

Each processor has a separate folder of compiled code, which is removed afterwards. The code uses only instructions that
the processor is said to have. So this shows that code for older processors is right, not that it runs on them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
TARGETS: dict[str, dict[str, str]] = {
    "thorough": {},
    "generic": {"NUMBA_CPU_NAME": "generic"},
    "without-avx": {"NUMBA_ENABLE_AVX": "0"},
    "nehalem": {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""},
    "haswell": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""},
    "no-compiler": {"NUMBA_DISABLE_JIT": "1"},
}
COMPILED = (
    "tests/local_engine/test_compiled_model.py",
    "tests/local_engine/test_products.py",
    "tests/local_engine/test_ranks.py",
    "tests/local_engine/test_draws.py",
    "tests/local_engine/drafting/test_auto.py",
)
THOROUGH = ("-m", "thorough or hypothesis", "--hypothesis-profile", "thorough", "--dist", "worksteal")
ANY = ("tests/local_engine/test_engine.py", "tests/backends/test_local_backend.py", "tests/test_answer_decoding.py")


def main() -> int:
    """Run the tests for each; the exit status is 1 if any failed."""
    failed = [name for name in sys.argv[1:] or TARGETS if not passed(name)]
    for name in failed:
        print(f"test-targets: {name}: FAILED", flush=True)
    return 1 if failed else 0


def passed(name: str) -> bool:
    """Run the tests for one."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stretto-target-") as folder:
        environment = {**os.environ, **TARGETS[name]}
        if name != "thorough":
            environment["NUMBA_CACHE_DIR"] = folder
        tests = {"thorough": THOROUGH, "no-compiler": ANY}.get(name, COMPILED)
        command = [sys.executable, "-m", "pytest", "--quiet", "--timeout", "600", "--numprocesses", "auto"]
        command += ["-m", "", *tests]  # on other processors, the thorough ones as well
        done = subprocess.run(command, cwd=SOURCE, env=environment, check=False)
    print(f"test-targets: {name}: {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
