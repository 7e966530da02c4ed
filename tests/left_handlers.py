"""Handlers of log records that a test leaves: later tests would log into a stream that is closed by then."""

import logging
import sys
from contextlib import contextmanager


def handlers():
    """All there are, each with its logger."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    return {(logger, handler) for logger in loggers for handler in getattr(logger, "handlers", ())}


@contextmanager
def none_left():
    """Raises `AssertionError` for what is left on the root's logger and on ours, and takes it away.

    Libraries that a test is the first to import make handlers for the standard error of that moment. These write to
    that of the process from now on.
    """
    before, levels = handlers(), {logger: logger.level for logger in (logging.root, logging.getLogger("stretto"))}
    yield
    left = []
    for logger, handler in handlers() - before:
        if logger is logging.root or logger.name.partition(".")[0] == "stretto":
            logger.removeHandler(handler)
            left.append(f"{handler!r} of the logger {logger.name}")
        elif type(handler) is logging.StreamHandler:  # those of other classes are pytest's, or write to files
            vars(handler).pop("flush", None)  # transformers binds that of the stream as well
            handler.stream = sys.__stderr__
    for logger, level in levels.items():
        if logger.level != level:
            left.append(f"the level {logging.getLevelName(logger.level)} of the logger {logger.name}")
            logger.setLevel(level)
    assert not left, f"This test leaves {', '.join(left)}. Take it away when the test ends."
