"""Heads in the formats in which they are published: what they foresee, and that no answer changes with them."""

import json
from dataclasses import replace

import head_folders
import numpy as np
import plain_heads as plain
import pytest
import torch
import transformers
from gguf_files import nextn, write_gguf
from head_folders import (
    HIDDEN,
    LAYER_CONFIG,
    LAYERS,
    WORDS,
    around_one,
    dflash,
    drawn,
    eagle3,
    medusa,
    mtp,
    peagle,
    write,
)
from one_batch import EIGHT, run
from safetensors.torch import load_file, save_file
from tiny_models import SIZES, build

from stretto.backends.local.backend import LocalBackend
from stretto.errors import SettingsError
from stretto.local_engine.drafting.autoregressive import Autoregressive
from stretto.local_engine.drafting.catalogue import METHODS, DraftEquipment, make_drafter
from stretto.local_engine.drafting.heads.drafter import HeadDrafter
from stretto.local_engine.drafting.heads.files import find_head
from stretto.local_engine.drafting.heads.head_options import HeadOptions
from stretto.local_engine.drafting.heads.load import load_head
from stretto.local_engine.drafting.heads.recurrent import answered
from stretto.local_engine.drafting.protocol import DraftContext, DraftOutcome
from stretto.local_engine.drafting.step_cost import StepCost
from stretto.local_engine.model.layer_states import LAST
from stretto.local_engine.model.load import load_model
from stretto.local_engine.model.source import find_source

FREE = StepCost({1: 1e6, 128: 1.001e6})  # however busy the machine is, drafting takes nothing of such a step
TEXT = [(7 * place + 3) % 390 + 5 for place in range(11)]
DRAFTED = [31, 32, 33, 34]  # a chain, and the first two nodes have a second child each
NO_TOP = np.empty((0, 0), np.int64), np.empty((0, 0), np.float32)
PROMPTS = [tuple(TEXT), (7, 8, 9), (*TEXT * 2, 5, 6)]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def reference():
    """The model by transformers."""
    return build("llama")


@pytest.fixture(scope="module")
def states(reference):
    """Of the layers that EAGLE-3 reads, of the two that DFlash reads, and the last ones, of all tokens but one."""
    with torch.inference_mode():
        found = reference(input_ids=torch.tensor([TEXT]), output_hidden_states=True).hidden_states
    return {layers: torch.cat([found[layer][0, :-1] for layer in layers], -1) for layers in (LAYERS, (1, 2), (LAST,))}


def head_of(folder, model):
    return load_head(find_head(None, folder), model)


def given(head, states):
    """A reader that was given a text in two parts."""
    reader, own = head.reader(), states[head.layers]
    reader.read(TEXT[1:7], own[:6])
    reader.read(TEXT[7:], own[6:])
    return reader


def follow(reader):
    """Logits of what follows: the text, the chain, and a tree # [words] each, by path."""
    found = {(): reader.first()[0]}
    for depth in range(1, len(DRAFTED) + 1):
        logits = reader.behind([DRAFTED[depth - 1]], [depth - 2])
        if logits is None:
            break
        found[tuple(DRAFTED[:depth])] = logits[0]
    torch.testing.assert_close(reader.first()[0], found[()])
    reader.behind([31, 41], [-1, -1])
    for parents, tokens in (((0, 1), (32, 42)), ((3, 2), (43, 33))):
        logits = reader.behind(tokens, parents)
        if logits is None:
            break
        paths = {0: (31,), 1: (41,), 2: (31, 32), 3: (41, 42)}
        for row, parent, token in zip(logits, parents, tokens, strict=True):
            found[*paths[parent], token] = row
    return found


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
    "blockwise": {"own": False},
    "hydra": {"grounded": True, "blocks": 2},
    "with a vocabulary of its own": {"words": WORDS},
}


@pytest.mark.parametrize("kind", MEDUSAS)
def test_medusa_foresees_what_its_formula_says(kind, tmp_path, loaded, states, reference):
    tensors, config = medusa(**MEDUSAS[kind])
    head = head_of(write(tmp_path, tensors, config), loaded("llama"))
    found = follow(given(head, states))
    assert len(found) == 4  # three heads: no path of more than two tokens is followed
    for path, logits in found.items():
        tokens = torch.tensor([TEXT[-1], *path])
        last = states[LAST,][-1]
        expected = plain.medusa(tensors, config, last, tokens, reference)
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


def test_peagle_that_does_not_tell_its_mask_is_refused(tmp_path, loaded):
    with pytest.raises(SettingsError, match="does not tell mask_token_id"):
        head_of(write(tmp_path, *peagle(mask_token_id=None)), loaded("llama"))


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
    reader.behind([31, 32], [-1, -1])
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


@pytest.fixture(scope="module")
def glm(tokenizer, tmp_path_factory):
    """A folder of a model with experts, whose last layer stands there again, for multi-token prediction."""
    folder = tmp_path_factory.mktemp("glm")
    torch.manual_seed(9)
    config = transformers.Glm4MoeConfig(
        **{**SIZES, "num_hidden_layers": 2},
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
        num_mtp_layers=1,
        n_shared_experts=1,
    )
    with torch.inference_mode(mode=False):
        transformers.Glm4MoeForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    behind = "model.layers.2."
    tensors |= {
        name.replace("model.layers.1.", behind): 0.9 * tensor
        for name, tensor in tensors.items()
        if name.startswith("model.layers.1.")
    }
    tensors |= {f"{behind}{name}.weight": around_one(HIDDEN) for name in ("enorm", "hnorm", "shared_head.norm")}
    tensors[f"{behind}eh_proj.weight"] = drawn(HIDDEN, 2 * HIDDEN)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_the_layer_of_a_model_with_experts_foresees_what_transformers_does(glm):
    layers = pytest.importorskip("transformers.modeling_layers")
    if not hasattr(layers, "MtpModel"):
        pytest.skip("this version of transformers does not read such layers")
    model = load_model(find_source(f"local:{glm}"), dtype="float32", device="cpu")
    head = load_head(find_head(glm, None), model)
    main = model.forward.model
    states = main(input_ids=torch.tensor([TEXT]), output_hidden_states=True).hidden_states[-1][0, :-1]
    found = follow(given(head, {(LAST,): states}))
    mtp = layers.MtpModel.from_pretrained(main)
    cache = transformers.cache_utils.MtpCache(config=main.config.get_mtp_config())
    positions = torch.arange(1, len(TEXT))[None]
    _, said, _ = mtp(torch.tensor([TEXT[1:]]), states[None], None, positions, cache)
    torch.testing.assert_close(found[()], said[0, 0], **CLOSE)
    given_states = states
    for depth in range(1, 3):
        tokens = torch.tensor([[*TEXT[1:], *DRAFTED[:depth]]])
        final = mtp.forward_layer(
            0,
            torch.cat((given_states, last_of(mtp, given_states, tokens[:, :-1])))[None],
            torch.arange(1, tokens.shape[1] + 1)[None],
            transformers.cache_utils.MtpCache(config=main.config.get_mtp_config()),
            input_ids=tokens,
        )
        given_states = torch.cat((given_states, last_of(mtp, given_states, tokens[:, :-1])))
        torch.testing.assert_close(found[tuple(DRAFTED[:depth])], main.lm_head(final[0, -1]), **CLOSE)


def test_a_layer_beside_the_others_of_a_dense_model_is_found_in_its_folder(tmp_path, tokenizer, states):
    model = build("llama")
    model.config.num_nextn_predict_layers, model.config.rms_norm_eps = 1, 1e-5
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    tensors, _ = mtp()
    save_file(
        {**load_file(tmp_path / "model.safetensors"), **tensors}, tmp_path / "model.safetensors", {"format": "pt"}
    )
    loaded = load_model(find_source(f"local:{tmp_path}"), dtype="float32", device="cpu")
    head = load_head(find_head(tmp_path, None), loaded)
    assert head.kind == "mtp"
    tokens = torch.tensor(TEXT[1:])
    expected = plain.mtp(tensors, states[LAST,], tokens, model)[-1]
    torch.testing.assert_close(given(head, states).first()[0], expected, **CLOSE)


@pytest.mark.parametrize("beside", [False, True], ids=["in the model's file", "in a file of its own"])
def test_a_layer_in_a_gguf_file_foresees_what_a_plain_forward_does(beside, tmp_path, tokenizer, states, reference):
    tensors, _ = mtp()
    fields, extra = nextn(tensors, reference.config, 3)
    fields["llama.attention.layer_norm_rms_epsilon"] = 1e-5
    path, companion = tmp_path / "model.gguf", tmp_path / "head"
    write_gguf(path, reference, tokenizer, fields=fields.items(), tensors=extra)
    if beside:
        companion.mkdir()
        path.rename(companion / "nextn.gguf")
        write_gguf(path, reference, tokenizer)
    model = load_model(find_source(f"local:{path}"), dtype="float32", device="cpu")
    equipment = DraftEquipment(cost=FREE, model=model, head=companion if beside else None)
    assert not METHODS["head"].missing(path, equipment.head)
    head = load_head(find_head(path, equipment.head), model)
    for path, logits in follow(given(head, states)).items():
        expected = plain.mtp(tensors, states[LAST,], torch.tensor([*TEXT[1:], *path]), reference)[-1]
        torch.testing.assert_close(logits, expected, **CLOSE)


def test_a_layer_with_experts_in_a_gguf_file_is_refused(tmp_path, tokenizer, reference, loaded):
    fields, extra = nextn(mtp()[0], reference.config, 3)
    extra.append(("blk.3.ffn_gate_exps.weight", np.zeros((2, 4, 4), np.float32)))
    write_gguf(tmp_path / "model.gguf", reference, tokenizer, fields=fields.items(), tensors=extra)
    with pytest.raises(SettingsError, match="has experts"):
        head_of(tmp_path, loaded("llama"))


def reused(config):
    return ["reuse"] * config.num_hidden_layers


@pytest.fixture(scope="module")
def gemma(tokenizer, tmp_path_factory):
    """Folders of a Gemma 4 whose last layers share keys and values, and of an assistant for it."""
    module = pytest.importorskip("transformers.models.gemma4_assistant")
    folder, kinds = tmp_path_factory.mktemp("gemma"), ["sliding_attention", "full_attention"]
    sizes = SIZES | {"sliding_window": 6, "global_head_dim": 32}
    beside = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": sizes["vocab_size"]}
    config = transformers.Gemma4TextConfig(
        **sizes | beside | {"num_hidden_layers": 4, "layer_types": 2 * kinds, "num_kv_shared_layers": 2}
    )
    own = sizes | dict.fromkeys(beside, 0) | {"hidden_size": 32, "num_hidden_layers": 2, "layer_types": kinds}
    torch.manual_seed(8)
    with torch.inference_mode(mode=False):
        transformers.Gemma4ForCausalLM(config).save_pretrained(folder)
        text = transformers.Gemma4TextConfig(**own)
        assistant = module.Gemma4AssistantConfig(text_config=text, backbone_hidden_size=HIDDEN)
        # transformers 5.23 refuses a model whose layers all share keys and values, so none says so while it is made
        text.__class__ = type("Gemma4TextConfig", (type(text),), {"kv_sharing_modes": property(reused)})
        transformers.Gemma4AssistantForCausalLM(assistant).save_pretrained(folder / "head")
    tokenizer.save_pretrained(folder)
    return folder


def test_an_assistant_of_gemma_foresees_what_transformers_does(gemma):
    model = load_model(find_source(f"local:{gemma}"), dtype="float32", device="cpu")
    main, head = model.forward.model, load_head(find_head(gemma, None), model)
    said = main(input_ids=torch.tensor([TEXT[:-1]]), output_hidden_states=True, return_shared_kv_states=True)
    assistant = head._assistant
    layers = [layer for layer, mode in enumerate(main.config.kv_sharing_modes) if mode == "store"]
    both = [said.shared_kv_states[main.config.layer_types[layer]] for layer in layers]
    flat = [each.transpose(1, 2).flatten(2)[0] for pair in both for each in pair]
    found = follow(given(head, {head.layers: torch.cat((said.hidden_states[-1][0], *flat), -1)}))
    state = said.hidden_states[-1][:, -1:]
    for depth in range(len(DRAFTED) + 1):
        token = torch.tensor([[[TEXT[-1], *DRAFTED][depth]]])
        drafted = assistant(
            inputs_embeds=torch.cat((main.get_input_embeddings()(token), state), -1),
            position_ids=torch.tensor([[len(TEXT) - 1]]),
            shared_kv_states=said.shared_kv_states,
        )
        torch.testing.assert_close(found[tuple(DRAFTED[:depth])], drafted.logits[0, 0], **CLOSE)
        state = drafted.last_hidden_state


def last_of(mtp, states, tokens):
    """What the layer makes of the last row, which the next one reads # [1, hidden]"""
    cache = transformers.cache_utils.MtpCache(config=mtp.config)
    positions = torch.arange(1, tokens.shape[1] + 1)[None]
    return mtp.forward_layer(0, states[None], positions, cache, input_ids=tokens)[0, -1:]


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
    make_drafter("head", DraftEquipment(cost=FREE, model=model, head=folder))  # waits for the compiler
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


HEADS = {
    "eagle3": lambda: eagle3(words=WORDS),
    "peagle": lambda: peagle(words=WORDS),
    "medusa": medusa,
    "blockwise": lambda: medusa(own=False),
    "hydra": lambda: medusa(grounded=True),
    "dflash": dflash,
    "dspark": lambda: dflash(markov=8, sure=True),
    "dspark with a memory": lambda: dflash(markov=8, kind="rnn", words=WORDS),
    "mtp": mtp,
}
IN_ITS_MODEL = {
    "a layer of a GGUF file": "with_nextn",
    "a layer of a model with experts": "glm",
    "an assistant of Gemma": "gemma",
}


@pytest.fixture(scope="module")
def with_nextn(tokenizer, reference, tmp_path_factory):
    """A GGUF file with a layer for multi-token prediction."""
    path = tmp_path_factory.mktemp("nextn") / "model.gguf"
    fields, extra = nextn(mtp()[0], reference.config, 3)
    fields["llama.attention.layer_norm_rms_epsilon"] = 1e-5
    write_gguf(path, reference, tokenizer, fields=fields.items(), tensors=extra)
    return path


@pytest.fixture(scope="module")
def plain_of():
    """What one token at a time gives, worked out once for each model."""
    known = {}

    def plain_of(model):
        if model.name not in known:
            known[model.name] = run(model, EIGHT, [Autoregressive() for _ in EIGHT])[0]
        return known[model.name]

    return plain_of


@pytest.mark.parametrize("kind", [*HEADS, *IN_ITS_MODEL])
def test_no_answer_of_eight_changes_greedy_by_seeds_and_in_a_format(kind, tmp_path, loaded, plain_of, request):
    if kind in HEADS:
        model, head = loaded("llama"), write(tmp_path, *HEADS[kind]())
    else:
        path = request.getfixturevalue(IN_ITS_MODEL[kind])
        model, head = load_model(find_source(f"local:{path}"), dtype="float32", device="cpu"), None
    options = {"head": {"length": 3, "width": 2}}
    equipment = DraftEquipment(cost=FREE, model=model, head=head, options=options)
    expected = plain_of(model)
    for method in ("head", "auto") if kind in ("eagle3", "medusa") else ("head",):
        assert run(model, EIGHT, [make_drafter(method, equipment) for _ in EIGHT])[0] == expected
    assert run(model, EIGHT[:1], [make_drafter("auto", equipment)])[0] == expected[:1]


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
def test_sequences_that_ask_together_get_what_each_gets_alone(kind, tmp_path, loaded, states):
    head = head_of(write(tmp_path, *HEADS[kind]()), loaded("llama"))
    asked = [None, ([31], [-1]), ([32, 33], [0, -1])], [None, ([41, 42], [-1, -1]), ([43], [1])]
    own = states[head.layers]

    def readers():
        found = [head.reader(), head.reader()]
        for reader, length in zip(found, (10, 4), strict=True):
            reader.read(TEXT[1 : 1 + length], own[:length])
        return found

    together = readers()
    found = [answered(together, both) for both in zip(*asked, strict=True)]
    for number, reader in enumerate(readers()):
        for step, nodes in enumerate(asked[number]):
            torch.testing.assert_close(found[step][number], answered([reader], [nodes])[0], **CLOSE)


def test_recorded_steps_are_left_to_the_thread_of_the_engine_when_a_head_is_read(tmp_path, loaded):
    class Recorded:
        """Steps that another thread may be running."""

        def __init__(self, plain):
            self.plain = plain

        def __call__(self, *_):
            raise RuntimeError("it is at work")

    model = loaded("llama")
    folder = write(tmp_path, *medusa())
    assert head_of(folder, replace(model, forward=Recorded(model.forward))).kind == "medusa"


def test_a_head_may_be_made_ready_for_a_request_while_others_draft_with_it(tmp_path, loaded):
    equipment = DraftEquipment(cost=FREE, model=loaded("llama"), head=write(tmp_path, *medusa()))
    drafter = make_drafter("head", equipment)
    made = []

    class Other(HeadDrafter):
        @property
        def waits(self):
            made.append(make_drafter("head", equipment))  # as another thread may at this moment
            return False

    head, accounts, group = equipment.kept["head"]
    other = Other(head, FREE, accounts, HeadOptions(), group, paths=1)
    context, states = DraftContext([*TEXT, 31], len(TEXT), 400), torch.zeros(1, HIDDEN)
    for each in (other, drafter):
        each.learn(context, DraftOutcome((), *NO_TOP, [31], (), states=states))
    assert len(drafter.propose(context, 4))
    assert made


def broken(kind):
    tensors, config = eagle3(words=WORDS)
    if kind == "hidden":
        tensors["fc.weight"] = torch.zeros(HIDDEN, 3 * 48)
    elif kind == "layers":
        config["eagle_aux_hidden_state_layer_ids"] = [0, 1, 7]
    elif kind == "tokens":
        tensors["d2t"] = tensors["d2t"] + 9
    elif kind == "weight":
        del tensors["norm.weight"]
    elif kind == "kind":
        config["speculators_model_type"] = "jetspec"
    elif kind == "gemma":
        tensors, config = {"x.weight": torch.zeros(2, 2)}, {"model_type": "gemma4_assistant"}
    else:
        tensors, config = {"x.weight": torch.zeros(2, 2)}, {"architectures": ["OtherForCausalLM"]}
    return tensors, config


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("hidden", "it reads states of 144 numbers, and those of the model have 64"),
        ("layers", "it reads 3 layers of the numbers 0, 1, 7, and the model has 3"),
        ("tokens", "it drafts the token 408, and those of the model are below 400"),
        ("weight", "is no whole head: the weight norm.weight is missing"),
        ("kind", "is of the kind jetspec, which is not known. Known are EAGLE-3, P-EAGLE, DFlash, DSpark, Medusa"),
        ("gemma", "is an assistant of Gemma 4, and local:llama is none"),
        ("nothing", "(OtherForCausalLM) are no head that is known"),
    ],
)
def test_a_head_that_does_not_fit_is_refused_in_one_sentence(kind, words, tmp_path, loaded):
    with pytest.raises(SettingsError) as refused:
        head_of(write(tmp_path, *broken(kind)), loaded("llama"))
    assert words in str(refused.value)
    assert str(tmp_path) in str(refused.value)


def test_a_folder_that_is_not_there_and_one_without_weights_are_told_before_anything_is_loaded(tmp_path):
    with pytest.raises(SettingsError, match="There is no folder"):
        LocalBackend("local:pocket", head=tmp_path / "missing")
    with pytest.raises(SettingsError, match="holds no head"):
        LocalBackend("local:pocket", head=tmp_path)
    with pytest.raises(SettingsError, match=r"There is no head. Name the folder of one as head="):
        LocalBackend("local:pocket", decoding="head")


def test_one_beside_the_weights_is_found_and_one_that_does_not_fit_is_left_out(tmp_path, loaded, caplog):
    (tmp_path / "config.json").write_text("{}")
    model = replace(loaded("llama"), folder=tmp_path)
    folder = write(tmp_path / "head", *medusa())
    assert make_drafter("auto", DraftEquipment(cost=FREE, model=model)).wants_states == (LAST,)
    write(folder, *broken("kind"))
    equipment = DraftEquipment(cost=FREE, model=model)
    assert not hasattr(make_drafter("auto", equipment), "wants_states")
    assert "drafts without the head beside its weights" in caplog.text
    with pytest.raises(SettingsError, match="jetspec"):
        make_drafter("head", equipment)


def test_one_beside_the_weights_is_left_alone_where_an_adapter_changes_them(tmp_path, loaded):
    (tmp_path / "config.json").write_text("{}")
    write(tmp_path / "head", *medusa())
    model = replace(loaded("llama"), folder=tmp_path, changed=True)
    assert not hasattr(make_drafter("auto", DraftEquipment(cost=FREE, model=model)), "wants_states")
    with pytest.raises(SettingsError, match="has no head"):
        make_drafter("head", DraftEquipment(cost=FREE, model=model))


def damage(folder, what):
    if what == "config":
        (folder / "config.json").write_text("{nope")
    elif what == "sizes":
        (folder / "config.json").write_text('{"dflash_config": "odd"}')
    else:
        (folder / "model.safetensors").unlink()
        (folder / "old.bin").write_bytes(b"")


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("config", "cannot be read: its config.json is damaged"),
        ("sizes", "no head that is known"),
        ("weights", "cannot be read: a file ends too early"),
    ],
)
def test_auto_goes_on_without_a_head_beside_the_weights_that_is_damaged(what, said, tmp_path, loaded, caplog):
    (tmp_path / "config.json").write_text("{}")
    damage(write(tmp_path / "head", *medusa()), what)
    equipment = DraftEquipment(cost=FREE, model=replace(loaded("llama"), folder=tmp_path))
    assert not hasattr(make_drafter("auto", equipment), "wants_states")
    assert said in caplog.text
    with pytest.raises(SettingsError, match=said):
        make_drafter("head", equipment)
    lack = METHODS["head"].missing(tmp_path, None)
    assert said in lack if what == "config" else not lack


@pytest.mark.parametrize("config", ["{nope", '{"text_config": "odd"}'])
def test_that_a_model_is_damaged_is_left_to_its_loading(config, tmp_path):
    (tmp_path / "config.json").write_text(config)
    assert find_head(tmp_path, None) is None
