"""Rules that inline blocks into others."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import FloatImm, IntImm
from tilewright.meta_schedule.blocks import is_root, is_spatial, only_store
from tilewright.meta_schedule.schedule_rule.schedule_rule import ScheduleRule
from tilewright.node import nodes_of
from tilewright.support.errors import ScheduleError
from tilewright.tir import Block, BufferLoad, BufferStore, Call, PrimExpr, Select, Var
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.analysis import is_output_block
from tilewright.tir.stmt_functor import used_vars


class AutoInline(ScheduleRule):
    """Inlines spatial blocks into their consumers, or into their producer.

    inline_const_tensor: blocks that read nothing are inlined, too. disallow_if_then_else: not those with conditions. require_injective:
    not those that read an element at several points of one load, or at computed places. require_ordered: not those that read with other
    orders of their variables than they write. disallow_op: not those that call one of these operators, such as "tir.exp".
    """

    def __init__(
        self,
        into_producer: bool,
        into_consumer: bool,
        inline_const_tensor: bool,
        disallow_if_then_else: bool,
        require_injective: bool,
        require_ordered: bool,
        disallow_op: Sequence[str] | None = None,
    ) -> None:
        self.into_producer, self.into_consumer = into_producer, into_consumer
        self.inline_const_tensor = inline_const_tensor
        self.disallow_if_then_else = disallow_if_then_else
        self.require_injective, self.require_ordered = require_injective, require_ordered
        self.disallow_op = frozenset(disallow_op or ())

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block):
            return [sch]
        store = only_store(sch.get(block))
        if store is None or not is_spatial(sch.get(block)):
            return [sch]
        if self.inline_const_tensor and not sch.get(block).reads and _inlined(sch, block, into_producer=False):
            return [sch]
        if self._allows(store):
            if self.into_consumer and not is_output_block(sch, block) and _inlined(sch, block, into_producer=False):
                return [sch]
            if self.into_producer:
                _inlined(sch, block, into_producer=True)
        return [sch]

    def _allows(self, store: BufferStore) -> bool:
        loads = nodes_of(store.value, BufferLoad)
        calls = {str(getattr(call.op, "name", "")) for call in nodes_of(store.value, Call)}
        if calls & self.disallow_op:
            return False
        if self.disallow_if_then_else and ("tir.if_then_else" in calls or nodes_of(store.value, Select)):
            return False
        places = {v: i for i, v in enumerate([v for index in store.indices for v in used_vars(index)])}
        for load in loads:
            variables = [used_vars(index) for index in load.indices]
            flat = [v for index in variables for v in index]
            if self.require_injective and (
                len(flat) != len(set(flat)) or not all([_is_shifted_variable(e) for e in load.indices])
            ):
                return False
            order = [places[v] for v in flat if v in places]
            if self.require_ordered and order != sorted(order):
                return False
        return True


class InlineConstantScalars(ScheduleRule):
    """Inlines blocks that store a number."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if is_root(sch, block):
            return [sch]
        stmt: Block = sch.get(block)
        store = only_store(stmt)
        if store is not None and isinstance(store.value, (IntImm, FloatImm)) and stmt.init is None:
            _inlined(sch, block, into_producer=False)
        return [sch]


def _is_shifted_variable(index: PrimExpr) -> bool:
    """Whether an index is a constant, a variable, or a variable plus or minus a constant."""
    if isinstance(index, (IntImm, Var)):
        return True
    parts = [getattr(index, name, None) for name in ("a", "b")]
    kind = type(index).__name__
    return kind in ("Add", "Sub") and isinstance(parts[0], Var) and isinstance(parts[1], IntImm)


def _inlined(sch: Schedule, block: BlockRV, into_producer: bool) -> bool:
    """Inlines a block if the primitive accepts it."""
    try:
        if into_producer:
            sch.reverse_compute_inline(block)
        else:
            sch.compute_inline(block)
    except ScheduleError:
        return False
    return True
