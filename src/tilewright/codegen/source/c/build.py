"""Build of lowered functions into a runtime.Module, linked into this process if it can run them."""

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
    """A runtime.Module of the packed functions (see MakePackedAPI) of a module.

    get_source() returns the C text. Code for another machine can be exported, but not called. Raises TVMError if the compiler refuses the
    text, or if there is none for the target.
    """
    from tilewright.runtime.linking.module_source import ModuleSource
    from tilewright.runtime.module import Module

    target = Target(target)
    if isinstance(mod, PrimFunc):
        mod = IRModule.from_expr(mod)
    object_kind(target)  # first, since it refuses targets without a compiler
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
