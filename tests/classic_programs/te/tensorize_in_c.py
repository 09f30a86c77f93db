"""A tensor intrinsic written in C: rank-one updates of a tile, with a reset, compiled to LLVM IR and linked by pragma."""

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.contrib import clang, utils
from tvm.topi.utils import get_const_tuple

CODE = """
extern "C" int tile_zero(float* c, int rows, int columns, int stride) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) c[i * stride + j] = 0.0f;
  return 0;
}
extern "C" int tile_update(float* c, const float* a, const float* b, int rows, int columns, int depth, int sc, int sa, int sb) {
  for (int k = 0; k < depth; ++k)
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) c[i * sc + j] += a[i * sa + k] * b[k * sb + j];
  return 0;
}
"""
M, N, K, ROWS, COLUMNS, DEPTH = 24, 32, 20, 4, 8, 5


def tile_product(rows, columns, depth):
    a = te.placeholder((rows, depth), name="a")
    b = te.placeholder((depth, columns), name="b")
    k = te.reduce_axis((0, depth), name="k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    views = {}
    for t in (a, b, c):
        strides = [te.var(f"{t.op.name}_stride"), 1]
        views[t] = tvm.tir.decl_buffer(t.shape, t.dtype, name=t.op.name.upper(), offset_factor=1, strides=strides)

    def calls(ins, outs):
        aa, bb, cc = *ins, outs[0]

        def emitted(name, *arguments):
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", name, *arguments))
            return ib.get()

        strides = (cc.strides[0], aa.strides[0], bb.strides[0])
        pointers = (cc.access_ptr("rw"), aa.access_ptr("r"), bb.access_ptr("r"))
        update = emitted("tile_update", *pointers, rows, columns, depth, *strides)
        reset = emitted("tile_zero", cc.access_ptr("w"), rows, columns, cc.strides[0])
        return update, reset, update

    return te.decl_tensor_intrin(c.op, calls, binds=views, name="tile_product")


A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
k = te.reduce_axis((0, K), name="k")
C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

s = te.create_schedule(C.op)
i, j = C.op.axis
io, jo, ii, ji = s[C].tile(i, j, ROWS, COLUMNS)
ko, ki = s[C].split(C.op.reduce_axis[0], factor=DEPTH)
s[C].reorder(io, jo, ko, ii, ji, ki)
s[C].tensorize(ii, tile_product(ROWS, COLUMNS, DEPTH))
text = str(tvm.lower(s, [A, B, C], simple_mode=True))
assert text.count("tile_update") == 1 and text.count("tile_zero") == 1

folder = utils.tempdir()
code = clang.create_llvm(CODE, output=folder.relpath("tile.ll"))
assert "define" in code and folder.listdir() == ["tile.ll"]
s[C].pragma(io, "import_llvm", code)
f = tvm.build(s, [A, B, C], target="llvm", name="product")
dev = tvm.device("cpu", 0)
a, b = [np.random.uniform(size=get_const_tuple(t.shape)).astype(t.dtype) for t in (A, B)]
c = tvm.nd.array(np.full(get_const_tuple(C.shape), np.nan, dtype=C.dtype), dev)
f(tvm.nd.array(a, dev), tvm.nd.array(b, dev), c)
tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
