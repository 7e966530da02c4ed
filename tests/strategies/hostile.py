"""Texts that a parser meets when a model, or whoever writes a request, means it ill."""

import itertools

FRAGMENTS = (
    "[", "{", "]", "{}", "{},", '["', '"a",', '{"a":', '[{"title":"a"},', '"', "\\", '\\"', '\\ud83d', "1" * 9,
    "*a ", "**a", "**", "*", "__a", "_a ", "# ", "#", "- ", "1. ", "1.", "1) ", "(1) ", "a) ", "① ", "一、", "Q1: ",
    " ", "\t", "\n", "\r\n", "\n\n", " \n", "\x18\n", "\x18", "\u2028", "\u3000", "a", "A ", "é", "a.", "a. ",
    "a? ", "a, ",
    ", ", "; ", " / ", "|", "| ", ": ", ":", "：", "-", " - ", " — ", "(", ")", "( ", "(needs ", "(needs 1",
    "(1 words ",
    "(each)", "<|", "<|a|>", "`", "```", "```json\n", "'", "'a", "'a' ", "“", "“a”", "„a", "«", "« a »", "「", "‘a’",
    "opening", "opening:", "closing :", "each ", "every ", "these ", "for each ", "ten ", "10 ", "1,", "5 tips ",
    "five names ", "in 3 ", "with ", "with a as ", "and ", " y ", "the the ", "list of ", "what ", "table ", "output a",
    "columns a, b ", "give me ", "translate ", "translate: ", "in the ", "in order ", "into one ", "into one sentence ",
    "assign a ", "story for ", "following ", "following a ", "none of ", "half a dozen ", "a couple of ", "个", "十",
    "{{", "}}", "𝟙", "🏳️‍🌈",
)  # fmt: skip
TAILS = ("", "x", "\n", ".", '"', "]", ")", "1. a\n2. b\n3. c", ": a, b, c")


def hostile_texts(length):
    """Each fragment, and neighbours of fragments, again and again up to about a length; some with another end."""
    for number, fragment in enumerate(FRAGMENTS):
        for tail in TAILS if number % 3 == 0 else TAILS[:2]:
            yield (fragment * (length // len(fragment) + 1))[:length] + tail
    for one, other in itertools.pairwise(FRAGMENTS):
        pair = one + other
        yield (pair * (length // len(pair) + 1))[:length]
        yield one + (other * (length // len(other) + 1))[:length] + one
    for head in ("1. ", "- ", "**", "Opening: ", '["', '[{"title": "', "Translate each: ", "Give me 5 tips ", "a: "):
        for fragment in FRAGMENTS:
            yield head + (fragment * (length // len(fragment) + 1))[:length]
