"""Events of the engine for logs: readable as they stand, and structured for handlers that write JSON."""

from __future__ import annotations

import logging

__all__ = ["log_event"]


def log_event(logger: logging.Logger, level: int, event: str, **fields: object) -> None:
    """Log an event with its fields: in the message as ``key=value``, and in the record's attribute ``stretto``.

    Fields that are ``None`` are left out. They hold numbers and names, never text of a prompt or an answer.
    """
    if not logger.isEnabledFor(level):
        return
    known = {name: value for name, value in fields.items() if value is not None}
    shown = " ".join(f"{name}={value}" for name, value in known.items())
    logger.log(level, "%s: %s", event, shown, extra={"stretto": {"event": event, **known}}, stacklevel=2)
