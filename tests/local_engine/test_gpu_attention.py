"""On a GPU, new shapes of attention cost nothing: what cuDNN would plan for is counted by a GPU that is not there."""

import pytest
import torch
from pretend_gpu import CUDA, PretendGPU, afar, move_to_pretend_gpu, on_pretend_gpu
from tiny_models import build
from torch.nn.functional import scaled_dot_product_attention

from stretto.local_engine.draft_tree import ROOT, DraftTree
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.forward import gpu_attention
from stretto.local_engine.model.forward.flatten import flatten
from stretto.local_engine.model.forward.gpu_attention import attend
from stretto.local_engine.model.forward.llama import LlamaForward
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.forward.transformers_forward import TransformersForward
from stretto.local_engine.model.loading.load import prepare

pytestmark = pytest.mark.thorough

TEXT = [(11 * place + 3) % 390 + 5 for place in range(9)]


@pytest.fixture(autouse=True)
def untried():
    gpu_attention._runs.cache_clear()
    yield
    gpu_attention._runs.cache_clear()


@pytest.fixture(scope="module")
def host(tokenizer):
    return prepare("local:llama", build("llama"), tokenizer, packed=False)


def far(architecture, host, dtype=torch.bfloat16):
    """The lean forward of a Llama, or transformers' own code."""
    if architecture == "llama":
        return on_pretend_gpu(build("llama"), host, dtype).forward
    return TransformersForward(move_to_pretend_gpu(build(architecture).to(dtype).eval()))


def drafts(forward, device, steps=30):
    """Reads two prompts, and takes steps whose drafts grow and shrink; the logits of each, without padding."""
    cache, texts, said = KeyValueCache(2), [[*TEXT], [*TEXT[3:], 7, 8, 9]], []
    ids = torch.tensor(texts, device=device)
    forward(Rows(ids, torch.arange(9, device=device).expand(2, 9), 9), cache, torch.tensor([8], device=device))
    for step in range(steps):
        trees = [DraftTree(), DraftTree()]
        for number, (text, tree) in enumerate(zip(texts, trees, strict=True)):
            text.append((7 * step + number) % 390 + 5)
            parent = ROOT
            for place in range((step * 5 + number) % 7):
                parent = tree.add(20 * place + step, parent if place % 3 else ROOT, 0.5)
        rows = flatten(texts, trees, device)
        logits = forward(rows, cache, torch.arange(rows.tokens.shape[1], device=device))
        said += [logits[number, : 1 + len(tree)].float().cpu() for number, tree in enumerate(trees)]
    return said


@pytest.mark.parametrize("architecture", ["llama", "qwen3 sliding", "gemma3", "gpt2"])
def test_no_shape_of_a_step_in_half_precision_makes_cudnn_plan(architecture, host):
    with torch.inference_mode(), PretendGPU() as gpu:
        drafts(far(architecture, host), CUDA)
        assert not gpu.planned
        assert gpu.counts["memory-efficient attention"] > 60


def test_torchs_own_choice_would_plan_for_each_shape():
    with PretendGPU() as gpu:
        for slots in range(10, 20):
            queries, keys = afar(torch.ones(1, 2, 1, 8).bfloat16()), afar(torch.ones(1, 2, slots, 8).bfloat16())
            scaled_dot_product_attention(queries, keys, keys)
        assert len(gpu.planned) == 10


def test_what_is_chosen_for_us_is_a_setting_of_the_process_and_stays_as_it_is(host):
    before = torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()
    with torch.inference_mode(), PretendGPU():
        drafts(far("llama", host), CUDA, steps=2)
        assert (torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()) == before


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "gpt2"])
def test_steps_give_the_logits_that_they_give_with_torchs_choice(architecture, host):
    with torch.inference_mode():
        model = build(architecture).bfloat16().eval()
        plain = LlamaForward(model) if architecture == "llama" else TransformersForward(model)
        expected = drafts(plain, torch.device("cpu"))
        with PretendGPU():
            found = drafts(far(architecture, host), CUDA)
    for ours, theirs in zip(found, expected, strict=True):
        assert float((ours - theirs).abs().mean() / theirs.std()) < 0.05, "rounding of bfloat16"


def test_in_float32_torch_chooses(host):
    with torch.inference_mode(), PretendGPU() as gpu:
        drafts(far("llama", host, torch.float32), CUDA, steps=3)
        assert not gpu.planned
        assert gpu.counts["memory-efficient attention"] == 0


@pytest.mark.parametrize("slots", [1, 7, 8, 21, 64])
@pytest.mark.parametrize("shared", [True, False], ids=["one mask for all rows", "a mask for each row"])
def test_masks_of_any_length_are_laid_out_as_the_kernel_reads_them(slots, shared):
    queries, keys = torch.randn(2, 2, 3, 16).bfloat16(), torch.randn(2, 2, slots, 16).bfloat16()
    mask = torch.zeros(2, 1, 1 if shared else 3, slots).bfloat16()
    mask[1, :, :, slots // 2 + 1 :] = -torch.inf
    expected = scaled_dot_product_attention(queries, keys, keys, attn_mask=mask)
    with torch.inference_mode(), PretendGPU() as gpu:
        found = attend(*map(afar, (queries, keys, keys, mask))).cpu()
        assert gpu.counts["memory-efficient attention"] == 2, "it was tried once before"
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


def test_heads_of_a_width_that_the_kernel_cannot_read_are_left_to_torch():
    queries = torch.randn(1, 2, 3, 20).bfloat16()
    with torch.inference_mode(), PretendGPU() as gpu:
        found = attend(*map(afar, (queries, queries, queries)), None).cpu()
        assert gpu.counts["memory-efficient attention"] == 0
    torch.testing.assert_close(found, scaled_dot_product_attention(queries, queries, queries))


def no_kernel(*_, **__):
    raise RuntimeError("no kernel image is available for execution on the device")


def wrong_kernel(queries, *_, **__):
    return queries.clone()


@pytest.mark.parametrize(("kernel", "words"), [(no_kernel, "no kernel image"), (wrong_kernel, "is off by")])
def test_where_the_kernel_fails_torch_chooses_and_one_warning_says_so(kernel, words, monkeypatch, caplog):
    monkeypatch.setattr(gpu_attention, "_kernel", kernel)  # the pretended GPU has one that works
    queries = torch.randn(1, 2, 3, 16).bfloat16()
    expected = scaled_dot_product_attention(queries, queries, queries)
    with torch.inference_mode(), PretendGPU():
        for _ in range(3):
            found = attend(*map(afar, (queries, queries, queries)), None).cpu()
            torch.testing.assert_close(found, expected)
    (record,) = caplog.records
    assert words in record.message
