"""Run pytest; the tests that failed get one more try, since a limit of time may pass once where a machine is shared.

    python .ci/pytest_twice.py tests/browser

Both tries are shown. The exit status is that of the last one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS_FAILED = 1  # pytest's exit status; others tell of an interruption or of wrong arguments


def tested(python: Path | str, arguments: Sequence[str], **surroundings: Path | Mapping[str, str]) -> int:
    """Run the tests with one interpreter.

    Args:
        python: the interpreter.
        arguments: of pytest.
        surroundings: `cwd` and `env` of the process.

    Returns:
        the exit status.
    """
    command = [python, "-m", "pytest", *arguments]
    status = subprocess.run(command, check=False, **surroundings).returncode  # type: ignore[call-overload]
    if status != TESTS_FAILED:
        return int(status)
    print("Tests failed. They are tried once more.", flush=True)
    return int(subprocess.run([*command, "--last-failed"], check=False, **surroundings).returncode)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(tested(sys.executable, sys.argv[1:]))
