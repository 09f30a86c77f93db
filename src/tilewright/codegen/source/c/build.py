"""`build`: lowered functions to a runtime.Module, linked into this process when they are for it."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.backend import Code
from tilewright.codegen.native import unfit
from tilewright.codegen.source.c.library import load_objects
from tilewright.codegen.source.c.model import alone, built_from
from tilewright.codegen.source.c.module import emit_module, symbol_of
from tilewright.codegen.source.c.toolchain import compile_text, effort_of, object_kind
from tilewright.ir import IRModule
from tilewright.runtime.linking.symbols import CONTEXT, LIBRARY
from tilewright.target import Target
from tilewright.tir import PrimFunc

_SLOTS = {CONTEXT: "TW_CONTEXT()", LIBRARY: "TW_OWN_MODULE()"}


def build(mod: IRModule | PrimFunc, target: Target | str) -> Any:
    """A runtime.Module of the module's functions (packed functions, as MakePackedAPI makes them).

    get_source() gives the C. Code for another machine can be exported, but not called.
    """
    from tilewright.runtime.linking.module_source import ModuleSource
    from tilewright.runtime.module import Module

    target = Target(target)
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    object_kind(target)  # before the work: it refuses machines that none are made for
    text = emit_module(mod, target)
    data = compile_text(text, target, effort_of(target))
    source = ModuleSource([data], {"c": lambda: text}, None if target.is_host else target.triple)
    source.type_key = "c"
    source.alone = lambda: alone(text)
    source.archive = lambda: {
        name: code.text.encode() for name, code in built_from({"src/code.c": Code(text)}, "code", target).items()
    }
    source.facts = {"triple": target.triple, "cpu": target.mcpu, "features": sorted(target.features)}
    source.why_not_here = unfit(target)
    names = [symbol_of(gvar, func) for gvar, func in mod.functions.items() if isinstance(func, PrimFunc)]
    names += [slot for slot, sign in _SLOTS.items() if sign in text]
    loaded = load_objects([data], names) if not source.why_not_here else None
    return Module.from_symbols(loaded.symbols if loaded else {}, loaded, source)
