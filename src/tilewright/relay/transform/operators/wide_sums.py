"""WideSums: products of bfloat16 give float32, which is then rounded, where the target has instructions that sum in float32
(dot products or tiles).

    conv2d(x, w): bfloat16   -->   cast(conv2d(x, w, out_dtype="float32"), "bfloat16")

Kernels sum in float32 anyway (`WidenKernels`); said before layouts are chosen, convolutions and dense layers get those of the instruction.
"""

from __future__ import annotations

from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import card_of, constant_of, is_op, rewrite_calls, tensor_of, typed, typed_pass
from tilewright.scheduling.instructions import dot_product, tile_product
from tilewright.target import Target

NARROW, WIDE = "bfloat16", "float32"


def wide_sums(call: Call) -> Expr | None:
    """The product that gives float32, and its rounding; None for other operators, and where there is no instruction."""
    if (
        not is_op(call, "nn.conv2d", "nn.dense", "nn.matmul")
        or len(call.args) != 2
        or constant_of(call.args[1]) is None
    ):
        return None
    if {str(tensor_of(e).dtype) for e in (*call.args, call)} != {NARROW}:
        return None
    target, types = Target.current(True), (NARROW, NARROW, WIDE)
    if dot_product(target, *types) is None and tile_product(target, *types) is None:
        return None
    product = typed(Call(call.op, call.args, card_of(call).replace(out_dtype=WIDE), (), call.span))
    return constructor("cast")(product, NARROW, span=call.span)


def WideSums() -> Pass:
    """Let products of bfloat16 by constants give float32, and round that, where the target sums them in float32 with one instruction."""
    return typed_pass("WideSums", 2, lambda f, mod: rewrite_calls(f, wide_sums), (), ("types",))


__all__ = ["WideSums"]
