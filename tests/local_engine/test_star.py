"""Star attention, against full attention where the two are the same, and against the paper's masks where not."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import VOCABULARY, build
from transformers import DynamicCache

from stretto.errors import SettingsError
from stretto.local_engine.long_context.decoder import attention
from stretto.local_engine.long_context.reader_options import StarOptions
from stretto.local_engine.long_context.star import StarReader, merged

pytestmark = pytest.mark.thorough

CPU = torch.device("cpu")
MODELS = ["llama", "qwen2", "qwen3"]
DOCUMENT = [(7 * place * place + 3 * place) % (VOCABULARY - 5) + 5 for place in range(90)]
LOCAL = [(11 * place) % (VOCABULARY - 5) + 5 for place in range(12)]
ANSWER = [17, 230, 45]


def last(reader, local, answer=()):
    with torch.inference_mode():
        *_, logits = reader.read(local, answer)
    return logits


def full(architecture, tokens):
    with torch.no_grad():
        return build(architecture)(torch.tensor([tokens])).logits[0, -1]


@given(data=st.data(), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5), rows=st.integers(1, 4))
def test_merging_by_log_sum_exp_is_attention_over_all_slots(data, cuts, rows):
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    scale = data.draw(st.sampled_from([0.1, 1.0, 30.0]))
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64).float() * scale  # noqa: E731
    queries, keys, values = draw(2, rows, 4, 8), draw(2, sum(cuts), 2, 8), draw(2, sum(cuts), 2, 8)
    parts = [
        attention(queries, own_keys, own_values)
        for own_keys, own_values in zip(keys.split(cuts, 1), values.split(cuts, 1), strict=True)
    ]
    expected = torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), enable_gqa=True
    ).transpose(1, 2)
    # A score of thousands is rounded to some 1e-4 in float32, and so is what it weighs: both ways differ by that.
    rounding = 16 * torch.finfo(torch.float32).eps * max(float(sums.abs().max()) for _, sums in parts)
    assert torch.allclose(merged(parts), expected, atol=1e-4 * scale + rounding * float(values.abs().max()))


@pytest.mark.parametrize("architecture", MODELS)
@pytest.mark.parametrize("block", [90, 100, 45, 60])
def test_one_block_and_two_are_full_attention(architecture, block, loaded):
    reader = StarReader(loaded(architecture).forward, DOCUMENT, StarOptions(block=block), device=CPU)
    assert reader.count == -(-len(DOCUMENT) // block)
    for count in range(len(ANSWER) + 1):
        answer = ANSWER[:count]
        expected = full(architecture, [*DOCUMENT, *LOCAL, *answer])
        assert torch.allclose(last(reader, LOCAL, answer), expected, atol=2e-4)


@pytest.mark.parametrize("rows", [1, 64, 4096])
@pytest.mark.parametrize("block", [16, 30, 25])
def test_more_blocks_see_their_anchor_and_themselves(block, rows, loaded):
    model = build("llama")
    expected = block_by_block(model, block)
    reader = StarReader(loaded("llama").forward, DOCUMENT, StarOptions(block=block, rows=rows), device=CPU)
    assert torch.allclose(last(reader, LOCAL), expected, atol=2e-4)


@torch.no_grad()
def block_by_block(model, block):
    """Blocks one by one with transformers' own code, keys turned by its own rotation, then the query over all."""
    anchor = DOCUMENT[:block]
    layers = len(model.model.layers)
    keys, values = [[] for _ in range(layers)], [[] for _ in range(layers)]
    for start in range(0, len(DOCUMENT), block):
        before = anchor if start else []
        own = DOCUMENT[start : start + block]
        cache = DynamicCache()
        model(torch.tensor([[*before, *own]]), past_key_values=cache)
        at = torch.arange(start, start + len(own)) - torch.arange(len(before), len(before) + len(own))
        for number in range(layers):
            key, value = (getattr(cache.layers[number], kind)[:, :, len(before) :] for kind in ("keys", "values"))
            cosine, sine = model.model.rotary_emb(key, at[None])
            first, second = key.chunk(2, -1)
            keys[number].append(key * cosine[:, None] + torch.cat((-second, first), -1) * sine[:, None])
            values[number].append(value)
    past = DynamicCache()
    for number in range(layers):
        past.update(torch.cat(keys[number], 2), torch.cat(values[number], 2), number)
    positions = torch.arange(len(DOCUMENT), len(DOCUMENT) + len(LOCAL))[None]
    return model(torch.tensor([LOCAL]), past_key_values=past, position_ids=positions).logits[0, -1]


def test_blocks_that_share_positions_are_alike_wherever_they_stand(loaded):
    forward, block = loaded("llama").forward, 18
    parts = [DOCUMENT[start : start + block] for start in range(0, 90, block)]
    there = [*parts[0], *parts[1], *parts[2], *parts[3], *parts[4]]
    moved = [*parts[0], *parts[4], *parts[3], *parts[2], *parts[1]]
    options = StarOptions(block=block)
    got = [last(StarReader(forward, document, options, device=CPU, shared=True), LOCAL) for document in (there, moved)]
    assert torch.allclose(got[0], got[1], atol=1e-4)
    plain = [last(StarReader(forward, document, options, device=CPU), LOCAL) for document in (there, moved)]
    assert not torch.allclose(plain[0], plain[1], atol=1e-2)


def test_the_next_question_is_answered_as_if_it_were_the_first(loaded):
    forward = loaded("llama").forward
    reader = StarReader(forward, DOCUMENT, StarOptions(block=20), device=CPU)
    for local, answer in ((LOCAL, []), (LOCAL, ANSWER), ([*LOCAL[:4], 8, 9], []), ([*LOCAL[:4], 8, 9], ANSWER[:2])):
        fresh = StarReader(forward, DOCUMENT, StarOptions(block=20), device=CPU)
        assert torch.allclose(last(reader, local, answer), last(fresh, local, answer), atol=1e-4)


def test_a_model_with_sliding_windows_is_refused(loaded):
    with pytest.raises(SettingsError, match="sliding windows"):
        StarReader(loaded("mistral").forward, DOCUMENT, StarOptions(), device=CPU)
