"""The pocket model's tokenizer, network and training, on a tiny network."""

# ruff: noqa: PLC0415 - transformers is imported where it is needed

from __future__ import annotations

import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from recipes.pocket import tokenizer as texts  # noqa: E402
from recipes.pocket.batches import encode  # noqa: E402
from recipes.pocket.corpus import Corpus, Example  # noqa: E402
from recipes.pocket.initial import put_copying  # noqa: E402
from recipes.pocket.network import Network, NetworkConfig, Packed  # noqa: E402
from recipes.pocket.optimiser import orthogonalised  # noqa: E402
from recipes.pocket.train import Plan, Trainer, export  # noqa: E402
from stretto.local_engine.pocket import UNKNOWN  # noqa: E402

pytestmark = pytest.mark.thorough

TINY = NetworkConfig(vocabulary=1024, hidden=32, layers=2, heads=4, key_value_heads=2, intermediate=64, context=256)


@pytest.fixture(scope="module")
def small_corpus() -> Corpus:
    whole = Corpus(with_source=False)
    return Corpus(topics=whole.topics[:3], facts=whole.facts[:5], unknown=whole.unknown[:20], with_source=False)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory, small_corpus: Corpus) -> Trainer:
    return _trainer(tmp_path_factory.mktemp("trainer"), small_corpus, steps=6)


def _trainer(folder: Path, corpus: Corpus, steps: int) -> Trainer:
    plan = Plan(steps=steps, tokens=512, micro=256, context=128, seed=2, warm_up=10)
    return Trainer(plan, TINY, folder, corpus=corpus, threads=2)


def test_the_tokenizer_gives_any_text_back(trainer: Trainer) -> None:
    for text in ("def f(x):\n    return x  # täglich\n", UNKNOWN, "Ω ≈ 3,14 — 日本 🙂", "  two\n\n\tspaces  "):
        assert trainer.tokenizer.decode(trainer.tokenizer.encode(text, add_special_tokens=False).ids) == text


def test_the_chat_template_renders_what_training_reads(trainer: Trainer) -> None:
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(trainer.folder)
    turns = [("system", "Be brief."), ("user", "One?"), ("assistant", "1"), ("user", " Two? ")]
    messages = [{"role": role, "content": content} for role, content in turns]
    text = loaded.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == texts.render_chat(turns)
    assert (
        loaded(text, add_special_tokens=False)["input_ids"]
        == trainer.tokenizer.encode(text, add_special_tokens=False).ids
    )


def test_only_the_answer_carries_loss_and_ends_with_the_end_token(trainer: Trainer) -> None:
    end = texts.token_id(trainer.tokenizer, texts.END)
    whole = encode(Example("fact", (("user", "Q?"),), "An answer."), trainer.tokenizer, 128)
    assert trainer.tokenizer.decode(whole.tokens[whole.learned : -1]) == "An answer."
    assert whole.tokens[-1] == end
    cut = encode(
        Example("fact", (("user", "Q?"),), "An answer to learn the start of.", limit=2), trainer.tokenizer, 128
    )
    assert len(cut.tokens) - cut.learned == 2
    assert cut.tokens[-1] != end


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_orthogonalised_matrices_have_singular_values_near_one(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for shape in ((3, 16, 48), (2, 48, 16)):
        values = torch.linalg.svdvals(orthogonalised(torch.randn(shape), dtype))
        assert float(values.min()) > 0.5
        assert float(values.max()) < 1.5


def test_training_lowers_the_loss(tmp_path: Path, small_corpus: Corpus) -> None:
    trainer = _trainer(tmp_path, small_corpus, steps=30)
    losses = []
    while trainer.progress < 1:
        step = trainer.step()
        losses.append(sum(step.values()) / len(step))
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_a_stopped_run_resumes_to_the_same_state(tmp_path: Path, small_corpus: Corpus) -> None:
    straight = _trainer(tmp_path / "straight", small_corpus, steps=6)
    for _ in range(6):
        straight.step()
    first = _trainer(tmp_path / "stopped", small_corpus, steps=6)
    for _ in range(3):
        first.step()
    first.save()
    second = _trainer(tmp_path / "stopped", small_corpus, steps=6)
    assert second.number == 3
    for _ in range(3):
        second.step()
    for name, tensor in straight.network.weights().items():
        assert torch.equal(tensor, second.network.weights()[name]), name
    for name, tensor in straight.optimiser.state.items():
        assert torch.equal(tensor, second.optimiser.state[name]), name


def test_a_checkpoint_of_other_sizes_is_refused_by_name(tmp_path: Path, small_corpus: Corpus) -> None:
    _trainer(tmp_path, small_corpus, steps=2).save()
    other = NetworkConfig(**{**TINY.as_dict(), "layers": 3})
    with pytest.raises(ValueError, match="other sizes"):
        Trainer(Plan(steps=2), other, tmp_path, corpus=small_corpus)


def test_transformers_computes_what_the_network_computes(trainer: Trainer, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    trainer.step()
    trainer.save()
    export(trainer.folder, tmp_path / "model")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    assert type(loaded).__name__ == "LlamaForCausalLM"
    network = Network(TINY)
    network.load_state_dict({name: tensor.bfloat16().float() for name, tensor in trainer.network.weights().items()})
    tokens = torch.randint(0, TINY.vocabulary, (60,), generator=torch.Generator().manual_seed(1)).tolist()
    sequences = [tokens[:7], tokens[7:47], tokens[47:]]  # packed together, none sees another
    with torch.no_grad():
        state = network.hidden(Packed.of(sequences), torch.float32)[:60]
        ours = torch.nn.functional.linear(state, network.model.embed_tokens.weight)
        theirs = torch.cat([loaded(torch.tensor([one])).logits[0] for one in sequences])
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_packed_sequences_is_the_sum_of_theirs_alone() -> None:
    network = Network(TINY, seed=3)
    tokens = torch.randint(0, TINY.vocabulary, (50,), generator=torch.Generator().manual_seed(4)).tolist()
    sequences = [tokens[:9], tokens[9:20], tokens[20:23], tokens[23:]]

    def gradients(group: list[list[int]]) -> list[torch.Tensor]:
        packed = Packed.of(group)
        targets = torch.full_like(packed.tokens, -1)
        targets[: sum(map(len, group))] = torch.tensor([token // 2 for one in group for token in one])
        return list(torch.autograd.grad(network.losses(packed, targets).sum(), list(network.parameters())))

    alone = [torch.stack(parts).sum(0) for parts in zip(*(gradients([one]) for one in sequences), strict=True)]
    for together, apart in zip(gradients(sequences), alone, strict=True):
        torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


def test_what_is_left_out_at_tokens_without_loss_changes_neither_losses_nor_gradients() -> None:
    network = Network(TINY, seed=3)
    tokens = torch.randint(0, TINY.vocabulary, (50,), generator=torch.Generator().manual_seed(4)).tolist()
    packed = Packed.of([tokens[:9], tokens[9:20], tokens[20:23], tokens[23:]])
    targets = torch.full_like(packed.tokens, -1)
    targets[3:9], targets[15:20], targets[40:50] = 5, 6, 7
    logits = torch.nn.functional.linear(network.hidden(packed, torch.float32), network.model.embed_tokens.weight)
    plain = torch.nn.functional.cross_entropy(logits[targets >= 0], targets[targets >= 0], reduction="none")
    losses = network.losses(packed, targets)
    torch.testing.assert_close(losses, plain, rtol=1e-5, atol=1e-5)
    weights = torch.linspace(1, 2, len(plain))
    gradients = [torch.autograd.grad(values @ weights, list(network.parameters())) for values in (losses, plain)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_fresh_network_already_ranks_the_token_to_copy_first() -> None:
    config = NetworkConfig(vocabulary=1024, layers=2)
    network = Network(config, seed=1)
    tokens = torch.randperm(1024, generator=torch.Generator().manual_seed(2))[:40].tolist()

    def ranks() -> list[int]:
        with torch.no_grad():
            state = network.hidden(Packed.of([tokens * 2]), torch.float32)[40:79]
            logits = state @ network.model.embed_tokens.weight.T
        return [int((row > row[token]).sum()) for row, token in zip(logits, tokens[1:], strict=True)]

    assert sum(rank == 0 for rank in ranks()) < 4
    put_copying(network, seed=1)
    assert sum(rank == 0 for rank in ranks()) > 20


def test_topics_that_were_changed_are_drawn_again_and_again(small_corpus: Corpus) -> None:
    changed = small_corpus.topics[1]
    corpus = Corpus(topics=small_corpus.topics, facts=small_corpus.facts, with_source=False, again=(changed.id,))
    chance = random.Random(3)  # noqa: S311 - no secrets
    drawn = [corpus.draw("outline", chance).answer == changed.outline for _ in range(400)]
    assert 0.4 < sum(drawn) / len(drawn) < 0.6  # every fourth, and a third of the others
    with pytest.raises(ValueError, match="there is no topic nothing"):
        Corpus(topics=small_corpus.topics, with_source=False, again=("nothing",))
