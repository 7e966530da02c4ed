"""Servers that speak OpenAI's API, by their names and usual addresses: ``ollama:NAME``, ``vllm:NAME``, ..."""

from __future__ import annotations

from stretto.backends.providers.openai import OpenAIBackend

__all__ = ["SERVERS", "VLLM", "LMStudio", "LlamaCpp", "Ollama", "SGLang"]


class _OnThisMachine(OpenAIBackend):
    """A server on this machine, at its usual port; it needs no key. ``base_url`` names another address."""

    key_variable = "STRETTO_API_KEY"

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str | None = None) -> None:
        super().__init__(model, base_url=base_url or self.default_url, api_key=api_key)


class Ollama(_OnThisMachine):
    """``ollama serve``."""

    provider = "ollama"
    default_url = "http://localhost:11434/v1"


class VLLM(_OnThisMachine):
    """``vllm serve``."""

    provider = "vllm"
    default_url = "http://localhost:8000/v1"


class SGLang(_OnThisMachine):
    """``python -m sglang.launch_server``."""

    provider = "sglang"
    default_url = "http://localhost:30000/v1"


class LlamaCpp(_OnThisMachine):
    """``llama-server`` of llama.cpp."""

    provider = "llamacpp"
    default_url = "http://localhost:8080/v1"


class LMStudio(_OnThisMachine):
    """The server of LM Studio."""

    provider = "lmstudio"
    default_url = "http://localhost:1234/v1"


SERVERS = {server.provider: server for server in (Ollama, VLLM, SGLang, LlamaCpp, LMStudio)}
