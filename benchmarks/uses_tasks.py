"""What people use a small model for, with answers that code can check: labels, records, a document, edits, chat."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

LABELS = ("positive", "negative", "neutral")
REVIEWS = (
    ("The tent stayed dry in a storm. I love it.", "positive"),
    ("The zip broke on the first day.", "negative"),
    ("The box holds four cups and a manual.", "neutral"),
    ("Excellent value, I would buy it again.", "positive"),
    ("It smells terrible and the colour is wrong.", "negative"),
    ("It was delivered on a Tuesday.", "neutral"),
    ("Arrived damaged, and nobody answered my mail.", "negative"),
    ("The best shoes I have ever worn.", "positive"),
    ("It comes in red, green and blue.", "neutral"),
    ("A complete waste of money.", "negative"),
    ("My children play with it every day and are happy.", "positive"),
    ("Instructions are in English and German.", "neutral"),
    ("The screen went black after an hour.", "negative"),
    ("Fast delivery and wonderful quality.", "positive"),
    ("The cable is two metres long.", "neutral"),
    ("Far too loud, I cannot sleep beside it.", "negative"),
    ("Works perfectly with my old camera.", "positive"),
    ("I have not opened it yet.", "neutral"),
    ("The handle came off and cut my hand.", "negative"),
    ("So comfortable that I ordered a second one.", "positive"),
    ("It needs two batteries.", "neutral"),
    ("The seller refused to refund me.", "negative"),
    ("Beautiful, sturdy and easy to clean.", "positive"),
    ("The lamp is made of metal and glass.", "neutral"),
    ("Useless: the app crashes all the time.", "negative"),
    ("A great present, my father was delighted.", "positive"),
    ("It weighs about one kilogram.", "neutral"),
    ("The soup tasted of soap. Never again.", "negative"),
    ("Five stars, nothing to complain about.", "positive"),
    ("It was bought for an office in Leeds.", "neutral"),
)
_CLASSIFY = "Classify each review as positive, negative or neutral:"
LABELLING = "\n".join((_CLASSIFY, *(f"{number}. {text}" for number, (text, _) in enumerate(REVIEWS, 1))))

FIELDS = ("name", "company", "order")
MAILS = (
    ("Hello, Ada Lind here, of Northwind Tea. Where is our order 4417? It should have come on Monday.",
     ("Ada Lind", "Northwind Tea", "4417")),
    ("Dear team, the invoice for order 2093 is wrong. Please send a new one to Hill & Sons. Regards, Tom Okafor",
     ("Tom Okafor", "Hill & Sons", "2093")),
    ("Order 7755 arrived with a broken lid. We at Blue Oven would like a new one. Maria Rossi",
     ("Maria Rossi", "Blue Oven", "7755")),
    ("Can we add ten boxes to order 1206? Yours, Jan Novak, Harbour Foods",
     ("Jan Novak", "Harbour Foods", "1206")),
    ("I am Lucy Chen from Paper Moon. Please cancel our order 3318 of last week.",
     ("Lucy Chen", "Paper Moon", "3318")),
    ("Our order 9042 went to the old address. Green Lane 5 is right. Best wishes, Omar Aziz, Delta Garden",
     ("Omar Aziz", "Delta Garden", "9042")),
    ("Thank you for order 6611, all is well! Ingrid Berg, Fjord Optics",
     ("Ingrid Berg", "Fjord Optics", "6611")),
    ("Sam Reed of Castle Books asks for a receipt for order 5870.",
     ("Sam Reed", "Castle Books", "5870")),
    ("Paula Silva writing for Red Kite Travel. Order 2449 is late, and our customers are waiting.",
     ("Paula Silva", "Red Kite Travel", "2449")),
    ("Is order 8136 on its way? Kind regards, Yuki Mori, Lantern Hotel",
     ("Yuki Mori", "Lantern Hotel", "8136")),
)  # fmt: skip
_EXTRACT = (
    "For each e-mail, write one JSON object with the keys name (of the person who writes), company and order "
    "(the number of the order):"
)
RECORDING = "\n".join((_EXTRACT, *(f"{number}. {text}" for number, (text, _) in enumerate(MAILS, 1))))

LEASE = """\
LEASE OF A FLAT

1. Parties. This lease is made on 3 May 2024 between Dr. Ada Lind, Hill Road
12, Leeds (the landlord), and Mr. Tom Okafor (the tenant).

2. The flat. The landlord lets the flat on the second floor of 7 Harbour
Street. It has three rooms, a kitchen, a bath and a cellar of 4.5 square
metres. The living space is 71.25 square metres.

3. Term. The lease begins on 1 July 2024. It runs for an indefinite time and
may be ended by either party with a notice of three
months to the end of a month.

4. Rent. The monthly rent is 1,250.50 euros. It is due on the third working
day of each month. An advance of 180 euros a month for heating and water is
paid on top, and is settled once a year, no later than the end of March.

5. Late payment. If the rent is more than 14 days late, interest of 4.75
percent a year is owed on what is open.

6. Deposit. The tenant pays a deposit of 3,000 euros in three equal parts. The
landlord keeps it in a separate account with interest, and returns it within
six months of the end of the lease, less what is owed for damage beyond the
usual wear.

7. Repairs. The landlord keeps the house and its pipes in good order. Small
repairs of taps, switches and locks are paid for by the tenant, up to 110
euros for each repair and 300 euros in a year.

8. Animals. Small animals such as fish and hamsters are allowed. A dog or a
cat needs the consent of the landlord in writing.

9. Keys. The tenant is handed four keys of the front door, two of the flat and
one of the letter box. A lost key is reported within 24 hours.

10. Visits. The landlord may look at the flat after a notice of 48 hours, for
a good reason, on working days between 9.30 and 18.00.

11. Use of the garden. The garden is shared by all who live in the house. The
grass is cut by the firm Greenfield Ltd., version 2.1 of whose terms is kept
in the hall (see www.greenfield.example/terms.html).
"""
ANSWERED = {
    "What is the monthly rent of the flat?": r"1,250\.50",
    "What interest is owed on late rent?": r"4\.75",
    "Who is the landlord?": "Ada Lind",
    "How long is the notice that ends the lease?": "(three|3) months",
    "How many square metres has the living space?": r"71\.25",
    "How much deposit does the tenant pay?": "3,000",
    "Within how many hours must a lost key be reported?": "24",
    "Which firm cuts the grass?": "Greenfield",
}
"""Questions that the lease answers, and what is in a right answer."""
UNANSWERED = (
    "What is the phone number of the tenant?",
    "How much does a parking space cost?",
    "In which year was the house built?",
    "Which colour do the walls have?",
)
SAYS_NOTHING = (
    "not tell it",
    "No sentence of the documents",
    "NONE",
    "does not",
    "not mention",
    "not specif",
    "not stat",
)

_CODE = '''\
"""A small shop."""

TAX = 0.2


def price_of(basket, prices):
    """The price of all things in a basket, with tax."""
    total = 0.0
    for thing, number in basket.items():
        total += prices[thing] * number
    return round(total * (1 + TAX), 2)


def cheapest(prices):
    """The name of the cheapest thing."""
    return min(prices, key=prices.get)


def receipt(basket, prices):
    """A line for each thing, and the price of all."""
    lines = []
    for thing, number in basket.items():
        lines.append(f"{number} x {thing}: {prices[thing] * number:.2f}")
    lines.append(f"total: {price_of(basket, prices):.2f}")
    return "\\n".join(lines)
'''
EDITS: Mapping[str, str] = {
    "Rename the function price_of to total_price everywhere.": _CODE.replace("price_of", "total_price"),
    "Change the tax to 10 percent.": _CODE.replace("TAX = 0.2", "TAX = 0.1"),
    "Remove the function cheapest.": _CODE.replace(_CODE[_CODE.index("def cheapest") : _CODE.index("def receipt")], ""),
    "Rename the parameter basket to cart in both functions that have it.": _CODE.replace("basket", "cart"),
    "Let the last line of a receipt begin with 'sum:' instead of 'total:'.": _CODE.replace('f"total:', 'f"sum:'),
}
"""What to change in a file, and the file that should come back."""

CHAT: Mapping[str, str] = {
    "What is the capital of Japan?": r"Tokyo",
    "Who wrote Romeo and Juliet?": r"Shakespeare",
    "How many days has a leap year?": r"366",
    "What is 17 + 25?": r"42",
    "Wie heißt die Hauptstadt von Italien?": r"Rom\b",
    "¿De qué color es la nieve?": r"blanc",
    "Write the word 'stone' backwards.": r"enots",
    "Name the largest planet of the solar system.": r"Jupiter",
    "Which gas do plants take from the air?": r"carbon dioxide|CO",
    "A train leaves at 9:40 and takes 35 minutes. When does it arrive?": r"10[:.]15",
}
"""Questions, and what a right answer holds."""


def labels_in(text: str) -> list[str | None]:
    """The label of each review by its number; ``None`` where it has none, or several."""
    found: list[str | None] = [None] * len(REVIEWS)
    for line in text.splitlines():
        numbered = re.match(r"\W*(\d{1,2})[.):]", line)
        named = [label for label in LABELS if re.search(rf"\b{label}\b", line, re.IGNORECASE)]
        if numbered and len(named) == 1 and 1 <= int(numbered[1]) <= len(found):
            found[int(numbered[1]) - 1] = named[0]
    return found


def records_in(text: str) -> list[Mapping[str, Any]]:
    """All JSON objects of a text with the fields of a record, in their order."""
    found, at, decoder = list[Mapping[str, Any]](), 0, json.JSONDecoder()
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        if isinstance(value, dict) and value.keys() & set(FIELDS):
            found.append(value)
    return found


def is_right(record: Mapping[str, Any], expected: tuple[str, ...]) -> bool:
    """Whether a record holds what its e-mail says."""
    return all(str(record.get(field, "")).strip(" .#").removeprefix("Order ") == each
               for field, each in zip(FIELDS, expected, strict=True))  # fmt: skip


def edit(task: str) -> str:
    """The prompt of an edit."""
    return f"{task} Write the whole file, and change nothing else.\n\n```python\n{_CODE}```"


def is_edited(text: str, expected: str) -> bool:
    """Whether an answer holds the expected file; docstrings and layout do not count, and nothing is run."""
    fenced = re.search(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
    try:
        return _meaning(fenced[1] if fenced else text) == _meaning(expected)
    except (SyntaxError, ValueError, RecursionError):
        return False


def _meaning(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
