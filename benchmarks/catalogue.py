"""The benchmarks: modules with a `main`, in the rooms of this folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent

BENCHMARKS = {
    path.stem: f"benchmarks.{path.parent.name}.{path.stem}"
    for path in sorted(FOLDER.glob("*/*.py"))
    if "\ndef main(" in path.read_text()
}
"""The module of each benchmark by its name, room after room."""


def source(module: str) -> str:
    """The text of a module or of a room's `__init__`."""
    path = FOLDER.parent.joinpath(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def title(module: str) -> str:
    """The first sentence of the docstring of a module or a room, up to a colon; the text is read, not imported."""
    paragraph = (ast.get_docstring(ast.parse(source(module))) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"[.:](?= |$)", paragraph)[0]
