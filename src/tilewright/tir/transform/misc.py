"""Passes on whole functions and modules: targets, entry points, filters, bound checks, index types, intrinsics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import DataType, IntImm, IRModule, PrimExpr, Range
from tilewright.ir.transform import Pass, PassContext, PassInfo, module_pass
from tilewright.node import Mutator, Visitor, mutate_tuple, on
from tilewright.script.underline import located
from tilewright.tir.arithmetic import cast_to, logical_and, logical_not, logical_or
from tilewright.tir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mul,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AssertStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt, Stmt
from tilewright.tir.transform.base import body_pass, call_name, prim_func_pass


def Apply(ftransform: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """Apply a Python function to every PrimFunc of a module."""
    made: Pass = prim_func_pass(lambda func, mod, ctx: ftransform(func), name="tir.Apply")
    return made


def Filter(fcond: Callable[[PrimFunc], bool]) -> Pass:
    """Keep the functions for which the condition holds."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return mod.with_functions({g: f for g, f in mod.functions.items() if not isinstance(f, PrimFunc) or fcond(f)})

    made: Pass = module_pass(run, opt_level=0, name="tir.Filter")
    return made


def BindTarget(target: Any) -> Pass:
    """Set the target of functions that have none."""

    def run(func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        return func if "target" in func.attrs else func.with_attr("target", target)

    made: Pass = prim_func_pass(run, name="tir.BindTarget")
    return made


def AnnotateEntryFunc() -> Pass:
    """Mark the entry function: the only function of a module, or the only one with a global symbol."""

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
    """Remove assertions from functions."""
    return body_pass("SkipAssert", lambda f: _SkipAsserts().visit(f.body), gives=("no_asserts",))


WIDE, NARROW = DataType("int64"), DataType("int32")


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
                end = low.value + extent.value
                self.analyzer.bind(var, Range(IntImm(NARROW, low.value), IntImm(NARROW, end)), allow_override=True)
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

    def _small(self, e: PrimExpr) -> PrimExpr | None:
        """The expression in 32 bits, where neither it nor a part of it can be out of their range."""
        kind = type(e)
        if e.dtype is NARROW:
            return e
        if kind is Cast and e.value.dtype is NARROW:  # type: ignore[attr-defined]
            return e.value  # type: ignore[attr-defined, no-any-return]
        low, high = self.analyzer.bound(e)
        if low < -(2**31) or high >= 2**31:
            return None
        if kind is IntImm:
            return IntImm(NARROW, e.value)  # type: ignore[attr-defined]
        if kind in (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max):
            a, b = self._small(e.a), self._small(e.b)  # type: ignore[attr-defined]
            return None if a is None or b is None else kind(a, b)
        return None

    def _index(self, e: PrimExpr) -> PrimExpr:
        new = self.visit(e)
        if isinstance(new, Ramp) and new.dtype.element is WIDE:
            base, stride = self._small(new.base), self._small(new.stride)
            last = new.base + new.stride * (new.lanes - 1)
            if base is not None and stride is not None and self._small(last) is not None:
                return Ramp(base, stride, new.lanes)
        if new.dtype is WIDE:
            small = self._small(new)
            return new if small is None else small
        return new  # type: ignore[no-any-return]

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> Any:
        indices = mutate_tuple(self._index, e.indices)
        return e if indices is e.indices else BufferLoad(e.buffer, indices, e.predicate, e.span)

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        value, indices = self.visit(s.value), mutate_tuple(self._index, s.indices)
        return s if value is s.value and indices is s.indices else s.replace(value=value, indices=indices)


def NarrowDataType(target_bits: int = 32) -> Pass:
    """Convert 64-bit loops with small constant bounds to 32 bits, and their indices if no part of them leaves the
    range.
    """
    if target_bits == 64:
        return body_pass("NarrowDataType", lambda f: f.body)
    if target_bits != 32:
        raise ValueError(
            f"NarrowDataType narrows to 32 bits, or with 64 leaves all as it is, but was given {target_bits}"
        )
    return body_pass("NarrowDataType", lambda f: _Narrow().visit(f.body))


class _Accesses(Visitor):
    """The accesses of an expression, each with the conditions of the choices around it."""

    def __init__(self, note: Callable[[Any, tuple[PrimExpr, ...]], None]) -> None:
        self.note, self.under = note, ()

    under: tuple[PrimExpr, ...]

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.visit_children(e)
        self.note(e, self.under)

    @on(Let)
    def _let(self, e: Let) -> None:
        # What the body does with the name cannot be said outside of it.
        self.visit(e.value)

    @on(Call)
    def _call(self, e: Call) -> None:
        name = call_name(e)
        if name == "if_then_else":
            condition, yes, no = e.args
            self.visit(condition)
            outer = self.under
            self.under = (*outer, condition)
            self.visit(yes)
            self.under = (*outer, logical_not(condition))
            self.visit(no)
            self.under = outer
        elif name != "address_of":
            self.visit_children(e)


class _Lane(Mutator):
    """One lane of a vector expression; ValueError where it cannot be told."""

    def __init__(self, lane: int) -> None:
        self.lane = lane

    @on(Ramp)
    def _ramp(self, e: Ramp) -> PrimExpr:
        if e.base.dtype.lanes > 1:
            raise ValueError
        return e.base + e.stride * IntImm(e.stride.dtype, self.lane)  # type: ignore[no-any-return]

    @on(Broadcast)
    def _broadcast(self, e: Broadcast) -> PrimExpr:
        if e.value.dtype.lanes > 1:
            raise ValueError
        return e.value

    @on(Cast)
    def _cast(self, e: Cast) -> PrimExpr:
        return Cast(e.dtype.element, self.visit(e.value)) if e.dtype.lanes > 1 else e

    @on(Call)
    def _call(self, e: Call) -> PrimExpr:
        return Call(e.dtype.element, e.op, mutate_tuple(self.visit, e.args), e.span) if e.dtype.lanes > 1 else e

    @on(Let, Shuffle)
    def _unknown(self, e: PrimExpr) -> PrimExpr:
        raise ValueError

    @on(Var)
    def _var(self, v: Var) -> Var:
        if v.dtype.lanes > 1:
            raise ValueError
        return v


def _lane_inside(index: PrimExpr, dim: PrimExpr, masks: list[PrimExpr], lane: int) -> PrimExpr:
    """That one lane of an access lies inside, or is masked."""
    take = _Lane(lane)
    at = take.visit(index)
    inside: PrimExpr = logical_and(at >= 0, at < dim)
    for mask in masks:
        inside = logical_or(logical_not(take.visit(mask)), inside)
    return inside


class _Checks(Mutator):
    """Puts checks of the indices before each statement that loads or stores."""

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(BufferStore, Evaluate)
    def _leaf(self, s: Any) -> Any:
        return self._checked(s, s, s.value, *getattr(s, "indices", ()))

    @on(IfThenElse)
    def _if(self, s: IfThenElse) -> Any:
        return self._checked(self.rebuild(s), None, s.condition)

    @on(LetStmt)
    def _let(self, s: LetStmt) -> Any:
        return self._checked(self.rebuild(s), None, s.value)

    @on(For)
    def _for(self, s: For) -> Any:
        return self._checked(self.rebuild(s), None, s.min, s.extent)

    def _checked(self, s: Stmt, store: Any, *expressions: PrimExpr) -> Stmt:
        checks: list[tuple[PrimExpr, PrimExpr]] = []

        def note(access: Any, under: tuple[PrimExpr, ...]) -> None:
            self._of(access, under, checks)

        walk = _Accesses(note)
        for e in expressions:
            walk.visit(e)
        if isinstance(store, BufferStore):
            note(store, ())
        for condition, message in reversed(checks):
            s = AssertStmt(condition, message, s)
        return s

    @staticmethod
    def _of(access: Any, under: tuple[PrimExpr, ...], checks: list[tuple[PrimExpr, PrimExpr]]) -> None:
        """For each index: that it lies inside where the access is made, and what to say with its value if not."""
        buffer = access.buffer
        for k, (index, dim) in enumerate(zip(access.indices, buffer.shape, strict=True)):
            first = last = index
            if isinstance(index, Ramp):
                first, last = index.base, index.base + index.stride * (index.lanes - 1)
            elif isinstance(index, Broadcast):
                first = last = index.value
            if first.dtype.lanes != 1:
                continue
            masks = [c for c in (*under, access.predicate) if c is not None and c.dtype.lanes > 1]
            inside: PrimExpr = logical_and(logical_and(first >= 0, first < dim), logical_and(last >= 0, last < dim))
            if last is first:
                inside = logical_and(first >= 0, first < dim)
            if masks:
                # Each lane for itself: those that a mask leaves out may be anywhere.
                try:
                    lanes = [_lane_inside(index, dim, masks, k) for k in range(masks[0].dtype.lanes)]
                except ValueError:
                    continue
                inside = lanes[0]
                for lane in lanes[1:]:
                    inside = logical_and(inside, lane)
            for condition in reversed([c for c in under if c.dtype.lanes == 1]):
                inside = logical_or(logical_not(condition), inside)
            if isinstance(inside, IntImm) and inside.value:
                continue
            what = f"index out of bounds: dimension {k} of buffer {buffer.name} has {dim} elements, index {index}"
            text = located(what, access) + "\n  the index is "
            wrong = last if last is first else Select(first < 0, first, last)
            parts = (StringImm("AssertionError"), StringImm(text), cast_to(wrong, DataType("int64")))
            checks.append((inside, Call(DataType("handle"), "tvm_tuple", parts)))


def InstrumentBoundCheckers() -> Pass:
    """Insert assertions before accesses that their indices lie within the buffer. The messages show the line and the
    index.
    """
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
    """Apply the rules that are registered for the function's target to intrinsics (`tvm.ir.register_intrin_lowering`),
    and remove hints.
    """
    return body_pass("LowerIntrin", lambda f: _Intrinsics(f).visit(f.body), gives=("no_hints",))
