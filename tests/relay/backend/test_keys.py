"""What keys of the cache tell of sources: their content, by what the system says of files that have not changed lately."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tilewright.codegen.backend import back_end_of
from tilewright.relay.backend import keys
from tilewright.support import cache
from tilewright.target import Target


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "root" / "room"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.py").write_text("x = 1\n")
    (folder / "inner" / "b.py").write_text("y = 1\n")
    return folder


def digest(room: Path) -> str:
    return keys.sources_digest(room.parent, ["room"])


def change(room: Path) -> None:
    """Another content of the same size, under the same time of modification."""
    file = room / "inner" / "b.py"
    facts = file.stat()
    time.sleep(0.02)  # times of changes go in steps
    file.write_text("y = 2\n")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def test_files_that_changed_just_now_are_read(room: Path) -> None:
    first = digest(room)
    assert not cache.default_cache().entries()
    change(room)
    assert digest(room) != first


def test_files_that_have_settled_are_known(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = digest(room)
    monkeypatch.setattr(keys, "SETTLED", -(10**18))
    assert digest(room) == fresh
    assert len(cache.default_cache().entries()) == 1
    monkeypatch.setattr("builtins.open", None)  # nothing is read
    assert digest(room) == fresh


def test_a_change_under_the_same_time_is_seen(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "SETTLED", -(10**18))
    first = digest(room)
    change(room)
    assert digest(room) != first
    (room / "inner" / "c.py").write_text("")
    (room / "notes.txt").write_text("no source")
    assert digest(room) != first


def test_rooms_of_back_ends_belong_to_the_compiler() -> None:
    """A change of what makes machine code must not find the code of before."""
    rooms = {room.split("/")[0] for room in keys.COMPILER_ROOMS}
    modules = [type(back_end_of(Target(kind))).__module__ for kind in ("llvm", "c", "cuda", "ext_dev")]
    assert {m.split(".")[1] for m in modules} <= rooms
