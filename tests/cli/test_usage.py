"""How the program ends, whatever its commands do."""

import pytest
import typer
from typer.testing import CliRunner

from stretto.cli.usage import Program

app = typer.Typer(cls=Program)


@app.command()
def count():
    return 7


@app.command()
def leave():
    raise typer.Exit(7)


@app.command()
def read():
    input()


@app.command()
def abort():
    raise typer.Abort


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [("count", 0, ""), ("leave", 7, ""), ("read", 1, "error: aborted\n"), ("abort", 1, "error: aborted\n")],
)
def test_a_command_ends_with_its_own_exit_code_and_an_abort_is_told(command, code, said):
    result = CliRunner().invoke(app, [command], input="")
    assert (result.exit_code, result.stderr) == (code, said)
