"""Instructions of the accelerator as tensor intrinsics."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.tir import call_extern, decl_buffer
from tilewright.vta.names import GEMM, RESET


def gemm(env: Any, mock: bool = False) -> Any:
    """A step of a product, for `Stage.tensorize`: out[b, o] += sum_i inp[b, i] * wgt[o, i], of shapes (BATCH, BLOCK_OUT),
    (BATCH, BLOCK_IN) and (BLOCK_OUT, BLOCK_IN), in the memories acc, inp and wgt.

    mock: without the instruction, so that a schedule can be tried whose products do nothing."""
    shapes = {"wgt": (env.BLOCK_OUT, env.BLOCK_IN), "inp": (env.BATCH, env.BLOCK_IN), "acc": (env.BATCH, env.BLOCK_OUT)}
    dtypes = {"wgt": env.wgt_dtype, "inp": env.inp_dtype, "acc": env.acc_dtype}
    wgt, inp = (te.placeholder(shapes[m], dtypes[m], name=m) for m in ("wgt", "inp"))
    k = te.reduce_axis((0, env.BLOCK_IN), name="k")
    acc = te.compute(
        shapes["acc"],
        lambda b, o: te.sum(inp[b, k].astype(env.acc_dtype) * wgt[o, k].astype(env.acc_dtype), axis=[k]),
        name="acc",
    )
    scopes = {"wgt": env.wgt_scope, "inp": env.inp_scope, "acc": env.acc_scope}
    sizes = {m: rows * columns for m, (rows, columns) in shapes.items()}
    buffers = {
        m: decl_buffer(shapes[m], dtypes[m], m, scope=scopes[m], offset_factor=sizes[m], data_alignment=sizes[m])
        for m in shapes
    }

    def body(ins: Any, outs: Any) -> Any:
        source, weight = ins
        (out,) = outs
        reset = call_extern("int32", RESET, out.access_ptr("w"))
        if mock:
            return reset, reset, reset
        step = call_extern("int32", GEMM, out.access_ptr("rw"), source.access_ptr("r"), weight.access_ptr("r"))
        return None, reset, step

    return te.decl_tensor_intrin(
        acc.op, body, name="GEMM", binds={wgt: buffers["wgt"], inp: buffers["inp"], acc: buffers["acc"]}
    )


__all__ = ["gemm"]
