import os
import sys
from functools import partial

import anyio
import pytest
import warm
from files import bomb, broken_page, empty_pages, pdf, word, word_without_text
from patience import patience

from stretto import AsyncStretto, Stretto
from stretto.documents import read_document, read_documents
from stretto.testing import ScriptedBackend
from stretto.values.errors import DocumentError

pytestmark = pytest.mark.usefixtures("forked_parsers")


def made(folder, name, data):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


def test_a_page_that_cannot_be_read_is_left_out_and_named(tmp_path):
    data = broken_page(pdf("First page.", "Second page.", "Third page."), 2)
    document = read_document(made(tmp_path, "report.pdf", data))
    assert document.unread_pages == (2,)
    assert "First page." in document.text
    assert document.page(document.text.index("Third")) == 3
    with Stretto(ScriptedBackend(lambda _: "Fine.")) as stretto:
        answer = stretto.ask("What does it say?", documents=[document], strategy="direct")
    assert answer.warnings == ("Of 'report.pdf', page 2 was left out: no text could be read there.",)


def test_a_pdf_none_of_whose_pages_can_be_read_is_an_error(tmp_path):
    path = made(tmp_path, "report.pdf", broken_page(pdf("First page."), 1))
    with pytest.raises(DocumentError, match="no text that can be read"):
        read_document(path)


def test_a_pdf_has_its_title_pages_and_outline(tmp_path):
    data = pdf("First page.", "Second page.", title="Annual report", outline={"Results": 1})
    document = read_document(made(tmp_path, "report.pdf", data))
    second = document.text.index("Second page.")
    assert document.title == "Annual report"
    assert [document.page(0), document.page(second)] == [1, 2]
    assert document.place(second, second + 12) == "p. 2"
    assert document.place(0, second + 12) == "pp. 1-2"
    assert document.heading(second).text == "Results"


def test_a_word_file_keeps_headings_and_tables_in_order(tmp_path):
    document = read_document(made(tmp_path, "lease.docx", word("Lease")))
    assert document.text == "Terms\n\nThe rent is 900 euros.\n\nDates\n\nbegins | 1 May\n\nSigned.\n\n"
    assert [(each.level, each.text, document.text[each.offset :][:5]) for each in document.headings] == [
        (1, "Terms", "Terms"),
        (2, "Dates", "Dates"),
    ]


def test_markdown_headings_in_code_blocks_are_none(tmp_path):
    text = "Title\n=====\n\n```\n# not one\n```\n\n## Section ##\n\ntext\n"
    document = read_document(made(tmp_path, "a.md", text))
    assert [(each.level, each.text) for each in document.headings] == [(1, "Title"), (2, "Section")]
    assert document.title == "Title"


@pytest.mark.thorough
def test_pages_may_be_nested_deeper_than_the_interpreter(tmp_path):
    document = read_document(made(tmp_path, "a.html", "<div>" * 20_000 + "deep" + "</div>" * 20_000))
    assert document.text.strip() == "deep"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_texts_are_read_in_their_encoding(tmp_path, encoding):
    text = "Die Gebühr für die Prüfung beträgt 30 Euro; größere Änderungen sind möglich.\n" * 20
    assert read_document(made(tmp_path, "a.txt", text.encode(encoding))).text == text


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.txt", b"\x00\x01\x02" * 50, "binary data"),
        ("a.pdf", b"no pdf", "cannot be read as a PDF"),
        ("a.pdf", partial(pdf, "secret", locked=True), "password"),
        ("a.pdf", partial(pdf, "", ""), "no text"),
        ("a.docx", word_without_text, "no text"),
        ("a.html", b"<html><body><img src='scan.png'></body></html>", "no text"),
        ("a.txt", b"", "it is empty"),
        ("a.md", b" \r\n ", "it is empty"),
        ("a.docx", b"no zip", "cannot be read as a Word file"),
        ("a.docx", bomb, "it is not opened"),
    ],
    # The data would be a part of the name, which pytest puts into the environment of the process that reads the file.
    ids=lambda value: "data" if isinstance(value, bytes) or callable(value) else None,
)
def test_what_cannot_be_read_gives_one_error_that_names_the_file(tmp_path, name, data, said):
    file = made(tmp_path, name, data() if callable(data) else data)
    with pytest.raises(DocumentError, match=said) as raised:
        read_document(file)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize(("name", "make"), [("a.txt", partial(pdf, "Some text.")), ("a.doc", word), ("a.pdf", word)])
def test_a_format_is_seen_in_a_file_whatever_it_is_called(tmp_path, name, make):
    assert "<" not in read_document(made(tmp_path, name, make())).text


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DocumentError, match="check the path"):
        read_document(tmp_path / "none.txt")


def test_ten_thousand_empty_pages_are_no_text(tmp_path):
    with pytest.raises(DocumentError, match="no text"):
        read_document(made(tmp_path, "a.pdf", empty_pages(10_000)))


def test_a_folder_with_one_bad_file_gives_the_rest(tmp_path):
    made(tmp_path, "b.txt", "second")
    made(tmp_path, "a/a.md", "first")
    made(tmp_path, "c.pdf", b"broken")
    made(tmp_path, ".git/config.txt", "hidden")
    made(tmp_path, "picture.png", b"\x89PNG")
    reading = read_documents([tmp_path])
    assert [document.text for document in reading.documents] == ["second", "first"]
    assert [left.path.name for left in reading.left_out] == ["c.pdf"]


def test_a_document_of_a_folder_in_a_format_without_a_reader_is_named_and_a_picture_is_not(tmp_path):
    (tmp_path / "lease.txt").write_text("The rent is 900 euros.")
    (tmp_path / "amendment.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 100)
    (tmp_path / "garden.jpg").write_bytes(b"\xff\xd8\xff\xe0" * 100)
    found = read_documents([tmp_path])
    assert [document.title for document in found.documents] == ["lease.txt"]
    assert [(each.path.name, "convert it" in each.reason) for each in found.left_out] == [("amendment.doc", True)]


def test_an_empty_file_of_a_folder_is_nothing_to_speak_of_and_one_without_text_is(tmp_path):
    made(tmp_path, "__init__.py", b"")
    made(tmp_path, "a.txt", "first")
    made(tmp_path, "scan.html", b"<img src='scan.png'>")
    found = read_documents([tmp_path])
    assert "first" in [document.text for document in found.documents]
    assert [each.path.name for each in found.left_out] == ["scan.html"]


def test_a_pattern_names_files(tmp_path):
    made(tmp_path, "x/a.md", "a")
    made(tmp_path, "x/y/b.md", "b")
    made(tmp_path, "x/c.txt", "c")
    reading = read_documents([f"{tmp_path}/**/*.md"])
    assert [document.text for document in reading.documents] == ["a", "b"]


def test_a_folder_with_nothing_to_read_is_an_error(tmp_path):
    with pytest.raises(DocumentError, match="no file that can be read"):
        read_documents([tmp_path])


def test_a_folder_with_too_many_files_is_an_error(tmp_path):
    for number in range(4):
        made(tmp_path, f"{number}.txt", "text")
    with pytest.raises(DocumentError, match="more than 3 files"):
        read_documents([tmp_path], most_files=3)


def test_a_folder_of_which_nothing_can_be_read_says_why(tmp_path):
    made(tmp_path, "a.pdf", b"broken")
    made(tmp_path, "b.pdf", b"broken too")
    with pytest.raises(DocumentError, match=r"None of the 2 files of .* can be read: it cannot be read as a PDF"):
        read_documents([tmp_path])


@pytest.mark.parametrize(
    ("name", "data", "package"),
    [
        ("a.pdf", pdf("text"), "pypdfium2"),
        ("a.docx", word(), "lxml"),
        ("a.html", b"<p>text</p>", "selectolax"),
        ("a.txt", "größer".encode("cp1252"), "chardet"),
    ],
    ids=["pdf", "docx", "html", "txt"],  # a Word file says when it was made
)
def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it(tmp_path, name, data, package):
    code = (
        "import sys; sys.modules[sys.argv[2]] = None\n"
        "from stretto import Document\n"
        "from stretto.values.errors import MissingDependencyError\n"
        "try: Document.read(sys.argv[1])\n"
        "except MissingDependencyError as error: print(error)\n"
    )
    file = made(tmp_path, name, data)
    said = warm.run([sys.executable, "-c", code, str(file), package], timeout=patience(60))
    assert f"the package {package} is not installed. Run: pip install 'stretto[documents]'" in said.stdout


@pytest.mark.anyio
async def test_files_are_read_beside_the_event_loop(tmp_path):
    file = made(tmp_path, "a.fifo.txt", "")
    file.unlink()
    os.mkfifo(file)
    with anyio.fail_after(patience(20)):
        async with AsyncStretto(ScriptedBackend({"": "Fine."})) as stretto, anyio.create_task_group() as tasks:

            async def write():
                await anyio.to_thread.run_sync(file.write_text, "From a pipe.")

            tasks.start_soon(write)
            answer = await stretto.ask("What?", documents=file, strategy="direct")
    assert answer.text == "Fine."
