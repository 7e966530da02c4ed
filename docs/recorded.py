"""The answer that pictures show: a strong chat model wrote it, and a scripted server replays it (`benchmarks/data`)."""

from __future__ import annotations

import json
import sys

from pictures import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from measuring import scripted_server
from planned import TEXTS, rules

__all__ = ["PACE", "QUESTION", "REPLIES", "STRATEGY", "scripted_server"]

QUESTION = "How can I make my home more energy efficient on a small budget?"
STRATEGY = "skeleton"
PACE = {"time_to_first_token_s": 0.3, "tokens_per_second": 60, "token_characters": 4}
_KEPT = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]
REPLIES = [*rules([each for each in _KEPT if each["question"] == QUESTION]), ("", "Yes.")]
"""Patterns of prompts, and what each is answered with."""
