"""Sends a model only the parameters that it takes: known for some families, learned from 400s for all.

A parameter that the model refuses is left out and the call repeated, once for each. What was
learned stays with the backend, so it is paid for once. What the caller's meaning hangs on (the
messages, the schema of the answer) is never left out: then the refusal is the answer. A schema that
the messages tell as well may go.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from stretto.answer import Usage
from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.known_models import refused_by
from stretto.backends.providers.failures import charge
from stretto.errors import BackendError, RequestRejectedError
from stretto.request import GenerationOptions

_log = logging.getLogger(__name__)

# Options of the caller. Stop texts are not among them: they are cut from the stream here as well.
_REPORTED = ("temperature", "top_p", "seed")
_OPTIONAL = frozenset(
    {
        "temperature",
        "top_p",
        "stop",
        "stop_sequences",
        "seed",
        "reasoning_effort",
        "stream_options",
        "effort",
        "prompt_cache_key",
    }
)
_FORMATS = ("response_format", "format")
_ABOUT_FORMAT = re.compile(r"response[ _]?format|json[ _]schema|output_config|structured output", re.IGNORECASE)
_TWINS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


class ParameterMemory:
    """What one model refuses, as far as it is known.

    Args:
        model: its name.
        never: parameters that its API does not have at all.
        schema_is_told: a schema stands in the messages too.
    """

    def __init__(self, model: str, never: frozenset[str] = frozenset(), *, schema_is_told: bool = False) -> None:
        self._schema_is_told = schema_is_told
        self._refused = set(refused_by(model) | never)
        self._renamed: dict[str, str] = {}

    def fit(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Give the parameters without those that the model refuses."""
        return {self._renamed.get(name, name): value for name, value in parameters.items() if name not in self._refused}

    def warnings(self, backend: str, options: GenerationOptions) -> tuple[str, ...]:
        """Name the options that are set and not sent, for ``Answer.warnings``."""
        asked = {name: getattr(options, name) for name in _REPORTED if name in self._refused}
        left_out = [f"{name}={value}" for name, value in asked.items() if value is not None]
        if not left_out:
            return ()
        these = "it" if len(left_out) == 1 else "them"
        return (f"{' and '.join(left_out)} had no effect: {backend} does not take {these}.",)

    def repeat_without(self, failure: BackendError, sent: dict[str, Any], usage: Usage) -> None:
        """Return if the call is to be sent again without a parameter that it was refused for, else raise the failure.

        ``usage``: what the call and those before it took; it is charged to the failure that is raised.
        """
        learned = isinstance(failure, RequestRejectedError) and self._learn(failure, sent)
        if not learned or (why := why_not_again()):
            if learned:
                failure.args = (f"{failure} Not sent again without it: {why}.",)
            charge(failure, usage)
            raise failure
        count_repetition()

    def _learn(self, error: RequestRejectedError, sent: dict[str, Any]) -> bool:
        """Take in a refusal; whether the call is worth repeating without what it names."""
        name = (error.parameter or "").split(".")[-1]
        if name not in sent:
            name = (error.parameter or "").split(".")[0]
        if name not in sent:
            name = self._format_refused(error, sent)
        if name not in sent:
            return False
        if name in _TWINS and name not in self._renamed.values():
            self._renamed[name] = _TWINS[name]
        elif name in _OPTIONAL or (name in _FORMATS and self._schema_is_told):
            self._refused.add(name)
        else:
            return False
        _log.info("%s does not take %s; it is left out from now on", error.backend, name)
        return True

    def _format_refused(self, error: RequestRejectedError, sent: dict[str, Any]) -> str:
        """The name under which a schema was sent, if the refusal is about it and the call can do without."""
        if not self._schema_is_told or not _ABOUT_FORMAT.search(f"{error.parameter} {error.said}"):
            return ""
        return next((name for name in _FORMATS if name in sent), "")
