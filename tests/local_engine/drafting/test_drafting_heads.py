"""Heads in the formats in which they are published: what they foresee, and that no answer changes with them."""

import json

import head_folders
import plain_heads as plain
import pytest
import torch
import transformers
from head_folders import HIDDEN, LAYER_CONFIG, LAYERS, WORDS, dflash, eagle3, medusa, mtp, peagle, write
from reading_heads import CLOSE, FREE, TEXT, follow, given, head_of
from tiny_models import SIZES

from stretto.local_engine.drafting.catalogue import DRAFTERS, DraftEquipment
from stretto.local_engine.drafting.heads.files import find_head
from stretto.local_engine.drafting.heads.load_head import load_head
from stretto.local_engine.drafting.heads.recurrent import answered
from stretto.local_engine.model.forward.rows import LAST
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import SettingsError


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


EAGLES = {
    "plain": {},
    "with a vocabulary of its own": {"words": WORDS},
    "norms of 3.1": {"flags": ("norm_before_residual", "fc_norm", "norm_output"), "head_norms": True},
    "one norm before fc": {"flags": ("norm_before_fc",)},
}


@pytest.mark.parametrize("kind", EAGLES)
def test_eagle3_foresees_what_a_plain_forward_does(kind, tmp_path, loaded, states, reference):
    tensors, config = eagle3(**EAGLES[kind])
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    found = follow(given(head, states))
    assert len(found) == 7
    for path, logits in found.items():
        tokens = torch.tensor([*TEXT[1:], *path])
        expected = plain.eagle3(tensors, config, states[LAYERS], tokens, reference)[-1]
        torch.testing.assert_close(logits, expected, **CLOSE)


def test_raw_eagle3_is_read_from_a_file_of_torch_without_running_what_is_in_it(tmp_path, loaded, states):
    tensors, config = eagle3(words=WORDS)
    expected = follow(given(head_of(write(tmp_path / "speculators", tensors, config), loaded("llama")), states))
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "config.json").write_text(json.dumps({**LAYER_CONFIG, "target_layer_ids": list(LAYERS)}))
    torch.save(
        {name.replace("layers.0.", "midlayer."): tensor for name, tensor in tensors.items()}, raw / "pytorch_model.bin"
    )
    found = follow(given(head_of(raw, loaded("llama")), states))
    for path, logits in expected.items():
        torch.testing.assert_close(found[path], logits)
    torch.save({"midlayer": Harmful()}, raw / "pytorch_model.bin")
    with pytest.raises(SettingsError, match="holds more than tensors, which could run code"):
        head_of(raw, loaded("llama"))


class Harmful:
    def __reduce__(self):
        return pytest.fail, ("a file was run",)


MEDUSAS = {
    "two blocks": {"blocks": 2},
    "with a vocabulary of its own": {"words": WORDS},
}


@pytest.mark.parametrize("kind", MEDUSAS)
def test_medusa_foresees_what_its_formula_says(kind, tmp_path, loaded, states, reference):
    tensors, config = medusa(**MEDUSAS[kind])
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    found = follow(given(head, states))
    assert len(found) == 4  # three heads: no path of more than two tokens is followed
    for path, logits in found.items():
        expected = plain.medusa(tensors, config, states[LAST,][-1], len(path))
        torch.testing.assert_close(logits, expected, **CLOSE)


@pytest.mark.parametrize("words", [None, WORDS], ids=["whole", "with a vocabulary of its own"])
def test_peagle_foresees_all_places_in_one_run_as_a_plain_forward_does(words, tmp_path, loaded, states, reference):
    tensors, config = peagle(words=words)
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    expected = plain.peagle(tensors, config, states[LAYERS], torch.tensor(TEXT[1:]), reference)
    found = follow(given(head, states))
    assert len(found) == 1 + 3 + 4 - 2  # four places: the chain and the tree are followed for three
    for path, logits in found.items():
        torch.testing.assert_close(logits, expected[len(path)], **CLOSE)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"markov": 8, "words": WORDS},
        {"markov": 8, "kind": "gated"},
        {"markov": 8, "kind": "rnn"},
        {"markov": 8, "kind": "rnn", "anchor": False},
    ],
    ids=["dflash", "dspark", "gated", "rnn", "rnn behind the anchor"],
)
def test_dflash_fills_a_block_as_a_plain_forward_does(options, tmp_path, loaded, states, reference):
    tensors, config = dflash(**options)
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    final, block = plain.dflash(tensors, config, states[1, 2], TEXT[-1], reference)
    for path, logits in follow(given(head, states)).items():
        expected = block[len(path) + (not config["sample_from_anchor"])]
        if options:
            expected = expected + plain.markov(tensors, config, final, [TEXT[-1], *path])
        torch.testing.assert_close(logits, expected, **CLOSE)


def test_dspark_says_itself_how_sure_it_is_of_a_place(tmp_path, loaded, states):
    tensors, config = dflash(markov=8, sure=True)
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    reader = given(head, states)
    reader.first()
    reader.after([31, 32], [-1, -1])
    beside = tensors["markov_head.markov_w1.weight"][[31, 32]]
    final = reader._final[1].expand(2, -1)
    expected = torch.cat((final, beside), -1) @ tensors["confidence_head.proj.weight"][0]
    expected = (expected + tensors["confidence_head.proj.bias"]).sigmoid()
    torch.testing.assert_close(torch.tensor(reader.sure), expected)


def test_dflash_of_transformers_fills_the_same_block(tmp_path, loaded, states, reference):
    module = pytest.importorskip("transformers.models.muse_glimmer_assistant.modeling_muse_glimmer_assistant")
    torch.manual_seed(3)
    config = module.MuseGlimmerAssistantConfig(
        **{
            key: value
            for key, value in LAYER_CONFIG.items()
            if key not in ("model_type", "num_hidden_layers", "rope_theta")
        },
        num_hidden_layers=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        layer_types=["sliding_attention", "full_attention"],
        sliding_window=6,
        block_size=4,
        mask_token_id=3,
        target_layer_ids=[0, 1],
    )
    with torch.inference_mode(mode=False):
        assistant = module.MuseGlimmerAssistantModel(config).eval()
        for weight in assistant.parameters():
            torch.nn.init.normal_(weight, 1.0 if weight.dim() == 1 else 0.0, 0.2)
        assistant.save_pretrained(tmp_path)
    masked = torch.tensor([[TEXT[-1], 3, 3, 3]])
    cache = transformers.cache_utils.DFlashCache(config=config)
    cache.activate_past_recording()
    cache.set_previous_accepted_tokens(len(TEXT) - 1)
    said = assistant(
        noise_embeds=reference.model.embed_tokens(masked),
        context_hidden_states=states[1, 2][None],
        past_key_values=cache,
        position_ids=torch.arange(len(TEXT) + 3)[None],
    ).last_hidden_state
    head = head_of(tmp_path, loaded("llama"))
    found = follow(given(head, states))
    for path in ((), (31,), (31, 32)):
        torch.testing.assert_close(found[path], reference.lm_head(said[0, len(path) + 1]), **CLOSE)


def test_a_layer_for_multi_token_prediction_foresees_what_a_plain_forward_does(tmp_path, loaded, states, reference):
    tensors, config = mtp()
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    for path, logits in follow(given(head, states)).items():
        tokens = torch.tensor([*TEXT[1:], *path])
        expected = plain.mtp(tensors, states[LAST,], tokens, reference)[-1]
        torch.testing.assert_close(logits, expected, **CLOSE)


@pytest.mark.thorough  # it compiles two functions
@pytest.mark.parametrize("quantize", ["none", "int4"])
def test_the_compiled_layer_foresees_what_torch_does_with_the_same_weights(quantize, tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr(head_folders, "INNER", 96)  # whole groups of 32
    sizes = {"intermediate_size": 96}
    tensors, config = eagle3(words=WORDS, flags=("norm_before_residual", "norm_output"), head_norms=True)
    config["transformer_layer_config"] = LAYER_CONFIG | sizes
    torch.manual_seed(5)
    with torch.inference_mode(mode=False):
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES | sizes)).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    model = load_model(find_source(f"local:{tmp_path / 'model'}"), quantize=quantize, dtype="float32", device="cpu")
    folder = write(tmp_path / "head", tensors, config)
    DRAFTERS["head"](DraftEquipment(cost=FREE, model=model, head=folder))  # waits for the compiler
    fast, slow = (load_head(find_head(None, folder), model, rounded=True) for _ in range(2))
    assert fast._compiled is not None
    slow._compiled = None
    states = torch.randn(len(TEXT) - 1, 3 * HIDDEN)
    readers = {head: [head.reader(), head.reader()] for head in (fast, slow)}
    for both in readers.values():
        for reader, length in zip(both, (10, 4), strict=True):
            reader.read(TEXT[1 : 1 + length], states[:length])
    for asked in ([None, None], [([31], [-1]), ([41], [-1])], [([32], [0]), ([42, 43], [-1, 0])]):
        found, expected = (answered(both, asked) for both in readers.values())
        for own, other in zip(found, expected, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-3)
