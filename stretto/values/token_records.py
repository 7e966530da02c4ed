"""The tokens of an answer: their probabilities, and how a local model decoded them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, computed_field


class TokenLogprob(BaseModel):
    """The probability that a model gave one token of its answer.

    The probabilities are the model's own, at temperature 1, before limits, penalties and ``response_format``.

    Attributes:
        token: its text. A token that ends the answer is included. Part of a character is shown as U+FFFD.
        logprob: natural logarithm of its probability.
        top: the most probable tokens in its place with their log-probabilities, most probable first.
    """

    model_config = ConfigDict(frozen=True)

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class DecodingStats(BaseModel):
    """How a local model decoded its tokens; ``+`` adds up branches.

    A forward pass evaluates rows: the last committed token, and drafted ones. It commits the drafted tokens that the
    model itself would have chosen, and one more.

    Attributes:
        methods: names of the decoding methods.
        steps: forward passes after prefill.
        rows: rows evaluated in these forward passes.
        tokens: tokens committed by these forward passes; excludes the first token of a generation, which comes from
            prefill.
        drafted: drafted rows, by source.
        accepted: drafted rows that became part of an answer, by source.
        changed: tokens of the answer that a lossy method accepted although the model itself would have chosen others; 0
            for all other methods, and for those that write blocks, where the model's choice is unknown.
        lossy: whether a method that changes the answer was used.
    """

    model_config = ConfigDict(frozen=True)

    methods: tuple[str, ...] = ()
    steps: int = 0
    rows: int = 0
    tokens: int = 0
    drafted: Mapping[str, int] = Field(default_factory=dict)
    accepted: Mapping[str, int] = Field(default_factory=dict)
    changed: int = 0
    lossy: bool = False

    @computed_field  # type: ignore[prop-decorator]  # mypy does not support decorators above property
    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens committed per forward pass; 1 without drafts."""
        return self.tokens / self.steps if self.steps else 1.0

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def rows_per_step(self) -> float:
        """Mean number of rows evaluated per forward pass; 1 without drafts."""
        return self.rows / self.steps if self.steps else 1.0

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def acceptance(self) -> Mapping[str, float]:
        """Share of the drafted rows that were accepted, by source."""
        return {source: self.accepted.get(source, 0) / rows for source, rows in self.drafted.items() if rows}

    @computed_field  # type: ignore[prop-decorator]  # as above
    @property
    def divergence(self) -> float:
        """Share of the tokens that a lossy method changed."""
        return self.changed / self.tokens if self.tokens else 0.0

    def __add__(self, other: DecodingStats) -> DecodingStats:
        return DecodingStats(
            methods=tuple(dict.fromkeys((*self.methods, *other.methods))),
            steps=self.steps + other.steps,
            rows=self.rows + other.rows,
            tokens=self.tokens + other.tokens,
            drafted=_added(self.drafted, other.drafted),
            accepted=_added(self.accepted, other.accepted),
            changed=self.changed + other.changed,
            lossy=self.lossy or other.lossy,
        )


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in dict.fromkeys((*one, *other))}
