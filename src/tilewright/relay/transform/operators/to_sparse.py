"""DenseToSparse, Conv2dToSparse, Conv2dToSparse2: products by mostly zero weights read only the nonzero ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass
from tilewright.relay.analysis.sparse import check_kernel, is_pointwise, to_bsr, weight_matrix, worth
from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import tensor, tensor_type
from tilewright.relay.expr import Call, Expr, Function, Var, const
from tilewright.relay.functor import ExprMutator
from tilewright.relay.op.convolution import conv
from tilewright.relay.rewriting import card_of, constant_of, is_op, rewrite_calls, typed_pass
from tilewright.support.errors import TVMError


class _Sparse(ExprMutator):
    """Replaces calls of one operator on parameters with these names by its sparse form on three parameters each."""

    def __init__(
        self,
        op: str,
        names: Sequence[str],
        shapes: Sequence[Sequence[int]],
        made: Callable[[Call, Expr, tuple[Var, ...]], Expr],
        wanted: Callable[[Call], bool],
    ) -> None:
        super().__init__()
        if len(names) != len(shapes):
            raise TVMError(
                f"there must be a shape for each weight, but there are {len(names)} weights and {len(shapes)} shapes"
            )
        self.op, self.made, self.wanted = op, made, wanted
        self.shapes = {str(n): [int(d) for d in s] for n, s in zip(names, shapes, strict=True)}
        self.parts: dict[Var, tuple[Var, ...]] = {}

    def visit_call(self, call: Call) -> Expr:
        weight = call.args[1] if is_op(call, self.op) else None
        if not isinstance(weight, Var) or weight not in self.parts or not self.wanted(call):
            return super().visit_call(call)
        return self.made(call, self.visit(call.args[0]), self.parts[weight])

    def function(self, func: Function) -> Function:
        for p in func.params:
            if p.name_hint in self.shapes:
                *data, indices, indptr = self.shapes[p.name_hint]
                dtype = tensor(p.checked_type).dtype
                forms = (
                    ("data", tuple(data), dtype),
                    ("indices", (indices,), "int32"),
                    ("indptr", (indptr,), "int32"),
                )
                self.parts[p] = tuple([Var(f"{p.name_hint}.{part}", tensor_type(shape, t)) for part, shape, t in forms])
        if not self.parts:
            return func
        body = self.visit(func.body)
        params = [q for p in func.params for q in self.parts.get(p, (p,))]
        return Function(params, body, None, func.type_params, func.attrs, func.span)


def DenseToSparse(weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]]) -> Pass:
    """Replace nn.dense by parameters with these names by nn.sparse_dense with the parameters NAME.data, NAME.indices
    and NAME.indptr. `relay.analysis.sparse_dense.process_params` computes their shapes.
    """

    def made(call: Call, data: Expr, parts: tuple[Var, ...]) -> Expr:
        return constructor("nn.sparse_dense")(data, parts)

    def run(f: Function, mod: IRModule) -> Function:
        return _Sparse("nn.dense", weight_name, weight_shape, made, lambda call: True).function(f)

    return typed_pass("DenseToSparse", 4, run)


def Conv2dToSparse(
    weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]], layout: str = "NHWC", kernel_size: int = 1
) -> Pass:
    """Replace nn.conv2d with 1 x 1 kernels by parameters with these names by nn.sparse_conv2d, as DenseToSparse does."""
    check_kernel(kernel_size)

    def made(call: Call, data: Expr, parts: tuple[Var, ...]) -> Expr:
        return constructor("nn.sparse_conv2d")(data, parts, layout, (1, 1))

    def wanted(call: Call) -> bool:
        return card_of(call, conv.conv2d).data_layout == layout and is_pointwise(call)

    def run(f: Function, mod: IRModule) -> Function:
        return _Sparse("nn.conv2d", weight_name, weight_shape, made, wanted).function(f)

    return typed_pass("Conv2dToSparse", 4, run)


def Conv2dToSparse2(layout: str, kernel_size: int, blocksize: tuple[int, int], sparsity_threshold: float) -> Pass:
    """Replace nn.conv2d with constant 1 x 1 kernels by nn.sparse_conv2d with blocks of `blocksize`, if at least a share
    of `sparsity_threshold` of the weights are zeros.
    """
    check_kernel(kernel_size)
    block = (int(blocksize[0]), int(blocksize[1]))

    def rule(call: Call) -> Expr | None:
        if not is_op(call, "nn.conv2d") or card_of(call, conv.conv2d).data_layout != layout or not is_pointwise(call):
            return None
        weight = constant_of(call.args[1])
        if weight is None:
            return None
        matrix = weight_matrix(weight, layout)
        if not worth(matrix, block, sparsity_threshold):
            return None
        parts = [const(p) for p in to_bsr(matrix, block)]
        return constructor("nn.sparse_conv2d")(call.args[0], parts, layout, (1, 1))

    return typed_pass("Conv2dToSparse2", 5, lambda f, mod: rewrite_calls(f, rule))


__all__ = ["Conv2dToSparse", "Conv2dToSparse2", "DenseToSparse"]
