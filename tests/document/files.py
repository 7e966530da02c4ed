"""Files in the formats that are read, made by the libraries that others use to make them."""

import io
import zipfile

import docx
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject, StreamObject


def pdf(*pages: str, title: str = "", outline: dict[str, int] | None = None, locked: bool = False) -> bytes:
    """A PDF with a line of text on each page."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        if text:
            stream = DecodedStreamObject()
            stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
            page[NameObject("/Contents")] = writer._add_object(stream)
            fonts = DictionaryObject({NameObject("/F1"): font})
            page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    if title:
        writer.add_metadata({"/Title": title})
    for name, number in (outline or {}).items():
        writer.add_outline_item(title=name, page_number=number)
    if locked:
        writer.encrypt("open sesame", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def drawn(*lines: tuple[float, float, str]) -> bytes:
    """A PDF with a page on which these texts are drawn, each at its place, in this order."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf("x")))
    texts = (f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in lines)
    stream = DecodedStreamObject()
    stream.set_data("\n".join(texts).encode())
    writer.pages[0].mediabox.upper_right = (600, 800)
    writer.pages[0][NameObject("/Contents")] = writer._add_object(stream)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def broken_page(data: bytes, page: int) -> bytes:
    """The same PDF with a page whose text cannot be unpacked."""
    writer = PdfWriter(clone_from=io.BytesIO(data))
    stream = StreamObject()
    stream[NameObject("/Filter")] = NameObject("/NoSuchFilter")
    stream._data = b"BT (lost) Tj ET"
    writer.pages[page - 1][NameObject("/Contents")] = writer._add_object(stream)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def empty_pages(number: int) -> bytes:
    """A PDF with so many pages and nothing on them, written by hand: its makers take seconds."""
    kids = " ".join(f"{3 + page} 0 R" for page in range(number))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Count {number}/Kids[{kids}]>>"]
    objects += ["<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"] * number
    data, offsets = b"%PDF-1.4\n", []
    for index, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += f"{index} 0 obj\n{body}\nendobj\n".encode()
    rows = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{rows}"
    end += f"trailer <</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF"
    return data + end.encode()


def word(title: str = "") -> bytes:
    """A Word file with two headings, two paragraphs and a table."""
    document = docx.Document()
    document.core_properties.title = title
    document.add_heading("Terms", 1)
    document.add_paragraph("The rent is 900 euros.")
    document.add_heading("Dates", 2)
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "begins", "1 May"
    document.add_paragraph("Signed.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def word_without_text() -> bytes:
    """A Word file with nothing in it that is text."""
    out = io.BytesIO()
    docx.Document().save(out)
    return out.getvalue()


def bomb() -> bytes:
    """A Word file whose text unpacks to 20 megabytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as part:
        for _ in range(20):
            part.write(b" " * 2**20)
    return out.getvalue()
