"""Prompts and documents as callers hold them."""

from pathlib import Path

import pytest

from stretto import Document, InvalidRequestError, Message, Request, Stretto
from stretto.testing import ScriptedBackend
from stretto.testing.server import ScriptedServer


def said(prompt, **options):
    return [(message.role, message.content) for message in Request.of(prompt, **options).messages]


# --- documents


def test_one_string_is_one_document():
    assert Request.of("Why?", documents="The text.").documents == (Document(text="The text."),)


def test_one_document_and_one_path_are_one_document_each(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("\ufeffGrüße", encoding="utf-8")
    read = Document(text="Grüße", title="notes.txt", source=str(file))
    assert Request.of("Why?", documents=file).documents == (read,)
    assert Request.of("Why?", documents=Document(text="x")).documents == (Document(text="x"),)


def test_an_answer_in_the_place_of_its_turn_is_told_of():
    with Stretto(ScriptedBackend({"": "Yes."})) as stretto:
        answer = stretto.ask("Is tea hot?")
        with pytest.raises(InvalidRequestError, match=r"not Answer\. Of an answer, pass its turn: answer\.turn\."):
            stretto.ask(["Is tea hot?", answer, "Why?"])
        assert stretto.ask(["Is tea hot?", answer.turn, "Why?"]).text == "Yes."


@pytest.mark.parametrize("name", ["lease.pdf", "letters/2026/one.TXT", "C:\\notes.md", "*.docx"])
def test_a_string_that_looks_like_a_file_is_a_text_and_the_answer_says_so(name):
    request = Request.of("Why?", documents=[name, "A text."])
    assert [document.text for document in request.documents] == [name, "A text."]
    with Stretto(ScriptedBackend({"": "Yes."})) as stretto:
        [warning] = stretto.ask(request).warnings
    assert (warning.code, f"Path({name!r})" in warning) == ("unread", True)


@pytest.mark.parametrize(
    "text", ["Signed by Ada.", "See lease.pdf.", "Read it:\nlease.pdf", "e.g.", "a" * 300 + ".pdf"]
)
def test_an_ordinary_text_is_not_taken_for_a_file(text):
    assert Request.of("Why?", documents=text).unread == ()


def test_strings_paths_and_documents_may_be_mixed(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("A")
    found = Request.of("Why?", documents=["B", file, Document(text="C", title="c")]).documents
    assert [(document.title, document.text) for document in found] == [("", "B"), ("a.txt", "A"), ("c", "C")]


def test_a_file_that_cannot_be_read_is_one_clear_error(tmp_path):
    image, binary = tmp_path / "image.png", tmp_path / "data.bin"
    image.write_bytes(b"\x89PNG\r\n\xff")
    binary.write_bytes(b"text\0more")
    for path, says in [
        (tmp_path / "missing.txt", "No such file"),
        (image, "neither UTF-8 text nor of a known format"),
        (binary, "is binary data"),
    ]:
        with pytest.raises(InvalidRequestError, match=says) as caught:
            Request.of("Why?", documents=[path])
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("wrong", [7, [7], b"bytes", {"text": "x"}])
def test_other_documents_are_refused_with_what_can_be_passed(wrong):
    with pytest.raises(InvalidRequestError, match=r"Path.*Document"):
        Request.of("Why?", documents=wrong)


# --- messages as OpenAI's clients write them


def test_a_mapping_is_a_conversation_of_one_turn():
    assert said({"role": "user", "content": "Why?"}) == [("user", "Why?")]


def test_a_developer_is_the_system():
    assert said([{"role": "developer", "content": "Be kind."}, "Why?"]) == [("system", "Be kind."), ("user", "Why?")]


def test_text_parts_are_joined():
    parts = [{"type": "text", "text": "Look:"}, {"type": "text", "text": "why?"}]
    assert said([{"role": "user", "content": parts}]) == [("user", "Look:\nwhy?")]


def test_a_turn_that_is_no_message_is_named():
    with pytest.raises(InvalidRequestError, match="not int"):
        Request.of(["Why?", 7])


NAMED = [Message(role="user", content="I am Ada.", name="ada"), {"role": "user", "name": "bo", "content": "And I?"}]


def test_the_names_of_speakers_reach_a_server_that_speaks_openais_protocol():
    import anyio  # noqa: PLC0415 - a server beside a synchronous client is not wanted here

    from stretto import AsyncStretto  # noqa: PLC0415 - as above

    async def ask():
        async with ScriptedServer("Hello.") as server:
            async with AsyncStretto("openai:some-model", base_url=server.openai_url, api_key="none") as stretto:
                answer = await stretto.ask(NAMED, strategy="direct")
            return answer.warnings, server.requests[0].body["messages"]

    warnings, messages = anyio.run(ask)
    assert [message.get("name") for message in messages] == ["ada", "bo"]
    assert warnings == ()


def test_where_names_cannot_be_told_the_answer_warns():
    with Stretto(ScriptedBackend({"": "Hello."})) as stretto:
        assert [warning.code for warning in stretto.ask(NAMED, strategy="direct").warnings] == ["option"]
        assert stretto.ask("Hi.", strategy="direct").warnings == ()


def test_a_path_reaches_the_model_as_text(tmp_path: Path):
    file = tmp_path / "names.txt"
    file.write_text("The saddle is called Bob.")
    backend = ScriptedBackend({"Bob": "Bob.", "": "Nobody knows."})
    with Stretto(backend) as stretto:
        assert stretto.ask("What is the saddle called?", documents=file).text == "Bob."
