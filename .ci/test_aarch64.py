"""Compile for aarch64 and run it there, in the user mode of qemu: a Debian with qemu-user, apt-get and the network.

    python .ci/test_aarch64.py

Python comes from Debian's packages and numba's wheels from the registry, both unpacked into a temporary folder. Each
part of the compiled code is compiled by the emulated interpreter, and its trial is run: products and tokens have known
results, a forward must give numbers. torch is not emulated, so no forward is compared with torch's there.
`.ci/test_aarch64.txt` is what it printed, on two busy cores; it takes some minutes on two idle ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
PYTHON = "python3.11"
DEBIAN = (f"{PYTHON}-minimal", f"lib{PYTHON}-stdlib", "libstdc++6", "zlib1g")
PACKAGES = ("numba", "llvmlite", "numpy", "platformdirs")
PARTS = """
import json
from stretto.local_engine.drafting.suffix import DRAFTING
from stretto.local_engine.kernels.compiling.compiled_parts import CHOOSING, forward, product
wanted = [CHOOSING, DRAFTING, *map(product, ("bfloat16", "float16", "float32"))]
wanted += [forward("float32", "bfloat16", "bfloat16"), forward("bfloat16", "pairs", "pairs")]
print(json.dumps([[part.name, part.trial, part.arguments] for part in wanted]))
"""
COMPILE = "import sys; from stretto.local_engine.kernels.compiling.compile_parts import main; main(*sys.argv[1:])"
TARGET = "from numba.core.registry import cpu_target as cpu; print(*cpu.target_context.codegen().magic_tuple())"


def main() -> int:
    """Compile and run each part; the exit status is 1 if one failed."""
    with tempfile.TemporaryDirectory(prefix="stretto-aarch64-") as name:
        folder = Path(name)
        system(folder)
        packages(folder)
        print("numba compiles for", emulated(folder, TARGET).stdout.strip(), flush=True)
        listed = subprocess.run([sys.executable, "-c", PARTS], cwd=SOURCE, capture_output=True, text=True, check=True)
        return 1 if sum(not compiled(folder, part) for part in json.loads(listed.stdout)) else 0


def system(folder: Path) -> None:
    """Unpack Debian's packages for the other processor; what is installed here stays as it is."""
    apt = folder / "apt"
    for each in ("lists/partial", "cache/archives/partial"):
        (apt / each).mkdir(parents=True)
    (apt / "status").touch()
    options = ["-o", "APT::Architecture=arm64", "-o", "APT::Architectures::=arm64"]
    options += ["-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache"]
    options += ["-o", f"Dir::State::status={apt}/status", "--quiet=2"]
    subprocess.run(["apt-get", *options, "update"], check=True)  # noqa: S607 - Debian's
    wanted = ["--yes", "--download-only", "--no-install-recommends", "install", *DEBIAN]
    subprocess.run(["apt-get", *options, *wanted], stdout=subprocess.DEVNULL, check=True)  # noqa: S607
    for package in apt.glob("cache/archives/*.deb"):
        subprocess.run(["dpkg-deb", "--extract", package, folder / "root"], check=True)  # noqa: S607


def packages(folder: Path) -> None:
    """Unpack the wheels that the compiler's process imports, in the versions of the tests."""
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 27, 28)]
    options = [
        "--only-binary=:all:",
        "--python-version",
        PYTHON.removeprefix("python"),
        "--dest",
        str(folder / "wheels"),
    ]
    command = [sys.executable, "-m", "pip", "--quiet", "download", "--constraint", str(SOURCE / "constraints.txt")]
    subprocess.run([*command, *platforms, *options, *PACKAGES], check=True)
    for wheel in (folder / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "packages")


def emulated(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of Python on the other processor."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA_"))}
    environment |= {"PYTHONHOME": f"{folder}/root/usr", "PYTHONPATH": f"{folder}/packages:{SOURCE}"}
    command = ["qemu-aarch64", "-L", f"{folder}/root", f"{folder}/root/usr/bin/{PYTHON}", "-B", "-c", program]
    return subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)


def compiled(folder: Path, part: list[object]) -> bool:
    """Compile one part and run its trial."""
    began = time.monotonic()
    done = emulated(folder, COMPILE, str(folder / "store"), json.dumps([part]), "0")
    last = (
        "compiled, and ran" if done.returncode == 0 else (done.stderr.strip() or str(done.returncode)).splitlines()[-1]
    )
    print(f"{part[0]}: {last} ({time.monotonic() - began:.0f} s)", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
