"""LangChain's map-reduce chain over the same server, for `benchmarks/document.py`; its package is not a dependency.

It is the chain as its documentation makes it, bounded to the calls at a time that Stretto makes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from document_model import FACT, QUESTION

HOW = "python -m venv --system-site-packages VENV && VENV/bin/pip install langchain-classic==1.0.8 langchain-openai"


async def read(url: str, text: str, *, slots: int, chunk_characters: int, most_tokens: int) -> dict[str, float] | None:
    """Seconds, calls, tokens and needles of one answer; ``None`` where LangChain's chains are not installed."""
    try:
        from langchain_classic.chains.summarize import load_summarize_chain  # type: ignore[import-not-found]  # noqa: PLC0415
        from langchain_core.documents import Document  # noqa: PLC0415
        from langchain_core.prompts import PromptTemplate  # noqa: PLC0415
        from langchain_openai import ChatOpenAI  # noqa: PLC0415
        from langchain_text_splitters import (  # type: ignore[import-not-found]  # noqa: PLC0415
            RecursiveCharacterTextSplitter,
        )
    except ImportError:
        return None
    room = asyncio.Semaphore(slots)
    spent = {"calls": 0, "tokens": 0, "prompt_tokens": 0}

    class Model(ChatOpenAI):
        """Counts tokens without fetching a tokenizer, and makes so many calls at a time."""

        def get_num_tokens(self, text: str) -> int:
            return len(text) // 4

        async def _agenerate(self, *arguments: Any, **options: Any) -> Any:
            async with room:
                result = await super()._agenerate(*arguments, **options)
            spent["calls"] += 1
            usage = (result.llm_output or {}).get("token_usage") or {}
            spent["tokens"] += usage.get("total_tokens", 0)
            spent["prompt_tokens"] += usage.get("prompt_tokens", 0)
            return result

    asked = f"{{text}}\n\nWrite down what helps to answer this question: {QUESTION}"
    chain = load_summarize_chain(
        Model(model="scripted", base_url=url, api_key="none", max_retries=0),  # type: ignore[arg-type]
        chain_type="map_reduce",
        map_prompt=PromptTemplate.from_template(asked),
        combine_prompt=PromptTemplate.from_template(asked),
        token_max=most_tokens,
    )
    began = time.perf_counter()
    parts = RecursiveCharacterTextSplitter(chunk_size=chunk_characters, chunk_overlap=0).split_text(text)
    result = await chain.ainvoke({"input_documents": [Document(page_content=part) for part in parts]})
    return {
        "seconds": time.perf_counter() - began,
        **spent,
        "needles": len({fact[1] for fact in FACT.finditer(result["output_text"])}),
    }
