"""InstrumentProfileIntrinsics: inserts marks for a light-weight profiler around a function and its loops."""

from __future__ import annotations

from tilewright.ir import IRModule, PrimExpr
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import Mutator, Visitor, on
from tilewright.tir.expr import Call
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Evaluate, For, ForKind, SeqStmt, Stmt, stmt_seq


class _Heights(Visitor):
    """Loop -> (the depth of its nest, including itself; whether it has sibling loops)."""

    def __init__(self) -> None:
        self.height: dict[int, int] = {}
        self.siblings: set[int] = set()
        self.below = 0

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        pass

    @on(For)
    def _for(self, s: For) -> None:
        outer, self.below = self.below, 0
        self.visit(s.body)
        self.below += 1
        self.height[id(s)] = self.below
        self.below = max(outer, self.below)

    @on(SeqStmt)
    def _seq(self, s: SeqStmt) -> None:
        loops = [x for x in s.seq if isinstance(x, For)]
        if len(loops) > 1:
            self.siblings.update([id(x) for x in loops])
        self.visit_children(s)


class _Mark(Mutator):
    def __init__(self, heights: _Heights, start: int, options: dict[str, int]) -> None:
        self.heights, self.next, self.depth = heights, start, 0
        self.max_depth = int(options.get("tir.lwp_max_depth", 0))
        self.min_height = int(options.get("tir.lwp_min_height", 1))
        self.siblings = bool(options.get("tir.instr_siblings", True))

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> PrimExpr:
        return e

    def around(self, s: Stmt, number: int) -> Stmt:
        begin, end = (Evaluate(Call("handle", f"{w}_profile_intrinsic", (number,))) for w in ("start", "end"))
        return stmt_seq(begin, s, end)

    @on(For)
    def _for(self, s: For) -> Stmt:
        wanted = (
            s.kind == ForKind.SERIAL
            and (not self.max_depth or self.depth < self.max_depth)
            and self.heights.height[id(s)] > self.min_height
            and (not self.siblings or not self.depth or id(s) in self.heights.siblings)
        )
        if wanted:
            number = self.next
            self.next += 1
        self.depth += 1
        new = self.rebuild(s)
        self.depth -= 1
        return self.around(new, number) if wanted else new


def InstrumentProfileIntrinsics() -> Pass:
    """Put functions and loops between start_profile_intrinsic(id) and end_profile_intrinsic(id), with increasing ids.

    Options:

    - "tir.instr_lwp": turn the pass on
    - "tir.lwp_disable_func_prof": do not mark functions
    - "tir.lwp_max_depth": the largest depth of loops to mark (0: any)
    - "tir.lwp_min_height": the smallest height of loops to mark (1: no innermost loops)
    - "tir.instr_siblings": mark inner loops only if they have siblings
    - "tir.reset_start_id": start ids at 0 in each function
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        if not ctx.config.get("tir.instr_lwp", False):
            return mod
        number = 0
        functions = dict(mod.functions)
        for gvar, func in mod.functions.items():
            if not isinstance(func, PrimFunc):
                continue
            heights = _Heights()
            heights.visit(func.body)
            if ctx.config.get("tir.reset_start_id", False):
                number = 0
            whole = not ctx.config.get("tir.lwp_disable_func_prof", False)
            walk = _Mark(heights, number + whole, ctx.config)
            body = walk.visit(func.body)
            functions[gvar] = func.replace(body=walk.around(body, number) if whole else body)
            number = walk.next
        return mod.with_functions(functions)

    return Pass(PassInfo(0, "tir.InstrumentProfileIntrinsics"), run)
