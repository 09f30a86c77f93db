"""UnrollLoop: loops unrolled in TIR, and pragmas that mark loops for the emitter to unroll."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, on
from tilewright.tir.arithmetic import add
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt, stmt_seq
from tilewright.tir.stmt_functor import substitute
from tilewright.tir.transform.base import prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa


class _Unroll(Mutator):
    """Counts the steps below each loop on the way up; loops within the limits are marked or written out."""

    def __init__(self, limit: int, depth: int, extent: int, explicit: bool, written_out: bool) -> None:
        self.limit, self.depth, self.extent = limit, depth, extent
        self.explicit = explicit
        self.written_out = written_out
        self.steps = 0
        self.nested = 0
        self.expanded = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Any:
        if s.attr_key == "pragma_auto_unroll_max_step" and isinstance(s.value, IntImm):
            old, self.limit = self.limit, s.value.value
            body = self.visit(s.body)
            self.limit = old
            return body
        if s.attr_key == "pragma_unroll_explicit" and isinstance(s.value, IntImm):
            was, self.explicit = self.explicit, bool(s.value.value)
            body = self.visit(s.body)
            self.explicit = was
            return body
        return self.rebuild(s)

    @on(For)
    def _for(self, s: For) -> Any:
        before, depth = self.steps, self.nested
        self.steps, self.nested = 0, 0
        body = self.visit(s.body)
        count = s.extent.value if isinstance(s.extent, IntImm) else -1
        below = max(self.steps, 1)
        new = s if body is s.body else s.replace(body=body)
        auto = (
            s.kind == ForKind.SERIAL
            and 0 <= count <= self.extent
            and below * count <= self.limit
            and self.nested < self.depth
            and count > 0
        )
        self.nested = max(depth, self.nested + 1)
        self.steps = before + below * max(count, 1)
        if s.kind == ForKind.UNROLLED and count >= 0 and self.written_out:
            return self._write_out(new, count)
        if auto:
            return (
                self._write_out(new, count)
                if self.explicit and self.written_out
                else new.replace(kind=ForKind.UNROLLED)
            )
        return new

    def _write_out(self, s: For, count: int) -> Stmt:
        self.expanded = True
        return stmt_seq(
            *[substitute(s.body, {s.loop_var: add(s.min, IntImm(s.loop_var.dtype, k))}) for k in range(count)]
        )

    @on(BufferStore, Evaluate)
    def _step(self, s: Stmt) -> Any:
        self.steps += 1
        return s

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Any:
        return self.rebuild(s)


def _options(ctx: PassContext) -> tuple[int, int, int, bool]:
    options = ctx.config.get("tir.UnrollLoop") or {}
    return (
        int(options.get("auto_max_step", 0)),
        int(options.get("auto_max_depth", 8)),
        int(options.get("auto_max_extent", 16 if options.get("auto_max_step") else 0) or 0) or 1 << 30,
        bool(options.get("explicit_unroll", True)),
    )


def _unroll_pass(name: str, written_out: bool) -> Pass:
    def run(func: PrimFunc, mod: Any, ctx: PassContext) -> PrimFunc:
        walk = _Unroll(*_options(ctx), written_out=written_out)
        new = func.replace(body=walk.visit(func.body))
        return convert_ssa(new) if walk.expanded else new

    made: Pass = prim_func_pass(run, name=name)
    return made


def UnrollLoop() -> Pass:
    """Loops marked unrolled, and those that `auto_unroll` pragmas or the configuration allow -> written out."""
    return _unroll_pass("tir.UnrollLoop", True)


def MarkUnrollLoop() -> Pass:
    """Loops that `auto_unroll` pragmas or the configuration allow -> marked unrolled; code generation writes them out."""
    return _unroll_pass("tir.MarkUnrollLoop", False)
