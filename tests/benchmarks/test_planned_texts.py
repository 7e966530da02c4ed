import json

import planned
import pytest

from stretto import AsyncStretto
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio

TEXTS = [json.loads(line) for line in planned.TEXTS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("way", planned.WAYS)
async def test_every_prompt_is_answered_with_its_recorded_text(way):
    for text in [TEXTS[0], TEXTS[4], TEXTS[-1]]:  # the second has an outline with a closing
        backend = ScriptedBackend({**dict(planned.rules([text])), "": "none of the recorded ones"})
        async with AsyncStretto(backend) as stretto:
            if way == "points" and "outline" not in text:
                continue
            asked = await planned.ask(stretto, text, way, rate=60, repeat=0)
        assert asked.whole, text["question"]
        assert asked.warnings == []
