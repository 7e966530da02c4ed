"""Log events of the engine: readable as plain text, and structured for handlers that write JSON."""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress


def log_event(
    logger: logging.Logger, level: int, event: str, *, raised: BaseException | None = None, **fields: object
) -> None:
    """Log an event with its fields, as ``key=value`` in the message and in the record's attribute ``stretto``.

    Fields that are ``None`` are left out. Fields are numbers and names, never text of a prompt or an answer. The
    traceback of ``raised`` is appended as text: a record that is kept would otherwise keep the model that the frames
    refer to. Nothing is raised here, because a failing log must not end a request.
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
