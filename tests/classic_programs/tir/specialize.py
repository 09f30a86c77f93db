from tvm import tir
from tvm.script import tir as T


@T.prim_func
def copy(a: T.handle, b: T.handle):
    m = T.int32()
    A = T.match_buffer(a, (m, 64))
    B = T.match_buffer(b, (m, 64))
    for i, j in T.grid(m, 64):
        with T.block("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


a, _ = copy.params
fixed = copy.specialize({a: tir.decl_buffer((128, 64))})
text = fixed.script()
assert 'A: T.Buffer((128, 64), "float32")' in text
assert "for i, j in T.grid(128, 64):" in text


@T.prim_func
def sized(a: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,))
    for i in range(n):
        A[i] = 0.0


assert 'A: T.Buffer((16,), "float32")' in sized.specialize({sized.params[1]: 16}).script()
try:
    copy.specialize({a: tir.decl_buffer((128, 65))})
except ValueError:
    pass
else:
    raise AssertionError("65 is not 64")
