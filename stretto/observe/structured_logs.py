"""Log records as lines of JSON, for programs that read logs.

The library logs to loggers below ``stretto`` with Python's ``logging``: the details of a record are in its attribute
``stretto``, a mapping. It includes questions and answers only with the setting ``log_text``, and never API keys.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from stretto.foundation.arguments import safe_repr
from stretto.values.answer import Answer
from stretto.values.errors import SettingsError
from stretto.values.request import Request

_LEVELS = ("debug", "info", "warning", "error")
_log = logging.getLogger("stretto.answers")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message, and the fields of ``record.stretto``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a newline."""
        from stretto.foundation.redaction import redact  # noqa: PLC0415 - keeps `import stretto` light

        fields: Mapping[str, Any] = getattr(record, "stretto", {})
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
            **fields,
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True, default=str)


def log_json(stream: TextIO | None = None, level: str = "info") -> logging.Handler:
    """Write the library's log records as lines of JSON to ``stream``, standard error by default.

    ``level`` is "debug", "info", "warning" or "error". Returns the handler, for ``Logger.removeHandler``. Raises
    `SettingsError` for another level.
    """
    if level.lower() not in _LEVELS:
        raise SettingsError(f"The log level {safe_repr(level)} cannot be used. Choose one of: {', '.join(_LEVELS)}.")
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("stretto")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    return handler


def log_answer(request: Request, answer: Answer, *, text: bool) -> None:
    """Log how an answer was written; with ``text``, also the question and the answer."""
    if not _log.isEnabledFor(logging.INFO):
        return
    usage, timeline = answer.usage, answer.timeline
    fields: dict[str, Any] = {
        "event": "answered",
        "model": answer.route.backend,
        "strategy": answer.strategy or answer.route.strategy,
        "finish_reason": answer.finish_reason,
        "seconds": round(timeline.total_s, 4),
        "first_text_s": None if timeline.first_text_s is None else round(timeline.first_text_s, 4),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "calls": usage.calls,
        "retries": usage.retries,
        "branches": len(answer.branches),
        "failed_branches": [branch.id for branch in answer.branches if branch.status == "failed"],
        "cut_branches": [branch.id for branch in answer.branches if branch.was_cut],
        "usd": None if answer.cost is None else answer.cost.usd,
        "warnings": len(answer.warnings),
    }
    if text:
        fields |= {"question": request.question, "answer": answer.text}
    _log.info("answered", extra={"stretto": fields})


def log_failure(request: Request, error: Exception, *, text: bool) -> None:
    """Log that a request was not answered; the error message can contain the question, so it counts as text."""
    fields: dict[str, Any] = {"event": "failed", "error": type(error).__name__, "strategy": request.strategy}
    if text:
        fields |= {"question": request.question, "said": str(error)}
    _log.info("not answered", extra={"stretto": fields})  # the error itself is raised to the caller
