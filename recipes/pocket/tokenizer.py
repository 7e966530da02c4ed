"""The tokenizer of the pocket model: byte-level BPE, trained on the text the model is trained on.

Byte-pair encoding of words: Sennrich et al., arXiv:1508.07909; over bytes: Radford et al., "Language Models are
Unsupervised Multitask Learners" (2019).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

__all__ = [
    "ASSISTANT",
    "BEGIN",
    "CHAT_TEMPLATE",
    "END",
    "MASK",
    "PAD",
    "SPECIALS",
    "SYSTEM",
    "USER",
    "render_chat",
    "save_tokenizer",
    "token_id",
    "train_tokenizer",
]

PAD, BEGIN, END, MASK = "<|pad|>", "<|begin|>", "<|end|>", "<|mask|>"
SYSTEM, USER, ASSISTANT = "<|system|>", "<|user|>", "<|assistant|>"
SPECIALS = (PAD, BEGIN, END, MASK, SYSTEM, USER, ASSISTANT, "[PAD]", *(f"<|spare_{number}|>" for number in range(8)))
"""Special tokens in the order of their ids; ``<|mask|>``, ``[PAD]`` and the spare ones occur in no training text."""

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] | trim + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
"""The chat template, in Jinja: any number of turns, a system message accepted."""

# Words with one leading space, numbers of up to three digits, runs of punctuation, indentation apart from its word.
_PIECES = (
    r"'(?:s|t|re|ve|m|ll|d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer of ``vocabulary`` tokens, special tokens included, on ``texts``."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, context: int) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` with the chat template into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": PAD,
        "mask_token": MASK,
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "padding_side": "left",
        "chat_template": CHAT_TEMPLATE,
    }
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def render_chat(turns: Iterable[tuple[str, str]]) -> str:
    """The text of a conversation up to the point where the assistant's next turn begins.

    ``turns`` are pairs of role and content.  This is what :data:`CHAT_TEMPLATE` renders with
    ``add_generation_prompt``; a test holds the two together.
    """
    body = "".join(f"<|{role}|>\n{content.strip()}{END}\n" for role, content in turns)
    return f"{BEGIN}{body}{ASSISTANT}\n"


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token that the tokenizer must have."""
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the tokenizer has no token {token}: it was not made for the pocket model")
    return int(found)
