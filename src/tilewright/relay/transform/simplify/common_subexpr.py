"""EliminateCommonSubexpr: merges equal calls on the same operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilewright.ir import Attrs, Op
from tilewright.ir.transform import Pass
from tilewright.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem
from tilewright.relay.functor import ExprMutator
from tilewright.relay.rewriting import card_of, typed, typed_pass


def attrs_key(attrs: Attrs | None) -> Hashable:
    """A hashable value that is equal for equal attributes."""
    if attrs is None:
        return None
    return (type(attrs), *[_frozen(getattr(attrs, f.name)) for f in attrs._fields])


def _frozen(value: object) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple([_frozen(v) for v in value])
    # The type is part of the key, since 1 == 1.0 == True in Python.
    return (type(value), value) if value.__hash__ is not None else id(value)


class _Merge(ExprMutator):
    def __init__(self, skip: Callable[[Expr], bool] | None) -> None:
        super().__init__()
        self.skip = skip
        self.known: dict[Hashable, Expr] = {}

    def once(self, key: Hashable, e: Expr) -> Expr:
        return typed(self.known.setdefault(key, e))

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if type(new) is not Call or type(new.op) is not Op or not card_of(new).pure or (self.skip and self.skip(new)):
            return new
        return self.once((new.op, new.args, attrs_key(new.attrs)), new)

    def visit_tuple(self, tup: Tuple) -> Expr:
        new = super().visit_tuple(tup)
        return self.once((Tuple, new.fields), new) if type(new) is Tuple else new

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        new = super().visit_tuple_getitem(op)
        return self.once((new.tuple_value, new.index), new) if type(new) is TupleGetItem else new

    def visit_constant(self, const: Constant) -> Expr:
        if const.data.nbytes > 1 << 12:
            return const
        return self.once((const.data.dtype.name, const.data.shape, const.data.tobytes()), const)


def EliminateCommonSubexpr(fskip: Callable[[Expr], bool] | None = None) -> Pass:
    """Merge equal pure calls. Calls for which `fskip(call)` is true are left alone."""
    return typed_pass("EliminateCommonSubexpr", 3, lambda f, mod: _Merge(fskip).rewritten_function(f))
