import pytest
import torch

from stretto.local_engine.products import Halved, packed, product

halving = pytest.mark.skipif(
    torch.backends.quantized.engine not in {"x86", "fbgemm"},
    reason="this processor has no product with float16 weights",
)


def drawn(*shape, scale=0.02):
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(3))


@halving
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1e-3, 0.02, 300.0])
def test_a_weight_published_in_half_precision_loses_nothing(dtype, scale):
    weight = drawn(300, 200, scale=scale).to(dtype).float()
    weight[0, :3] = torch.tensor([0.0, 2.0**-30, -(2.0**-20)]) * weight.max()
    weight = weight.to(dtype).float()
    halved = packed(weight)
    assert isinstance(halved, Halved)
    assert torch.equal(halved.dense(), weight)


@halving
@pytest.mark.parametrize("rows", [1, 2, 7, 64, 130])
def test_rows_times_a_halved_weight_are_those_of_float32(rows):
    weight, given, bias = drawn(70, 600).bfloat16().float(), drawn(2, rows, 600, scale=1.0), drawn(70, scale=1.0)
    exact = (given.double() @ weight.double().T + bias.double()).float()
    torch.testing.assert_close(product(given, packed(weight), bias), exact, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(product(given, packed(weight), bias, rectified=True), exact.relu(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "weight",
    [
        drawn(30, 20),
        torch.zeros(30, 20),
        torch.full((3, 2), torch.inf),
        torch.full((3, 2), torch.nan),
        drawn(3, 2).double(),
    ],
    ids=["more digits than half precision has", "nothing but 0", "infinite", "no numbers", "float64"],
)
def test_other_weights_stay_as_they_are(weight):
    assert packed(weight) is weight
