"""The compiler's process and what it leaves on disk: cut short, damaged, not writable, killed, beside another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import patience

pytestmark = pytest.mark.thorough

PROGRAM = """
import logging
logging.basicConfig(level=logging.WARNING, format="%(message)s")
from stretto.local_engine.kernels.compiling import compiler
from stretto.local_engine.kernels.compiling.jit import NotCompiledError
from stretto.local_engine.kernels.compiling.compiled_parts import Part, product
SMALL = Part("small", "small_kernels:calculate")
ready = compiler.are_ready([SMALL])
done = compiler.compile_now([SMALL])
try:
    found = "nothing"
    if done:
        from small_kernels import calculate
        found = calculate() or "calculated"
except NotCompiledError:
    found = "not there"
print(ready, done, found)
"""
COMPILED, LOADED = "False True calculated\n", "True True calculated\n"


def environment(folder, **changed):
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder), **changed}


def run(folder, program=PROGRAM, **changed):
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment(folder, **changed),
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(110),
    )


def sizes(folder, pattern="*.code"):
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob(pattern)}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A folder with compiled code in it."""
    folder = tmp_path_factory.mktemp("compiled")
    first = run(folder)
    assert (first.stdout, first.stderr) == (COMPILED, "")
    return folder


def test_what_was_compiled_is_loaded_by_the_next_process(compiled):
    before = sizes(compiled)
    loaded = run(compiled)
    assert (loaded.stdout, loaded.stderr) == (LOADED, "")
    assert sizes(compiled) == before
    assert len(before) == 2


@pytest.mark.parametrize(("kind", "share"), [("ready", 0), ("code", 0), ("code", 0.7)])
def test_a_file_that_was_cut_short_is_made_anew_once(kind, share, compiled):
    whole = {path: size for path, (size, _) in sizes(compiled, f"*.{kind}").items()}
    for path, size in whole.items():
        os.truncate(path, int(share * size))
    mended = run(compiled)
    assert (mended.stdout, mended.stderr) == (COMPILED, "")
    assert run(compiled).stdout == LOADED
    assert all(path.stat().st_size > 0.99 * size for path, size in whole.items())


def test_a_file_of_the_right_length_that_is_damaged_is_never_run(compiled):
    for path in compiled.rglob("*.code"):
        kept = bytearray(path.read_bytes())
        kept[-9] ^= 1
        path.write_bytes(kept)
    assert run(compiled).stdout == "True True not there\n"
    assert run(compiled).stdout == COMPILED


def test_two_processes_at_once_compile_once(tmp_path):
    given = {"env": environment(tmp_path), "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", PROGRAM], **given) for _ in range(2)]
    assert [process.communicate(timeout=patience(110))[0] for process in both] == [COMPILED, COMPILED]
    assert len(sizes(tmp_path)) == 2
    assert not sizes(tmp_path, "*.new")


def test_where_nothing_can_be_written_code_is_kept_as_long_as_the_process(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    done = run(tmp_path / "file", TMPDIR=str(tmp_path / "temporary"))
    assert (done.stdout, done.stderr) == (COMPILED, "")
    assert not list((tmp_path / "temporary").iterdir())


def test_on_a_full_disk_torch_remains_with_one_warning(tmp_path):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    done = run(tmp_path, full + PROGRAM)
    assert done.stdout == "False False nothing\n"
    assert done.stderr.startswith("Local models run in torch's operations, more slowly: compiling for this processor")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not sizes(tmp_path)


def test_a_compiler_that_is_killed_goes_on_where_it_was(tmp_path):
    (tmp_path / "dying.py").write_text(
        "import os, signal\n"
        "import small_kernels\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "small_kernels.squares = die\n"
        "calculate = small_kernels.calculate\n"
    )
    killed = run(
        tmp_path,
        PROGRAM.replace(
            "ready = ",
            f"import sys; sys.path.append({str(tmp_path)!r}); SMALL = Part('small', 'dying:calculate')\nready = ",
        ),
    )
    assert killed.stdout == "False False nothing\n"
    assert "the compiler's process was ended by SIGKILL" in killed.stderr
    (first,) = sizes(tmp_path).items()
    assert run(tmp_path).stdout == COMPILED
    assert first in sizes(tmp_path).items()


def test_a_compiler_that_dies_each_time_is_left_alone_after_three_times(tmp_path):
    program = PROGRAM.replace("ready = ", "SMALL = Part('small', 'os:abort')\nready = ")
    ends = [run(tmp_path, program) for _ in range(4)]
    assert {end.stdout for end in ends} == {"False False nothing\n"}
    assert [end.stderr.count("SIGABRT") for end in ends] == [1, 1, 1, 0]
    assert "it has failed 3 times" in ends[3].stderr
    assert "python -m stretto.local_engine.measuring.ahead" in ends[3].stderr


def test_what_the_compiler_says_is_told(tmp_path):
    done = run(tmp_path, PROGRAM.replace("ready = ", "SMALL = Part('small', 'nowhere:calculate')\nready = "))
    assert "No module named 'nowhere'" in done.stderr


def test_a_compiler_that_is_switched_off_is_not_started(tmp_path):
    done = run(tmp_path, NUMBA_DISABLE_JIT="1")
    assert (done.stdout, done.stderr) == ("False False nothing\n", "")
    assert not list(tmp_path.iterdir())


def test_another_target_has_code_of_its_own(compiled):
    """The whole engine under one: `make test-targets`."""
    before = sizes(compiled)
    done = run(
        compiled,
        PROGRAM.replace("([SMALL])", "([SMALL, product('bfloat16'), product('float16')])"),
        NUMBA_ENABLE_AVX="0",
    )
    assert (done.stdout, done.stderr) == (COMPILED, "")
    assert set(before.items()) < set(sizes(compiled).items())
