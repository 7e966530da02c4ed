"""Scripted servers that answer as vLLM, SGLang, llama.cpp's server, Ollama and LM Studio do.

Their own paths, the fields of their answers and the words of their refusals are those of their sources, and for LM
Studio of its documentation. The programs themselves need weights and mostly a GPU, so they do not run in tests.
"""

from stretto.testing.server import Page, ScriptedServer

MODEL = "Qwen/Qwen3-8B"
SEEN = "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig\n# TYPE vllm:cache_config_info gauge\n"
DRAFTS = (
    "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.\n"
    "# TYPE vllm:spec_decode_num_drafts_total counter\n"
    'vllm:spec_decode_num_drafts_total{engine="0",model_name="Qwen/Qwen3-8B"} 0.0\n'
)


def vllm(replies="OK.", *, slots=None, speculation=False, caching=True, old=False, opens=False, **how):
    """``vllm serve``; ``slots``: in development mode, which has ``/server_info``; ``old``: before ``json_schema``.

    ``opens``: the model's template begins a thought.
    """
    card = {"object": "model", "created": 1, "owned_by": "vllm", "permission": []}
    base = card | {"id": MODEL, "root": MODEL, "parent": None, "max_model_len": 40_960}
    adapter = card | {"id": "a-lora", "root": "/adapters/a", "parent": MODEL, "max_model_len": None}
    labels = f'block_size="16",cache_dtype="auto",enable_prefix_caching="{caching}",engine="0",num_gpu_blocks="5080"'
    info = {"vllm_config": {"scheduler_config": {"max_num_seqs": slots}}, "vllm_env": {}, "system_env": {}}
    tokens = ["<|im_start|>", "user", "Ċ", "?", "<|im_end|>", "Ċ", "<|im_start|>", "assistant", "Ċ"]
    tokens += ["<think>", "Ċ"] if opens else []
    pages = {
        "/tokenize": {"count": len(tokens), "tokens": [*range(len(tokens))], "token_strs": tokens},
        "/v1/models": {"object": "list", "data": [base, adapter]},
        "/version": {"version": "0.14.0"},
        "/metrics": f"{SEEN}vllm:cache_config_info{{{labels}}} 1.0\n{DRAFTS if speculation else ''}",
        "/server_info": info if slots else Page({"detail": "Not Found"}, 404),
    }
    return ScriptedServer(replies, pages=pages, rejects=_no_schema_yet if old else (), **how)


def _no_schema_yet(received):
    wanted = received.body.get("response_format")
    if wanted is None or wanted["type"] in ("text", "json_object"):
        return None
    errors = [
        {
            "type": "literal_error",
            "loc": ("body", "response_format", "type"),
            "msg": "Input should be 'text' or 'json_object'",
            "input": wanted["type"],
            "ctx": {"expected": "'text' or 'json_object'"},
        }
    ]
    return 400, {"object": "error", "message": str(errors), "type": "BadRequestError", "param": None, "code": 400}


def sglang(replies="OK.", *, speculation=None, caching=True, newer=False, parser=None, **how):
    """``python -m sglang.launch_server``; ``newer``: the path of its information has another name.

    ``parser``: of thoughts.
    """
    card = {"id": MODEL, "object": "model", "created": 1, "owned_by": "sglang", "root": MODEL, "max_model_len": 40_960}
    info = {
        "model_path": MODEL,
        "api_key": "sk-of-the-server-0123456789",
        "dp_size": 2,
        "max_running_requests": None,
        "reasoning_parser": parser,
        "speculative_algorithm": speculation,
        "disable_radix_cache": not caching,
        "max_total_num_tokens": 20_480,
        "internal_states": [
            {"effective_max_running_requests_per_dp": 12},
            {"effective_max_running_requests_per_dp": 12},
        ],
        "version": "0.5.6",
    }
    missing = Page({"detail": "Not Found"}, 404)
    pages = {
        "/v1/models": {"object": "list", "data": [card]},
        "/get_server_info": missing if newer else info,
        "/server_info": info if newer else missing,
        "/get_model_info": {"model_path": MODEL, "is_generation": True},
    }
    return ScriptedServer(replies, pages=pages, **how)


def llamacpp(replies="OK.", *, slots=4, window=8_192, speculation=False, listed=True, opens=False, **how):
    """``llama-server``; not ``listed``: its model is still being loaded, so only the header says what it is.

    ``opens``: the model's template begins a thought.
    """
    card = {"id": "model.gguf", "object": "model", "created": 1, "owned_by": "llamacpp"}
    card["meta"] = {"n_ctx_train": 131_072, "n_vocab": 128_256, "n_params": 8_030_261_248}
    props = {
        "default_generation_settings": {"n_ctx": window, "speculative": speculation, "params": {}},
        "total_slots": slots,
        "model_path": "model.gguf",
        "model_ftype": "Q4_K - Medium",
        "modalities": {"vision": False, "video": False, "audio": True},
        "chat_template": "{{ messages }}",
        "build_info": "b7000-abcdef0",
    }
    loading = Page({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503)
    pages = {"/v1/models": {"object": "list", "data": [card]} if listed else loading, "/props": props}
    pages["/apply-template"] = {"prompt": "<|user|>?<|assistant|>" + ("<think>\n" if opens else "")}

    def refuse(received):
        if received.body.get("n", 1) == 1:
            return None
        said = "Only one completion choice is allowed"
        return 400, {"error": {"code": 400, "message": said, "type": "invalid_request_error"}}

    return ScriptedServer(replies, pages=pages, rejects=refuse, headers={"Server": "llama.cpp"}, **how)


def ollama(replies="OK.", *, owner="library", loaded=None, num_ctx=None, models=("llama3.2:latest",), **how):
    """``ollama serve``; ``loaded``: the window of a model that is loaded; ``num_ctx``: of its Modelfile."""
    cards = [{"id": name, "object": "model", "created": 1, "owned_by": owner} for name in models]
    running = [{"name": models[0], "model": models[0], "size": 1, "context_length": loaded}] if loaded else []
    parameters = 'stop                           "<|eot_id|>"'
    if num_ctx:
        parameters += f"\nnum_ctx                        {num_ctx}"
    shown = {
        "parameters": parameters,
        "details": {"format": "gguf", "family": "llama"},
        "model_info": {"general.architecture": "llama", "llama.context_length": 131_072},
        "capabilities": ["completion", "tools"],
    }
    pages = {
        "/v1/models": {"object": "list", "data": cards},
        "/api/version": {"version": "0.13.1"},
        "/api/ps": {"models": running},
        "/api/show": shown,
        "/": "Ollama is running",
    }
    return ScriptedServer(replies, pages=pages, **how)


def lmstudio(replies="OK.", *, owner="organization_owner", loaded=8_192, **how):
    """The server of LM Studio, which answers unknown paths with status 200 and an error."""
    names = ("qwen/qwen3-8b", "text-embedding-nomic-embed-text-v1.5")
    cards = [{"id": name, "object": "model", "owned_by": owner} for name in names]
    model = {"id": names[0], "object": "model", "type": "llm", "arch": "qwen3", "compatibility_type": "gguf"}
    model |= {"quantization": "Q4_K_M", "max_context_length": 40_960, "capabilities": ["tool_use"]}
    model |= {"state": "loaded", "loaded_context_length": loaded} if loaded else {"state": "not-loaded"}
    words = {"id": names[1], "object": "model", "type": "embeddings", "compatibility_type": "gguf"}
    words |= {"state": "not-loaded", "max_context_length": 2_048}
    pages = {
        "/v1/models": {"object": "list", "data": cards},
        "/api/v0/models": {"object": "list", "data": [model, words]},
    }
    for path in ("/api/version", "/metrics", "/props", "/get_server_info"):
        pages[path] = {"error": f"Unexpected endpoint or method. (GET {path})"}

    def refuse(received):
        wanted = received.body.get("response_format", {"type": "text"})
        if wanted["type"] in ("text", "json_schema"):
            return None
        return 400, {"error": "'response_format.type' must be 'json_schema' or 'text'"}

    return ScriptedServer(replies, pages=pages, rejects=refuse, **how)
