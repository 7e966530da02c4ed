"""What a model's files say about generating is done, or refused by name."""

from copy import deepcopy

import pytest
import torch
from asking import PROMPTS, tokens
from tiny_models import build
from tokenizers import AddedToken
from transformers import Gemma3Config, Gemma3ForConditionalGeneration, GenerationConfig

from stretto.local_engine.choosing.distribution import distribution
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.loading import recommended
from stretto.local_engine.model.loading.load import prepare
from stretto.values.errors import BackendError

TURNS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<turn>\n{% endfor %}"


def ready(tokenizer, config_end=None, **said):
    model = build("llama")
    model.generation_config = GenerationConfig(**said)
    model.config.eos_token_id = config_end
    return prepare("local:tiny", model, tokenizer)


SETTINGS = [
    {"repetition_penalty": 1.5},
    {"no_repeat_ngram_size": 1},
    {"suppress_tokens": [-1, *range(5, 300), 400]},  # transformers passes over ids that the model does not have
    {"begin_suppress_tokens": list(range(5, 390))},
    {"repetition_penalty": 0.7, "no_repeat_ngram_size": 2, "eos_token_id": 7},
]


@pytest.mark.parametrize("said", SETTINGS, ids=str)
def test_an_answer_is_what_transformers_generates_by_the_models_own_settings(said, tokenizer, start):
    model = build("llama").eval()
    model.generation_config = GenerationConfig(**said, pad_token_id=0)
    ids = torch.tensor([PROMPTS[0]])
    with torch.inference_mode():
        expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=30)[0, ids.shape[1] :]
    own = prepare("local:tiny", model, tokenizer)
    request = Generation(PROMPTS[0], 30, own.ends, decoding="suffix", **own.penalties)
    assert tokens(start(own).submit(request)) == expected.tolist()


REFUSED = {
    "bad_words_ids": [[5]],
    "encoder_no_repeat_ngram_size": 2,
    "encoder_repetition_penalty": 1.2,
    "epsilon_cutoff": 0.1,
    "eta_cutoff": 0.1,
    "exponential_decay_length_penalty": (5, 1.1),
    "forced_bos_token_id": 5,
    "forced_eos_token_id": 5,
    "guidance_scale": 1.5,
    "max_time": 2.0,
    "min_length": 3,
    "min_new_tokens": 3,
    "num_beams": 2,
    "penalty_alpha": 0.6,
    "sequence_bias": [[[5], 1.0]],
    "stop_strings": ["a"],
    "top_h": 0.5,
    "typical_p": 0.5,
}


@pytest.mark.parametrize(("field", "value"), REFUSED.items())
def test_a_setting_that_is_not_done_is_refused_by_name(field, value, tokenizer):
    with pytest.raises(BackendError, match=rf"generation_config.json of local:tiny sets {field}="):
        ready(tokenizer, **{field: value})


def test_settings_that_change_no_answer_are_passed_over(tokenizer):
    harmless = {
        "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "typical_p": 1.0, "num_beams": 1, "min_length": 0,
        "encoder_repetition_penalty": 1.0, "epsilon_cutoff": 0.0, "use_cache": False, "max_length": 20,
        "length_penalty": 2.0, "remove_invalid_values": True, "renormalize_logits": True,
    }  # fmt: skip
    assert ready(tokenizer, **harmless).penalties == {}


SAMPLING = [
    {},
    {"top_k": 0},
    {"top_k": 7, "temperature": 0.6},
    {"top_p": 0.6, "temperature": 1.7},
    {"top_k": 0, "top_p": 0.9},
    {"top_k": 0, "min_p": 0.1},
    {"top_k": 30, "top_p": 0.8, "min_p": 0.02, "temperature": 1.3},
    {"top_p": 1.5},  # transformers passes over it
]


@pytest.mark.parametrize("said", SAMPLING, ids=str)
def test_a_model_that_samples_is_sampled_from_the_distribution_of_transformers(said, tokenizer):
    model = build("llama").eval()
    model.generation_config = GenerationConfig(do_sample=True, **said, eos_token_id=2, pad_token_id=0)
    ids = torch.tensor([PROMPTS[0]])
    asked = {"max_new_tokens": 1, "output_scores": True, "output_logits": True, "return_dict_in_generate": True}
    with torch.inference_mode():
        given = model.generate(ids, attention_mask=torch.ones_like(ids), **asked)
    expected = given.scores[0].softmax(-1)
    own = Generation(PROMPTS[0], 1, **prepare("local:tiny", model, tokenizer).sampling)
    settings = (own.temperature, own.top_p, own.top_k, own.min_p)
    found = distribution(given.logits[0], *(torch.tensor([each], dtype=torch.float32) for each in settings))
    assert (found > 0).equal(expected > 0)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)


def test_a_model_that_does_not_sample_keeps_its_limits_for_requests_that_do(tokenizer):
    assert ready(tokenizer).sampling == {}
    assert ready(tokenizer, temperature=0.7, top_p=0.8, top_k=9).sampling == {"top_p": 0.8, "top_k": 9}


OUT_OF_RANGE = [
    {"do_sample": True, "temperature": -1.0},
    {"do_sample": True, "top_k": 5.5},
    {"top_p": -0.5},
    {"repetition_penalty": 0.0},
    {"repetition_penalty": "high"},
    {"eos_token_id": "23"},
    {"eos_token_id": [7, 1.5]},
    {"suppress_tokens": ["x"]},
]


@pytest.mark.parametrize("said", OUT_OF_RANGE, ids=str)
def test_a_setting_with_a_value_that_cannot_be_used_is_refused_at_load_and_named(said, tokenizer):
    *_, field = said
    with pytest.raises(BackendError, match=rf"local:tiny cannot be used: .*{field}="):
        ready(tokenizer, **said)


def test_the_end_tokens_of_the_generation_config_go_before_those_of_the_config_and_the_tokenizer(tokenizer):
    own = tokenizer.eos_token_id
    assert own == 2
    assert ready(tokenizer, 9, eos_token_id=7).end_ids == {7}
    assert ready(tokenizer, 9, eos_token_id=[7, 8]).end_ids == {7, 8}
    assert ready(tokenizer, 9).end_ids == {9}
    assert ready(tokenizer).end_ids == {own}


def test_the_token_that_the_chat_template_ends_a_turn_with_ends_an_answer_too(tokenizer):
    chat = deepcopy(tokenizer)
    chat.add_special_tokens({"additional_special_tokens": [AddedToken("<turn>", special=True)]})
    turn = chat.convert_tokens_to_ids("<turn>")
    chat.chat_template = TURNS
    assert ready(chat, eos_token_id=7).ends == {7, turn}
    chat.chat_template = TURNS.replace("<turn>", "")
    assert ready(chat, eos_token_id=7).ends == {7}
    chat.chat_template = "{{ raise_exception('only poems') }}"
    assert ready(chat, eos_token_id=7).ends == {7}


def test_a_config_that_has_no_end_token_at_its_top_is_read_all_the_same(tokenizer):
    text = build("gemma2").config.to_dict()
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    vision |= {"image_size": 28, "patch_size": 14}
    config = Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    assert not hasattr(config, "eos_token_id")
    model = Gemma3ForConditionalGeneration(config)
    model.generation_config = GenerationConfig()
    assert recommended.end_ids("local:tiny", model, tokenizer) == {text["eos_token_id"]}
