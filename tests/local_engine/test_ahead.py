import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import stretto.local_engine
from stretto.local_engine.drafting.suffix import DRAFTING
from stretto.local_engine.kernels.compiling.compiled_parts import CHOOSING
from stretto.local_engine.kernels.compiling.jit import Kernel
from stretto.local_engine.measuring.ahead import main
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source

ENGINE = Path(stretto.local_engine.__file__).parent
CODE = ("kernels/[a-z]*.py", "drafting/**/compiled/[a-z]*.py", "research/**/compiled/[a-z]*.py")


def kept_functions():
    """The functions whose code is kept: those that torch's side and drafters call."""
    paths = [path.relative_to(ENGINE).with_suffix("") for pattern in CODE for path in ENGINE.glob(pattern)]
    modules = [import_module(".".join(["stretto.local_engine", *path.parts])) for path in paths]
    kernels = [each for module in modules for each in vars(module).values() if isinstance(each, Kernel) and each.kept]
    return {f"{'.'.join(each.function.__module__.split('.')[-2:])}.{each.__name__}" for each in kernels}


def parts_of(name):
    """What a model runs, and what its drafters and its choice of tokens do."""
    model = load_model(find_source(name), compiled=False)
    return {part.name for part in (*model.forward.parts(), CHOOSING, DRAFTING)}


@pytest.mark.thorough
@pytest.mark.timeout(600)  # a slow machine compiles for long
def test_what_is_compiled_ahead_is_all_that_answers_run(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "STRETTO_SETTINGS": os.devnull}
    ask = ["-m", "stretto.cli", "ask", "How many days has a week?", "--quiet", "--model", "local:pocket"]
    found = []
    for program in (["-m", "stretto.local_engine.measuring.ahead"], ask):
        done = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout
        assert done.stderr == ""
        found.append(sorted(path.name for path in tmp_path.rglob("*.code")))
    assert found[1] == found[0]
    named = {"compiled.eagle.run", "compiled.units.learn", "compiled.units.plan"}  # of a head, and of `lexical`
    assert {name.rsplit("-", 1)[0] for name in found[0]} == kept_functions() - named
    ready = {path.stem: set(json.loads(path.read_text())) for path in tmp_path.rglob("*.ready")}
    assert set(ready) >= parts_of("local:pocket")
    assert set().union(*ready.values()) == set(found[0])


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
        "local:pocket needs torch, which cannot be imported here. Run: pip install 'stretto[cli,compiled]'\n"
    )
