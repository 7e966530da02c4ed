"""`ChatStretto` takes a backend of Stretto as well as a chat model of LangChain."""

import pytest
from langchain_core.load import dumpd

from stretto import Stretto
from stretto.integrations.langchain import ChatStretto, StrettoRunnable
from stretto.local import LocalBackend
from stretto.testing import ScriptedBackend

pytestmark = pytest.mark.anyio


async def test_a_scripted_backend_answers_in_threads_and_loops_and_stays_open():
    backend = ScriptedBackend({"": "Oil the chain."})
    chat = ChatStretto(backend=backend, strategy="direct")
    assert chat.invoke("Why?").content == "Oil the chain."
    assert (await chat.ainvoke("Why?")).content == "Oil the chain."
    assert "".join([chunk.text async for chunk in chat.astream("Why?")]) == "Oil the chain."
    assert [answer.content for answer in chat.batch(["a", "b"])] == ["Oil the chain."] * 2
    assert StrettoRunnable(backend=backend).invoke("Why?").text == "Oil the chain."
    assert (chat.called, chat._identifying_params["backend"]) == (backend.name, backend.name)
    assert dumpd(chat)["type"] in ("constructor", "not_implemented")
    del chat
    with Stretto(backend) as stretto:
        assert stretto.ask("Why?", strategy="direct").text == "Oil the chain."


async def test_the_backends_of_a_client_answer_as_models_by_role_and_as_the_next_one():
    broken = ScriptedBackend({"": RuntimeError("away")}, name="scripted:broken")
    good = ScriptedBackend({"": "Oil the chain."}, name="scripted:good")
    with Stretto(good) as stretto:
        given = stretto.backends["main"]
        chat = ChatStretto(backend=given, roles={"small": given}, strategy="direct")
        assert chat.invoke("Why?").content == "Oil the chain."
        chat = ChatStretto(backend=given, fallback=[broken], strategy="direct")
        assert (await chat.ainvoke("Why?")).content == "Oil the chain."


@pytest.mark.thorough
def test_a_local_backend_with_options_of_its_own_shares_its_model():
    with Stretto(LocalBackend("local:pocket", draft_history_tokens=0)) as stretto:
        chat = ChatStretto(
            backend=LocalBackend("local:pocket", draft_history_tokens=0), strategy="direct", max_tokens=8
        )
        asked = {"strategy": "direct", "max_tokens": 8, "temperature": 0}
        text = stretto.ask("How do I look after a bicycle?", **asked).text
        assert chat.invoke("How do I look after a bicycle?", temperature=0).content == text
        assert chat.client().backends["main"]._loader.engine is stretto.backends["main"]._loader.engine


def test_what_is_no_backend_is_refused():
    with pytest.raises(ValueError, match="backend"):
        ChatStretto(backend=3)
