"""Runs tvmc's command line in this process."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from tests.cli.command import Done
from tilewright.driver.tvmc.main import run


def tvmc(*args: str | Path) -> Done:
    """`tvmc ARGS`: its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*map(str, args)])
    return Done(code, out.getvalue(), err.getvalue())


def told(*args: str | Path, code: int = 4) -> str:
    """What a command says that fails, without the word before it."""
    done = tvmc(*args)
    assert (done.code, done.out) == (code, ""), done
    return done.err.removeprefix("Error: ").rstrip("\n")
