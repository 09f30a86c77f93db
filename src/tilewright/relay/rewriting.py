"""Base of the rewriting passes: a typed post-order rewrite over every function of a module, and small matchers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TypeGuard, TypeVar, overload

import numpy as np

from tilewright.ir import DataType, IRModule, Op, TensorType, TupleType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.cards.card import OpCard, find_card
from tilewright.relay.cards.relations import known_equal
from tilewright.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem
from tilewright.relay.functor import ExprMutator, children, users
from tilewright.relay.typing.infer_type import infer_module, infer_types
from tilewright.relay.typing.open_types import set_type, type_of
from tilewright.support.errors import OpError

Rule = Callable[[Call], Expr | None]
C = TypeVar("C", bound=OpCard)
E = TypeVar("E", bound=Expr)
FunctionRewrite = Callable[[Function, IRModule], Function]
_module: ContextVar[IRModule | None] = ContextVar("module", default=None)
"""The module of the function that a pass rewrites: where the type of a part is asked for, the part may call its functions."""


def typed_pass(
    name: str, opt_level: int, run: FunctionRewrite, needs: Sequence[str] = (), gives: Sequence[str] = ()
) -> Pass:
    """A pass that rewrites each relay function (not the primitive ones) of a module whose types are known."""

    def run_module(mod: IRModule, ctx: PassContext) -> IRModule:
        from tilewright.relay.expr import Function

        mod = infer_module(mod)
        outer = _module.set(mod)
        try:
            functions = {
                g: run(f, mod) if isinstance(f, Function) and not f.is_primitive else f
                for g, f in mod.functions.items()
            }
        finally:
            _module.reset(outer)
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(opt_level, name, (), needs, gives), run_module)


class CallRewriter(ExprMutator):
    """Rewrites calls of operators bottom-up with typed operands; `rule` gets each call and returns another form or None,
    and is asked again about what it returned. `counts`, where given, is kept true for rewritten calls."""

    def __init__(self, rule: Rule, counts: dict[Expr, int] | None = None) -> None:
        super().__init__()
        self.rule, self.counts = rule, counts

    def visit_call(self, call: Call) -> Expr:
        new = self.settle(call)
        if self.counts is not None and new is not call:
            self.counts[new] = max(self.counts.get(new, 0), self.counts.get(call, 1))
        return new

    def settle(self, call: Call) -> Expr:
        """The call with rewritten operands, as `rule` wants it."""
        made = self.rewritten_call(call)
        if type(call.op) is not Op:
            return same_result(made, call)
        if made is not call:
            keep_type(made, call)
        new: Expr = made
        for _ in range(64):
            if type(new) is not Call or type(new.op) is not Op:
                return typed(new)
            typed(new)
            found = self.rule(new)
            if found is None or found is new:
                return new
            new = with_span(found, new)
        return typed(new)

    def visit_tuple(self, tup: Tuple) -> Expr:
        return typed(super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        value = self.visit(op.tuple_value)
        return value.fields[op.index] if isinstance(value, Tuple) else typed(op.replace(tuple_value=value))

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else same_parts(super().visit_function(fn), fn)

    def visit_if(self, ite: If) -> Expr:
        return same_parts(super().visit_if(ite), ite)

    def visit_let(self, let: Let) -> Expr:
        result = new = super().visit_let(let)
        chain: list[tuple[Expr, Expr]] = []
        old: Expr = let
        while type(new) is Let and type(old) is Let and new is not old:
            chain.append((new, old))
            new, old = new.body, old.body
        for pair in reversed(chain):
            same_parts(*pair)
        return result


def rewrite_calls(func: Function, rule: Rule, counts: dict[Expr, int] | None = None) -> Function:
    """The function with `rule` applied everywhere."""
    return CallRewriter(rule, counts).rewritten_function(func)


def typed(e: E) -> E:
    """`e`, its type inferred (operands usually are already, so this is one step)."""
    if type_of(e) is None and not _applied(e):
        infer_types(e, _module.get())
    return e


def _applied(e: Expr) -> bool:
    """Types constants, tuples, and calls of operators by their cards alone, where the operands' types are known. Whatever else
    is left to inference, which can solve types and reports findings."""
    if type(e) is Constant:
        set_type(e, _constant_type(e))
        return True
    if type(e) is Tuple:
        parts = _types(e.fields)
        if parts is not None:
            set_type(e, TupleType(tuple(parts)))
        return parts is not None
    if type(e) is not Call or type(e.op) is not Op or not isinstance(e.attrs, OpCard):
        return False
    types = _types(e.args)
    if types is None:
        return False
    try:
        found = e.attrs.infer(*types)
    except OpError:
        # Inference finds it again, and says where.
        return False
    if type(found) not in (TensorType, TupleType):
        return False
    set_type(e, found)
    return True


def _constant_type(c: Constant) -> TensorType:
    return TensorType(c.data.shape, DataType(c.data.dtype.name))


def _types(operands: Sequence[Expr]) -> list[Type] | None:
    """The types of operands; None unless all are known."""
    types = []
    for a in operands:
        t = type_of(a)
        if t is None:
            if type(a) is not Constant:
                return None
            t = set_type(a, _constant_type(a))
        types.append(t)
    return types


def keep_type(new: Call, old: Call) -> None:
    """Gives a call that only has other operands the old one's type, where theirs are the same: inference would find it again."""
    known = type_of(old)
    if known is None or new.op is not old.op or type(new.op) is not Op:
        return
    for a, b in zip(new.args, old.args, strict=True):
        t, before = type_of(a), type_of(b)
        if t is None or before is None or not same_type(t, before):
            return
    set_type(new, known)


def same_result(new: Call, old: Call) -> Call:
    """A call of a function with other arguments: what it returns does not change with how these are computed. A function that stands in
    the call has its type first: nothing below what has a type is without one."""
    known = type_of(old)
    if known is not None and (type(new.op) is GlobalVar or type_of(new.op) is not None):
        set_type(new, known)
    return new


def same_parts(new: Expr, old: Expr) -> Expr:
    """A function, branch or binding made of other parts has the type that it had, where theirs are the same."""
    known = type_of(old)
    if new is old or known is None or type(new) is not type(old):
        return new
    for a, b in zip(children(new), children(old), strict=True):
        t, before = type_of(a), type_of(b)
        if type(a) is not GlobalVar and (t is None or before is None or not same_type(t, before)):
            return new
    set_type(new, known)
    return new


def with_span(new: Expr, old: Expr) -> Expr:
    """The source of a replaced call goes to the calls that replace it, where they have none."""
    span = getattr(old, "span", None)
    if span is None or type(new) is not Call or new.span is not None:
        return new
    args = tuple([with_span(a, old) if type(a) is Call and type_of(a) is None else a for a in new.args])
    return Call(new.op, args, new.attrs, new.given_types, span)


def is_op(e: Expr | None, *keys: str) -> TypeGuard[Call]:
    """Whether `e` is a call of one of these operators."""
    return type(e) is Call and type(e.op) is Op and e.op.name in keys


@overload
def card_of(e: Call) -> OpCard: ...
@overload
def card_of(e: Call, kind: type[C]) -> C: ...
def card_of(e: Call, kind: type[OpCard] = OpCard) -> OpCard:
    """The attributes of an operator call: a card, of the class `kind`. Raises TypeError for one of another class."""
    card = e.attrs if isinstance(e.attrs, OpCard) else find_card(e.operator.name)()
    if not isinstance(card, kind):
        raise TypeError(f"attributes of {kind.__name__} were expected, but {e.operator.name} has {type(card).__name__}")
    return card


def pads_image(e: Expr) -> TypeGuard[Call]:
    """Whether a value is (N, C, H, W) with a border of one number around its images."""
    if not is_op(e, "nn.pad") or card_of(e)["pad_mode"] != "constant" or len(tensor_of(e).shape) != 4:
        return False
    images, channels, *_ = card_of(e)["pad_width"]
    return not any([*images, *channels])


def constant_of(e: Expr) -> np.ndarray | None:
    """The values of a constant."""
    return e.value if type(e) is Constant else None


def scalar_of(e: Expr) -> float | int | None:
    """The number, when `e` is a constant of one element."""
    if type(e) is Constant and e.data.size == 1:
        number: float | int = e.value.reshape(-1)[0].item()
        return number
    return None


def tensor_of(e: Expr) -> TensorType:
    t = typed(e).checked_type
    assert isinstance(t, TensorType)
    return t


def tuple_type_of(e: Expr) -> TupleType:
    t = typed(e).checked_type
    assert isinstance(t, TupleType)
    return t


def static_shape(e: Expr) -> tuple[int, ...] | None:
    """The shape as ints; None when a dimension is symbolic or `e` is not a tensor."""
    t = typed(e).checked_type
    if not isinstance(t, TensorType):
        return None
    try:
        return t.concrete_shape
    except TypeError:
        return None


def same_shape(a: Expr, b: Expr) -> bool:
    """Whether two tensors surely have one shape; dimensions may be symbols, but something must be known of each."""
    x, y = typed(a).checked_type, typed(b).checked_type
    if not isinstance(x, TensorType) or not isinstance(y, TensorType) or len(x.shape) != len(y.shape):
        return False
    return all([known_equal(p, q) for p, q in zip(x.shape, y.shape, strict=True)])


def same_type(a: Type, b: Type) -> bool:
    return a is b or a == b


def use_counts(func: Function) -> dict[Expr, int]:
    """How often each expression of a function is used; its result counts once more."""
    return {e: len(by) for e, by in users([func]).items()}
