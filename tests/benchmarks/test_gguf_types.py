"""K types are written as gguf reads them."""

import gguf
import numpy as np
import pytest
from gguf_types import INSTEAD, quantised

NUMBERS = np.random.default_rng(1).normal(size=(8, 512)).astype(np.float32)


@pytest.mark.parametrize(("form", "plain"), [("Q4_K", "Q4_1"), ("Q5_K", "Q5_1"), ("Q6_K", "Q5_1")])
def test_numbers_come_back_as_near_as_from_a_plain_type(form, plain):
    data, kind = quantised(NUMBERS, form)
    assert kind.name == form
    own = np.square(gguf.dequantize(data, kind) - NUMBERS).mean()
    other = np.square(gguf.dequantize(*quantised(NUMBERS, plain)) - NUMBERS).mean()
    assert own < 1.05 * other


def test_lines_that_are_no_whole_blocks_take_what_llamacpp_takes():
    assert {form: quantised(NUMBERS[:, :288], form)[1].name for form in INSTEAD} == INSTEAD
