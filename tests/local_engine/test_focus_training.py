"""The recipe of focus reading, on tiny models; then reading with what it trained."""

import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import build

from recipes.focus.losses import chunks_of, lesson_losses, lookup_losses
from recipes.focus.needles import Haystack, Lessons
from recipes.focus.train import LOSSES, Plan, Trainer, main
from recipes.reading.lessons import NOTHING
from stretto.local_engine.model.adapters.adapter_files import FOCUS_FILE, READING_FILE, fingerprint
from stretto.local_engine.model.cache.kv_cache import KeyValueCache
from stretto.local_engine.model.formats.differences import reading_change, write_differences
from stretto.local_engine.model.forward.rows import Rows
from stretto.local_engine.model.loading.load import load_model, prepare
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.research.focus.changed_layers import attention
from stretto.local_engine.research.focus.focus import FocusReader
from stretto.local_engine.research.focus.focus_adapter import FocusAdapter, new_tensors, read_focus
from stretto.local_engine.serving.long_prompts import FocusOptions
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough

CPU = torch.device("cpu")
PLAN = Plan(steps=30, rank=8, chunk=96, appended=48, rate=0.03)
HAY = ["The bicycle needs oil, air and a dry place.", "Grüße aus 東京.", "One two three, four and five."]


def hay(chance, ease):
    return chance.choice(HAY)


def tiny(architecture, tokenizer):
    return prepare(f"local:{architecture}", build(architecture), tokenizer, packed=False)


def lessons_of(model, losses=LOSSES):
    return Lessons(Haystack(model, hay), losses, PLAN.chunk, PLAN.appended, tokens=400, total=40)


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "mistral"])
def test_what_is_trained_is_what_the_reader_computes(architecture, tokenizer):
    model = tiny(architecture, tokenizer)
    generator = torch.Generator().manual_seed(2)
    adapter = FocusAdapter.of(
        {
            name: torch.randn(each.shape, generator=generator) * 0.03
            for name, each in new_tensors(model.forward, 4).items()
        }
    )
    lesson = lessons_of(model).draw(random.Random(5), ease=0.5)  # noqa: S311 - chance, not secrets
    count, length = len(lesson.chunks), len(lesson.chunks[0])
    lesson = replace(lesson, ranks=tuple(range(count)), total=count)  # no chunk stands for others
    chosen = [[job.learned, len(job.tokens) - 1] for job in lesson.jobs]
    found = lesson_losses(model.forward, model.forward, adapter, lesson, chosen)
    for job, wanted, (targets, logits) in zip(lesson.jobs, chosen, found, strict=True):
        head = len(lesson.head)
        options = FocusOptions(chunk=length - head, overlap=0, appended=job.appended)
        document = [token for chunk in lesson.chunks for token in chunk[head:]]
        reader = FocusReader(model.forward, adapter, document, options, device=CPU, head=lesson.head)
        for row, place in enumerate(wanted):
            assert targets[row] == job.tokens[place]
            with torch.inference_mode():
                *_, expected = reader.read(job.tokens[: job.learned], job.tokens[job.learned : place])
            assert torch.allclose(logits[row], expected, atol=3e-4), (job.loss, place)


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
def test_candidates_that_were_not_trained_say_what_the_frozen_model_says_behind_their_chunk(architecture, tokenizer):
    model = tiny(architecture, tokenizer)
    adapter = FocusAdapter.of(new_tensors(model.forward, None))
    lesson = lessons_of(model).draw(random.Random(8))  # noqa: S311 - chance, not secrets
    assert len(lesson.lookups) > 1
    found = lookup_losses(model.forward, model.forward, adapter, lesson, chunks_of(model.forward, lesson))
    assert sum(len(wanted) for wanted, _ in found) == len(lesson.lookups)
    for wanted, logits in found:
        for row, said in zip(wanted.tolist(), logits, strict=True):
            (job,) = (each for each in lesson.lookups if [*each.tokens[slice(*each.recalled)]] == row)
            tokens = [*lesson.chunks[job.source], *job.tokens[: job.recalled[1] - 1]]
            ids, last = torch.tensor([tokens]), len(tokens) - len(row)
            rows = Rows(ids, torch.arange(len(tokens))[None], len(tokens))
            expected = model.forward(rows, KeyValueCache(1), torch.arange(last, len(tokens)))[0]
            assert torch.allclose(said, expected, atol=3e-4)
            assert model.tokenizer.decode(row) in model.tokenizer.decode(lesson.chunks[job.source])


def test_a_candidate_that_stands_for_others_counts_as_often_as_they_would():
    generator = torch.Generator().manual_seed(1)
    queries, keys, values = (torch.randn(1, 3, heads, 8, generator=generator) for heads in (4, 2, 2))
    bias = torch.tensor([1.0, 5.0, 2.0]).log().expand(3, -1)
    often = [0, 1, 1, 1, 1, 1, 2, 2]
    expected, _ = attention(queries, keys[:, often], values[:, often])
    assert torch.allclose(attention(queries, keys, values, bias=bias)[0], expected, atol=1e-5)


def test_every_lesson_has_every_loss_and_its_needles(tokenizer):
    model = tiny("llama", tokenizer)
    lessons, chance = replace(lessons_of(model), chunk=256), random.Random(4)  # noqa: S311 - chance, not secrets
    text = model.tokenizer.decode
    sizes, asked, absent = set(), set[str](), 0
    for number in range(60):
        lesson = lessons.draw(chance, ease=1 - number / 60)
        sizes.add(len(lesson.chunks[0]))
        assert {job.loss for job in lesson.jobs} >= {"repetition", "continuation"}
        assert number < 20 or "question" in {job.loss for job in lesson.jobs}
        assert len({len(chunk) for chunk in lesson.chunks}) == 1
        assert len(set(lesson.ranks)) == len(lesson.chunks)
        assert list(lesson.ranks) == sorted(lesson.ranks)
        assert lesson.ranks[-1] < lesson.total
        for job in lesson.jobs:
            assert 0 < job.learned < len(job.tokens)
            if job.loss == "question":
                said = text(job.tokens[job.learned :], skip_special_tokens=True)
                held = [said in text(chunk) for chunk in lesson.chunks]
                assert held[job.source] if job.source >= 0 else not any(held)
                assert (said == NOTHING) == (job.source < 0) == (not job.recalled[1])
                absent += job.source < 0
                asked.add(text(job.tokens[: job.learned]).rpartition("\n\n")[2].split()[0])
    assert len(sizes) > 1
    assert 0 < absent < 60
    assert asked > {"What", "Where", "Tell"}


class Same:
    """Gives one lesson again and again."""

    def __init__(self, lessons):
        self.lesson = lessons.draw(random.Random(1), ease=1.0)  # noqa: S311 - chance, not secrets

    def draw(self, chance, ease):  # noqa: ARG002 - as `Lessons` does
        return self.lesson


def test_it_learns_and_goes_on_where_it_stopped(tokenizer, tmp_path):
    model = tiny("llama", tokenizer)
    lessons = Same(lessons_of(model))
    whole, half = (Trainer(PLAN, model, lessons, tmp_path / name, base="weights") for name in ("whole", "half"))
    first = whole.step()
    while whole.number < 30:
        last = whole.step()
    assert sum(last.loss.values()) < 0.8 * sum(first.loss.values())
    while half.number < 12:
        half.step()
    half.save()
    rest = Trainer(PLAN, model, lessons, tmp_path / "half", base="weights")
    assert rest.number == 12
    while rest.number < whole.number:
        rest.step()
    for name, tensor in whole.tensors.items():
        assert torch.equal(tensor, rest.tensors[name]), name
    with pytest.raises(SettingsError, match="belongs to other weights"):
        Trainer(PLAN, model, lessons, tmp_path / "half", base="others")


def test_the_command_writes_an_adapter_for_the_folder_it_was_given(tokenizer, tmp_path, capsys):
    folder, source = tmp_path / "model", tmp_path / "texts"
    build("llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    source.mkdir()
    name = f"local:{folder}"
    base = [name, "--folder", str(tmp_path / "run"), "--steps", "2", "--threads", "1", "--chunk", "96", "--rank", "2"]
    with pytest.raises(SystemExit, match="holds no text"):
        main([*base, "--texts", str(source)])
    (source / "bicycle.txt").write_text("The bicycle needs oil, air and a dry place.\n" * 9)
    main([*base, "--texts", str(source)])
    assert "wrote" in capsys.readouterr().out
    model = load_model(find_source(name), dtype="float32")
    adapter = read_focus(folder / FOCUS_FILE, fingerprint(folder, reading=True), name, model.forward, CPU)
    assert (adapter.chunk, adapter.appended) == (96, 64)
    assert any(bool(layer.output.outer.any()) for layer in adapter.layers)


def test_an_adapter_is_trained_over_the_sum_with_the_adapter_for_reading_and_belongs_to_both(tokenizer, tmp_path):
    folder, texts = tmp_path / "model", tmp_path / "texts"
    build("llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    texts.mkdir()
    (texts / "bicycle.txt").write_text("The bicycle needs oil, air and a dry place.\n" * 9)
    name, weights = f"local:{folder}", load_file(folder / "model.safetensors")
    command = [name, "--texts", str(texts), "--steps", "1", "--threads", "1", "--chunk", "96", "--rank", "2"]
    main([*command, "--folder", str(tmp_path / "before")])
    generator = torch.Generator().manual_seed(5)
    differences = {each: torch.randn(one.shape, generator=generator) * 0.02 for each, one in weights.items()}
    write_differences(folder / READING_FILE, differences, fingerprint(folder))
    model = load_model(find_source(name), dtype="float32", change=reading_change(folder, name))
    with pytest.raises(SettingsError, match="was trained on other weights"):
        read_focus(folder / FOCUS_FILE, fingerprint(folder, reading=True), name, model.forward, CPU)
    before = read_focus(folder / FOCUS_FILE, fingerprint(folder), name, model.forward, CPU)
    main([*command, "--folder", str(tmp_path / "after")])
    after = read_focus(folder / FOCUS_FILE, fingerprint(folder, reading=True), name, model.forward, CPU)
    one, other = (adapter.tensors()["layers.0.output.outer"] for adapter in (before, after))
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["local:owner/model"], "is a hub name"), (["local:{folder}"], "needs --texts")],
)
def test_a_command_that_cannot_be_run_says_why(arguments, message, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SystemExit, match=message):
        main([argument.format(folder=tmp_path) for argument in arguments])


def test_a_model_of_another_family_cannot_be_trained(loaded, tokenizer, tmp_path):
    with pytest.raises(SettingsError, match="gemma2 cannot have an adapter"):
        Trainer(PLAN, loaded("gemma2"), lessons_of(tiny("llama", tokenizer)), tmp_path)


def test_a_run_can_begin_with_an_adapter_of_the_same_sizes(tokenizer, tmp_path):
    model = tiny("llama", tokenizer)
    first = Trainer(PLAN, model, Same(lessons_of(model)), tmp_path / "first")
    first.step()
    second = Trainer(PLAN, model, Same(lessons_of(model)), tmp_path / "second")
    second.begin_with(first.adapter())
    for name, tensor in first.tensors.items():
        assert torch.equal(tensor, second.tensors[name]), name
    other = Trainer(replace(PLAN, rank=2), model, Same(lessons_of(model)), tmp_path / "other")
    with pytest.raises(SettingsError, match="has other sizes"):
        other.begin_with(first.adapter())


def test_lessons_become_harder_when_they_are_answered_and_easier_when_not(tokenizer, tmp_path):
    model = tiny("llama", tokenizer)
    trainer = Trainer(replace(PLAN, skilled=(0.0, 0.0)), model, Same(lessons_of(model)), tmp_path)  # all is good enough
    for _ in range(2):
        trainer.step()
    assert trainer.level == pytest.approx(2 * PLAN.climb)
    trainer.plan = replace(PLAN, skilled=(2.0, 2.0))  # nothing is
    for _ in range(5):
        trainer.step()
    assert trainer.level == 0
