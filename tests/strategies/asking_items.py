"""What the tests of `items` share: one question, what its calls say, and the answer checked against its events."""

from streaming import streamed

from stretto.backends.base import Capabilities

QUESTION = "Give the plural of each word: cat, child, mouse"
PLURALS = {"cat": "cats", "child": "children", "mouse": "mice"}
POCKET = Capabilities(prompt_family="pocket")


def entry(item):
    """How the prompt of a call holds its item."""
    return rf"<entry>\n{item}\n</entry>"


def script(first=()):
    """The plurals; rules in ``first`` come before and replace them."""
    usual = {entry(item): plural for item, plural in PLURALS.items()} | {"": "A straight answer."}
    return {**dict(first), **{pattern: reply for pattern, reply in usual.items() if pattern not in first}}


async def ask(backend, question=QUESTION, **request):
    return (await streamed(backend, question, strategy="items", **request))[0]
