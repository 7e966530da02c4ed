"""``/v1/completions``: OpenAI's API from before chat. A prompt becomes the only turn of a conversation."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, StrictBool

from stretto.server.apis.answer_events import Ask
from stretto.server.apis.api_answer import ParsedBody, sse
from stretto.server.apis.bodies import MOST_STOPS, Count, Small, check_number
from stretto.server.apis.chat import DONE, Sampling
from stretto.server.apis.choices import finish_of, usage_of
from stretto.server.apis.extension import Extension, extension_of
from stretto.server.exchange import Exchange
from stretto.server.problems import Problem, read_as
from stretto.server.service import Service
from stretto.values.answer import Answer, Usage
from stretto.values.events import AnswerFinished, BranchDelta, Event, RouteChosen, TextDelta
from stretto.values.messages import Message
from stretto.values.request import RequestOptions
from stretto.values.token_records import TokenLogprob

MOST_ANSWERS = 128
_NOT_OF_A_CHAT = frozenset({"best_of"})  # each answer asked for is the best of one


class CompletionsBody(Sampling):
    """The request body."""

    prompt: str | list[str] | list[int] | list[list[int]]
    n: Annotated[Count | None, Field(le=MOST_ANSWERS)] = None
    echo: StrictBool | None = None
    suffix: str | None = None
    logprobs: Annotated[Small | None, Field(le=5)] = None


def read_completions(body: dict[str, Any], service: Service, exchange: Exchange) -> ParsedBody:  # noqa: ARG001 - as others
    """Parse a body of the older Completions API. Raises `Problem`."""
    extension = Extension.of(body)
    request = read_as(CompletionsBody, body)
    served = service.models.find(request.model)
    check_number("stop", request.stop, MOST_STOPS)
    prompts = _prompts(request)
    options: RequestOptions = {"strategy": served.strategy, **request.sampling, **extension.options}
    options["logprobs"] = request.logprobs
    if extra := {name: value for name, value in request.unknown_fields(served).items() if name not in _NOT_OF_A_CHAT}:
        options["extra"] = extra
    asks = [
        Ask(served, Message(role="user", content=prompt), options) for prompt in prompts for _ in range(request.n or 1)
    ]
    if len(asks) > MOST_ANSWERS:
        message = f"{len(asks)} answers are asked for at once, and {MOST_ANSWERS} are the most. Send fewer prompts."
        raise Problem(400, message, param="prompt", code="invalid_value")
    echoes = [prompt if request.echo else "" for prompt in prompts for _ in range(request.n or 1)]
    return ParsedBody(
        asks, bool(request.stream), CompletionsWriter(served.name, echoes, include_usage=request.include_usage)
    )


def _prompts(request: CompletionsBody) -> list[str]:
    if request.suffix:
        message = "suffix cannot be used: text after a gap is not read. Leave it out."
        raise Problem(400, message, param="suffix", code="unsupported_parameter")
    prompts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) < len(prompts) or not texts:
        message = "prompt takes a text or a list of texts, not tokens, and at least one."
        raise Problem(400, message, param="prompt", code="unsupported_value" if prompts else "invalid_value")
    return texts


class CompletionsWriter:
    """A writer for answers in the format of Completions, one choice for each."""

    def __init__(self, model: str, echoes: Sequence[str], *, include_usage: bool) -> None:
        self._frame = {
            "id": f"cmpl-{uuid.uuid4().hex}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }
        self._echoes = list(echoes)
        self._include_usage = include_usage
        self._usage = Usage()
        self._is_direct: dict[int, bool] = {}
        self._logprobs: dict[int, tuple[TokenLogprob, ...]] = {}  # of text that has not been sent yet
        self._sent: dict[int, tuple[TokenLogprob, ...]] = {}  # sent so far

    def whole(self, answers: Sequence[Answer]) -> Any:
        choices = [
            _choice(index, self._echoes[index] + answer.text, finish_of(answer.finish_reason), answer.logprobs)
            for index, answer in enumerate(answers)
        ]
        usage = usage_of(sum((answer.usage for answer in answers), Usage()))
        return self._frame | {"choices": choices, "usage": usage, "stretto": extension_of(answers[0])}

    def frames(self, index: int, event: Event) -> bytes:
        """Return what an event adds to the stream."""
        match event:
            case RouteChosen():
                self._is_direct[index] = event.route.strategy == "direct"
                return self._chunk(_choice(index, self._echoes[index])) if self._echoes[index] else b""
            case BranchDelta() if self._is_direct.get(index) and event.branch_id == "direct":
                self._logprobs[index] = self._logprobs.get(index, ()) + event.logprobs
            case TextDelta():
                new, before = self._logprobs.pop(index, ()), self._sent.get(index, ())
                self._sent[index] = (*before, *new)
                return self._chunk(_choice(index, event.text, None, new, _length(before)))
            case AnswerFinished():
                answer = event.answer
                self._usage += answer.usage
                logprobs = {"stretto": extension_of(answer)}
                sent = self._sent.get(index, ())
                left = answer.logprobs[len(sent) :]
                return self._chunk(_choice(index, "", finish_of(answer.finish_reason), left, _length(sent)), logprobs)
        return b""

    def closing(self) -> bytes:
        if not self._include_usage:
            return DONE
        return sse(self._frame | {"choices": [], "usage": usage_of(self._usage)}) + DONE

    def broken(self, problem: Problem) -> bytes:
        """Return what ends a stream after an error."""
        return sse(problem.as_openai()) + DONE

    def _chunk(self, choice: dict[str, Any], extra: dict[str, Any] | None = None) -> bytes:
        return sse(self._frame | {"choices": [choice]} | (extra or {}))


def _choice(
    index: int, text: str, finish_reason: str | None = None, logprobs: Sequence[TokenLogprob] = (), before: int = 0
) -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": _logprobs(logprobs, before), "finish_reason": finish_reason}


def _length(logprobs: Sequence[TokenLogprob]) -> int:
    return sum(len(each.token) for each in logprobs)


def _logprobs(logprobs: Sequence[TokenLogprob], at: int) -> dict[str, Any] | None:
    """Return the log-probabilities of tokens, the first of which is at this offset in the text."""
    if not logprobs:
        return None
    offsets = []
    for each in logprobs:
        offsets.append(at)
        at += len(each.token)
    return {
        "tokens": [each.token for each in logprobs],
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [dict(each.top) for each in logprobs],
        "text_offset": offsets,
    }
