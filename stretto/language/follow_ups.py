"""Detects questions that cannot be understood without the one before, by ``follow_ups.toml``."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

from stretto.language.folding import fold

LONGEST = 80  # characters; a longer question stands alone


def is_follow_up(question: str) -> bool:
    """Whether a question cannot be understood alone ("and for cats?"). Any text is accepted."""
    return len(question) <= LONGEST and _follow_up().match(fold(question)) is not None


@cache
def _follow_up() -> re.Pattern[str]:
    tables = tomllib.loads(files("stretto.language").joinpath("follow_ups.toml").read_text("utf-8")).values()
    lead = {fold(word.strip()) for table in tables for word in table["lead"].split(",")}
    begins = (fold(pattern) for table in tables for pattern in table["begins"])
    return re.compile(rf"\W*(?:(?:{'|'.join(sorted(lead, key=len, reverse=True))})\W+)*(?:{'|'.join(begins)})")
