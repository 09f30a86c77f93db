"""WidenKernels: kernels on 16-bit floats compute in float32. They round values only where they store them."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import IRModule, Op, TensorType, TupleType, Type
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.cards.card import OPAQUE, OpCard, constructor
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, const
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.rewriting import card_of, is_op, tensor_of, typed
from tilewright.relay.typing.infer_type import infer_module

WIDE = "float32"
NARROW = frozenset(("float16", "bfloat16"))
KEEP = frozenset(
    (
        "annotation.stop_fusion", "batch_to_space_nd", "broadcast_to", "broadcast_to_like", "concatenate", "copy", "expand_dims", "gather",
        "gather_nd", "layout_transform", "nn.adaptive_max_pool1d", "nn.adaptive_max_pool2d", "nn.adaptive_max_pool3d",
        "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.batch_flatten", "nn.batch_to_space_nd", "nn.depth_to_space",
        "nn.global_max_pool2d", "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "nn.mirror_pad", "nn.pad",
        "nn.space_to_batch_nd", "nn.space_to_depth", "repeat", "reshape", "reshape_like", "reverse", "reverse_sequence", "slice_like",
        "split", "squeeze", "stack", "strided_slice", "take", "tile", "transpose", "where",
    )
)  # fmt: skip
"""Operators that move or select values, or whose computes already accumulate in float32. They keep the type of their values."""


def is_narrow(t: Type | None) -> bool:
    """Whether a value is a 16-bit float tensor, or a tuple with one."""
    if isinstance(t, TupleType):
        return any([is_narrow(f) for f in t.fields])
    return isinstance(t, TensorType) and str(t.dtype) in NARROW


class _Widen(ExprMutator):
    """Rewrites a value to one of its type, or to one that is not rounded yet."""

    def __init__(self) -> None:
        super().__init__()
        self.casts: dict[tuple[Expr, str], Expr] = {}

    def cast(self, e: Expr, dtype: str) -> Expr:
        """A tensor cast to another float type. Existing casts are skipped: they are exact, or were there only for the types."""
        if isinstance(e, Tuple):
            fields = tuple([self.cast(f, dtype) if _floats(f) else f for f in e.fields])
            return e if all([a is b for a, b in zip(fields, e.fields, strict=True)]) else typed(Tuple(fields, e.span))
        t = typed(e).checked_type
        if isinstance(t, TupleType):
            items = [typed(TupleGetItem(e, i)) for i in range(len(t.fields))]
            return typed(Tuple(tuple([self.cast(f, dtype) if _floats(f) else f for f in items])))
        if not isinstance(t, TensorType) or str(t.dtype) == dtype:
            return e
        if isinstance(e, Constant) and e.data.ndim == 0 and dtype == WIDE:
            return typed(const(e.value.astype(dtype)))
        if (e, dtype) not in self.casts:
            self.casts[e, dtype] = typed(constructor("cast")(e, dtype))
        return self.casts[e, dtype]

    def visit_call(self, call: Call) -> Expr:
        args = [self.visit(a) for a in call.args]
        name = call.operator.name
        card = card_of(call)
        result = call.checked_type
        if name == "cast":
            if not _floats(args[0]) or not _floats(call) or str(tensor_of(call).dtype) not in (*NARROW, WIDE):
                return typed(self.remade(call, args, card))
            # Rounding is delayed until the value is stored.
            return self.cast(args[0], WIDE) if is_narrow(typed(args[0]).checked_type) else args[0]
        if not any([is_narrow(a.checked_type) for a in call.args]) and not is_narrow(result):
            # Wide operators get operands of their original type.
            return typed(self.remade(call, args, card))
        if name in KEEP:
            if not all([is_narrow(typed(a).checked_type) or not _floats(a) for a in args]):
                args = [self.cast(a, WIDE) if _floats(a) else a for a in args]
            return typed(self.remade(call, args, card))
        if name.startswith("nn.") and hasattr(card, "out_dtype"):
            # Products of narrow numbers, accumulated in float32.
            kinds = [a.checked_type for a in call.args]
            args = [
                self.cast(a, str(t.dtype)) if isinstance(t, TensorType) and _floats(a) else a
                for a, t in zip(args, kinds, strict=True)
            ]
            return typed(self.remade(call, args, card.replace(out_dtype=WIDE)))
        wide = [self.cast(a, WIDE) if _floats(a) and _is_single(a) else a for a in args]
        for attribute in ("dtype", "out_dtype"):
            if str(getattr(card, attribute, "")) in NARROW:
                card = card.replace(**{attribute: WIDE})
        return typed(self.remade(call, wide, card))

    def remade(self, call: Call, args: Sequence[Expr], card: OpCard) -> Call:
        if card is call.attrs and all([a is b for a, b in zip(args, call.args, strict=True)]):
            return call
        return Call(call.op, tuple(args), card, call.given_types, call.span)

    def visit_tuple(self, tup: Tuple) -> Expr:
        return typed(super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        value = self.visit(op.tuple_value)
        return value.fields[op.index] if isinstance(value, Tuple) else typed(op.replace(tuple_value=value))

    def stored(self, e: Expr, t: Type) -> Expr:
        """A result in the type of the function's result."""
        if isinstance(t, TupleType):
            found = typed(e).checked_type
            parts = e.fields if isinstance(e, Tuple) else [typed(TupleGetItem(e, i)) for i in range(len(t.fields))]
            if str(found) == str(t):
                return e
            return typed(Tuple(tuple([self.stored(p, f) for p, f in zip(parts, t.fields, strict=True)])))
        if not isinstance(t, TensorType) or not _floats(e):
            return e
        if is_op(e, "nn.pad"):
            # The padding has the stored type, in which its constant is exact.
            data, value = e.args
            padding = typed(const(value.value, str(t.dtype))) if isinstance(value, Constant) else value
            return typed(self.remade(e, [self.cast(data, str(t.dtype)), self.cast(padding, str(t.dtype))], card_of(e)))
        return self.cast(e, str(t.dtype))


def _floats(e: Expr) -> bool:
    """Whether a value is a float tensor, or a tuple with one."""

    def of(t: Type) -> bool:
        if isinstance(t, TupleType):
            return any([of(f) for f in t.fields])
        return isinstance(t, TensorType) and t.dtype.is_float

    return of(typed(e).checked_type)


def _is_single(e: Expr) -> bool:
    """Whether the floats of a value have at most 32 bits."""

    def of(t: Type) -> bool:
        if isinstance(t, TupleType):
            return all([of(f) for f in t.fields])
        return not isinstance(t, TensorType) or not t.dtype.is_float or t.dtype.bits <= 32

    return of(typed(e).checked_type)


def widened(func: Function) -> Function:
    """A primitive function with the same types of parameters and results, and arithmetic in float32."""
    nodes = list(post_order(func.body))
    calls = [n for n in nodes if isinstance(n, Call)]
    if not any([is_narrow(n.checked_type) for n in (*func.params, *calls)]):
        return func
    if any([type(c.op) is not Op or card_of(c).fuse >= OPAQUE for c in calls]):
        return func
    if all([is_op(c, *KEEP) for c in calls]):
        return func
    widen = _Widen()
    body = widen.stored(widen.visit(func.body), func.body.checked_type)
    return func if body is func.body else func.replace(body=body)


class _Kernels(ExprMutator):
    def visit_function(self, fn: Function) -> Expr:
        if not fn.is_primitive:
            return super().visit_function(fn)
        return fn if "Compiler" in fn.attrs or fn.attrs.get("Extern", 0) else widened(fn)


def WidenKernels() -> Pass:
    """Make primitive functions compute in float32 if they read and write float16 or bfloat16. Sums keep small
    terms, and a chain of operators rounds once, when its result is stored. Products (convolutions, dense) keep the types of
    their operands.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        functions = {
            g: _Kernels().rewritten_function(f) if isinstance(f, Function) and not f.is_primitive else f
            for g, f in mod.functions.items()
        }
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(0, "WidenKernels", (), ("types", "primitive_functions")), run)


__all__ = ["WidenKernels", "widened"]
