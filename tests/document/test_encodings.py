"""Texts in other encodings than UTF-8, and what is said of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretto import Stretto
from stretto.documents import read_bytes
from stretto.documents.encoding import decoded
from stretto.testing import ScriptedBackend
from stretto.values.errors import DocumentError

GUESSED = "which is not UTF-8, the encoding was guessed: "
PROSE = "The tenant pays the rent on the first day of each month and keeps the flat in good order. "
MARKS = ("£900", "€5", "½ cup", "naïve", "Müller", "© 2024", "20°", "“so”", "a – b", "café", "§ 5")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("length", [0, 260, 3_000, 22_000])
def test_an_english_text_with_one_western_mark_is_read_as_it_was_written(mark, length):
    prose = (PROSE * 300)[:length]
    text = f"{prose[: length // 2]} Here stands {mark} once. {prose[length // 2 :]}"
    assert decoded(text.encode("cp1252")) == (text, (f"{GUESSED}Windows-1252.",))


REAL = {
    "cp1252": (
        "Der Vertrag läuft bis zum 1. März.",
        "L’été, les élèves préfèrent être à la plage où ça sent la forêt.",
        "São Paulo não é a capital; coração e ação.",
        "Æbleskiver og rødgrød med fløde på en ø.",
        "Il perché è così: città, più, già.",
        "¿Qué hora es? ¡Hola!",
        "Müller",
        "La città è più bella. Perché? Così è.",
        "Perché no? Il canone è di 900 €. Così è più facile.",
        "ÉTÉ À PARIS, ÇA C’EST ÉVIDENT",
    ),
    "iso8859-15": ("Der Preis für den Käufer ist 20 €.",),
    "gb18030": ("租赁合同的期限为六个月。租金为每月九百欧元，押金为三千元整。",),
    "big5": ("租賃合約的期限為六個月。租金為每月九百歐元，押金為三千元整。",),
    "cp932": ("賃貸契約の期間は六ヶ月です。家賃は月額９００ユーロです。",),
    "euc-jp": ("賃貸契約の期間は六ヶ月です。家賃は月額９００ユーロです。",),
    "iso2022_jp": ("賃貸契約の期間は六ヶ月です。",),
    "cp949": ("임대 계약 기간은 6개월입니다. 임대료는 월 900유로입니다.",),
    "koi8-r": ("Договор аренды заключается на срок шесть месяцев.",),
    "cp1251": ("Договор аренды заключается на срок шесть месяцев.", "Привет, мир! Как дела?"),
    "cp1250": (
        "Umowa najmu zostaje zawarta na okres sześciu miesięcy. Czynsz wynosi 900 złotych.",
        "Nájemní smlouva se uzavírá na dobu šesti měsíců. Příliš žluťoučký kůň úpěl ďábelské ódy.",
        "A bérleti szerződés hat hónapra szól, a bérleti díj kilencszáz euró, előre fizetendő.",
    ),
    "cp1253": ("Η σύμβαση μίσθωσης διαρκεί έξι μήνες και το ενοίκιο είναι 900 ευρώ.",),
    "cp1254": ("Kira sözleşmesi altı ay için yapılmıştır. Kira bedeli 900 liradır ve peşin ödenir.",),
    "cp1255": ("חוזה השכירות הוא לתקופה של שישה חודשים ודמי השכירות הם 900 אירו.",),
    "cp1256": ("عقد الإيجار لمدة ستة أشهر والإيجار 900 يورو في الشهر.",),
    "cp874": ("สัญญาเช่ามีระยะเวลาหกเดือน ค่าเช่าเดือนละ 900 ยูโร",),
    "mac_roman": ("Der Vertrag läuft bis zum 1. März und die Miete beträgt 900 Euro für die Wohnung.",),
    "cp437": ("Der Vertrag läuft bis zum 1. März und die Miete beträgt 900 Euro für die Wohnung.",),
}


@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name, texts in REAL.items() for text in texts])
@pytest.mark.parametrize("times", [1, 200])
def test_a_text_in_another_encoding_is_read_and_the_guess_is_told(encoding, text, times):
    whole = "\n".join([text] * times)
    read, said = decoded(whole.encode(encoding))
    assert read == whole
    assert [each.startswith(GUESSED) for each in said] == [True]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize(
    "text", ["The rent is 900.", "Miete: 900 €\n", "押金为三千元整。\n租金。\n", "Договор аренды на шесть месяцев.\n"]
)
def test_utf_16_needs_no_mark(encoding, text):
    assert decoded(text.encode(encoding))[0] == text


@pytest.mark.parametrize("bad", [b"\xff", b"\xe4", b"M\xe4rz", b"\xc3"])
def test_a_faulty_byte_is_marked_in_a_text_that_is_utf_8_otherwise(bad):
    whole = "Die Miete beträgt 900 Euro für die Größe.\n" * 20
    read, said = decoded(whole.encode() + bad)
    assert read == whole + bad.decode(errors="replace")
    assert said == ("1 character could not be read: U+FFFD replaces it in the text.",)


@pytest.mark.parametrize("text", ["Die Größe ist 5 m.\n", "ok 5\n"])
def test_zeros_in_a_log_are_holes_in_a_text_and_no_sign_of_utf_16(text):
    assert decoded((text * 30 + "\0\0" + text).encode()) == (
        f"{text * 30}\ufffd\ufffd{text}",
        ("2 characters could not be read: U+FFFD replaces them in the text.",),
    )


def test_marks_behind_a_long_text_in_ascii_are_read():
    data = b"The quick brown fox. " * 13_000 + "Käufer zahlt 5 €".encode("cp1252")
    assert decoded(data)[0].endswith("Käufer zahlt 5 €")


@pytest.mark.parametrize("data", [b"\x00\x01\x02" * 50, bytes(range(256)) * 4, b"\x7fELF\x02\x01\x01" + bytes(64)])
def test_binary_data_is_no_text(data):
    with pytest.raises(DocumentError, match="binary data"):
        decoded(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_text_without_zeros_or_one_error(data):
    try:
        text, _ = decoded(data)
    except DocumentError:
        return
    assert "\0" not in text
    assert "\r" not in text


@pytest.mark.usefixtures("forked_parsers")
def test_an_answer_says_that_an_encoding_was_guessed(tmp_path):
    file = tmp_path / "lease.txt"
    file.write_bytes("Die Miete beträgt 900 €.".encode("cp1252"))
    with Stretto(ScriptedBackend(lambda _: "Fine.")) as stretto:
        answer = stretto.ask("What does it say?", documents=[file], strategy="direct")
    assert [(each.code, "Windows-1252" in each) for each in answer.warnings] == [("unread", True)]


NOTEBOOK = {
    "metadata": {"kernelspec": {"language": "python"}},
    "cells": [
        {
            "cell_type": "markdown",
            "source": ["# Rents\n", "All of them."],
            "attachments": {"a.png": {"image/png": "i"}},
        },
        {
            "cell_type": "code",
            "source": "print('```')\nplot()",
            "outputs": [
                {"output_type": "stream", "text": ["900\n"]},
                {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "iVBOR" * 900}},
                {"output_type": "error", "ename": "ValueError", "evalue": "too high", "traceback": ["\x1b[31m"]},
            ],
        },
    ],
}


@pytest.mark.usefixtures("forked_parsers")
def test_a_notebook_is_its_cells_without_the_pictures():
    document = read_bytes(json.dumps(NOTEBOOK).encode(), "rents.ipynb")
    assert document.text == (
        "# Rents\nAll of them.\n\n````python\nprint('```')\nplot()\n````\n\n```\n900\n```\n\n```\n<Figure>\n```\n\n"
        "```\nValueError: too high\n```\n"
    )
    assert (document.title, document.headings[0].text) == ("Rents", "Rents")
    assert document.warnings == ("2 pictures were left out.",)


@pytest.mark.usefixtures("forked_parsers")
@pytest.mark.parametrize("text", ["{", "[1]", '{"cells": 5}', "[" * 100_000, '{"cells": [[]]}', "null"])
def test_a_notebook_that_is_none_is_a_text(text):
    assert read_bytes(text.encode(), "rents.ipynb").text == text


def test_a_picture_inside_markdown_is_left_out():
    document = read_bytes(b"# A\n\n![plan](data:image/png;base64," + b"iVBORw0K" * 90 + b")\n\n## B\n", "a.md")
    assert document.text == "# A\n\n![plan](data:image/png;base64,...)\n\n## B\n"
    assert [document.text[each.offset :][:4] for each in document.headings] == ["# A\n", "## B"]
    assert document.warnings == ("a picture was left out.",)


def test_a_zero_in_a_text_of_one_byte_a_letter_makes_it_no_utf_16():
    for data in (b"text\0more", b"one\0two\0three\0four"):
        with pytest.raises(DocumentError, match="binary data"):
            decoded(data)
