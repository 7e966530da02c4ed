import os

from stretto.local_engine.model.loading import kept_data
from stretto.local_engine.model.loading.kept_data import recall, remember


def test_the_oldest_are_forgotten_where_all_together_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept_data, "_MOST_BYTES", 1_000)
    for number, name in enumerate(("first", "second", "third")):
        before = {*tmp_path.rglob("numbers-*")}
        remember("numbers", name, bytes([1 + number]) * 400)
        for path in {*tmp_path.rglob("numbers-*")} - before:
            os.utime(path, (number, number))  # written one after the other
    assert [[*recall("numbers", name)] for name in ("first", "second", "third")] == [[], [b"\2" * 400], [b"\3" * 400]]


def test_the_newest_stays_however_large_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kept_data, "_MOST_BYTES", 1_000)
    remember("numbers", "large", b"1" * 2_000)
    assert [*recall("numbers", "large")] == [b"1" * 2_000]
