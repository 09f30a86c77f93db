import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "main"})
        for i in range(4):
            B[i] = Module.square(A[i])

    @T.prim_func(private=True)
    def square(x: T.float32) -> T.float32:
        T.ret(x * x)


f = tvm.build(Module, target="llvm")
a = np.arange(4, dtype="float32")
b = tvm.nd.empty((4,))
f["main"](tvm.nd.array(a), b)
np.testing.assert_array_equal(b.numpy(), a * a)
assert "square(A[i]" in Module.script()
