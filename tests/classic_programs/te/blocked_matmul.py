import numpy as np
import tvm
import tvm.testing
from tvm import te

M = K = N = 64
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
k = te.reduce_axis((0, K), "k")
packedB = te.compute((N // 16, K, 16), lambda bigN, k, littleN: B[k, bigN * 16 + littleN], name="packedB")
C = te.compute(
    (M, N),
    lambda m, n: te.sum(A[m, k] * packedB[tvm.tir.indexdiv(n, 16), k, tvm.tir.indexmod(n, 16)], axis=k),
    name="C",
)
s = te.create_schedule(C.op)
CachedC = s.cache_write(C, "global")
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], 16, 16)
s[CachedC].compute_at(s[C], no)
mc, nc = s[CachedC].op.axis
(kaxis,) = s[CachedC].op.reduce_axis
ko, ki = s[CachedC].split(kaxis, factor=4)
s[CachedC].reorder(ko, mc, ki, nc)
s[CachedC].vectorize(nc)
s[CachedC].unroll(ki)
s[C].parallel(mo)
bigN, _, littleN = s[packedB].op.axis
s[packedB].vectorize(littleN)
s[packedB].parallel(bigN)
func = tvm.build(s, [A, B, C], target="llvm", name="mmult")
dev = tvm.device("llvm", 0)
a = tvm.nd.array(np.random.rand(M, K).astype("float32"), dev)
b = tvm.nd.array(np.random.rand(K, N).astype("float32"), dev)
c = tvm.nd.array(np.zeros((M, N), dtype="float32"), dev)
func(a, b, c)
tvm.testing.assert_allclose(c.numpy(), np.dot(a.numpy(), b.numpy()), rtol=1e-4)
assert func.time_evaluator(func.entry_name, dev, number=1)(a, b, c).mean > 0
