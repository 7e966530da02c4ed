"""Block diffusion, its distillation and the I-DLM adapter: what is trained, on a tiny network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from recipes.denoise.blocks import Blocked, batch_of, cut_to_block, seen  # noqa: E402
from recipes.denoise.distil import Consistency, trajectory  # noqa: E402
from recipes.denoise.introspect import Introspection  # noqa: E402
from recipes.denoise.lessons import MIX, Lessons  # noqa: E402
from recipes.denoise.strides import Strides, strides_seen  # noqa: E402
from recipes.denoise.train import BlockTuning, block_settings, states  # noqa: E402
from recipes.denoise.writer import BlockWriter  # noqa: E402
from recipes.publish import publish  # noqa: E402
from recipes.tuning import Ahead, TuningPlan, seeded  # noqa: E402
from stretto.errors import ModelNotFoundError  # noqa: E402
from stretto.local_engine.model.low_rank import read_low_rank  # noqa: E402
from stretto.local_engine.model.source import find_source  # noqa: E402
from stretto.local_engine.model.weights import read_model  # noqa: E402
from stretto.local_engine.pocket import FURTHER_MODELS, MODEL_FOLDER  # noqa: E402

BLOCK, MASK, END = 4, 3, 2
PLAN = TuningPlan(steps=4, tokens=300, micro=400, seed=2, warm_up=2, held_out=2)


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
        shutil.copyfile(MODEL_FOLDER / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def lessons(base: Path) -> Lessons:
    return Lessons(base, BLOCK, PLAN.tokens, PLAN.micro, PLAN.seed, {**dict.fromkeys(MIX, 0.0), "fact": 1.0}, 2)


def tuning(kind: Any, base: Path, folder: Path, lessons: Lessons, steps: int = 2, **more: Any) -> Any:
    plan = TuningPlan(**{**vars(PLAN), "steps": steps})
    return kind(
        plan, base, folder / "run", folder / "out",
        ahead=Ahead(lessons, 0), held_out=lessons.held_out(2), settings=block_settings(base, BLOCK), **more,
    )  # fmt: skip


def trained(run: Any, steps: int) -> Any:
    for _ in range(steps):
        run.note(run.step())
    return run


def some_batch(count: int = 3) -> dict[str, Any]:
    chance = seeded("batch")
    texts = []
    for number in range(count):
        tokens = tuple(chance.randrange(20, 8000) for _ in range(BLOCK * (4 + number)))
        texts.append(Blocked(tokens, 5 + number))
    return {name: torch.from_numpy(value) for name, value in batch_of(texts, BLOCK, MASK, chance).items()}


def test_rows_see_what_the_paper_says():
    batch = some_batch()
    visible = seen(batch)[:, 0]
    for text, own in enumerate(visible):
        rows = list(zip(batch["blocks"][text].tolist(), batch["noisy"][text].tolist(), strict=True))
        for row, (block, noisy) in enumerate(rows):
            for column, (other, also_noisy) in enumerate(rows):
                if block < 0 or other < 0:
                    wanted = row == column
                elif noisy:
                    wanted = other == block if also_noisy else other < block
                else:
                    wanted = not also_noisy and other <= block
                assert bool(own[row, column]) == wanted


def test_each_block_has_something_to_learn_and_counts_alike():
    batch = some_batch()
    for text in range(3):
        for block in batch["blocks"][text][batch["noisy"][text]].unique():
            rows = (batch["blocks"][text] == block) & batch["noisy"][text]
            masked = rows & (batch["targets"][text] >= 0)
            assert (batch["tokens"][text][masked] == MASK).all()
            learned = rows & batch["learned"][text]
            assert masked.any()
            assert not (masked & ~learned).any()
            assert batch["weights"][text][masked].sum() == pytest.approx(float(learned.sum()))


def test_an_answer_is_filled_up_with_its_end():
    assert cut_to_block([5, 6, 7], [8, 9, END], BLOCK, end=END, limit=None, longest=99) == (
        5,
        6,
        7,
        8,
        9,
        END,
        END,
        END,
    )
    assert cut_to_block([5, 6, 7], [8, 9, 10, 11, 12, 13], BLOCK, end=END, limit=2, longest=99) == (
        *(5, 6, 7, 8, 9, 10, 11, 12),
    )


def test_training_sees_what_writing_sees(base: Path, tmp_path: Path, lessons: Lessons):
    """The logits of a masked block in the packed rows are those of the loop that writes block by block."""
    run = tuning(BlockTuning, base, tmp_path, lessons)
    run.export(tmp_path / "out")
    writer = BlockWriter(tmp_path / "out", model=run.model.eval())
    written = writer.answers(["How do bees dance?"], 11, threshold=2.0)[0]
    prompt = writer.tokenizer.encode(
        "<|begin|><|user|>\nHow do bees dance?<|end|>\n<|assistant|>\n", add_special_tokens=False
    ).ids
    whole = cut_to_block(prompt, written.ids, BLOCK, end=END, limit=None, longest=1024)
    known = list(whole)
    first = len(prompt) // BLOCK * BLOCK
    for start in range(first, len(whole) - BLOCK, BLOCK):
        waiting = list(range(max(start, len(prompt)), start + BLOCK))
        row = [token if at not in waiting else MASK for at, token in enumerate(known[start : start + BLOCK], start)]
        order = []
        while MASK in row:
            batch = batch_of([Blocked(whole, len(prompt))], BLOCK, MASK, seeded("any"))
            rows = {name: torch.from_numpy(value) for name, value in batch.items()}
            own = rows["noisy"][0] & (rows["blocks"][0] == start // BLOCK)
            rows["tokens"][0, own] = torch.tensor(row)
            with torch.no_grad():
                logits = run.model.lm_head(states(run.model, rows, seen(rows), own[None])).float()
            logits[:, MASK] = -torch.inf
            sure, chosen = logits.softmax(-1).max(-1)
            best = max((at for at in range(BLOCK) if row[at] == MASK), key=lambda at: float(sure[at]))
            row[best] = int(chosen[best])
            order.append(best)
        assert row == known[start : start + BLOCK]
    assert written.forwards >= len(written.ids)


def test_a_run_goes_on_exactly_from_its_checkpoint(base: Path, tmp_path: Path, lessons: Lessons):
    whole = trained(tuning(BlockTuning, base, tmp_path / "whole", lessons, 4), 4)
    half = trained(tuning(BlockTuning, base, tmp_path / "half", lessons, 4), 2)
    half.save()
    again = tuning(BlockTuning, base, tmp_path / "half", lessons, 4)
    assert again.number == 2
    trained(again, 2)
    for name, value in whole.own_state().items():
        assert torch.equal(value, again.own_state()[name]), name
    assert again.report().startswith("step 4")


def test_a_trained_model_is_published_small_and_read_again(base: Path, tmp_path: Path, lessons: Lessons):
    run = trained(tuning(BlockTuning, base, tmp_path, lessons), 1)
    run.save()
    size = publish(tmp_path / "out", tmp_path / "small")
    assert size < 0.6 * (tmp_path / "out" / "model.safetensors").stat().st_size
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert (config["diffusion"], config["block_size"], config["mask_token_id"]) == ("block-causal", BLOCK, MASK)
    model, tokenizer, _ = read_model(find_source(f"local:{tmp_path / 'small'}"), torch.float32, trust_remote_code=False)
    assert tokenizer.mask_token_id == MASK
    for name, value in run.own_state().items():
        step = value.abs().amax(-1, keepdim=True) / 127
        assert ((model.state_dict()[name] - value).abs() <= 1.1 * step + 0.01 * value.abs()).all(), name


def test_missing_weights_are_told_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(FURTHER_MODELS, "pocket-diffusion", tmp_path)
    with pytest.raises(ModelNotFoundError, match="weights of local:pocket-diffusion are missing"):
        find_source("local:pocket-diffusion")


def test_a_teacher_writes_each_block_from_its_likeliest_token_on(base: Path, tmp_path: Path, lessons: Lessons):
    run = tuning(Consistency, base, tmp_path, lessons, block=BLOCK, mask=MASK)
    batch = some_batch()
    path = trajectory(run.teacher, batch, batch["learned"], MASK, BLOCK)
    assert (path.when[batch["learned"]] >= 0).all()
    assert (path.when[~batch["learned"]] == -1).all()
    assert torch.equal(path.tokens[~batch["learned"]], batch["tokens"][~batch["learned"]])
    assert not (path.tokens[batch["learned"]] == MASK).any()
    first = batch["learned"] & (path.when == 0)
    masked = {**batch, "tokens": batch["tokens"].masked_fill(batch["learned"], MASK)}
    with torch.no_grad():
        own = run.teacher.lm_head(states(run.teacher, masked, seen(masked), first)).float()
    own[:, MASK] = -torch.inf
    assert torch.equal(own.argmax(-1), path.tokens[first])
    said = path.said[first[batch["learned"]]].float()
    assert torch.allclose(said.exp(), own.softmax(-1), atol=0.01)


def test_distillation_changes_the_student_and_not_the_teacher(base: Path, tmp_path: Path, lessons: Lessons):
    run = tuning(Consistency, base, tmp_path, lessons, block=BLOCK, mask=MASK)
    before = {name: value.clone() for name, value in run.teacher.named_parameters()}
    trained(run, 1)
    assert all(torch.equal(before[name], value) for name, value in run.teacher.named_parameters())
    assert not all(torch.equal(before[name], value) for name, value in run.own_state().items())
    assert run.measured() > 0


def test_an_idlm_adapter_leaves_the_models_own_rows_as_they_are(base: Path, tmp_path: Path, lessons: Lessons):
    strides = Strides(base, 1, 200, 600, 2, lessons.mix, 2, 3)
    run = tuning(Introspection, base, tmp_path, strides, rank=4, masks=3, mask=MASK)
    weights = load_file(base / "model.safetensors")
    held = {name: torch.from_numpy(value) for name, value in run.held_out[0].items()}
    before = run.measured()
    trained(run, 2)
    clean = ~held["noisy"] & (held["anchors"] >= 0)
    plain = transformers.LlamaForCausalLM.from_pretrained(base)
    for text in range(len(clean)):
        ids = held["tokens"][text][clean[text]]
        run._rows = held["noisy"][:, :, None].float()
        with torch.no_grad():
            own = states(run.model, held, strides_seen(held), clean)[clean[:text].sum() :][: len(ids)]
            wanted = plain.model(ids[None]).last_hidden_state[0]
        assert torch.allclose(own, wanted, atol=1e-5)
    assert run.measured() != before
    kept = {name.replace(".base", ""): value for name, value in run.model.state_dict().items()}
    assert all(torch.equal(kept[name], value) for name, value in weights.items())


def test_an_idlm_adapter_is_written_as_peft_does(base: Path, tmp_path: Path, lessons: Lessons):
    strides = Strides(base, 1, 200, 600, 2, lessons.mix, 2, 3)
    run = trained(tuning(Introspection, base, tmp_path, strides, rank=4, masks=3, mask=MASK), 1)
    run.save()
    adapter = read_low_rank(tmp_path / "out")
    assert adapter is not None
    config = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert (config["r"], config["block_size"], config["mask_token_id"]) == (4, 3, MASK)
