"""Heads written as plainly as their papers: without a cache, over a whole text at once."""

import torch
from head_folders import HEADS, INNER, STORED, WIDTH
from torch.nn.functional import rms_norm, silu, softmax

EPSILON = 1e-5


def normed(tensors, name, states):
    weight = tensors[f"{name}.weight"]
    return rms_norm(states, weight.shape, weight, EPSILON)


def rotated(heads, positions):
    half = WIDTH // 2
    angles = positions[:, None].float() * 10_000.0 ** (-torch.arange(half) / half)
    cosine, sine = angles.cos()[:, None], angles.sin()[:, None]
    first, second = heads[..., :half], heads[..., half:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


def projected(tensors, name, read, count, positions):
    heads = (read @ tensors[f"{name}_proj.weight"].T).view(len(read), count, WIDTH)
    if name[-1] != "v":
        if f"{name}_norm.weight" in tensors:
            heads = normed(tensors, f"{name}_norm", heads)
        heads = rotated(heads, positions)
    return heads


def layer(tensors, prefix, state, *, read=None, context=None, seen=None):
    """One layer over all rows, which see those before them unless ``seen`` says otherwise # [rows, hidden]

    ``context``: states that keys and values are made of too, in front of those of the rows.
    """
    own = normed(tensors, f"{prefix}input_layernorm", state) if read is None else read
    source = own if context is None else torch.cat((context, own))
    positions = torch.arange(len(source))
    queries = projected(tensors, f"{prefix}self_attn.q", own, HEADS, positions[len(source) - len(own) :])
    keys = projected(tensors, f"{prefix}self_attn.k", source, STORED, positions).repeat_interleave(HEADS // STORED, 1)
    values = projected(tensors, f"{prefix}self_attn.v", source, STORED, positions).repeat_interleave(HEADS // STORED, 1)
    scores = torch.einsum("qhd,khd->hqk", queries, keys) / WIDTH**0.5
    if seen is None:
        seen = torch.ones(len(own), len(source), dtype=torch.bool).tril()
    mixed = torch.einsum("hqk,khd->qhd", softmax(scores.masked_fill(~seen, -torch.inf), -1), values)
    state = state + mixed.reshape(len(own), -1) @ tensors[f"{prefix}self_attn.o_proj.weight"].T
    read = normed(tensors, f"{prefix}post_attention_layernorm", state)
    gate, up = (read @ tensors[f"{prefix}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
    assert gate.shape[1] == INNER
    return state + (silu(gate) * up) @ tensors[f"{prefix}mlp.down_proj.weight"].T


def eagle3(tensors, config, states, tokens, model):
    """Logits behind each row: the first ones have states of the model, the last ones only tokens # [tokens, words]"""
    if config.get("norm_before_fc"):
        states = normed(tensors, "input_norm", states)
    if config.get("fc_norm"):
        parts = states.chunk(3, -1)
        states = torch.cat([normed(tensors, f"fc_norms.{number}", part) for number, part in enumerate(parts)], -1)
    given = states @ tensors["fc.weight"].T
    while True:
        vectors = normed(tensors, "layers.0.input_layernorm", model.model.embed_tokens(tokens[: len(given)]))
        before = normed(tensors, "layers.0.hidden_norm", given)
        stream = before if config.get("norm_before_residual") else given
        state = layer(tensors, "layers.0.", stream, read=torch.cat((vectors, before), -1))
        final = normed(tensors, "norm", state)
        if len(given) == len(tokens):
            return final @ tensors["lm_head.weight"].T
        given = torch.cat((given, (final if config.get("norm_output") else state)[-1:]))


def peagle(tensors, config, states, tokens, model):
    """Logits of each place that is foreseen behind a text # [foresees, words]"""
    masks = config["speculators_config"]["proposal_methods"][0]["speculative_tokens"] - 1
    states = torch.cat((states, tensors["mask_hidden"][0].expand(masks, -1)))
    tokens = torch.cat((tokens, torch.tensor([config["mask_token_id"]] * masks)))
    return eagle3(tensors, config, states, tokens, model)[-1 - masks :]


def mtp(tensors, states, tokens, model):
    """The same of a layer for multi-token prediction."""
    given = states
    while True:
        vectors = normed(tensors, "mtp.pre_fc_norm_embedding", model.model.embed_tokens(tokens[: len(given)]))
        before = normed(tensors, "mtp.pre_fc_norm_hidden", given)
        joined = torch.cat((vectors, before), -1) @ tensors["mtp.fc.weight"].T
        final = normed(tensors, "mtp.norm", layer(tensors, "mtp.layers.0.", joined))
        if len(given) == len(tokens):
            return model.lm_head(final)
        given = torch.cat((given, final[-1:]))


def medusa(tensors, config, state, head):
    """Logits of a head, by its number # [words]"""
    blocks = config["medusa_num_layers"]
    for block in range(blocks):
        weight, bias = (tensors[f"{head}.{block}.linear.{kind}"] for kind in ("weight", "bias"))
        state = state + silu(weight @ state + bias)
    return tensors[f"{head}.{blocks}.weight"] @ state


def dflash(tensors, config, states, token, model):
    """Final states of each place of a block behind a token, and their logits # [block, hidden], [block, words]"""
    block, sizes = config["block_size"], config["transformer_layer_config"]
    context = normed(tensors, "hidden_norm", states @ tensors["fc.weight"].T)
    state = model.model.embed_tokens(torch.tensor([token] + [config["mask_token_id"]] * (block - 1)))
    places = torch.arange(len(context) + block)
    apart = places[len(context) :, None] - places
    for number, kind in enumerate(sizes["layer_types"]):
        seen = torch.ones_like(apart, dtype=torch.bool)
        if kind == "sliding_attention":
            seen = (apart < sizes["sliding_window"]) & (apart >= 0)
        state = layer(tensors, f"layers.{number}.", state, context=context, seen=seen)
    final = normed(tensors, "norm", state)
    last = tensors.get("lm_head.weight")
    return final, model.lm_head(final) if last is None else final @ last.T


def markov(tensors, config, final, tokens):
    """What is added to the logits of the place behind these tokens, the first of which is committed # [words]"""
    rank, kind = config["markov_rank"], config["markov_head_type"]
    before, after = (tensors[f"markov_head.markov_w{number}.weight"] for number in (1, 2))
    memory = torch.zeros(rank)
    if not config["sample_from_anchor"]:
        tokens = [tokens[0], *tokens]  # of the first place, which foresees nothing
    for place, token in enumerate(tokens):
        read = before[token]
        if kind == "gated":
            gate = tensors["markov_head.gate_proj.weight"] @ torch.cat((final[place], read))
            read = read * (gate + tensors["markov_head.gate_proj.bias"]).sigmoid()
        if kind == "rnn":
            made = tensors["markov_head.joint_proj.weight"] @ torch.cat((memory, read, final[place]))
            kept, new, said = (made + tensors["markov_head.joint_proj.bias"]).chunk(3)
            memory = kept.sigmoid() * memory + (1 - kept.sigmoid()) * new.tanh()
            read = said.tanh()
    return after @ read
