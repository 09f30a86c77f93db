"""Statements of kernels: thread axes, loops, storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.codegen.source.device.calls import DeviceCalls, pointee, scope_of
from tilewright.codegen.source.device.dialect import AXES, Refused, refuse
from tilewright.codegen.source.device.memory import Storage
from tilewright.codegen.source.text.operands import Text
from tilewright.codegen.source.text.uses import Uses
from tilewright.ir import IntImm, PrimExpr, Range
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    BufferLoad,
    Call,
    Evaluate,
    For,
    ForKind,
    IterVar,
    LetStmt,
    Stmt,
    StringImm,
    Var,
)
from tilewright.tir.builtin import ptx_commit_group, ptx_wait_group

if TYPE_CHECKING:
    from tilewright.ir import DataType

MOST = {"blockIdx.x": (1 << 31) - 1, "blockIdx.y": 65535, "blockIdx.z": 65535}
"""Limits of launches; a block has at most 1,024 threads."""


class DeviceStatements(DeviceCalls):
    """Rules for statements, as a part of a kernel's emitter."""

    uses: Uses
    axes: dict[str, tuple[Text, PrimExpr]]
    marks: dict[tuple[Var, str], str]
    """Attributes of storage: ("fragment_shape", "fragment_layout")."""
    statement: Stmt | None = None

    def stmt(self, s: Stmt) -> None:
        outer = self.statement
        self.statement = s
        try:
            super().stmt(s)
        except Refused as error:
            raise refuse(error, self, s) from error  # type: ignore[arg-type]
        self.statement = outer

    # --- calls as statements

    def on_evaluate(self, s: Evaluate) -> None:
        e = s.value
        if isinstance(e, (IntImm, StringImm)):
            return
        self.is_statement = isinstance(e, Call) and e.intrinsic in ("call_extern", "atomic_add")
        text = self.expr(e)
        self.is_statement = False
        if isinstance(e, Call) and e.intrinsic == "call_pure_extern":
            self.line(f"{text};")
        elif not text.isidentifier() and text not in ("0", "true", "false"):
            self.line(f"(void)({text});")

    def on_let_statement(self, s: LetStmt) -> None:
        if s.var.dtype.code == "handle":
            self._pointer(s)
        else:
            self.bind(s.var, s.value)
            if s.var.dtype.lanes == 1 and not s.var.dtype.is_float:
                self.analyzer.bind(s.var, s.value, allow_override=True)
        self.stmt(s.body)

    def _pointer(self, s: LetStmt) -> None:
        text, scope = self.expr(s.value), scope_of(s.var)
        source = s.value
        if isinstance(source, Call) and isinstance(source.args[0], BufferLoad):
            source = source.args[0].buffer.data
        elif isinstance(source, Call) and len(source.args) > 1:
            source = source.args[1]
        if isinstance(source, Var) and source in self.storage:
            scope = self.storage[source].scope
        element = pointee(s.var) or (self.uses.elements.get(s.var) or source.dtype).element
        name = self.names.fresh(s.var.name)
        kind = self.dialect.pointer(self.dialect.stored(element), scope)
        self.line(f"{kind} const {name} = ({kind})({text});")
        self.variables[s.var] = Text(name)
        self.storage[s.var] = Storage(name, self.dialect.stored(element), scope, False)

    def on_assert(self, s: AssertStmt) -> None:
        # Builds have made assertions a report to the host (LowerDeviceAsserts).
        self.stmt(s.body)

    # --- threads

    def on_attribute(self, s: AttrStmt) -> None:
        if s.attr_key in ("thread_extent", "virtual_thread") and isinstance(s.node, IterVar):
            self._axis(s, s.node)
            return
        if s.attr_key == "pragma_import_c" and isinstance(s.value, StringImm):
            self.dialect.prelude.code(s.value.value)
        elif s.attr_key in ("fragment_shape", "fragment_layout") and isinstance(s.node, Var):
            self.marks[s.node, s.attr_key] = s.value.value  # type: ignore[attr-defined]
        elif s.attr_key == "async_wait_inflight_count" and self.uses.asynchronous:
            self.expr(ptx_wait_group(s.value if isinstance(s.value, IntImm) else 0))  # type: ignore[arg-type]
        self.stmt(s.body)
        if s.attr_key == "async_commit_queue_scope" and self.uses.asynchronous:
            self.expr(ptx_commit_group())

    def _axis(self, s: AttrStmt, axis: IterVar) -> None:
        tag, var = axis.thread_tag, axis.var
        if tag not in AXES:
            raise self.error(f"{tag} is no axis of blocks or threads; kernels have {', '.join(AXES)}", s)
        if tag not in self.axes:
            name = Text(self.names.fresh(var.name))
            self.axes[tag] = name, s.value
            self.line(f"const {self.dialect.type(var.dtype)} {name} = {self.dialect.axis(tag)};")
        name, whole = self.axes[tag]
        self.variables[var] = name
        most = MOST.get(tag, 1023)
        if isinstance(s.value, IntImm):
            most = min(most, s.value.value - 1)
            self.analyzer.bind(var, Range.from_min_extent(IntImm(var.dtype, 0), s.value), allow_override=True)
        self.ranges[var] = 0, most
        if isinstance(s.value, IntImm) and isinstance(whole, IntImm) and s.value.value < whole.value:
            self.line(f"if ({name} < {s.value.value}) {{")
            self.block(s.body)
            self.line("}")
        else:
            self.stmt(s.body)

    def on_for(self, s: For) -> None:
        count = s.extent.value if isinstance(s.extent, IntImm) else -1
        if isinstance(s.extent, IntImm) and count <= 0:
            return
        if s.kind == ForKind.THREAD_BINDING:
            raise self.error("loops that are bound to threads must be lowered first (LowerOpaqueBlock)", s)
        if count == 1:
            self.bind(s.loop_var, s.min)
            self.stmt(s.body)
            return
        low, high = self.bounds(s)
        if isinstance(s.min, IntImm) and count > 0:
            self.analyzer.bind(s.loop_var, Range.from_min_extent(s.min, s.extent), allow_override=True)
        if s.kind == ForKind.UNROLLED:
            self.line(self.dialect.unroll(count))
        self.counted(s, low, high)

    # --- storage

    def on_allocate(self, s: Allocate) -> None:
        var, scope, dtype = s.buffer_var, scope_of(s.buffer_var), s.dtype.element
        if scope == "shared.dyn":
            self._dynamic(var, dtype)
            self.stmt(s.body)
            return
        name, element = self.names.fresh(var.name), self.dialect.stored(dtype)
        count: Any = s.dtype.lanes
        for extent in s.extents:
            if not isinstance(extent, IntImm):
                raise self.error(
                    f'the size of {var.name} is {extent}; storage of kernels has a constant size. Use scope "shared.dyn", or a'
                    " buffer that is a parameter",
                    s,
                )
            count *= extent.value
        self._declare(s, name, element, dtype, max(int(count), 1), scope)
        self.stmt(s.body)

    def _declare(self, s: Allocate, name: str, element: str, dtype: DataType, count: int, scope: str) -> None:
        var, top, single = s.buffer_var, scope == "shared", False
        if scope in ("shared", "local", "global", ""):
            kept = "shared" if top else "local"
            single = count == 1 and not top and var not in self.uses.passed
            aligned = self._alignment(var)
            text = f"{element} {name};" if single else self.dialect.array(element, name, count, kept, aligned)
        else:
            kept = scope
            made = self.dialect.storage(self, scope, dtype, name, count, var)  # type: ignore[arg-type]
            if made is None:
                raise self.error(f"{self.dialect.name} has no storage of scope {scope!r}", s)
            text = made
        if top:
            self.top.append(f"  {text}")
        else:
            self.line(text)
        self.storage[var] = Storage(name, element, kept, top, single)
        self.variables[var] = Text(name)

    def _alignment(self, var: Var) -> int:
        wide = self.uses.widest.get(var, 16 if var in self.uses.passed else 0)
        return min(wide & -wide, self.dialect.most_aligned)

    def _dynamic(self, var: Var, dtype: DataType) -> None:
        name = self.names.fresh(var.name)
        element = self.dialect.dynamic(name, self.dialect.stored(dtype), self)  # type: ignore[arg-type]
        self.storage[var] = Storage(name, element, "shared", True)
        self.variables[var] = Text(name)

    def on_allocate_const(self, s: AllocateConst) -> None:
        name = self.names.fresh(f"{self.name}_{s.buffer_var.name}")
        flat = [x.item() for x in s.data.numpy().reshape(-1)]
        literal = self.dialect.floating if s.dtype.is_float else self.dialect.integer
        element = self.dialect.stored(s.dtype.element)
        self.dialect.constant(element, name, [literal(x, s.dtype.element) for x in flat])
        self.storage[s.buffer_var] = Storage(name, element, "constant", True)
        self.variables[s.buffer_var] = Text(name)
        self.stmt(s.body)


__all__ = ["DeviceStatements"]
