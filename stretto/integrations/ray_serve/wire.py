"""The format of calls, chunks and errors between the server and the replicas of a model: JSON.

Ray transfers these texts in its own way. Nothing of ours is pickled, and input is validated like any other.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from stretto.backends.base import Capabilities, Chunk, ModelRequest, Stages
from stretto.backends.tenants import asking
from stretto.values import errors
from stretto.values.errors import BackendError, InvalidRequestError, StrettoError
from stretto.values.request import GenerationOptions

_PROMPT = TypeAdapter(ModelRequest)
_CHUNK = TypeAdapter(Chunk)
_CAPABILITIES = TypeAdapter(Capabilities)
_TENANT = TypeAdapter[str | None](str | None)
_KINDS: dict[str, type[StrettoError]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, BackendError | InvalidRequestError)
}


@dataclass(frozen=True, slots=True)
class Replica:
    """The actor of a replica, sent before the first chunk."""

    actor: str
    namespace: str


_REPLICA = TypeAdapter(Replica)


def replica_text(actor: str, namespace: str) -> str:
    """Serialise the identity of the replica that answers."""
    return _REPLICA.dump_json(Replica(actor, namespace)).decode()


def read_replica(text: str) -> Replica:
    """Parse the identity of the replica that answers."""
    return _REPLICA.validate_json(text)


def call_text(prompt: ModelRequest, options: GenerationOptions) -> str:
    """Serialise a call and its tenant. Raises `InvalidRequestError` for a field that JSON cannot represent."""
    try:
        return json.dumps([_PROMPT.dump_python(prompt, mode="json"), options.model_dump(mode="json"), asking()])
    except (TypeError, ValueError) as error:  # pydantic's serialisation errors are ValueErrors
        raise InvalidRequestError(f"The request cannot be sent to another machine: {error}.") from None


def read_call(text: str) -> tuple[ModelRequest, GenerationOptions, str | None]:
    """Parse the prompt, the options and the tenant of a call; see `stretto.backends.tenants`."""
    prompt, options, tenant = json.loads(text)
    return _PROMPT.validate_python(prompt), GenerationOptions.model_validate(options), _TENANT.validate_python(tenant)


def prompt_text(prompt: ModelRequest) -> str:
    """Serialise a prompt alone."""
    return _PROMPT.dump_json(prompt).decode()


def read_prompt(text: str) -> ModelRequest:
    """Parse a prompt alone."""
    return _PROMPT.validate_json(text)


def chunk_text(chunk: Chunk) -> str:
    """Serialise a chunk. Its stage times become seconds elapsed since then: the clocks of machines differ."""
    if chunk.stages is not None:
        chunk = replace(chunk, stages=_turned(chunk.stages))
    return _CHUNK.dump_json(chunk, exclude_defaults=True).decode()


def read_chunk(text: str) -> Chunk:
    """Parse a chunk. Raises the `StrettoError` that came in its place."""
    if text.startswith('{"failed"'):
        raise _read_error(json.loads(text)["failed"])
    chunk = _CHUNK.validate_json(text)
    return chunk if chunk.stages is None else replace(chunk, stages=_turned(chunk.stages))


def error_text(error: StrettoError) -> str:
    """Serialise an error that takes the place of a chunk."""
    fields: dict[str, Any] = {"kind": _name(error), "message": str(error)}
    if isinstance(error, BackendError):
        fields |= {
            "status": error.status,
            "transient": error.transient,
            "wait": error.retry_after_s,
            "server_message": error.server_message,
        }
    return json.dumps({"failed": fields})


def _read_error(fields: dict[str, Any]) -> StrettoError:
    kind = _KINDS.get(fields.get("kind", ""), BackendError)
    if not issubclass(kind, BackendError):
        return kind(fields.get("message", ""))
    error = kind(
        fields.get("message", ""),
        status=fields.get("status"),
        transient=fields.get("transient"),
        retry_after_s=fields.get("wait"),
    )
    error.server_message = fields.get("server_message", "")
    return error


def _name(error: StrettoError) -> str:
    return next((each.__name__ for each in type(error).__mro__ if each.__name__ in _KINDS), BackendError.__name__)


def _turned(stages: Stages) -> Stages:
    """Convert times to seconds elapsed since then, or back."""
    now = time.perf_counter()
    return Stages(**{name: None if at is None else now - at for name, at in asdict(stages).items()})


def capabilities_text(capabilities: Capabilities) -> str:
    """Serialise the capabilities of a model."""
    return _CAPABILITIES.dump_json(capabilities).decode()


def read_capabilities(text: str) -> Capabilities:
    """Parse the capabilities of a model."""
    return _CAPABILITIES.validate_json(text)


def session_of(prompt: ModelRequest) -> str:
    """Return one value for calls that begin alike: turns of a chat, points of an answer, questions on a document.

    Ray sends those to one replica, which then has their common beginning in its KV cache.
    """
    spoken = [message for message in prompt.messages if message.role != "system"]
    points = prompt.shared and len(spoken) == 1
    begins = prompt.prefix if points else (spoken or prompt.messages)[0].model_dump_json()
    return hashlib.sha256(begins.encode("utf-8", "surrogatepass")).hexdigest()[:32]
