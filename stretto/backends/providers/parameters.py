"""Sends a model only the parameters that it accepts: known for some families, learned from 400s for all.

A parameter that the model rejects is left out and the call repeated, once for each. What was learned is kept until the
process ends, so each rejection costs only one call. Parameters without which the request would mean something else (the
messages, the tools) are never left out: their rejection is raised. A rejected schema is sent without strict mode,
and then only in words, if the caller has words for it; so is a tool's, which keeps its schema.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from stretto.backends.allowance import count_repetition, why_not_again
from stretto.backends.base import ModelRequest
from stretto.backends.known_models import NO_ROWS, Rows, refused_by
from stretto.backends.providers.failures import charge
from stretto.backends.providers.learned import Learned
from stretto.values.answer import Usage
from stretto.values.answer_warning import AnswerWarning
from stretto.values.errors import BackendError, RequestRejectedError
from stretto.values.request import GenerationOptions

_log = logging.getLogger(__name__)

GUIDED_JSON = "guided_json"
"""The schema of an answer, as vLLM accepted it before it supported OpenAI's ``response_format``."""

# Options of the caller. Stop texts are not among them: the library cuts the stream at them too. Neither are
# log-probabilities and further answers: the code that requests them warns if they are missing.
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
        "prediction",
    }
)
_FORMATS = ("response_format", GUIDED_JSON, "format")
_ABOUT_FORMAT = re.compile(
    r"response[ _]?format|guided[ _]json|output_(config|format)|structured output|schema|grammar|\$(ref|defs)|keyword|"
    r"additionalProperties",
    re.IGNORECASE,
)
_OF_THE_ANSWER = re.compile(r"response[ _]?(format|schema)|guided[ _]json|output_(config|format)", re.IGNORECASE)
_ABOUT_TOOLS = re.compile(r"\btools?\b|\bfunctions?\b|input_schema|tools[.\[]", re.IGNORECASE)
_SCHEMA_AT_FAULT = re.compile(
    r"grammar|contains features|invalid (json )?schema|keyword|fail(ed|ure)? to (parse|convert|compile)|strict|"
    r"in context=|additionalProperties|\$(ref|defs)|nesting|recursi|"
    r"schema\b.{0,60}\b(invalid|not valid|too (large|long|many|complex|deep)|exceed|unsupported|must|required)|"
    r"for '\w+' type|propert(y|ies)\b.{0,60}(not supported|unsupported|not permitted|not allowed|required|must)",
    re.IGNORECASE,
)
_TWINS = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_TOGETHER = {"logprobs": "top_logprobs"}  # without the first, the second is rejected too


class ParameterMemory:
    """What one model is known to reject.

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
        """Return the parameters without those that the model rejects."""
        kept = {name: value for name, value in parameters.items() if not self.refuses(name)}
        if "tools" in kept and self._learned.manner_of(kept["tools"]):
            kept["tools"] = [_loose(tool) for tool in kept["tools"]]
        return dict(self._as_taken(name, value) for name, value in kept.items())

    def warnings(self, backend: str, options: GenerationOptions) -> tuple[AnswerWarning, ...]:
        """Return warnings for options that are set but not sent, for ``Answer.warnings``."""
        given = {name: getattr(options, name) for name in _REPORTED if self.refuses(name)}
        left_out = [f"{name}={value}" for name, value in given.items() if value is not None]
        texts = []
        if left_out:
            these = "it" if len(left_out) == 1 else "them"
            texts.append(f"{' and '.join(left_out)} had no effect: {backend} does not take {these}.")
        if isinstance(options.response_format, dict) and self._refuses_schemas:
            texts.append(f"{backend} does not take response_format: the schema is described in the prompt instead.")
        return tuple(AnswerWarning(each, "option") for each in texts)

    def refuses(self, name: str) -> bool:
        """Return whether a parameter was rejected, or is known to be."""
        return name in self._never or name in self._learned.refused

    def as_taken(self, prompt: ModelRequest) -> ModelRequest:
        """Return a request with its schema in words only, if the server is known to reject it."""
        schema = prompt.response_schema
        if schema is None:
            return prompt
        return prompt.worded if self._refuses_schemas or self._learned.manner_of(schema) == "words" else prompt

    def repeat_without(
        self,
        failure: BackendError,
        sent: dict[str, Any],
        usage: Usage,
        *,
        schema: Mapping[str, Any] | None = None,
        in_words: bool = False,
    ) -> None:
        """Return if the call should be repeated without the rejected part, else raise the failure.

        ``usage``: usage of this call and those before it, which is charged to the failure if raised. ``schema``: the
        answer's; ``in_words``: whether it can be stated in words.
        """
        learned = isinstance(failure, RequestRejectedError) and self._learn(failure, sent, schema, in_words=in_words)
        if not learned or (why := why_not_again()):
            if learned:
                failure.remark(f"Not sent again without it: {why}.")
            charge(failure, usage)
            raise failure
        count_repetition()

    @property
    def _refuses_schemas(self) -> bool:
        return any(self.refuses(name) for name in _FORMATS if name != GUIDED_JSON)

    def _as_taken(self, name: str, value: Any) -> tuple[str, Any]:
        """Return a parameter with the name and in the format that the model accepts."""
        taken = self._learned.renamed.get(name, name)
        return (taken, value["json_schema"]["schema"]) if taken == GUIDED_JSON else (taken, value)

    def _learn(
        self, error: RequestRejectedError, sent: dict[str, Any], schema: Mapping[str, Any] | None, *, in_words: bool
    ) -> bool:
        """Learn from a rejection; returns whether the call is worth repeating without what it names.

        Concurrent calls are rejected for the same reason.
        """
        if _about_tools(error, sent) and any(map(_is_strict, sent["tools"])):
            self._learned.set_manner(sent["tools"], "loose")
            return True
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
        elif name in _OPTIONAL:
            self._learned.refused.update({name, _TOGETHER.get(name, name)})
        elif name not in _FORMATS or schema is None or not self._learn_of(error, name, sent, schema, in_words=in_words):
            return False
        _log.info("%s does not take %s as it was sent; it is left out or changed from now on", error.backend, name)
        return True

    def _learn_of(
        self, error: RequestRejectedError, name: str, sent: dict[str, Any], schema: Mapping[str, Any], *, in_words: bool
    ) -> bool:
        """Learn that an answer's schema was rejected, or the parameter that contained it."""
        if _SCHEMA_AT_FAULT.search(error.server_message):  # another schema might work: nothing is learned of the server
            strict = name == "response_format" and sent[name]["json_schema"]["strict"]
            if strict or in_words:
                self._learned.set_manner(schema, "loose" if strict else "words")
            return strict or in_words
        if name == "response_format" and self._learned.engine == "vllm":
            self._learned.renamed[name] = GUIDED_JSON
        elif in_words:
            self._learned.refused.add("response_format" if name == GUIDED_JSON else name)
        else:
            return False
        return True


def _format_refused(error: RequestRejectedError, sent: dict[str, Any]) -> str:
    """Return the name under which a schema was sent, if the rejection is about it."""
    if _about_tools(error, sent) or not _ABOUT_FORMAT.search(f"{error.parameter} {error.server_message}"):
        return ""
    return next((name for name in _FORMATS if name in sent), "")


def _about_tools(error: RequestRejectedError, sent: Mapping[str, Any]) -> bool:
    """Return whether a rejection is about the schema of a tool, not that of the answer."""
    if "tools" not in sent:
        return False
    text = f"{error.parameter} {error.server_message}"
    return bool(_ABOUT_FORMAT.search(text) and _ABOUT_TOOLS.search(text)) and not _OF_THE_ANSWER.search(text)


def _loose(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool, in either API's format, that is not strict."""
    inner = {"function": _loose(tool["function"])} if isinstance(tool.get("function"), Mapping) else {}
    return {**tool, **inner, **({"strict": False} if "strict" in tool else {})}


def _is_strict(tool: Any) -> bool:
    return isinstance(tool, Mapping) and bool(tool.get("strict") or _is_strict(tool.get("function")))
