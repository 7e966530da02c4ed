"""Numbers in few bits: as GGUF files hold them, and as weights are rounded."""

import gguf
import numpy as np
import pytest
import torch

from stretto.local_engine.kernels.block_kinds import BLOCK_KINDS
from stretto.local_engine.kernels.block_layout import Numbers, laid_out, read_back
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.model.quantised.blocks import Blocks
from stretto.local_engine.model.quantised.quantisation import IN_BLOCKS
from stretto.local_engine.model.quantised.rounding import rounded_to
from stretto.local_engine.model.quantised.stored import FORMS, taken_apart

OUTER, INNER = 37, 512


def stored(form):
    """A tensor as ggml stores it: random bytes, with scales that are no NaN."""
    draw, size = np.random.default_rng(7), FORMS[form].size
    group = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[form]][0]
    blocks = draw.integers(0, 256, (OUTER, INNER // group, size), np.uint8)
    places = {"Q6_K": [208], "Q8_0": [0], "Q4_0": [0], "Q5_0": [0]}.get(form, [0, 2])
    for at in places:
        scales = draw.normal(0, 0.02, blocks.shape[:2]).astype(np.float16)
        blocks[..., at : at + 2] = scales[..., None].view(np.uint8)
    return blocks.reshape(OUTER, -1)


def numbers_of(kind, outer=OUTER, inner=96):
    draw = np.random.default_rng(kind.number)
    scales = draw.normal(0, 0.1, (2, outer, inner // kind.group)).astype(np.float16)
    codes = draw.integers(0, 1 << kind.bits, (outer, inner), np.uint8)
    return Numbers(kind, codes, scales[0], scales[1] if kind.has_minima else None)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_hold_what_gguf_reads_in_the_file(form):
    rows = stored(form)
    held = Blocks.joined([taken_apart(form, rows)])
    expected = gguf.dequantize(rows, gguf.GGMLQuantizationType[form])
    rounding = 2e-3 * np.abs(expected).max() if form.endswith("_K") else 0  # scales of theirs are products
    assert np.abs(held.dense().numpy() - expected).max() <= rounding
    assert held.nbytes == FORMS[form].kind.size(OUTER, INNER)
    assert held.nbytes <= 1.15 * rows.nbytes * 48 / OUTER  # lines are filled up to whole panels


@pytest.mark.parametrize("kind", BLOCK_KINDS, ids=str)
def test_what_is_laid_out_is_read_back(kind):
    numbers = numbers_of(kind, 32)
    blocks = np.empty((2, 96 // kind.group, kind.nbytes), np.uint8)
    laid_out(numbers, blocks)
    codes = numbers.codes.view(np.int8).astype(np.float32) - kind.offset
    expected = codes * numbers.scales.astype(np.float32).repeat(kind.group, 1)
    if numbers.minima is not None:
        expected += numbers.minima.astype(np.float32).repeat(kind.group, 1)
    assert np.array_equal(read_back(kind, blocks).reshape(32, 96), expected)


@pytest.mark.parametrize(("how", "steps"), [("int8", 127), ("int4", 8)])
def test_rounded_weights_are_off_by_half_a_step_at_most(how, steps):
    weight = np.random.default_rng(1).normal(size=(48, 96)).astype(np.float32)
    weight[3, :32] = 0
    held = Blocks.joined([rounded_to(how, weight)]).dense().numpy()
    step = np.abs(weight).reshape(48, 3, 32).max(-1) / steps
    off = np.abs(held - weight).reshape(48, 3, 32).max(-1)
    assert (off <= step * (0.51 if how == "int8" else 2.01)).all()  # a smaller scale cuts the largest numbers
    assert not held[3, :32].any()
    squares = np.square(held - weight).mean() / np.square(weight).mean()
    assert squares < (5e-5 if how == "int8" else 1e-2)


@pytest.mark.parametrize("how", ["int8", "int4"])
def test_rounded_weights_are_rounded_to_themselves(how):
    """A model says the same before its code is compiled, from unpacked weights, and afterwards."""
    once = rounded_to(how, np.random.default_rng(1).normal(size=(48, 96)).astype(np.float32))
    twice = rounded_to(how, Blocks.joined([once]).dense().numpy())
    assert np.array_equal(once.codes, twice.codes)
    assert np.array_equal(once.scales, twice.scales)


def test_lines_of_joined_weights_are_found():
    held = Blocks.joined([numbers_of(BLOCK_KINDS[0], 32), numbers_of(BLOCK_KINDS[1])])
    dense = held.dense()
    assert dense.shape == (32 + OUTER, 96)
    numbers = torch.tensor([[0, 31, 32], [68, 15, 0]])
    assert torch.equal(held.rows(numbers), dense[numbers])


def test_groups_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match="40 inputs are not groups of 32"):
        rounded_to("int8", np.ones((16, 40), np.float32))


@pytest.fixture(scope="module")
def products():
    """Weights held in each way and in all of them joined."""
    assert compile_now(IN_BLOCKS)
    each = [Blocks.joined([numbers_of(kind)]) for kind in BLOCK_KINDS]
    return [*each, Blocks.joined([numbers_of(kind, 32) for kind in BLOCK_KINDS])]


def test_products_are_those_of_the_numbers(products):
    rows = torch.randn(5, 96, generator=torch.Generator().manual_seed(0))
    for held in products:
        exact = rows @ held.dense().T
        assert (held(rows) - exact).square().mean().sqrt() < 0.01 * exact.std()  # rows are rounded to 8 bits


def test_a_row_has_the_same_bits_whatever_rows_are_beside_it(products):
    rows = torch.randn(23, 96, generator=torch.Generator().manual_seed(0))
    for held in products:
        alone = torch.cat([held(row[None]) for row in rows])
        assert all(torch.equal(held(rows[:count]), alone[:count]) for count in (2, 3, 7, 16, 23))
