"""Assertions of kernels that run on a device, which the host learns after the launch (LowerDeviceAsserts)."""

from __future__ import annotations

from typing import Any

from tilewright.ir import DataType, IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Visitor, on
from tilewright.tir.arithmetic import cast_to, const, logical_not
from tilewright.tir.buffer import decl_buffer
from tilewright.tir.expr import BufferLoad, Call, IterVar, StringImm, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.op import address_of
from tilewright.tir.stmt import AssertStmt, AttrStmt, BufferStore, IfThenElse, LetStmt, Stmt, stmt_seq
from tilewright.tir.transform.base import call_name, prim_func_pass
from tilewright.tir.transform.function.launch import DEVICE_KERNEL_LAUNCH

ASSERTS = "tir.device_asserts"
"""Attribute of a kernel whose last parameter is a report: of each assertion the kind of its error, its text, and whether the number in the
report follows the text."""
AXES = tuple([f"{unit}.{axis}" for unit in ("blockIdx", "threadIdx") for axis in "xyz"])
FAILED, WHICH, LOW, HIGH, PLACE = range(5)
"""Where the report has: how many threads failed; of the first one the number of its assertion, the low and the high half of the value, and
from PLACE on the indices of its block and of itself. All are int32 (`native/src/devices/kernels.cc` reads them)."""
WORDS = PLACE + len(AXES)


class _Together(Visitor):
    """Whether threads do something together in a statement, or may do so, so that none may leave it out."""

    found = False

    @on(Call)
    def _call(self, e: Call) -> None:
        name = call_name(e)
        # Functions of the target's language with effects may be barriers.
        self.found |= name in ("call_extern", "call_llvm_intrin")
        if name == "call_pure_extern" and isinstance(e.args[0], StringImm):
            name = e.args[0].value
        self.found |= name.endswith("_sync") or name in ("tvm_fill_fragment", "make_filled_simdgroup_matrix")
        self.found |= name.startswith(("tvm_warp_", "mma_", "simdgroup_"))
        self.found |= name.startswith("ptx_") and name != "ptx_cp_async"
        self.visit_children(e)


class _Asserts(Mutator):
    def __init__(self) -> None:
        self.report = decl_buffer((WORDS,), "int32", "report")
        self.axes: dict[str, Var] = {}
        self.asserts: list[tuple[str, str, int]] = []

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        outer = self.axes
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar):
            self.axes = {**outer, s.node.thread_tag: s.node.var}
        made = self.rebuild(s)
        self.axes = outer
        return made

    @on(AssertStmt)
    def _assert(self, s: AssertStmt) -> Stmt:
        body = self.visit(s.body)
        if isinstance(s.condition, IntImm) and s.condition.value:
            return body
        told = self._told(s.message)
        look = _Together()
        look.visit(body)
        if look.found:
            return stmt_seq(IfThenElse(logical_not(s.condition), told), body)
        return IfThenElse(s.condition, body, told)

    def _told(self, message: PrimExpr) -> Stmt:
        """Writes the report, unless another thread has."""
        kind, numbers = "AssertionError", ()
        if call_name(message) == "tvm_tuple":
            assert isinstance(message, Call)
            first, message, *numbers = message.args  # type: ignore[assignment]
            kind = first.value if isinstance(first, StringImm) else kind
        value = cast_to(numbers[-1], DataType("int64")) if numbers else const(0, "int64")
        words: dict[int, Any] = {
            WHICH: const(len(self.asserts), "int32"),
            LOW: cast_to(value, DataType("int32")),
            HIGH: cast_to(value >> const(32, "int64"), DataType("int32")),
        }
        words |= {
            PLACE + AXES.index(tag): cast_to(var, DataType("int32")) for tag, var in self.axes.items() if tag in AXES
        }
        text = message.value if isinstance(message, StringImm) else str(message)
        self.asserts.append((kind, text, int(bool(numbers))))
        stores = [BufferStore(self.report, word, (const(at, "int32"),)) for at, word in words.items()]
        failed = address_of(BufferLoad(self.report, (const(FAILED, "int32"),)))
        before = Var("failed", "int32")
        count = Call(DataType("int32"), "atomic_add", (failed, const(1, "int32")))
        return LetStmt(before, count, IfThenElse(before.equal(0), stmt_seq(*stores)))


def LowerDeviceAsserts() -> Pass:
    """Turn assertions of kernels into a report, a last parameter of the kernel that its runtime gives it and reads after the launch.

    A statement whose assertion fails is left out, unless threads do something together in it, or call a function that may. Run
    LowerDeviceKernelLaunch first.
    """

    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if func.attrs.get("calling_conv") != DEVICE_KERNEL_LAUNCH:
            return func
        walk = _Asserts()
        body = walk.visit(func.body)
        if body is func.body:
            return func
        if not walk.asserts:
            return func.replace(body=body)
        made = func.replace(params=(*func.params, walk.report.data), body=body)
        return made.with_attr(ASSERTS, tuple(walk.asserts))

    made: Pass = prim_func_pass(run, name="tir.LowerDeviceAsserts")
    return made


__all__ = ["ASSERTS", "LowerDeviceAsserts"]
