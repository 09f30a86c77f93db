"""FlexibleShapeDispatch: one function for each of a few sizes of an axis, and a main that selects one at run time.

main(x: (?, 32))  ->  if shape(x)[0] <= 1: main_1(pad(x)) else if shape(x)[0] <= 16: main_16(pad(x)) ... else main_dynamic(x)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.ir import GlobalVar, IRModule, TensorType, TupleType
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import Dim, dims
from tilewright.relay.expr import Call, Expr, Function, If, Tuple, TupleGetItem, Var, const
from tilewright.relay.functor import substitute
from tilewright.relay.transform.recast import fresh_calls
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import TVMError
from tilewright.tir import Any as AnyDim


@module_pass(opt_level=0, name="FlexibleShapeDispatch")
class FlexibleShapeDispatch:
    """Make main for inputs of any size along `axis` run the smallest of `buckets` that fits. If none fits, it runs a
    function compiled for any size.

    buckets: sizes; auto_pad: inputs smaller than the bucket are padded at the end with `pad_value`, and outputs are cropped
    (without it, only sizes equal to a bucket run in it); input_indices: the inputs with the axis (all);
    output_indices: the outputs with it (all); affects_output: False if the outputs do not depend on the size.
    """

    def __init__(
        self,
        buckets: Sequence[int],
        axis: int = 0,
        auto_pad: bool = False,
        pad_value: float | None = None,
        input_indices: Sequence[int] | None = None,
        output_indices: Sequence[int] | None = None,
        affects_output: bool = True,
    ) -> None:
        if not buckets or any([int(b) < 1 for b in buckets]):
            raise ValueError(f"FlexibleShapeDispatch takes sizes of at least 1, but was given {list(buckets)}")
        self.buckets = sorted({int(b) for b in buckets})
        self.axis, self.auto_pad, self.pad_value = axis, auto_pad, 0.0 if pad_value is None else float(pad_value)
        self.input_indices, self.output_indices = input_indices, output_indices
        self.affects_output = affects_output

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        main = mod["main"]
        if not isinstance(main, Function):
            raise TVMError("FlexibleShapeDispatch takes a module whose main is a relay function")
        chosen = list(range(len(main.params))) if self.input_indices is None else [int(i) for i in self.input_indices]
        for i in chosen:
            t = main.params[i].type_annotation if 0 <= i < len(main.params) else None
            if not isinstance(t, TensorType) or not 0 <= self.axis < len(t.shape):
                raise TVMError(f"FlexibleShapeDispatch: input {i} has no axis {self.axis}: {t}")
        functions = dict(mod.functions)
        made: list[tuple[int, GlobalVar]] = []
        for size in self.buckets:
            gvar = GlobalVar(f"main_{size}")
            functions[gvar] = self.sized(main, chosen, size)
            made.append((size, gvar))
        rest = GlobalVar("main_dynamic")
        functions[rest] = self.sized(main, chosen, AnyDim())
        functions[mod.get_global_var("main")] = self.dispatch(main, chosen, made, rest)
        return infer_module(mod.with_functions(functions))

    def sized(self, main: Function, chosen: Sequence[int], size: Dim) -> Function:
        """A copy of main for one size."""
        params = [self.param(p, i in chosen, size) for i, p in enumerate(main.params)]
        table = dict(zip(main.params, params, strict=True))
        attrs = {k: v for k, v in main.attrs.items() if k != "global_symbol"}
        return Function(params, substitute(fresh_calls(main.body), table), None, main.type_params, attrs, main.span)

    def param(self, p: Var, open_: bool, size: Dim) -> Var:
        if not open_:
            return Var(p.name_hint, p.type_annotation, p.span)
        t = self.declared(p)
        shape: list[Dim] = list(t.shape)
        shape[self.axis] = size
        return Var(p.name_hint, t.replace(shape=tuple(shape)), p.span)

    @staticmethod
    def declared(p: Var) -> TensorType:
        """The type that an input of any size is declared with."""
        assert isinstance(p.type_annotation, TensorType)
        return p.type_annotation

    def dispatch(
        self, main: Function, chosen: Sequence[int], made: Sequence[tuple[int, GlobalVar]], rest: GlobalVar
    ) -> Function:
        params = [self.param(p, i in chosen, AnyDim()) for i, p in enumerate(main.params)]
        first = params[chosen[0]]
        size = constructor("take")(constructor("shape_of")(first, dtype="int64"), const(np.int64(self.axis)), axis=0)
        result: Expr = Call(rest, tuple(params))
        for bucket, gvar in reversed(made):
            fits = constructor("less_equal" if self.auto_pad else "equal")(size, const(np.int64(bucket)))
            result = If(fits, self.in_bucket(main, params, chosen, bucket, gvar, size), result)
        return Function(params, result, None, main.type_params, main.attrs, main.span)

    def in_bucket(
        self, main: Function, params: Sequence[Var], chosen: Sequence[int], bucket: int, gvar: GlobalVar, size: Expr
    ) -> Expr:
        args: list[Expr] = list(params)
        for i in chosen:
            args[i] = self.fitted(params[i], bucket, size)
        called: Expr = Call(gvar, tuple(args))
        if not (self.auto_pad and self.affects_output):
            return called
        t = main.body.checked_type
        if isinstance(t, TensorType):
            return self.cut(called, size)
        assert isinstance(t, TupleType)
        fields = t.fields
        chosen_outputs = range(len(fields)) if self.output_indices is None else self.output_indices
        items: list[Expr] = []
        for i in range(len(fields)):
            item: Expr = TupleGetItem(called, i)
            items.append(self.cut(item, size) if i in chosen_outputs else item)
        return Tuple(tuple(items))

    def fitted(self, x: Var, bucket: int, size: Expr) -> Expr:
        """An input of any size, padded or cropped to the bucket's size."""
        t = self.declared(x)
        shape = dims(t)
        if self.auto_pad:
            filled = [bucket if i == self.axis else d for i, d in enumerate(shape)]
            missing = constructor("full")(const(self.pad_value, str(t.dtype)), shape=tuple(filled), dtype=str(t.dtype))
            whole: Expr = constructor("concatenate")(Tuple((x, missing)), axis=self.axis)
        else:
            whole = x
        cut: Expr = constructor("strided_slice")(whole, [0], [bucket], [1], axes=[self.axis])
        # The branch implies the size. The reshape makes it known to the types.
        return constructor("reshape")(cut, tuple([bucket if i == self.axis else 0 for i in range(len(shape))]))

    def cut(self, y: Expr, size: Expr) -> Expr:
        """An output without the part from the padding."""
        end = constructor("reshape")(size, (1,))
        bounds = (const(np.array([0], np.int64)), end, const(np.array([1], np.int64)))
        return constructor("dyn.strided_slice")(y, *bounds, axes=(self.axis,))


__all__ = ["FlexibleShapeDispatch"]
