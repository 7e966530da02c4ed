"""Files that the page sends to be read: a name from a request is never a path."""

import re
import sys
from pathlib import Path, PureWindowsPath
from urllib.parse import quote

import pytest
from live_server import in_front_of

import stretto.server.web
from stretto.config.settings import Settings

pytestmark = pytest.mark.anyio


async def test_a_file_is_read_by_the_ending_of_its_name():
    async with in_front_of("Fine.") as live, live.http() as http:
        answer = await http.post("/web/read?name=a.html", content=b"<head><title>News</title></head><p>It rained.</p>")
    assert answer.json() == {"title": "News", "text": "It rained.\n\n"}


async def test_what_was_guessed_of_a_file_is_a_warning_of_the_answer():
    async with in_front_of("Fine.") as live, live.http() as http:
        read = (await http.post("/web/read?name=a.txt", content="Die Miete beträgt 900 €.".encode("cp1252"))).json()
        asked = {
            "model": "stretto-direct",
            "messages": [{"role": "user", "content": "What?"}],
            "stretto": {"documents": [read]},
        }
        answer = await http.post("/v1/chat/completions", json=asked)
    assert read["text"] == "Die Miete beträgt 900 €."
    (warning,) = answer.json()["stretto"]["warnings"]
    assert (warning["code"], "Windows-1252" in warning["message"]) == ("unread", True)


@pytest.mark.parametrize("name", ["%00", "a%00b.txt", "a" * 400 + ".txt", "a%0Ab.txt", "", "/"])
async def test_a_name_that_no_file_has_is_the_request_s_fault(name):
    async with in_front_of("Fine.") as live, live.http() as http:
        answer = await http.post(f"/web/read?name={name}", content=b"text")
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "name"


@pytest.mark.parametrize(
    "name", [r"C:\Users\me\x.txt", r"C:x.txt", r"\\host\share\x.txt", "../../x.txt", "/etc/x.txt", r"..\..\x.txt"]
)
async def test_no_file_is_written_or_opened_by_a_name_from_a_request(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened, listens = [], [True]  # the interpreter keeps a hook for good
    sys.addaudithook(lambda event, given: opened.append(given[0]) if listens and event == "open" else None)
    async with in_front_of("Fine.") as live, live.http() as http:
        answer = await http.post(f"/web/read?name={quote(name)}", content=b"text")
    listens.clear()
    assert answer.json()["text"] == "text"
    assert PureWindowsPath(answer.json()["title"]).name == "x.txt"
    assert not [each for each in opened if "x.txt" in str(each)]
    assert not list(tmp_path.iterdir())


async def test_a_path_of_the_page_that_is_no_file_is_not_found():
    async with in_front_of("Fine.") as live, live.http() as http:
        for name in ("a" * 300, "a" * 300 + ".js", "%00.js", "..%2f..%2fapp.py", "%2e%2e/pages.py", "a\\..\\b.js"):
            answer = await http.get(f"/web/{name}")
            assert answer.status_code == 404, name
            assert answer.json()["error"]["code"] == "unknown_url"
        index = await http.get("/")
        named = re.findall(r'="/?web/([^"]+)"', index.text)
        assert named
        for name in named:
            assert (await http.get(f"/web/{name}")).status_code == 200


async def test_the_whole_page_is_small_as_it_is_served():
    folder = Path(stretto.server.web.__file__).parent / "page"
    names = [file.relative_to(folder).as_posix() for file in folder.rglob("*.*")]
    async with in_front_of("Fine.") as live, live.http() as http:
        answers = [await http.get(f"/web/{name}") for name in names]
    assert len(names) > 40
    assert {answer.headers["content-encoding"] for answer in answers} == {"gzip"}
    assert sum(int(answer.headers["content-length"]) for answer in answers) <= 400_000


async def test_a_file_that_takes_too_long_is_refused():
    async with in_front_of("Fine.", settings=Settings(reading_s=0.2)) as live, live.http() as http:
        answer = await http.post("/web/read?name=a.html", content=b"<div>" * 1_000_000)
        assert answer.status_code == 400
        assert "reading_s" in answer.json()["error"]["message"]
