"""One kernel: its declaration, what stands at its top, its body."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.codegen.operations import EXPRESSIONS, INTRINSICS, STATEMENTS, THREADS
from tilewright.codegen.source.device.calls import pointee
from tilewright.codegen.source.device.dialect import AXES, Dialect, Refused, refuse
from tilewright.codegen.source.device.memory import Storage
from tilewright.codegen.source.device.statements import DeviceStatements
from tilewright.codegen.source.text.identifiers import Names
from tilewright.codegen.source.text.operands import Text
from tilewright.codegen.source.text.uses import Uses
from tilewright.codegen.source.text.writer import Scope
from tilewright.ir import IntImm
from tilewright.node import Visitor, on
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import AttrStmt, IterVar, PrimFunc, Stmt
from tilewright.tir.transform.function.launch import MIN_BLOCKS, min_blocks


class KernelEmitter(DeviceStatements):
    """Emits a PrimFunc that the host launches."""

    def __init__(self, dialect: Dialect, target: Target, func: PrimFunc) -> None:
        self.dialect, self.target, self.func = dialect, target, func
        self.language = dialect.name
        self.name = str(func.attrs["global_symbol"])
        self.names = Names(dialect.identifiers, [self.name])
        self.variables, self.ranges, self.storage, self.views = {}, {}, {}, {}
        self.axes, self.marks = {}, {}
        self.top: list[str] = []
        self.scopes = [Scope(1)]
        self.analyzer = Analyzer()
        self.params: list[str] = []
        self.min_blocks = 0
        self.uses = Uses()
        self.uses.visit(func.body)

    def error(self, message: str, node: Any) -> TVMError:
        where = self.statement
        inside = "" if where is None or where is node else f"\n  in the statement: {_short(where)}"
        made = super().error(f"{message} (target: {self.target})", node)
        return TVMError(f"{made}{inside}")

    def text(self) -> str:
        """The text of the kernel."""
        try:
            self._declare_parameters()
            self.stmt(self.func.body)
            bounds = _Bounds(self.target)
            bounds.visit(self.func.body)
            self.min_blocks = bounds.min_blocks
            head = self.dialect.head(self, self.name, bounds.threads())
        except Refused as error:
            raise refuse(error, self, self.func) from error
        lines = [*self.top, *([""] if self.top and self.scopes[0].lines else []), *self.scopes[0].lines]
        return "\n".join([f"{head} {{", *lines, "}"]) + "\n"

    def _declare_parameters(self) -> None:
        for param in self.func.params:
            if param.dtype.code != "handle":
                name = self.names.fresh(param.name)
                self.variables[param] = Text(name)
                self.params.append(
                    self.dialect.scalar_parameter(self.dialect.stored(param.dtype), name, len(self.params))
                )
                if not param.dtype.is_float and (param in self.uses.sizes or param.dtype.is_uint):
                    self.ranges[param] = 0, (1 << min(param.dtype.bits, 63) - 1) - 1
                continue
            described = self.dialect.described_parameter(param, self.names)
            if described is not None:
                self.variables[param], text = described
                self.params.append(text)
                continue
            used = self.uses.elements.get(param)
            element = pointee(param) or (used.element if used is not None else None)
            text = self.dialect.stored(element) if element is not None else "void"
            name = self.names.fresh(param.name)
            const = param not in self.uses.written and param in self.uses.elements
            alone = bool(self.func.attrs.get("tir.noalias", True)) and param in self.uses.elements
            self.storage[param] = Storage(name, text if element is not None else "", "global", True)
            self.variables[param] = Text(name)
            self.params.append(self.dialect.pointer_parameter(text, name, const, alone, len(self.params)))


def _short(s: Stmt) -> str:
    text = str(s).strip()
    return text if len(text) < 300 else text[:300] + " ..."


class _Bounds(Visitor):
    """The extents of a kernel's axes by tag, and the blocks that shall run on a multiprocessor at once; 0 where it does not say."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.extents: dict[str, int | None] = {}
        self.min_blocks = 0

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        value = s.value.value if isinstance(s.value, IntImm) else None
        if s.attr_key == "thread_extent" and isinstance(s.node, IterVar):
            self.extents.setdefault(s.node.thread_tag, value)
        elif s.attr_key == MIN_BLOCKS:
            self.min_blocks = min_blocks(s, self.target)
        self.visit(s.body)

    def threads(self) -> list[int] | None:
        """The extents of the threads of a block; None unless all are constant."""
        found = [self.extents.get(tag, 1) for tag in AXES[3:]]
        return None if None in found else [int(x or 1) for x in found]


KernelEmitter._table = EXPRESSIONS.rules(KernelEmitter)
KernelEmitter._stmts = STATEMENTS.rules(KernelEmitter)
KernelEmitter._calls = {**INTRINSICS.rules(KernelEmitter), **THREADS.rules(KernelEmitter)}

__all__ = ["KernelEmitter"]
