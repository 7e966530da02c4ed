"""What a request cannot ask of a model that writes blocks at once."""

from __future__ import annotations

from stretto.errors import InvalidRequestError
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.refined.block_form import BlockForm

__all__ = ["check_refined"]


def check_refined(request: Generation, model: str, form: BlockForm) -> None:
    """Refuse what needs the tokens from left to right. Raises `InvalidRequestError`."""
    for name, asked in (
        ("logprobs", request.logprobs is not None),
        ("response_format", request.response_format is not None),
        ("no_repeat_ngram_size", request.no_repeat_ngram_size > 0),
    ):
        if asked:
            raise InvalidRequestError(
                f"{name} cannot be used with {model}: it writes blocks of tokens at once ({form.family}), and this "
                "needs one token after the other. Leave it out, or choose a model that writes from left to right."
            )
    changed = (request.repetition_penalty != 1.0, request.logit_bias, request.suppress_tokens)
    if form.canvas and any((*changed, request.begin_suppress_tokens)):
        raise InvalidRequestError(
            f"Penalties and biases of tokens cannot be used with {model}: transformers refines its blocks by itself "
            f"({form.family}). Leave them out."
        )
