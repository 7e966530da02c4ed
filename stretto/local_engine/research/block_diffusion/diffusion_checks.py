"""Whether a model can be run as its form says, and what a request cannot ask of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.block_form import BlockForm
from stretto.values.errors import BackendError, InvalidRequestError, ModelNotFoundError

if TYPE_CHECKING:
    from stretto.local_engine.model.forward.forward import Forward

__all__ = ["check_diffusion", "checked_form"]


def checked_form(name: str, form: BlockForm, forward: Forward, vocabulary: int, tokenizer: Any) -> BlockForm:
    """The form with its mask token, which the tokenizer knows if the configuration does not.

    Args:
        name: of the model.
        form: as its files say.
        forward: that runs it.
        vocabulary: token ids are below this.
        tokenizer: of the model.

    Raises `ModelNotFoundError` without a mask token, `BackendError` where the forward takes no mask but its own.
    """
    if form.canvas:
        return form
    mask = form.mask if form.mask >= 0 else getattr(tokenizer, "mask_token_id", None)
    if mask is None or not 0 <= mask < vocabulary:
        raise ModelNotFoundError(
            f"{name} writes blocks at once and has no mask token: config.json has mask_token_id="
            f"{None if form.mask < 0 else form.mask}, and its token ids are below {vocabulary}. Write the right one "
            "there.",
            backend=name,
        )
    if forward.alone or forward.switch is not None:
        own = "rotary factors that change with the length" if forward.switch is not None else "attention of its own"
        raise BackendError(
            f"{name} cannot be run: it writes blocks at once ({form.family}), and its base has {own}. "
            "Choose a model of plain attention layers; docs/models.md says which run.",
            backend=name,
        )
    return replace(form, mask=mask)


def check_diffusion(request: Generation, model: str, form: BlockForm) -> None:
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
