"""What is read of a Word file: all that its readers see once every change is accepted."""

import io
import zipfile
from pathlib import Path

import docx
import pytest
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import parse_xml

from stretto.documents import read_bytes, read_document
from stretto.documents.docx import read_docx
from stretto.values.errors import DocumentError

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
FILES = Path(__file__).parent / "of_libreoffice"
NAMES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "w14": "http://schemas.microsoft.com/office/word/2010/wordml",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "v": "urn:schemas-microsoft-com:vml",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
}


def file_with(body, change=None):
    """A Word file with this in its body; ``change`` is called with the document of python-docx."""
    document = docx.Document()
    spaces = " ".join(f'xmlns:{name}="{space}"' for name, space in NAMES.items())
    for element in parse_xml(f"<w:x {spaces}>{body}</w:x>"):
        document.element.body.sectPr.addprevious(element)
    if change is not None:
        change(document)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def text_of(body, change=None):
    return read_docx(file_with(body, change), "a.docx").text


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*inner, properties=""):
    return f"<w:p><w:pPr>{properties}</w:pPr>{''.join(inner)}</w:p>"


def cell(text, properties=""):
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{paragraph(run(text))}</w:tc>"


def controlled(inner, properties=""):
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{inner}</w:sdtContent></w:sdt>"


def table(*rows):
    return f"<w:tbl><w:tblPr/><w:tblGrid/>{''.join(rows)}</w:tbl>"


def row(*cells, properties=""):
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


MARK = 'w:id="1" w:author="a"'
BOX = f"<w:txbxContent>{paragraph(run('Keys: three'))}</w:txbxContent>"
SHAPE = (
    f'<mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx>{BOX}</wps:txbx></w:drawing></mc:Choice>'
    f"<mc:Fallback><w:pict><v:textbox>{BOX}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent>"
)


def mark(kind):
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph(run("Rent: "), f"<w:ins {MARK}>{run('1,200')}</w:ins>", run(" euros")), "Rent: 1,200 euros"),
        (paragraph(run("Rent: "), f"<w:del {MARK}><w:r><w:delText>900</w:delText></w:r></w:del>", run("1")), "Rent: 1"),
        (
            paragraph(f"<w:moveFrom {MARK}>{run('old')}</w:moveFrom>", f"<w:moveTo {MARK}>{run('new')}</w:moveTo>"),
            "new",
        ),
        (paragraph(run("One, "), properties=f"<w:rPr><w:del {MARK}/></w:rPr>") + paragraph(run("two")), "One, two"),
        (controlled(paragraph(run("Notice: six months."))), "Notice: six months."),
        (controlled(controlled(paragraph(controlled(run("a")), run("b")))), "ab"),
        (paragraph(f'<w:fldSimple w:instr="X">{run("a")}</w:fldSimple>', f"<w:smartTag>{run('b')}</w:smartTag>"), "ab"),
        (paragraph(f"<w:unknown>{run('a')}</w:unknown>") + f"<w:unknown>{paragraph(run('b'))}</w:unknown>", "a\n\nb"),
        (
            paragraph(
                mark("begin"),
                "<w:r><w:instrText>IF</w:instrText></w:r>",
                run("no"),
                mark("separate"),
                run("yes"),
                mark("end"),
            ),
            "yes",
        ),
        (paragraph(mark("begin"), run("no")) + paragraph(run("the rest")), "the rest"),
        (paragraph(run("Beside."), f"<w:r>{SHAPE}</w:r>"), "Beside.\n\nKeys: three"),
        (
            paragraph(
                run("m"),
                run("2", '<w:vertAlign w:val="superscript"/>'),
                run(", H"),
                run("2", '<w:vertAlign w:val="subscript"/>'),
                run("O"),
            ),
            "m^2, H2O",
        ),
        (paragraph(run("900", "<w:strike/>"), run(" 1,200")), "~~900~~ 1,200"),
        (paragraph(run("a"), run("no", "<w:vanish/>"), run("b", '<w:vanish w:val="0"/>')), "ab"),
        (
            paragraph("<w:r><w:t>co</w:t><w:noBreakHyphen/><w:t>op</w:t><w:tab/><w:t>x</w:t><w:br/><w:t>y</w:t></w:r>"),
            "co-op x y",
        ),
        (
            paragraph(
                '<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>',
                run(" "),
                '<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>',
            ),
            "α [x]",
        ),
        (
            paragraph(controlled(run("☒"), '<w14:checkbox><w14:checked w14:val="1"/></w14:checkbox>'), run(" Pets")),
            "[x] Pets",
        ),
        (
            paragraph(
                '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:default w:val="0"/></w:checkBox>'
                "</w:ffData></w:fldChar></w:r>",
                mark("end"),
                run(" Pets"),
            ),
            "[ ] Pets",
        ),
        (
            paragraph(
                "<m:oMath><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den></m:f></m:oMath>"
            ),
            r"$\frac{a}{b}$",
        ),
        (
            paragraph(
                "<w:r><w:ruby><w:rt><w:r><w:t>kan</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>漢</w:t></w:r></w:rubyBase></w:ruby></w:r>"
            ),
            "漢(kan)",
        ),
    ],
)
def test_what_readers_of_word_see_is_read(body, text):
    assert text_of(body) == f"{text}\n\n"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (
            [row(cell("Date"), cell("Version"), cell("Author")), row(controlled(cell("")), cell("1"), cell("Acme"))],
            "Date | Version | Author\n | 1 | Acme",
        ),
        ([row(cell("a"), controlled(cell("b"))), controlled(row(cell("c"), cell("d")))], "a | b\nc | d"),
        ([row(cell("a"), cell("b")), row(cell("c"), cell("d"), properties=f"<w:del {MARK}/>")], "a | b"),
        (
            [row(cell("a", '<w:vMerge w:val="restart"/>'), cell("b")), row(cell("", "<w:vMerge/>"), cell("c"))],
            "a | b\na | c",
        ),
        (
            [row(cell("a", '<w:gridSpan w:val="2"/>'), cell("b")), row(cell("c"), cell("d"), cell("e"))],
            "a | a | b\nc | d | e",
        ),
        ([row(cell("a"), cell("b")), row(cell("c"), properties='<w:gridBefore w:val="1"/>')], "a | b\n | c"),
        (
            [row(cell("a"), f"<w:tc>{table(row(cell('b'), cell('c')), row(cell('d'), cell('e')))}</w:tc>")],
            "a | b, c; d, e",
        ),
        ([row(cell("A framed text.")), row(cell("Another."))], "A framed text.\n\nAnother."),
        ([row(cell("a"), f"<w:tc>{paragraph(f'<w:r>{SHAPE}</w:r>')}</w:tc>")], "a | Keys: three"),
    ],
)
def test_cells_stand_in_their_columns(rows, text):
    assert text_of(table(*rows)).rstrip() == text


def test_a_file_of_libreoffice_is_read_with_notes_comments_headers_and_numbers():
    document = read_document(FILES / "lease.docx")
    assert document.title == "Lease of a flat"
    assert document.text.rstrip().split("\n\n") == [
        "Confidential draft",
        "1. Rent",
        "The rent is 1,200 euros^1 a month, for 80 m^2.",
        "^1 Without heating.",
        "[Comment by Bob: Too much?]",
        "2. Notice",
        "(a) Six months for the landlord^i",
        "  i. unless agreed",
        "(b) Three months for the tenant",
        "See the house rules. <https://example.org/house-rules>",
        "Keys: three",
        "Month | Sum | Sum\nMay | rent | 1,200\nMay | heating | 80, paid",
        "^i In writing.",
        "Example Homes, page 1",
    ]
    assert [document.text[each.offset :].split("\n")[0] for each in document.headings] == ["1. Rent", "2. Notice"]


def numbered(document):
    """Two lists of one definition, of which the second begins anew."""
    numbering = document.part.numbering_part.element
    numbering.insert(
        0,
        parse_xml(
            f'<w:abstractNum xmlns:w="{NAMES["w"]}" w:abstractNumId="90">'
            '<w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="Art. %1"/></w:lvl>'
            '<w:lvl w:ilvl="1"><w:start w:val="3"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1(%2)"/></w:lvl>'
            '<w:lvl w:ilvl="2"><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2.%3"/><w:isLgl/></w:lvl>'
            "</w:abstractNum>"
        ),
    )
    for number, override in (
        ("90", ""),
        ("91", '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride>'),
    ):
        numbering.append(
            parse_xml(
                f'<w:num xmlns:w="{NAMES["w"]}" w:numId="{number}"><w:abstractNumId w:val="90"/>{override}</w:num>'
            )
        )


def test_numbers_of_lists_are_counted_as_word_counts_them():
    def item(text, level, number="90"):
        listed = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
        return paragraph(run(text), properties=listed)

    body = item("a", 0) + item("b", 1) + item("c", 1) + item("d", 2) + item("e", 0) + item("f", 2) + item("g", 1)
    body += item("h", 0, "91") + item("i", 0, "91") + item("j", 0, "0")
    assert text_of(body, numbered).split() == (
        "Art. I a I(c) b I(d) c 1.4.1 d Art. II e 2.3.1 f II(d) g Art. VII h Art. VIII i j".split()  # noqa: SIM905 - as it is read
    )


STRICT = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "http://purl.oclc.org/ooxml/wordprocessingml/main",
    "http://schemas.openxmlformats.org/officeDocument/2006/": "http://purl.oclc.org/ooxml/officeDocument/",
}


def changed(data, *, without=(), replaced=()):
    """The same file without some parts, and with some words replaced in all."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            for before, after in replaced:
                part = part.replace(before.encode(), after.encode())
            if name not in without:
                new.writestr(name, part)
    return out.getvalue()


@pytest.mark.usefixtures("forked_parsers")
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("strict.docx", {"replaced": STRICT.items()}),
        ("template.dotx", {"replaced": [("document.main+xml", "template.main+xml")]}),
        (
            "macros.docm",
            {
                "replaced": [
                    (
                        "openxmlformats-officedocument.wordprocessingml.document.main",
                        "ms-word.document.macroEnabled.main",
                    )
                ]
            },
        ),
        ("bare.docx", {"without": ("docProps/core.xml", "docProps/app.xml", "word/styles.xml", "[Content_Types].xml")}),
    ],
)
def test_strict_files_templates_and_files_without_properties_are_read(name, change):
    data = changed((FILES / "lease.docx").read_bytes(), **change)
    assert "The rent is 1,200 euros" in read_bytes(data, name).text


BOMB = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><w:document xmlns:w="x"><w:t>&b;</w:t></w:document>'


def with_document(text):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", text)
    return out.getvalue()


@pytest.mark.usefixtures("forked_parsers")
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "locked with a password"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "a file of Word before 2007; save it as .docx"),
        (with_document(BOMB), "a part of it defines entities"),
        (with_document("<a>" * 10_000), "cannot be read as a Word file"),
        (with_document("no XML"), "cannot be read as a Word file"),
        (b"PK\x03\x04 broken", "no ZIP archive"),
    ],
    ids=["locked", "old", "entities", "deep", "text", "cut"],
)
def test_what_is_no_word_file_is_one_clear_error(data, said):
    with pytest.raises(DocumentError, match=said) as raised:
        read_bytes(data, "lease.docx")
    assert "BytesIO" not in str(raised.value)


def with_files(**files):
    """A Word file in whose body whole files stand, each by its ending."""

    def change(document):
        for place, (ending, data) in enumerate(files.items()):
            part = Part(
                PackURI(f"/word/inside{place}.{ending}"), "application/octet-stream", data, document.part.package
            )
            number = document.part.relate_to(part, RELATIONSHIP_TYPE.A_F_CHUNK)
            chunk = parse_xml(f'<w:altChunk xmlns:w="{NAMES["w"]}" xmlns:r="{RELATIONS}" r:id="{number}"/>')
            document.element.body.sectPr.addprevious(chunk)

    return file_with(paragraph(run("Outside.")), change)


def test_files_inside_a_word_file_are_read_and_those_that_cannot_be_are_named():
    inner = with_files(txt=b"A text.", rtf=b"{\\rtf1 no}")
    document = read_docx(with_files(html=b"<p>A <b>page</b>.</p>", docx=inner), "a.docx")
    assert document.text == "Outside.\n\nA page.\n\nOutside.\n\nA text.\n\n"
    assert ["inside1.rtf" in each for each in document.warnings] == [True]
