"""Whether a model can be run as its form says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stretto.errors import BackendError, ModelNotFoundError
from stretto.local_engine.model.forward import Forward
from stretto.local_engine.model.refined.block_form import BlockForm

__all__ = ["checked_form"]


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
