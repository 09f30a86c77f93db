"""`build`: lowered functions to a runtime.Module, linked into this process when they are for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen import native
from tilewright.codegen.llvm.functions.module import emit_module, symbol_of
from tilewright.codegen.llvm.native.effort import effort
from tilewright.codegen.llvm.native.jit import load_objects
from tilewright.codegen.llvm.native.target_machine import compile_assembly, compile_object
from tilewright.codegen.llvm.native.tiles import has_tiles, permission
from tilewright.ir import IRModule
from tilewright.node import Visitor, on
from tilewright.runtime.linking.symbols import CONTEXT, LIBRARY
from tilewright.target import Target
from tilewright.tir import AttrStmt, BufferStore, Evaluate, PrimFunc, StringImm

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


def exported_symbols(mod: IRModule, text: str) -> list[str]:
    """The symbols that a module's text defines for others: its functions, and what the runtime fills in where it has it."""
    names = [symbol_of(gvar, func) for gvar, func in mod.functions.items() if isinstance(func, PrimFunc)]
    return [*names, *[slot for slot in (CONTEXT, LIBRARY) if f"@{slot} =" in text]]


class _Imports(Visitor):
    """Collects what pragmas import_llvm name; they stand among the statements."""

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
    """LLVM IR, or paths of it, that pragmas import_llvm of the functions name."""
    look = _Imports()
    for func in mod.functions.values():
        if isinstance(func, PrimFunc):
            look.visit(func.body)
    return list(look.found)


def unfit(target: Target) -> str:
    """As for all machine code; tile registers are also asked for from the system."""
    from tilewright.runtime.packed_func import global_func

    why = native.unfit(target)
    refused = global_func("runtime.EnableAMX")() if not why and has_tiles(target) else ""
    return f"the system does not let this process have tile registers (AMX): {refused}" if refused else why


def build(mod: IRModule | PrimFunc, target: Target | str) -> Any:
    """A runtime.Module of the module's functions (packed functions, as MakePackedAPI makes them).

    The whole of LLVM's optimisation runs where loops come unscheduled, little of it where they are explicit vectors over
    registers; -opt-level of the target says otherwise.
    get_source() gives "ll", "s" and "obj"; code for another machine can be exported, but not called.
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
    source = ModuleSource([data, *permission(target)], texts, None if target.is_host else target.triple)
    source.facts = {"triple": target.triple, "cpu": target.mcpu, "features": sorted(target.features)}
    source.why_not_here = why_not
    loaded = load_objects([data], exported_symbols(mod, text)) if not why_not else None
    return Module.from_symbols(loaded.symbols if loaded else {}, loaded, source)
