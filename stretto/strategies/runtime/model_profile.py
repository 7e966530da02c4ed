"""What is known of an answer's model, from checks and earlier answers: its lengths, what it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stretto.backends.base import Backend, Measured, measured_by
from stretto.backends.known_models import typical_tokens
from stretto.router.forecast import TOKENS_BY_SHAPE
from stretto.router.history import WHOLE, History, history_of
from stretto.router.track_record import Kind, Prompts
from stretto.strategies.runtime.branch import RunningBranch
from stretto.values.partial_values import path_name
from stretto.values.request import Request
from stretto.values.route import Shape


class ModelProfile:
    """What is known of one model, which an answer adds to.

    Args:
        backend: of the answer.
        language: of the question; what a model holds differs by language.
        prompts: that it is asked with; see `History.track_record`.
    """

    def __init__(self, backend: Backend, language: str, prompts: Prompts) -> None:
        self.backend = backend
        self._language, self._prompts = language, prompts

    @property
    def measured(self) -> Measured | None:
        """What the backend has measured of its speed, if it is a local one."""
        return measured_by(self.backend)

    @property
    def history(self) -> History:
        """What its earlier answers showed to whoever asks."""
        return history_of(self.backend)

    def usual_tokens(self, shape: Shape | None) -> int | None:
        """Tokens that its last straight answers to questions of this shape had; ``None`` after too few."""
        return None if shape is None else self.history.usual_tokens(shape)

    def note_track_record(self, kind: Kind, request: Request, *, held: bool) -> None:
        """Note whether it held an answer of this kind (`stretto.router.track_record`) in the answer's language.

        A failure counts only where the router had chosen to answer like this.
        """
        if held or request.strategy == "auto":
            self.history.track_record(kind, self._language, self._prompts).note(held=held)

    def note_record(self, request: Request, branches: Sequence[RunningBranch]) -> None:
        """Note how long a straight answer was that is held to a schema."""
        form = request.options.response_format
        for branch in (running.branch for running in branches if running.in_answer and running.spec.kind == "direct"):
            if isinstance(form, dict) and branch is not None and branch.finish_reason == "stop":
                self.history.note_field(form, WHOLE, typical_tokens(len(branch.text)))
                for name, value in _object_in(branch.text).items():
                    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
                        continue  # what is known of such a list is the length of one element
                    said = json.dumps(value, ensure_ascii=False)
                    self.history.note_field(form, path_name((name,)), typical_tokens(len(said)))

    def note_lengths(self, shape: Shape, branches: Sequence[RunningBranch]) -> None:
        """Note how long a direct answer to a question of this shape turned out.

        What was cut short tells nothing, unless it was long already.
        """
        for running in branches:
            branch = running.branch
            if branch is None or branch.tool_calls or branch.writers:
                continue
            tokens = branch.usage.completion_tokens - branch.usage.discarded_tokens
            ended = tokens > 0 and branch.status == "finished" and branch.finish_reason == "stop"
            if branch.kind == "direct" and running.in_answer:
                cut_late = branch.finish_reason == "length" and tokens >= TOKENS_BY_SHAPE[shape]
                if ended or cut_late:
                    self.history.note_length(shape, tokens)


def _object_in(text: str) -> Mapping[str, Any]:
    """The fields of an answer that is an object; none of any other."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
