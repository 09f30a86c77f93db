"""`make test-gpu` ends in time, and tells what it left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.on_gpu import Outcomes, run, table

PROGRAM = """
def test_first() -> None:
    pass


def test_second() -> None:
    pass


def test_third() -> None:
    pass
"""


class Steps:
    """A deadline that lets so many tests begin."""

    def __init__(self, count: int) -> None:
        self.count = count

    @property
    def left(self) -> float:
        self.count -= 1
        return self.count + 1


@pytest.mark.parametrize(("count", "status"), [(3, 0), (1, 1), (0, 1)])
def test_what_is_left_out(count: int, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    written: list[int] = []
    outcomes = Outcomes(Steps(count), lambda o: written.append(len(o.left_out)))  # type: ignore[arg-type]
    options = ("-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={tmp_path}", "--import-mode=importlib")
    found = run([str(tmp_path / "test_program.py")], outcomes, *options)
    said = capsys.readouterr().out
    assert found == status and written == [*range(3, 2 - count, -1), 3 - count]
    assert table(outcomes)[1].split()[1:5] == [str(count), "0", "0", str(3 - count)]
    names = ["test_first", "test_second", "test_third"]
    told = f"not run, for the time was over: {3 - count} tests" + "".join(
        [f"\n  test_program.py::{name}" for name in names[count:]]
    )
    assert (told in said) == (count < 3)
