"""An optional second opinion when the shape model is in doubt: one short question to a small model.

It is asked only if it could change the route, like a cascade (FrugalGPT, arXiv 2305.05176), with a separate deadline.
The reply updates the probability by Bayes' rule, with the hit and false-alarm rates that Skeleton-of-Thought
(2307.15337) reports for its prompted GPT-4 router on WizardLM-218: a yes changes little, a no changes much.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import anyio

from stretto.backends.base import Backend, ModelRequest
from stretto.router.excerpt import excerpt
from stretto.values.errors import SettingsError
from stretto.values.request import GenerationOptions, Message

QUESTION = """\
Somebody will answer the request below. Do not answer it. Say how a good answer is built:
A - a list or sections that several people could each write without seeing the others' text
B - parts where later ones need the exact content of earlier ones, or one flowing text
C - something short, code, or text taken from the request
Reply with the letter alone.

<request>
{request}
</request>"""

_LETTER = re.compile(r"\b([ABC])\b")


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """How to ask for a second opinion.

    Attributes:
        deadline_s: seconds to wait for it; after that, the first opinion counts.
        zone: half width of the grey zone around the threshold, in probability.
        hit_rate: share of suitable requests to which the small model says yes.
        false_alarm_rate: share of unsuitable requests to which it says yes.
    """

    deadline_s: float = 1.0
    zone: float = 0.15
    hit_rate: float = 0.948
    false_alarm_rate: float = 0.41

    def __post_init__(self) -> None:
        if self.deadline_s <= 0:
            raise SettingsError(
                f"deadline_s={self.deadline_s} leaves no time to answer. Give a number of seconds above 0."
            )
        for name in ("hit_rate", "false_alarm_rate"):
            rate = getattr(self, name)
            if not 0 < rate < 1:
                raise SettingsError(f"{name}={rate} is not a rate. Give a number between 0 and 1, both excluded.")

    async def ask(self, text: str, backend: Backend) -> bool | None:
        """Ask whether parallel points are suitable; ``None`` if the backend failed, was late or gave no letter."""
        reply = ""
        prompt = ModelRequest(
            messages=(Message(role="user", content=QUESTION.replace("{request}", excerpt(text))),),
            effort="low" if backend.capabilities.reasoning else None,
        )
        options = GenerationOptions(max_tokens=None if backend.capabilities.reasoning else 8)
        try:
            with anyio.move_on_after(self.deadline_s):
                async with backend.stream(prompt, options) as chunks:
                    async for chunk in chunks:
                        reply += chunk.text
        except Exception:  # noqa: BLE001 - the opinion is optional: on any failure the first one counts
            return None
        found = _LETTER.search(reply.upper())
        return found[1] == "A" if found else None

    def update(self, probability: float, opinion: bool) -> float:
        """Return the probability after the opinion, by Bayes' rule."""
        hit, alarm = self.hit_rate, self.false_alarm_rate
        for_, against = (hit, alarm) if opinion else (1 - hit, 1 - alarm)
        return probability * for_ / (probability * for_ + (1 - probability) * against)
