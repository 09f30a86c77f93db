"""WriteHalos: the producer of a convolution's input writes its halo.

    y = conv(x, w, padding=1)  ->  y = conv(pad(x), w)

A convolution on channel blocks copies its data into a padded buffer, which costs one more start of its threads. If nothing else reads
the data, and a kernel with an epilogue computes it, that kernel writes it with its halo (scheduling/cpu/halo).

The plan of the program decides (`GraphPlan.halo_by_producer`): it allows types of at most 16 bits (docs/decisions/halo.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import topi
from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import BROADCAST, OUT_ELEMWISE, constructor
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import rewrite, users
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.rewriting import card_of, is_op, same_shape, static_shape, tensor_of, typed, typed_pass
from tilewright.scheduling import KernelPlan
from tilewright.scheduling.graph_plan import GraphPlan, graph_plan
from tilewright.topi.utils import get_pad_tuple

Padding = tuple[tuple[int, int], tuple[int, int]]
"""(before, after) of rows, and of columns."""


def WriteHalos() -> Pass:
    """Make the producer write the halo of a convolution's input, for types of at most 16 bits on channel blocks, if
    nothing else reads the input.
    """

    def run(func: Function, mod: IRModule) -> Function:
        plan = graph_plan()
        if plan is None:
            return func
        with KernelPlan(plan.target):
            return write_halos(func, plan)

    return typed_pass("WriteHalos", 3, run)


def write_halos(func: Function, plan: GraphPlan) -> Function:
    """The function with halos written by producers, if the plan decides so."""
    used = users([func])
    found: dict[Expr, Padding] = {}
    for data, readers in used.items():
        paddings = {padding_of(r) if r.args and r.args[0] is data else None for r in readers if isinstance(r, Call)}
        padding = paddings.pop() if len(paddings) == 1 and all([isinstance(r, Call) for r in readers]) else None
        if padding is not None and ends_kernel(data, used) and _by_producer(readers, plan):
            found[data] = padding
    made: dict[Expr, Expr] = {}

    def change(old: Expr, new: Expr) -> Expr | None:
        if not isinstance(old, Call) or not old.args or old.args[0] not in found or padding_of(old) is None:
            return None
        assert isinstance(new, Call)
        data = new.args[0]
        if data not in made:
            rows, columns = found[old.args[0]]
            made[data] = typed(constructor("nn.pad")(data, ((0, 0), (0, 0), rows, columns, (0, 0))))
        card = card_of(old)
        return typed(Call(new.op, (made[data], *new.args[1:]), card.replace(padding=(0, 0)), new.given_types, new.span))

    return rewrite(func, change) if found else func


def _by_producer(readers: Sequence[Expr], plan: GraphPlan) -> bool:
    """Whether the producer writes the halo for all convolutions that read its result."""
    found = [(card_of(r, Convolution), [tensor_of(a) for a in r.args]) for r in readers if isinstance(r, Call)]
    return all([plan.forms.halo_by_producer(card.problem(*types), types[0].dtype.bits) for card, types in found])


def padding_of(call: Call) -> Padding | None:
    """The halo that a convolution on channel blocks with static dimensions reads; None for other calls, and for convolutions that read
    beyond their padding."""
    if not is_op(call, "nn.contrib_conv2d_NCHWc"):
        return None
    card = card_of(call, Convolution)
    operands = [(static_shape(a), str(tensor_of(a).dtype)) for a in call.args]
    if any([s is None for s, _ in operands]) or len(operands[0][0] or ()) != 5 or "w" in card.kernel_layout:
        return None
    (top, left), (bottom, right) = get_pad_tuple(card.padding, (0, 0))
    dtype = str(tensor_of(call).dtype)
    if min(top, left, bottom, right) < 0 or max(top, left, bottom, right) == 0:
        return None
    whole: Any = topi.nn.reads_only_padding
    if not whole(*operands, card.strides, card.padding, card.dilation, card.groups, dtype):
        return None
    return (top, bottom), (left, right)


def ends_kernel(e: Expr, used: dict[Expr, list[Expr]]) -> bool:
    """Whether a value ends the epilogue of an operator that has one: intermediate values are read once, element by element."""
    shape = static_shape(e)
    while isinstance(e, Call) and shape is not None and static_shape(e) == shape:
        kind = card_of(e).fuse
        if kind == OUT_ELEMWISE:
            return True
        inputs = [a for a in e.args if isinstance(a, Call) and same_shape(a, e)]
        if kind > BROADCAST or not inputs or len(used[inputs[0]]) > 1:
            return False
        e = inputs[0]
    return False
