"""``stretto chat --web``: the page is served until a signal comes."""

import gzip
import re
import signal
import urllib.request
from pathlib import Path

import pytest
import warm
from patience import patience

import stretto.server.web
from stretto.cli.terminal.ways import NAMES
from stretto.strategies import STRATEGIES


def test_the_page_is_served_and_a_signal_ends_it(program, tmp_path, monkeypatch):
    command = program('{"": "Yes."}', "chat", "--web", "--no-browser")
    monkeypatch.chdir(tmp_path)
    with warm.started(command) as (running, said):
        address = next(word for line in said for word in line.split() if word.startswith("http://127.0.0.1:"))
        with urllib.request.urlopen(address, timeout=patience(20)) as page:  # noqa: S310 - this machine
            assert b"<title>Stretto</title>" in page.read()
            assert "script-src 'self'" in page.headers["content-security-policy"]
        wanted = urllib.request.Request(address, headers={"accept-encoding": "gzip"})  # noqa: S310 - this machine
        with urllib.request.urlopen(wanted, timeout=patience(20)) as page:  # noqa: S310 - this machine
            assert page.headers["content-encoding"] == "gzip"
            assert b"<title>Stretto</title>" in gzip.decompress(page.read())
        running.send_signal(signal.SIGINT)
        assert running.wait(patience(30)) == 130


@pytest.mark.parametrize("option", [("--system", "Be brief."), ("--strategy", "direct"), ("--trace",)])
def test_what_the_page_chooses_is_refused_here(stretto, option):
    result = stretto("chat", "--web", "--no-browser", *option)
    assert result.exit_code == 2
    assert f"{option[0]} cannot be used with --web" in result.stderr.replace("\n", " ")


def test_the_page_and_its_files_are_small_and_load_nothing_from_elsewhere():
    folder = Path(stretto.server.web.__file__).parent / "page"
    files = [file for file in folder.rglob("*") if file.suffix in (".html", ".js", ".css", ".svg")]
    assert len(files) > 10
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 200_000  # as browsers get them
    own = [file for file in files if "vendor" not in file.parts]
    for file in own:
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, file
        assert "https://" not in text, file


def test_every_strategy_can_be_chosen_by_the_name_that_the_terminal_has_for_it():
    page = (Path(stretto.server.web.__file__).parent / "page" / "index.html").read_text()
    choices = dict(re.findall(r'<option value="(\w+)" title="strategy \1: [^"]+">([^<]+)</option>', page))
    assert choices == NAMES
    assert set(choices) == {"auto", *STRATEGIES}


def test_code_of_others_has_the_version_that_is_written_down():
    folder = Path(stretto.server.web.__file__).parent / "page" / "vendor"
    told = folder.joinpath("README.md").read_text()
    for name, begins in (("marked.js", "marked v"), ("purify.js", "DOMPurify "), ("highlight.js", "Highlight.js v")):
        version = next(line.split("|")[3].strip() for line in told.splitlines() if line.startswith(f"| `{name}`"))
        assert f"{begins}{version}" in folder.joinpath(name).read_text()[:400]
    version = next(line.split("|")[3].strip() for line in told.splitlines() if line.startswith("| `temml.js`"))
    assert f'version:"{version}"' in folder.joinpath("temml.js").read_text()
