import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Matmul:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, [16, 16])
        B = T.match_buffer(b, [16, 16])
        C = T.match_buffer(c, [16, 16])
        for i, j, k in T.grid(16, 16, 16):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


f = tvm.build(Matmul, target="llvm")
a, b = np.random.rand(2, 16, 16).astype("float32")
c = tvm.nd.empty((16, 16))
f(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
assert Matmul["main"].attrs["global_symbol"] == "main"
text = Matmul.script()
assert text.startswith(
    "# from tvm.script import ir as I\n# from tvm.script import tir as T\n\n@I.ir_module\nclass Module:"
)
assert 'vi, vj, vk = T.axis.remap("SSR", [i, j, k])' in text
again = tvm.script.from_source(text)
tvm.ir.assert_structural_equal(again, Matmul)
