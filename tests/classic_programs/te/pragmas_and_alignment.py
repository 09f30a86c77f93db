import tvm
from tvm import te

A = te.placeholder((64, 64), name="A")
B = te.compute((64, 64), lambda i, j: A[i, j] + 1.0, name="B")
C = te.compute((64, 64), lambda i, j: B[j, i], name="C")
s = te.create_schedule(C.op)
s[B].storage_align(B.op.axis[0], 64, 1)
s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 16)
lowered = tvm.lower(s, [A, C])
text = lowered.script()
assert "T.allocate([4160]" in text, text
