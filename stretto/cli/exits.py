"""Exit codes, and errors as one line on standard error."""

from __future__ import annotations

import errno
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import typer

from stretto.cli.output.plain import in_options, one_line
from stretto.values import errors

if TYPE_CHECKING:
    from stretto.values.answer import Answer

PATIENCE_S = 1.0
"""Seconds that an interrupted program may take to clean up."""

LATE_S = 0.2
"""The same for a program that has exceeded its deadline."""

P = ParamSpec("P")
R = TypeVar("R")


class Exit(IntEnum):
    """The exit codes of the program."""

    OK = 0
    FAILED = 1
    BAD_REQUEST = 2
    INCOMPLETE = 3
    AUTHENTICATION = 4
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


MEANINGS = {
    Exit.OK: "the answer is complete",
    Exit.FAILED: "the model or its server failed; doctor: nothing would work",
    Exit.BAD_REQUEST: "the command, a setting or the request cannot be used",
    Exit.INCOMPLETE: "incomplete: a part failed, or length, deadline or budget cut the answer",
    Exit.AUTHENTICATION: "the key is missing, wrong or not allowed to use the model",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
    Exit.OUTPUT_CLOSED: "the reader of the output went away",
}


def exit_of_answer(answer: Answer) -> Exit:
    """Return the exit code for an answer, complete or not."""
    return Exit.OK if answer.finish_reason in {"stop", "nothing_found"} else Exit.INCOMPLETE


def exit_of_error(error: Exception) -> Exit:
    """Return the exit code for an error of the library."""
    match error:
        case errors.AuthenticationError():
            return Exit.AUTHENTICATION
        case errors.DeadlineExceededError() | errors.BudgetExceededError() | errors.IncompleteAnswerError():
            return Exit.INCOMPLETE
        case errors.RequestRejectedError() | errors.ModelNotFoundError():
            return Exit.BAD_REQUEST
        case errors.BackendError():
            return Exit.FAILED
        case errors.MissingDependencyError() | ValueError():
            return Exit.BAD_REQUEST
        case _:
            return Exit.FAILED


def complain(message: object) -> None:
    """Print an error as one line on standard error."""
    typer.echo(f"error: {one_line(in_options(str(message)))}", err=True)


@contextmanager
def leaving_within(seconds: float, code: Exit, error: Exception | None = None) -> Iterator[None]:
    """End the process after ``seconds``, whatever it is doing: loading a model cannot be stopped otherwise.

    ``error`` is printed first.
    """

    def leave() -> None:
        if error is not None:
            complain(error)
        elif code is Exit.INTERRUPTED:
            typer.echo("interrupted", err=True)
        os._exit(code)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _drop_output() -> None:
    """Discard unwritten output: Python would report the error again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output_fails() -> bool:
    """Return whether the output failed: unwritten text stays in the buffer, so flushing fails again.

    Without a buffer (``PYTHONUNBUFFERED``), the output is assumed to have failed.
    """
    try:
        sys.stdout.flush()
    except OSError:
        return True
    return bool(getattr(sys.stdout, "write_through", False))


def reporting(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate a command to end with the right exit code and one line instead of a traceback."""

    @functools.wraps(command)
    def reported(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(Exit.INTERRUPTED) from None
        except (BrokenPipeError, SystemExit) as error:
            # rich turns a broken pipe into exit code 1, which has another meaning here.
            if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
                raise
            _drop_output()
            raise typer.Exit(Exit.OUTPUT_CLOSED) from None
        except errors.StrettoError as error:  # before OSError, a base class of the one for deadlines
            complain(error)
            raise typer.Exit(exit_of_error(error)) from None
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}:
                raise
            if error.filename is None and _output_fails():
                complain(f"The output cannot be written: {error.strerror}. Free some space, or write it elsewhere.")
                _drop_output()
            else:
                what = "A file" if error.filename is None else os.fsdecode(error.filename)
                complain(f"{what} cannot be read or written: {error.strerror}.")
            raise typer.Exit(Exit.FAILED) from None

    return reported
