"""Compiled code that was kept, and files of it that were cut short."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import logging, torch
logging.basicConfig(level=logging.INFO, format="%(message)s")
logging.getLogger("numba").setLevel(logging.WARNING)
from stretto.local_engine.kernels import ranks
ids, _ = ranks.best(torch.tensor([[1.0, 3.0, 2.0]]), [0], 2)
print(ids.tolist(), sum(ranks._best.stats.cache_hits.values()), sum(ranks._best.stats.cache_misses.values()))
"""
COMPILED, LOADED = "[[1, 2]] 0 1\n", "[[1, 2]] 1 0\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Calls something compiled in a process of its own, and returns what it prints; the folder of the files."""
    folder = tmp_path_factory.mktemp("compiled")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}

    def run(program=PROGRAM, **changed):
        return subprocess.run(
            [sys.executable, "-c", program], env=environment | changed, capture_output=True, text=True, check=True
        )

    run.folder = folder
    assert run().stdout == COMPILED
    return run


def test_what_was_compiled_is_loaded_by_the_next_process(run):
    loaded = run()
    assert (loaded.stdout, loaded.stderr) == (LOADED, "")


@pytest.mark.parametrize("share", [0, 0.7])
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_file_that_was_cut_short_is_made_anew_once(kind, share, run):
    files = list(run.folder.rglob(f"*.{kind}"))
    sizes = {path: path.stat().st_size for path in files}
    for path in files:
        os.truncate(path, int(share * sizes[path]))
    mended = run()
    assert mended.stdout == COMPILED
    assert f".{kind} cannot be read" in mended.stderr
    assert run().stdout == LOADED
    assert all(path.stat().st_size > 0.99 * size for path, size in sizes.items())


def test_where_files_cannot_be_written_the_code_is_used_all_the_same(run, tmp_path):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    assert run(full + PROGRAM, NUMBA_CACHE_DIR=str(tmp_path)).stdout == COMPILED
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
