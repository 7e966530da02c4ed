"""A model that is accepted gives the tokens of transformers' own `generate`: beyond windows, switches, in batches."""

from functools import cache

import pytest
import torch
from asking import outcome, submit_together, tokens
from tiny_models import SIZES, SWITCH, VOCABULARY, WINDOW, build
from transformers import BertConfig, BertLMHeadModel, MixtralConfig, MixtralForCausalLM

from stretto.local_engine.draft_tree import DraftTree
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.forward.llama_family import is_llama_like
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.loading.load import prepare
from stretto.local_engine.model.loading.numerics_check import Expected, choose_forward, disagreement
from stretto.values.errors import BackendError, ContextOverflowError, RequestRejectedError

METHODS = ["autoregressive", "lookahead", "suffix"]
LENGTH = 32
ALONE = ["gpt neo", "mpt", "bloom", "falcon alibi", "llama4"]


def prompt(length, first=0):
    return tuple((number * number * 7 + number * 3 + first) % 390 + 5 for number in range(length))


MIXED = [prompt(20), prompt(70, 1), prompt(47, 2), prompt(9, 3)]
"""On both sides of every tiny window and switch; some cross one while they are answered."""


@cache
def reference(architecture):
    return build(architecture).eval()


@cache
def generated(architecture, text, length=LENGTH):
    """What transformers says, without stopping at an end."""
    ids = torch.tensor([text])
    options = {"max_new_tokens": length, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    with torch.inference_mode():
        said = reference(architecture).generate(ids, attention_mask=torch.ones_like(ids), **options)
    return said[0, len(text) :].tolist()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "architecture",
    [
        "phi3 longrope",
        "mpt",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("gemma2", *ALONE) if each != "mpt"),
    ],
)
def test_answers_are_those_of_generate_alone_and_in_a_batch_of_unequal_lengths(architecture, loaded, start):
    engine = start(loaded(architecture))
    expected = [generated(architecture, text) for text in MIXED]
    assert len({tuple(answer) for answer in expected}) == len(MIXED)
    for method in METHODS[:2] if architecture in ALONE else METHODS:
        together = submit_together(engine, [Generation(text, LENGTH, decoding=method) for text in MIXED])
        assert [tokens(handle) for handle in together] == expected, method
    alone = Generation(MIXED[2], LENGTH, decoding="lookahead")
    assert tokens(engine.submit(alone)) == expected[2]


@pytest.mark.parametrize("architecture", ["gpt neo", "mpt"])
def test_a_batch_goes_on_to_the_last_token_of_the_window(architecture, loaded, start):
    engine = start(loaded(architecture))
    texts = [prompt(WINDOW - 12), prompt(30, 1)]
    requests = [Generation(text, 12, decoding="lookahead") for text in texts]
    got = [tokens(handle) for handle in submit_together(engine, requests)]
    assert got == [generated(architecture, text, 12) for text in texts]


@pytest.mark.parametrize("architecture", ALONE)
def test_a_model_that_only_its_own_mask_gets_right_runs_alone_and_drafts_chains(architecture, loaded, start):
    model = loaded(architecture)
    assert model.runs_alone
    _, finished = outcome(start(model).submit(Generation(MIXED[2], LENGTH, decoding="lookahead")))
    assert 1 < finished.figures.rows_per_step < 10  # as deep as a tree of forty nodes


def test_the_other_models_run_together(loaded):
    assert not any(loaded(architecture).runs_alone for architecture in ("llama", "gemma2", "phi3 longrope", "gpt2"))


def test_trees_over_a_bias_by_slot_are_noticed_in_half_precision_too():
    model = build("mpt").bfloat16().eval()
    with torch.inference_mode():
        assert disagreement(Expected.of(model), TransformersForward(model)) > 0.5
        assert disagreement(Expected.of(model), TransformersForward(model, alone=True)) < 0.1


def test_a_chain_is_the_path_that_most_likely_survives():
    tree = DraftTree()
    tree.add(5, survival=0.2)
    trunk = tree.add(6, survival=0.6)
    tree.add(7, trunk, 0.1)
    leaf = tree.add(8, trunk, 0.5)
    chain, places = tree.chain()
    assert (chain.tokens, chain.parents) == ([6, 8], [-1, 0])
    assert places == [-1, 0, -1, 1]
    assert leaf == 3


def test_a_long_prompt_is_read_in_parts_with_the_factors_of_its_whole_length(loaded, start):
    engine = start(loaded("phi3 longrope"), prefill_tokens=16)
    assert [tokens(handle) for handle in submit_together(engine, [Generation(text, LENGTH) for text in MIXED])] == [
        generated("phi3 longrope", text) for text in MIXED
    ]


@pytest.mark.thorough
def test_the_turns_of_a_chat_do_not_mix_the_factors_of_short_and_long_texts(loaded, start):
    engine = start(loaded("phi3 longrope"), prefix_cache_bytes=2**24)
    turns = [MIXED[0], MIXED[0] + prompt(30, 4), MIXED[0] + prompt(60, 4), MIXED[0] + prompt(30, 4) + prompt(4)]
    turns += [turns[2] + prompt(20, 5), turns[1]]
    cached = []
    for turn in turns:
        handle = engine.submit(Generation(turn, LENGTH, decoding="lookahead"))
        cached.append(outcome(handle)[1].cached_tokens)
        assert handle.sequence.generated == generated("phi3 longrope", turn)
    # The second turn crosses the switch while it is answered. So the third can use all of it, and the fourth and the
    # last, which are short, only what the first one knows.
    assert cached == [0, len(turns[0]), len(turns[1]), len(turns[0]), len(turns[2]), len(turns[0])]


def test_a_text_is_refused_where_dynamic_factors_would_begin_to_change(loaded, start):
    model = loaded("dynamic ntk")
    engine = start(model)
    assert model.context_window == SWITCH
    texts = [prompt(SWITCH - 20), prompt(12, 1)]
    for method in METHODS:
        handles = submit_together(engine, [Generation(text, 20, decoding=method) for text in texts])
        assert [tokens(handle) for handle in handles] == [generated("dynamic ntk", text, 20) for text in texts]
    with pytest.raises(ContextOverflowError, match=f"context window of local:dynamic ntk holds {SWITCH}"):
        engine.submit(Generation(prompt(SWITCH), 1))
    with pytest.raises(RequestRejectedError, match="Ask for at most 20"):
        engine.submit(Generation(texts[0], 21))


class EightBits(torch.nn.Module):
    """A linear layer without dense weights, as quantised folders have them."""

    def __init__(self, linear):
        super().__init__()
        scale = linear.weight.abs().amax(1, keepdim=True) / 127
        self.register_buffer("held", (linear.weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, state):
        return state @ (self.held * self.scale).T


class DenseLooking(torch.nn.Linear):
    """A linear layer with a weight that its forward does not multiply by as it stands."""

    def forward(self, state):
        return super().forward(state) * 0.5


def replaced(model, kind):
    for layer in model.model.layers:
        for part, names in ((layer.self_attn, ("q_proj", "v_proj")), (layer.mlp, ("down_proj",))):
            for name in names:
                setattr(part, name, kind(getattr(part, name)))
    return model


def dense_looking(linear):
    other = DenseLooking(linear.in_features, linear.out_features, bias=False)
    other.weight = linear.weight
    return other


@pytest.mark.parametrize("kind", [EightBits, dense_looking])
def test_quantised_layers_of_the_llama_family_run_in_transformers_own_code(kind, tokenizer, start):
    model = replaced(build("llama").eval(), kind)
    assert not is_llama_like(model)
    ready = prepare("local:small", model, tokenizer)
    assert isinstance(ready.forward, TransformersForward)
    engine = start(ready)
    ids = torch.tensor([MIXED[0]])
    expected = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=LENGTH,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    for method in METHODS:
        assert tokens(engine.submit(Generation(MIXED[0], LENGTH, decoding=method))) == expected[0, 20:].tolist()


def test_a_model_whose_own_code_fails_is_refused_with_a_sentence():
    model = MixtralForCausalLM(MixtralConfig(**SIZES, num_local_experts=2, num_experts_per_tok=4)).eval()
    with pytest.raises(BackendError, match=r"local:odd cannot be run: MixtralForCausalLM of transformers fails on a"):
        choose_forward("local:odd", model, packed=False)


def test_a_model_that_sees_what_follows_is_refused_with_a_sentence():
    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    small["initializer_range"] = 0.3
    model = BertLMHeadModel(BertConfig(vocab_size=VOCABULARY, is_decoder=False, **small)).eval()
    with pytest.raises(BackendError, match=r"BertLMHeadModel gives other logits than without .*docs/models\.md"):
        choose_forward("local:odd", model, packed=False)


def test_a_layer_without_plain_weights_is_left_to_transformers():
    """As compressed-tensors packs them: the class stays, and the weight has another name."""
    model = build("llama")
    assert is_llama_like(model)
    del model.model.layers[0].mlp.up_proj.weight
    assert not is_llama_like(model)
