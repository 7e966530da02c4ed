"""Turns a call into the engine's request: tokens, limits, sampling and response format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from stretto.backends.allowance import calling
from stretto.backends.base import ModelRequest
from stretto.backends.tenants import asking
from stretto.foundation.arguments import safe_repr
from stretto.local_engine.generation import Generation, JoinedPaths
from stretto.values.errors import InvalidRequestError
from stretto.values.request import GenerationOptions

if TYPE_CHECKING:
    from stretto.local_engine.model.loading.load import LoadedModel


_DEFAULT_NEW_TOKENS = 1024


def generation(
    model: LoadedModel,
    ids: tuple[int, ...],
    prompt: ModelRequest,
    options: GenerationOptions,
    decoding: str,
    *,
    room: int,
    joined: tuple[JoinedPaths, ...] = (),
) -> Generation:
    """Build the request to the engine.

    ``room``: maximum number of answer tokens; ``joined``: paths among ``ids``.
    """
    extra = prompt.extra
    own = model.sampling | {
        name: extra[name] for name in ("top_k", "min_p") if extra.get(name) is not None
    }  # the model's recommended values; the caller's take precedence
    usual, caller = None if model.diffusion is None else model.diffusion.answer, calling()
    wanted = options.max_tokens or usual or _DEFAULT_NEW_TOKENS
    return Generation(
        prompt=ids,
        max_new_tokens=max(1, min(wanted, room)),
        end_ids=model.ends,
        stop=options.stop,
        temperature=own.get("temperature", 0.0) if options.temperature is None else options.temperature,
        top_p=own.get("top_p", 1.0) if options.top_p is None else options.top_p,
        top_k=int(own.get("top_k", 0)),
        min_p=own.get("min_p", 0.0),
        response_format=format_of(prompt),
        draft=_draft(model, prompt.draft),
        tenant=asking(),
        answer=None if caller is None else caller.answer,
        adapter=options.adapter,
        joined=joined,
        seed=options.seed,
        decoding=decoding,
        logprobs=options.logprobs,
        **(model.penalties | _penalties(model, extra)),
    )


def format_of(prompt: ModelRequest) -> Mapping[str, Any] | str | None:
    """Return the JSON Schema or the pattern that the answer must follow, if any."""
    return prompt.response_regex if prompt.response_schema is None else prompt.response_schema


def _draft(model: LoadedModel, text: str) -> tuple[int, ...]:
    """Tokenize a text that the answer may resemble, as if it followed the prompt."""
    return tuple(model.tokenizer(text, add_special_tokens=False, verbose=False).input_ids) if text else ()


def _penalties(model: LoadedModel, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the caller's fields that change logits; JSON has token ids as strings."""
    found = {name: extra[name] for name in ("repetition_penalty",) if extra.get(name) is not None}
    if bias := extra.get("logit_bias"):
        try:
            given = {int(token): value for token, value in dict(bias).items()}
        except (TypeError, ValueError):
            raise InvalidRequestError(
                f"logit_bias={safe_repr(bias)} cannot be used: it is a mapping from token ids to numbers."
            ) from None
        found["logit_bias"] = {**model.penalties.get("logit_bias", {}), **given}
    return found


_Ids = tuple[int, ...]


def tokens_with_paths(
    prompt: ModelRequest, encode: Callable[[ModelRequest], _Ids]
) -> tuple[_Ids, tuple[JoinedPaths, ...]]:
    """Return the tokens of a prompt, and where its paths are among them.

    A token that crosses the beginning of a path, such as ``>`` with the following new line, counts as before it.
    """
    ids, joined = encode(prompt), list[JoinedPaths]()
    for fork in prompt.paths:
        ends = [_tokens_before(end, prompt, ids, encode) for end in (fork.begin, *fork.ends)]
        lengths = tuple(end - begin for begin, end in pairwise(ends))
        if not lengths or min(lengths) < 1 or ends[-1] >= len(ids):
            return ids, ()
        joined.append(JoinedPaths(ends[0], lengths, fork.beside))
    return ids, tuple(joined)


def _tokens_before(at: int, prompt: ModelRequest, ids: _Ids, encode: Callable[[ModelRequest], _Ids]) -> int:
    """Return how many tokens begin before a character of the last turn."""
    last = prompt.messages[-1]
    cut = last.model_copy(update={"content": last.content[:at]})
    before = encode(replace(prompt, messages=(*prompt.messages[:-1], cut)))
    same = next((place for place, pair in enumerate(zip(before, ids, strict=False)) if pair[0] != pair[1]), len(before))
    return same + (same < len(before))
