import tvm
from tvm import te

A = te.placeholder((32,), name="A")
B = te.compute((32,), lambda i: A[i] + 1, name="B")
cases = [
    ("vectorize", "unroll", "T.unroll(32)"),
    ("unroll", "parallel", "T.parallel(32)"),
    ("parallel", "vectorize", "T.Broadcast"),
]
for first, second, word in cases:
    s = te.create_schedule(B.op)
    axis = B.op.axis[0]
    getattr(s[B], first)(axis)
    getattr(s[B], second)(axis)
    assert word in tvm.lower(s, [A, B]).script(), (first, second)
