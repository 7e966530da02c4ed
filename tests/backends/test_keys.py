"""A key goes into the request's header, and nowhere else."""

import logging
import pickle
import subprocess
import sys

import pytest
from langchain_openai import ChatOpenAI
from patience import patience
from pydantic import SecretStr
from talking import KEY, hear

from stretto.backends.providers.langchain import LangChainBackend
from stretto.backends.registry import open_backend
from stretto.backends.resilience.resilient import Resilience
from stretto.foundation.redaction import redact, redacted_line
from stretto.testing.server import Fault, ScriptedServer
from stretto.values.errors import BackendError

pytestmark = pytest.mark.anyio


def everything_shown(thing, depth=6):
    """The repr of a thing and of all it is made of, through the wrappers."""
    shown = repr(thing) + str(thing)
    if isinstance(thing, SecretStr):  # it shows no one what it holds
        return shown
    if depth and hasattr(thing, "__dict__"):
        shown += repr(vars(thing))
        shown += "".join(everything_shown(value, depth - 1) for value in vars(thing).values() if value is not thing)
    return shown


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "anthropic:claude-haiku-4-5"])
async def test_no_key_in_logs_errors_or_reprs(model, caplog):
    caplog.set_level(logging.DEBUG)
    policy = Resilience(attempts=2, first_wait_s=0.001)
    async with ScriptedServer() as server:
        base_url = server.openai_url if model.startswith("openai") else server.url
        backend = open_backend(model, base_url=base_url, api_key=KEY, resilience=policy)
        assert KEY not in everything_shown(backend)
        server.script(None, *[Fault("status", status=500, message=f"trouble with {KEY}")] * 2, Fault("cut", after=1))
        await hear(backend)
        for _ in range(2):
            with pytest.raises(BackendError) as caught:
                await hear(backend)
            error = caught.value
            assert KEY not in everything_shown(error) + repr(pickle.loads(pickle.dumps(error)))  # noqa: S301 - our own
        assert "attempt 1 failed" in caplog.text
        assert KEY not in caplog.text
        assert KEY not in repr(server.requests)
        await backend.aclose()


def test_a_langchain_model_is_shown_by_its_name_only():
    backend = LangChainBackend(ChatOpenAI(model="gpt-4.1", api_key=KEY))
    assert KEY not in repr(backend)


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abcDEF123456.",
        "Incorrect API key provided: sk-wro*****7890.",
        "Authorization: Bearer eyJhbGciOi.abc.def",
        "gsk_abcdefgh12345678 is wrong",
        "cannot reach https://user:secret@proxy.example/v1",
    ],
)
def test_what_looks_like_a_key_is_taken_out(text):
    cleaned = redact(text)
    assert "[key]" in cleaned
    for part in ("abc", "sk-wro", "7890", "secret", "eyJ"):
        assert part not in cleaned


def test_a_known_key_is_taken_out_whatever_it_looks_like():
    assert redact("the key hunter2 is wrong", "hunter2") == "the key [key] is wrong"


def test_a_placeholder_for_a_key_is_taken_out_of_no_word():
    assert redact("Too many requests with the key any.", "any") == "Too many requests with the key [key]."


def test_ordinary_words_stay():
    text = "risk-averse task-oriented: key-value stores, sk-learn, desk-bound bearer of news"
    assert redact(text) == text


BOUNDED = """
import resource, sys
from stretto.foundation.redaction import redact, redacted_line
limit = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
for piece in ("sk-", "sk-a", "sk-*", "a-", "Bearer ", "bearer a", "://", "://a@", "key_", "-", "*", "a", "api-key-"):
    for tail in ("", "!", "9", "@"):
        text = piece * (100_000 // len(piece)) + tail
        redact(text, "secret")
        redacted_line(text, "secret")
"""


def test_taking_keys_out_takes_time_in_proportion_to_the_text():
    """A tenth of a megabyte of each; to look at the rest of the text from every place would take minutes."""
    limit = str(round(patience(20)))
    done = subprocess.run([sys.executable, "-c", BOUNDED, limit], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or "out of processor time"


def test_a_key_is_taken_out_also_where_the_words_are_cut():
    for length in range(480, 520):
        text = redacted_line("x" * length + " sk-proj-abcDEF1234567890 " + "y" * 9000)
        assert "abc" not in text
        assert len(text) <= 500
        assert "hunt" not in redacted_line("x" * length + " hunter2 " + "y" * 9000, "hunter2")
