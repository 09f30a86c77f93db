"""The compile cache: content, bounds, damage, full disks, many processes."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tilewright.support.cache import Cache, default_directory, key


def test_round_trip(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    k = key("kernel", "a")
    assert cache.get(k) is None
    cache.put(k, b"object")
    assert cache.get(k) == b"object"
    assert key("kernel", "a") == k != key("kerne", "la")


def test_damage_is_noticed_and_mended(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    k = key("x")
    cache.put(k, b"0123456789")
    path = cache.file(k)
    for damaged in (path.read_bytes()[:-1], b"", path.read_bytes()[:-1] + b"!", b"junk"):
        path.write_bytes(damaged)
        with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew"):
            assert cache.get(k) is None
        cache.put(k, b"0123456789")
        assert cache.get(k) == b"0123456789"


def test_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=400)
    keys = [key(str(i)) for i in range(10)]
    for i, k in enumerate(keys):
        cache.put(k, bytes(100))
        os.utime(cache.file(k), (i, i))
    cache.get(keys[0])
    cache.trim()
    assert cache.size() <= 400
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None
    assert cache.get(keys[9]) is not None


def test_unwritable_directory_warns_once_and_goes_on(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    cache = Cache(blocker / "cache")
    with pytest.warns(
        UserWarning, match=r"nothing can be kept in the compile cache .*set TILEWRIGHT_CACHE_DIR to another directory"
    ):
        cache.put(key("a"), b"1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(key("b"), b"1")
        assert cache.entries() == []


def test_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path)

    def full(source: str, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        cache.put(key("a"), b"1")
    assert cache.entries() == []


def test_many_processes(tmp_path: Path) -> None:
    program = (
        "import sys; from tilewright.support.cache import Cache, key\n"
        f"cache = Cache({str(tmp_path)!r})\n"
        "for i in range(200):\n"
        "    k = key(str(i % 7)); found = cache.get(k)\n"
        "    assert found in (None, bytes([i % 7]) * 5000), 'torn'\n"
        "    cache.put(k, bytes([i % 7]) * 5000)\n"
    )
    running = [subprocess.Popen([sys.executable, "-W", "error", "-c", program]) for _ in range(3)]
    assert [p.wait() for p in running] == [0, 0, 0]
    assert len(Cache(tmp_path).entries()) == 7


def test_clear_and_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "own"))
    assert default_directory() == tmp_path / "own"
    cache = Cache()
    cache.put(key("a"), b"1")
    assert cache.path == tmp_path / "own"
    assert cache.clear() == 1
    assert cache.get(key("a")) is None
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "tilewright"
