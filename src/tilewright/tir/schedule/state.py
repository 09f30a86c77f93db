"""The program of a schedule: an immutable tree, and one mutable reference into it for each loop and block.

A primitive builds the new subtree and calls `replace`. Only the statements on the way up to the root are rebuilt;
shared parts of the old and new subtree are not walked. A reference stays valid as long as its loop (identified by its
variable) or block (identified by its iteration variables) exists, so users' handles stay valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tilewright.ir import GlobalVar, IntImm, IRModule
from tilewright.support.errors import InternalError
from tilewright.tir import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
)
from tilewright.tir.schedule.facts.linear_forms import Forms

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.expr import Var
    from tilewright.tir.schedule.block_scope import CachedFlags


_ONE_CHILD: dict[type, str] = {
    BlockRealize: "block", LetStmt: "body", AttrStmt: "body", AssertStmt: "body", Allocate: "body", AllocateConst: "body",
    DeclBuffer: "body", While: "body", BufferRealize: "body", For: "body", Block: "body",
}  # fmt: skip


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below `stmt`, in the order in which they run."""
    kind = type(stmt)
    if kind is SeqStmt:
        return stmt.seq  # type: ignore[attr-defined, no-any-return]
    name = _ONE_CHILD.get(kind)
    if name is not None:
        return (getattr(stmt, name),)
    if kind is IfThenElse:
        return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)  # type: ignore[attr-defined]
    return ()


def with_child(stmt: Any, old: Stmt, new: Stmt) -> Any:
    """Replace the loop or block `old` directly below `stmt`; None if it is not there."""
    kind = type(stmt)
    if kind is SeqStmt:
        for i, child in enumerate(stmt.seq):
            found = new if child is old else None if type(child) is For else with_child(child, old, new)
            if found is not None:
                return seq_of([*stmt.seq[:i], found, *stmt.seq[i + 1 :]])
        return None
    if kind is IfThenElse:
        for name in ("then_case", "else_case"):
            child = getattr(stmt, name)
            if child is not None:
                found = new if child is old else None if type(child) is For else with_child(child, old, new)
                if found is not None:
                    return stmt.replace(**{name: found})
        return None
    name = _ONE_CHILD.get(kind)  # type: ignore[assignment]
    if name is None:
        return None
    child = getattr(stmt, name)
    if child is old:
        return stmt.replace(**{name: new})
    if type(child) is For or type(child) is Block:
        return None
    found = with_child(child, old, new)
    return None if found is None else stmt.replace(**{name: found})


def seq_of(stmts: Sequence[Stmt]) -> Any:
    """The statements in sequence, with nested sequences flattened; a single statement stays as it is."""
    flat: list[Stmt] = []
    for s in stmts:
        flat.extend(s.seq if type(s) is SeqStmt else (s,))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))


class StmtSRef:
    """A reference to a loop or block, valid while the program around it changes. `stmt` is None after its removal."""

    __slots__ = ("__weakref__", "parent", "stmt")

    def __init__(self, stmt: Any, parent: StmtSRef | None) -> None:
        self.stmt: Any = stmt
        self.parent = parent

    @property
    def seq_index(self) -> int:
        """The position in a sequence of statements; -1 outside of one."""
        if self.parent is None:
            return -1
        body = self.parent.stmt.body
        if type(body) is not SeqStmt:
            return -1
        inside = [s.block if type(s) is BlockRealize else s for s in body.seq]
        return next((i for i, s in enumerate(inside) if s is self.stmt), -1)

    @staticmethod
    def inline_mark() -> StmtSRef:
        """A mark for "inline the block" in the place of a loop."""
        return _INLINE_MARK

    @staticmethod
    def root_mark() -> StmtSRef:
        """A mark for "compute the block at the root" in the place of a loop."""
        return _ROOT_MARK

    def ancestors(self) -> Iterator[StmtSRef]:
        """The ancestors, from the parent up to the root block."""
        p = self.parent
        while p is not None:
            yield p
            p = p.parent

    def __repr__(self) -> str:
        return f"StmtSRef({self.stmt!r})"


_INLINE_MARK, _ROOT_MARK = StmtSRef(None, None), StmtSRef(None, None)


class ScheduleDebugMask(IntEnum):
    """The checks after each primitive: bits of a schedule's `debug_mask`."""

    VERIFY_SREF_TREE = 1
    VERIFY_CACHED_FLAGS = 2


def parse_debug_mask(mask: str | int) -> int:
    """Parse "all", "none" or a number. Raises ValueError for anything else."""
    if isinstance(mask, str):
        if mask == "all":
            return ScheduleDebugMask.VERIFY_SREF_TREE | ScheduleDebugMask.VERIFY_CACHED_FLAGS
        if mask == "none":
            return 0
    if isinstance(mask, int) and not isinstance(mask, bool) and 0 <= mask <= 3:
        return mask
    raise ValueError(f'debug_mask must be "all", "none" or a number from 0 to 3, but is {mask!r}')


_analyses: dict[str, Callable[..., Any]] = {}


def register_analyses(scope: Callable[..., Any], flags: Callable[..., Any]) -> None:
    """Registers the analyses of scopes and of blocks, whose modules import this one."""
    _analyses.update(scope=scope, flags=flags)


class ScheduleState:
    """The functions being scheduled, the references into them, and the ranges of their variables (`forms.ranges`).

    debug_mask: checks after every primitive: "all", "none" or bits of ScheduleDebugMask. enable_check: whether
    primitives check that the results of the program stay the same.
    """

    def __init__(self, mod: IRModule | PrimFunc, *, debug_mask: str | int = "none", enable_check: bool = True) -> None:
        if isinstance(mod, PrimFunc):
            functions: Any = {"main": mod}
            mod = IRModule(functions)
        self.debug_mask, self.enable_check = parse_debug_mask(debug_mask), enable_check
        self._flags: dict[int, tuple[Any, StmtSRef, Any]] = {}
        self._mod = mod
        self._dirty: dict[GlobalVar, PrimFunc] = {}
        self.functions: dict[GlobalVar, PrimFunc] = {}
        self.roots: dict[GlobalVar, StmtSRef] = {}
        self.forms = Forms()
        self._refs: dict[int, StmtSRef] = {}
        self._keys: dict[int, StmtSRef] = {}
        for gvar, func in mod.functions_items():
            if isinstance(func, PrimFunc) and isinstance(func.body, BlockRealize):
                self.functions[gvar] = func
                root = self.roots[gvar] = StmtSRef(func.body.block, None)
                self._enter(root)
                self._adopt(func.body.block.body, root, set())
        self.aliases = self.find_aliases()

    def find_aliases(self) -> tuple[Buffer, Buffer] | None:
        """Two buffers of blocks that share memory; None if there are none."""
        known: dict[Var, Buffer] = {}
        for ref in self._refs.values():
            if type(ref.stmt) is Block:
                for r in (*ref.stmt.reads, *ref.stmt.writes):
                    other = known.setdefault(r.buffer.data, r.buffer)
                    if other is not r.buffer:
                        return other, r.buffer
        return None

    @property
    def mod(self) -> IRModule:
        """The module after the primitives applied so far."""
        if self._dirty:
            functions = dict(self._mod.functions_items())
            for gvar in self._dirty:
                functions[gvar] = self.function(gvar)
            self._mod = self._mod.with_functions(functions)
            self._dirty.clear()
        return self._mod

    def function(self, gvar: GlobalVar) -> PrimFunc:
        func = self.functions[gvar]
        body: Any = func.body
        root = self.roots[gvar].stmt
        if body.block is not root:
            func = self.functions[gvar] = func.replace(body=body.replace(block=root))
        return func

    def set_function(self, gvar: GlobalVar, func: PrimFunc) -> None:
        """Change parameters, buffer map and attributes of a function."""
        self.functions[gvar] = func
        self._dirty[gvar] = func

    def function_of(self, ref: StmtSRef) -> GlobalVar:
        while ref.parent is not None:
            ref = ref.parent
        for gvar, root in self.roots.items():
            if root is ref:
                return gvar
        raise InternalError("a statement reference does not belong to this schedule")

    def copy(self) -> ScheduleState:
        """An independent state with its own references."""
        return self.copy_with_refs()[0]

    def copy_with_refs(self) -> tuple[ScheduleState, dict[int, StmtSRef]]:
        """`copy`, and the new references by the id of the old ones."""
        new = object.__new__(ScheduleState)
        new._mod, new._dirty, new.functions = self.mod, {}, {}
        new.aliases = self.aliases
        new.debug_mask, new.enable_check, new._flags = self.debug_mask, self.enable_check, {}
        new.forms = self.forms
        moved: dict[int, StmtSRef] = {}
        for ref in self._refs.values():
            moved[id(ref)] = StmtSRef(ref.stmt, None)
        for ref in self._refs.values():
            if ref.parent is not None:
                moved[id(ref)].parent = moved[id(ref.parent)]
        new._refs = {k: moved[id(r)] for k, r in self._refs.items()}
        new._keys = {k: moved[id(r)] for k, r in self._keys.items() if id(r) in moved}
        new.roots = {g: moved[id(r)] for g, r in self.roots.items()}
        new.functions = {g: self.function(g) for g in self.functions}
        return new, moved

    def mark(self) -> list[tuple[GlobalVar, Any, PrimFunc]]:
        """A snapshot of the program for `reset`."""
        return [(g, root.stmt, self.functions[g]) for g, root in self.roots.items()]

    def reset(self, mark: list[tuple[GlobalVar, Block, PrimFunc]]) -> None:
        """Undo all changes since `mark`."""
        for gvar, stmt, func in mark:
            root = self.roots[gvar]
            if root.stmt is not stmt:
                self.replace(root, stmt)
                self.set_function(gvar, func)

    # ---- properties of blocks

    def get_block_scope(self, block_sref: StmtSRef) -> Any:
        """The dependences between the blocks directly below a block."""
        return _analyses["scope"](self, block_sref)

    def _get_cached_flags(self, block_sref: StmtSRef) -> Any:
        """The properties of a block: affine_binding, region_cover, stage_pipeline."""
        root = block_sref
        while root.parent is not None:
            root = root.parent
        known = self._flags.get(id(block_sref))
        if known is None or known[0] is not root.stmt:
            known = self._flags[id(block_sref)] = (root.stmt, block_sref, _analyses["flags"](self, block_sref))
        return known[2]

    def known_flags(self) -> list[tuple[StmtSRef, CachedFlags]]:
        """The cached properties of blocks in the current program."""
        current = {id(r.stmt) for r in self.roots.values()}
        return [
            (ref, flags) for root, ref, flags in self._flags.values() if id(root) in current and ref.stmt is not None
        ]

    # ---- references

    def get_sref(self, stmt: Stmt) -> StmtSRef | None:
        """The reference to a loop or block of the program; None if it is not in it."""
        found = self._refs.get(id(stmt))
        return found if found is not None and found.stmt is stmt else None

    def all_refs(self) -> list[StmtSRef]:
        """Every reference into the program."""
        return list(self._refs.values())

    def ref(self, stmt: Any) -> StmtSRef:
        found = self._refs.get(id(stmt))
        if found is None or found.stmt is not stmt:
            raise InternalError(f"no reference to {type(stmt).__name__}")
        return found

    def _enter(self, ref: StmtSRef) -> None:
        stmt = ref.stmt
        self._refs[id(stmt)] = ref
        if type(stmt) is For:
            self._keys[id(stmt.loop_var)] = ref
            self.note_range(stmt.loop_var, stmt.min, stmt.extent)
        else:
            if stmt.iter_vars:
                self._keys[id(stmt.iter_vars)] = ref
            for iv in stmt.iter_vars:
                self.note_range(iv.var, iv.dom.min, iv.dom.extent)

    def note_range(self, var: Any, low: Any, extent: Any) -> None:
        """Record the range of a variable for index arithmetic."""
        if isinstance(low, IntImm) and isinstance(extent, IntImm):
            self.forms.ranges[var] = (low.value, low.value + extent.value - 1)

    def _leave(self, ref: StmtSRef, stmt: Stmt) -> None:
        if self._refs.get(id(stmt)) is ref:
            del self._refs[id(stmt)]

    def _adopt(self, stmt: Stmt, parent: StmtSRef, kept: set[int], reuse: Mapping[int, StmtSRef] | None = None) -> None:
        """Make references for every new loop and block at and below `stmt`."""
        stack: list[tuple[Any, StmtSRef]] = [(stmt, parent)]
        while stack:
            s, up = stack.pop()
            kind = type(s)
            if kind is For or kind is Block:
                known = self._refs.get(id(s))
                if known is not None and known.stmt is s:
                    known.parent = up
                    kept.add(id(s))
                    continue
                known = reuse.get(id(s)) if reuse else None
                if known is None:
                    known = (
                        self._keys.get(id(s.loop_var) if kind is For else id(s.iter_vars))
                        if kind is For or s.iter_vars
                        else None
                    )
                    if known is not None:
                        old = known.stmt
                        same_key = old is not None and (
                            old.loop_var is s.loop_var if kind is For and type(old) is For
                            else kind is Block and type(old) is Block and old.iter_vars is s.iter_vars
                        )  # fmt: skip
                        if not same_key:
                            known = None
                if known is None:
                    known = StmtSRef(s, up)
                else:
                    self._leave(known, known.stmt)
                    known.stmt, known.parent = s, up
                self._enter(known)
                up = known
            for child in children(s):
                stack.append((child, up))

    def _drop(self, stmt: Stmt, kept: set[int]) -> None:
        """Mark references as removed that the old subtree had and the new one does not."""
        stack = [stmt]
        while stack:
            s = stack.pop()
            if id(s) in kept:
                continue
            if type(s) is For or type(s) is Block:
                ref = self._refs.get(id(s))
                if ref is not None and ref.stmt is s:
                    ref.stmt = ref.parent = None
                    del self._refs[id(s)]
            stack.extend(children(s))

    def replace(self, src_sref: StmtSRef, tgt_stmt: Any, block_sref_reuse: Mapping[Any, Any] | None = None) -> None:
        """Replace the loop or block of `src_sref` by `tgt_stmt`.

        `block_sref_reuse` maps old blocks to new ones that take over their references although their iteration
        variables differ. A loop can be replaced by any statement, a block only by a block.
        """
        ref, new, reuse = src_sref, tgt_stmt, block_sref_reuse
        old, parent = ref.stmt, ref.parent
        if old is new:
            return
        if parent is None and type(new) is not Block:
            raise InternalError("the root block can only be replaced by a block")
        # Blocks inside an initialisation have no references.
        carried = {id(b): self._refs[id(a)] for a, b in reuse.items() if id(a) in self._refs} if reuse else {}
        if type(old) is Block and type(new) is Block:
            carried.setdefault(id(new), ref)
        kept: set[int] = set()
        old_subtree = old
        self._adopt(new, parent, kept, carried)  # type: ignore[arg-type]
        if parent is None:
            ref.parent = None
        self._drop(old_subtree, kept)
        while parent is not None:
            above = parent.stmt
            rebuilt = with_child(above, old, new)
            if rebuilt is None:
                raise InternalError(f"{type(old).__name__} is not below its parent {type(above).__name__}")
            del self._refs[id(above)]
            parent.stmt = rebuilt
            self._refs[id(rebuilt)] = parent
            if type(rebuilt) is Block and rebuilt.iter_vars:
                self._keys[id(rebuilt.iter_vars)] = parent
            old, new, ref, parent = above, rebuilt, parent, parent.parent
        self._dirty[self.function_of(ref)] = self.functions[self.function_of(ref)]
