"""Host and device: finds kernels, moves them into separate functions, and calls these."""

from __future__ import annotations

from typing import Any

from tilewright.ir import GlobalVar, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import Mutator, on
from tilewright.script.underline import span_of
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir.analysis import undefined_vars
from tilewright.tir.expr import Call, IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AttrStmt, Evaluate, Stmt
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import body_pass, prim_func_pass


class _Regions(Mutator):
    def __init__(self, target: Target) -> None:
        self.target = target

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key == "target":
            return s
        starts = s.attr_key in ("thread_extent", "pipeline_exec_scope", "device_scope")
        return AttrStmt(self.target, "target", IntImm("int32", 0), s) if starts else self.rebuild(s)


def AnnotateDeviceRegions() -> Pass:
    """Put statements that are bound to thread axes under an attribute "target", in functions for a target with a host."""

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target")
        if target is None:
            raise TVMError("AnnotateDeviceRegions: a function has no target; run BindTarget first")
        if getattr(target, "host", None) is None:
            return func
        return func.replace(body=_Regions(target).visit(func.body))

    made: Pass = prim_func_pass(run, name="tir.AnnotateDeviceRegions")
    return made


class _Split(Mutator):
    """Moves regions of a function into kernels, which are called with the variables that they use."""

    def __init__(self, func: PrimFunc, name: str, taken: set[str]) -> None:
        self.func, self.name, self.taken = func, name, taken
        self.kernels: dict[GlobalVar, PrimFunc] = {}

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    def _fresh(self) -> str:
        name, k = f"{self.name}_kernel", 0
        while name in self.taken:
            k += 1
            name = f"{self.name}_kernel_{k}"
        self.taken.add(name)
        return name

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        if s.attr_key != "target" or s.node is None or not hasattr(s.node, "kind"):
            return self.rebuild(s)
        used = undefined_vars(s.body)
        # Pointers come first, as drivers of devices require.
        args = sorted(used, key=lambda v: v.dtype.code != "handle")
        params = [Var(v.name, v.type_annotation) for v in args]
        body: Stmt = substitute(s.body, dict(zip(args, params, strict=True)))
        name = self._fresh()
        target = s.node
        attrs = {
            "global_symbol": name,
            "target": Target(str(target)) if isinstance(target, Target) else target,
            "tir.noalias": True,
            "tir.is_global_func": True,
        }
        gvar = GlobalVar(name)
        # Programs that have no text have no places in it, which would be looked for in vain.
        span = None if self.func.span is None else span_of(s.body) or self.func.span
        self.kernels[gvar] = PrimFunc(params, body, None, {}, attrs, span)
        return Evaluate(Call("void", gvar, args))


def SplitHostDevice() -> Pass:
    """Move regions under an attribute "target" into kernels of the module, and call these with the variables that they
    use.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        functions: dict[Any, Any] = {}
        taken = {g.name_hint for g in mod.functions}
        kernels: dict[GlobalVar, PrimFunc] = {}
        for gvar, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                functions[gvar] = func
                continue
            split = _Split(func, str(func.attrs.get("global_symbol") or gvar.name_hint), taken)
            functions[gvar] = func.replace(body=split.visit(func.body))
            kernels |= split.kernels
        return mod.with_functions({**functions, **kernels})

    return Pass(PassInfo(0, "tir.SplitHostDevice", gives=("no_device_regions",)), run)


def _decorate(func: PrimFunc) -> Stmt:
    zero = IntImm("int32", 0)
    axis = IterVar(None, Var("device_scope", "int32"), IterVar.ThreadIndex, "")
    return func.body if _is_scoped(func.body) else AttrStmt(axis, "device_scope", zero, func.body)


def _is_scoped(s: Stmt) -> bool:
    return isinstance(s, AttrStmt) and s.attr_key == "device_scope"


def DecorateDeviceScope() -> Pass:
    """Put the body of a device function under an attribute "device_scope"."""
    return body_pass("DecorateDeviceScope", _decorate)
