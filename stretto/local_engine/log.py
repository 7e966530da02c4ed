"""Events of the engine for logs: readable as they stand, and structured for handlers that write JSON."""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress

__all__ = ["log_event"]


def log_event(
    logger: logging.Logger, level: int, event: str, *, raised: BaseException | None = None, **fields: object
) -> None:
    """Log an event with its fields: in the message as ``key=value``, and in the record's attribute ``stretto``.

    Fields that are ``None`` are left out. They hold numbers and names, never text of a prompt or an answer. The
    traceback of ``raised`` follows as text, because a record that is kept must not keep the model that its frames refer
    to. A log that fails must not end a request, so nothing is raised here.
    """
    if not logger.isEnabledFor(level):
        return
    known = {name: value for name, value in fields.items() if value is not None}
    shown = " ".join(f"{name}={value}" for name, value in known.items())
    with suppress(Exception):
        extra = {"stretto": {"event": event, **known}}
        if raised is not None:
            shown += "\n" + "".join(traceback.format_exception(raised)).rstrip()
        logger.log(level, "%s: %s", event, shown, extra=extra, stacklevel=2)
