import torch
import tvm
from tvm.contrib.torch import as_torch, optimize_torch
from tvm.script import tir as T


@as_torch
@T.prim_func
def scaled_sum(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (16,), "float32")
    B = T.match_buffer(b, (16,), "float32")
    C = T.match_buffer(c, (16,), "float32")
    for i in range(16):
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = A[vi] * T.float32(2) + B[vi]


a, b, c = torch.rand(16), torch.rand(16), torch.zeros(16)
scaled_sum(a, b, c)
torch.testing.assert_close(c, a * 2 + b)
assert isinstance(scaled_sum, torch.nn.Module)


@as_torch
@tvm.script.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in T.serial(8):
            B[i] = T.max(A[i], T.float32(0))


x, y = torch.randn(8), torch.zeros(8)
Module(x, y)
torch.testing.assert_close(y, torch.relu(x))


def head(x):
    return torch.softmax(torch.relu(x) + 1, dim=-1)


with tvm.transform.PassContext(opt_level=3):
    fast = optimize_torch(head, torch.rand(3, 5))
z = torch.rand(3, 5)
torch.testing.assert_close(fast(z), head(z), rtol=1e-4, atol=1e-6)
