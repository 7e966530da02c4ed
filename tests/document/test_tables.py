"""Passages of tables: each that begins within one is shown what names its columns, and no other table's."""

import io
import re

import docx
import pytest
from reader import ask, record, scripted, text_of

from stretto import Document
from stretto.documents.docx import read_docx
from stretto.documents.html import read_html
from stretto.documents.plain import read_markdown, read_text
from stretto.documents.tables import tables_of

pytestmark = pytest.mark.anyio
ROWS = 900
COLUMNS = ("customer", "january", "february")
OTHER = ("ship", "captain", "harbour")


def rows(name, columns):
    return [columns, *((f"{name} {number}", str(500 + number), str(2_000 + number)) for number in range(ROWS))]


def as_markdown(*tables):
    def table(lines):
        head, *body = (f"| {' | '.join(line)} |" for line in lines)
        return "\n".join([head, "|---|---|---|", *body])

    return read_markdown("\n\n## Next\n\n".join(map(table, tables)).encode(), "t")


def as_html(*tables):
    def table(lines):
        return "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in line)}</tr>" for line in lines)

    return read_html("<p>Text between.</p>".join(f"<table>{table(each)}</table>" for each in tables).encode(), "t")


def as_docx(*tables):
    file = docx.Document()
    for lines in tables:
        file.add_paragraph("Text between.")
        table = file.add_table(0, len(lines[0]))
        for line in lines[:300]:
            for cell, said in zip(table.add_row().cells, line, strict=True):
                cell.text = said
    data = io.BytesIO()
    file.save(data)
    return read_docx(data.getvalue(), "t")


def as_csv(*tables):
    return read_text("\n\n".join("\n".join(",".join(line) for line in each) for each in tables).encode(), "t")


FORMS = [as_markdown, as_html, pytest.param(as_docx, marks=pytest.mark.thorough), as_csv]


def passages_of(backend):
    """Each prompt for a passage: what it shows before it and what it shows of it."""
    for prompt, _ in backend.calls:
        if '"no_information"' in text_of(prompt) and (
            found := re.search(r"(.*) the passage\n(.*)", text_of(prompt), re.DOTALL)
        ):
            yield found[1], found[2]


@pytest.mark.parametrize("form", FORMS)
async def test_a_passage_that_begins_within_a_table_is_shown_the_columns_of_its_own_table(form):
    document = form(rows("customer", COLUMNS), rows("ship", OTHER))
    backend = scripted(lambda _: record({"no_information": True}), context_window=2_000)
    await ask(backend, "What did customer 77 pay?", document)
    began = 0
    for before, passage in passages_of(backend):
        first = passage.partition("\n")[0]
        if re.search(r"(customer|ship) \d", first):
            began += 1
            columns, others = (COLUMNS, OTHER) if "customer" in first else (OTHER, COLUMNS)
            shown = before.rpartition("first row of the table")[2].splitlines()[1]
            assert all(column in shown for column in columns)
            assert not any(column in shown for column in others)
    assert began > 4


@pytest.mark.parametrize("form", FORMS)
async def test_a_small_model_is_quoted_with_the_names_of_the_columns(form):
    document = form(rows("customer", COLUMNS), rows("ship", OTHER))

    def copy(prompt):
        lines = text_of(prompt).splitlines()
        assert any(all(column in line for column in COLUMNS) for line in lines)  # not the other table's
        return next((line for line in lines if "customer 277" in line and "?" not in line), "None.")

    found = await ask(
        scripted(copy, prompt_family="small", context_window=4_096),
        "How much did customer 277 pay in february?",
        document,
    )
    assert found.text.startswith("customer: customer 277; january: 777; february: 2277 [")
    assert "customer 277" in found.citations[0].quote


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("a | b\n1 | 2\n3 | 4", ["a | b"]),
        ("| a | b |\n|:--|--:|\n| 1 | 2 |\n| c | d |\n|---|---|\n| 3 | 4 |", ["| a | b |", "| c | d |"]),
        ("a,b,c\n1,2,3\n4,5,6\n\nx;y;z\n1;2;3\n4;5;6", ["a,b,c", "x;y;z"]),
        ('a,b,c\n"x, y",2,3\n4,5,6', ["a,b,c"]),
        ("a\tb\n1\t2\n3\t4", ["a\tb"]),
        ("One, two and three, as it is said.\nFour, five and six, as it is said.\nSeven, eight, nine.", []),
        ("```\na | b\n1 | 2\n```", []),
        ("Nothing here.\n\nAt all.", []),
        ("a | b", []),
    ],
)
def test_tables_are_told_from_text(text, headers):
    assert [table.header for table in tables_of(text)] == headers
    for table in tables_of(text):
        assert text[table.start :].startswith(table.header)
        assert table.start < table.body < table.end <= len(text)


DRAWN = {
    "psql": (" id | name\n----+------\n  1 | ab\n  2 | cd\n(2 rows)", " id | name"),
    "psql with lines": (" id │ name\n────┼──────\n  1 │ ab\n  2 │ cd", " id │ name"),
    "mysql": ("+--+----+\n|id|name|\n+--+----+\n|1 |ab  |\n|2 |cd  |\n+--+----+\n2 rows", "|id|name|"),
    "grid": ("+--+----+\n|id|name|\n+==+====+\n|1 |ab  |\n+--+----+\n|2 |cd  |\n+--+----+", "|id|name|"),
    "grid with two lines": (
        "+--+----+\n|id|the |\n|  |name|\n+==+====+\n|1 |ab  |\n|2 |cd  |\n+--+----+",
        "id | the name",
    ),
    "grid with a header of two": (
        "+--+--+\n|a |b |\n+--+--+\n|c |d |\n+==+==+\n|1 |2 |\n+--+--+\n|2 |3 |\n+--+--+",
        "a c | b d",
    ),
    "box": ("┌──┬────┐\n│id│name│\n├──┼────┤\n│1 │ab  │\n│2 │cd  │\n└──┴────┘", "│id│name│"),
    "rich": ("┏━━┳━━━━┓\n┃id┃name┃\n┡━━╇━━━━┩\n│1 │ab  │\n│2 │cd  │\n└──┴────┘", "┃id┃name┃"),
    "double": ("╔══╦════╗\n║id║name║\n╠══╬════╣\n║1 ║ab  ║\n╚══╩════╝", "║id║name║"),
    "fancy": ("╒══╤════╕\n│id│name│\n╞══╪════╡\n│1 │ab  │\n├──┼────┤\n│2 │cd  │\n╘══╧════╛", "│id│name│"),
    "simple": ("==  ====\nid  name\n==  ====\n1   a, b, c\n2   d, e, f\n\n3   g, h, i\n==  ====\nText.", "id  name"),
    "powershell": ("Id Name\n-- ----\n 1 ab\n 2 cd\n\nText, and more, of it.", "Id Name"),
    "csv": ('id,name,n\n1,"a\nb, c",2\n2,"d",3\n3,"e\n\nf\n1,2,3\ng ""h",4\n4,i,5', "id,name,n"),
    "csv with a long header": ('"id\nof it",name,n\n1,a,2\n2,b,3\n3,c,4', '"id of it",name,n'),
    "tsv": ('id\tname\n1\t"a\nb"\n2\t"c\td"\n3\te', "id\tname"),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_a_table_has_one_header_however_it_is_drawn(kind):
    text, header = DRAWN[kind]
    [table] = tables_of(f"Before.\n\n{text}")
    assert table.header == header
    rows = f"Before.\n\n{text}"[table.body : table.end].splitlines()
    assert "1" in rows[0]
    assert max(re.findall(r"(?m)^\W*([1-5])\b", text)) in rows[-1]


def test_two_framed_tables_without_a_line_between_them_are_two():
    text = "+--+--+\n|a |b |\n+--+--+\n|1 |2 |\n+--+--+\n+--+--+\n|c |d |\n+--+--+\n|3 |4 |\n+--+--+"
    assert [table.header for table in tables_of(text)] == ["|a |b |", "|c |d |"]


@pytest.mark.parametrize(
    "text",
    [
        "+-----+\n| box |\n+-----+",
        "-[ RECORD 1 ]--\nid   | 1\nname | ab\n-[ RECORD 2 ]--\nid   | 2\nname | cd",
        'He said, "this is, well,\nno table, I think", and left.\nThen, he came, back.\nAnd went, again, away.',
        "Title\n-----\n\n-- --\n\nText.",
        "```\n==  ==\na   b\n==  ==\n1   2\n3   4\n==  ==\n```",
    ],
)
def test_what_only_looks_like_a_table_is_none(text):
    assert tables_of(text) == []


async def test_the_columns_of_a_table_are_told_once_where_it_begins():
    document = Document(text="\n".join(" | ".join(line) for line in rows("customer", COLUMNS)[:5]), title="t")
    backend = scripted(lambda _: record({"no_information": True}), context_window=2_000)
    await ask(backend, "What did customer 3 pay?", document, Document(text="word " * 3_000))
    assert not any("first row of the table" in text_of(prompt) for prompt, _ in backend.calls)


HOSTILE = (
    '"\n' * 20_000,
    '"a,b\n' * 20_000,
    "| a |\n+--+\n" * 20_000,
    "== ==\n" * 20_000,
    "-- --\n" * 20_000,
    "│" * 400_000,
)


@pytest.mark.parametrize("text", [" " * 400_000, " |" * 200_000, ("\t" * 200 + "\n") * 2_000, "|" * 400_000, *HOSTILE])
def test_a_hostile_text_takes_no_longer_than_its_length_allows(text):
    assert all(table.end <= len(text) for table in tables_of(text))
