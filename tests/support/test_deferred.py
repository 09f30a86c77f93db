"""Modules whose code runs when a name of theirs is first read."""

from __future__ import annotations

import importlib
import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.support.deferred import Deferred, defer

_numbers = itertools.count()
Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Writes a package from files by path, imports it, and returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tests.support.test_deferred.RAN", [])

    def made(**files: str) -> str:
        name = f"deferred_{next(_numbers)}"
        for path, text in {"__init__": "", **files}.items():
            file = (tmp_path / name).joinpath(*path.split("/")).with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("PACKAGE", name))
        importlib.invalidate_caches()
        importlib.import_module(name)
        return name

    return made


RAN: list[str] = []
TELLS = "from tests.support import test_deferred as t\nt.RAN.append(__name__)\n"


def test_code_runs_at_the_first_name_that_is_read(make: Make) -> None:
    name = make(room='"""What it is for."""\n' + TELLS + "value = 5\n")
    defer(f"{name}.room")
    room = importlib.import_module(f"{name}.room")
    package = sys.modules[name]
    assert package.room is room
    assert room.__name__ == f"{name}.room"
    assert room.__file__ is not None
    assert room.__file__.endswith("room.py")
    assert not hasattr(room, "__wrapped__")
    assert not RAN
    assert room.value == 5
    assert [f"{name}.room"] == RAN
    assert type(room) is ModuleType
    assert room.__doc__ == "What it is for."


@pytest.mark.parametrize(
    "look", [dir, lambda m: m.__doc__, lambda m: m.__all__, lambda m: hasattr(m, "missing")], ids=("dir", "doc", "all", "missing")
)  # fmt: skip
def test_what_runs_the_code(make: Make, look: Callable[[ModuleType], object]) -> None:
    name = make(room='"""Words."""\n' + TELLS + "__all__ = ['value']\nvalue = 5\n")
    defer(f"{name}.room")
    look(sys.modules[f"{name}.room"])
    assert RAN
    assert "value" in dir(sys.modules[f"{name}.room"])


def test_a_missing_name_is_refused_as_by_any_module(make: Make) -> None:
    name = make(room="value = 5\n")
    defer(f"{name}.room")
    with pytest.raises(AttributeError, match=rf"^module '{name}.room' has no attribute 'other'$"):
        sys.modules[f"{name}.room"].other  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{name}.other'"):
        defer(f"{name}.other")


def test_modules_below_are_imported_without_the_package(make: Make) -> None:
    name = make(
        **{
            "room/__init__": TELLS + "from PACKAGE.room.inner import inner\n",
            "room/inner": TELLS + "from PACKAGE.room import other\ndef inner(): return other.value\n",
            "room/other": TELLS + "value = 5\n",
            "room/last": TELLS,
        }
    )
    defer(f"{name}.room")
    room = sys.modules[f"{name}.room"]
    inner = importlib.import_module(f"{name}.room.inner")
    last = importlib.import_module(f"{name}.room.last")
    assert [f"{name}.room.inner", f"{name}.room.other", f"{name}.room.last"] == RAN
    # To others a name is what the package makes of it: here a function, not the module.
    assert room.inner is inner.inner
    assert room.inner() == 5
    assert RAN[3:] == [f"{name}.room"]
    assert room.last is last


def test_what_is_set_outlives_the_code(make: Make) -> None:
    name = make(room="value = 5\n")
    defer(f"{name}.room")
    room = sys.modules[f"{name}.room"]
    room.value = 6  # type: ignore[attr-defined]
    assert room.value == 6


def test_code_that_raises_runs_again(make: Make) -> None:
    name = make(room=TELLS + "early = 1\nif len(t.RAN) == 1:\n    raise ValueError('not yet')\nvalue = 5\n")
    defer(f"{name}.room")
    room = sys.modules[f"{name}.room"]
    with pytest.raises(ValueError, match="not yet"):
        room.value  # noqa: B018
    assert type(room) is Deferred
    assert "early" not in vars(room)
    assert room.value == 5


def test_code_that_asks_for_its_own_module_sees_what_there_is(make: Make) -> None:
    name = make(
        room="early = 1\nfrom PACKAGE.other import seen\nlate = 2\n",
        other="from PACKAGE import room\nseen = (room.early, hasattr(room, 'late'))\n",
    )
    defer(f"{name}.room")
    assert sys.modules[f"{name}.room"].seen == (1, False)


def test_threads_wait_for_the_code(make: Make) -> None:
    name = make(room=TELLS + "import time\nearly = 1\ntime.sleep(0.1)\nvalue = 5\n")
    defer(f"{name}.room")
    room, seen = sys.modules[f"{name}.room"], []
    threads = [threading.Thread(target=lambda: seen.append(room.value)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert seen == [5] * 4
    assert len(RAN) == 1


def test_reloading_runs_the_code_again(make: Make) -> None:
    name = make(room=TELLS + "value = len(t.RAN)\n")
    defer(f"{name}.room")
    room = importlib.reload(sys.modules[f"{name}.room"])
    assert type(room) is ModuleType
    assert room.value == 2
    assert not hasattr(room, "missing")
    assert len(RAN) == 2


def test_a_module_that_comes_while_another_thread_runs_the_code(make: Make) -> None:
    name = make(
        **{
            "room/__init__": TELLS + "import time\nwhile len(t.RAN) < 2: time.sleep(0.001)\n",
            "room/inner": TELLS + "value = 5\n",
        }
    )
    defer(f"{name}.room")
    room = sys.modules[f"{name}.room"]
    reader = threading.Thread(target=lambda: dir(room))
    reader.start()
    inner = importlib.import_module(f"{name}.room.inner")
    reader.join(60)
    assert room.inner is inner
