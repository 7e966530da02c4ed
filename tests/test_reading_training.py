"""Training the pocket model to read documents."""

import io
import random
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from tokenizers import Tokenizer

from recipes.pocket.network import Packed
from recipes.reading.facts import KINDS, Writer
from recipes.reading.lessons import Lessons
from recipes.reading.train import Plan, Trainer, encoded
from stretto.local_engine.pocket import pocket_folder
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough

PLAN = Plan(steps=2, tokens=300, micro=300)


def drawn(seed):
    return random.Random(seed)  # noqa: S311 - no secrets


def hay(chance, size):
    return [f"{chance.choice('abcdef')} word. " for _ in range(size // 8)]


def trained(folder, plan=PLAN):
    trainer = Trainer(plan, pocket_folder(), folder, Lessons(hay, longest=120), dtype=torch.float32)
    trainer.run(Console(file=io.StringIO()))
    return trainer


def loss(trainer, packed, targets):
    with torch.no_grad():
        return float(trainer.network.losses(packed, targets).mean())


def test_a_run_goes_on_where_it_stopped(tmp_path):
    whole = trained(tmp_path / "whole").differences()
    trainer = Trainer(PLAN, pocket_folder(), tmp_path / "half", Lessons(hay, longest=120), dtype=torch.float32)
    trainer.step()
    trainer.save()
    resumed = trained(tmp_path / "half")
    assert resumed.number == 2
    for name, difference in resumed.differences().items():
        assert difference.abs().max() > 0
        assert torch.equal(difference, whole[name])


def test_what_is_learned_makes_a_lesson_likelier(tmp_path):
    plan = replace(PLAN, steps=6, warm_up=1, tokens=400)
    lesson = Lessons(hay, longest=120).draw(drawn(f"{plan.seed}: step 0"), 1.0)
    tokens, wanted = encoded(lesson, Tokenizer.from_file(str(pocket_folder() / "tokenizer.json")))
    packed = Packed.of([tokens])
    targets = torch.full_like(packed.tokens, -1)
    targets[: len(wanted)] = torch.tensor(wanted)
    trainer = Trainer(plan, pocket_folder(), tmp_path, Lessons(hay, longest=120), dtype=torch.float32)
    before = loss(trainer, packed, targets)
    trainer.run(Console(file=io.StringIO()))
    assert loss(trainer, packed, targets) < 0.8 * before


def test_a_checkpoint_of_other_weights_is_refused(tmp_path):
    trained(tmp_path)
    base = tmp_path / "base"
    base.mkdir()
    for file in pocket_folder().iterdir():
        (base / file.name).write_bytes(file.read_bytes())
    weights = bytearray((base / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (base / "model.safetensors").write_bytes(weights)
    with pytest.raises(SettingsError, match="belongs to other weights"):
        Trainer(PLAN, base, tmp_path, Lessons(hay), dtype=torch.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_no_word_that_is_kept_out_stands_in_a_lesson(kind):
    taught, kept = Writer(drawn(1)), Writer(drawn(2), held_out=True)
    words = {word for _ in range(300) for word in taught.fact(kind).about.split()}
    held = {word for _ in range(300) for word in kept.fact(kind).about.split()}
    assert held
    if kind in ("place", "amount"):  # colours and products; names of people are also drawn letter by letter
        assert not words & held
