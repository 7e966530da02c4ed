"""DiffusionGemma by transformers: a tiny random checkpoint against plain calls of `generate`."""

import pytest
import torch
from asking import outcome, submit_together, tokens
from tiny_models import VOCABULARY

from stretto import Stretto
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import InvalidRequestError, SettingsError

transformers = pytest.importorskip("transformers")
if not hasattr(transformers, "DiffusionGemmaForBlockDiffusion"):
    pytest.skip("this transformers is older than DiffusionGemma", allow_module_level=True)

pytestmark = [
    pytest.mark.thorough,  # transformers' generate imports torch's compiler
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning"),  # of torch itself, there
]
CANVAS = 8
PROMPT = tuple((11 * place + 5) % 380 + 10 for place in range(13))


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    text = {
        "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "global_head_dim": 16,
        "num_experts": 2, "top_k_experts": 1, "moe_intermediate_size": 16, "max_position_embeddings": 256,
        "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"], "initializer_range": 0.3,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    }  # fmt: skip
    vision = {
        "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 8,
    }  # fmt: skip
    config = transformers.DiffusionGemmaConfig(
        text_config=text, vision_config={"model_type": "gemma4_vision", **vision}, canvas_length=CANVAS
    )
    torch.manual_seed(5)
    model = transformers.DiffusionGemmaForBlockDiffusion(config)
    model.generation_config.max_denoising_steps = 4
    model.generation_config.eos_token_id = 2
    path = tmp_path_factory.mktemp("diffusion-gemma")
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder):
    return load_model(find_source(str(folder)), dtype="float32")


def by_generate(folder, canvases, seed):
    """Canvas after canvas, each behind the whole text before it."""
    model = transformers.DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32)
    text = list(PROMPT)
    for number in range(canvases):
        torch.manual_seed(seed + number)
        made = model.generate(torch.tensor([text]), max_new_tokens=CANVAS)
        text = made.sequences[0].tolist()
    return text[len(PROMPT) :]


def test_an_answer_is_that_of_transformers_own_generate(folder, model, start):
    expected = by_generate(folder, 3, seed=7)

    handle = start(model).submit(Generation(PROMPT, 20, seed=7, decoding="entropy_bound"))
    events = list(handle)

    assert handle.sequence.generated == expected[:20]
    assert len(events) > 2  # text comes canvas by canvas
    assert events[-1].figures.steps <= 3 * 5


def test_requests_take_turns_and_each_writes_what_it_writes_alone(model, start):
    engine = start(model)
    asked = [Generation(PROMPT[: 9 + number], 16, seed=number, decoding="entropy_bound") for number in range(3)]
    alone = [tokens(engine.submit(request)) for request in asked]

    assert [tokens(handle) for handle in submit_together(engine, asked)] == alone


def test_a_cancelled_request_leaves_between_two_forwards(model, start, monkeypatch):
    engine = start(model)
    forwards = []
    inner = model.forward._model.forward
    monkeypatch.setattr(
        model.forward._model,
        "forward",
        lambda *args, **kwargs: (forwards.append(handle.cancel()), inner(*args, **kwargs))[1],
    )
    handle = engine.submit(Generation(PROMPT, 40, decoding="entropy_bound"))

    assert outcome(handle)[1].reason == "cancelled"
    assert len(forwards) == 1


def test_what_transformers_does_not_take_is_refused(folder, model, start):
    with pytest.raises(InvalidRequestError, match="Penalties and biases"):
        start(model).submit(Generation(PROMPT, 4, repetition_penalty=1.2, decoding="entropy_bound"))
    with pytest.raises(SettingsError, match="block and cache cannot be used"):
        start(model, method_options={"entropy_bound": {"block": 4}}).submit(
            Generation(PROMPT, 4, decoding="entropy_bound")
        )


def test_a_client_asks_it_like_any_other_model(folder):
    with Stretto(f"local:{folder}") as stretto:
        answer = stretto.ask("Oil the chain.", strategy="direct", max_tokens=12, temperature=0.5, seed=3)

    assert answer.route.decoding == "entropy_bound"
    assert answer.decoding.lossy
    assert answer.decoding.tokens <= 12
    assert any("temperature" in warning for warning in answer.warnings)
