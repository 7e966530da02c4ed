"""What SmolLM2 holds, measured through llama.cpp's server, and what the router makes of it."""

import pytest

from stretto.abilities import abilities_of

pytestmark = pytest.mark.anyio

REVIEWS = """Classify each review as positive or negative:
- The tent stayed dry in a storm. I love it.
- The zip broke on the first day.
- Excellent value, I would buy it again.
- It smells terrible and the colour is wrong.
- Arrived late, damaged, and nobody answered my mail.
- The best shoes I have ever worn.
- A complete waste of money.
- My children play with it every day and are happy.
- The screen went black after an hour.
- Fast delivery and wonderful quality."""


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


async def test_labels_that_smollm2_does_not_hold_are_not_delivered_as_results(llamacpp, own_folder):
    async with llamacpp.client() as stretto:
        found = await stretto.check()
        assert abilities_of(stretto.backends["main"]) == found
        assert not found.held["label"].held
        assert found.held["label"].example
        assert set(found.tokens_per_s) == {1, 8}
        assert found.tokens_per_s[8] < found.tokens_per_s[1]  # eight streams share one processor
        route = await stretto.route(REVIEWS)
    assert route.strategy == "direct"
    assert "`stretto check`" in route.reason
