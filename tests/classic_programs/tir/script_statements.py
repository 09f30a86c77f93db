import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def mixed(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32"), n: T.int32):
    total = T.alloc_buffer((1,), "int32")
    total[0] = 0
    i = T.alloc_buffer((1,), "int32")
    i[0] = 0
    while i[0] < n:
        total[0] = total[0] + A[i[0]]
        i[0] = i[0] + 1
    for j in T.serial(10):
        if j < n:
            B[j] = total[0]
        else:
            with T.LetStmt(A[j] * 2) as v:
                B[j] = v + T.if_then_else(j == 9, 100, 0)


f = tvm.build(mixed, target="llvm")
a = np.arange(10, dtype="int32")
b = tvm.nd.empty((10,), "int32")
f(tvm.nd.array(a), b, 4)
np.testing.assert_array_equal(b.numpy(), [6, 6, 6, 6, 8, 10, 12, 14, 16, 118])
text = mixed.script()
assert "while i[0] < n:" in text and "T.if_then_else(j == 9, 100, 0)" in text
