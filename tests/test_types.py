import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.timeout(600)  # without the cache of `make types`, the whole package is checked
def test_mypy_accepts_what_a_caller_writes_and_refuses_what_is_misspelt_or_of_another_type():
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "tests/typing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
