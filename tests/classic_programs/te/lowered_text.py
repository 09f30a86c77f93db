import tvm
from tvm import te

A = te.placeholder((16, 8), name="A")
B = te.compute((16, 8), lambda i, j: A[i, j] * 2.0, name="B")
s = te.create_schedule(B.op)
xo, xi = s[B].split(B.op.axis[0], nparts=4)
fused = s[B].fuse(xi, B.op.axis[1])
s[B].unroll(fused)
mod = tvm.lower(s, [A, B], name="double", simple_mode=True)
text = mod.script()
assert 'def double(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32")):' in text
assert "for i_outer in range(4):" in text
assert "for i_inner_j_fused in T.unroll(32)" in text
assert 'T.func_attr({"from_legacy_te_schedule": T.bool(True)' in text
