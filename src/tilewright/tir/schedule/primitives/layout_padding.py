"""The padding of new layouts (transform_layout): written by the block that writes the elements, by a block after it, or assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, Op, PrimExpr, Range, as_prim_expr
from tilewright.tir import (
    EQ,
    Block,
    BlockRealize,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Cast,
    Evaluate,
    For,
    ForKind,
    IterVar,
    Not,
    Or,
    Var,
    if_then_else,
)
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import written_buffers
from tilewright.tir.schedule.facts.leaves import DATA_PAR, Leaf, conjuncts, leaves
from tilewright.tir.schedule.facts.linear_forms import Lin, same
from tilewright.tir.schedule.index_map import IndexMap
from tilewright.tir.schedule.primitives.rewrite import body_list
from tilewright.tir.schedule.state import ScheduleState, StmtSRef
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.stmt import Stmt


def padding_place(body: Stmt, old: Buffer, parameter: bool) -> tuple[int, bool]:
    """(number of the statement of a buffer's scope before which its padding is set, whether it is only assumed). The padding is set after
    the last writer. For a parameter that is not written, the caller of the function guarantees the value of the padding."""
    writers = [i for i, st in enumerate(body_list(body)) if any([old in written_buffers(x.block) for x in leaves(st)])]
    if not writers and not parameter:
        refuse("{0} must be written in its scope, so that its padding can be filled", old)
    return (writers[-1] + 1, False) if writers else (0, True)


def filler(state: ScheduleState, site: StmtSRef, buffer: Buffer) -> Leaf | None:
    """The only writer of a buffer, if it is one store to each of its elements in their order, by loops of its own: it can also write the
    padding."""
    writers = [x for x in leaves(site.stmt.body) if buffer in written_buffers(x.block)]
    if len(writers) != 1:
        return None
    (leaf,) = writers
    block, store = leaf.block, leaf.block.body
    simple = isinstance(store, BufferStore) and block.init is None and not block.annotations and not leaf.conditional
    if not simple or conjuncts(leaf.realize.predicate) or len(block.iter_vars) != len(buffer.shape):
        return None
    for iv, index, value, loop, size in zip(
        block.iter_vars,
        store.indices,
        leaf.realize.iter_values,
        leaf.loops[-len(block.iter_vars) :],
        buffer.shape,
        strict=False,
    ):
        whole = same(state.forms.of(iv.dom.extent), state.forms.of(size)) and same(
            state.forms.of(iv.dom.min), Lin({}, 0)
        )
        if iv.iter_type != DATA_PAR or index is not iv.var or value is not loop.loop_var or not whole:
            return None
        if loop.kind != ForKind.SERIAL or loop.annotations:
            return None
    if len(leaf.loops) < len(block.iter_vars) or any([r.buffer is buffer for r in block.reads]):
        return None
    alone = len(leaves(leaf.loops[-len(block.iter_vars)])) == 1
    return leaf if alone else None


def nest_of(body: Stmt, block: Block) -> For:
    """The outermost of the loops of a block's own iteration variables."""
    (leaf,) = [x for x in leaves(body) if x.block is block]
    nest: For = leaf.loops[-len(block.iter_vars)]
    return nest


def filling_nest(
    state: ScheduleState, leaf: Leaf, buffer: Any, padding: PrimExpr, inverse: IndexMap, pad_value: Any
) -> tuple[Stmt, Block]:
    """The loops of `filler` over all elements of the new layout, and its block."""
    old = leaf.block
    loop_vars, iter_vars, iters = _axes(state, buffer)
    env = dict(zip(inverse.initial_indices, iter_vars, strict=True))
    places = [state.forms.simplify(substitute(e, env)) for e in inverse.final_indices]
    moved = substitute(old.replace(iter_vars=()), dict(zip([iv.var for iv in old.iter_vars], places, strict=True)))
    value = _padding_value(buffer, pad_value, iter_vars)
    chosen = if_then_else(_negated(substitute(padding, env)), moved.body.value, value)
    region = (BufferRegion(buffer, tuple([Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in iter_vars])),)
    store = BufferStore(buffer, chosen, tuple(iter_vars))
    block = moved.replace(iter_vars=tuple(iters), writes=region, body=store)
    nest: Stmt = BlockRealize(tuple(loop_vars), IntImm("bool", 1), block)
    for v, n in reversed(list(zip(loop_vars, buffer.shape, strict=True))):
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    return nest, block


def _negated(padding: PrimExpr) -> PrimExpr:
    """Where elements are no padding: `padding` is mostly the negation of a bound."""
    return padding.a if isinstance(padding, Not) else Not(padding)


def _axes(state: ScheduleState, buffer: Any) -> tuple[list[Var], list[Var], list[IterVar]]:
    """(loop variables, variables, iteration variables) over all elements of a buffer."""
    loop_vars = [Var(f"ax{i}", n.dtype) for i, n in enumerate(buffer.shape)]
    iter_vars = [Var(f"v{i}", n.dtype) for i, n in enumerate(buffer.shape)]
    iters = []
    for v, n in zip(iter_vars, buffer.shape, strict=True):
        state.note_range(v, IntImm(v.dtype, 0), n)
        iters.append(IterVar(Range.from_min_extent(IntImm(v.dtype, 0), n), v, DATA_PAR))
    return loop_vars, iter_vars, iters


def _padding_value(buffer: Any, pad_value: Any, iter_vars: list[Var]) -> PrimExpr:
    """The value of the padding at the new indices `iter_vars`."""
    value = pad_value
    if isinstance(pad_value, IndexMap):
        if len(pad_value.final_indices) != 1:
            refuse(f"pad_value must give one value, but gives {len(pad_value.final_indices)}")
        value = substitute(pad_value.final_indices[0], dict(zip(pad_value.initial_indices, iter_vars, strict=True)))
    if isinstance(value, float) and not buffer.dtype.is_float:
        if not value.is_integer():
            refuse(f"pad_value must be of the type of {{0}}, which is {buffer.dtype}, but is {value}", buffer)
        value = int(value)
    value = as_prim_expr(value, "pad_value", buffer.dtype)
    if value.dtype.code in ("handle", "void"):
        refuse(f"pad_value must be a number, but is {value}")
    return value if value.dtype is buffer.dtype else Cast(buffer.dtype, value)


def padding_nest(
    state: ScheduleState, buffer: Any, padding: PrimExpr, inverse: IndexMap, pad_value: Any, name: str, assumed: bool
) -> Stmt:
    """Loops that set the padding of a buffer, or that assume its value."""
    loop_vars, iter_vars, iters = _axes(state, buffer)
    value = _padding_value(buffer, pad_value, iter_vars)
    region = (BufferRegion(buffer, tuple([Range.from_min_extent(v, IntImm(v.dtype, 1)) for v in iter_vars])),)
    predicate: PrimExpr = IntImm("bool", 1)
    if assumed:
        inside = substitute(padding, dict(zip(inverse.initial_indices, iter_vars, strict=True)))
        # `padding` says where elements are padding, mostly as the negation of a bound.
        claim = Or(
            inside.a if isinstance(inside, Not) else Not(inside), EQ(BufferLoad(buffer, tuple(iter_vars)), value)
        )
        body = Evaluate(Call("bool", Op.get("tir.assume"), (claim,)))
        block = Block(tuple(iters), region, (), name, body)
    else:
        block = Block(tuple(iters), (), region, name, BufferStore(buffer, value, tuple(iter_vars)))
        predicate = substitute(padding, dict(zip(inverse.initial_indices, loop_vars, strict=True)))
    nest: Stmt = BlockRealize(tuple(loop_vars), predicate, block)
    for v, n in reversed(list(zip(loop_vars, buffer.shape, strict=True))):
        nest = For(v, 0, n, ForKind.SERIAL, nest)
    return nest
