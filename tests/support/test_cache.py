"""The compile cache: content, bounds, damage, full disks, many processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
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


def test_entries_that_changed_places_are_found(tmp_path: Path) -> None:
    cache, keys = Cache(tmp_path), [key("a"), key("b")]
    for k in keys:
        cache.put(k, k.encode())
    swap(*[cache.file(k) for k in keys])
    for k in keys:
        with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew"):
            assert cache.get(k) is None
        cache.put(k, k.encode())
        assert cache.get(k) == k.encode()
    large = [np.full(100_000, i, np.uint8) for i in range(2)]
    for k, content in zip(keys, large, strict=True):
        assert cache.put_mapped(k, content)
    swap(*[cache.file(k) for k in keys])
    for k, content in zip(keys, large, strict=True):
        with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew"):
            assert cache.map(k) is None
        assert cache.put_mapped(k, content)
        np.testing.assert_array_equal(cache.map(k), content)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_no_entry(tmp_path: Path, kind: str) -> None:
    """Pipes would be waited for, and /dev/zero be read until memory ends."""
    cache, k = Cache(tmp_path), key("x")
    place = cache.file(k)
    place.parent.mkdir()
    for read in (cache.get, cache.map):
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "device":
            place.symlink_to("/dev/zero")
        else:
            place.mkdir(exist_ok=True)
        with pytest.warns(UserWarning, match="is damaged; it is removed and compiled anew"):
            assert read(k) is None
    cache.put(k, b"object")
    assert cache.get(k) == b"object"


def swap(a: Path, b: Path) -> None:
    a.rename(a.with_name("aside"))
    b.rename(a)
    a.with_name("aside").rename(b)


AS_USER = """
import concurrent.futures.thread, mmap, os, sys, warnings  # before this user cannot read the library any more
user, mask, folder, name = int(sys.argv[1]), int(sys.argv[2], 8), sys.argv[3], sys.argv[4]
from tilewright.support.cache import Cache, key
import numpy as np
os.umask(mask)
os.setgroups([])
os.setgid(4242)
os.setuid(user)
cache = Cache(folder)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(*[(cache.get(key(k)) or b"-").decode() for k in ("first", "second")], end=" ")
    cache.put(key(name), name.encode())
    cache.put_mapped(key(name, "large"), np.arange(100, dtype=np.uint8))
    held = cache.map(key(name, "large"))
    print((cache.get(key(name)) or b"-").decode(), held is not None, end=" ")
    cache.trim()
    print(len(told))
"""


def as_user(user: int, mask: str, folder: Path, name: str) -> list[str]:
    """What one user reads of two entries, writes and reads again, and how often is warned."""
    done = subprocess.run(
        [sys.executable, "-c", AS_USER, str(user), mask, str(folder), name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that every user reaches."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
def test_two_users_share_a_directory_that_their_group_may_write(open_folder: Path) -> None:
    """Under any umask: what one keeps, the other reads, replaces and drops."""
    shared = open_folder / "cache"
    shared.mkdir()
    os.chown(shared, 0, 4242)
    os.chmod(shared, 0o2770)
    assert as_user(4001, "077", shared, "first") == ["-", "-", "first", "True", "0"]
    assert as_user(4002, "022", shared, "second") == ["first", "-", "second", "True", "0"]
    assert as_user(4001, "077", shared, "second") == ["first", "second", "second", "True", "0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is several users")
@pytest.mark.parametrize("mask", ["022", "077"])
def test_the_cache_of_another_user_is_no_failure(open_folder: Path, mask: str) -> None:
    """What cannot be read is compiled anew, what cannot be kept is not; each is told once."""
    shared = open_folder / "cache"
    shared.mkdir()
    os.chown(shared, 4001, 4242)
    as_user(4001, mask, shared, "first")
    read, _, own, mapped, warned = as_user(4002, "022", shared, "second")
    assert (read, own, mapped, warned) == (("first", "-", "False", "1") if mask == "022" else ("-", "-", "False", "2"))


def test_least_recently_used_go_first(tmp_path: Path) -> None:
    keys = [key(str(i)) for i in range(10)]
    for i, k in enumerate(keys):
        Cache(tmp_path).put(k, bytes(100))
        os.utime(Cache(tmp_path).file(k), (i, i))
    cache = Cache(tmp_path, limit=400)
    cache.get(keys[0])
    cache.trim()
    assert cache.size() <= 400
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None
    assert cache.get(keys[9]) is not None


def test_one_in_many_writes_looks_at_all_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few a process makes: a large cache would cost each process seconds at its first."""
    looks: list[Cache] = []
    monkeypatch.setattr(Cache, "trim", lambda cache: looks.append(cache))
    for i in range(640):
        Cache(tmp_path).put(key(str(i)), b"1")
    assert 5 <= len(looks) <= 20


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
