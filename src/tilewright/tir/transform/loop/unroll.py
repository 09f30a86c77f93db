"""UnrollLoop, which unrolls loops in TIR, and MarkUnrollLoop, which leaves unrolling to code generation."""

from __future__ import annotations

from tilewright.ir import IntImm, IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext
from tilewright.node import Mutator, Node, any_node, on
from tilewright.tir.arithmetic import add
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import AttrStmt, BufferStore, Evaluate, For, ForKind, SeqStmt, Stmt, stmt_seq
from tilewright.tir.stmt_functor import substitute, used_vars
from tilewright.tir.transform.base import prim_func_pass
from tilewright.tir.transform.ssa import convert_ssa


class _Unroll(Mutator):
    """On the way up, counts the steps below each loop, and marks or unrolls loops within the limits."""

    def __init__(
        self, limit: int, depth: int, extent: int, explicit: bool, local_access: bool, written_out: bool
    ) -> None:
        self.limit, self.depth, self.extent = limit, depth, extent
        self.explicit, self.local_access = explicit, local_access
        self.written_out = written_out
        self.steps = 0
        self.nested = 0
        self.rolled = False
        self.expanded = False

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
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
    def _for(self, s: For) -> Stmt:
        before, depth, rolled = self.steps, self.nested, self.rolled
        self.steps, self.nested, self.rolled = 0, 0, False
        body = self.visit(s.body)
        count = s.extent.value if isinstance(s.extent, IntImm) else -1
        below = max(self.steps, 1)
        new = s if body is s.body else s.replace(body=body)
        auto = (
            s.kind == ForKind.SERIAL
            and count > 0
            and self.nested < self.depth
            and (below * count <= self.limit or (count <= self.extent and not self.rolled))
        ) or (self.local_access and s.kind == ForKind.SERIAL and count > 0 and _indexes_local(body, s.loop_var))
        self.nested = max(depth, self.nested + 1)
        self.rolled = rolled or not (auto or s.kind == ForKind.UNROLLED)
        self.steps = before + below * max(count, 1)
        if s.kind == ForKind.UNROLLED and count >= 0 and self.written_out and self.explicit:
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
    def _step(self, s: Stmt) -> Stmt:
        self.steps += 1
        return s

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> Stmt:
        return self.rebuild(s)


def _indexes_local(body: Stmt, var: Var) -> bool:
    """Whether a loop's variable indexes registers, which have no addresses."""

    def is_local(x: Node) -> bool:
        if not isinstance(x, (BufferLoad, BufferStore)):
            return False
        local = getattr(x.buffer.data.type_annotation, "storage_scope", "") == "local"
        return local and any([var in used_vars(i) for i in x.indices])

    return any_node(body, is_local)


def _options(ctx: PassContext) -> tuple[int, int, int, bool, bool]:
    options = ctx.config.get("tir.UnrollLoop") or {}
    return (
        int(options.get("auto_max_step", 0)),
        int(options.get("auto_max_depth", 8)),
        int(options.get("auto_max_extent", 0)),
        bool(options.get("explicit_unroll", True)),
        bool(options.get("unroll_local_access", False)),
    )


def _unroll_pass(name: str, written_out: bool) -> Pass:
    def run(func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        walk = _Unroll(*_options(ctx), written_out=written_out)
        new = func.replace(body=walk.visit(func.body))
        return convert_ssa(new) if walk.expanded else new

    made: Pass = prim_func_pass(run, name=name)
    return made


def UnrollLoop() -> Pass:
    """Unroll loops that are marked unrolled, and those that `auto_unroll` pragmas or the configuration select.

    Option "tir.UnrollLoop", with the keys:

    - "auto_max_step": unroll serial loops with at most this number of statements after unrolling
    - "auto_max_extent": unroll serial loops with at most this number of iterations
    - "auto_max_depth": unroll at most this number of nested loops
    - "explicit_unroll": unroll in TIR; otherwise only mark the loops
    - "unroll_local_access": unroll all serial loops whose variable indexes local buffers
    """
    return _unroll_pass("tir.UnrollLoop", True)


def MarkUnrollLoop() -> Pass:
    """Mark loops that `auto_unroll` pragmas or the configuration select as unrolled. Code generation unrolls them."""
    return _unroll_pass("tir.MarkUnrollLoop", False)
