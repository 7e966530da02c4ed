"""Sends a model only the parameters that it takes: known for some families, learned from 400s for all.

A parameter that the model refuses is left out and the call repeated, once for each. What was learned is kept until the
process ends, so each refusal is paid for once. Parameters without which the request would mean something else (the
messages, the schema of the answer) are never left out: their refusal is raised. A schema may be left out if the
messages contain it too.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from stretto.answer import Usage
from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.known_models import NO_ROWS, Rows, refused_by
from stretto.backends.providers.failures import charge
from stretto.backends.providers.learned import Learned
from stretto.errors import BackendError, RequestRejectedError
from stretto.request import GenerationOptions

_log = logging.getLogger(__name__)

GUIDED_JSON = "guided_json"
"""The schema of an answer, as vLLM took it before it had OpenAI's ``response_format`` for it."""

# Options of the caller. Stop texts are not among them: they are cut from the stream here as well. Log-probabilities
# and further answers are not either: the code that asks for them warns where they are missing.
_REPORTED = ("temperature", "top_p", "seed")
_OPTIONAL = frozenset(
    {
        "temperature",
        "top_p",
        "stop",
        "stop_sequences",
        "seed",
        "logprobs",
        "top_logprobs",
        "n",
        "reasoning_effort",
        "stream_options",
        "effort",
        "prompt_cache_key",
    }
)
_FORMATS = ("response_format", GUIDED_JSON, "format")
_ABOUT_FORMAT = re.compile(
    r"response[ _]?format|json[ _]schema|guided[ _]json|output_config|structured output", re.IGNORECASE
)
_SCHEMA_AT_FAULT = re.compile(
    r"grammar|contains features|invalid (json )?schema|keyword|fail(ed|ure)? to (parse|convert|compile)", re.IGNORECASE
)
_TWINS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_TOGETHER = {"logprobs": "top_logprobs"}  # without the first, the second is refused too


class ParameterMemory:
    """What one model refuses, as far as it is known.

    Args:
        model: its name.
        never: parameters that its API does not have at all.
        learned: what earlier calls have learned about the model at its server.
        own: the caller's rows of models.
    """

    def __init__(
        self,
        model: str,
        never: frozenset[str] = frozenset(),
        learned: Learned | None = None,
        own: Rows = NO_ROWS,
    ) -> None:
        self._never = refused_by(model, own) | never
        self._learned = learned or Learned()

    def fit(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Give the parameters without those that the model refuses."""
        kept = {name: value for name, value in parameters.items() if not self._is_refused(name)}
        return dict(self._as_taken(name, value) for name, value in kept.items())

    def warnings(self, backend: str, options: GenerationOptions) -> tuple[str, ...]:
        """Name the options that are set and not sent, for ``Answer.warnings``."""
        asked = {name: getattr(options, name) for name in _REPORTED if self._is_refused(name)}
        left_out = [f"{name}={value}" for name, value in asked.items() if value is not None]
        said = []
        if left_out:
            these = "it" if len(left_out) == 1 else "them"
            said.append(f"{' and '.join(left_out)} had no effect: {backend} does not take {these}.")
        if isinstance(options.response_format, dict) and self._is_refused("response_format"):
            said.append(f"{backend} does not take response_format: it is told the schema in words only.")
        return tuple(said)

    def refuses(self, name: str) -> bool:
        """Whether a parameter was refused, or is known to be."""
        return self._is_refused(name)

    def repeat_without(
        self,
        failure: BackendError,
        sent: dict[str, Any],
        usage: Usage,
        *,
        wanted: dict[str, Any] | None = None,
        schema_in_words: bool = False,
    ) -> None:
        """Return if the call is to be sent again without a parameter that it was refused for, else raise the failure.

        ``usage``: what the call and those before it took; it is charged to the failure that is raised.
        ``wanted``: the parameters before `fit`, for what this one call is sent without.
        ``schema_is_told``: a schema stands in the messages too.
        """
        schema = wanted if schema_in_words and wanted is not None else None
        learned = isinstance(failure, RequestRejectedError) and self._learn(failure, sent, schema)
        if not learned or (why := why_not_again()):
            if learned:
                failure.remark(f"Not sent again without it: {why}.")
            charge(failure, usage)
            raise failure
        count_repetition()

    def _is_refused(self, name: str) -> bool:
        return name in self._never or name in self._learned.refused

    def _as_taken(self, name: str, value: Any) -> tuple[str, Any]:
        """Give a parameter under the name, and in the form, in which the model takes it."""
        taken = self._learned.renamed.get(name, name)
        return (taken, value["json_schema"]["schema"]) if taken == GUIDED_JSON else (taken, value)

    def _learn(self, error: RequestRejectedError, sent: dict[str, Any], wanted: dict[str, Any] | None) -> bool:
        """Take in a refusal; whether the call is worth repeating without what it names.

        Calls under way at the same time are refused for the same. ``wanted``: where the call can do without its schema.
        """
        name = (error.parameter or "").split(".")[-1]
        if name not in sent:
            name = (error.parameter or "").split(".")[0]
        if name not in sent:
            name = _format_refused(error, sent)
        if name not in sent:
            return False
        renamed = self._learned.renamed
        if name in _TWINS and name not in renamed.values():
            renamed[name] = _TWINS[name]
        elif (
            name == "response_format"
            and self._learned.engine == "vllm"
            and not _SCHEMA_AT_FAULT.search(error.server_message)
        ):
            renamed[name] = GUIDED_JSON
        elif name in _OPTIONAL:
            self._learned.refused.update({name, _TOGETHER.get(name, name)})
        elif name in _FORMATS and wanted is not None and _SCHEMA_AT_FAULT.search(error.server_message):
            wanted.pop("response_format", None)  # another schema may do: nothing is learned of the server
        elif name in _FORMATS and wanted is not None:
            self._learned.refused.add("response_format" if name == GUIDED_JSON else name)
        else:
            return False
        _log.info("%s does not take %s; it is left out from now on", error.backend, name)
        return True


def _format_refused(error: RequestRejectedError, sent: dict[str, Any]) -> str:
    """The name under which a schema was sent, if the refusal is about it."""
    if not _ABOUT_FORMAT.search(f"{error.parameter} {error.server_message}"):
        return ""
    return next((name for name in _FORMATS if name in sent), "")
