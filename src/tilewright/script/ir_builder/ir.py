"""Words of modules for IRBuilder: `with I.ir_module():` around functions, and the words of `tilewright.script.ir`."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.script.ir import (
    decl_function,
    def_function,
    module_attrs,
    module_get_attr,
    module_get_attrs,
    module_global_infos,
    module_set_attr,
)
from tilewright.script.parser.entry import ModuleParser
from tilewright.script.parser.source import NoSource
from tilewright.script.parser.statements import IRBuilderFrame, active, reading
from tilewright.support import lazy

__all__ = [
    "IRModuleFrame",
    "decl_function",
    "def_function",
    "ir_module",
    "module_attrs",
    "module_get_attr",
    "module_get_attrs",
    "module_global_infos",
    "module_set_attr",
]


class IRModuleFrame(IRBuilderFrame):
    """The functions inside of it become a module."""

    def __enter__(self) -> ModuleParser:
        self._outer: Any = active("I.ir_module of a builder")
        self._inner = ModuleParser(NoSource(), {})
        self._reading = reading(self._inner)
        self._reading.__enter__()
        return self._inner

    def __exit__(self, *error: Any) -> None:
        self._reading.__exit__(*error)
        if error[0] is None:
            p = self._inner
            self._outer.result = IRModule(p.functions, attrs=p.attrs, global_infos=p.global_infos)
        self.ended(error[0])


def ir_module() -> IRModuleFrame:
    """`with I.ir_module():` around `with T.prim_func():`."""
    return IRModuleFrame()


lazy.faces(__name__, {"ir": (), "frame": ("IRModuleFrame",)})
