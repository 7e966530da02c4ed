import os
import subprocess
import sys

import pytest

from stretto.local_engine.ahead import main


def test_what_is_compiled_ahead_is_not_compiled_again(tmp_path):
    """Counted by the files that hold compiled code."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    counts = []
    for program in (["-m", "stretto.local_engine.ahead"], ["-m", "stretto.cli", "ask", "Hello", "--quiet"]):
        done = subprocess.run(
            [sys.executable, *program], env=environment, capture_output=True, text=True, check=True, timeout=300
        )
        assert done.stdout
        counts.append(len(list(tmp_path.rglob("*.nbc"))))
    assert counts[0] == counts[1] >= 3


def test_a_model_that_is_not_there_is_one_clear_error():
    with pytest.raises(SystemExit, match="nowhere"):
        main(["local:./nowhere"])
