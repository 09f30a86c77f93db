"""ChangeBatch and recast: change the batch size of a network, or the types of its heavy layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.ir import IRModule, TensorType
from tilewright.ir.transform import PassContext
from tilewright.ir.transform import function_pass_of as _function_pass_of
from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import Dim, tensor
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import ExprMutator, substitute
from tilewright.relay.rewriting import card_of, is_op
from tilewright.relay.typing.infer_type import infer_types
from tilewright.support.errors import TVMError


@_function_pass_of(Function)(opt_level=1, name="ChangeBatch")
class ChangeBatch:
    """Change the batch size of parameters. `data` maps each parameter (Var) to its batch axis."""

    def __init__(self, data: Mapping[Var, int], batch_size: int = 16) -> None:
        self.data, self.batch_size = dict(data), int(batch_size)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        table: dict[Var, Var] = {}
        for p in func.params:
            if p not in self.data:
                continue
            t = p.type_annotation
            axis = self.data[p]
            if not isinstance(t, TensorType) or not -len(t.shape) <= axis < len(t.shape):
                raise TVMError(f"ChangeBatch: %{p.name_hint} has no axis {axis}; its type is {t}")
            shape: list[Dim] = list(t.shape)
            shape[axis] = self.batch_size
            table[p] = Var(p.name_hint, t.replace(shape=tuple(shape)), p.span)
        if not table:
            return func
        body = substitute(fresh_calls(func.body), table)
        return Function([table.get(p, p) for p in func.params], body, None, func.type_params, func.attrs, func.span)


class _Fresh(ExprMutator):
    """Copies calls, so that their types are inferred anew."""

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        return Call(new.op, new.args, new.attrs, new.given_types, new.span)


def fresh_calls(e: Expr) -> Expr:
    """`e` with copies of its calls that have no types yet."""
    return _Fresh().visit(e)


class _Recast(ExprMutator):
    def __init__(self, dtype: str, out_dtype: str, ops: Sequence[str], skip: Sequence[int]) -> None:
        super().__init__()
        self.dtype, self.out_dtype, self.ops = dtype, out_dtype, tuple(ops)
        self.skip = set(skip)
        self.layer = 0

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if not is_op(call, *self.ops):
            return new
        number = self.layer
        self.layer += 1
        if number in self.skip:
            return new
        args = tuple([constructor("cast")(a, self.dtype) for a in new.args])
        card = card_of(call)
        attrs = card.replace(out_dtype=self.out_dtype) if hasattr(card, "out_dtype") else card
        done: Expr = Call(new.op, args, attrs, (), new.span)
        was = str(tensor(call.checked_type).dtype)
        return done if was == self.out_dtype else constructor("cast")(done, was)


def recast(
    expr: Function,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] | None = None,
) -> Function:
    """Make the operators `ops` (nn.conv2d by default) compute on `dtype` and accumulate in `out_dtype`, and cast their
    results back. `skip_layers`: numbers of operators to leave alone, in program order; negative ones count from the
    end.
    """
    infer_types(expr)
    names = list(ops) if ops else ["nn.conv2d"]
    layers = 0

    class Count(ExprMutator):
        def visit_call(self, call: Call) -> Expr:
            nonlocal layers
            layers += is_op(call, *names)
            return super().visit_call(call)

    Count().visit(expr)
    skip = [s % layers if s < 0 else s for s in skip_layers or ()] if layers else []
    new = _Recast(dtype, out_dtype, names, skip).rewritten_function(expr)
    if new is not expr:
        new = new.replace(ret_type=None)
    infer_types(new)
    return new


__all__ = ["ChangeBatch", "fresh_calls", "recast"]
