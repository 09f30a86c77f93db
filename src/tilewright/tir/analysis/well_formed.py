"""Rules of well-formed functions at any stage of lowering: four rules, each with its own message."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.node import Visitor, on
from tilewright.script.underline import located
from tilewright.tir.analysis.variables import undefined_vars
from tilewright.tir.expr import IterVar, Let, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    For,
    LetStmt,
    Stmt,
)


class _Rules(Visitor):
    """Finds (message, culprits) of rules that a function breaks, beyond variables that are not defined."""

    def __init__(self, func: PrimFunc) -> None:
        self.bound: set[Var] = set(func.params)
        for b in func.buffer_map.values():
            self.bound.update([e for e in (b.data, *b.shape, *b.strides, b.elem_offset) if isinstance(e, Var)])
        self.loops: dict[Var, For] = {}
        self.hidden: dict[Var, tuple[For, Block]] = {}
        self.threads: dict[str, Var] = {}
        self.found: list[tuple[str, tuple[Any, ...]]] = []

    def _bind(self, var: Var, at: Stmt) -> bool:
        """Whether the variable is new here."""
        if var in self.bound:
            self.found.append(
                (f"{var.name} is defined inside of its own scope; give the inner one a variable of its own", (at,))
            )
            return False
        self.bound.add(var)
        return True

    def _within(self, var: Var, at: Any, body: Any) -> None:
        new = self._bind(var, at)
        self.visit(body)
        if new:
            self.bound.discard(var)

    @on(Var)
    def _var(self, v: Var) -> None:
        found = self.hidden.get(v)
        if found is not None:
            loop, block = found
            self.found.append(
                (
                    f"block {block.name_hint} uses the loop variable {v.name}, which is defined outside of it; a block uses"
                    " its own axes only: bind one to the loop",
                    (block, loop),
                )
            )
            del self.hidden[v]

    @on(For)
    def _for(self, s: For) -> None:
        self.visit(s.min)
        self.visit(s.extent)
        self.loops[s.loop_var] = s
        self._within(s.loop_var, s, s.body)
        self.loops.pop(s.loop_var, None)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> None:
        self.visit(s.value)
        self._within(s.var, s, s.body)

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> None:
        for e in s.extents:
            self.visit(e)
        self._within(s.buffer_var, s, s.body)

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> None:
        self.visit(s.value)
        axis = s.node
        if (
            s.attr_key != "thread_extent"
            or not isinstance(axis, IterVar)
            or not axis.thread_tag
            or "vthread" in axis.thread_tag
        ):
            self.visit(s.body)
            return
        outer = self.threads.get(axis.thread_tag)
        if outer is not None and outer is not axis.var:
            self.found.append(
                (
                    f"{axis.thread_tag} is bound to {axis.var.name} where it is bound to {outer.name} already; use one variable",
                    (s,),
                )
            )
        self.threads[axis.thread_tag] = axis.var
        self.visit(s.body)
        if outer is None:
            del self.threads[axis.thread_tag]
        else:
            self.threads[axis.thread_tag] = outer

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> None:
        for e in s.iter_values:
            self.visit(e)
        self.visit(s.predicate)
        block = s.block
        new = [a.var for a in block.iter_vars if self._bind(a.var, block)]
        outer, loops = self.hidden, self.loops
        if block.iter_vars:
            self.hidden = {**outer, **{v: (f, block) for v, f in loops.items()}}
            self.loops = {}
        self.visit(block)
        self.hidden, self.loops = outer, loops
        self.bound.difference_update(new)

    @on(Block)
    def _block(self, b: Block) -> None:
        data = []
        for buffer in b.alloc_buffers:
            if self._bind(buffer.data, b):
                data.append(buffer.data)
        for m in b.match_buffers:
            for r in m.source.region:
                self.visit(r)
        if b.init is not None:
            self.visit(b.init)
        self.visit(b.body)
        self.bound.difference_update(data)


def faults(func: PrimFunc, mod: IRModule) -> list[str]:
    """The faults of a function of a module, for instruments."""
    return problems(func)


def problems(func: PrimFunc, missing: list[Var] | None = None) -> list[str]:
    """The faults of an ill-formed function, in words, with the user's lines if they are known.

    missing: its undefined variables, where they are known already.
    """
    out = []
    if missing is None:
        missing = undefined_vars(func)
    if missing:
        names = ", ".join([v.name for v in missing])
        out.append(located(f"{names} is used where it is not defined; define it around all of its uses", *missing))
    walk = _Rules(func)
    walk.visit(func.body)
    return out + [located(text, *nodes) for text, nodes in walk.found]


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Whether functions are well-formed. Raises ValueError with all that is wrong, or returns False without assert_mode.

    The rules: variables are used only where they are defined; none is defined inside of its own scope; a block with axes
    uses no loop variable from outside of it; an axis of threads is bound to one variable at a time.
    """
    funcs = {"the function": obj} if isinstance(obj, PrimFunc) else {g.name_hint: f for g, f in obj.functions.items()}
    for name, func in funcs.items():
        if isinstance(func, PrimFunc):
            found = problems(func)
            if found:
                if not assert_mode:
                    return False
                name = str(func.attrs.get("global_symbol", name))
                raise ValueError(f"{name} is not well-formed: " + "\nand: ".join(found))
    return True
