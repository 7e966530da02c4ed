"""The published formats of models that write blocks at once: tiny checkpoints, loaded without their code."""

import json
import re

import pytest
import torch
from asking import tokens
from diffusion_loops import PlainLoop, threshold
from safetensors.torch import load_file, save_file
from tiny_models import VOCABULARY, build
from transformers import AutoModelForCausalLM

from stretto import Stretto
from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.block_diffusion.formats import recognised
from stretto.values.errors import ModelNotFoundError
from stretto.values.request import GenerationOptions, Message

pytestmark = pytest.mark.thorough

MASK = 3
PROMPT = tuple((11 * place + 5) % 380 + 10 for place in range(21))
KEEP = threshold(0.2)


def remote(architecture, model_type):
    """What the files of a model with code of its own have: that code does not exist here, and is never looked for."""
    names = {"AutoConfig": "configuration.Config", "AutoModelForCausalLM": f"modeling.{architecture}"}
    return {"architectures": [architecture], "auto_map": names, "model_type": model_type, "mask_token_id": MASK}


FORMATS = {
    "sdar": (
        "qwen3",
        remote("SDARForCausalLM", "sdar") | {"block_size": 4, "attn_implementation": "flex_attention"},
        lambda model: PlainLoop(model, MASK, KEEP).in_blocks(PROMPT, 14, 4),
    ),
    "sdar with experts": (
        "qwen3 moe",
        remote("SDARMoeForCausalLM", "sdar_moe") | {"block_size": 4},
        lambda model: PlainLoop(model, MASK, KEEP).in_blocks(PROMPT, 14, 4),
    ),
    "fast-dllm": (
        "qwen2",
        remote("Fast_dLLM_QwenForCausalLM", "Fast_dLLM_Qwen") | {"bd_size": 16},
        lambda model: PlainLoop(model, MASK, KEEP, shifted=True).in_blocks(PROMPT, 14, 16, part=8),
    ),
    "dream": (
        "qwen2",
        remote("DreamModel", "Dream"),
        lambda model: PlainLoop(model, MASK, KEEP, shifted=True).seeing_everything(PROMPT, 14, 32),
    ),
    "own": (
        "llama",
        {"diffusion": "block-causal", "block_length": 8, "mask_token_id": MASK},
        lambda model: PlainLoop(model, MASK, KEEP).in_blocks(PROMPT, 14, 8),
    ),
    "own, shifted": (
        "llama",
        {"diffusion": "block-causal", "block_length": 8, "mask_token_id": MASK, "shifted_logits": True},
        lambda model: PlainLoop(model, MASK, KEEP, shifted=True, joined=True).in_blocks(PROMPT, 14, 8),
    ),
}


@pytest.fixture
def folder(tokenizer, tmp_path):
    def save(architecture, changes):
        """The folder, and the model as transformers reads it before the changes."""
        build(architecture).save_pretrained(tmp_path)
        tokenizer.save_pretrained(tmp_path)
        known = AutoModelForCausalLM.from_pretrained(tmp_path)
        path = tmp_path / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
        return tmp_path, known

    return save


def written(folder, start, **options):
    model = load_model(find_source(str(folder)), dtype="float32", trust_remote_code=False)
    engine = start(model, method_options={"threshold": {"threshold": 0.2}})
    return tokens(engine.submit(Generation(PROMPT, 14, decoding="threshold", **options)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_writes_the_tokens_of_a_plain_loop(folder, start, name):
    architecture, changes, loop = FORMATS[name]

    path, known = folder(architecture, changes)

    assert written(path, start) == loop(known)


def test_a_tokenizer_with_code_of_its_own_is_read_as_that_of_the_base(folder, tokenizer):
    path, _ = folder("qwen2", FORMATS["dream"][1])
    (path / "tokenizer.json").unlink()
    tokenizer.backend_tokenizer.model.save(str(path))  # vocab.json and merges.txt, as Dream has them
    own = {"tokenizer_class": "DreamTokenizer", "auto_map": {"AutoTokenizer": ["tokenization.DreamTokenizer", None]}}
    (path / "tokenizer_config.json").write_text(json.dumps(own))

    found = load_model(find_source(str(path))).tokenizer("The bicycle needs oil").input_ids

    assert found == tokenizer("The bicycle needs oil").input_ids


def test_a_llada_is_read_as_the_llama_that_it_is(folder, start):
    path, known = folder("llama", {})
    inverse = [
        (r"^model\.embed_tokens\.", "model.transformer.wte."),
        (r"^model\.norm\.", "model.transformer.ln_f."),
        (r"^lm_head\.", "model.transformer.ff_out."),
        (r"^model\.layers\.", "model.transformer.blocks."),
        (r"\.input_layernorm\.", ".attn_norm."),
        (r"\.post_attention_layernorm\.", ".ff_norm."),
        (r"\.self_attn\.o_proj\.", ".attn_out."),
        (r"\.self_attn\.", "."),
        (r"\.mlp\.gate_proj\.", ".ff_proj."),
        (r"\.mlp\.up_proj\.", ".up_proj."),
        (r"\.mlp\.down_proj\.", ".ff_out."),
    ]
    weights = {}
    for name, weight in load_file(path / "model.safetensors").items():
        for pattern, replacement in inverse:
            name = re.sub(pattern, replacement, name)  # noqa: PLW2901 - one replacement after the other
        weights[name] = weight
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    given = json.loads((path / "config.json").read_text())
    config = remote("LLaDAModelLM", "llada") | {
        "d_model": given["hidden_size"],
        "mlp_hidden_size": given["intermediate_size"],
        "n_layers": given["num_hidden_layers"],
        "n_heads": given["num_attention_heads"],
        "n_kv_heads": given["num_key_value_heads"],
        "vocab_size": VOCABULARY,
        "embedding_size": VOCABULARY,
        "max_sequence_length": given["max_position_embeddings"],
        "rms_norm_eps": given["rms_norm_eps"],
        "rope_theta": 10_000.0,
        "block_type": "llama",
        "weight_tying": False,
    }
    (path / "config.json").write_text(json.dumps(config))
    expected = PlainLoop(known, MASK, KEEP).seeing_everything(PROMPT, 14, 32)

    assert written(path, start) == expected


def test_a_client_writes_with_a_rule_and_says_that_it_is_lossy(folder):
    path, _ = folder("llama", FORMATS["own"][1])
    with Stretto(f"local:{path}") as stretto:
        usual = stretto.ask("Oil the chain.", strategy="direct", max_tokens=12)
        chosen = stretto.ask("Oil the chain.", strategy="direct", max_tokens=12, decoding="entropy_bound")

    assert usual.route.decoding == "threshold"
    assert "writes blocks of tokens at once" in usual.route.decoding_reason
    assert usual.decoding.lossy
    assert usual.decoding.tokens == usual.usage.completion_tokens == 12
    assert chosen.decoding.methods == ("entropy_bound",)


@pytest.mark.anyio
async def test_a_call_that_names_no_rule_takes_the_usual_one(folder):
    backend = LocalBackend(f"local:{folder('llama', FORMATS['own'][1])[0]}")
    request = ModelRequest((Message(role="user", content="Oil the chain."),))
    try:
        async with backend.stream(request, GenerationOptions(max_tokens=8)) as chunks:
            found = [chunk async for chunk in chunks]
    finally:
        await backend.aclose()
    assert found[-1].decoding.methods == ("threshold",)


def test_an_idlm_writes_from_left_to_right(folder, start):
    path, known = folder("qwen3", remote("SDARForCausalLM", "sdar") | {"block_size": 3})
    plain = known.generate(torch.tensor([PROMPT]), max_new_tokens=14, do_sample=False, eos_token_id=None)[0, 21:]
    model = load_model(find_source(str(path)), dtype="float32")

    assert model.diffusion is None
    assert tokens(start(model).submit(Generation(PROMPT, 14))) == plain.tolist()
    assert "auto" in LocalBackend(f"local:{path}").capabilities.decodings


@pytest.mark.parametrize(("sight", "tokens"), [("bidirectional", 256), ("block-causal", None)])
def test_an_answer_that_is_predicted_as_a_whole_has_a_usual_length(sight, tokens):
    found = recognised({"diffusion": sight, "block_length": 8, "mask_token_id": MASK})
    assert found.form.answer == tokens


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"diffusion": "sideways", "block_length": 8}, "diffusion='sideways'"),
        ({"diffusion": {"steps": 8}}, "diffusion={'steps': 8}"),
        ({"diffusion": "block-causal"}, "block_length=None"),
        ({"model_type": "llada", "d_model": 64}, "this LLaDA has no n_heads and no n_layers"),
        ({"model_type": "llada2_moe"}, "models of the type llada2_moe write blocks .* the layers of their experts"),
        ({"diffusion": "block-causal", "block_length": 8, "mask_token_id": VOCABULARY}, "has no mask token"),
        ({"diffusion": "block-causal", "block_length": 8}, "has no mask token"),
    ],
)
def test_what_cannot_be_run_is_refused(folder, changes, told):
    with pytest.raises(ModelNotFoundError, match=told):
        load_model(find_source(str(folder("llama", changes)[0])))
