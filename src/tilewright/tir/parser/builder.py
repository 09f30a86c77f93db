"""The words of tensor programs as `with` statements that Python runs, `from tilewright.script.ir_builder import tir as T`."""

from __future__ import annotations

from typing import Any

from tilewright.script.parser.entry import ModuleParser
from tilewright.script.parser.source import NoSource
from tilewright.script.parser.statements import IRBuilderFrame, active, reading
from tilewright.support.errors import TVMError
from tilewright.tir.function import PrimFunc
from tilewright.tir.parser import vocabulary
from tilewright.tir.parser.frames import FunctionFrame
from tilewright.tir.parser.program import TirParser


class FunctionScope(IRBuilderFrame):
    """A function, of which T.arg gives the parameters and T.func_name the name."""

    def __init__(self, private: bool) -> None:
        self._private = private

    def __enter__(self) -> FunctionFrame:
        outer = active("T.prim_func of a builder")
        if not isinstance(outer, ModuleParser):
            raise TVMError("T.prim_func of a builder stands in the builder or in I.ir_module, not in another function")
        self._outer = outer
        self._parser = TirParser(NoSource(), {}, outer.module)
        self._parser.building = True
        self._frame = FunctionFrame("main", self._private)
        self._parser.frames.append(self._frame)
        self._reading = reading(self._parser)
        self._reading.__enter__()
        return self._frame

    def __exit__(self, *error: Any) -> None:
        self._reading.__exit__(*error)
        if error[0] is not None:
            return
        p = self._parser
        func: PrimFunc = p.finished(self._frame, p.folded())
        self._outer.result = func
        if p.given_name is not None:
            self._outer.add_function(p.given_name, func)
        self.ended(None)


def prim_func(is_private: bool = False) -> FunctionScope:
    """`with T.prim_func():` around the words that build a function."""
    return FunctionScope(is_private)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(vocabulary, name)


def __dir__() -> list[str]:
    return dir(vocabulary)
