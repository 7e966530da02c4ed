import os
import subprocess
import sys

import pytest

from stretto.local_engine.measuring.ahead import main


@pytest.mark.timeout(600)  # a slow machine compiles for long
def test_what_is_compiled_ahead_is_not_compiled_again(tmp_path):
    """Counted by the files that hold compiled code: the forward, products, what finds or draws tokens, and drafters."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "STRETTO_SETTINGS": os.devnull}
    ask = ["-m", "stretto.cli", "ask", "How many days has a week?", "--quiet", "--model", "local:pocket"]
    counts = []
    for program in (["-m", "stretto.local_engine.measuring.ahead"], ask, [*ask, "--decoding", "lexical"]):
        done = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout
        assert done.stderr == ""
        counts.append(sorted(path.name for path in tmp_path.rglob("*.code")))
    assert len(counts[0]) >= 9
    assert counts[1] == counts[2] == counts[0]


def test_a_model_that_is_not_there_is_one_clear_error():
    with pytest.raises(SystemExit, match="nowhere"):
        main(["local:./nowhere"])


def test_without_the_local_packages_it_is_one_line(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch', name='torch')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "stretto.local_engine.measuring.ahead"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "local:pocket needs torch, which cannot be imported here. Run: pip install 'stretto[local]'\n"
    )
