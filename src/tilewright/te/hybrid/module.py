"""Conversion of schedules to hybrid scripts, and modules that hold these as source text."""

from __future__ import annotations

import ast
import importlib
import linecache
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tilewright.te.hybrid.dump import function_source
from tilewright.te.schedule import Schedule
from tilewright.te.tensor import Tensor


def build(
    sch: Schedule, inputs: Sequence[Tensor], outputs: Sequence[Tensor], name: str = "hybrid_func"
) -> HybridModule:
    """Convert a schedule to a hybrid script: a module with its source, which can be saved, changed, loaded and called."""
    return HybridModule(function_source(sch.to_prim_func([*inputs, *outputs]), len(inputs), name), name)


class HybridModule:
    """A hybrid script as text. Called with NumPy arrays it runs as Python; called with tensors it makes an operation."""

    _count: ClassVar[int] = 0

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.name, self.src_ = name, src
        self.func_: Callable[..., Any] | None = None
        if src is not None:
            self._define(src, f"<hybrid module {HybridModule._count}>")

    def __call__(self, *args: Any) -> Any:
        if self.func_ is None:
            raise ValueError("HybridModule: there is no function yet; load one from a file")
        return self.func_(*args)

    def get_source(self) -> str:
        """The text of the script."""
        return self.src_ or ""

    def save(self, path: str) -> None:
        """Write the script to a file; `.py` is added to a path without it."""
        target = path if path.endswith(".py") else f"{path}.py"
        Path(target).write_text(self.get_source())

    def load(self, path: str) -> None:
        """Load the script of a file that holds one function."""
        self._define(Path(path).read_text(), path)

    def _define(self, source: str, file: str) -> None:
        tree = ast.parse(source)
        functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
        if len(functions) != 1 or (self.name not in (None, functions[0].name)):
            raise ValueError(
                f"HybridModule: {file} must hold one function{f' {self.name}' if self.name else ''}, but has"
                f" {[f.name for f in functions]}"
            )
        HybridModule._count += 1
        self.name, self.src_ = functions[0].name, source
        functions[0].decorator_list = []
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        names: dict[str, Any] = {}
        exec(compile(tree, file, "exec"), names)
        # The module's package makes functions of tensors from its arguments.
        script = importlib.import_module(__package__ or "").script
        self.func_ = script(names[self.name])
