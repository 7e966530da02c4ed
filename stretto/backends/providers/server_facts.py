"""Converts what servers with OpenAI's API report about themselves, each in its own format, into one value.

The formats are from the sources of vLLM, SGLang, llama.cpp's server and Ollama, and from LM Studio's documentation. A
server can send anything, so whatever does not match counts as not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from stretto.backends.base import Capabilities
from stretto.prompts.catalogue import family_of, parameters_in

Engine = Literal["vllm", "sglang", "llamacpp", "ollama", "lmstudio"]

_OWNERS: Mapping[str, Engine] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llamacpp": "llamacpp",
    "library": "ollama",  # on models that Ollama itself publishes
    "organization_owner": "lmstudio",
}
_WINDOWS = ("max_model_len", "context_length", "context_window", "max_context_length")
_CACHE = re.compile(r"^vllm:cache_config_info\{([^\n]*)\}", re.MULTILINE)
_LABEL = re.compile(r'(?<!\w)(\w++)="([^"\\\n]*)"')
_DRAFTS = re.compile(r"^vllm:spec_decode_\w", re.MULTILINE)
_MODALITIES = {"vision": "image_url", "audio": "input_audio", "video": "video_url"}
_LAST = 8  # tokens at the end of a prompt
_SPACE = "\n Ċ▁Ġ"  # literally, and as tokens encode it
_MOST = 10**9
_MOST_PARAMETERS = 10**14
_MOST_MODELS = 1_000


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server reported about itself and one of its models; ``None`` if it did not.

    Attributes:
        engine: the program; ``None`` if it was not recognised.
        models: the names of its models.
        model: the model to use if none is named; empty if there are several to choose from.
        context_window: the most tokens of prompt and answer together.
        concurrent_calls: calls that run concurrently.
        speculation: whether it drafts tokens and verifies them.
        parameters: the number of the model's parameters.
        prefix_caching: whether it reuses the KV cache of a common prefix.
        refused_media: types of message parts that the model does not accept, by OpenAI's names.
        quantisation: quantisation of the model's weights, "Q4_K_M" for instance.
        bare_thoughts: whether its prompts end within a thought that nothing is known to separate (`BareThoughts`).
    """

    engine: Engine | None = None
    models: tuple[str, ...] = ()
    model: str = ""
    context_window: int | None = None
    concurrent_calls: int | None = None
    speculation: bool | None = None
    prefix_caching: bool | None = None
    refused_media: tuple[str, ...] = ()
    parameters: int | None = None
    quantisation: str | None = None
    bare_thoughts: bool | None = None


def able(known: Capabilities, facts: ServerFacts) -> Capabilities:
    """Return the capabilities of a model, from its name and its server's report."""
    reported = replace(
        known,
        context_window=facts.context_window or known.context_window,
        concurrent_calls=facts.concurrent_calls or known.concurrent_calls,
        calls_reported=bool(facts.concurrent_calls),
        speculation=facts.speculation,
        prefix_caching=facts.prefix_caching,
        refused_media=facts.refused_media,
        prompt_family=family_of(facts.model, facts.parameters) if facts.parameters else known.prompt_family,
    )
    if facts.engine is None:
        return reported
    continuous = facts.engine in ("vllm", "sglang")
    return replace(
        reported,
        json_schema=True,  # each of the five samples only tokens that fit
        schema_in_words=True,  # but none of them shows the schema to the model
        choices=continuous,
        logprobs=known.logprobs or continuous or facts.engine == "llamacpp",
        continues=facts.engine in ("vllm", "llamacpp"),
    )


def engine_of(models: Any, headers: Mapping[str, str]) -> Engine | None:
    """Recognise a server by its list of models, or by its response headers."""
    for each in _entries(models):
        engine = _OWNERS.get(str(each.get("owned_by")))
        if engine is not None:
            return engine
    return "llamacpp" if headers.get("server") == "llama.cpp" else None


def listed(models: Any, model: str) -> ServerFacts:
    """Parse a list of models: OpenAI's format, with the context window under any of its usual names."""
    entries = list(_entries(models))
    names = tuple(name for each in entries if (name := each.get("id")) and isinstance(name, str))
    own = [str(each["id"]) for each in entries if isinstance(each.get("id"), str) and not each.get("parent")]
    only = own[0] if len(own) == 1 else ""  # adapters have a parent: their base model
    entry = next((each for each in entries if each.get("id") == (model or only)), {})
    meta = entry.get("meta")
    windows = [_count(entry.get(name)) for name in _WINDOWS]
    windows.append(_count(meta.get("n_ctx")) if isinstance(meta, Mapping) else None)  # n_ctx_train might not fit here
    about = meta or (entries[0].get("meta") if len(entries) == 1 else None)  # some accept any name for their only model
    size = about.get("n_params") if isinstance(about, Mapping) else None
    return ServerFacts(
        models=names,
        model=only,
        context_window=next(filter(None, windows), None),
        parameters=_count(size, _MOST_PARAMETERS) or (parameters_in(only) if not model else None),
    )


def of_vllm(facts: ServerFacts, metrics: str, info: Any, tokens: Any) -> ServerFacts:
    """Add vLLM's ``/metrics``, ``/server_info``, which only exists in development mode, and ``/tokenize``."""
    cache = dict(_LABEL.findall(found[1])) if (found := _CACHE.search(metrics)) else {}
    config = _at(info, "vllm_config")
    return replace(
        facts,
        engine="vllm",
        concurrent_calls=_count(_at(config, "scheduler_config", "max_num_seqs")),
        speculation=bool(_DRAFTS.search(metrics)) if found else None,
        prefix_caching={"true": True, "false": False}.get(cache.get("enable_prefix_caching", "").lower()),
        bare_thoughts=_ends_within_a_thought(_at(tokens, "token_strs")),
    )


def of_sglang(facts: ServerFacts, info: Any) -> ServerFacts:
    """Add SGLang's ``/get_server_info``: its arguments, and what its schedulers made of them."""
    states = _at(info, "internal_states")
    state = states[0] if isinstance(states, list) and states else {}
    each = _count(_at(state, "effective_max_running_requests_per_dp"))
    replicas = _count(_at(info, "dp_size")) or 1
    off = _at(info, "disable_radix_cache")
    reported = isinstance(info, Mapping) and "speculative_algorithm" in info
    return replace(
        facts,
        engine="sglang",
        concurrent_calls=each * replicas if each else _count(_at(info, "max_running_requests")),
        speculation=bool(_at(info, "speculative_algorithm")) if reported else None,
        prefix_caching=not off if isinstance(off, bool) else None,
        bare_thoughts=False if _at(info, "reasoning_parser") else None,
    )


def of_llamacpp(facts: ServerFacts, props: Any, applied: Any) -> ServerFacts:
    """Add llama.cpp's ``/props`` and ``/apply-template``.

    The window is that of one slot, not the one from training.
    """
    usual = _at(props, "default_generation_settings")
    drafts = _at(usual, "speculative")
    return replace(
        facts,
        engine="llamacpp",
        context_window=_count(_at(usual, "n_ctx")) or facts.context_window,
        concurrent_calls=_count(_at(props, "total_slots")),
        speculation=drafts if isinstance(drafts, bool) else None,
        refused_media=tuple(part for name, part in _MODALITIES.items() if _at(props, "modalities", name) is False),
        quantisation=_form(_at(props, "model_ftype")),
        bare_thoughts=_ends_within_a_thought([_at(applied, "prompt")]),
    )


def _ends_within_a_thought(prompt: Any) -> bool | None:
    """Return whether a prompt, in pieces, ends with the opening tag of a thought; ``None`` if it is not known."""
    if not isinstance(prompt, list) or not prompt or not all(isinstance(each, str) for each in prompt):
        return None
    return "".join(prompt[-_LAST:]).rstrip(_SPACE).endswith("<think>")


def _form(name: Any) -> str | None:
    """Return the name of a weight format; ``None`` if it is not such a name."""
    return name if isinstance(name, str) and re.fullmatch(r"[\w. -]{1,40}", name) else None


def of_ollama(facts: ServerFacts, running: Any, shown: Any, model: str) -> ServerFacts:
    """Add Ollama's ``/api/ps`` and ``/api/show``: the window that the model is, or will be, loaded with.

    It reports neither how many calls it runs concurrently (``OLLAMA_NUM_PARALLEL``) nor its default window.
    """
    names = {model, f"{model}:latest"}
    loaded = next((each for each in _entries(running, "models") if each.get("model", each.get("name")) in names), {})
    set_to = re.search(r"^num_ctx\s+(\d{1,9})\s*$", str(_at(shown, "parameters") or ""), re.MULTILINE)
    window = _count(loaded.get("context_length")) or (_count(int(set_to[1])) if set_to else None)
    abilities = _at(shown, "capabilities")
    thinks = isinstance(abilities, list) and "thinking" in abilities  # it separates thoughts itself
    blind = isinstance(abilities, list) and "completion" in abilities and "vision" not in abilities
    return replace(
        facts,
        engine="ollama",
        context_window=window,
        refused_media=(_MODALITIES["vision"],) if blind else (),
        parameters=parameters_in(str(_at(shown, "details", "parameter_size") or "")),
        quantisation=_form(_at(shown, "details", "quantization_level")),
        bare_thoughts=None if "<think>" in str(_at(shown, "template")) and not thinks else False,
    )


def of_lmstudio(facts: ServerFacts, models: Any, model: str) -> ServerFacts:
    """Add LM Studio's ``/api/v0/models``: the window of a loaded model; the others are loaded on request."""
    entries = [each for each in _entries(models) if each.get("type") in ("llm", "vlm")]  # others embed
    writing = [each for each in entries if isinstance(each.get("id"), str)]
    choice = [each for each in writing if each.get("state") == "loaded"] or writing
    only = str(choice[0]["id"]) if len(choice) == 1 else ""
    entry = next((each for each in entries if each.get("id") == (model or only)), {})
    return replace(facts, engine="lmstudio", model=only, context_window=_count(entry.get("loaded_context_length")))


def _entries(body: Any, name: str = "data") -> Iterator[Mapping[str, Any]]:
    found = _at(body, name)
    for each in found[:_MOST_MODELS] if isinstance(found, list) else ():
        if isinstance(each, Mapping):
            yield each


def _at(thing: Any, *names: str) -> Any:
    for name in names:
        thing = thing.get(name) if isinstance(thing, Mapping) else None
    return thing


def _count(value: Any, most: int = _MOST) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < most else None
