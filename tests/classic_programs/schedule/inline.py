import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), D: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8))
    C = T.alloc_buffer((8, 8))
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 2.0
    for i, j in T.grid(8, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vj, vi] - 3.0


sch = tir.Schedule(f)
sch.compute_inline("B")
assert "C[vi, vj] = (A[vi, vj] + T.float32(1)) * T.float32(2)" in sch.mod.script()
sch.reverse_compute_inline("D")
text = sch.mod.script()
assert "D[vj, vi] = (A[vi, vj] + T.float32(1)) * T.float32(2) - T.float32(3)" in text
assert "alloc_buffer" not in text
try:
    sch.compute_inline("C")
except tir.ScheduleError as error:
    assert isinstance(error, tvm.TVMError)
else:
    raise AssertionError("inlined an output")
