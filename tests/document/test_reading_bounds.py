"""Reading of files ends: in time, in memory, when it is cancelled, and whatever stands where a file should."""

import io
import os
import re
import select
import socket
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
import pytest
from files import empty_pages, pdf, word
from patience import patience

from stretto import AsyncStretto, Document, Stretto
from stretto.client.first_imports import import_all
from stretto.config.settings import Settings
from stretto.documents import ReadingLimits, ReadingTime, read_document, read_documents
from stretto.testing import ScriptedBackend
from stretto.values.errors import DeadlineExceededError, DocumentError

ENDLESS = b"<div>" * 500_000  # lexbor looks through all open elements at each one


@pytest.fixture(autouse=True)
def everything_is_imported():
    """A deadline of a moment is there for the reading."""
    import_all()


def backend():
    return ScriptedBackend({"": "Fine."})


def children():
    """The processes that this one has started and not ended."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            fields = (each / "stat").read_text().rpartition(")")[2].split() if each.name.isdecimal() else []
            command = (each / "cmdline").read_bytes() if fields else b""
        except OSError:
            continue
        if fields and int(fields[1]) == os.getpid() and fields[0] != "Z" and b"stretto.documents.worker" in command:
            found.append(int(each.name))
    return found


def ended():
    """Whether they all end: a reading whose time is over has them killed, and nobody waits for that."""
    for child in children():
        with suppress(ProcessLookupError):
            watched = os.pidfd_open(child)
            select.select([watched], [], [], patience(60))
            os.close(watched)
    return not children()


def pipe(folder, name="pipe.txt"):
    os.mkfifo(folder / name)
    return folder / name


@pytest.fixture(params=["pipe", "html", "pdf"])
def endless(request, tmp_path):
    if request.param == "pipe":
        writer = os.open(pipe(tmp_path), os.O_RDWR)  # it writes nothing
        yield tmp_path / "pipe.txt"
        os.close(writer)
        return
    file = tmp_path / f"endless.{request.param}"
    file.write_bytes(ENDLESS if request.param == "html" else slow_pdf())
    yield file


def slow_pdf():
    """Some thousand pages that all show the same long text, in a small file."""
    data = pdf("hello")
    long = b"BT /F1 12 Tf 20 200 Td " + b"(x) Tj " * 200_000 + b"ET"
    return data.replace(re.search(rb"BT .*?ET", data, re.DOTALL)[0], long)


def test_a_deadline_ends_the_reading_of_a_file(endless):
    with Stretto(backend()) as stretto, pytest.raises(DeadlineExceededError, match="while documents were being read"):
        stretto.ask("What?", documents=[endless], deadline_s=0.2, strategy="direct")
    assert ended()


@pytest.mark.anyio
async def test_a_deadline_ends_it_beside_an_event_loop_too(endless):
    async with AsyncStretto(backend()) as stretto:
        with pytest.raises(DeadlineExceededError, match="while documents were being read"):
            await stretto.ask("What?", documents=[endless], deadline_s=0.2, strategy="direct")
        with anyio.move_on_after(0.2) as scope:
            await stretto.ask("What?", documents=[endless], strategy="direct")
        assert scope.cancelled_caught
        assert await anyio.to_thread.run_sync(ended)  # the thread that waits for the process was told


def test_a_deadline_holds_for_a_request_without_a_client(endless):
    from stretto.values.request import Request  # noqa: PLC0415 - it is this test's alone

    with pytest.raises(DeadlineExceededError):
        Request.of("What?", documents=[endless], deadline_s=0.2)


@pytest.mark.thorough
def test_a_file_that_takes_too_long_is_an_error_by_itself_and_a_warning_in_a_folder(tmp_path):
    (tmp_path / "endless.html").write_bytes(ENDLESS)
    (tmp_path / "terms.html").write_bytes(b"<p>The rent is 900 euros.</p>")
    limit = round(patience(2))  # the other file is read within it
    with Stretto(backend(), settings=Settings(reading_s=limit)) as stretto:
        with pytest.raises(DocumentError, match=rf"endless.html' was not read: .* longer than {limit} s.* reading_s"):
            stretto.ask("What?", documents=[tmp_path / "endless.html"], strategy="direct")
        answer = stretto.ask("What?", documents=[tmp_path], strategy="direct")
    assert [(w.code, "endless.html" in w and f"{limit} s" in w) for w in answer.warnings] == [("unread", True)]


@pytest.mark.thorough
def test_a_file_whose_parsing_needs_too_much_memory_is_left_out(tmp_path):
    (tmp_path / "a.html").write_bytes(b"<p>x" * 3_000_000)
    (tmp_path / "b.html").write_bytes(b"<p>The rent is 900 euros.</p>")
    found = read_documents([tmp_path], allowance=ReadingTime(ReadingLimits(reading_memory_mb=300)))
    assert [document.title for document in found.documents] == ["b.html"]
    assert "300 MB" in found.left_out[0].reason


def changed(data, old, new):
    """A Word file with something else in its text."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as read, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as written:
        for name in read.namelist():
            part = read.read(name)
            written.writestr(name, part.replace(old, new) if name == "word/document.xml" else part)
    return out.getvalue()


def test_a_cell_that_claims_to_span_all_columns_of_the_world_is_one_cell(tmp_path):
    data = changed(word(), b"<w:tcPr>", b'<w:tcPr><w:gridSpan w:val="99999999"/>')
    (tmp_path / "a.docx").write_bytes(data)
    found = read_document(tmp_path / "a.docx", allowance=ReadingTime(ReadingLimits(reading_memory_mb=400)))
    assert "begins | 1 May" in found.text


def test_a_cell_over_many_rows_stands_in_each_of_them(tmp_path):
    cell = "<w:tc><w:tcPr><w:vMerge{}/></w:tcPr><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    first, other = cell.format(' w:val="restart"', "rent"), cell.format("", "")
    rows = f"<w:tr>{first}</w:tr>" + f"<w:tr>{other}</w:tr>" * 3000  # deeper than the interpreter
    (tmp_path / "a.docx").write_bytes(changed(word(), b"<w:tr>", rows.encode() + b"<w:tr>"))
    assert read_document(tmp_path / "a.docx").text.count("rent\n") == 3001


def test_what_is_no_file_is_told_and_the_rest_is_read(tmp_path):
    (tmp_path / "lease.txt").write_text("The rent is 900 euros.")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nothing.txt")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    (tmp_path / "round.txt").symlink_to(tmp_path / "round.txt")
    pipe(tmp_path)
    (tmp_path / "null.txt").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as bound:
        before = Path.cwd()
        os.chdir(tmp_path)  # the path of a socket is short
        bound.bind("socket.txt")
        os.chdir(before)
        found = read_documents([tmp_path])
        pattern = read_documents([f"{tmp_path}/*.txt"])
    assert [document.title for document in found.documents] == ["lease.txt"]
    causes = {each.path.name: each.reason for each in found.left_out}
    assert causes == {
        "gone": "it is a link to nothing",
        "gone.txt": "it is a link to nothing",
        "null.txt": "it is a device, not a file",
        "pipe.txt": "it is a pipe, not a file",
        "round.txt": causes["round.txt"],
        "socket.txt": "it is a socket, not a file",
    }
    assert "check the path" in causes["round.txt"]
    assert {each.path.name for each in pattern.left_out} == set(causes) - {"gone"}


@pytest.mark.parametrize(("name", "kind"), [("/dev/zero", "a device"), ("socket", "a socket")])
def test_what_is_no_file_is_an_error_where_it_is_named(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        with pytest.raises(DocumentError, match=f"it is {kind}, not a file"):
            read_document(name)


@pytest.mark.thorough
def test_a_pipe_without_a_writer_is_an_error_where_it_is_named(tmp_path):
    named = pipe(tmp_path)
    with (
        Stretto(backend()) as stretto,
        pytest.raises(DocumentError, match=r"pipe.txt' was not read: it is a pipe, and"),
    ):
        stretto.ask("What?", documents=named, strategy="direct", deadline_s=patience(20))


def test_a_folder_that_may_not_be_entered_is_told(tmp_path):
    """As another user, because root may enter everything."""
    code = (
        "import os, sys, tempfile, pathlib\n"
        "from stretto.documents import read_documents\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "folder.chmod(0o755)\n"
        "(folder / 'lease.txt').write_text('The rent is 900 euros.')\n"
        "(folder / 'locked').mkdir()\n"
        "(folder / 'locked' / 'more.txt').write_text('And the deposit 1,800.')\n"
        "(folder / 'locked').chmod(0)\n"
        "read_documents([folder / 'lease.txt'])\n"  # imports what it needs, while that may be read
        "if not os.geteuid(): os.seteuid(65534)\n"
        "found = read_documents([folder])\n"
        "print([each.title for each in found.documents], [(each.path.name, each.reason) for each in found.left_out])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "['lease.txt'] [('locked', 'Permission denied; check its rights')]\n"


def test_links_out_of_a_folder_are_followed_only_where_that_is_asked_for(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("The code is 48213.")
    (inside / "lease.txt").write_text("The rent is 900 euros.")
    (inside / "same.txt").symlink_to(inside / "lease.txt")
    (inside / "out.txt").symlink_to(outside / "secret.txt")
    (inside / "folder").symlink_to(outside)
    (inside / "back").symlink_to(inside)
    found = read_documents([inside])
    assert [document.title for document in found.documents] == ["lease.txt", "same.txt"]
    assert [each.path.name for each in found.left_out] == ["out.txt", "back", "folder"]
    assert all("follow_links" in each.reason for each in found.left_out)
    followed = read_documents([inside], allowance=ReadingTime(ReadingLimits(follow_links=True)))
    assert [document.title for document in followed.documents] == ["lease.txt", "out.txt", "same.txt", "secret.txt"]
    with Stretto(backend(), settings=Settings(follow_links=True)) as stretto:
        assert not stretto.ask("What?", documents=[inside], strategy="direct").warnings
    assert [each.title for each in read_documents([f"{inside}/**/*.txt"]).documents] == ["lease.txt", "same.txt"]


def test_links_in_a_circle_do_not_multiply_what_a_pattern_finds(tmp_path):
    (tmp_path / "a.md").write_text("first")
    for name in "bcdef":
        (tmp_path / name).symlink_to(tmp_path)
    found = read_documents([f"{tmp_path}/**/*.md"])
    assert [document.text for document in found.documents] == ["first"]


@pytest.mark.parametrize("name", ["a\0b", "~nouser_x/y", "a" * 5000, "a/" * 5000])
def test_a_name_that_no_file_can_have_is_one_clear_error(name):
    with pytest.raises(DocumentError, match="was not read"):
        read_document(name)
    with pytest.raises(DocumentError, match="was not read"):
        read_documents([name])


def test_a_name_that_is_not_utf_8_does_not_spoil_the_answer(tmp_path):
    name = os.fsdecode(b"Geb\xfchr.txt")
    (tmp_path / name).write_text("The rent is 900 euros.")
    with Stretto(backend()) as stretto:
        answer = stretto.ask("What is the rent?", documents=[tmp_path])
    assert answer.model_dump_json()
    document = Document.read(tmp_path / name)
    assert document.model_dump_json()
    assert document.title == "Geb\ufffdhr.txt"


def test_binary_data_behind_a_long_text_is_no_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"text\n" * 60_000 + b"\0\1\2")
    with pytest.raises(DocumentError, match="binary data"):
        read_document(tmp_path / "a.txt")


@pytest.mark.thorough
def test_a_script_without_a_guard_reads_files_that_need_a_process(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf("First page."))
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom stretto import Document\nprint('begun')\nprint(Document.read(sys.argv[1]).text.strip())\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "a.pdf")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert said == "begun\nFirst page.\n"


def test_many_files_share_one_process(tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **how: started.append(given) or popen(*given, **how))
    for number in range(5):
        (tmp_path / f"{number}.html").write_bytes(b"<p>text</p>")
    (tmp_path / "a.md").write_bytes(b"# text")
    assert len(read_documents([tmp_path]).documents) == 6
    assert len(started) == 1
    assert not children()


def test_headings_with_many_blanks_are_read_in_no_time(tmp_path):
    """Cubic before: 1,605 characters took nine seconds, and these a week."""
    (tmp_path / "a.md").write_bytes(b"# a" + b" " * 200_000 + b"b\n\ntext\n")
    assert read_document(tmp_path / "a.md").headings[0].level == 1


def test_a_pdf_of_nearly_as_many_pages_as_there_may_be_ends_with_the_deadline(tmp_path):
    (tmp_path / "a.pdf").write_bytes(empty_pages(19_999))
    with pytest.raises(DeadlineExceededError):
        read_document(tmp_path / "a.pdf", allowance=ReadingTime(deadline_s=0.1))
