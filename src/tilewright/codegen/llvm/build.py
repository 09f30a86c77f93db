"""Build of lowered functions into a runtime.Module, linked into this process if it can run them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as kept
from typing import TYPE_CHECKING, Any

from tilewright.codegen import native
from tilewright.codegen.llvm.functions.module import emit_module, symbol_of
from tilewright.codegen.llvm.functions.source_lines import with_locations
from tilewright.codegen.llvm.native.effort import effort
from tilewright.codegen.llvm.native.jit import load_objects
from tilewright.codegen.llvm.native.target_machine import compile_assembly, compile_object
from tilewright.codegen.llvm.native.tiles import has_tiles, permission, uses_tiles
from tilewright.ir import IRModule
from tilewright.node import Visitor, on
from tilewright.runtime.linking.symbols import CONTEXT, LIBRARY
from tilewright.script import print_script
from tilewright.target import Target
from tilewright.target.triples import is_bare
from tilewright.tir import AttrStmt, BufferStore, Evaluate, PrimFunc, StringImm

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


def exported_symbols(mod: IRModule, text: str) -> list[str]:
    """The symbols that the text of a module exports: its functions, and the variables for the runtime that it defines."""
    names = [symbol_of(gvar, func) for gvar, func in mod.functions.items() if isinstance(func, PrimFunc)]
    return [*names, *[slot for slot in (CONTEXT, LIBRARY) if f"@{slot} =" in text]]


class _Imports(Visitor):
    """Collects the LLVM IR that pragmas import_llvm name. The pragmas are statements."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        if s.attr_key == "pragma_import_llvm" and isinstance(s.value, StringImm):
            self.found[s.value.value] = None
        self.visit(s.body)

    @on(BufferStore, Evaluate)
    def _leaf(self, s: Stmt) -> None:
        pass


def imported_code(mod: IRModule) -> list[str]:
    """The LLVM IR, as texts or paths, that the pragmas import_llvm of the functions name."""
    look = _Imports()
    for func in mod.functions.values():
        if isinstance(func, PrimFunc):
            look.visit(func.body)
    return list(look.found)


def unfit(target: Target) -> str:
    """The reason why code for the target cannot run here; "" if it can. Asks the system for tile registers if the target has them."""
    from tilewright.runtime.packed_func import global_func

    why = native.unfit(target)
    refused = global_func("runtime.EnableAMX")() if not why and has_tiles(target) else ""
    return f"the system does not let this process have tile registers (AMX): {refused}" if refused else why


def lined(mod: IRModule, target: Target, level: int, file: str, imports: Sequence[str] = ()) -> tuple[str, bytes]:
    """(a module as text, the object of it with the lines of this text, whose name is `file`). Its code is that of an object without
    lines."""
    printed = print_script(mod)
    lines = kept(printed.line_of)
    return printed.text, compile_object(with_locations(emit_module(mod, target, lines), file), target, level, imports)


def build(mod: IRModule | PrimFunc, target: Target | str) -> Any:
    """A runtime.Module of the packed functions (see MakePackedAPI) of a module.

    Functions with unscheduled loops get LLVM's whole pipeline, functions of explicit vectors in registers only a few
    passes. The target's -opt-level overrides this.
    get_source() has the formats "ll", "s" and "obj". Code for another machine can be exported, but not called.
    """
    from tilewright.runtime.linking.module_source import ModuleSource
    from tilewright.runtime.module import Module

    target = Target(target)
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    text = emit_module(mod, target)
    level = int(target.attrs.get("opt-level", effort(mod)))
    imports = imported_code(mod)
    data = compile_object(text, target, level, imports)
    assembly = lambda: compile_assembly(text, target, level, imports)  # noqa: E731
    texts: dict[str, Any] = {"ll": lambda: text, "s": assembly, "asm": assembly, "obj": lambda: data, "": lambda: text}
    why_not = unfit(target)
    source = ModuleSource([data], texts, None if target.is_host else target.triple)
    source.beside = permission(target) if imports or uses_tiles(text) else []
    source.facts = {"triple": target.triple, "cpu": target.mcpu, "features": sorted(target.features)}
    source.why_not_here = why_not
    if is_bare(target.triple):
        source.lined = lambda name: [lined(mod, target, level, name(0), imports)]
    loaded = load_objects([data], exported_symbols(mod, text)) if not why_not else None
    return Module.from_symbols(loaded.symbols if loaded else {}, loaded, source)
