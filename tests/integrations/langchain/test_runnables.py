"""Runnables: a request in and an answer out, a prompt in and a route out, in chains."""

import re

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumps
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableBranch, RunnableLambda, RunnablePassthrough
from serving import served
from test_chat_model import KEY, QUESTION, SECTIONS, Runs, in_sections, shown

from stretto import Answer, BackendError, InvalidRequestError, Message, Request, Route
from stretto.integrations.langchain import RouterRunnable, StrettoRunnable
from stretto.testing.server import Fault, HttpReply

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("connections_closed")]


def runnable(server, **options):
    return StrettoRunnable(model="openai:gpt-4.1", base_url=server.openai_url, api_key=KEY, options=options)


class Names(BaseRetriever):
    """Finds one document for every question."""

    def _get_relevant_documents(self, query, *, run_manager):  # noqa: ARG002 - it finds the same for all
        return [Document("The saddle is called Bob.", metadata={"title": "Names"})]


@pytest.mark.parametrize(
    "given",
    [
        "What is 2 + 2?",
        [SystemMessage("Be kind."), HumanMessage("What is 2 + 2?")],
        {"question": "What is 2 + 2?", "temperature": 0.5},
        {"messages": [{"role": "user", "content": "What is 2 + 2?"}]},
        {"role": "user", "content": "What is 2 + 2?"},
        Message(role="user", content="What is 2 + 2?"),
        Request.of("What is 2 + 2?"),
        ChatPromptTemplate.from_messages([("user", "What is {sum}?")]).invoke({"sum": "2 + 2"}),
    ],
)
async def test_what_a_request_can_be(given, obliging):
    for answer in (runnable(obliging).invoke(given), await runnable(obliging).ainvoke(given)):
        assert isinstance(answer, Answer)
        assert answer.text == "Here is what you asked for."
        assert "What is 2 + 2?" in obliging.requests[-1].prompt


def test_an_input_without_a_prompt_is_named(obliging):
    with pytest.raises(InvalidRequestError, match=r"no prompt \(its keys: 'text'\)\. Name it one of: prompt, question"):
        runnable(obliging).invoke({"text": "Why?"})


@pytest.mark.parametrize("name", ["documents", "context"])
async def test_the_documents_of_a_retriever_are_read(obliging, name):
    chain = {name: Names(), "question": RunnablePassthrough()} | runnable(obliging, strategy="direct")
    await chain.ainvoke("What is the saddle called?")
    assert re.search(r"Names.*The saddle is called Bob\.", obliging.requests[-1].prompt, re.DOTALL)


async def test_the_branches_of_an_answer_are_child_runs():
    with served(in_sections) as server:
        traced = Runs()
        answers = await runnable(server, strategy="skeleton").abatch([QUESTION], {"callbacks": [traced]})
        answers += runnable(server, strategy="skeleton").batch([QUESTION], {"callbacks": [traced]})
        answers += list(runnable(server, strategy="skeleton").stream(QUESTION, {"callbacks": [traced]}))
        events = [event async for event in runnable(server, strategy="skeleton").astream_events(QUESTION, version="v2")]
    assert {answer.strategy for answer in answers} == {"skeleton"}
    for root in traced.roots:
        assert list(shown(root)) == [(0, "chain", "StrettoRunnable"), *SECTIONS]
    begun = [event["name"] for event in events if event["event"] == "on_chain_start"]
    assert begun == ["StrettoRunnable", *(name for _, _, name in SECTIONS)]


async def test_fallbacks_retries_and_names_behave():
    with served(HttpReply("", fault=Fault("status", status=400))) as ill, served("Yes.") as well:
        both = runnable(ill).with_fallbacks([runnable(well).with_config(run_name="second")])
        assert (await both.ainvoke("What is 2 + 2?")).text == "Yes."
        ill.requests.clear()
        with pytest.raises(BackendError):
            runnable(ill).with_retry(stop_after_attempt=2, wait_exponential_jitter=False).invoke("What is 2 + 2?")
        assert len(ill.requests) == 2


async def test_a_route_is_decided_without_a_call(obliging):
    before = len(obliging.requests)
    router = RouterRunnable(
        model="openai:gpt-4.1", base_url=obliging.openai_url, api_key=KEY, options={"preference": "fastest"}
    )
    routes = [router.invoke(QUESTION), *(await router.abatch(["What is 2 + 2?"]))]
    assert all(isinstance(route, Route) for route in routes)
    assert [route.strategy for route in routes] == ["skeleton", "direct"]
    assert len(obliging.requests) == before


async def test_a_route_sends_requests_to_chains():
    router = RouterRunnable(model="openai:gpt-4.1", api_key=KEY, options={"preference": "fastest"})
    chosen = RunnableBranch(
        (lambda routed: routed["route"].strategy == "skeleton", RunnableLambda(lambda routed: "in parts")),
        RunnableLambda(lambda routed: "at once"),
    )
    chain = RunnablePassthrough.assign(route=router) | chosen
    assert await chain.abatch([{"question": QUESTION}, {"question": "What is 2 + 2?"}]) == ["in parts", "at once"]


def test_a_runnable_is_written_as_json_without_its_key():
    written = dumps(StrettoRunnable(model="openai:gpt-4.1", api_key=KEY, options={"n": 2}))
    assert '"StrettoRunnable"' in written
    assert KEY not in written
