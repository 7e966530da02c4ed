"""A chat model of LangChain that writes its answers in parallel; the embedded model, no key, no network."""

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from stretto.integrations.langchain import ChatStretto, RouterRunnable

QUESTION = "How do I look after a bicycle?"


class Branches(BaseCallbackHandler):
    """Shows what a tracer gets: the branches of an answer are runs below its own."""

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Name the branch that begins."""
        print("  begins:", kwargs.get("name"))


chat = ChatStretto(model="local:pocket")
for chunk in chat.stream(QUESTION):
    print(chunk.content, end="", flush=True)
print()

answer = chat.invoke(QUESTION, {"callbacks": [Branches()]})
print(answer.usage_metadata)
print(answer.response_metadata["route"]["reason"])

for question in (QUESTION, "What is 2 + 2?"):
    route = RouterRunnable(model="local:pocket").invoke(question)
    print(f"{question} {route.strategy}: {route.reason}")
