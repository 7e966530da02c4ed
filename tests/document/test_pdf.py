"""What is read of a PDF beside the text of its pages."""

import io
from pathlib import Path

import pytest
from files import drawn, pdf
from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText, Text
from pypdf.generic import NameObject, NumberObject, TextStringObject

from stretto import Stretto
from stretto.documents import read_bytes, read_document
from stretto.testing import ScriptedBackend
from stretto.values.errors import DocumentError

pytestmark = pytest.mark.usefixtures("forked_parsers")
HERE = Path(__file__).parent
FORM = HERE / "of_reportlab" / "form.pdf"


def written(writer):
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_what_was_filled_into_a_form_stands_beside_its_label():
    assert read_document(FORM).text.rstrip().split("\n") == [
        "Name of tenant: Ada Example",
        "Rent: 1234 euros",
        "Pets allowed: [x]",
        "[ ] Children",
        "Notice: six months",
        "Address 5 Example Street",
        "Signed.",
        "Remarks: Needs paint",
    ]


def test_values_that_another_program_filled_in_without_drawing_them_are_read():
    writer = PdfWriter(clone_from=FORM)
    for mark in writer.pages[0]["/Annots"]:
        field = mark.get_object()
        if field.get("/T") == "tenant":
            field[NameObject("/V")] = TextStringObject("Łukasz 李")
            field.pop("/AP", None)
    assert "Name of tenant: Łukasz 李\n" in read_bytes(written(writer), "form.pdf").text


def test_notes_are_read_below_their_page():
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("First page.", "Second page."))))
    writer.add_annotation(0, FreeText(text="Rent is 1,200 euros.", rect=(50, 50, 200, 80)))
    writer.add_annotation(1, Text(text="Is that right?", rect=(50, 50, 70, 70)))
    document = read_bytes(written(writer), "a.pdf")
    assert document.text == "First page.\n\nRent is 1,200 euros.\n\nSecond page.\n\n[Note: Is that right?]\n\n"
    assert document.page(document.text.index("[Note")) == 2


def test_a_page_that_is_a_picture_is_named_in_a_warning_of_the_answer():
    file = HERE / "of_reportlab" / "mixed.pdf"
    document = read_document(file)
    assert (document.unread_pages, document.page(document.text.index("Third"))) == ((2,), 3)
    with Stretto(ScriptedBackend(lambda _: "Fine.")) as stretto:
        answer = stretto.ask("What does it say?", documents=[file], strategy="direct")
    assert [(each.code, "page 2" in each) for each in answer.warnings] == [("unread", True)]


def test_a_stamp_on_a_scan_is_read_and_the_scan_is_named():
    writer = PdfWriter(clone_from=HERE / "of_reportlab" / "mixed.pdf")
    writer.pages[1].merge_page(PdfReader(io.BytesIO(pdf("Case 5, page 2."))).pages[0])
    document = read_bytes(written(writer), "a.pdf")
    assert "Case 5, page 2." in document.text
    assert document.unread_pages == ()
    assert ["page 2 is a picture" in each for each in document.warnings] == [True]


def test_words_broken_at_the_end_of_a_line_are_whole():
    text = read_document(HERE / "of_libreoffice" / "hyphens.pdf").text
    assert "notice period of six months" in " ".join(text.split())
    assert "extraordinary well-known" in " ".join(text.split())


COLUMNS = [
    """The bicycle needs care in winter,
because salt and water attack the
chain, so that oil has to be put
on it.
The brakes need new pads, a sure
sign of which is noise while one
slows down steep roads, and exam-
ples of bad ones are thin as coins.""",
    """Tents are best dried in the open
air before they are packed, since
mould grows within days on damp
cloth that lies folded in a bag.
Zips last longer with some wax on
them, and poles break where sand
has come between their parts; new
ones are sold almost anywhere.""",
    """Boots want fat rather than polish,
and paper inside them takes the
water out over night. Laces that
are worn out are better replaced
before the journey than on it. A
second pair of socks is worth all
of its weight, which everybody
finds out at some point.""",
]


def beside(columns, width, lower=0):
    """The lines of columns as some programs draw them: the first ones of all, then the second ones."""
    rows = enumerate(zip(*(column.split("\n") for column in columns), strict=True))
    return [
        (30 + width * at, 700 - 14 * row - lower * at, line) for row, lines in rows for at, line in enumerate(lines)
    ]


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize("lower", [0, 4])
def test_columns_that_are_drawn_line_by_line_are_read_one_below_the_other(number, lower):
    title = "What to look after before a journey of some weeks, as far as it can be bought in any town on the way"
    text = read_bytes(drawn((30, 740, title), *beside(COLUMNS[:number], 190, lower), (30, 560, title)), "a.pdf").text
    lines = text.split("\n")
    assert (lines[0], lines[-3]) == (title, title)
    columns = " ".join(COLUMNS[:number]).replace("-\n", "").split()
    assert " ".join(lines[1:-3]).split() == columns


@pytest.mark.parametrize(
    "columns",
    [
        [
            "\n".join(f"Item number {row} of the list" for row in range(8)),
            "\n".join(f"{row}.50 euros" for row in range(8)),
        ],
        ["Oil\nChain\nPads\nTent\nZip\nBoots\nLaces\nSocks", COLUMNS[1]],
        ["\n".join(f"Street {row}" for row in range(8)), "\n".join(f"Town {row}" for row in range(8))],
    ],
)
def test_rows_of_a_table_stay_rows(columns):
    lines = read_bytes(drawn(*beside(columns, 250)), "a.pdf").text.rstrip().split("\n")
    assert lines == [" ".join(row) for row in zip(*(column.split("\n") for column in columns), strict=True)]


def test_columns_that_are_drawn_one_after_the_other_stay_so():
    rows = sorted(beside(COLUMNS[:2], 190), key=lambda line: line[0])
    text = read_bytes(drawn(*rows), "a.pdf").text
    assert text.index("thin as coins") < text.index("Tents are best")


def test_a_raised_number_is_no_more_of_the_number_before_it():
    raised = ") Tj /F1 7 Tf 4 Ts ({}) Tj /F1 12 Tf 0 Ts ("
    page = f"It has 10{raised.format(6)} parts of 10{raised.format(-3)} m, 900{raised.format(1)} euros, 1,250.50."
    assert read_bytes(pdf(page), "a.pdf").text == "It has 10^6 parts of 10^-3 m, 900^1 euros, 1,250.50.\n\n"


def test_a_password_in_a_form_is_not_read():
    writer = PdfWriter(clone_from=FORM)
    for mark in writer.pages[0]["/Annots"]:
        field = mark.get_object()
        if field.get("/T") == "tenant":
            field[NameObject("/Ff")] = NumberObject(1 << 13)
    assert "Name of tenant:\n" in read_bytes(written(writer), "form.pdf").text


def test_a_file_that_only_its_owner_may_change_is_read():
    document = read_document(HERE / "of_libreoffice" / "owner.pdf")
    assert document.title == "Lease of a flat"
    assert "Three months for the tenant" in document.text


@pytest.mark.parametrize("file", ["user.pdf"])
def test_a_file_with_a_password_says_that_it_is_locked(file):
    with pytest.raises(DocumentError, match="it is locked, and needs a password"):
        read_document(HERE / "of_libreoffice" / file)
