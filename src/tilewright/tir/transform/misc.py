"""Passes on whole functions and modules: targets, entry points, filters, bound checks, index types, intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo, module_pass
from tilewright.node import Mutator, Visitor, on
from tilewright.script.underline import located
from tilewright.tir.arithmetic import logical_and
from tilewright.tir.expr import BufferLoad, Call, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AssertStmt, BufferStore, Evaluate, For, Stmt
from tilewright.tir.transform.base import body_pass, call_name, prim_func_pass


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """A pass of a plain function on PrimFuncs."""
    made: Pass = prim_func_pass(lambda func, mod, ctx: ftransform(func), name="tir.Apply")
    return made


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:
    """Keeps the functions for which the condition holds."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_functions({g: f for g, f in mod.functions.items() if not isinstance(f, PrimFunc) or fcond(f)})

    made: Pass = module_pass(run, opt_level=0, name="tir.Filter")
    return made


def BindTarget(target: Any) -> Pass:
    """Functions without a target get this one."""

    def run(func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        return func if "target" in func.attrs else func.with_attr("target", target)

    made: Pass = prim_func_pass(run, name="tir.BindTarget")
    return made


def AnnotateEntryFunc() -> Pass:
    """The only function of a module, or the only one with a global symbol, is the entry."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        funcs = [(g, f) for g, f in mod.functions.items() if isinstance(f, PrimFunc)]
        exposed = funcs if len(funcs) == 1 else [(g, f) for g, f in funcs if "global_symbol" in f.attrs]
        if len(exposed) != 1 or "tir.is_entry_func" in exposed[0][1].attrs:
            return mod
        gvar, func = exposed[0]
        return mod.with_functions({**mod.functions, gvar: func.with_attr("tir.is_entry_func", True)})

    return Pass(PassInfo(0, "tir.AnnotateEntryFunc"), run)


class _SkipAsserts(Mutator):
    @on(AssertStmt)
    def _assert(self, s: AssertStmt) -> Any:
        return self.visit(s.body)


def SkipAssert() -> Pass:
    """Assertions are dropped, with what they would have checked."""
    return body_pass("SkipAssert", lambda f: _SkipAsserts().visit(f.body))


class _Narrow(Mutator):
    """Loop variables and index arithmetic of 64 bits in 32, where no value can be out of range."""

    def __init__(self) -> None:
        from tilewright.arith import Analyzer

        self.analyzer = Analyzer()
        self.env: dict[Var, Var] = {}

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        found = self.env.get(v)
        if found is None:
            return v
        return found.astype(v.dtype)  # type: ignore[attr-defined, no-any-return]

    @on(For)
    def _for(self, s: For) -> Any:
        low, extent = self.visit(s.min), self.visit(s.extent)
        if str(s.loop_var.dtype) == "int64" and isinstance(low, IntImm) and isinstance(extent, IntImm):
            if low.value >= -(2**31) and low.value + extent.value < 2**31:
                var = Var(s.loop_var.name, "int32")
                self.env[s.loop_var] = var
                body = self.visit(s.body)
                return For(
                    var,
                    IntImm("int32", low.value),
                    IntImm("int32", extent.value),
                    s.kind,
                    body,
                    s.thread_binding,
                    s.annotations,
                )
        body = self.visit(s.body)
        return (
            s
            if low is s.min and extent is s.extent and body is s.body
            else s.replace(min=low, extent=extent, body=body)
        )


def NarrowDataType(target_bits: int = 32) -> Pass:
    """Loops of 64-bit variables with small constant bounds -> 32-bit loops; indices are widened where they are used."""
    if target_bits != 32:
        raise ValueError(f"NarrowDataType narrows to 32 bits, but was given {target_bits}")
    return body_pass("NarrowDataType", lambda f: _Narrow().visit(f.body))


class _Checks(Mutator):
    """Puts checks of the indices before each store and evaluation."""

    def __init__(self) -> None:
        self.shapes: list[Any] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(BufferStore, Evaluate)
    def _leaf(self, s: Any) -> Any:
        checks: list[tuple[Any, str]] = []
        if type(s) is BufferStore:
            self._of(s, checks)

        class Loads(Visitor):
            depth = 0

            @on(BufferLoad)
            def _load(inner, e: BufferLoad) -> None:
                if not inner.depth:
                    self._of(e, checks)
                inner.visit_children(e)

            @on(Call)
            def _call(inner, e: Call) -> None:
                # What a choice does not take is not evaluated.
                lazy = call_name(e) in ("if_then_else", "address_of")
                inner.depth += lazy
                inner.visit_children(e)
                inner.depth -= lazy

        walk = Loads()
        for e in (s.value, *getattr(s, "indices", ())):
            walk.visit(e)
        out: Stmt = s
        for condition, text in reversed(checks):
            out = AssertStmt(condition, StringImm(text), out)
        return out

    def _of(self, access: Any, checks: list[tuple[Any, str]]) -> None:
        buffer = access.buffer
        for k, (i, dim) in enumerate(zip(access.indices, buffer.shape, strict=True)):
            if i.dtype.lanes != 1:
                continue
            inside = logical_and(i >= 0, i < dim)
            if isinstance(inside, IntImm) and inside.value:
                continue
            what = f"index out of bounds: dimension {k} of buffer {buffer.name} has {dim} elements, index {i}"
            checks.append((inside, located(what, access)))


def InstrumentBoundCheckers() -> Pass:
    """Accesses -> preceded by assertions that their indices lie within the buffer."""
    return body_pass("InstrumentBoundCheckers", lambda f: _Checks().visit(f.body))


class _Intrinsics(Mutator):
    """Hints and intrinsics that no back end knows -> what they stand for."""

    def __init__(self, func: PrimFunc) -> None:
        kind = str(getattr(getattr(func.attrs.get("target"), "kind", None), "name", "default"))
        self.keys = (f"{kind}.FLowerIntrin", "default.FLowerIntrin", "FLowerIntrin")

    @on(Call)
    def _call(self, e: Call) -> Any:
        new = self.rebuild(e)
        name = call_name(new)
        if name in ("likely", "ignore_loop_partition"):
            return new.args[0]
        if not hasattr(new.op, "get_attr"):
            return new
        for key in self.keys:
            rule = new.op.get_attr(key)
            if rule is None:
                continue
            lowered = rule(new)
            if lowered is None or lowered is new:
                continue
            # What a rule makes may need lowering itself.
            return lowered if getattr(lowered, "op", None) is new.op else self.visit(lowered)
        return new


def LowerIntrin() -> Pass:
    """Intrinsics -> what the rules for the function's target make of them (`tvm.ir.register_intrin_lowering`); hints are
    dropped."""
    return body_pass("LowerIntrin", lambda f: _Intrinsics(f).visit(f.body))
