"""State of a function that is being emitted: its text, the module around it, and its error paths."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tilewright.codegen.llvm.functions.builder import FunctionBuilder
from tilewright.codegen.llvm.functions.source_lines import LineOf
from tilewright.codegen.llvm.functions.tell import TELL, TELL_NUMBER, TELL_NUMBERS
from tilewright.codegen.llvm.vector_math.vecmath import VectorMath
from tilewright.ir import BaseExpr, DataType, GlobalVar
from tilewright.node import Node
from tilewright.runtime import NDArray
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import Call, PrimFunc, Var

LAUNCH, SET_ERROR, ALLOC, FREE, CALL_PACKED, CALL_FROM = range(6)
"""Numbers of the fields of the context."""


class ModuleContext(Protocol):
    """The interface of the module for the functions in it."""

    target: Target
    iptr: str
    declare: dict[str, str]
    functions: list[str]
    helpers: set[str]
    hosted: bool
    steps_pointers: bool
    uses_context: bool
    uses_module: bool
    line_of: LineOf | None

    def fresh(self, name: str) -> str: ...

    def string(self, text: str) -> str: ...

    def constant(self, data: NDArray | np.ndarray, dtype: DataType) -> str: ...

    def splat_constant(self, dtype: DataType, literal: str) -> str: ...

    def pointer_align(self, func: PrimFunc, param: Var) -> int: ...

    def callee(self, gvar: GlobalVar, caller: Frame, call: Call) -> tuple[str, list[str], str, bool]: ...


class Frame:
    """The state shared by all parts of a function's emitter."""

    def __init__(self, module: ModuleContext, name: str) -> None:
        self.module, self.name = module, name
        self.target, self.iptr = module.target, module.iptr
        self.b = FunctionBuilder(module.declare)
        self.result = "i32"
        self.tail: list[str] = []
        """Blocks that return from the function, which are written after all others."""
        self._maths: dict[DataType, VectorMath] = {}

    def error(self, message: str, node: Node | BaseExpr | None) -> TVMError:
        """A TVMError that names the function and the node."""
        text = str(node)
        shown = text if len(text) < 400 else text[:400] + " ..."
        return TVMError(
            located(
                f"LLVM code generation of function {self.name!r}: {message}\n  in {type(node).__name__}: {shown}", node
            )
        )

    def math(self, dtype: DataType) -> VectorMath:
        """Instructions and functions on values of a floating point type."""
        found = self._maths.get(dtype)
        if found is None:
            cpu = self.target.cpu
            wide = dtype.bits >= 32
            found = self._maths[dtype] = VectorMath(self.b, dtype, cpu.fma and wide, cpu.avx512 and wide)
        return found

    def contracts(self, dtype: DataType) -> bool:
        """Whether a * b + c is fused for this type."""
        cpu = self.target.cpu
        return cpu.fma and (dtype.bits >= 32 or cpu.fp16)

    # --- the runtime's functions, and errors

    def context(self, field: int) -> str:
        """The function pointer in a field of the context."""
        self.module.uses_context = True
        place = f"getelementptr ([8 x ptr], ptr @__tilewright_context, i32 0, i32 {field})"
        return self.b.here(f"load ptr, ptr {place}")

    def require(self, cond: str, kind: str, message: str, *values: str) -> None:
        """Emits a check that reports `message` and returns unless the condition holds. values: one or two numbers; the last is appended to
        the message, and the first of two replaces the character 1."""
        fail = self._leaves_unless(cond)
        module = self.module
        module.uses_context = True
        kind_text, text = module.string(kind), module.string(message)
        name, helpers = (
            (".tell", [TELL]),
            (".tell_number", [TELL_NUMBER]),
            (".tell_numbers", [TELL_NUMBER, TELL_NUMBERS]),
        )[len(values)]
        module.helpers.update(helpers)
        numbers = "".join([f", i64 {v}" for v in values])
        tell = f"  call void @{name}(ptr {kind_text}, ptr {text}{numbers})"
        self.tail += [f"{fail}:", tell, "  ret i32 -1"]

    def check(self, code: str) -> None:
        """Emits a return of -1 if a callee's return code is not zero. The callee has reported the error."""
        fail = self._leaves_unless(self.b.here(f"icmp eq i32 {code}, 0"))
        self.tail += [f"{fail}:", f"  ret i32 {code}"]

    def _leaves_unless(self, cond: str) -> str:
        """Emits a branch to a block that leaves the function unless a condition holds. Returns the label of this block."""
        ok, fail = self.b.label("ok"), self.b.label("fail")
        self._may_end_here()
        scope = self.b.scopes[-1]
        scope.lines += [f"  br i1 {cond}, label %{ok}, label %{fail}", f"{ok}:"]
        scope.label = ok
        return fail

    def _may_end_here(self) -> None:
        """Keeps what follows from moving before this place."""
        for scope in self.b.scopes:
            scope.certain = False

    def leave(self, value: str) -> None:
        """Emits a return of a value (text with its type). Code after it is unreachable."""
        dead = self.b.label("dead")
        self._may_end_here()
        scope = self.b.scopes[-1]
        scope.lines += [f"  ret {value}", f"{dead}:"]
        scope.label = dead
