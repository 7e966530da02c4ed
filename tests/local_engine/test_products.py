import pytest
import torch

from stretto.local_engine.kernels import thread_team
from stretto.local_engine.kernels.compiling.compiled_parts import product as product_part
from stretto.local_engine.kernels.compiling.compiler import compile_now
from stretto.local_engine.kernels.panels import Layout, Panels, layout_for, narrowest
from stretto.local_engine.kernels.sharing import Sharing
from stretto.local_engine.kernels.vectors import PAIRED
from stretto.local_engine.model.forward.products import packed, product

TYPES = [torch.bfloat16, torch.float16, torch.float32]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    assert compile_now([product_part(kind) for kind in ("bfloat16", "float16", "float32", "pairs")])


def drawn(*shape, scale=0.02):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", TYPES)
def test_a_weight_is_held_in_the_type_it_was_published_in_and_loses_nothing(dtype):
    weight = drawn(300, 200).to(dtype).float()
    assert narrowest([weight, drawn(3, 2).bfloat16().float() if dtype == torch.bfloat16 else weight]) == dtype
    panels = packed(weight, Layout(dtype))
    assert isinstance(panels, Panels)
    assert panels.held.dtype == dtype
    assert torch.equal(panels.dense(), weight)


def test_pairs_of_bfloat16_lose_nothing_either():
    weight = drawn(300, 200).bfloat16()
    layout = layout_for([weight], paired=True)
    assert layout.paired
    assert torch.equal(packed(weight, layout).dense(), weight.float())


@pytest.mark.parametrize(
    "weights",
    [[drawn(32, 20).bfloat16().float()], [drawn(32, 20).half()], [drawn(32, 21).bfloat16()]],
    ids=["held in float32", "float16", "an odd number"],
)
def test_only_an_even_number_of_inputs_in_bfloat16_stands_in_pairs(weights):
    assert not layout_for(weights, paired=True).paired


@pytest.mark.skipif(not PAIRED, reason="this processor does not multiply bfloat16")
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 64, 131])
def test_pairs_are_multiplied_with_rows_rounded_to_bfloat16(rows):
    weight, given = drawn(70, 600).bfloat16(), drawn(rows, 600, scale=1.0)
    found = product(given, packed(weight, layout_for([weight])))
    exact = given.bfloat16().double() @ weight.double().T
    torch.testing.assert_close(found, exact.float(), rtol=1e-5, atol=1e-5)
    for number, row in enumerate(given):
        assert torch.equal(product(row[None], packed(weight, layout_for([weight])))[0], found[number])


def test_one_weight_of_more_digits_has_all_of_them_held_in_float32():
    assert narrowest([drawn(30, 20).bfloat16().float(), drawn(30, 20)]) == torch.float32
    assert narrowest([torch.full((3, 2), torch.nan)]) == torch.float32


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 64, 131])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_times_panels_are_those_of_float32(dtype, rows, threads, monkeypatch):
    weight, given, bias = drawn(70, 600).to(dtype).float(), drawn(2, rows, 600, scale=1.0), drawn(70, scale=1.0)
    exact = (given.double() @ weight.double().T + bias.double()).float()
    monkeypatch.setattr(Sharing, "parts", lambda _, __, most: most)
    monkeypatch.setattr(thread_team, "_WORK", 1)  # or nothing as small as this would be shared
    thread_team.limit_threads(threads)
    try:
        found = [
            product(given, packed(weight, Layout(dtype)), bias, rectified=rectified) for rectified in (False, True)
        ]
    finally:
        thread_team.limit_threads(0)
    torch.testing.assert_close(found[0], exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1], exact.relu(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
def test_a_row_is_the_same_to_the_bit_whatever_other_rows_there_are(dtype):
    weight, given = packed(drawn(80, 64).to(dtype).float(), Layout(dtype)), drawn(40, 64, scale=1.0)
    alone = torch.cat([product(row[None], weight) for row in given])
    for count in range(41):
        assert torch.equal(product(given[:count], weight), alone[:count])


def test_every_number_of_float16_is_widened_as_it_is():
    every = torch.arange(-(2**15), 2**15).short().view(torch.float16)
    found = product(torch.ones(1, 1), packed(every[:, None], Layout(torch.float16)))[0]
    torch.testing.assert_close(found, every.float(), rtol=0, atol=0, equal_nan=True)


def test_other_weights_stay_as_they_are():
    weight = drawn(3, 2).double()
    assert packed(weight, None) is weight
