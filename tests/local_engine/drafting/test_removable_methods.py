"""Each folder of a decoding method can be removed together with its line in the catalogue."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stretto

pytestmark = pytest.mark.thorough

PACKAGE = Path(stretto.__file__).parent
DRAFTING = Path("local_engine", "drafting")
FOLDERS = {
    "aggressive": {"aggressive"},
    "big_little": {"big_little"},
    "heads": {"head"},
    "lexical": {"lexical", "lexical_lossy"},
    "lookahead": {"jacobi", "lookahead"},
    "recycling": {"token_recycling"},
    "strided": {"strided"},
}

NAMED = {
    "aggressive": r"\baggressive[./]|\bAggressive|Alignment",
    "big_little": r"\bbig_little[./]|\bBigLittle|BiLD",
    "heads": r"drafting[./]heads|(?i:medusa|dflash)|HeadDrafter",
    "lexical": r"(?i)lexical|\[PAD\]|pad_?adapter",
    "lookahead": r"\blookahead[./]|\bLookahead|[Jj]acobi",
    "recycling": r"\brecycling[./]|\bRecycling",
    "strided": r"\bstrided[./]|\bStrided|MaskRows",
}
"""What only the folder itself may hold."""

DECODE = """
import sys
import stretto, stretto.backends.local.backend
from stretto.local_engine.drafting.catalogue import DRAFTERS, EQUIPPED
from stretto.local_engine.generation import Generation
from stretto.local_engine.measuring import ahead
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.source import find_source
from stretto.local_engine.serving.engine import Engine

engine = Engine(load_model(find_source("local:pocket"), compiled=False), prefix_cache_bytes=0)
prompt = (11, 12, 13, 11, 12)
for name in DRAFTERS.keys() - EQUIPPED:
    handle = engine.submit(Generation(prompt, 12, decoding=name))
    assert list(handle)[-1].error is None
    print(name, *handle.sequence.generated)
engine.close()
print(stretto.__file__, file=sys.stderr)
"""


def decoded(package):
    """What each method generates, run by the package in this folder; the methods by name."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-P", "-c", DECODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == str(package / "__init__.py")
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}


@pytest.fixture(scope="module")
def answers():
    return decoded(PACKAGE)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_file_of_the_package_holds_anything_of_a_method(folder):
    found = {}
    for path in sorted({*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.toml")}):
        if not path.is_relative_to(PACKAGE / DRAFTING / folder):
            lines = path.read_text(encoding="utf-8").splitlines()
            found[path.relative_to(PACKAGE)] = [line.strip() for line in lines if re.search(NAMED[folder], line)]
    registered = {DRAFTING / "catalogue.py": [f'"{folder}",']} if folder == "lexical" else {}
    assert {path: lines for path, lines in found.items() if lines} == registered


@pytest.mark.timeout(300)
@pytest.mark.parametrize("folder", FOLDERS)
def test_without_the_folder_of_a_method_all_others_decode(folder, tmp_path, answers):
    copy = tmp_path / "stretto"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / DRAFTING / folder)
    catalogue = copy / DRAFTING / "catalogue.py"
    lines = catalogue.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.strip() != f'"{folder}",']
    assert len(kept) == len(lines) - 1
    catalogue.write_text("".join(kept), encoding="utf-8")
    assert decoded(copy) == {name: tokens for name, tokens in answers.items() if name not in FOLDERS[folder]}
