"""What a command says of an error of the system: whose it is."""

import errno
import os
import subprocess
import sys

import pytest
import typer
import warm
from patience import patience

from stretto.cli.exits import Exit, reporting
from stretto.values.errors import DeadlineExceededError

FAILING = """
import os, sys, typer
from stretto.cli.exits import reporting
app = typer.Typer()
@app.command()
@reporting
def fail(number: int, path: str = ""):
    print("Before.")
    raise OSError(number, os.strerror(number), *([path] if path else []))
app()
"""


def fail(*arguments, stdout=subprocess.PIPE, unbuffered=""):
    return subprocess.run(
        [sys.executable, "-c", FAILING, *map(str, arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=patience(60),
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((errno.EIO, "--path", "notes/a.txt"), f"notes/a.txt cannot be read or written: {os.strerror(errno.EIO)}."),
        ((errno.ENOSPC, "--path", "a.json"), f"a.json cannot be read or written: {os.strerror(errno.ENOSPC)}."),
        ((errno.EIO,), f"A file cannot be read or written: {os.strerror(errno.EIO)}."),
    ],
)
def test_a_file_that_fails_is_not_taken_for_the_output(arguments, said):
    result = warm.run([sys.executable, "-c", FAILING, *map(str, arguments)], timeout=patience(60))
    assert (result.returncode, result.stdout, result.stderr) == (1, "Before.\n", f"error: {said}\n")


@pytest.mark.thorough
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")  # noqa: PTH110
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_fails_is_told_as_such(unbuffered):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        result = fail(errno.ENOSPC, stdout=full, unbuffered=unbuffered)
    assert result.returncode == 1
    assert result.stderr.startswith("error: The output cannot be written: ")
    assert result.stderr.count("\n") == 1


def test_a_deadline_that_passed_is_one_line_although_it_is_an_error_of_the_system_too(capsys):
    @reporting
    def late():
        raise DeadlineExceededError("The deadline passed after 1 s. Allow more with deadline_s.")

    with pytest.raises(typer.Exit) as left:
        late()
    assert left.value.exit_code == Exit.INCOMPLETE
    assert capsys.readouterr().err == "error: The deadline passed after 1 s. Allow more with --deadline.\n"
