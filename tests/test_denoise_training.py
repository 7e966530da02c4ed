"""Block diffusion and its distillation: what is trained, on a tiny network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from recipes.denoise.blocks import cut_to_block, drawn_noise, sees_clean, sees_noisy  # noqa: E402
from recipes.denoise.distil import Consistency, trajectory  # noqa: E402
from recipes.denoise.lessons import MIX, Lessons  # noqa: E402
from recipes.denoise.train import BlockTuning, block_settings  # noqa: E402
from recipes.denoise.writer import BlockWriter  # noqa: E402
from recipes.packing import Text, causal, pack, scores  # noqa: E402
from recipes.publish import publish  # noqa: E402
from recipes.stacked import rounded  # noqa: E402
from recipes.tuning import Ahead, TuningPlan, seeded  # noqa: E402
from stretto.local_engine.model.formats.differences import packed, unpacked  # noqa: E402
from stretto.local_engine.model.loading.load import read_model  # noqa: E402
from stretto.local_engine.model.loading.source import find_source  # noqa: E402
from stretto.local_engine.pocket import pocket_folder  # noqa: E402
from stretto.values.errors import SettingsError  # noqa: E402

pytestmark = pytest.mark.thorough

BLOCK, MASK, END = 4, 3, 2
PLAN = TuningPlan(steps=4, rows=2, length=64, seed=2, warm_up=2, held_out=2)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny causal model with the pocket model's tokenizer."""
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8192, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=1024, tie_word_embeddings=True, eos_token_id=END,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(pocket_folder() / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def lessons(base: Path) -> Lessons:
    return Lessons(base, BLOCK, PLAN.rows, PLAN.length, PLAN.seed, {**dict.fromkeys(MIX, 0.0), "fact": 1.0}, 2)


def tuning(kind: Any, base: Path, folder: Path, lessons: Lessons, steps: int = 2, **more: Any) -> Any:
    plan = TuningPlan(**{**vars(PLAN), "steps": steps})
    shifted = more.get("shifted", True)
    return kind(
        plan, base, folder / "run", folder / "out",
        ahead=Ahead(lessons, 0), held_out=lessons.held_out(2), settings=block_settings(base, BLOCK, shifted=shifted),
        **more,
    )  # fmt: skip


def block_tuning(base: Path, folder: Path, lessons: Lessons, steps: int = 2, *, shifted: bool = True) -> Any:
    return tuning(BlockTuning, base, folder, lessons, steps, block=BLOCK, mask=MASK, shifted=shifted)


def trained(run: Any, steps: int) -> Any:
    for _ in range(steps):
        run.note(run.step())
    return run


def some_batch(count: int = 3) -> dict[str, Any]:
    chance = seeded("batch")
    texts = []
    for number in range(count):
        tokens = tuple(chance.randrange(20, 8000) for _ in range(BLOCK * (2 + number)))
        texts.append(Text(tokens, 2 + number))
    batch = pack(iter(texts), 2, 6 * BLOCK)
    found = {name: torch.from_numpy(value) for name, value in batch.items()}
    return {name: value if value.is_floating_point() else value.long() for name, value in found.items()}


def test_texts_lie_behind_each_other_and_see_themselves_only():
    batch = some_batch()
    assert batch["texts"][0].tolist() == [*[0] * 8, *[1] * 12, *[-1] * 4]
    assert batch["positions"][0, :20].tolist() == [*range(8), *range(12)]
    assert (batch["weights"][0] > 0).tolist() == [*[False] * 2, *[True] * 6, *[False] * 3, *[True] * 9, *[False] * 4]
    visible = scores(causal(batch["texts"]), torch.float32)[0, 0] == 0
    assert visible[9].nonzero()[:, 0].tolist() == [8, 9]
    assert visible[22].nonzero()[:, 0].tolist() == [22]  # a place without a text


def test_rows_see_what_the_paper_says():
    texts = some_batch()["texts"]
    clean, noisy = (sees(texts, BLOCK, torch.float32)[:, 0] == 0 for sees in (sees_clean, sees_noisy))
    size = texts.shape[1]
    for row in range(len(texts)):
        for place in range(size):
            for other in range(size):
                same = bool(texts[row, place] == texts[row, other]) and texts[row, place] >= 0
                block, theirs = place // BLOCK, other // BLOCK
                assert clean[row, place, other] == ((same and theirs <= block) or place == other)
                assert noisy[row, place, other] == (same and theirs < block)
                assert noisy[row, place, size + other] == ((same and theirs == block) or place == other)


def test_each_block_of_an_answer_has_something_to_learn():
    batch = some_batch()
    noise = drawn_noise(batch, BLOCK, MASK, torch.Generator().manual_seed(1), copies=3, wholly=0.3)
    learned = (batch["weights"] > 0).repeat(3, 1)
    assert not (noise.masked & ~learned).any()
    assert (noise.tokens[noise.masked] == MASK).all()
    assert torch.equal(noise.tokens[~noise.masked], batch["tokens"].repeat(3, 1)[~noise.masked])
    in_blocks = learned.view(6, -1, BLOCK).any(-1)
    assert torch.equal(noise.masked.view(6, -1, BLOCK).any(-1), in_blocks)


def test_an_answer_is_filled_up_with_its_end():
    whole = cut_to_block([5, 6, 7], [8, 9, END], BLOCK, end=END, limit=None, longest=99)
    assert whole == (5, 6, 7, 8, 9, END, END, END)
    cut = cut_to_block([5, 6, 7], [8, 9, 10, 11, 12, 13], BLOCK, end=END, limit=2, longest=99)
    assert cut == (5, 6, 7, 8, 9, 10, 11, 12)


@pytest.mark.parametrize("shifted", [True, False])
def test_training_sees_what_writing_sees(base: Path, tmp_path: Path, lessons: Lessons, shifted: bool):
    """What is said of a masked block of packed texts is what the loop wrote block by block."""
    run = block_tuning(base, tmp_path, lessons, shifted=shifted)
    run.export(tmp_path / "out")
    writer = BlockWriter(tmp_path / "out")
    written = writer.answers(["How do bees dance?"], 11, threshold=0.0)[0]  # all of a block at once
    prompt = writer.tokenizer.encode(
        "<|begin|><|user|>\nHow do bees dance?<|end|>\n<|assistant|>\n", add_special_tokens=False
    ).ids
    whole = cut_to_block(prompt, written.ids, BLOCK, end=END, limit=None, longest=64)
    batch = run.placed(pack(iter([Text((5, 6, 7, 8), 2), Text(whole, len(prompt))]), 1, 64))
    noise = drawn_noise(batch, BLOCK, MASK, run.chance, copies=1, wholly=1.0)
    weights = run.learned.weights()
    with torch.no_grad():
        clean, keys = run.read_clean(weights, batch)
        noisy = run.read_noisy(weights, batch, keys, noise.tokens)
        said = run.predicting(clean, noisy, noise.masked) @ weights.embed.T
    said[:, MASK] = -torch.inf
    own = noise.masked[0].nonzero()[:, 0] >= 4
    assert said[own].argmax(-1).tolist()[: len(written.ids)] == written.ids
    assert written.forwards == written.commits


def test_a_run_goes_on_exactly_from_its_checkpoint(base: Path, tmp_path: Path, lessons: Lessons):
    whole = trained(block_tuning(base, tmp_path / "whole", lessons, 4), 4)
    half = trained(block_tuning(base, tmp_path / "half", lessons, 4), 2)
    half.save()
    again = block_tuning(base, tmp_path / "half", lessons, 4)
    assert again.number == 2
    trained(again, 2)
    for name, value in whole.learned.named_parameters():
        assert torch.equal(value, dict(again.learned.named_parameters())[name]), name
    assert again.report().startswith("step 4")


def test_differences_are_computed_with_as_they_are_kept():
    numbers = torch.randn(3, 64)
    assert torch.allclose(rounded(numbers).flatten(), unpacked(*packed(numbers)), atol=2e-3)
    learned = numbers.clone().requires_grad_()
    (rounded(learned) * 2).sum().backward()
    assert (learned.grad == 2).all()


def test_a_trained_model_is_published_as_what_it_changes(base: Path, tmp_path: Path, lessons: Lessons):
    run = trained(block_tuning(base, tmp_path, lessons), 2)
    run.save()
    size = publish(tmp_path / "out", tmp_path / "small", base)
    assert size < 0.3 * (base / "model.safetensors").stat().st_size
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert (config["diffusion"], config["block_size"], config["mask_token_id"]) == ("block-causal", BLOCK, MASK)
    model, tokenizer, _ = read_model(find_source(f"local:{tmp_path / 'small'}"), torch.float32, trust_remote_code=False)
    assert tokenizer.mask_token_id == MASK
    whole = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(model.state_dict()[name], value) for name, value in whole.items())
    learned = run.learned.differences()
    name = "model.layers.1.mlp.up_proj.weight"
    exact = load_file(base / "model.safetensors")[name] + learned[name]
    assert (whole[name] - exact).abs().max() <= 0.6 * learned[name].abs().max() / 7

    config["changes_of"] = "elsewhere"
    (tmp_path / "small" / "config.json").write_text(json.dumps(config))
    with pytest.raises(SettingsError, match="kept as changes of the one in"):
        read_model(find_source(f"local:{tmp_path / 'small'}"), torch.float32, trust_remote_code=False)


def distilling(base: Path, folder: Path, lessons: Lessons) -> Any:
    start = folder / "start"
    trained(block_tuning(base, folder / "first", lessons), 1).export(start)
    return tuning(Consistency, base, folder, lessons, block=BLOCK, mask=MASK, shifted=True, start=start)


def test_a_teacher_writes_each_block_from_its_likeliest_token_on(base: Path, tmp_path: Path, lessons: Lessons):
    run, batch = distilling(base, tmp_path, lessons), some_batch()
    learned = batch["weights"] > 0
    path = trajectory(run, run.teacher, batch, learned)
    assert (path.when[learned] >= 0).all()
    assert (path.when[~learned] == -1).all()
    assert torch.equal(path.tokens[~learned], batch["tokens"][~learned])
    assert not (path.tokens[learned] == MASK).any()
    first = learned & (path.when == 0)
    with torch.no_grad():
        clean, keys = run.read_clean(run.teacher, batch)
        noisy = run.read_noisy(run.teacher, batch, keys, batch["tokens"].masked_fill(learned, MASK))
        own = run.predicting(clean, noisy, first) @ run.teacher.embed.T
    own[:, MASK] = -torch.inf
    assert torch.equal(own.argmax(-1), path.tokens[first])
    assert torch.allclose(path.logprobs[first[learned]].float().exp(), own.float().softmax(-1), atol=0.01)


def test_distillation_changes_the_student_and_not_the_teacher(base: Path, tmp_path: Path, lessons: Lessons):
    run = distilling(base, tmp_path, lessons)
    before = [value.clone() for value in run.teacher.out]
    start = {name: value.clone() for name, value in run.learned.named_parameters()}
    trained(run, 1)
    assert all(torch.equal(one, other) for one, other in zip(before, run.teacher.out, strict=True))
    assert not all(torch.equal(start[name], value) for name, value in run.learned.named_parameters())
    assert run.measured() > 0
