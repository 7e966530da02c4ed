"""Models of 257 tokens in folders, and what the tests of the local backend ask of them."""

from contextlib import asynccontextmanager

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from stretto.backends.base import ModelRequest
from stretto.backends.local.backend import LocalBackend
from stretto.values.request import GenerationOptions, Message

torch.set_num_threads(1)  # for models this small a second thread only waits


def save(folder, *, template=None, window=512, end=0, **generation):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(["<end>", *alphabet])}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=None if end is None else "<end>")
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=window, initializer_range=0.3, eos_token_id=end,
        bos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=end, **generation)
    model.save_pretrained(folder)
    return folder


@asynccontextmanager
async def opened(folder, **options):
    backend = LocalBackend(f"local:{folder}", dtype="float32", device="cpu", **options)
    try:
        yield backend
    finally:
        await backend.aclose()


def prompt(*contents, role="user"):
    return ModelRequest(tuple(Message(role=role, content=content) for content in contents))


async def collect(backend, question="How do I oil a chain?", **options):
    async with backend.stream(prompt(question), GenerationOptions(**options)) as chunks:
        return [chunk async for chunk in chunks]


def text_of(chunks):
    return "".join(chunk.text for chunk in chunks)
