"""Heads that come in the files of their model: what they foresee, and that no answer changes with them."""

import json
import shutil

import numpy as np
import plain_heads as plain
import pytest
import torch
import transformers
from gguf_files import nextn, write_gguf
from head_folders import HIDDEN, around_one, drawn, mtp
from one_batch import EIGHT
from reading_heads import CLOSE, DRAFTED, FREE, TEXT, answers, follow, given, head_of
from safetensors.torch import load_file, save_file
from test_named_heads import WAYS, answer
from tiny_models import SIZES, build

from stretto.backends.local.backend import LocalBackend
from stretto.local_engine.drafting.catalogue import METHODS, DraftEquipment
from stretto.local_engine.drafting.heads.files import find_head
from stretto.local_engine.drafting.heads.load_head import load_head
from stretto.local_engine.model.forward.rows import LAST
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


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


def test_a_value_of_an_assistant_of_gemma_that_cannot_be_is_named(gemma, tmp_path):
    head = shutil.copytree(gemma / "head", tmp_path / "head")
    config = json.loads((head / "config.json").read_text())
    config["text_config"]["rope_parameters"]["full_attention"] = {"rope_type": "spiral"}
    (head / "config.json").write_text(json.dumps(config))
    model = load_model(find_source(f"local:{gemma}"), dtype="float32", device="cpu")
    with pytest.raises(
        SettingsError, match=r"cannot be run: rope_parameters.full_attention.rope_type is 'spiral' in its"
    ):
        load_head(find_head(gemma, head), model)


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


@pytest.fixture(scope="module")
def with_nextn(tokenizer, reference, tmp_path_factory):
    """A GGUF file with a layer for multi-token prediction."""
    path = tmp_path_factory.mktemp("nextn") / "model.gguf"
    fields, extra = nextn(mtp()[0], reference.config, 3)
    fields["llama.attention.layer_norm_rms_epsilon"] = 1e-5
    write_gguf(path, reference, tokenizer, fields=fields.items(), tensors=extra)
    return path


@pytest.mark.parametrize("folder", ["with_nextn", "glm", "gemma"])
def test_no_answer_of_eight_changes_greedy_by_seeds_and_in_a_format(folder, plain_of, request):
    path = request.getfixturevalue(folder)
    model = load_model(find_source(f"local:{path}"), dtype="float32", device="cpu")
    assert answers(model, "head") == plain_of(model)
    assert answers(model, "auto", None, EIGHT[:1]) == plain_of(model)[:1]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["with_nextn", "glm", "gemma"])
async def test_one_that_is_named_drafts_for_its_model(kind, request, tmp_path):
    """A GGUF file or the model's own folder named for its layer, and the folder of an assistant."""
    path = request.getfixturevalue(kind)
    head = {"with_nextn": path.parent, "glm": path, "gemma": path / "head"}[kind]
    backend = LocalBackend(f"local:{path}", dtype="float32", device="cpu", head=head)
    try:
        drafts = 0
        for options in WAYS.values():
            for _ in range(5):  # it rests where the machine was busy in its first step
                text, drafted = await answer(backend, "head", options)
                drafts += drafted.get("head", 0)
                if drafts:
                    break
            assert (await answer(backend, "autoregressive", options))[0] == text
        assert drafts
    finally:
        await backend.aclose()
