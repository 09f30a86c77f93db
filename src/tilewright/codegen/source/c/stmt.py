"""C text of statements: loops, conditionals, checks, allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.c.names import ctype, kept
from tilewright.codegen.source.c.packed import PackedEmitter
from tilewright.codegen.source.text.operands import ATOM, UNARY, Text, string
from tilewright.ir import DataType, IntImm, PointerType, PrimType
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Call,
    For,
    ForKind,
    LetStmt,
    StringImm,
    Var,
)
from tilewright.tir.arithmetic import cast_to

if TYPE_CHECKING:
    pass


STACK_LIMIT = 256 << 10
"""The most bytes of an allocation of constant size on the stack. Larger ones come from the workspace."""
MOST_UNROLLED = 1024
"""The most iterations of a loop that the compiler is asked to unroll."""
_THREADS = "a CPU has no GPU threads: the loop is bound to a thread axis"


def pointee(var: Var) -> str:
    """The C type that a handle points to; "" if it is not known."""
    kind = var.type_annotation
    if isinstance(kind, PointerType) and isinstance(kind.element_type, PrimType):
        element = DataType(kind.element_type.dtype)
        if element.code not in ("void", "handle", ""):
            return ctype(kept(element.element))
    return ""


class StmtEmitter(PackedEmitter):
    """Rules for statements, as a part of a function's emitter."""

    written: set[Var]
    """Data variables that the function stores to or passes on."""
    read: set[Var]
    """Data variables that the function loads from or passes on."""

    def on_let_statement(self, s: LetStmt) -> None:
        if s.var.dtype.code == "handle":
            self._pointer_let(s)
        else:
            self.bind(s.var, s.value)
        self.stmt(s.body)

    def _pointer_let(self, s: LetStmt) -> None:
        element = pointee(s.var)
        if not element and isinstance(s.value, Var):
            element = self.elements.get(s.value, "")
        value = self.expr(s.value)
        name = self.names.fresh(s.var.name)
        cast = f"({element}*){value.at(UNARY)}" if element else str(value)
        self.line(f"{element or 'void'}* {name} = {cast};")
        self.variables[s.var], self.elements[s.var] = Text(name), element

    def on_attribute(self, s: AttrStmt) -> None:
        if s.attr_key == "thread_extent":
            raise self.error(_THREADS, s)
        if s.attr_key == "compute_scope" and not self.outlined:
            self.compute(s)
            return
        self.stmt(s.body)

    # --- loops

    def on_for(self, s: For) -> None:
        if s.kind == ForKind.THREAD_BINDING:
            raise self.error(_THREADS, s)
        count = s.extent.value if isinstance(s.extent, IntImm) else -1
        if isinstance(s.extent, IntImm) and count <= 0:
            return
        if count == 1:
            self.bind(s.loop_var, s.min)
            self.stmt(s.body)
            return
        if s.kind == ForKind.PARALLEL and not self.in_parallel:
            self.parallel(s)
            return
        low, high = self.bounds(s)
        if s.kind == ForKind.UNROLLED and 1 < count <= MOST_UNROLLED:
            self.line(f"TW_UNROLL({count})")
        self.counted(s, low, high)

    def on_assert(self, s: AssertStmt) -> None:
        condition = self.expr(s.condition)
        if condition != "1":
            kind, message = "AssertionError", s.message
            values: list[Text] = []
            if isinstance(message, Call) and message.intrinsic == "tvm_tuple":
                # (kind of the error, text, numbers): the last number follows the text
                if isinstance(message.args[0], StringImm):
                    kind = message.args[0].value
                values = [self.convert(self.expr(n), n.dtype, DataType("int64")) for n in message.args[2:]]
                message = message.args[1]
            self.require(condition, kind, message.value if isinstance(message, StringImm) else str(message), values)
        self.stmt(s.body)

    def require(self, condition: Text, kind: str, message: str, values: list[Text]) -> None:
        """Writes a check that reports `message` and returns unless the condition holds."""
        self.module.uses_context = True
        refused = f"if (!{condition.at(UNARY)})"
        if not values:
            self.line(f"{refused} return tw_tell({string(kind)}, {string(message)});")
            return
        name = self.names.fresh("told")
        self.line(f"{refused} {{")
        self.line(f"  const int64_t {name}[{len(values)}] = {{{', '.join(values)}}};")
        self.line(f"  return tw_tell_numbers({string(kind)}, {string(message)}, {name}, {len(values)});")
        self.line("}")

    def check(self, code: Text) -> None:
        """Writes a return of a callee's return code if it is not zero. The callee has reported the error."""
        name = self.names.fresh("code")
        self.line(f"const int32_t {name} = {code};")
        self.line(f"if ({name}) return {name};")

    # --- storage

    def on_allocate(self, s: Allocate) -> None:
        if s.buffer_var not in self.read and s.buffer_var not in self.written:
            self.stmt(s.body)
            return
        name, element = self.names.fresh(s.buffer_var.name), ctype(kept(s.dtype.element))
        self.variables[s.buffer_var], self.elements[s.buffer_var] = Text(name), element
        count, constant = s.dtype.lanes, True
        for extent in s.extents:
            constant &= isinstance(extent, IntImm)
            count *= extent.value if isinstance(extent, IntImm) else 1
        size = kept(s.dtype.element).bytes
        if constant and count * size <= STACK_LIMIT:
            self.line(f"{element} {name}[{max(count, 1)}] TW_ALIGN({self.module.target.cpu.alignment});")
            if s.buffer_var not in self.read:
                self.line(f"(void){name};")
            self.stmt(s.body)
            return
        total: Any = IntImm("int64", size * s.dtype.lanes)
        for extent in s.extents:
            total = total * cast_to(extent, "int64")
        self.module.uses_context = True
        self.line(f"{element}* {name} = tw_alloc({self.index(total)});")
        self.require(Text(name, ATOM), "MemoryError", f"{self.name}: no memory for a temporary buffer", [])
        self.stmt(s.body)
        self.line(f"tw_free({name});")

    def on_allocate_const(self, s: AllocateConst) -> None:
        name = self.module.constant(f"{self.name}_{s.buffer_var.name}", s.data, s.dtype)
        self.variables[s.buffer_var], self.elements[s.buffer_var] = Text(name), ctype(kept(s.dtype.element))
        self.stmt(s.body)

    # --- given by the function emitter

    in_parallel: bool
    outlined: bool

    def parallel(self, s: For) -> None:
        raise self.error("parallel loops are emitted by the function", s)

    def compute(self, s: AttrStmt) -> None:
        raise self.error("bodies of packed functions are emitted by the function", s)
