"""Suffix decoding by Snowflake's arctic-inference, as a peer: its cache for a CPU, outside the project's environment.

    python benchmarks/comparison/arctic.py FOLDER      build it there (network, g++, cmake; half a minute)
    python benchmarks/decoding.py --arctic FOLDER

The wheel on the index has no suffix decoding, and the whole package needs vLLM to build; so the source distribution
is fetched, and only its suffix tree is compiled, without any of its dependencies.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["build", "candidates", "version"]

_PACKAGE = "arctic_inference"
_VERSION_FILE = "VERSION"
# What vLLM takes by default; trees are left out, because transformers' loop verifies chains only.
_DEPTH = 24
_FACTOR = 1.0
_LEAST_PROBABILITY = 0.1


def candidates(folder: Path) -> Callable[[Any], Any]:
    """For each task a candidate generator for transformers' loop. Raises ImportError where nothing was built.

    No earlier answers are remembered, as in our own methods here: repeated prompts would be answered from memory.
    """
    sys.path.insert(0, str(folder))
    try:
        cache = importlib.import_module(f"{_PACKAGE}.suffix_decoding").SuffixDecodingCache
    finally:
        sys.path.remove(str(folder))
    return lambda task: _Candidates(cache(_DEPTH, 0), task.prompt, len(task.prompt) + task.limit)


def version(folder: Path) -> str:
    """Of what was built there."""
    return (folder / _VERSION_FILE).read_text().strip()


class _Candidates:
    """What transformers calls a candidate generator."""

    requires_model_outputs = False

    def __init__(self, cache: Any, prompt: tuple[int, ...], longest: int) -> None:
        self._cache = cache
        self._text = np.zeros(longest + _DEPTH, dtype=np.int32)
        self._text[: len(prompt)] = prompt
        self._read = len(prompt)
        self._longest = longest
        cache.start_request(0, self._text[: len(prompt)])

    def get_candidates(self, input_ids: Tensor) -> tuple[Tensor, None]:
        """The text, and what may follow."""
        length = input_ids.shape[1]
        if length > self._read:
            self._text[self._read : length] = input_ids[0, self._read :].cpu().numpy()
            self._cache.add_active_response(0, self._text[self._read : length])
            self._read = length
        room = min(_DEPTH, self._longest - length - 1)
        if room < 1:
            return input_ids, None
        context = self._text[max(0, length - _DEPTH) : length]
        found = self._cache.speculate(0, context, room, _FACTOR, 0.0, _LEAST_PROBABILITY).token_ids
        if not found:
            return input_ids, None
        return torch.cat((input_ids, torch.tensor([found], device=input_ids.device)), dim=-1), None

    def update_candidate_strategy(self, input_ids: Tensor, scores: Tensor, num_matches: int) -> None:
        """Nothing to learn: the cache sees the text when it is asked again."""


def build(folder: Path) -> None:
    """Fetch the source, compile the suffix tree, and put what is needed to import it into ``folder``."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        tools, source, made = scratch / "tools", scratch / "source", scratch / "made"
        fetch = ["download", "--no-deps", "--no-build-isolation", "--no-binary", "arctic-inference"]
        subprocess.run([*pip, *fetch, "--dest", str(scratch), "arctic-inference"], check=True)
        subprocess.run([*pip, "install", "--no-deps", "--target", str(tools), "nanobind"], check=True)
        archive = next(scratch.glob("arctic*.tar.gz"))
        with tarfile.open(archive) as files:
            files.extractall(source, filter="data")
        unpacked = next(source.iterdir())
        config = subprocess.run(
            [sys.executable, "-c", "import nanobind; print(nanobind.cmake_dir())"],
            env={"PYTHONPATH": str(tools)}, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        cmake = shutil.which("cmake") or "cmake"
        subprocess.run(
            [cmake, "-S", str(unpacked / "csrc/suffix_decoding"), "-B", str(made), "-DCMAKE_BUILD_TYPE=Release",
             f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={config}"],
            env={"PYTHONPATH": str(tools), "PATH": "/usr/local/bin:/usr/bin:/bin"}, check=True,
        )  # fmt: skip
        subprocess.run([cmake, "--build", str(made)], check=True)
        package = folder / _PACKAGE / "suffix_decoding"
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy(unpacked / _PACKAGE / "__init__.py", package.parent)
        python = unpacked / _PACKAGE / "suffix_decoding"
        for file in (python / "__init__.py", python / "cache.py", *made.glob("_C*")):
            shutil.copy(file, package)
        (folder / _VERSION_FILE).write_text(unpacked.name.rpartition("-")[2] + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build(Path(sys.argv[1]))
    sys.stdout.write(f"arctic-inference {version(Path(sys.argv[1]))} is in {sys.argv[1]}\n")
