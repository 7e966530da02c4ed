"""What is known about an answer's model from checks and earlier answers: its lengths, and what it handles."""

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
    """What is known about one model; each answer adds to it.

    Args:
        backend: of the answer.
        language: of the question; what a model can do differs by language.
        prompts: those it is asked with; see `History.track_record`.
    """

    def __init__(self, backend: Backend, language: str, prompts: Prompts) -> None:
        self.backend = backend
        self._language, self._prompts = language, prompts

    @property
    def measured(self) -> Measured | None:
        """The speed that a local backend has measured; ``None`` for others."""
        return measured_by(self.backend)

    @property
    def history(self) -> History:
        """What its earlier answers showed."""
        return history_of(self.backend)

    def usual_tokens(self, shape: Shape | None) -> int | None:
        """Return the usual tokens of its last direct answers to questions of this shape; ``None`` after too few."""
        return None if shape is None else self.history.usual_tokens(shape)

    def note_track_record(self, kind: Kind, request: Request, *, managed: bool) -> None:
        """Note whether it managed an answer of this kind (`stretto.router.track_record`) in the answer's language.

        A failure counts only if the router had chosen this kind.
        """
        if managed or request.strategy == "auto":
            self.history.track_record(kind, self._language, self._prompts).note(managed=managed)

    def note_record(self, request: Request, branches: Sequence[RunningBranch]) -> None:
        """Note the length of a direct answer that follows a schema."""
        form = request.options.response_format
        for branch in (running.branch for running in branches if running.in_answer and running.spec.kind == "direct"):
            if isinstance(form, dict) and branch is not None and branch.finish_reason == "stop":
                self.history.note_field(form, WHOLE, typical_tokens(len(branch.text)))
                for name, value in _object_in(branch.text).items():
                    if isinstance(value, list) and any(isinstance(each, dict) for each in value):
                        continue  # for such a list, the length of one element is recorded
                    text = json.dumps(value, ensure_ascii=False)
                    self.history.note_field(form, path_name((name,)), typical_tokens(len(text)))

    def note_lengths(self, shape: Shape, branches: Sequence[RunningBranch]) -> None:
        """Note the length of a direct answer to a question of this shape.

        One that was cut short says nothing, unless it was already long.
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
    """Return the fields of an answer that is a JSON object; none of any other."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
