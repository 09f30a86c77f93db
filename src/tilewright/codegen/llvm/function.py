"""One PrimFunc to the text of one or more LLVM functions: its body, outlined parallel bodies, checks and workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen.backend import IN_PLACE
from tilewright.codegen.llvm.affine import AffineForms
from tilewright.codegen.llvm.builder import FunctionBuilder
from tilewright.codegen.llvm.extremes import Extremes
from tilewright.codegen.llvm.packed import PackedEmitter
from tilewright.codegen.llvm.promote import BufferUse
from tilewright.codegen.llvm.tell import TELL, TELL_NUMBER, TELL_NUMBERS
from tilewright.codegen.llvm.types import is_literal, llvm_type
from tilewright.codegen.llvm.types import symbol as quoted
from tilewright.codegen.operations import EXPRESSIONS, INTRINSICS, STATEMENTS
from tilewright.ir import DataType, GlobalVar
from tilewright.runtime.symbols import LIBRARY
from tilewright.tir import AttrStmt, Call, For, PrimFunc, Stmt, Var

if TYPE_CHECKING:
    from tilewright.codegen.llvm.module import ModuleEmitter

COLD = "nounwind noinline optnone"
"""Attributes of functions that run once a call and only pass arguments on: LLVM translates them the short way, which takes a
tenth of the time (a third of a small kernel's)."""
LAUNCH, SET_ERROR, ALLOC, FREE, CALL_PACKED, CALL_FROM = range(6)
"""Fields of the context that the runtime fills."""
MOST_PIECES = 0x7FFF
"""Pieces that a loop is ever shared out in, whatever the number of threads."""


class FunctionEmitter(PackedEmitter):
    """Emits the body of a PrimFunc, or of a part of one that became a function of its own (`parent` given)."""

    def __init__(self, module: ModuleEmitter, name: str, parent: FunctionEmitter | None = None) -> None:
        self.module, self.name, self.parent = module, name, parent
        self.target = module.target
        self.iptr = module.iptr
        self.b = FunctionBuilder(module.declare)
        self._maths = {}
        self.extremes = Extremes()
        self.consts: dict[Var, int] = {}
        self.ivs: dict[Var, str] = {}
        self.values: dict[Var, str] = {}
        self.ranges: dict[Var, tuple[int, int]] = dict(parent.ranges) if parent else {}
        self.pointers: dict[Var, tuple[str, int]] = {}
        self.registers = {}
        self.affine = parent.affine if parent else AffineForms()
        self._flat = parent._flat if parent else {}
        self._keep_indices = parent._keep_indices if parent else []
        self.noalias = parent.noalias if parent else True
        self.shared = parent.shared if parent else frozenset()
        self.inside_parallel = False
        self.tail: list[str] = []
        self.params: list[str] = []
        self.captures: list[tuple[str, str, str]] = []
        """(type, attributes and operand in the parent, name here) of what an outlined function takes."""
        self.result = "i32"
        if parent is not None:
            self.use, self.written = parent.use, parent.written

    # --- whole functions

    def declare_params(self, func: PrimFunc) -> None:
        """Names the parameters; data pointers are noalias and aligned as their buffers say."""
        self.noalias = bool(func.attrs.get("tir.noalias", True))
        places = func.attrs.get(IN_PLACE, ())
        buffers = [func.buffer_map.get(func.params[int(k)]) for k in places]
        self.shared = frozenset([b.data for b in buffers if b is not None])
        for k, param in enumerate(func.params):
            name = f"%p{k}"
            buffer = func.buffer_map.get(param)
            if buffer is not None:
                align = max(1, buffer.data_alignment)
                self.pointers[buffer.data] = (name, align)
                self.pointers[param] = (name, align)
                noalias = self.noalias and buffer.data not in self.shared
                self.params.append(f"ptr {'noalias ' if noalias else ''}align {align} {name}")
            elif param.dtype.code == "handle":
                align = self.module.pointer_align(func, param)
                self.pointers[param] = (name, align)
                self.values[param] = name
                noalias = self.noalias and align > 1
                self.params.append(f"ptr {'noalias ' if noalias else ''}align {align} {name}")
            else:
                self.values[param] = name
                self.params.append(f"{llvm_type(param.dtype)} {name}")

    def body(self, stmt: Stmt) -> None:
        """Emits a whole function body."""
        use = BufferUse(self.affine)
        use.visit(stmt)
        self.use, self.written = use, use.written
        self.stmt(stmt)

    def text(self, header: str, attributes: str = "nounwind") -> str:
        """The finished function; `header` is everything of "define ..." before the parameters."""
        if self.result == "i32":
            last = "  ret i32 0"
        else:
            last = "  ret void" if self.result == "void" else "  unreachable"
        # Vectors that fill SVE registers of a known width are computed in them.
        units = self.target.cpu.sve_bits // 128
        known = f" vscale_range({units},{units})" if units else ""
        lines = [f"{header}({', '.join(self.params)}) {attributes}{known} {{", *self.b.text(), last, *self.tail, "}"]
        return "\n".join(lines)

    # --- names from outside

    def lookup(self, var: Var) -> str:
        if self.parent is None:
            pointer = self.pointers.get(var)
            if pointer is not None:
                return pointer[0]
            raise self.error(f"variable {var.name} is used but never defined", var)
        if var in self.pointers:
            return self.pointers[var][0]
        outer = self.parent.expr(var)
        if is_literal(outer):
            self.consts[var] = int(outer) if not var.dtype.is_uint else int(outer) % (1 << var.dtype.bits)
            return outer
        name = self._capture(llvm_type(var.dtype), "", outer)
        self.values[var] = name
        return name

    def pointer(self, var: Var) -> tuple[str, int]:
        found = self.pointers.get(var)
        if found is None:
            if self.parent is None or var in self.values:
                return self.expr(var), 1
            outer, align = self.parent.pointer(var)
            noalias = "noalias " if self.noalias and var not in self.shared else ""
            name = self._capture("ptr", f"{noalias}align {align} ", outer)
            found = self.pointers[var] = (name, align)
        return found

    def _capture(self, kind: str, attributes: str, outer: str) -> str:
        name = f"%c{len(self.captures)}"
        self.captures.append((kind, outer, name))
        self.params.append(f"{kind} {attributes}{name}")
        return name

    # --- checks and returns

    def context(self, field: int) -> str:
        """The function pointer in a field of the runtime's context."""
        self.module.uses_context = True
        b = self.b
        place = f"getelementptr ([8 x ptr], ptr @__tilewright_context, i32 0, i32 {field})"
        return b.here(f"load ptr, ptr {place}")

    def require(self, cond: str, kind: str, message: str, *values: str) -> None:
        """Fails with `message` unless the condition holds: of its numbers the last stands behind it, one before that in the place of its
        character 1."""
        b = self.b
        ok, fail = b.label("ok"), b.label("fail")
        scope = b.scopes[-1]
        scope.lines += [f"  br i1 {cond}, label %{ok}, label %{fail}", f"{ok}:"]
        scope.label = ok
        self.module.uses_context = True
        kind_text, text = self.module.string(kind), self.module.string(message)
        name, helpers = (
            (".tell", [TELL]),
            (".tell_number", [TELL_NUMBER]),
            (".tell_numbers", [TELL_NUMBER, TELL_NUMBERS]),
        )[len(values)]
        self.module.helpers.update(helpers)
        numbers = "".join([f", i64 {v}" for v in values])
        tell = f"  call void @{name}(ptr {kind_text}, ptr {text}{numbers})"
        self.tail += [f"{fail}:", tell, "  ret i32 -1"]

    def check(self, code: str) -> None:
        """Returns -1 when a callee's return code is not zero; the callee has told why."""
        b = self.b
        zero = b.here(f"icmp eq i32 {code}, 0")
        ok, fail = b.label("ok"), b.label("fail")
        scope = b.scopes[-1]
        scope.lines += [f"  br i1 {zero}, label %{ok}, label %{fail}", f"{ok}:"]
        scope.label = ok
        self.tail += [f"{fail}:", f"  ret i32 {code}"]

    def return_value(self, value: str, e: Any) -> None:
        scope = self.b.scopes[-1]
        dead = self.b.label("dead")
        kind = llvm_type(e.args[0].dtype)
        if kind != self.result and self.result == "i32":
            value = self.convert(value, e.args[0].dtype, DataType("int32"))
        scope.lines += [f"  ret {self.result} {value}", f"{dead}:"]
        scope.label = dead

    # --- calls between functions

    def call_function(self, e: Call) -> str:
        assert isinstance(e.op, GlobalVar)
        symbol, types, result = self.module.callee(e.op, self, e)
        operands = []
        for arg, kind in zip(e.args, types, strict=True):
            operand = self.pointer(arg)[0] if isinstance(arg, Var) and arg.dtype.code == "handle" else self.expr(arg)
            operands.append(f"{kind} {operand}")
        self.forget(None)
        value = self.b.here(f"call {result} @{quoted(symbol)}({', '.join(operands)})")
        if e.dtype.code == "void" or str(e.dtype) == "int32":
            self.check(value)
        return value

    # --- parallel loops

    def parallel(self, s: For, low: str, extent: str) -> None:
        b, iptr = self.b, self.iptr
        begin, count = self.wide(low, s.min), self.wide(extent, s.extent)
        end = self.sum(begin, count)
        self.note_range(s)
        name = self.module.fresh(f"{self.name}.parallel")
        child = FunctionEmitter(self.module, name, self)
        child.inside_parallel = True
        child.b.level_of.update({"%begin": 0, "%end": 0})
        child.counted(
            s.loop_var, "%begin", "%end", False, self.use.stored.get(id(s), set()), lambda: child.stmt(s.body)
        )
        child.params += [f"{iptr} %begin", f"{iptr} %end"]
        self.module.functions.append(child.text(f"define internal i32 @{name}"))
        task, data = self._task(child, begin, end)
        inner = ", ".join(
            [f"{kind} {outer}" for kind, outer, _ in child.captures] + [f"{iptr} {begin}", f"{iptr} {end}"]
        )
        self.forget(None)
        launch = self.context(LAUNCH)
        none = b.here(f"icmp eq ptr {launch}, null")
        b.push(b.label("serial"))
        first = b.here(f"call i32 @{name}({inner})")
        serial = b.pop()
        b.push(b.label("launch"))
        second = b.here(f"call i32 {launch}(ptr @{task}, ptr {data}, i32 {self._pieces(count)})")
        pool = b.pop()
        code = b.name()
        phi = f"{code} = phi i32 [ {first}, %{serial.label} ], [ {second}, %{pool.label} ]"
        b.branch(none, serial, pool, b.label("join"), [phi])
        self.check(b.define_here(code))

    def _pieces(self, count: str) -> str:
        """What tells the pool to share out at most as many pieces as a loop has iterations."""
        if is_literal(count):
            return str(-min(int(count), MOST_PIECES))
        b, iptr = self.b, self.iptr
        least = b.call(f"{iptr}({iptr}, {iptr})", f"llvm.smin.{iptr}", f"{iptr} {count}, {iptr} {MOST_PIECES}", count)
        negative = b.pure(f"sub {iptr} 0, {least}", least)
        return negative if iptr == "i32" else b.pure(f"trunc {iptr} {negative} to i32", negative)

    def _task(self, child: FunctionEmitter, begin: str, end: str) -> tuple[str, str]:
        """The function that the pool calls, which takes its contiguous share, and the packed captures."""
        b, iptr = self.b, self.iptr
        packed = [*child.captures, (iptr, begin, "%begin"), (iptr, end, "%end")]
        data = b.alloca(f"alloca [{len(packed)} x i64], align 8")
        task = f"{child.name}.task"
        lines = [f"define internal i32 @{task}(i32 %task, i32 %count, ptr %data) {COLD} {{", "entry:"]
        for k, (kind, outer, name) in enumerate(packed):
            slot = b.here(f"getelementptr i64, ptr {data}, i32 {k}")
            b.effect(f"store {kind} {outer}, ptr {slot}, align 8")
            lines.append(f"  {name}.at = getelementptr i64, ptr %data, i32 {k}")
            lines.append(f"  {name} = load {kind}, ptr {name}.at, align 8")
        args = ", ".join([f"{kind} {name}" for kind, _, name in child.captures] + [f"{iptr} %low", f"{iptr} %high"])
        cast = "sext i32 {} to i64" if iptr == "i64" else "add i32 {}, 0"
        lines += [
            f"  %t = {cast.format('%task')}",
            f"  %n = {cast.format('%count')}",
            f"  %total = sub {iptr} %end, %begin",
            f"  %t1 = add {iptr} %t, 1",
            f"  %m0 = mul {iptr} %t, %total",
            f"  %m1 = mul {iptr} %t1, %total",
            f"  %d0 = sdiv {iptr} %m0, %n",
            f"  %d1 = sdiv {iptr} %m1, %n",
            f"  %low = add {iptr} %begin, %d0",
            f"  %high = add {iptr} %begin, %d1",
            f"  %code = call i32 @{child.name}({args})",
            "  ret i32 %code",
            "}",
        ]
        self.module.functions.append("\n".join(lines))
        return task, data

    def on_attribute(self, s: AttrStmt) -> None:
        if s.attr_key != "compute_scope" or self.parent is not None:
            super().on_attribute(s)
            return
        # The body of a packed function becomes one whose pointers are known not to overlap.
        name = self.module.fresh(f"{self.name}.compute")
        child = FunctionEmitter(self.module, name, self)
        child.stmt(s.body)
        self.module.functions.append(child.text(f"define internal i32 @{name}"))
        args = ", ".join(f"{kind} {outer}" for kind, outer, _ in child.captures)
        self.check(self.b.here(f"call i32 @{name}({args})"))

    # --- storage

    def workspace(self, size: str) -> str:
        b = self.b
        bytes64 = size
        allocate = self.context(ALLOC)
        some = b.here(f"icmp ne ptr {allocate}, null")

        def from_runtime() -> str:
            return b.here(f"call ptr {allocate}(i64 {bytes64}, i32 1, i32 0)")

        def from_libc() -> str:
            if not self.module.hosted:
                return "null"
            b.declare.setdefault("aligned_alloc", f"declare ptr @aligned_alloc({self.iptr}, {self.iptr})")
            rounded = b.pure(f"add i64 {bytes64}, 63", bytes64)
            rounded = b.pure(f"and i64 {rounded}, -64", rounded)
            rounded = self._resize(rounded, "i64", self.iptr, False)
            return b.here(f"call ptr @aligned_alloc({self.iptr} 64, {self.iptr} {rounded})")

        pointer = self.lazy(some, from_runtime, from_libc, DataType("handle"))
        self.require(
            b.here(f"icmp ne ptr {pointer}, null"), "MemoryError", f"{self.name}: no memory for a temporary buffer"
        )
        return pointer

    def free_workspace(self, pointer: str) -> None:
        b = self.b
        free = self.context(FREE)
        some = b.here(f"icmp ne ptr {free}, null")
        b.push(b.label("release"))
        b.effect(f"call void {free}(ptr {pointer})")
        first = b.pop()
        b.push(b.label("libc"))
        if self.module.hosted:
            b.declare.setdefault("free", "declare void @free(ptr)")
            b.effect(f"call void @free(ptr {pointer})")
        b.branch(some, first, b.pop(), b.label("freed"), [])

    def splat_constant(self, dtype: DataType, literal: str) -> str:
        return self.module.splat_constant(dtype, literal)

    def module_constant(self, data: Any, dtype: DataType) -> str:
        return self.module.constant(data, dtype)

    def module_string(self, text: str) -> str:
        return self.module.string(text)

    def packed_entry(self) -> str:
        return self.context(CALL_FROM)

    def own_module(self) -> str:
        self.module.uses_module = True
        return f"@{LIBRARY}"

    def on_string(self, e: Any) -> str:
        return self.module.string(e.value)


FunctionEmitter._table = EXPRESSIONS.rules(FunctionEmitter)
FunctionEmitter._stmts = STATEMENTS.rules(FunctionEmitter)
FunctionEmitter._calls = INTRINSICS.rules(FunctionEmitter)
