"""LLVM IR text of allocations that do not fit on the stack: from the runtime, or from the C library in code without the runtime."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.expr import ExprEmitter
from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.functions.frame import ALLOC, FREE, Frame
from tilewright.ir import DataType


class Workspaces:
    """Emits allocations."""

    def __init__(self, frame: Frame, operands: Operands, expressions: ExprEmitter) -> None:
        self.frame, self.operands, self.expressions = frame, operands, expressions
        self.b, self.iptr = frame.b, frame.iptr

    def allocate(self, size: str) -> str:
        b = self.b
        bytes64 = size
        allocate = self.frame.context(ALLOC)
        some = b.here(f"icmp ne ptr {allocate}, null")

        def from_runtime() -> str:
            return b.here(f"call ptr {allocate}(i64 {bytes64}, i32 1, i32 0)")

        def from_libc() -> str:
            if not self.frame.module.hosted:
                return "null"
            b.declare.setdefault("aligned_alloc", f"declare ptr @aligned_alloc({self.iptr}, {self.iptr})")
            rounded = b.pure(f"add i64 {bytes64}, 63", bytes64)
            rounded = b.pure(f"and i64 {rounded}, -64", rounded)
            rounded = self.operands.resize(rounded, "i64", self.iptr, False)
            return b.here(f"call ptr @aligned_alloc({self.iptr} 64, {self.iptr} {rounded})")

        pointer = self.expressions.lazy(some, from_runtime, from_libc, DataType("handle"))
        self.frame.require(
            b.here(f"icmp ne ptr {pointer}, null"),
            "MemoryError",
            f"{self.frame.name}: no memory for a temporary buffer",
        )
        return pointer

    def free(self, pointer: str) -> None:
        b = self.b
        free = self.frame.context(FREE)
        some = b.here(f"icmp ne ptr {free}, null")
        b.push(b.label("release"))
        b.effect(f"call void {free}(ptr {pointer})")
        first = b.pop()
        b.push(b.label("libc"))
        if self.frame.module.hosted:
            b.declare.setdefault("free", "declare void @free(ptr)")
            b.effect(f"call void @free(ptr {pointer})")
        b.branch(some, first, b.pop(), b.label("freed"), [])
