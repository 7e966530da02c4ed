"""The recipe for heads, on a tiny model and its own answers: what is written, learned, kept and measured."""

import json
import random
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tiny_models import build
from torch.nn.functional import rms_norm, silu

from recipes.heads.eagle import Eagle
from recipes.heads.evaluate import measure
from recipes.heads.medusa import Medusa
from recipes.heads.network import Sizes
from recipes.heads.on_disk import write_head
from recipes.heads.questions import asked, held_out
from recipes.heads.target import Target
from recipes.heads.texts import Texts, frequent
from recipes.heads.trainer import Plan, Trainer, guesses
from recipes.heads.writing import Writing, answers, keep, kept
from recipes.pocket.batches import Encoded
from stretto.local_engine.model.loading.load import prepare
from stretto.values.errors import SettingsError

pytestmark = pytest.mark.thorough

SIZES = Sizes(depth=3, inner=32)
PLAN = Plan(steps=40, tokens=64, rate=0.05, other_rate=0.02, warm_up=2, seed=3)
PROMPTS = [tuple((5 * place + 17 * number) % 390 + 5 for place in range(5 + number)) for number in range(3)]


@pytest.fixture(scope="module")
def model(tokenizer):
    return prepare("local:tiny", build("llama"), tokenizer, packed=False, compiled=False)


@pytest.fixture(scope="module")
def target():
    return Target(build("llama"))


@pytest.fixture(scope="module")
def texts(model):
    return answers(model, PROMPTS, [0.0] * 3, 24)


def make(kind, target, words=40):
    torch.manual_seed(1)
    return kind(target, frequent([Encoded("own", [*range(60)], 0)], words, {2}, 400), SIZES)


def trainer(kind, target, texts, folder, *, base="abc"):
    head = make(kind, target, 400)
    return Trainer(PLAN, target, head, Texts(texts, SIZES.depth, target.device), folder, base=base)


def test_greedy_answers_in_a_batch_are_those_of_transformers(texts):
    alone = build("llama")
    for text, prompt in zip(texts, PROMPTS, strict=True):
        ids = torch.tensor([prompt])
        whole = alone.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False)
        assert text.tokens == whole[0].tolist()
        assert text.learned == len(prompt)


def test_an_ended_answer_leaves_the_batch_and_the_others_go_on(model):
    whole = answers(model, PROMPTS, [0.0] * 3, 40)
    end = whole[1].tokens[len(PROMPTS[1]) + 2]
    model = replace(model, end_ids=frozenset({end}))
    for text, before in zip(answers(model, PROMPTS, [0.0] * 3, 40), whole, strict=True):
        own = before.tokens[before.learned :]
        cut = own.index(end) + 1 if end in own else len(own)
        assert text.tokens[text.learned :] == own[:cut]


def test_sampled_answers_follow_from_the_seed(model):
    first, again, other = (answers(model, PROMPTS, [0.9] * 3, 16, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_writing_that_was_stopped_goes_on_with_the_next_batch(model, tmp_path):
    writing, some = (
        Writing(together=4, longest=4, prompt=20),
        [(("user", word),) for word in ("oil", "air", "dry", "a" * 99)],
    )
    begun = writing.write(model, some, tmp_path, go_on=lambda: False, advance=id)
    assert len(begun) == 4
    whole = writing.write(model, some, tmp_path, go_on=lambda: True, advance=id)
    assert len(whole) == 12  # three questions at four temperatures; the fourth is too long
    assert whole[:4] == begun
    assert kept(tmp_path / "00000.safetensors") == begun


def test_no_question_is_both_learned_and_held_out():
    for pocket in (False, True):
        learned = {turns[-1][1] for turns in asked(pocket=pocket)}
        assert len(learned) > 1000
        assert not learned & {turns[-1][1] for turns in held_out(pocket=pocket)}


def test_the_small_vocabulary_holds_what_is_frequent_and_what_must_be_there():
    texts = [Encoded("own", [9, 9, 5, 5, 5, 7, 7, 3], 2)]
    assert frequent(texts, 3, {1}, 10).tolist() == [1, 5, 7]
    assert frequent(texts, 99, {1}, 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [Eagle, Medusa])
def test_a_head_learns_what_the_model_says_and_drafts_it(kind, target, texts, tmp_path):
    run = trainer(kind, target, texts, tmp_path)
    first = run.step()
    while run.progress < 1:
        last = run.step()
    assert last.loss < first.loss
    assert bool((last.right >= first.right + 0.2 * last.tokens).all())
    found = measure(target, run.head, Texts(texts, SIZES.depth, target.device))
    assert found.tokens_per_step[-1] > found.tokens_per_step[0] > 1.1


def test_what_is_measured_is_what_a_chain_of_drafts_takes(target):
    class Told(Medusa):
        """Guesses the token behind the next one, and never the one behind that."""

        def states(self, seen):  # noqa: ARG002 - it knows the text
            text = torch.tensor([3, 4, 5, 6, 7, 8, 9])
            said = torch.zeros(1, 64, 400)
            for place, token in enumerate(text[2:].tolist()):
                said[0, place, token] = 1.0
            return [said, torch.zeros(1, 64, 400), torch.zeros(1, 64, 400)]

        def logits(self, states):
            return states

    head = make(Told, target, 400)
    found = measure(target, head, Texts([Encoded("own", [3, 4, 5, 6, 7, 8, 9], 5)], 3, target.device))
    assert found.places == (1.0, 0.0, 0.0)  # 8 is the model's own; 9 is guessed, and nothing follows
    assert found.tokens_per_step == (2.0, 2.0, 2.0)


def test_a_stopped_run_goes_on_to_the_same_weights(target, texts, tmp_path):
    whole = trainer(Eagle, target, texts, tmp_path / "whole")
    for _ in range(4):
        whole.step()
    halves = trainer(Eagle, target, texts, tmp_path / "halves")
    halves.step()
    halves.step()
    halves.save()
    halves = trainer(Eagle, target, texts, tmp_path / "halves")
    assert halves.number == 2
    halves.step()
    halves.step()
    for own, other in zip(whole.head.parameters(), halves.head.parameters(), strict=True):
        assert torch.equal(own, other)
    with pytest.raises(SettingsError, match="other weights"):
        trainer(Eagle, target, texts, tmp_path / "halves", base="def")


def plain_draft(folder, model, text):
    """The draft behind a text, row by row, by the file alone: the form of SafeAILab's EAGLE-3."""
    weights, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    weights = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    heads, stored, width = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    with torch.no_grad():
        states = model(torch.tensor([text]), output_hidden_states=True).hidden_states
        lower = torch.cat([states[layer][0] for layer in config["eagle_aux_hidden_state_layer_ids"]], -1)
        table, said = model.get_input_embeddings().weight, int(model(torch.tensor([text])).logits[0, -1].argmax())
    keys, values, drafted = [], [], []

    def norm(state, name):
        return rms_norm(state, state.shape, weights[f"{name}.weight"], config["rms_norm_eps"])

    def rotated(vectors, place):
        turn = place * config["rope_theta"] ** (-torch.arange(width // 2) * 2 / width)
        one, two = vectors.view(-1, width).chunk(2, -1)
        return torch.cat((one * turn.cos() - two * turn.sin(), two * turn.cos() + one * turn.sin()), -1)

    def row(place, token, state):
        read = torch.cat((norm(table[token], "midlayer.input_layernorm"), norm(state, "midlayer.hidden_norm")))
        query, key, value = (weights[f"midlayer.self_attn.{name}_proj.weight"] @ read for name in "qkv")
        keys.append(rotated(key, place))
        values.append(value.view(stored, width))
        shared = heads // stored
        mixed = [
            torch.stack([(vector @ each[number // shared]) / width**0.5 for each in keys]).softmax(0)
            @ torch.stack([each[number // shared] for each in values])
            for number, vector in enumerate(rotated(query, place))
        ]
        state = state + weights["midlayer.self_attn.o_proj.weight"] @ torch.cat(mixed)
        inside = norm(state, "midlayer.post_attention_layernorm")
        gate, up = (weights[f"midlayer.mlp.{name}_proj.weight"] @ inside for name in ("gate", "up"))
        return state + weights["midlayer.mlp.down_proj.weight"] @ (silu(gate) * up)

    for place, token in enumerate([*text[1:], said]):
        state = row(place, token, weights["fc.weight"] @ lower[place])
    for ahead in range(SIZES.depth):
        word = int((weights["lm_head.weight"] @ norm(state, "norm")).argmax())
        drafted.append(word + int(weights["d2t"][word]))
        assert weights["t2d"][drafted[-1]]
        state = row(len(text) + ahead, drafted[-1], state)
    return [said, *drafted]


def test_the_files_of_a_head_draft_what_it_was_trained_to_say(target, tmp_path):
    model, head = build("llama"), make(Eagle, target, 200)
    for parameter in head.parameters():  # as they come back from half precision
        parameter.data = parameter.data.half().float()
    write_head(tmp_path, target, "abc", head)
    drafted = plain_draft(tmp_path, model, [7, 8, 200, 11, 60, 5])
    text = Texts([Encoded("own", [7, 8, 200, 11, 60, 5, *drafted], 7)], SIZES.depth, target.device)
    with torch.no_grad():
        found, _ = guesses(target, head, text.of(text.all))
    place = text.of(text.all).places.tolist()
    for number, logits in enumerate(found):
        assert int(head.words[logits[place.index(7 + number)].argmax()]) == drafted[1 + number]


def test_texts_are_drawn_by_their_length_and_learned_behind_their_prompts(target):
    many = [Encoded("own", [5] * length, 3) for length in (6, 6, 6, 70)]
    texts = Texts(many, 2, target.device)
    batch = texts.of(texts.all)
    assert batch.tokens.shape == (4, 128)
    assert batch.places[batch.rows == 0].tolist() == [3, 4, 5]
    drawn = {texts.draw(random.Random(number), 12).tokens.shape for number in range(30)}  # noqa: S311 - no secrets
    assert drawn == {(2, 64), (1, 128), (2, 128)}


def test_written_texts_come_back(texts, tmp_path):
    keep(tmp_path / "texts.safetensors", texts)
    assert kept(tmp_path / "texts.safetensors") == texts


def test_states_kept_with_the_answers_train_as_reading_them_does(model, target, tmp_path):
    keep(tmp_path / "texts.safetensors", answers(model, PROMPTS, [0.0, 0.9, 0.0], 24, states=True))
    written, head = kept(tmp_path / "texts.safetensors"), make(Medusa, target, 200)
    again, known = (Texts(written, SIZES.depth, target.device, kept=own) for own in (False, True))
    batches = [texts.of(texts.all) for texts in (again, known)]
    (read, _), (remembered, chances) = ((guesses(target, head, batch)) for batch in batches)
    places = [[*zip(batch.rows.tolist(), batch.places.tolist(), strict=True)] for batch in batches]
    assert set(places[1]) < set(places[0])
    same = [places[0].index(each) for each in places[1]]
    for one, other in zip(read, remembered, strict=True):
        assert torch.allclose(one[same], other, atol=1e-2)
    assert chances.shape == (len(same), 200)
