"""Primitives that stage data in place, stage index computations, and stage data in the order of a block's iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, Range
from tilewright.node import Mutator, Visitor, has_node, on, structural_equal
from tilewright.tir import (
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IterVar,
    PrimExpr,
    Var,
    decl_buffer,
)
from tilewright.tir.schedule.arguments import read_map, read_number, write_map
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.leaves import DATA_PAR, leaf_of, leaves, scope_root
from tilewright.tir.schedule.facts.point_effects import self_dependence
from tilewright.tir.schedule.facts.regions import access_regions, contains, unite
from tilewright.tir.schedule.primitives.rewrite import ReplaceBuffers, ReplaceStmts, body_list, vars_in, with_statements
from tilewright.tir.schedule.primitives.storage.cache import (
    box_of,
    copy_block,
    need_no_outer_init,
    need_touched,
    need_written,
    top_statement,
    written_box,
)
from tilewright.tir.schedule.primitives.transform import reindex_buffer
from tilewright.tir.schedule.state import ScheduleState
from tilewright.tir.schedule.trace import BlockRV, primitive, recorded_as
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.stmt import Stmt


@recorded_as(read_map)
def reindex_cache_read(
    s: Schedule, block: BlockRV | str, read_buffer_index: int, storage_scope: str, index_map: Any
) -> BlockRV:
    """C[i, j] += A[j, i]   -->   A_local[f(i, j)] = A[j, i];  C[i, j] += A_local[f(i, j)]

    index_map: from the block's iteration variables to indices of the staged buffer. Returns the copying block.
    """
    ref = s.block(block)
    buffer = ref.stmt.reads[read_buffer_index].buffer
    return s.block_rv(
        reindex_buffer(s.state, ref, "read", buffer, f"{buffer.name}_{storage_scope}", index_map, storage_scope)
    )


@recorded_as(write_map)
def reindex_cache_write(
    s: Schedule, block: BlockRV | str, write_buffer_index: int, storage_scope: str, index_map: Any
) -> BlockRV:
    """C[j, i] = f   -->   C_local[g(i, j)] = f;  C[j, i] = C_local[g(i, j)]

    index_map: from the block's iteration variables to indices of the staged buffer. Returns the copying block.
    """
    ref = s.block(block)
    buffer = ref.stmt.writes[write_buffer_index].buffer
    return s.block_rv(
        reindex_buffer(s.state, ref, "write", buffer, f"{buffer.name}_{storage_scope}", index_map, storage_scope)
    )


@recorded_as(read_number)
def cache_inplace(s: Schedule, block: BlockRV | str, read_buffer_index: int | str, storage_scope: str) -> list[BlockRV]:
    """A[i] += f   -->   A_local[i] = A[i];  A_local[i] += f;  A[i] = A_local[i]

    For a block that reads and writes the same buffer. Returns the two copying blocks.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    buffer = old.reads[read_buffer_index].buffer
    if all([w.buffer is not buffer for w in old.writes]):
        refuse("{0} must read and write {1} in place, but only reads it", old, buffer)
    scope = scope_root(ref)
    need_no_outer_init(scope.stmt, buffer)
    copy = decl_buffer(buffer.shape, buffer.dtype, f"{buffer.name}_{storage_scope}", scope=storage_scope)
    statements = body_list(scope.stmt.body)
    at = top_statement(scope.stmt, old)
    found = leaves(statements[at])
    for leaf in found:
        # The declared reads of a block with an initialisation omit the elements that it initialises, so it must read no others.
        if leaf.block.init is not None and any([r.buffer is buffer for r in leaf.block.writes]):
            reason = self_dependence(state, leaf.block)
            if reason:
                refuse(f"the points of {{0}} must not depend on each other, but {reason}", leaf.block)
    region = need_touched(state, found, buffer, writes=False)
    written = need_touched(state, found, buffer, writes=True)
    surely = written_box(state, found, buffer)
    if surely is None or not contains(state.forms, surely, written, buffer.shape):
        # Elements that the block may not write are copied back, so they must be copied first.
        region = unite(state.forms, region, written)
    need_written(state, scope, statements[:at], buffer, region, old)
    load_nest, loader = copy_block(state, buffer, copy, copy.name, box_of(state, region, buffer))
    store_nest, storer = copy_block(state, copy, buffer, copy.name, box_of(state, written, buffer))
    rewriter = ReplaceBuffers({buffer: copy})
    replaced = rewriter.visit(statements[at])
    around = [*statements[:at], load_nest, replaced, store_nest, *statements[at + 1 :]]
    body = with_statements(scope.stmt.body, around)
    new_scope = scope.stmt.replace(body=body, alloc_buffers=(*scope.stmt.alloc_buffers, copy))
    state.replace(scope, new_scope, rewriter.reuse)
    return [s.block_rv(state.ref(loader)), s.block_rv(state.ref(storer))]


class _IndexWork(Visitor):
    """The outermost index expressions with divisions, in order of first occurrence, and the number of their
    occurrences.
    """

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.counts: list[int] = []

    @on(BufferLoad, BufferStore)
    def _access(self, x: BufferLoad | BufferStore) -> None:
        for i in x.indices:
            self._note(i)
        self.visit_children(x)

    def _note(self, e: Any) -> None:
        if not _has_division(e):
            return
        for n, known in enumerate(self.found):
            if structural_equal(e, known):
                self.counts[n] += 1
                break
        else:
            self.found.append(e)
            self.counts.append(1)
        for name in ("a", "b"):
            if isinstance(getattr(e, name, None), PrimExpr):
                self._note(getattr(e, name))

    def chosen(self, threshold: int) -> list[PrimExpr]:
        """For threshold 0, whole indices; otherwise the largest parts that occur `threshold` times and are not inside
        another.
        """
        often = [e for e, n in zip(self.found, self.counts, strict=True) if n >= threshold]
        out: list[PrimExpr] = []
        for e in often:
            if not any([_contains(other, e) for other in often if other is not e]):
                out.append(e)
        return out


def _contains(e: PrimExpr, part: PrimExpr) -> bool:
    parts = [getattr(e, name, None) for name in ("a", "b")]
    return any([isinstance(x, PrimExpr) and (structural_equal(x, part) or _contains(x, part)) for x in parts])


def _loads(e: PrimExpr) -> bool:
    return has_node(e, BufferLoad, Call)


def _divides_by_numbers(e: PrimExpr) -> bool:
    """Whether an expression divides only by constants other than 0. Then it can be computed at any point of a domain."""
    if isinstance(e, (FloorDiv, FloorMod)) and not (isinstance(e.b, IntImm) and e.b.value):
        return False
    return all(
        [_divides_by_numbers(c) for c in (getattr(e, "a", None), getattr(e, "b", None)) if isinstance(c, PrimExpr)]
    )


def _has_division(e: PrimExpr) -> bool:
    if isinstance(e, (FloorDiv, FloorMod)):
        return True
    return any([_has_division(c) for c in (getattr(e, "a", None), getattr(e, "b", None)) if isinstance(c, PrimExpr)])


class _UseCache(Mutator):
    """Replaces expressions by loads, and adds these to the reads of inner blocks. Bindings, regions and loop bounds
    stay.
    """

    def __init__(self, state: ScheduleState, pairs: list[tuple[PrimExpr, BufferLoad]]) -> None:
        self.state, self.pairs = state, pairs
        self.reuse: dict[Any, Any] = {}

    def run(self, block: Block) -> Block:
        """The block with its body changed."""
        body = self.visit(block.body)
        if body is block.body:
            return block
        caches = {load.buffer for _, load in self.pairs}
        reads, _ = access_regions(self.state, body)
        new = block.replace(body=body, reads=(*block.reads, *[r for r in reads if r.buffer in caches]))
        self.reuse[block] = new
        return new

    @on(BlockRealize)
    def _realize(self, x: BlockRealize) -> Stmt:
        return x.replace(block=self.run(x.block))

    @on(For)
    def _for(self, x: For) -> Stmt:
        return x.replace(body=self.visit(x.body))

    @on(FloorDiv, FloorMod, PrimExpr)
    def _expr(self, x: PrimExpr) -> PrimExpr:
        for e, load in self.pairs:
            if type(e) is type(x) and structural_equal(e, x):
                return load
        return x if x._leaf else self.rebuild(x)


@primitive
def cache_index(s: Schedule, block: BlockRV | str, storage_scope: str, cse_thresh: int = 0) -> list[BlockRV]:
    """C[i] = A[i % 7 // 2]   -->   index_0[i] = i % 7 // 2;  C[i] = A[index_0[i]]

    Computes index expressions with divisions or remainders once, in loops before the block. cse_thresh: how often an
    expression must occur to be cached; 0 caches every whole index. Returns the computing blocks; none if no index
    contains a division.
    """
    state = s.state
    ref = s.block(block)
    old = ref.stmt
    work = _IndexWork()
    work.visit(old.body)
    scope = scope_root(ref)
    pairs: list[tuple[PrimExpr, BufferLoad]] = []
    nests: list[Stmt] = []
    made: list[Stmt] = []
    allocs: list[Buffer] = []
    for e in work.chosen(cse_thresh):
        used = vars_in(e)
        own = [iv for iv in old.iter_vars if iv.var in used]
        if len(own) != len(used) or _loads(e) or not _divides_by_numbers(e):
            continue
        n = len(made)
        buffer = decl_buffer([iv.dom.extent for iv in own], e.dtype, f"index_var_{n}", scope=storage_scope)
        copies = [Var(iv.var.name, iv.var.dtype) for iv in own]
        value = substitute(e, dict(zip([iv.var for iv in own], copies, strict=True)))
        place = tuple([state.forms.simplify(v - iv.dom.min) for iv, v in zip(own, copies, strict=True)])
        region = BufferRegion(buffer, tuple([Range.from_min_extent(i, IntImm(str(i.dtype), 1)) for i in place]))
        maker = Block(
            tuple([IterVar(iv.dom, v, DATA_PAR) for iv, v in zip(own, copies, strict=True)]), (), (region,), f"index_{n}",
            BufferStore(buffer, value, place),
        )  # fmt: skip
        loops = [Var(f"ax{i}", v.dtype) for i, v in enumerate(copies)]
        values = [state.forms.simplify(v + iv.dom.min) for iv, v in zip(own, loops, strict=True)]
        nest: Stmt = BlockRealize(tuple(values), IntImm("bool", 1), maker)
        for v, iv in reversed(list(zip(loops, own, strict=True))):
            nest = For(v, 0, iv.dom.extent, ForKind.SERIAL, nest)
        nests.append(nest)
        made.append(maker)
        allocs.append(buffer)
        pairs.append((e, BufferLoad(buffer, tuple([state.forms.simplify(iv.var - iv.dom.min) for iv in own]))))
    if not pairs:
        return []
    use = _UseCache(state, pairs)
    new = use.run(old)
    leaf = leaf_of(ref)
    statements = body_list(ReplaceStmts({id(leaf.realize): leaf.realize.replace(block=new)}).run(scope.stmt.body))
    at = next(i for i, st in enumerate(statements) if any([x.block is new for x in leaves(st)]))
    out = with_statements(scope.stmt.body, [*statements[:at], *nests, *statements[at:]])
    state.replace(scope, scope.stmt.replace(body=out, alloc_buffers=(*scope.stmt.alloc_buffers, *allocs)), use.reuse)
    return [s.block_rv(state.ref(b)) for b in made]
