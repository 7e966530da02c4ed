"""Several models, one of them real: SmolLM2 behind the server of llama.cpp, and the pocket model in this process."""

import pytest

from stretto import AsyncStretto
from stretto.backends.providers.servers import LlamaCpp
from stretto.calibrating import LabelledQuestion, calibrate_async

pytestmark = pytest.mark.anyio

CAPITAL = "What is the capital of Japan?"
SHORT = {"temperature": 0, "max_tokens": 30}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    (tmp_path / "settings.toml").touch()
    monkeypatch.setenv("STRETTO_SETTINGS", str(tmp_path / "settings.toml"))


@pytest.fixture
def both(llamacpp):
    """SmolLM2 as the main model, the pocket model as the small one."""
    return AsyncStretto("llamacpp:smollm2", base_url=llamacpp.base_url, roles={"small": "local:pocket"})


@pytest.mark.parametrize(("threshold", "writer"), [(-0.05, "local:pocket"), (0.0, "llamacpp:smollm2")])
async def test_a_cascade_shows_the_small_answer_or_asks_the_server(both, llamacpp, threshold, writer):
    async with both as stretto:
        answer = await stretto.ask(CAPITAL, strategy="cascade", strategy_options={"threshold": threshold}, **SHORT)
    assert "Tokyo" in answer.text
    assert answer.branches[-1].model == writer
    while llamacpp.busy_slots():
        pass  # bounded by the test's own time limit


async def test_the_servers_own_log_probabilities_tell_how_sure_it_is(llamacpp):
    small = LlamaCpp("smollm2", base_url=llamacpp.base_url)
    async with AsyncStretto("local:pocket", roles={"small": small}) as stretto:
        answer = await stretto.ask(CAPITAL, strategy="cascade", strategy_options={"threshold": -9.0}, **SHORT)
    await small.aclose()
    assert [branch.model for branch in answer.branches] == ["llamacpp:smollm2"]
    assert "log-probability" in answer.route.reason


async def test_a_bound_is_learned_from_the_answers_of_both(both):
    known = {"Japan": "Tokyo", "Kenya": "Nairobi", "Italy": "Rome", "Egypt": "Cairo", "Peru": "Lima"}
    questions = [
        LabelledQuestion(question=f"What is the capital of {country}?", answer=town) for country, town in known.items()
    ]
    async with both as stretto:
        found = await calibrate_async(questions, stretto, goal=0.75, options=SHORT)
    assert [pair.goodness[0].right[0] for pair in found.answered] == [True, True, False, False, False]
    sure = [pair.smaller[0].score for pair in found.answered]
    assert min(sure[:2]) > max(sure[2:])
    assert found.learned.questions == 5


async def test_samples_of_a_server_are_voted_on_and_what_is_not_needed_is_cancelled(both, llamacpp):
    async with both as stretto:
        answer = await stretto.ask("Is a whale a fish? Answer yes or no.", strategy="consensus", seed=3, max_tokens=300)
    assert answer.text.strip()
    assert answer.agreement.finished >= 1
    while llamacpp.busy_slots():
        pass  # bounded by the test's own time limit


async def test_the_server_puts_together_what_both_propose(both, llamacpp):
    async with both as stretto:
        answer = await stretto.ask(CAPITAL, strategy="collaborate", strategy_options={"quorum": 2}, **SHORT)
    assert {branch.model for branch in answer.branches} == {"llamacpp:smollm2", "local:pocket"}
    assert answer.text.strip()
    while llamacpp.busy_slots():
        pass  # bounded by the test's own time limit


async def test_where_nothing_listens_the_real_server_goes_on(llamacpp):
    fallback = LlamaCpp("smollm2", base_url=llamacpp.base_url)
    async with AsyncStretto("openai:gone", base_url="http://127.0.0.1:9/v1", api_key="x", fallback=fallback) as stretto:
        answer = await stretto.ask(CAPITAL, strategy="direct", **SHORT)
    await fallback.aclose()
    assert answer.text.strip()
    assert answer.branches[-1].model == "llamacpp:smollm2"
    assert (answer.warnings[0].code, answer.warnings[0].part) == ("fallback", "direct")
