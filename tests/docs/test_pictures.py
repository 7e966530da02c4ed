"""A picture of the documentation is made anew where what it shows has changed."""

import importlib
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
COMPARED = re.compile(r"(?:mask|long-context-focus)-?.*\.svg")  # which other tests draw anew
sys.path.insert(0, str(DOCS))
pictures = importlib.import_module("pictures")


def test_every_picture_shows_what_there_is_now():
    stale = [
        f"{name}: {each.command}"
        for name, each in pictures.records().items()
        if pictures.hash_of(each.shows) != each.hash
    ]
    assert stale == [], "What these pictures show has changed. Make them anew."


def test_every_picture_has_a_record_and_every_record_a_picture_and_a_command():
    there = {file.name for file in pictures.IMAGES.iterdir() if file.suffix in {".png", ".svg"}}
    kept = pictures.records()
    assert {name for name in there if not COMPARED.fullmatch(name)} == set(kept)
    programs = {each.command.split()[1] for each in kept.values()}
    assert all((pictures.ROOT / program).is_file() for program in programs)


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "style.css").write_text("a {}")
    (tmp_path / "view.js").write_text("1")
    return tmp_path


def test_a_change_of_a_file_and_a_new_file_change_the_hash(repository):
    before = pictures.hash_of(["*.css", "*.js"], repository)
    assert pictures.hash_of(["*.css", "*.js"], repository) == before
    (repository / "style.css").write_text("a { color: red }")
    changed = pictures.hash_of(["*.css", "*.js"], repository)
    (repository / "new.js").write_text("")
    assert len({before, changed, pictures.hash_of(["*.css", "*.js"], repository)}) == 3


def test_a_pattern_without_files_is_named(repository):
    with pytest.raises(ValueError, match=r"shows='\*.html' is no file"):
        pictures.hash_of(["*.html"], repository)


def test_a_record_is_read_as_it_was_written_and_goes_with_its_picture(tmp_path):
    file = tmp_path / "sources.toml"
    shows = ["stretto/display/palette.toml"]
    for name in ("one.png", 'odd "name".png'):
        (tmp_path / name).touch()
    pictures.keep_record("python docs/one.py", {"one.png": shows, 'odd "name".png': shows}, file)
    assert pictures.records(file)['odd "name".png'] == pictures.Record(
        "python docs/one.py", shows, pictures.hash_of(shows)
    )
    (tmp_path / "one.png").unlink()
    pictures.keep_record("python docs/one.py", {'odd "name".png': shows}, file)
    assert list(pictures.records(file)) == ['odd "name".png']
